//! A heap of sources by what is next in them: the least first.

/// A source, and the time of what is next in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Next {
    /// By this first,
    pub(crate) time: u64,
    /// and by the source where that is the same.
    pub(crate) slot: u32,
}

/// The least of those in it is at hand; another may take its place in one step.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    all: Vec<Next>,
}

impl Heap {
    #[inline]
    pub(crate) fn first(&self) -> Option<Next> {
        self.all.first().copied()
    }

    pub(crate) fn all(&self) -> &[Next] {
        &self.all
    }

    pub(crate) fn push(&mut self, next: Next) {
        let mut at = self.all.len();
        self.all.push(next);
        while at > 0 {
            let up = (at - 1) / 2;
            if self.all[up] <= next {
                break;
            }
            self.all[at] = self.all[up];
            at = up;
        }
        self.all[at] = next;
    }

    pub(crate) fn pop(&mut self) -> Option<Next> {
        let last = self.all.pop()?;
        Some(if self.all.is_empty() { last } else { self.replace(last) })
    }

    /// Takes the first and puts another in. The heap is not empty.
    #[inline]
    pub(crate) fn replace(&mut self, next: Next) -> Next {
        let all = &mut self.all[..];
        let first = all[0];
        let mut at = 0;
        loop {
            let mut down = 2 * at + 1;
            if down >= all.len() {
                break;
            }
            if down + 1 < all.len() && all[down + 1] < all[down] {
                down += 1;
            }
            if next <= all[down] {
                break;
            }
            all[at] = all[down];
            at = down;
        }
        all[at] = next;
        first
    }

    /// Takes a source out, wherever it is.
    pub(crate) fn remove(&mut self, slot: u32) {
        let before = std::mem::take(&mut self.all);
        before.into_iter().filter(|next| next.slot != slot).for_each(|next| self.push(next));
    }
}
