//! Why bytes are not a ring.

use crate::numbers::ABI_VERSION;
use core::fmt;

/// Why bytes are not a ring that this code can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadRing {
    /// Fewer bytes than a header page.
    Short {
        /// The number of bytes.
        len: u64,
    },
    /// The magic is not perfring's: this is some other file.
    Foreign {
        /// The value of the magic field.
        magic: u64,
    },
    /// Created on a machine of the other byte order.
    Endian,
    /// A newer layout that this code cannot read.
    Newer {
        /// Its version.
        version: u32,
        /// The oldest version whose readers it admits.
        compat: u32,
    },
    /// It needs features that this code does not know.
    Features {
        /// The unknown bits.
        unknown: u64,
    },
    /// A field holds what no ring can hold.
    Field {
        /// The field's name in ABI.md.
        name: &'static str,
        /// Its value.
        value: u64,
    },
    /// The file is shorter than its header says: truncated, or still being copied.
    Truncated {
        /// The file's length.
        len: u64,
        /// The length that it must have.
        needed: u64,
    },
}

impl fmt::Display for BadRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            BadRing::Short { len } => {
                write!(f, "not a perfring file: {len} bytes are fewer than a header page")
            }
            BadRing::Foreign { magic } => {
                write!(f, "not a perfring file: its magic is {magic:#018x}")
            }
            BadRing::Endian => write!(
                f,
                "the ring was made on a machine of the other byte order: read it on such a machine"
            ),
            BadRing::Newer { version, compat } => write!(
                f,
                "the ring has layout version {version}, which needs a reader of version {compat} \
                 or later, and this is version {ABI_VERSION}: update perfring"
            ),
            BadRing::Features { unknown } => write!(
                f,
                "the ring needs features that this perfring does not know (bits {unknown:#x}): \
                 update perfring"
            ),
            BadRing::Field { name, value } => {
                write!(f, "the ring's header is damaged: {name} is {value}")
            }
            BadRing::Truncated { len, needed } => write!(
                f,
                "the ring file is cut short: {len} bytes where its header says {needed}: copy it \
                 again; if it is no copy, remove it and create it again"
            ),
        }
    }
}

impl core::error::Error for BadRing {}
