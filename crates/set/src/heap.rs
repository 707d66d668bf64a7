//! A heap of sources, ordered by the time of their next item.

/// A source and the time of its next item, ordered by time and then by source. One number, because two of
/// them are compared for every record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimedSource(u128);

impl TimedSource {
    #[inline]
    pub(crate) fn new(time: u64, slot: u32) -> Self {
        TimedSource(u128::from(time) << 64 | u128::from(slot))
    }

    #[inline]
    pub(crate) fn time(self) -> u64 {
        (self.0 >> 64) as u64
    }

    #[inline]
    pub(crate) fn slot(self) -> u32 {
        self.0 as u32
    }
}

/// A binary heap that can replace its least element in one step.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    all: Vec<TimedSource>,
}

impl Heap {
    #[inline]
    pub(crate) fn first(&self) -> Option<TimedSource> {
        self.all.first().copied()
    }

    pub(crate) fn all(&self) -> &[TimedSource] {
        &self.all
    }

    pub(crate) fn push(&mut self, next: TimedSource) {
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

    pub(crate) fn pop(&mut self) -> Option<TimedSource> {
        let last = self.all.pop()?;
        let first = self.first().unwrap_or(last);
        self.replace_first(last);
        Some(first)
    }

    /// Replaces the first source, if any.
    #[inline]
    pub(crate) fn replace_first(&mut self, next: TimedSource) {
        let all = &mut self.all[..];
        let (mut at, mut down) = (0, 1);
        while down + 1 < all.len() {
            // Which of the two is unpredictable: an addition, not a branch.
            down += usize::from(all[down + 1] < all[down]);
            let least = all[down];
            if next <= least {
                break;
            }
            all[at] = least;
            (at, down) = (down, 2 * down + 1);
        }
        if down + 1 == all.len() && all[down] < next {
            all[at] = all[down];
            at = down;
        }
        if let Some(to) = all.get_mut(at) {
            *to = next;
        }
    }

    /// Removes a source, wherever it is.
    pub(crate) fn remove(&mut self, slot: u32) {
        let before = std::mem::take(&mut self.all);
        before.into_iter().filter(|next| next.slot() != slot).for_each(|next| self.push(next));
    }
}
