//! What becomes of the values of a type.

use super::found::Direct;
use super::meaning::{Meaning, Reading};
use super::value::{at_offset, constant, is_direct, label};
use perfring_telemetry::names::ATTRIBUTES;
use perfring_types::read::{Type, TypeField};
use perfring_types::tagged::{Data, Values};
use perfring_types::{Class, Encoding, Kind};

/// The limits of the names that a plan knows beside the fields of its type.
const NAMES: usize = 64;
const NAME_BYTES: usize = 4096;
/// The limit of the names and constants of a type: with fewer bytes its records cannot exceed what a decode makes.
const TYPE_BYTES: usize = 1 << 18;

/// What becomes of the values of a type.
#[derive(Debug)]
pub(super) struct Plan {
    class: Class,
    /// By the field's number.
    steps: Vec<Step>,
    /// Fields with a constant, by their numbers: those with a meaning, and attributes.
    meant: Vec<(usize, Meaning)>,
    constants: Vec<usize>,
    /// Names that stand in records, in the order of their first occurrence.
    names: Vec<(Box<str>, Step)>,
    name_bytes: usize,
}

/// What becomes of a value.
#[derive(Clone, Copy, Debug)]
enum Step {
    Meant(Meaning),
    /// It is an attribute, whose name begins so many bytes after the field's.
    Attribute(usize),
    /// The same, and it is a label if it is a number.
    Labelled(usize),
    /// A constant: no record has it.
    Constant,
}

impl Step {
    fn of(class: Class, name: &str) -> Self {
        match Meaning::of(class, name) {
            Some(meaning) => Step::Meant(meaning),
            None if class == Class::Log && name.starts_with(ATTRIBUTES) => {
                Step::Attribute(ATTRIBUTES.len())
            }
            None => Step::Attribute(0),
        }
    }

    /// Returns the same for labels; `None` if they have a meaning.
    fn labelled(self) -> Option<Self> {
        match self {
            Step::Attribute(skip) => Some(Step::Labelled(skip)),
            _ => None,
        }
    }
}

impl Plan {
    /// Returns a plan for the records of a type; `None` if they must be decoded.
    pub(super) fn new(kind: &Type) -> Option<Self> {
        let class = kind.class.known().unwrap_or_default();
        let encoding = kind.encoding.known();
        if !matches!(class, Class::Log | Class::Plain)
            || !matches!(encoding, Some(Encoding::Tagged | Encoding::Pod))
        {
            return None;
        }
        let mut plan = Plan {
            class,
            steps: Vec::with_capacity(kind.fields.len()),
            meant: Vec::new(),
            constants: Vec::new(),
            names: Vec::new(),
            name_bytes: 0,
        };
        let mut bytes = 0;
        for (at, field) in kind.fields.iter().enumerate() {
            // Values of fields of one name are a list.
            if !kind.field(&field.name).is_some_and(|first| std::ptr::eq(first, field)) {
                return None;
            }
            bytes += field.name.len();
            let mut step = Step::of(class, &field.name);
            if field.constant.is_some() {
                if let Data::Text(text) = constant(field)? {
                    bytes += text.len();
                }
                match step {
                    Step::Meant(meaning) => plan.meant.push((at, meaning)),
                    _ => plan.constants.push(at),
                }
                step = Step::Constant;
            } else if encoding == Some(Encoding::Pod) && !is_direct(&field.shape) {
                return None;
            } else if field.shape.kind.known() == Some(Kind::Enum) {
                step = step.labelled()?;
            }
            plan.steps.push(step);
        }
        (bytes <= TYPE_BYTES).then_some(plan)
    }

    /// Reads a payload, see [`DirectReader::read`](super::DirectReader::read).
    #[inline]
    pub(super) fn read<'a>(
        &mut self,
        kind: &'a Type,
        payload: &'a [u8],
        each: &mut impl FnMut(&str, Data<'_>),
    ) -> Option<Direct<'a>> {
        let mut read = Reading::default();
        read.found.class = self.class;
        for (at, meaning) in &self.meant {
            read.take(*meaning, constant(kind.fields.get(*at)?)?)?;
        }
        match kind.encoding.known()? {
            Encoding::Tagged => self.tagged(kind, payload, &mut read, each)?,
            _ => self.pod(kind, payload, &mut read, each)?,
        }
        Some(read.found)
    }

    fn tagged<'a>(
        &mut self,
        kind: &'a Type,
        payload: &'a [u8],
        read: &mut Reading<'a>,
        each: &mut impl FnMut(&str, Data<'_>),
    ) -> Option<()> {
        // The number after that of the last attribute, the constants that are passed on, and the next expected name.
        let (mut next, mut passed, mut expected) = (0, 0, 0);
        let mut named = 0u64;
        for value in Values::new(payload) {
            let value = value.ok()?;
            if let Some(number) = value.field {
                let number = usize::from(number);
                let step = *self.steps.get(number)?;
                if let Step::Meant(meaning) = step {
                    read.take(meaning, value.data)?;
                    continue;
                }
                let field = kind.fields.get(number)?;
                if number < next {
                    return None;
                }
                next = number + 1;
                passed = self.pass(kind, passed, number, each)?;
                attribute(step, field, value.data, each)?;
                continue;
            }
            let at = match self.names.get(expected) {
                Some((name, _)) if **name == *value.name => expected,
                _ => self.find(kind, value.name)?,
            };
            expected = at + 1;
            match self.names.get(at)?.1 {
                Step::Meant(meaning) => read.take(meaning, value.data)?,
                Step::Attribute(skip) if named & 1 << at == 0 => {
                    named |= 1 << at;
                    next = usize::MAX;
                    passed = self.pass(kind, passed, usize::MAX, each)?;
                    each(value.name.get(skip..)?, value.data);
                }
                _ => return None,
            }
        }
        self.pass(kind, passed, usize::MAX, each)?;
        Some(())
    }

    /// Returns the place of a name that stands in a record.
    #[cold]
    fn find(&mut self, kind: &Type, name: &str) -> Option<usize> {
        if let Some(at) = self.names.iter().position(|(its, _)| **its == *name) {
            return Some(at);
        }
        // The value belongs to the field.
        if kind.field(name).is_some()
            || self.names.len() >= NAMES
            || self.name_bytes + name.len() > NAME_BYTES
        {
            return None;
        }
        self.name_bytes += name.len();
        self.names.push((name.into(), Step::of(self.class, name)));
        Some(self.names.len() - 1)
    }

    /// Passes on the constants of fields with numbers less than this. Returns how many are passed on.
    fn pass(
        &self,
        kind: &Type,
        mut passed: usize,
        before: usize,
        each: &mut impl FnMut(&str, Data<'_>),
    ) -> Option<usize> {
        while let Some(at) = self.constants.get(passed).filter(|at| **at < before) {
            let field = kind.fields.get(*at)?;
            attribute(Step::of(self.class, &field.name), field, constant(field)?, each)?;
            passed += 1;
        }
        Some(passed)
    }

    fn pod<'a>(
        &self,
        kind: &'a Type,
        payload: &'a [u8],
        read: &mut Reading<'a>,
        each: &mut impl FnMut(&str, Data<'_>),
    ) -> Option<()> {
        if payload.len() != kind.size as usize {
            return None;
        }
        let mut passed = 0;
        for (at, (field, step)) in kind.fields.iter().zip(&self.steps).enumerate() {
            match step {
                Step::Constant => {}
                Step::Meant(meaning) => {
                    read.take(*meaning, at_offset(&field.shape, field.at, payload)?)?;
                }
                step => {
                    passed = self.pass(kind, passed, at, each)?;
                    attribute(*step, field, at_offset(&field.shape, field.at, payload)?, each)?;
                }
            }
        }
        self.pass(kind, passed, usize::MAX, each)?;
        Some(())
    }
}

/// Passes on the attribute of a field.
#[inline]
fn attribute(
    step: Step,
    field: &TypeField,
    value: Data<'_>,
    each: &mut impl FnMut(&str, Data<'_>),
) -> Option<()> {
    match step {
        Step::Attribute(skip) => each(field.name.get(skip..)?, value),
        Step::Labelled(skip) => each(field.name.get(skip..)?, label(&field.shape, value)),
        _ => return None,
    }
    Some(())
}
