//! Reading a tagged payload.

use super::code::{BOOL, BYTES, F64, F64S, HEAD, I64, I128, NAMED, NONE, TEXT, U64, U64S, U128};
use core::fmt;

/// A value and its field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaggedValue<'a> {
    /// The field's number in the type's list; none if the name is stored with the value.
    pub field: Option<u16>,
    /// The name, if it is stored with the value.
    pub name: &'a str,
    /// The value.
    pub data: Data<'a>,
}

/// A value of a tagged payload.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Data<'a> {
    /// No value.
    None,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
    /// A floating-point number.
    F64(f64),
    /// Text.
    Text(&'a str),
    /// Bytes; also invalid UTF-8 in place of text, and values of a later version.
    Bytes(&'a [u8]),
    /// A large signed integer.
    I128(i128),
    /// A large unsigned integer.
    U128(u128),
    /// A list of floating-point numbers.
    F64s(List<'a, f64>),
    /// A list of unsigned integers.
    U64s(List<'a, u64>),
}

/// A list of eight-byte numbers in a payload.
///
/// ```
/// use perfring_types::tagged::{Data, TaggedWriter, Values};
/// let mut payload = Vec::new();
/// TaggedWriter::new(&mut payload).u64s("buckets", &[1, 2, 3]);
/// let value = Values::new(&payload).next().unwrap().unwrap();
/// let Data::U64s(list) = value.data else { panic!("{value:?}") };
/// assert_eq!(list.iter().sum::<u64>(), 6);
/// ```
#[derive(Clone, Copy)]
pub struct List<'a, T> {
    words: &'a [[u8; 8]],
    from: fn([u8; 8]) -> T,
}

impl<'a, T> List<'a, T> {
    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Iterates over the elements.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
        let from = self.from;
        self.words.iter().map(move |word| from(*word))
    }
}

impl<T: PartialEq> PartialEq for List<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: fmt::Debug> fmt::Debug for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A payload that is invalid from one offset on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The offset of the invalid value in the payload.
    pub at: usize,
    what: &'static str,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the value at byte {} of the payload {}", self.at, self.what)
    }
}

impl core::error::Error for Damage {}

/// Iterates over the values of a payload, in their order. Ends with an error at the first invalid
/// value.
///
/// ```
/// use perfring_types::tagged::Values;
/// let damage = Values::new(&[1, 2, 3]).next().unwrap().unwrap_err();
/// assert_eq!(damage.to_string(), "the value at byte 0 of the payload has no whole header");
/// ```
#[derive(Clone, Debug)]
pub struct Values<'a> {
    payload: &'a [u8],
    at: usize,
}

impl<'a> Values<'a> {
    /// Makes an iterator over the values of this payload.
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Self {
        Values { payload, at: 0 }
    }

    #[inline]
    fn read(&self) -> Result<(TaggedValue<'a>, usize), &'static str> {
        let rest = self.payload.get(self.at..).unwrap_or_default();
        let (head, rest) = rest.split_first_chunk::<HEAD>().ok_or("has no whole header")?;
        let [f0, f1, tag, name_len, l0, l1, l2, l3] = *head;
        let field = u16::from_ne_bytes([f0, f1]);
        let name_len = name_len as usize;
        let len = u32::from_ne_bytes([l0, l1, l2, l3]) as usize;
        if field != NAMED && name_len != 0 {
            return Err("has a number and a name");
        }
        let taken = len.checked_add(name_len).and_then(|taken| taken.checked_next_multiple_of(8));
        let taken = taken.filter(|taken| *taken <= rest.len()).ok_or("exceeds its end")?;
        let (name, rest) = rest.split_at_checked(name_len).ok_or("exceeds its end")?;
        let name = match name {
            [] => "",
            name => str::from_utf8(name).map_err(|_| "has a name that is not UTF-8")?,
        };
        let value = rest.get(..len).ok_or("exceeds its end")?;
        let data = data(tag, value)?;
        let field = (field != NAMED).then_some(field);
        Ok((TaggedValue { field, name, data }, self.at + HEAD + taken))
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Result<TaggedValue<'a>, Damage>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.payload.len() {
            return None;
        }
        match self.read() {
            Ok((value, next)) => {
                self.at = next;
                Some(Ok(value))
            }
            Err(what) => {
                let damage = Damage { at: self.at, what };
                self.at = self.payload.len();
                Some(Err(damage))
            }
        }
    }
}

impl core::iter::FusedIterator for Values<'_> {}

#[inline]
fn data(tag: u8, value: &[u8]) -> Result<Data<'_>, &'static str> {
    Ok(match tag {
        NONE if value.is_empty() => Data::None,
        NONE => return Err("is none, and has a length"),
        BOOL => match value {
            [0] => Data::Bool(false),
            [1] => Data::Bool(true),
            _ => return Err("is not a boolean"),
        },
        I64 => Data::I64(i64::from_ne_bytes(fixed(value)?)),
        U64 => Data::U64(u64::from_ne_bytes(fixed(value)?)),
        F64 => Data::F64(f64::from_ne_bytes(fixed(value)?)),
        TEXT => str::from_utf8(value).map_or(Data::Bytes(value), Data::Text),
        BYTES => Data::Bytes(value),
        I128 => Data::I128(i128::from_ne_bytes(fixed(value)?)),
        U128 => Data::U128(u128::from_ne_bytes(fixed(value)?)),
        F64S => Data::F64s(List { words: words(value)?, from: f64::from_ne_bytes }),
        U64S => Data::U64s(List { words: words(value)?, from: u64::from_ne_bytes }),
        _ => Data::Bytes(value),
    })
}

fn fixed<const N: usize>(value: &[u8]) -> Result<[u8; N], &'static str> {
    value.try_into().map_err(|_| "does not have the length of its type")
}

fn words(value: &[u8]) -> Result<&[[u8; 8]], &'static str> {
    match value.as_chunks() {
        (words, []) => Ok(words),
        _ => Err("does not have the length of its type"),
    }
}
