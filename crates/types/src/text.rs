//! Short texts in plain records.

use crate::schema::{Kind, Shape};
use crate::shape::Shaped;
use bytemuck::{Pod, Zeroable};
use core::fmt;
use core::str::Utf8Error;

/// A field of a plain record that holds a text of up to `N` bytes.
///
/// It is UTF-8 with zeros after it, as a `[u8; N]` with `#[record(text)]` is: the two have one shape, so one may replace the
/// other. The bytes may come from anywhere: [`Text::as_str`] checks them.
///
/// ```
/// # #[cfg(feature = "derive")] {
/// use bytemuck::{Pod, Zeroable};
/// use perfring_types::{Record, Text};
///
/// #[repr(C)]
/// #[derive(Clone, Copy, Pod, Zeroable, Record)]
/// struct Order {
///     symbol: Text<8>,
///     note: Text<16>,
/// }
///
/// let order = Order { symbol: "ACME".try_into().unwrap(), note: Text::cut("sold in Zürich, late") };
/// assert_eq!(order.symbol.as_str(), Ok("ACME"));
/// assert_eq!(order.note.as_str(), Ok("sold in Zürich,"));
/// assert!(Text::<3>::try_from("ACME").is_err());
/// # }
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
pub struct Text<const N: usize>([u8; N]);

/// A text that is longer than its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// The text's length in bytes.
    pub len: usize,
    /// The field's bytes.
    pub most: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooLong { len, most } = self;
        write!(
            f,
            "the text has {len} bytes, and its field holds {most}: use `Text::cut` to keep the beginning"
        )
    }
}

impl core::error::Error for TooLong {}

impl<const N: usize> Text<N> {
    /// Returns the beginning of a text: as many whole characters as fit.
    #[must_use]
    pub fn cut(text: &str) -> Self {
        let fits = (0..=N.min(text.len())).rev().find(|len| text.is_char_boundary(*len));
        let text = &text.as_bytes()[..fits.unwrap_or(0)];
        let mut bytes = [0; N];
        bytes[..text.len()].copy_from_slice(text);
        Text(bytes)
    }

    /// Returns the text, without the zeros after it.
    ///
    /// # Errors
    /// It is not UTF-8: another program wrote it, or it is damaged.
    pub fn as_str(&self) -> Result<&str, Utf8Error> {
        core::str::from_utf8(self.as_bytes())
    }

    /// Returns the bytes before the zeros at the end.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        &self.0[..end]
    }
}

impl<const N: usize> TryFrom<&str> for Text<N> {
    type Error = TooLong;

    fn try_from(text: &str) -> Result<Self, TooLong> {
        match text.len() <= N {
            true => Ok(Text::cut(text)),
            false => Err(TooLong { len: text.len(), most: N }),
        }
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Text([0; N])
    }
}

/// Writes the text; what is not UTF-8 as `\u{fffd}`.
impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&alloc::string::String::from_utf8_lossy(self.as_bytes()), f)
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&alloc::string::String::from_utf8_lossy(self.as_bytes()), f)
    }
}

impl<const N: usize> Shaped for Text<N> {
    const SHAPE: Shape<'static> = Shape::plain(Kind::Text, N as u32);
}
