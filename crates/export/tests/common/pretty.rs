//! Converts the text in which babeltrace2 prints an event's fields to JSON.

use serde_json::Value as Json;
use std::fmt;

/// The printed value, with a struct's fields in their order.
#[derive(Clone, PartialEq)]
pub enum Pretty {
    Struct(Vec<(String, Pretty)>),
    List(Vec<Pretty>),
    One(Json),
    /// The bytes of a blob in hexadecimal, or the value of an option.
    Bare(String),
}

impl Pretty {
    /// Returns the field of this name.
    pub fn get(&self, name: &str) -> &Pretty {
        let Pretty::Struct(fields) = self else { panic!("{self:?}") };
        let found = fields.iter().find(|(own, _)| own == name);
        &found.unwrap_or_else(|| panic!("no {name} in {self:?}")).1
    }

    pub fn names(&self) -> Vec<&str> {
        let Pretty::Struct(fields) = self else { panic!("{self:?}") };
        fields.iter().map(|(name, _)| name.as_str()).collect()
    }

    pub fn json(&self) -> Json {
        match self {
            Pretty::Struct(fields) => {
                fields.iter().map(|(name, value)| (name.clone(), value.json())).collect()
            }
            Pretty::List(values) => values.iter().map(Pretty::json).collect(),
            Pretty::One(value) => value.clone(),
            Pretty::Bare(text) => Json::String(text.clone()),
        }
    }
}

impl fmt::Debug for Pretty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.json().fmt(f)
    }
}

/// Parses `{ a = 1, b = "text" }`; returns the value and the rest.
pub fn parse(text: &str) -> (Pretty, &str) {
    let text = text.trim_start();
    match text.as_bytes()[0] {
        b'{' => {
            let mut map: Vec<(String, Pretty)> = Vec::new();
            let mut rest = text[1..].trim_start();
            // The bytes of a blob of CTF 2, or the value of an option.
            if rest.find(['}', '=']).is_some_and(|at| rest[at..].starts_with('}') && at > 0) {
                let (bare, after) = rest.split_once('}').unwrap();
                return (Pretty::Bare(bare.trim_end().to_owned()), after);
            }
            while !rest.starts_with('}') {
                let (name, after) = rest.split_once(" = ").unwrap();
                let (value, after) = parse(after);
                assert!(map.iter().all(|(other, _)| other != name), "{name} twice");
                map.push((name.to_owned(), value));
                rest = after.trim_start().trim_start_matches(',').trim_start();
            }
            (Pretty::Struct(map), &rest[1..])
        }
        b'[' => {
            let mut list = Vec::new();
            let mut rest = text[1..].trim_start();
            while !rest.starts_with(']') {
                let (index, after) = rest.split_once(" = ").unwrap();
                assert_eq!(index, format!("[{}]", list.len()));
                let (value, after) = parse(after);
                list.push(value);
                rest = after.trim_start().trim_start_matches(',').trim_start();
            }
            (Pretty::List(list), &rest[1..])
        }
        // No value of an option of CTF 2.
        b'<' => (Pretty::List(Vec::new()), text.strip_prefix("<none>").unwrap()),
        // An enumeration: the label, or its substitute.
        b'(' => {
            let (label, after) = if text[1..].trim_start().starts_with('"') {
                parse(&text[1..])
            } else {
                (Pretty::One(Json::Null), &text[1..])
            };
            let (_, after) = after.split_once("container = ").unwrap();
            let (number, after) = after.split_once(" )").unwrap();
            if label == Pretty::One(Json::Null) {
                return (Pretty::One(number.parse::<i64>().unwrap().into()), after);
            }
            (label, after)
        }
        b'"' => {
            let (mut out, mut chars) = (String::new(), text[1..].char_indices());
            while let Some((at, c)) = chars.next() {
                match c {
                    '"' => return (Pretty::One(Json::String(out)), &text[at + 2..]),
                    '\\' => out.push(match chars.next().unwrap().1 {
                        'n' => '\n',
                        'r' => '\r',
                        't' => '\t',
                        'a' => '\x07',
                        'b' => '\x08',
                        'f' => '\x0c',
                        'v' => '\x0b',
                        other => other,
                    }),
                    other => out.push(other),
                }
            }
            panic!("no end: {text}")
        }
        _ => {
            let end = text.find([',', ' ', '}', ']']).unwrap_or(text.len());
            let (number, rest) = text.split_at(end);
            let value = match number.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).unwrap().into(),
                None => match (number.parse::<u64>(), number.parse::<i64>()) {
                    (Ok(number), _) => number.into(),
                    (_, Ok(number)) => number.into(),
                    _ => number.parse::<f64>().map_or(Json::String(number.into()), Json::from),
                },
            };
            (Pretty::One(value), rest)
        }
    }
}
