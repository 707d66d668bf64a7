//! The memory of a batch of copies, which its reader's next batch takes over.

use crate::locks::{lock, try_lock};
use std::sync::{Arc, Mutex};

/// The most bytes that a reader keeps.
const MOST: usize = 8 << 20;

/// What a batch gets is at most so many times as long as it is likely to need: a program may keep the batch.
const LOOSE: usize = 8;

/// The most bytes that are allocated in advance: the ring's positions may be invalid.
const GUESS: usize = 1 << 20;

/// The memory that a reader keeps for its next batch. The kernel has mapped its pages, which takes
/// longer than to copy records there, and its bytes are initialized.
pub(crate) struct Spare(Mutex<Option<Vec<u8>>>);

impl Spare {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Spare(Mutex::new(Some(Vec::new()))))
    }

    /// Frees the memory, and that of all batches from now on when they die.
    pub(crate) fn close(&self) {
        *lock(&self.0) = None;
    }

    /// Returns initialized memory of at least `len` bytes, of which `likely` will be used.
    fn take(&self, len: usize, likely: usize) -> Option<Vec<u8>> {
        let mut kept = try_lock(&self.0)?;
        let kept = kept.as_mut()?;
        let kept = std::mem::take(kept);
        // What does not fit is freed: batches have another size now.
        (kept.len() >= len && kept.len() / LOOSE <= likely).then_some(kept)
    }

    /// Keeps the memory of a batch that is dead, in any thread, if it is the longest.
    fn put(&self, mut bytes: Vec<u8>) {
        if bytes.capacity() <= MOST
            && let Some(mut kept) = try_lock(&self.0)
            && let Some(kept) = &mut *kept
            && kept.len() < bytes.len()
        {
            std::mem::swap(kept, &mut bytes);
        }
    }
}

/// Bytes that are appended, in memory that goes back to a reader.
#[derive(Default)]
pub(crate) struct Copies {
    /// All of it, of which the first `len` bytes are used.
    memory: Vec<u8>,
    len: usize,
    /// The most records that will be appended, and the most bytes of the data area.
    most: (usize, usize),
    of: Option<Arc<Spare>>,
}

impl Copies {
    /// Records will be appended one after the other: at most so many, of at most so many bytes.
    pub(crate) fn of(spare: &Arc<Spare>, records: usize, bytes: usize) -> Self {
        let most = (records, bytes);
        Copies { memory: Vec::new(), len: 0, most, of: Some(Arc::clone(spare)) }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[..self.len]
    }

    /// Appends `more` bytes, and returns them to be written.
    #[inline]
    pub(crate) fn room(&mut self, more: usize) -> &mut [u8] {
        let (start, end) = (self.len, self.len + more);
        if end > self.memory.len() {
            self.grow(more);
        }
        self.len = end;
        &mut self.memory[start..end]
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let end = self.len + more;
        let (records, bytes) = self.most;
        // The first record: the others are probably as long.
        let likely = if self.len == 0 { more.saturating_mul(records).min(bytes) } else { 0 };
        let kept = self.of.as_ref().and_then(|of| of.take(end, end.max(likely)));
        if let Some(mut kept) = kept {
            kept[..self.len].copy_from_slice(self.bytes());
            self.memory = kept;
        } else if self.memory.is_empty() {
            self.memory = vec![0; end.max(likely.min(GUESS))];
        } else {
            self.memory.resize(end, 0);
        }
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        if let Some(of) = &self.of {
            of.put(std::mem::take(&mut self.memory));
        }
    }
}
