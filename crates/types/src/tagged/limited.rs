//! Formatted text that ends at a limit.

use super::padded::put_padded;
use alloc::vec::Vec;
use core::fmt;

/// Text under construction, up to a limit.
pub(super) struct LimitedText<'a> {
    out: &'a mut Vec<u8>,
    /// Offset of its value.
    value: usize,
    /// Where the text ends so far, as an offset in `out`. There is padding behind it.
    at: usize,
    end: usize,
    truncated: bool,
    done: bool,
}

impl<'a> LimitedText<'a> {
    /// Begins a text at the end of `out`, of the value at the offset `value`. It ends at the offset `end` at the latest.
    #[inline]
    pub(super) fn new(out: &'a mut Vec<u8>, value: usize, end: usize) -> Self {
        let at = out.len();
        LimitedText { out, value, at, end, truncated: false, done: false }
    }

    /// Formats the text. Returns where it ends, and whether it was truncated. There may be padding behind it.
    #[inline]
    pub(super) fn write(mut self, value: fmt::Arguments<'_>) -> (usize, bool) {
        let _ = fmt::write(&mut self, value);
        self.done = true;
        (self.at, self.truncated)
    }

    #[cold]
    fn truncate(&mut self, text: &str) -> fmt::Result {
        let kept = whole_chars(text, self.end - self.at);
        self.out.truncate(self.at);
        self.out.extend_from_slice(kept.as_bytes());
        self.truncated = true;
        self.at = self.out.len();
        self.end = self.at; // nothing after it, even if a character would fit
        Err(fmt::Error)
    }
}

impl fmt::Write for LimitedText<'_> {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() > self.end - self.at {
            return self.truncate(text);
        }
        self.out.truncate(self.at);
        self.at += text.len();
        put_padded(self.out, self.value, text.as_bytes());
        Ok(())
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
