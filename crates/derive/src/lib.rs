//! `#[derive(Record)]`: generates a struct's schema for perfring's records.
//!
//! Use it through `perfring` or `perfring_types`, whose traits it implements: each of them re-exports the derive
//! whose code finds these traits in it.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod attributes;
mod enumeration;
mod record;

use attributes::Container;
use proc_macro2::TokenStream;
use syn::{Data, DeriveInput, Error, Path, Result, parse_quote};

/// Derives `Record` for a struct, or the traits of a record's field for an enum.
///
/// # Plain records
///
/// A struct whose bytes are the payload. It is `bytemuck::Pod`, so it has no padding, no pointers,
/// and no type for which some bytes are invalid.
///
/// ```
/// use bytemuck::{Pod, Zeroable};
/// use perfring_types::{Enum, Record, Text};
///
/// /// A trade, as reported by the exchange.
/// #[repr(C)]
/// #[derive(Clone, Copy, Record, Pod, Zeroable)]
/// #[record(name = "market.Trade", version = 2)]
/// struct Trade {
///     /// When it was made.
///     #[record(unit = "ns")]
///     time: u64,
///     price: f64,
///     symbol: Text<8>,
///     side: Enum<Side>,
///     _pad: [u8; 7],
///     depth: [Level; 2],
/// }
///
/// #[repr(C)]
/// #[derive(Clone, Copy, Record, Pod, Zeroable)]
/// struct Level {
///     price: f64,
///     #[record(unit = "{share}", help = "at this price")]
///     size: u64,
/// }
///
/// #[repr(u8)]
/// #[derive(Clone, Copy, Debug, PartialEq, Record)]
/// enum Side {
///     Buy,
///     #[record(name = "sell")]
///     Sell,
/// }
///
/// let trade = Trade { side: Side::Sell.into(), symbol: "ACME".try_into().unwrap(), ..Trade::zeroed() };
/// assert_eq!(trade.side.get(), Ok(Side::Sell));
/// assert_eq!(Trade::SCHEMA.help, "A trade, as reported by the exchange.");
/// assert_eq!(Trade::SCHEMA.fields[0].unit, "ns");
/// ```
///
/// # rkyv records
///
/// With `#[record(rkyv)]` the payload is an rkyv archive, which may contain strings, vectors and
/// options. The struct derives `rkyv`'s `Archive` and `Serialize`; so do the structs in it. An enum
/// without data in it has `#[record(rkyv)]` too.
///
/// ```
/// use perfring_types::{Borrowed, Record};
/// use rkyv::{Archive, Serialize};
///
/// #[derive(Archive, Serialize, Record)]
/// #[record(rkyv, name = "demo.Line", class = "log")]
/// struct Line<'a> {
///     #[rkyv(with = Borrowed)] // a `String` in the archive
///     message: &'a str,
///     level: Level,
///     #[record(unit = "ms")]
///     took: Option<f64>,
///     tags: Vec<Tag>,
///     #[record(opaque)] // bytes: a tuple has no known shape
///     pair: (u32, u32),
/// }
///
/// #[derive(Archive, Serialize, Record)]
/// #[record(rkyv)]
/// struct Tag {
///     key: String,
///     value: i64,
/// }
///
/// #[derive(Archive, Serialize, Record)]
/// #[record(rkyv)]
/// enum Level {
///     Info,
///     Warn,
/// }
///
/// assert_eq!(Line::SCHEMA.fields.len(), 5);
/// ```
///
#[doc = include_str!("attributes.md")]
#[proc_macro_derive(Record, attributes(record))]
pub fn derive_record(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    let made = derive(&input, parse_quote!(::perfring_types));
    made.unwrap_or_else(Error::into_compile_error).into()
}

/// Makes a struct a record, or an enum a field of records: [`Record`] for a crate that depends on `perfring`.
///
/// `perfring` re-exports it as `Record`. A derive cannot ask through which crate it was reached, so there
/// is one for each crate that offers it; they differ in the path that their code begins with.
///
#[doc = include_str!("attributes.md")]
#[proc_macro_derive(PerfringRecord, attributes(record))]
pub fn derive_perfring_record(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    let made = derive(&input, parse_quote!(::perfring::types));
    made.unwrap_or_else(Error::into_compile_error).into()
}

/// Implements the traits of `types`, unless `crate = ...` names another path.
fn derive(input: &DeriveInput, types: Path) -> Result<TokenStream> {
    let all = Container::of(&input.attrs, types)?;
    match &input.data {
        Data::Struct(_) => record::structure(input, &all),
        Data::Enum(_) => enumeration::enumeration(input, &all),
        Data::Union(union) => Err(Error::new(
            union.union_token.span,
            "a reader cannot tell which field of a union is valid: use a struct with a field for each",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Generated code reaches everything through `crate = ...`, for users that do not depend on
    /// `perfring_types` themselves.
    #[test]
    fn another_path_is_used_everywhere() {
        let inputs: [DeriveInput; 3] = [
            parse_quote! {
                #[repr(C)]
                #[record(crate = producer::types, id = 70)]
                struct Plain { #[record(text)] a: [u8; 8], b: u64 }
            },
            parse_quote! {
                #[record(crate = "producer::types", rkyv)]
                struct Archive<'a> { #[record(opaque)] a: &'a str, #[record(hex)] b: [u8; 4] }
            },
            parse_quote! {
                #[repr(u8)]
                #[record(crate = producer::types, rkyv)]
                enum Enumeration { A, B }
            },
        ];
        for input in inputs {
            let path = derive(&input, parse_quote!(::perfring_types)).unwrap().to_string();
            assert!(path.contains("producer :: types"), "{path}");
            assert!(!path.contains("perfring_types"), "{path}");
            let mut plain = input.clone();
            for attribute in &mut plain.attrs {
                if attribute.path().is_ident("record") {
                    *attribute = parse_quote!(#[record(rkyv)]);
                }
            }
            let default = derive(&plain, parse_quote!(::perfring_types)).unwrap().to_string();
            assert!(default.contains(":: perfring_types"), "{default}");
            let ours = derive(&plain, parse_quote!(::perfring::types)).unwrap().to_string();
            assert!(ours.contains(":: perfring :: types"), "{ours}");
            assert!(!ours.contains("perfring_types"), "{ours}");
        }
    }
}
