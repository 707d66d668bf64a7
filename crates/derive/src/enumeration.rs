//! Enums without data: numbers with names.

use crate::attributes::{Container, Part, Repr, all_or_errors, at};
use crate::record::{archived_name, unraw};
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Ident, Result};

pub(crate) fn enumeration(input: &DeriveInput, all: &Container) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else { unreachable!("the caller has checked") };
    let ident = &input.ident;
    only_fields_have(all, ident)?;
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new(parameter.span(), "generic parameters are not allowed"));
    }
    let repr = Repr::of(&input.attrs)?.integer;
    let mut errors: Vec<Result<()>> = Vec::new();
    if repr.is_none() && !all.rkyv {
        let message = "the compiler is free to choose this enum's numbers and size: add \
                       `#[repr(u8)]`, or another integer of up to eight bytes";
        errors.push(Err(Error::new(ident.span(), message)));
    }
    errors
        .extend(data.variants.iter().filter(|variant| !matches!(variant.fields, Fields::Unit)).map(
        |variant| {
            let message = if all.rkyv {
                "an enum that carries data cannot be a record's typed field: remove \
                 `#[derive(Record)]` from it, and write `#[record(opaque)]` where it is a field"
            } else {
                "an enum that carries data cannot be a field: use one without data, and put the \
                 data in fields beside it"
            };
            Err(Error::new_spanned(&variant.fields, message))
        },
    ));
    all_or_errors(errors)?;
    if data.variants.is_empty() {
        return Err(Error::new(ident.span(), "an enum without variants has no values"));
    }
    let names = all_or_errors(data.variants.iter().map(|variant| {
        let part = Part::of_variant(&variant.attrs)?;
        Ok(part.name.map_or_else(|| unraw(&variant.ident), |name| name.value()))
    }))?;
    let variants: Vec<_> = data.variants.iter().map(|variant| &variant.ident).collect();

    let krate = all.krate(Span::call_site());
    let plain = repr.map(|repr| labelled(all, ident, &repr, &variants, &names));
    let archived_name = archived_name(ident, &input.attrs);
    let archived = all.rkyv.then(|| {
        quote! {
            #[automatically_derived]
            impl #krate::Shaped for #archived_name {
                const SHAPE: #krate::Shape<'static> = {
                    type Archived = <#ident as #krate::derived::rkyv::Archive>::Archived;
                    #krate::Shape {
                        of: ::core::option::Option::Some(&<u8 as #krate::Shaped>::SHAPE),
                        labels: &[#(#krate::Label {
                            value: Archived::#variants as u8 as i64,
                            name: #names,
                        }),*],
                        // rkyv gives every enum one byte.
                        ..#krate::Shape::plain(#krate::Kind::Enum, 1)
                    }
                };
            }
        }
    });
    Ok(quote!(#plain #archived))
}

fn labelled(
    all: &Container,
    ident: &Ident,
    repr: &Ident,
    variants: &[&Ident],
    names: &[String],
) -> TokenStream {
    let krate = all.krate(Span::call_site());
    let repr = quote!(::core::primitive::#repr);
    let numbers: Vec<_> = (0..variants.len()).map(|number| format_ident!("V{number}")).collect();
    let checks = variants.iter().map(|variant| {
        let span = at(variant.span());
        let krate = all.krate(span);
        quote_spanned! {span=>
            const _: () = #krate::derived::check_label(#ident::#variant as #repr as i128);
        }
    });
    quote! {
        #[automatically_derived]
        impl #krate::Labelled for #ident {
            type Repr = #repr;

            const LABELS: &'static [#krate::Label<'static>] = &[#(#krate::Label {
                value: #ident::#variants as #repr as i64,
                name: #names,
            }),*];

            #[inline]
            fn to_repr(self) -> #repr {
                self as #repr
            }

            #[inline]
            fn from_repr(repr: #repr) -> ::core::option::Option<Self> {
                #(const #numbers: #repr = #ident::#variants as #repr;)*
                #[allow(unreachable_patterns)] // where every number has a name
                match repr {
                    #(#numbers => ::core::option::Option::Some(#ident::#variants),)*
                    _ => ::core::option::Option::None,
                }
            }
        }

        #(#checks)*
    }
}

/// Rejects attributes that only a struct can have.
fn only_fields_have(all: &Container, ident: &Ident) -> Result<()> {
    let Container { name, version, id, class, help: _, types: _, rkyv: _ } = all;
    let refused = [
        name.as_ref().map(Spanned::span),
        version.as_ref().map(Spanned::span),
        id.as_ref().map(Spanned::span),
        class.as_ref().map(Spanned::span),
    ];
    match refused.into_iter().flatten().next() {
        None => Ok(()),
        Some(span) => Err(Error::new(
            span,
            format!(
                "`{ident}` is an enum, which is a field of records and not a record: an enum has \
                     `crate` and `rkyv`"
            ),
        )),
    }
}
