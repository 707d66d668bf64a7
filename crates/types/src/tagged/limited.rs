//! Formatted text that ends at a limit.

use alloc::vec::Vec;
use core::fmt;

/// Text under construction, up to a limit.
pub(super) struct LimitedText<'a> {
    out: &'a mut Vec<u8>,
    /// Offset of its value.
    value: usize,
    end: usize,
    truncated: bool,
    done: bool,
}

impl<'a> LimitedText<'a> {
    /// Begins a text at the end of `out`, of the value at the offset `value`. It ends at the offset `end` at the latest.
    #[inline]
    pub(super) fn new(out: &'a mut Vec<u8>, value: usize, end: usize) -> Self {
        LimitedText { out, value, end, truncated: false, done: false }
    }

    /// Formats the text. Returns whether it was truncated.
    #[inline]
    pub(super) fn write(mut self, value: fmt::Arguments<'_>) -> bool {
        let _ = fmt::write(&mut self, value);
        self.done = true;
        self.truncated
    }
}

impl fmt::Write for LimitedText<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.end - self.out.len();
        if text.len() <= room {
            self.out.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        let kept = whole_chars(text, room);
        self.out.extend_from_slice(kept.as_bytes());
        self.truncated = true;
        self.end = self.out.len(); // nothing after it, even if a character would fit
        Err(fmt::Error)
    }
}

impl Drop for LimitedText<'_> {
    /// An implementation of `Debug` may panic: then no partial value stays.
    fn drop(&mut self) {
        if !self.done {
            self.out.truncate(self.value);
        }
    }
}

/// Returns as many of `text`'s bytes as fit into `room`, whole characters only.
pub(super) fn whole_chars(text: &str, room: usize) -> &str {
    let mut end = room.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1; // 0 is a boundary
    }
    &text[..end]
}
