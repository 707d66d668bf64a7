//! The payload: `ProcessContext` of OpenTelemetry's protocol, as far as it is a resource of plain values.

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Payload {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
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
    #[prost(oneof = "Value", tags = "1, 2, 3, 4")]
    pub(crate) value: Option<Value>,
}

/// Lists, maps and bytes are left out: fields that a message does not have are skipped.
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
}

/// Encodes a resource of texts.
pub(crate) fn encode<N, V>(attributes: impl IntoIterator<Item = (N, V)>) -> Vec<u8>
where
    N: Into<String>,
    V: Into<String>,
{
    let pair = |(name, value): (N, V)| KeyValue {
        key: name.into(),
        value: Some(AnyValue { value: Some(Value::Text(value.into())) }),
    };
    let attributes = attributes.into_iter().map(pair).collect();
    Payload { resource: Some(Resource { attributes }) }.encode_to_vec()
}

/// Decodes a resource, its values as text.
pub(crate) fn decode(payload: &[u8]) -> Option<Vec<(String, String)>> {
    let resource = Payload::decode(payload).ok()?.resource.unwrap_or_default();
    let pair = |KeyValue { key, value }| {
        let value = match value?.value? {
            Value::Text(text) => text,
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Double(value) => value.to_string(),
        };
        Some((key, value))
    };
    Some(resource.attributes.into_iter().filter_map(pair).collect())
}
