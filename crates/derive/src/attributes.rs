//! Parses `#[record(...)]` and doc comments.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, Expr, ExprLit, Ident, Lit, LitInt, LitStr, Path, Result};

/// Names for `class`, and their variants of `perfring_types::Class`.
const CLASSES: [(&str, &str); 8] = [
    ("plain", "Plain"),
    ("log", "Log"),
    ("span_start", "SpanStart"),
    ("span_end", "SpanEnd"),
    ("gauge", "Gauge"),
    ("sum", "Sum"),
    ("histogram", "Histogram"),
    ("resource", "Resource"),
];

/// The attributes of a struct or enum.
pub(crate) struct Container {
    pub(crate) name: Option<LitStr>,
    pub(crate) version: Option<LitInt>,
    pub(crate) id: Option<Expr>,
    /// A variant of `perfring_types::Class`.
    pub(crate) class: Option<Ident>,
    pub(crate) help: String,
    /// The path of `perfring_types`.
    pub(crate) types: Path,
    pub(crate) rkyv: bool,
}

/// How a field's bytes are shown.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) enum Show {
    /// By its type.
    #[default]
    Typed,
    Text,
    Hex,
    /// As bytes, whatever its type (rkyv).
    Opaque,
}

/// The attributes of a field or variant.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) name: Option<LitStr>,
    pub(crate) unit: Option<LitStr>,
    pub(crate) help: String,
    pub(crate) show: Show,
    pub(crate) skip: bool,
}

/// Gives generated code this span for its errors.
pub(crate) fn at(span: Span) -> Span {
    Span::call_site().located_at(span)
}

impl Container {
    /// Returns the path of `perfring_types`, for code whose errors are shown at `span`.
    pub(crate) fn krate(&self, span: Span) -> TokenStream {
        let respanned = self.types.to_token_stream().into_iter().map(|mut token| {
            token.set_span(token.span().located_at(span));
            token
        });
        respanned.collect()
    }

    /// Reads the attributes; without `crate = ...`, `perfring_types` is at `types`.
    pub(crate) fn of(attributes: &[Attribute], types: Path) -> Result<Self> {
        let mut krate = None;
        let mut all = Container {
            name: None,
            version: None,
            id: None,
            class: None,
            help: help(attributes),
            types,
            rkyv: false,
        };
        each(attributes, |meta| {
            if meta.path.is_ident("name") {
                once(&mut all.name, name(&meta)?, &meta)
            } else if meta.path.is_ident("version") {
                let version: LitInt = meta.value()?.parse()?;
                version.base10_parse::<u16>().map_err(|_| {
                    Error::new(version.span(), "a version is a number of up to 65535")
                })?;
                once(&mut all.version, version, &meta)
            } else if meta.path.is_ident("id") {
                once(&mut all.id, meta.value()?.parse()?, &meta)
            } else if meta.path.is_ident("class") {
                once(&mut all.class, class(&meta.value()?.parse()?)?, &meta)
            } else if meta.path.is_ident("help") {
                all.help = meta.value()?.parse::<LitStr>()?.value();
                Ok(())
            } else if meta.path.is_ident("crate") {
                once(&mut krate, path(&meta)?, &meta)
            } else if meta.path.is_ident("rkyv") {
                all.rkyv = true;
                Ok(())
            } else {
                Err(unknown(
                    &meta,
                    "a struct has `name`, `version`, `id`, `class`, `help`, `crate` and `rkyv`",
                ))
            }
        })?;
        all.types = krate.unwrap_or(all.types);
        Ok(all)
    }
}

impl Part {
    /// Parses the attributes of a field.
    pub(crate) fn of_field(attributes: &[Attribute]) -> Result<Self> {
        let mut all = Part { help: help(attributes), ..Part::default() };
        each(attributes, |meta| {
            let show = [("text", Show::Text), ("hex", Show::Hex), ("opaque", Show::Opaque)];
            if let Some((_, show)) = show.iter().find(|(name, _)| meta.path.is_ident(name)) {
                if all.show != Show::Typed {
                    return Err(meta.error("only one of `text`, `hex` and `opaque` is allowed"));
                }
                all.show = *show;
                Ok(())
            } else if meta.path.is_ident("unit") {
                once(&mut all.unit, meta.value()?.parse()?, &meta)
            } else if meta.path.is_ident("name") {
                once(&mut all.name, name(&meta)?, &meta)
            } else if meta.path.is_ident("help") {
                all.help = meta.value()?.parse::<LitStr>()?.value();
                Ok(())
            } else if meta.path.is_ident("skip") {
                all.skip = true;
                Ok(())
            } else {
                Err(unknown(
                    &meta,
                    "a field has `unit`, `help`, `name`, `text`, `hex`, `opaque` and `skip`",
                ))
            }
        })?;
        Ok(all)
    }

    /// Parses the attributes of a variant of an enum.
    pub(crate) fn of_variant(attributes: &[Attribute]) -> Result<Self> {
        let mut all = Part::default();
        each(attributes, |meta| {
            if meta.path.is_ident("name") {
                once(&mut all.name, name(&meta)?, &meta)
            } else {
                Err(unknown(&meta, "a variant has `name`"))
            }
        })?;
        Ok(all)
    }
}

fn each(
    attributes: &[Attribute],
    mut read: impl FnMut(ParseNestedMeta<'_>) -> Result<()>,
) -> Result<()> {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("record"))
        .try_for_each(|attribute| attribute.parse_nested_meta(&mut read))
}

fn once<T>(slot: &mut Option<T>, value: T, meta: &ParseNestedMeta<'_>) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(meta.error("this attribute is given twice")),
    }
}

fn unknown(meta: &ParseNestedMeta<'_>, known: &str) -> Error {
    let name = meta.path.to_token_stream();
    meta.error(format!("`{name}` is unknown here: {known}"))
}

fn name(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    let name: LitStr = meta.value()?.parse()?;
    if name.value().is_empty() {
        return Err(Error::new(name.span(), "a name cannot be empty"));
    }
    Ok(name)
}

fn class(given: &LitStr) -> Result<Ident> {
    let value = given.value();
    match CLASSES.iter().find(|(name, _)| *name == value) {
        Some((_, variant)) => Ok(Ident::new(variant, Span::call_site())),
        None => {
            let names: Vec<_> = CLASSES.iter().map(|(name, _)| format!("`{name}`")).collect();
            Err(Error::new(
                given.span(),
                format!("`{value}` is not a class of records: use one of {}", names.join(", ")),
            ))
        }
    }
}

/// Parses `crate = path` or `crate = "path"`.
fn path(meta: &ParseNestedMeta<'_>) -> Result<Path> {
    let value = meta.value()?;
    if value.peek(LitStr) {
        value.parse::<LitStr>()?.parse_with(Path::parse_mod_style)
    } else {
        value.call(Path::parse_mod_style)
    }
}

/// Returns the first paragraph of a doc comment, in one line.
fn help(attributes: &[Attribute]) -> String {
    let mut words = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        let Ok(meta) = attribute.meta.require_name_value() else { continue };
        let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &meta.value else { continue };
        let text = text.value();
        // An empty `///` is an empty string, which has no lines.
        for line in text.split('\n') {
            if line.trim().is_empty() && !words.is_empty() {
                return words.join(" ");
            }
            words.extend(line.split_whitespace().map(str::to_owned));
        }
    }
    words.join(" ")
}

/// The content of `#[repr(...)]`.
#[derive(Default)]
pub(crate) struct Repr {
    /// `C` or `transparent`.
    pub(crate) stable: bool,
    /// The integer type of an enum.
    pub(crate) integer: Option<Ident>,
}

impl Repr {
    pub(crate) fn of(attributes: &[Attribute]) -> Result<Self> {
        let mut repr = Repr::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("repr")) {
            attribute.parse_nested_meta(|meta| {
                match meta.path.get_ident().map(Ident::to_string).as_deref() {
                    Some("C" | "transparent") => repr.stable = true,
                    Some("packed" | "align") if meta.input.peek(syn::token::Paren) => {
                        let inner;
                        syn::parenthesized!(inner in meta.input);
                        inner.parse::<LitInt>()?;
                    }
                    Some("u8" | "u16" | "u32" | "u64" | "i8" | "i16" | "i32" | "i64") => {
                        repr.integer = meta.path.get_ident().cloned();
                    }
                    _ => {} // the compiler checks it
                }
                Ok(())
            })?;
        }
        Ok(repr)
    }
}

/// Returns all values, or all errors combined.
pub(crate) fn all_or_errors<T>(results: impl IntoIterator<Item = Result<T>>) -> Result<Vec<T>> {
    let mut good = Vec::new();
    let mut bad: Option<Error> = None;
    for result in results {
        match (result, &mut bad) {
            (Ok(value), _) => good.push(value),
            (Err(error), None) => bad = Some(error),
            (Err(error), Some(bad)) => bad.combine(error),
        }
    }
    bad.map_or(Ok(good), Err)
}
