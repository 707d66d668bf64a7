//! Reading records by the types of their ring.
//!
//! ```
//! use perfring_abi::RecordType;
//! use perfring_types::read::{Condition, Type, TypeTable};
//! use perfring_types::Entry;
//! let id = RecordType::new(5000).unwrap();
//! let text = r#"{"name":"demo.Temperature","encoding":"pod","size":16,"fields":[
//!     {"name":"value","kind":"f64","unit":"Cel"},
//!     {"name":"state","at":8,"kind":"enum","of":{"kind":"u8"},
//!      "labels":[{"value":1,"name":"warming up"}]}]}"#;
//! let table = TypeTable::from_words(&Entry { id, layout: 0, text }.to_words());
//! let temperature: &Type = table.get(id).unwrap();
//!
//! let mut payload = 21.5f64.to_ne_bytes().to_vec();
//! payload.extend([1, 0, 0, 0, 0, 0, 0, 0]);
//! let value = temperature.decode(&payload).unwrap();
//! assert_eq!(temperature.render_text(&value), r#"value=21.5 Cel state="warming up""#);
//! assert_eq!(serde_json::to_string(&value).unwrap(), r#"{"value":21.5,"state":"warming up"}"#);
//! assert!(temperature.matches(&value, &Condition::parse("value>=20").unwrap()));
//! ```
//!
//! Texts that people write are parsed here, too, for all programs alike: a [`Condition`], and sizes and durations by
//! [`parse_size`] and [`parse_duration`].
//!
//! Nothing here trusts its input: an invalid table or payload is an error, and what a decode makes
//! is bounded, see [`Type::decode`].

mod amount;
mod archive;
mod check;
mod condition;
mod decode;
mod json;
mod layout;
mod limits;
mod parse;
mod table;
mod text;
mod types;
mod value;

pub use amount::{BadAmount, parse_duration, parse_size};
pub use condition::{BadCondition, Condition, Op};
pub use decode::BadPayload;
pub use parse::BadType;
pub use table::{TableDamage, TypeTable};
pub use text::{TextLine, Word, disturbs, word};
pub use types::{Named, Type, TypeField, TypeLabel, TypeShape};
pub use value::Value;
