//! `#[derive(Record)]`: a struct's schema, for perfring's records.
//!
//! Use it through `perfring_types` or `perfring_producer::types`, whose traits it implements.
#![forbid(unsafe_code)]

mod attributes;
mod enumeration;
mod record;

use attributes::Container;
use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::{Data, DeriveInput, Error, Result};

/// DOCS
#[proc_macro_derive(Record, attributes(record))]
pub fn derive_record(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    derive(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let all = Container::of(&input.attrs)?;
    match &input.data {
        Data::Struct(_) => record::structure(input, &all),
        Data::Enum(_) => enumeration::enumeration(input, &all),
        Data::Union(union) => Err(Error::new(
            union.union_token.span,
            "nobody could tell which field of a union is meant: use a struct with a field for each",
        )),
    }
}

/// The path of `perfring_types`.
fn krate(all: &Container) -> TokenStream {
    match &all.krate {
        Some(path) => path.to_token_stream(),
        None => quote::quote!(::perfring_types),
    }
}

/// Names are looked up as in the macro's own code; errors are shown at `place`.
fn at(place: Span) -> Span {
    Span::call_site().located_at(place)
}
