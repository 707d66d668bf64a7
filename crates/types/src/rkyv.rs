//! rkyv archives as records: the shapes of archived types, and archives written into a reservation
//! and read from a payload.
//!
//! The buffer of either must begin at a multiple of 8, as payloads do. An archive may have any
//! length: its root stands at the very end, aligned since rkyv aligns as it writes, so the exact
//! length must be kept.

use crate::schema::{Kind, Shape};
use crate::shape::{Record, Shaped};
use ::rkyv::api::low::{self, LowSerializer, LowValidator};
use ::rkyv::option::ArchivedOption;
use ::rkyv::primitive::{
    ArchivedChar, ArchivedF32, ArchivedF64, ArchivedI16, ArchivedI32, ArchivedI64, ArchivedI128,
    ArchivedU16, ArchivedU32, ArchivedU64, ArchivedU128, ArchivedUsize,
};
use ::rkyv::rancor::{Fallible, Source, Trace};
use ::rkyv::rend;
use ::rkyv::ser::allocator::SubAllocator;
use ::rkyv::ser::{Allocator, Positional, Writer};
use ::rkyv::string::{ArchivedString, StringResolver};
use ::rkyv::vec::{ArchivedVec, VecResolver};
use ::rkyv::with::{ArchiveWith, SerializeWith};
use ::rkyv::{Archive, Place, Serialize, SerializeUnsized};
use core::mem::MaybeUninit;
use core::{error, fmt};

/// A record that is published as an rkyv archive.
///
/// Implemented by `#[derive(Record)]` with `#[record(rkyv)]` for types with `rkyv::Archive` and
/// `rkyv::Serialize`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be published as an rkyv archive",
    note = "derive `rkyv::Archive, rkyv::Serialize, Record` with `#[record(rkyv)]`"
)]
pub trait RkyvRecord:
    Record
    + Archive<Archived: for<'a> ::rkyv::bytecheck::CheckBytes<LowValidator<'a, ArchiveError>>>
    + for<'b, 's> Serialize<LowSerializer<ArchiveBuffer<'b>, SubAllocator<'s>, ArchiveError>>
{
}

/// An error in writing or reading an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The archive is longer than the buffer.
    BufferTooSmall,
    /// The serialiser's working space is too small.
    ScratchTooSmall,
    /// A part of the value cannot be archived.
    Refused,
    /// The bytes are not an archive of this type.
    Invalid,
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArchiveError::BufferTooSmall => {
                "the archive is longer than the space reserved for it: reserve more"
            }
            ArchiveError::ScratchTooSmall => {
                "the scratch space is too small to archive this value: use more, about 16 bytes \
                 for each element of its vectors"
            }
            ArchiveError::Refused => {
                "a part of the value cannot be archived: a lock or cell in use, a path that is not \
                 UTF-8, or a string that is too long"
            }
            ArchiveError::Invalid => {
                "the payload is not a valid rkyv archive of this type: it is corrupt, truncated, not \
                 at a multiple of 8, or of another type"
            }
        })
    }
}

impl error::Error for ArchiveError {}

impl Trace for ArchiveError {
    fn trace<R>(self, _: R) -> Self {
        self
    }
}

impl Source for ArchiveError {
    fn new<T: error::Error + Send + Sync + 'static>(_: T) -> Self {
        // Of the errors that reach this, rkyv makes the allocator's recognisable by its name alone.
        if core::any::type_name::<T>().ends_with("allocator::core::OutOfSpaceError") {
            ArchiveError::ScratchTooSmall
        } else {
            ArchiveError::Refused
        }
    }
}

/// The buffer that an archive is written to.
#[derive(Debug)]
pub struct ArchiveBuffer<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl Positional for ArchiveBuffer<'_> {
    #[inline]
    fn pos(&self) -> usize {
        self.len
    }
}

impl Writer<ArchiveError> for ArchiveBuffer<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        let end = self.len.checked_add(bytes.len()).ok_or(ArchiveError::BufferTooSmall)?;
        let to = self.bytes.get_mut(self.len..end).ok_or(ArchiveError::BufferTooSmall)?;
        to.copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }
}

/// Writes the archive of `value` into `buffer` and returns its exact length.
///
/// `buffer` must begin at a multiple of 8, otherwise the archive could not be read there. Nothing
/// is allocated; `scratch` holds rkyv's state for the elements of vectors, at most 16 bytes for
/// most elements, and may be empty for values without vectors.
///
/// # Errors
///
/// [`ArchiveError`]: the buffer or the scratch space is too small, or a part of the value cannot be
/// archived. The content of the buffer is then unspecified.
///
/// ```
/// # #[cfg(feature = "derive")] {
/// use perfring_types::{Record, access, archive_into};
/// use rkyv::{Archive, Serialize};
/// use std::mem::MaybeUninit;
///
/// #[derive(Archive, Serialize, Record)]
/// #[record(rkyv)]
/// struct Line<'a> {
///     #[rkyv(with = perfring_types::Borrowed)]
///     message: &'a str,
///     code: u32,
/// }
///
/// let mut buffer = rkyv::util::Align([0; 64]);
/// let line = Line { message: "too long to be inline", code: 7 };
/// let len = archive_into(&line, &mut *buffer, &mut [MaybeUninit::uninit(); 64])?;
/// let archived = access::<Line<'_>>(&buffer[..len])?;
/// assert_eq!((&*archived.message, archived.code.to_native()), ("too long to be inline", 7));
/// # }
/// # Ok::<(), perfring_types::ArchiveError>(())
/// ```
#[inline]
pub fn archive_into<T>(
    value: &T,
    buffer: &mut [u8],
    scratch: &mut [MaybeUninit<u8>],
) -> Result<usize, ArchiveError>
where
    T: for<'b, 's> Serialize<LowSerializer<ArchiveBuffer<'b>, SubAllocator<'s>, ArchiveError>>,
{
    let slot = ArchiveBuffer { bytes: buffer, len: 0 };
    Ok(low::to_bytes_in_with_alloc(value, slot, SubAllocator::new(scratch))?.len)
}

/// Checks these bytes in full and returns the archive in them.
///
/// The bytes must begin at a multiple of 8 and end where the archive ends. They must not change as
/// long as the archive is borrowed: in a ring that may be overwritten, or whose producer is not
/// trusted, check a copy.
///
/// # Errors
///
/// [`ArchiveError::Invalid`].
#[inline]
pub fn access<T>(bytes: &[u8]) -> Result<&T::Archived, ArchiveError>
where
    T: Archive<Archived: for<'a> ::rkyv::bytecheck::CheckBytes<LowValidator<'a, ArchiveError>>>,
{
    low::access(bytes).map_err(|_| ArchiveError::Invalid)
}

/// rkyv's version and format features in this program, as written in type tables. They are chosen
/// once for a whole build, by features of the `rkyv` crate.
pub const RKYV_FORMAT: &str = {
    const WIDTH: usize = size_of::<ArchivedUsize>();
    let (big, aligned) = (<ArchivedU32 as Order>::BIG, align_of::<ArchivedU32>() == 4);
    match (big, aligned, WIDTH) {
        (false, true, 2) => "rkyv 0.8 little aligned 16",
        (false, true, 4) => "rkyv 0.8 little aligned 32",
        (false, true, _) => "rkyv 0.8 little aligned 64",
        (false, false, 2) => "rkyv 0.8 little unaligned 16",
        (false, false, 4) => "rkyv 0.8 little unaligned 32",
        (false, false, _) => "rkyv 0.8 little unaligned 64",
        (true, true, 2) => "rkyv 0.8 big aligned 16",
        (true, true, 4) => "rkyv 0.8 big aligned 32",
        (true, true, _) => "rkyv 0.8 big aligned 64",
        (true, false, 2) => "rkyv 0.8 big unaligned 16",
        (true, false, 4) => "rkyv 0.8 big unaligned 32",
        (true, false, _) => "rkyv 0.8 big unaligned 64",
    }
};

/// The byte order in which rkyv archives a `u32`.
trait Order {
    const BIG: bool;
}

macro_rules! order {
    ($($type:ident: $big:literal),*) => {$(
        impl Order for $type { const BIG: bool = $big; }
    )*};
}

use rend::unaligned::{u32_ube, u32_ule};
use rend::{u32_be, u32_le};
order!(u32_le: false, u32_be: true, u32_ule: false, u32_ube: true);

/// Archives in another format than this program's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError<'a> {
    /// The format in the type table.
    pub found: &'a str,
}

impl fmt::Display for FormatError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FormatError { found } = self;
        write!(
            f,
            "the archives were written as \"{found}\", and this program reads \"{RKYV_FORMAT}\": \
             build both with the same version and format features of rkyv"
        )
    }
}

impl error::Error for FormatError<'_> {}

/// Checks that archives with this entry in the type table have this program's format.
///
/// # Errors
///
/// [`FormatError`] if they do not.
///
/// ```
/// use perfring_types::{RKYV_FORMAT, check_format};
/// assert!(check_format(RKYV_FORMAT).is_ok());
/// let refused = check_format("rkyv 0.8 big unaligned 64").unwrap_err();
/// assert!(refused.to_string().contains("build both with the same"));
/// ```
pub fn check_format(found: &str) -> Result<(), FormatError<'_>> {
    if found == RKYV_FORMAT { Ok(()) } else { Err(FormatError { found }) }
}

/// Archives a `&str` as a `String` and a `&[T]` as a `Vec<T>`, so that a record can borrow its
/// contents: `#[rkyv(with = perfring_types::Borrowed)]`.
#[derive(Debug)]
pub struct Borrowed;

impl ArchiveWith<&str> for Borrowed {
    type Archived = ArchivedString;
    type Resolver = StringResolver;

    #[inline]
    fn resolve_with(field: &&str, resolver: StringResolver, out: Place<ArchivedString>) {
        ArchivedString::resolve_from_str(field, resolver, out);
    }
}

impl<S: Fallible<Error: Source> + ?Sized> SerializeWith<&str, S> for Borrowed
where
    str: SerializeUnsized<S>,
{
    #[inline]
    fn serialize_with(field: &&str, serializer: &mut S) -> Result<StringResolver, S::Error> {
        ArchivedString::serialize_from_str(field, serializer)
    }
}

impl<T: Archive> ArchiveWith<&[T]> for Borrowed {
    type Archived = ArchivedVec<T::Archived>;
    type Resolver = VecResolver;

    #[inline]
    fn resolve_with(field: &&[T], resolver: VecResolver, out: Place<Self::Archived>) {
        ArchivedVec::resolve_from_slice(field, resolver, out);
    }
}

impl<T: Serialize<S>, S: Fallible + Allocator + Writer + ?Sized> SerializeWith<&[T], S>
    for Borrowed
{
    #[inline]
    fn serialize_with(field: &&[T], serializer: &mut S) -> Result<VecResolver, S::Error> {
        ArchivedVec::<T::Archived>::serialize_from_slice(field, serializer)
    }
}

macro_rules! plain {
    ($($type:ident: $kind:ident),* $(,)?) => {$(
        impl Shaped for $type {
            const SHAPE: Shape<'static> = Shape::plain(Kind::$kind, size_of::<$type>() as u32);
        }
    )*};
}

plain! {
    ArchivedU16: U16, ArchivedU32: U32, ArchivedU64: U64, ArchivedU128: U128, ArchivedI16: I16,
    ArchivedI32: I32, ArchivedI64: I64, ArchivedI128: I128, ArchivedF32: F32, ArchivedF64: F64,
    ArchivedChar: Char, ArchivedString: String,
}

impl<T: Shaped> Shaped for ArchivedVec<T> {
    const SHAPE: Shape<'static> = Shape {
        of: Some(const { &T::SHAPE }),
        ..Shape::plain(Kind::Vec, size_of::<Self>() as u32)
    };
}

impl<T: Shaped> Shaped for ArchivedOption<T> {
    const SHAPE: Shape<'static> = Shape {
        // `#[repr(u8)]`: a byte, then the value at its next aligned offset.
        at: align_of::<T>() as u32,
        of: Some(const { &T::SHAPE }),
        ..Shape::plain(Kind::Option, size_of::<Self>() as u32)
    };
}
