//! The representation of numbers and pointers in a payload.

use crate::schema::{Encoding, Kind};

/// Byte order, and the width of rkyv's pointers and lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteLayout {
    pub(super) big: bool,
    /// 2, 4 or 8 bytes.
    pub(super) width: usize,
}

impl ByteLayout {
    /// This machine's layout, which Pod has, since readers reject rings of the other byte order.
    const NATIVE: ByteLayout = ByteLayout { big: cfg!(target_endian = "big"), width: 4 };

    /// Returns the layout that a type's encoding and format give; a message if this reader cannot
    /// read it.
    ///
    /// Whether an archive is aligned does not matter here: the type contains all offsets.
    pub(super) fn of(encoding: Option<Encoding>, format: &str) -> Result<ByteLayout, String> {
        if encoding != Some(Encoding::Rkyv) {
            return Ok(ByteLayout::NATIVE);
        }
        let understood = || {
            let [rkyv, version, order, alignment, width] = words(format)?;
            if rkyv != "rkyv" || version != "0.8" || !matches!(alignment, "aligned" | "unaligned") {
                return None;
            }
            let big = match order {
                "little" => false,
                "big" => true,
                _ => return None,
            };
            let width = match width {
                "16" => 2,
                "32" => 4,
                "64" => 8,
                _ => return None,
            };
            Some(ByteLayout { big, width })
        };
        understood().ok_or_else(|| {
            format!(
                "the format of its archives is {format:?}, and this program reads \
                 \"rkyv 0.8 little|big aligned|unaligned 16|32|64\"; update perfring if it is newer"
            )
        })
    }

    /// Returns the bytes of an archived string or vector: a pointer and a length.
    pub(super) fn pair(self) -> u32 {
        2 * self.width as u32
    }
}

fn words(format: &str) -> Option<[&str; 5]> {
    let mut words = format.split(' ');
    let five = [words.next()?, words.next()?, words.next()?, words.next()?, words.next()?];
    words.next().is_none().then_some(five)
}

/// Returns the size of a kind that has a fixed one.
pub(super) fn fixed_size(kind: Kind) -> Option<u32> {
    Some(match kind {
        Kind::U8 | Kind::I8 | Kind::Bool => 1,
        Kind::U16 | Kind::I16 => 2,
        Kind::U32 | Kind::I32 | Kind::F32 | Kind::Char => 4,
        Kind::U64 | Kind::I64 | Kind::F64 => 8,
        Kind::U128 | Kind::I128 => 16,
        _ => return None,
    })
}
