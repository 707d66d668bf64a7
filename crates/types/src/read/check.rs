//! Conditions that no record of some types can meet.

use super::condition::{BadCondition, Condition, Op};
use super::types::{Type, TypeShape};
use super::value::Value;
use crate::schema::{Encoding, Kind};

/// The names of an enumeration in a sentence, at most.
const SHOWN: usize = 12;

impl Condition {
    /// Checks that a record of one of these types could meet the condition. Without any type, or with one whose fields
    /// are unknown, it could.
    ///
    /// ```
    /// use perfring_abi::RecordType;
    /// use perfring_types::read::{Condition, TypeTable};
    /// use perfring_types::Entry;
    /// let id = RecordType::new(5000).unwrap();
    /// let text = r#"{"name":"demo.Load","encoding":"pod","size":1,"fields":[{"name":"percent","kind":"u8"}]}"#;
    /// let table = TypeTable::from_words(&Entry { id, layout: 0, text }.to_words());
    /// let check = |text: &str| Condition::parse(text).unwrap().check(table.iter());
    /// assert!(check("percent>=90").is_ok());
    /// assert!(check("percent>=high").unwrap_err().to_string().contains("is no number"));
    /// assert!(check("percent>300").unwrap_err().to_string().contains("0 to 255"));
    /// assert!(check("percnt>90").unwrap_err().to_string().contains("no type has a field"));
    /// ```
    ///
    /// # Errors
    /// [`BadCondition`]: no type lists the field ([`BadCondition::is_unknown_field`]: an attribute may still have that name),
    /// or its kind cannot meet the condition.
    pub fn check<'a>(&self, types: impl IntoIterator<Item = &'a Type>) -> Result<(), BadCondition> {
        let (mut wrong, mut is_open, mut is_listed) = (None, false, false);
        for kind in types {
            match kind.shape(&self.path).map(|shape| self.check_shape(shape)) {
                Some(Ok(())) => return Ok(()),
                Some(Err(error)) => wrong = Some(error),
                None if kind.fields.is_empty() => return Ok(()),
                // Its table lists the fields of all its records, and each may have others.
                None if kind.encoding.known().is_none_or(|of| of == Encoding::Tagged) => {
                    is_open = true
                }
                None => {}
            }
            is_listed = true;
        }
        match wrong {
            Some(_) if is_open => Ok(()),
            Some(error) => Err(error),
            None if is_listed => Err(BadCondition::unknown_field(&self.path)),
            None => Ok(()),
        }
    }

    fn check_shape(&self, shape: &TypeShape) -> Result<(), BadCondition> {
        let Condition { path, op, text } = self;
        let Some(kind) = shape.kind.known() else { return Ok(()) };
        let joined = self.joined();
        let unsigned = |most: u64| self.within(&Value::U64(0), &Value::U64(most));
        let signed = |least: i64, most: i64| self.within(&Value::I64(least), &Value::I64(most));
        match (kind, &shape.of) {
            (Kind::Array | Kind::Vec | Kind::Option, Some(of)) => {
                // `null` is a value of options.
                if kind == Kind::Option && text == "null" { Ok(()) } else { self.check_shape(of) }
            }
            (Kind::U8, _) => unsigned(u8::MAX.into()),
            (Kind::U16, _) => unsigned(u16::MAX.into()),
            (Kind::U32, _) => unsigned(u32::MAX.into()),
            (Kind::U64, _) => unsigned(u64::MAX),
            (Kind::U128, _) => self.within(&Value::U128(0), &Value::U128(u128::MAX)),
            (Kind::I8, _) => signed(i8::MIN.into(), i8::MAX.into()),
            (Kind::I16, _) => signed(i16::MIN.into(), i16::MAX.into()),
            (Kind::I32, _) => signed(i32::MIN.into(), i32::MAX.into()),
            (Kind::I64, _) => signed(i64::MIN, i64::MAX),
            (Kind::I128, _) => self.within(&Value::I128(i128::MIN), &Value::I128(i128::MAX)),
            (Kind::F32 | Kind::F64, _) if *op != Op::Contains && text.parse::<f64>().is_err() => {
                Err(BadCondition::new(format!(
                    "{text:?} is no number, and {path:?} is one{joined}"
                )))
            }
            (Kind::Bool, _) if *op != Op::Contains && Value::Bool(true).compare(text).is_none() => {
                Err(BadCondition::new(format!(
                    "{text:?} is neither true nor false, as {path:?} is{joined}"
                )))
            }
            (Kind::Bytes, _) if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                Err(BadCondition::new(format!(
                    "{text:?} is not hexadecimal, and {path:?} has bytes: write them like 00ff{joined}"
                )))
            }
            (Kind::Struct, _) if *op != Op::Contains => Err(BadCondition::new(format!(
                "{path:?} has fields: name one, as {path}.{}, or search them all with ~",
                shape.fields.first().map_or("FIELD", |field| &*field.name)
            ))),
            (Kind::Enum, _)
                if *op != Op::Contains
                    && shape.labelled(text).is_none()
                    && Value::I64(0).compare(text).is_none() =>
            {
                let names: Vec<&str> =
                    shape.labels.iter().take(SHOWN).map(|label| &*label.name).collect();
                let more = if shape.labels.len() > SHOWN { " and others" } else { "" };
                let names = names.join(", ");
                Err(BadCondition::new(format!(
                    "{text:?} is no value of {path:?}: it is {names}{more}{joined}"
                )))
            }
            _ => Ok(()),
        }
    }
}
