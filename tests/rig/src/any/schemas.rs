//! Any schema.

use super::{Member, Model, What, leak};
use perfring_types::Constant;
use proptest::prelude::*;

/// Returns names and texts of a schema, with characters that JSON must escape.
pub fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[a-z_.]{0,8}", 1 => "[ \"\\\\\t\n\r\u{0}\u{7f}é日=]{0,4}"]
}

pub fn any_constant() -> impl Strategy<Value = Constant<'static>> {
    prop_oneof![
        any::<bool>().prop_map(Constant::Bool),
        any::<i64>().prop_map(Constant::I64),
        any::<u64>().prop_map(Constant::U64),
        any::<u64>().prop_map(|bits| Constant::F64(f64::from_bits(bits))),
        text().prop_map(|text| Constant::Str(leak(&text))),
    ]
}

/// Returns fields with distinct names.
pub fn members(
    model: impl Strategy<Value = Model> + 'static,
    count: std::ops::Range<usize>,
) -> impl Strategy<Value = Vec<Member>> {
    let what = prop_oneof![
        5 => model.prop_map(What::Stands),
        1 => any_constant().prop_map(What::Constant),
    ];
    let member = (text(), 0usize..4, what, text(), text())
        .prop_map(|(name, gap, what, unit, help)| Member { name, gap, what, unit, help });
    prop::collection::vec(member, count).prop_map(|mut members| {
        for (at, member) in members.iter_mut().enumerate() {
            member.name.push_str(&at.to_string());
        }
        members
    })
}

fn labels() -> impl Strategy<Value = Vec<(i64, String)>> {
    let value = prop_oneof![-3i64..4, any::<i64>()];
    let labels = prop::collection::btree_map(value, text(), 0..5);
    // A label without a name would be shown as an empty one.
    labels.prop_map(|labels| {
        let labels = labels.into_iter().rev();
        labels.map(|(value, name)| (value, format!("l{name}"))).collect()
    })
}

/// Returns any shape, with or without the shapes of archives.
pub fn model(archived: bool) -> BoxedStrategy<Model> {
    let bytes = || prop::sample::select(vec![1usize, 2, 4, 8, 16]);
    let leaf = prop_oneof![
        4 => (bytes(), any::<bool>()).prop_map(|(bytes, signed)| Model::Integer { bytes, signed }),
        1 => Just(Model::F32),
        1 => Just(Model::F64),
        1 => Just(Model::Bool),
        1 => Just(Model::Char),
        1 => (0usize..40).prop_map(Model::Text),
        1 => (0usize..40).prop_map(Model::Bytes),
        2 => (bytes(), any::<bool>(), labels())
            .prop_map(|(bytes, signed, labels)| Model::Enum { bytes, signed, labels }),
        if archived { 3 } else { 0 } => Just(Model::String),
    ];
    let archived = u32::from(archived);
    leaf.prop_recursive(4, 24, 5, move |inner| {
        prop_oneof![
            2 => (inner.clone(), 0usize..5).prop_map(|(of, count)| Model::Array(Box::new(of), count)),
            2 => members(inner.clone(), 0..5).prop_map(Model::Struct),
            2 * archived => inner.clone().prop_map(|of| Model::Vec(Box::new(of))),
            2 * archived => (inner, 0usize..8)
                .prop_map(|(of, gap)| Model::Option(Box::new(of), gap)),
        ]
    })
    .boxed()
}
