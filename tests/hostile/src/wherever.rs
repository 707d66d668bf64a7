//! `--where`: any condition on any value.

use crate::types::parse;
use perfring_testkit::choices::{Choices, Input};
use perfring_types::read::{Condition, Op, Type, Value};
use std::sync::OnceLock;

/// Enumerations in every position, and other contents of JSON.
const SHAPE: &str = r#"{"name":"t","encoding":"tagged","fields":[
    {"name":"level","kind":"enum","of":{"kind":"any"},"labels":[{"value":1,"name":"low"},{"value":9,"name":"High"}]},
    {"name":"list","kind":"array","count":3,"of":{"kind":"enum","of":{"kind":"u8"},"labels":[{"value":2,"name":"two"}]}},
    {"name":"at","kind":"struct","size":8,"fields":[{"name":"x","kind":"u32"},{"name":"x.y","at":4,"kind":"i32"}]},
    {"name":"maybe","kind":"option","size":8,"value_at":4,"of":{"kind":"enum","of":{"kind":"i8"},"labels":[{"value":-1,"name":"no"}]}}]}"#;

pub(crate) fn run(data: &[u8]) {
    static SHAPES: OnceLock<[Type; 2]> = OnceLock::new();
    let [shape, json] = SHAPES.get_or_init(|| {
        [SHAPE, r#"{"name":"j","encoding":"json"}"#].map(|text| parse(text).expect("a type"))
    });
    let mut input = Input::new(data);
    let text = input.text(512);
    let condition = match Condition::parse(&text) {
        Ok(condition) => condition,
        Err(bad) => {
            assert!(!bad.to_string().is_empty());
            return;
        }
    };
    assert!(!condition.path.is_empty());
    let number = input.u64();
    let mut values = vec![
        Value::U64(number),
        Value::I64(number as i64),
        Value::U128(u128::from(number) << 70),
        Value::I128(-i128::from(number)),
        Value::F32(number as f32),
        Value::F64(f64::from_bits(number)),
        Value::Bool(number & 1 == 1),
        Value::Char(char::from_u32(number as u32).unwrap_or('x')),
        Value::Bytes(number.to_le_bytes().to_vec()),
        Value::Label { value: number as i64, name: Some("High".into()) },
        Value::Label { value: 1, name: None },
        Value::Null,
    ];
    values.push(Value::List(values.clone()));
    if let Ok(value) = json.decode(input.rest()) {
        check(json, &value, &condition);
        values.push(value);
    }
    for value in values {
        for op in [Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge, Op::Contains] {
            let _ = value.matches(op, &condition.text);
        }
        let name = condition.path.split('.').next().unwrap_or_default();
        check(shape, &Value::Struct(vec![(name.into(), value)]), &condition);
    }
}

fn check(kind: &Type, value: &Value, condition: &Condition) {
    let is = |op| kind.matches(value, &Condition { op, ..condition.clone() });
    if value.get(&condition.path).is_none() {
        assert!(!is(condition.op) && !condition.matches(value));
        return;
    }
    // Of two opposite conditions one holds.
    assert_ne!(is(Op::Eq), is(Op::Ne));
    let _ = (is(Op::Lt), is(Op::Ge), condition.matches(value));
}
