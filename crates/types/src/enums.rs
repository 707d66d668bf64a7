//! Enumerations in plain records.

use crate::schema::{Kind, Label, Shape};
use crate::shape::Shaped;
use bytemuck::{Pod, Zeroable};
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

/// An enum without data whose values have names.
///
/// Implemented by `#[derive(Record)]` for enums with `#[repr(u8)]`, or another integer of up to
/// eight bytes. A plain record holds such an enum as [`Enum<E>`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an enum of a record",
    note = "add `#[derive(Record)]` and `#[repr(u8)]` to `{Self}`"
)]
pub trait Labelled: Sized + 'static {
    /// The integer type that represents it.
    type Repr: Pod + Shaped + Eq + Hash + fmt::Debug + Into<i128>;

    /// The values and their names, in the order of their declaration.
    const LABELS: &'static [Label<'static>];

    /// Returns the value's number.
    fn to_repr(self) -> Self::Repr;

    /// Returns the value with this number, if there is one.
    fn from_repr(repr: Self::Repr) -> Option<Self>;
}

/// A field of a plain record that holds an `E`.
///
/// It is `E`'s integer. It may hold any number, since the bytes may come from anywhere:
/// [`EnumOf::get`] returns its meaning.
///
/// ```
/// # #[cfg(feature = "derive")] {
/// use bytemuck::{Pod, Zeroable};
/// use perfring_types::{Enum, Record};
///
/// #[repr(u8)]
/// #[derive(Clone, Copy, Debug, PartialEq, Record)]
/// enum State {
///     Idle,
///     Busy,
/// }
///
/// #[repr(C)]
/// #[derive(Clone, Copy, Pod, Zeroable, Record)]
/// struct Worker {
///     state: Enum<State>,
/// }
///
/// let worker = Worker { state: State::Busy.into() };
/// assert_eq!(worker.state.get(), Ok(State::Busy));
/// let newer: &Worker = bytemuck::from_bytes(&[7]);
/// assert_eq!(newer.state.get(), Err(7)); // a number that has no name here
/// # }
/// ```
pub type Enum<E> = EnumOf<PhantomData<E>>;

/// The type behind [`Enum`]. Its parameter is `PhantomData<E>`, which, unlike an enum, is `Pod`.
#[repr(transparent)]
#[derive(Zeroable, Pod)]
pub struct EnumOf<M>
where
    M: Marker,
{
    raw: <M::Of as Labelled>::Repr,
    of: PhantomData<M>,
}

impl<M: Marker> Clone for EnumOf<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Marker> Copy for EnumOf<M> {}

/// `PhantomData<E>` of a [`Labelled`] E.
pub trait Marker: 'static {
    /// E.
    type Of: Labelled;
}

impl<E: Labelled> Marker for PhantomData<E> {
    type Of = E;
}

impl<M: Marker> EnumOf<M> {
    /// Returns the value, or the number itself if it has no name here.
    ///
    /// # Errors
    ///
    /// The number, if `E` has no such value: it is from a newer program, or invalid.
    pub fn get(self) -> Result<M::Of, <M::Of as Labelled>::Repr> {
        M::Of::from_repr(self.raw).ok_or(self.raw)
    }

    /// Returns the number.
    #[must_use]
    pub fn raw(self) -> <M::Of as Labelled>::Repr {
        self.raw
    }

    /// Returns the value's name, if it has one.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        let value: i128 = self.raw.into();
        M::Of::LABELS.iter().find(|label| i128::from(label.value) == value).map(|label| label.name)
    }
}

impl<E: Labelled> From<E> for EnumOf<PhantomData<E>> {
    fn from(value: E) -> Self {
        EnumOf { raw: value.to_repr(), of: PhantomData }
    }
}

impl<M: Marker> Default for EnumOf<M>
where
    M::Of: Default,
{
    fn default() -> Self {
        EnumOf { raw: M::Of::default().to_repr(), of: PhantomData }
    }
}

impl<M: Marker> PartialEq for EnumOf<M> {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl<M: Marker> Eq for EnumOf<M> {}

impl<M: Marker> Hash for EnumOf<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.raw.hash(state);
    }
}

/// Writes the value's name, or a number without one as it is.
impl<M: Marker> fmt::Debug for EnumOf<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => self.raw.fmt(f),
        }
    }
}

impl<M: Marker> Shaped for EnumOf<M> {
    const SHAPE: Shape<'static> = Shape {
        of: Some(const { &<<M::Of as Labelled>::Repr as Shaped>::SHAPE }),
        labels: M::Of::LABELS,
        ..Shape::plain(Kind::Enum, size_of::<<M::Of as Labelled>::Repr>() as u32)
    };
}
