//! Parsing the text in the table to a validated [`Type`].

use super::json;
use super::layout::{ByteLayout, fixed_size};
use super::limits::MAX_VALUES;
use super::types::{Named, Type, TypeField, TypeLabel, TypeShape};
use super::value::Value;
use crate::schema::{Class, Encoding, Kind};
use perfring_abi::RecordType;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// Maximum nesting depth of structs, arrays and so on.
const DEPTH: u32 = 32;

/// A type's text that does not describe its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadType {
    /// The record type.
    pub id: RecordType,
    what: String,
}

impl BadType {
    /// Returns what is wrong with the text, without naming a table.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }
}

impl fmt::Display for BadType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the type table's text of type {:#x} cannot be used, so its records are bytes: {}",
            self.id.get(),
            self.what
        )
    }
}

impl std::error::Error for BadType {}

impl Type {
    /// Parses a type from its text in the type table.
    ///
    /// Unknown keys are ignored; unknown kinds, encodings and classes are kept by name.
    ///
    /// # Errors
    ///
    /// The text is not the JSON that `proto/ABI.md` describes; a field reaches beyond its struct,
    /// or sizes exceed 32 bits; two fields of a struct have one name; it is nested deeper than 32
    /// levels; an array makes more values than [`Type::decode`] would.
    pub fn parse(id: RecordType, text: &str) -> Result<Type, BadType> {
        parse(id, text).map_err(|what| BadType { id, what })
    }
}

fn parse(id: RecordType, text: &str) -> Result<Type, String> {
    let text = json::parse(text.as_bytes()).map_err(|error| format!("it is not JSON: {error}"))?;
    let object = ObjectValue::of(&text)?;
    let encoding = Named::<Encoding>::from_name(object.text_or("encoding", "bytes")?);
    let format = object.text("format")?;
    let size = object.number("size")?;
    let layout = ByteLayout::of(encoding.known(), format);
    let fit = match (encoding.known(), &layout) {
        (Some(Encoding::Pod), Ok(layout)) => Fit { layout: *layout, pod: true, strict: true },
        (Some(Encoding::Rkyv), Ok(layout)) => Fit { layout: *layout, pod: false, strict: true },
        (_, Ok(layout)) => Fit { layout: *layout, pod: false, strict: false },
        (_, Err(_)) => {
            Fit { layout: ByteLayout { big: false, width: 4 }, pod: false, strict: false }
        }
    };
    let fields = fit.fields(object.list("fields")?, size, 0)?;
    let mut by_name = HashMap::new();
    let firsts = fields.iter().enumerate();
    let firsts = firsts.map(|(at, field)| *by_name.entry(field.name.clone()).or_insert(at));
    let firsts = firsts.collect();
    Ok(Type {
        id,
        name: object.text("name")?.to_owned(),
        version: object.number("version")?,
        encoding,
        class: Named::<Class>::from_name(object.text_or("class", "plain")?),
        size,
        format: format.to_owned(),
        help: object.text("help")?.to_owned(),
        fields,
        layout,
        by_name,
        firsts,
    })
}

/// What fields have to fit into.
#[derive(Clone, Copy)]
struct Fit {
    layout: ByteLayout,
    /// Archived kinds are not allowed.
    pod: bool,
    /// Whether offsets matter: not in a tagged record, and not in an unknown encoding.
    strict: bool,
}

impl Fit {
    /// Parses the fields of a struct of `size` bytes.
    fn fields(self, list: &[Value], size: u32, depth: u32) -> Result<Vec<TypeField>, String> {
        let mut names = HashSet::new();
        let mut fields = Vec::with_capacity(list.len());
        for object in list {
            let object = ObjectValue::of(object)?;
            let name = object.text("name")?;
            let field = self.field(object, name, size, depth);
            fields.push(field.map_err(|what| format!("field {name:?}: {what}"))?);
            if !names.insert(name) && self.strict {
                return Err(format!("two fields are called {name:?}"));
            }
        }
        Ok(fields)
    }

    fn field(
        self,
        object: ObjectValue<'_>,
        name: &str,
        size: u32,
        depth: u32,
    ) -> Result<TypeField, String> {
        let at = object.number("at")?;
        let constant = object.get("constant").cloned();
        let shape = match constant {
            Some(_) => TypeShape::new(Named::Known(Kind::Any), 0),
            None => self.shape(object, depth)?,
        };
        if self.strict && constant.is_none() {
            within(at, shape.size, size)?;
        }
        Ok(TypeField {
            name: Arc::from(name),
            at,
            shape,
            unit: object.text("unit")?.to_owned(),
            help: object.text("help")?.to_owned(),
            constant,
        })
    }

    fn shape(self, object: ObjectValue<'_>, depth: u32) -> Result<TypeShape, String> {
        if depth >= DEPTH {
            return Err(format!("it is nested deeper than {DEPTH} levels"));
        }
        let kind = Named::<Kind>::from_name(object.text("kind")?);
        if kind.name().is_empty() {
            return Err("it has no kind".to_owned());
        }
        let Some(known) = kind.known() else {
            return Ok(TypeShape::new(kind, object.number("size")?));
        };
        if let Some(size) = fixed_size(known) {
            return Ok(TypeShape::new(kind, size));
        }
        let archived = matches!(known, Kind::String | Kind::Vec | Kind::Option);
        if (archived && self.pod) || (known == Kind::Any && self.strict) {
            let of = if archived { "an rkyv archive" } else { "a tagged record" };
            return Err(format!("{} is possible only in {of}", known.name()));
        }
        match known {
            Kind::Text | Kind::Bytes => Ok(TypeShape::new(kind, object.number("size")?)),
            Kind::Array => self.array(object, kind, depth),
            Kind::Struct => {
                let size = object.number("size")?;
                let fields = self.fields(object.list("fields")?, size, depth + 1)?;
                let values = fields.iter().map(|field| field.shape.values).fold(1, add);
                Ok(TypeShape { fields, values, ..TypeShape::new(kind, size) })
            }
            Kind::Enum => self.labelled(object, kind, depth),
            Kind::Vec => {
                let of = self.of(object, depth)?;
                Ok(TypeShape {
                    shown: of.shown,
                    of: Some(of),
                    ..TypeShape::new(kind, self.layout.pair())
                })
            }
            Kind::Option => {
                let (size, at) = (object.number("size")?, object.number("value_at")?);
                let of = self.of(object, depth)?;
                if self.strict {
                    within(at, of.size, size).and_then(|()| within(0, 1, size))?;
                }
                Ok(TypeShape { at, shown: of.shown, of: Some(of), ..TypeShape::new(kind, size) })
            }
            Kind::String => Ok(TypeShape::new(kind, self.layout.pair())),
            _ => Ok(TypeShape::new(kind, 0)),
        }
    }

    fn array(
        self,
        object: ObjectValue<'_>,
        kind: Named<Kind>,
        depth: u32,
    ) -> Result<TypeShape, String> {
        let count = object.number("count")?;
        let of = self.of(object, depth)?;
        let size = of.size.checked_mul(count);
        let size = size.ok_or_else(|| format!("{count} times {} bytes is too large", of.size))?;
        let values = add(1, of.values.saturating_mul(count.into()));
        if values > MAX_VALUES as u64 {
            return Err(format!("it holds {values} values, and {MAX_VALUES} is the limit"));
        }
        let shown = of.shown;
        Ok(TypeShape { count, of: Some(of), shown, values, ..TypeShape::new(kind, size) })
    }

    fn labelled(
        self,
        object: ObjectValue<'_>,
        kind: Named<Kind>,
        depth: u32,
    ) -> Result<TypeShape, String> {
        let of = self.of(object, depth)?;
        let integer = match of.kind.known() {
            Some(kind) => matches!(
                kind,
                Kind::U8
                    | Kind::U16
                    | Kind::U32
                    | Kind::U64
                    | Kind::U128
                    | Kind::I8
                    | Kind::I16
                    | Kind::I32
                    | Kind::I64
                    | Kind::I128
            ),
            None => true, // of a later version
        };
        if !integer && (self.strict || of.kind.known() != Some(Kind::Any)) {
            return Err(format!("an enum of {} instead of an integer", of.kind.name()));
        }
        let mut labels = Vec::new();
        for label in object.list("labels")? {
            let label = ObjectValue::of(label)?;
            let value = match label.get("value") {
                None => 0,
                Some(Value::I64(value)) => *value,
                Some(Value::U64(value)) if i64::try_from(*value).is_ok() => *value as i64,
                Some(_) => return Err("a label's value is not an integer of 64 bits".to_owned()),
            };
            labels.push(TypeLabel { value, name: Arc::from(label.text("name")?) });
        }
        let mut sorted: Vec<usize> = (0..labels.len()).collect();
        sorted.sort_by_key(|at| labels[*at].value);
        let shown = of.shown;
        let size = of.size;
        Ok(TypeShape { of: Some(of), labels, sorted, shown, ..TypeShape::new(kind, size) })
    }

    fn of(self, object: ObjectValue<'_>, depth: u32) -> Result<Box<TypeShape>, String> {
        let of = object.get("of").ok_or("its element type is missing")?;
        self.shape(ObjectValue::of(of)?, depth + 1).map(Box::new)
    }
}

fn add(values: u64, more: u64) -> u64 {
    values.saturating_add(more)
}

fn within(at: u32, size: u32, whole: u32) -> Result<(), String> {
    match at.checked_add(size) {
        Some(end) if end <= whole => Ok(()),
        _ => Err(format!("{size} bytes at {at} reach beyond the {whole} around it")),
    }
}

/// A JSON object. A missing key is empty or zero.
#[derive(Clone, Copy)]
struct ObjectValue<'a>(&'a [(Arc<str>, Value)]);

impl<'a> ObjectValue<'a> {
    fn of(value: &'a Value) -> Result<Self, String> {
        match value {
            Value::Struct(members) => Ok(ObjectValue(members)),
            _ => Err("expected a JSON object".to_owned()),
        }
    }

    fn get(self, key: &str) -> Option<&'a Value> {
        self.0.iter().find(|(name, _)| &**name == key).map(|(_, value)| value)
    }

    fn text(self, key: &str) -> Result<&'a str, String> {
        self.text_or(key, "")
    }

    fn text_or(self, key: &str, other: &'static str) -> Result<&'a str, String> {
        match self.get(key) {
            None => Ok(other),
            // As who writes a type leaves empty texts out.
            Some(Value::Str(text)) => Ok(if text.is_empty() { other } else { text }),
            Some(_) => Err(format!("{key} is not text")),
        }
    }

    fn number(self, key: &str) -> Result<u32, String> {
        match self.get(key) {
            None => Ok(0),
            Some(Value::U64(number)) if u32::try_from(*number).is_ok() => Ok(*number as u32),
            Some(_) => Err(format!("{key} is not an unsigned integer of 32 bits")),
        }
    }

    fn list(self, key: &str) -> Result<&'a [Value], String> {
        match self.get(key) {
            None => Ok(&[]),
            Some(Value::List(list)) => Ok(list),
            Some(_) => Err(format!("{key} is not a list")),
        }
    }
}
