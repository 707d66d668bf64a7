//! Conditions that select records.

use super::types::{Type, TypeField, TypeLabel, TypeShape};
use super::value::{Value, hex};
use crate::schema::Kind;
use std::cmp::Ordering;
use std::fmt;

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `=` or `==`: equal.
    Eq,
    /// `!=`: not equal.
    Ne,
    /// `<`: less.
    Lt,
    /// `<=`: less or equal.
    Le,
    /// `>`: greater.
    Gt,
    /// `>=`: greater or equal.
    Ge,
    /// `~`: contains.
    Contains,
}

/// Fields of OpenTelemetry's vocabulary that are numbers wherever they occur, and their ranges.
const NUMBERS: [(&str, u64, u64); 5] = [
    ("severity_number", 1, 24),
    ("duration_nano", 0, u64::MAX),
    ("time_unix_nano", 0, u64::MAX),
    ("observed_time_unix_nano", 0, u64::MAX),
    ("start_time_unix_nano", 0, u64::MAX),
];

impl Op {
    /// Returns how it is written.
    fn sign(self) -> &'static str {
        match self {
            Op::Eq => "=",
            Op::Ne => "!=",
            Op::Lt => "<",
            Op::Le => "<=",
            Op::Gt => ">",
            Op::Ge => ">=",
            Op::Contains => "~",
        }
    }

    fn holds(self, order: Ordering) -> bool {
        match self {
            Op::Eq | Op::Contains => order.is_eq(),
            Op::Ne => order.is_ne(),
            Op::Lt => order.is_lt(),
            Op::Le => order.is_le(),
            Op::Gt => order.is_gt(),
            Op::Ge => order.is_ge(),
        }
    }
}

/// A field, an operator and the operand: `pos.x>=3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The field's path, see [`Value::get`].
    pub path: String,
    /// The comparison operator.
    pub op: Op,
    /// The operand, see [`Value::matches`].
    pub text: String,
}

/// A text that is no condition, or a condition that no record can meet: says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadCondition {
    text: String,
    is_unknown_field: bool,
}

impl BadCondition {
    pub(super) fn new(text: String) -> Self {
        BadCondition { text, is_unknown_field: false }
    }

    pub(super) fn unknown_field(path: &str) -> Self {
        BadCondition { text: format!("no type has a field {path:?}"), is_unknown_field: true }
    }

    /// Returns whether no type lists the field: a type that has it may still come.
    #[must_use]
    pub fn is_unknown_field(&self) -> bool {
        self.is_unknown_field
    }
}

impl fmt::Display for BadCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for BadCondition {}

impl Condition {
    /// Parses a condition. The first operator counts, so the operand may contain others. Spaces
    /// around the field and around the operand are ignored.
    ///
    /// # Errors
    ///
    /// `text` has no operator, an unknown one, no field before it, or no value after `<`, `<=`, `>` or `>=`; or the
    /// field is one of OpenTelemetry's numbers, and the condition cannot hold for it.
    ///
    /// ```
    /// use perfring_types::read::{Condition, Op, Value};
    /// let condition = Condition::parse("pos.x>=3").unwrap();
    /// assert_eq!((&*condition.path, condition.op, &*condition.text), ("pos.x", Op::Ge, "3"));
    /// let pos = Value::Struct(vec![("x".into(), Value::F32(3.5))]);
    /// assert!(condition.matches(&Value::Struct(vec![("pos".into(), pos)])));
    /// assert!(!condition.matches(&Value::Null));
    /// assert!(Condition::parse("pos.x").is_err() && Condition::parse("pos.x >> 3").is_err());
    /// assert!(Condition::parse("severity_number >= 25").is_err()); // it is 1 to 24
    /// ```
    pub fn parse(text: &str) -> Result<Condition, BadCondition> {
        const OPS: [(&str, Op); 8] = [
            ("!=", Op::Ne),
            ("<=", Op::Le),
            (">=", Op::Ge),
            ("==", Op::Eq),
            ("=", Op::Eq),
            ("<", Op::Lt),
            (">", Op::Gt),
            ("~", Op::Contains),
        ];
        let found = text.char_indices().find_map(|(at, _)| {
            let rest = text.get(at..)?;
            let (sign, op) = OPS.iter().find(|(sign, _)| rest.starts_with(sign))?;
            Some((text.get(..at)?, *sign, *op, rest.strip_prefix(sign)?))
        });
        let Some((path, sign, op, value)) = found.filter(|found| !found.0.trim().is_empty()) else {
            return Err(BadCondition::new(format!(
                "{text:?} is not a condition: write FIELD=VALUE, or !=, <, <=, >, >=, ~ for ="
            )));
        };
        // What people write of other languages: `>>`, `=>`, `=~`, `<>`.
        let is_sign = |c: char| "=<>!~".contains(c);
        let before = path.trim_end_matches(is_sign);
        let after = value.trim_start_matches(is_sign);
        if before.len() < path.len() || after.len() < value.len() {
            let all = text.get(before.len()..text.len().saturating_sub(after.len()));
            return Err(BadCondition::new(format!(
                "{text:?}: {} is no operator: =, !=, <, <=, >, >= and ~ are; a value that begins with such a sign has a \
                 space before it",
                all.unwrap_or(sign)
            )));
        }
        let (path, value) = (path.trim().to_owned(), value.trim().to_owned());
        if value.is_empty() && matches!(op, Op::Lt | Op::Le | Op::Gt | Op::Ge) {
            return Err(BadCondition::new(format!("{text:?}: there is no value after {sign}")));
        }
        let condition = Condition { path, op, text: value };
        let number = NUMBERS.iter().find(|(name, ..)| *name == condition.path);
        if let Some((_, least, most)) = number {
            condition.within(&Value::U64(*least), &Value::U64(*most))?;
        }
        Ok(condition)
    }

    /// Checks that the condition can hold for a value in this range.
    pub(super) fn within(&self, least: &Value, most: &Value) -> Result<(), BadCondition> {
        let Condition { path, op, text } = self;
        if *op == Op::Contains {
            return Ok(());
        }
        if least.compare(text).is_none() {
            return Err(BadCondition::new(format!(
                "{text:?} is no number, and {path:?} is one: {least} to {most}{}",
                self.joined()
            )));
        }
        let can_hold = match op {
            Op::Lt | Op::Le => least.matches(*op, text),
            Op::Gt | Op::Ge => most.matches(*op, text),
            _ => least.matches(Op::Le, text) && most.matches(Op::Ge, text),
        };
        match can_hold || *op == Op::Ne {
            true => Ok(()),
            false => Err(BadCondition::new(format!(
                "no record has {path:?} {} {text}: it is {least} to {most}",
                op.sign()
            ))),
        }
    }

    /// Says how conditions are joined, if the operand seems to have another one.
    pub(super) fn joined(&self) -> &'static str {
        match ["&&", "||", " and ", " or "].iter().any(|by| self.text.contains(by)) {
            true => {
                "; a condition has one field: repeat --where (in a configuration, list the conditions; in the page, \
                 write && between them)"
            }
            false => "",
        }
    }

    /// Returns whether the field is present and the comparison holds.
    #[must_use]
    pub fn matches(&self, value: &Value) -> bool {
        value.get(&self.path).is_some_and(|value| value.matches(self.op, &self.text))
    }
}

impl Type {
    /// Returns whether the field is present and the comparison holds, like [`Condition::matches`],
    /// with the names of labels in the order of their values: `severity>=WARN`, in upper or lower
    /// case.
    #[must_use]
    pub fn matches(&self, value: &Value, condition: &Condition) -> bool {
        value.get(&condition.path).is_some_and(|found| self.matches_found(found, condition))
    }

    /// Returns whether the comparison holds for the value at the condition's path, by the rules of [`Type::matches`].
    #[must_use]
    pub fn matches_found(&self, found: &Value, condition: &Condition) -> bool {
        let says = match found {
            Value::Label { .. } | Value::List(_) if condition.op != Op::Contains => {
                self.shape(&condition.path).and_then(|shape| shape.labelled(&condition.text))
            }
            _ => None,
        };
        match says {
            Some(says) => ordered(found, condition.op, says, &condition.text),
            None => found.matches(condition.op, &condition.text),
        }
    }

    /// Returns the shape at a path, which is resolved like in [`Value::get`].
    pub(super) fn shape(&self, path: &str) -> Option<&TypeShape> {
        fn among<'a>(fields: &'a [TypeField], path: &str) -> Option<&'a TypeShape> {
            fields.iter().find_map(|field| match path.strip_prefix(&*field.name)? {
                "" => Some(&field.shape),
                rest => within(&field.shape, rest.strip_prefix('.')?),
            })
        }
        fn within<'a>(shape: &'a TypeShape, path: &str) -> Option<&'a TypeShape> {
            let Some(of) = &shape.of else { return among(&shape.fields, path) };
            if shape.kind.known() == Some(Kind::Option) {
                return within(of, path);
            }
            match path.split_once('.') {
                None => path.parse::<usize>().ok().map(|_| &**of),
                Some((_, rest)) => within(of, rest),
            }
        }
        among(&self.fields, path).map(|shape| match shape.kind.known() {
            Some(Kind::Option) => shape.of.as_deref().unwrap_or(shape),
            _ => shape,
        })
    }
}

impl TypeShape {
    /// Returns the value with this name, in an enumeration or in lists of one.
    pub(super) fn labelled(&self, text: &str) -> Option<i64> {
        match (&self.of, self.kind.known()) {
            (Some(of), Some(Kind::Array | Kind::Vec | Kind::Option)) => of.labelled(text),
            _ => {
                let named = |of: &&TypeLabel| of.name.eq_ignore_ascii_case(text);
                self.labels.iter().find(named).map(|label| label.value)
            }
        }
    }
}

/// Compares like [`Value::matches`], with labels in the order of their values; `text` is the name
/// of `says`.
fn ordered(found: &Value, op: Op, says: i64, text: &str) -> bool {
    match (found, op) {
        (_, Op::Ne) => !ordered(found, Op::Eq, says, text),
        (Value::Label { value, .. }, _) => op.holds(value.cmp(&says)),
        (Value::List(values), _) => values.iter().any(|value| ordered(value, op, says, text)),
        _ => found.matches(op, text),
    }
}

impl Value {
    /// Returns whether the comparison holds. `text` is read as the value's kind: a number (`0x` for
    /// hexadecimal), `true` or `false`, hexadecimal for bytes, a label's name or number, `null`, or
    /// the text itself.
    ///
    /// Text is compared by its bytes, so upper and lower case differ.
    ///
    /// A list matches if one of its values does, and is `!=` if no value is `=`. For a struct only
    /// `~` can hold: if it holds for one of its values. If `text` cannot be read as the value's
    /// kind, the two are not equal, and neither is less.
    ///
    /// ```
    /// use perfring_types::read::{Op, Value};
    /// assert!(Value::U64(200).matches(Op::Ge, "199.5"));
    /// assert!(Value::U64(255).matches(Op::Eq, "0xff"));
    /// assert!(Value::F32(0.1).matches(Op::Eq, "0.1"));
    /// assert!(Value::Str("connection lost".into()).matches(Op::Contains, "lost"));
    /// assert!(Value::List(vec![Value::I64(-1), Value::I64(5)]).matches(Op::Lt, "0"));
    /// ```
    #[must_use]
    pub fn matches(&self, op: Op, text: &str) -> bool {
        match (self, op) {
            (_, Op::Ne) => !self.matches(Op::Eq, text),
            (Value::List(values), _) => values.iter().any(|value| value.matches(op, text)),
            (Value::Struct(fields), Op::Contains) => {
                fields.iter().any(|(_, value)| value.matches(op, text))
            }
            (Value::Str(value), Op::Contains) => value.contains(text),
            (Value::Bytes(value), Op::Contains) => hex(value).contains(&text.to_ascii_lowercase()),
            (Value::Label { name: Some(name), .. }, Op::Contains) => name.contains(text),
            (value, Op::Contains) => value.to_string().contains(text),
            (value, op) => value.compare(text).is_some_and(|order| op.holds(order)),
        }
    }

    pub(super) fn compare(&self, text: &str) -> Option<Ordering> {
        let trimmed = text.trim();
        match self {
            Value::Null => (trimmed == "null").then_some(Ordering::Equal),
            Value::Bool(value) => {
                let says = match trimmed {
                    "true" | "1" => true,
                    "false" | "0" => false,
                    _ => return None,
                };
                Some(value.cmp(&says))
            }
            Value::I64(value) => integer(Integer::from(i128::from(*value)), trimmed),
            Value::I128(value) => integer(Integer::from(*value), trimmed),
            Value::U64(value) => integer(Integer::Positive((*value).into()), trimmed),
            Value::U128(value) => integer(Integer::Positive(*value), trimmed),
            Value::F32(value) => float((*value).into(), trimmed.parse::<f32>().ok()?.into()),
            Value::F64(value) => float(*value, trimmed.parse().ok()?),
            Value::Char(value) => Some((*value.encode_utf8(&mut [0; 4])).cmp(text)),
            Value::Str(value) => Some((**value).cmp(text)),
            Value::Bytes(value) => Some(hex(value).cmp(&trimmed.to_ascii_lowercase())),
            Value::Label { name: Some(name), .. } if name.eq_ignore_ascii_case(text) => {
                Some(Ordering::Equal)
            }
            Value::Label { value, .. } => integer(Integer::from(i128::from(*value)), trimmed),
            Value::List(_) | Value::Struct(_) => None,
        }
    }
}

/// An integer of up to 129 bits: sign and magnitude, ordered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Integer {
    Negative(u128),
    Positive(u128),
}

impl From<i128> for Integer {
    fn from(value: i128) -> Self {
        let size = value.unsigned_abs();
        if value < 0 { Integer::Negative(size) } else { Integer::Positive(size) }
    }
}

impl Integer {
    fn parse(text: &str) -> Option<Self> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let size = match digits.strip_prefix("0x") {
            Some(digits) => u128::from_str_radix(digits, 16),
            None => digits.parse(),
        };
        let size = size.ok()?;
        Some(if negative && size > 0 { Integer::Negative(size) } else { Integer::Positive(size) })
    }

    fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Integer::Negative(one), Integer::Negative(two)) => two.cmp(&one),
            (Integer::Negative(_), Integer::Positive(_)) => Ordering::Less,
            (Integer::Positive(_), Integer::Negative(_)) => Ordering::Greater,
            (Integer::Positive(one), Integer::Positive(two)) => one.cmp(&two),
        }
    }
}

fn integer(value: Integer, text: &str) -> Option<Ordering> {
    if let Some(says) = Integer::parse(text) {
        return Some(value.compare(says));
    }
    let value = match value {
        Integer::Negative(size) => -(size as f64),
        Integer::Positive(size) => size as f64,
    };
    value.partial_cmp(&text.parse().ok()?)
}

/// Compares numbers. Unlike in arithmetic, NaN is equal to NaN, so that a condition can select it.
fn float(value: f64, says: f64) -> Option<Ordering> {
    if value.is_nan() && says.is_nan() {
        return Some(Ordering::Equal);
    }
    value.partial_cmp(&says)
}
