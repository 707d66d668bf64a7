//! The payload: `ProcessContext` of OpenTelemetry's protocol.
//!
//! A hostile payload is bounded twice. It has at most 64 KiB, so its values take a few MiB at most: an empty value has two
//! bytes there. And `prost` refuses a message within more than 100 others, which is a list within some fifty lists.

use perfring_types::read::Value as Read;
use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Payload {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) extra: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(crate) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub(crate) value: Option<Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct List {
    #[prost(message, repeated, tag = "1")]
    pub(crate) values: Vec<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Map {
    #[prost(message, repeated, tag = "1")]
    pub(crate) values: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(message, tag = "5")]
    List(List),
    #[prost(message, tag = "6")]
    Map(Map),
    #[prost(bytes = "vec", tag = "7")]
    Bytes(Vec<u8>),
}

/// The attributes that readers of OTEP 4947 need before the variable of thread contexts: the layout of its records, and the
/// names of their attributes, of which there are none.
fn thread_contexts() -> Vec<KeyValue> {
    let pair = |name: &str, value| KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
    };
    vec![
        pair("threadlocal.schema_version", Value::Text("tlsdesc_v1_dev".to_owned())),
        pair("threadlocal.attribute_key_map", Value::List(List::default())),
    ]
}

/// Encodes a resource of texts, and what readers of thread contexts need if the process may have some.
pub(crate) fn encode<N, V>(
    attributes: impl IntoIterator<Item = (N, V)>,
    has_threads: bool,
) -> Vec<u8>
where
    N: Into<String>,
    V: Into<String>,
{
    let pair = |(name, value): (N, V)| KeyValue {
        key: name.into(),
        value: Some(AnyValue { value: Some(Value::Text(value.into())) }),
    };
    let attributes = attributes.into_iter().map(pair).collect();
    let extra = if has_threads { thread_contexts() } else { Vec::new() };
    Payload { resource: Some(Resource { attributes }), extra }.encode_to_vec()
}

/// Names and values.
pub(crate) type Pairs = Vec<(String, Read)>;

/// Decodes the attributes of the resource, and the extra ones.
pub(crate) fn decode(payload: &[u8]) -> Option<(Pairs, Pairs)> {
    let Payload { resource, extra } = Payload::decode(payload).ok()?;
    let attributes = resource.unwrap_or_default().attributes;
    Some((attributes.into_iter().map(pair).collect(), extra.into_iter().map(pair).collect()))
}

fn pair(KeyValue { key, value }: KeyValue) -> (String, Read) {
    (key, value.map_or(Read::Null, read))
}

/// A value of a kind that is not known is null.
fn read(value: AnyValue) -> Read {
    match value.value {
        None => Read::Null,
        Some(Value::Text(text)) => Read::Str(text),
        Some(Value::Bool(value)) => Read::Bool(value),
        Some(Value::Int(value)) => Read::I64(value),
        Some(Value::Double(value)) => Read::F64(value),
        Some(Value::List(list)) => Read::List(list.values.into_iter().map(read).collect()),
        Some(Value::Map(map)) => {
            let fields = map.values.into_iter().map(pair);
            Read::Struct(fields.map(|(name, value)| (name.into(), value)).collect())
        }
        Some(Value::Bytes(bytes)) => Read::Bytes(bytes),
    }
}
