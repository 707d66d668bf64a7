//! Structs: plain ones and rkyv archives.

use crate::attributes::{Container, Part, Repr, Show, all_or_errors, at};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, Field, Fields, GenericParam, Ident, Member, Meta,
    MetaNameValue, PathArguments, Result, Token, Type,
};

/// A parsed field.
struct Known<'a> {
    field: &'a Field,
    member: Member,
    part: Part,
}

impl Known<'_> {
    fn name(&self) -> String {
        match (&self.part.name, &self.member) {
            (Some(name), _) => name.value(),
            (None, Member::Named(name)) => unraw(name),
            (None, Member::Unnamed(index)) => index.index.to_string(),
        }
    }

    /// Returns whether it is padding, and so left out of the schema.
    fn skipped(&self) -> bool {
        let padding = matches!(&self.member, Member::Named(name) if unraw(name).starts_with('_'));
        self.part.skip || padding && self.part.name.is_none()
    }

    /// Returns the span for errors about it.
    fn span(&self) -> Span {
        at(self.field.ty.span())
    }

    /// Generates `Field { .. }`.
    fn tokens(
        &self,
        krate: &TokenStream,
        container: &TokenStream,
        shape: &TokenStream,
    ) -> TokenStream {
        let Known { member, part, .. } = self;
        let name = self.name();
        let help = &part.help;
        let unit = part.unit.as_ref().map(|unit| unit.value()).unwrap_or_default();
        quote! {
            #krate::Field {
                unit: #unit,
                help: #help,
                ..#krate::Field::new(
                    #name,
                    ::core::mem::offset_of!(#container, #member) as u32,
                    #shape,
                )
            }
        }
    }
}

pub(crate) fn unraw(name: &Ident) -> String {
    let name = name.to_string();
    name.strip_prefix("r#").map(str::to_owned).unwrap_or(name)
}

fn fields(fields: &Fields) -> Result<Vec<Known<'_>>> {
    let known =
        all_or_errors(fields.members().zip(fields).map(|(member, field)| {
            Ok(Known { field, member, part: Part::of_field(&field.attrs)? })
        }))?;
    let mut names = Vec::new();
    for field in known.iter().filter(|field| !field.skipped()) {
        if names.contains(&field.name()) {
            let message = format!("two fields have the name `{}`", field.name());
            return Err(Error::new_spanned(field.field, message));
        }
        names.push(field.name());
    }
    Ok(known)
}

pub(crate) fn structure(input: &DeriveInput, all: &Container) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else { unreachable!("the caller has checked") };
    if let Some(parameter) = input
        .generics
        .params
        .iter()
        .find(|parameter| !(all.rkyv && matches!(parameter, GenericParam::Lifetime(_))))
    {
        let message = if all.rkyv {
            "a record's type is one type: generic parameters other than lifetimes are not allowed; \
             write a struct for each type that is needed"
        } else {
            "a record's type is one type: generic parameters are not allowed; write a struct for \
             each type that is needed"
        };
        return Err(Error::new_spanned(parameter, message));
    }
    if all.rkyv { archive(input, all, &data.fields) } else { pod(input, all, &data.fields) }
}

fn pod(input: &DeriveInput, all: &Container, declared: &Fields) -> Result<TokenStream> {
    let mut errors: Vec<Result<()>> = Vec::new();
    if !Repr::of(&input.attrs)?.stable {
        errors.push(Err(Error::new(
            input.ident.span(),
            "the compiler is free to order the fields of this struct: add `#[repr(C)]`",
        )));
    }
    errors.extend(declared.iter().map(|field| refuse(&field.ty)));
    let known = fields(declared);
    errors.extend(known.iter().flatten().filter(|field| field.part.show == Show::Opaque).map(
        |field| {
            let message = "`opaque` is for rkyv records: for bytes use `hex`";
            Err(Error::new_spanned(field.field, message))
        },
    ));
    all_or_errors(errors)?;
    let known = known?;

    let krate = all.krate(Span::call_site());
    let ident = &input.ident;
    let here = ident.to_token_stream();
    let reported = known.iter().filter(|field| !field.skipped()).map(|field| {
        let (ty, span) = (&field.field.ty, field.span());
        let krate = all.krate(span);
        let shape = match field.part.show {
            Show::Text => quote_spanned!(span=> <#ty as #krate::derived::ByteArray>::TEXT),
            Show::Hex => quote_spanned!(span=> <#ty as #krate::derived::ByteArray>::HEX),
            Show::Typed | Show::Opaque => quote_spanned!(span=> <#ty as #krate::Shaped>::SHAPE),
        };
        field.tokens(&krate, &here, &shape)
    });
    let check_id = check_id(all);
    let checks = pod_checks(all, ident, &known);
    let schema = schema(&krate, input, all, &quote!(Pod), &quote!(""), &here);
    Ok(quote! {
        #[automatically_derived]
        impl #krate::Shaped for #ident {
            const SHAPE: #krate::Shape<'static> = #krate::Shape::structure(
                ::core::mem::size_of::<#ident>() as u32,
                const { &[#(#reported),*] },
            );
        }

        #[automatically_derived]
        impl #krate::Record for #ident {
            #schema
        }

        #[automatically_derived]
        impl #krate::PodRecord for #ident {}

        #check_id
        #checks
    })
}

/// Generates the compiler's checks of the layout.
fn pod_checks(all: &Container, ident: &Ident, known: &[Known<'_>]) -> TokenStream {
    let mut checks = TokenStream::new();
    let mut end = quote!(0);
    let mut fine = quote!(true);
    for field in known {
        let (ty, member, span) = (&field.field.ty, &field.member, field.span());
        let krate = all.krate(span);
        let align = quote!(::core::mem::align_of::<#ty>());
        checks.extend(quote_spanned! {span=>
            const _: () = #krate::derived::check_field_alignment(#align);
            const _: () = #krate::derived::check_gap_before(
                ::core::mem::align_of::<#ident>(),
                #end,
                ::core::mem::offset_of!(#ident, #member),
            );
        });
        end = quote! {
            ::core::mem::offset_of!(#ident, #member) + ::core::mem::size_of::<#ty>()
        };
        fine.extend(quote!(&& #align <= 8));
    }
    let span = at(ident.span());
    let krate = all.krate(span);
    checks.extend(quote_spanned! {span=>
        // The error about a field's alignment belongs to the field.
        const _: () = if #fine {
            #krate::derived::check_alignment(::core::mem::align_of::<#ident>());
        };
        const _: () = #krate::derived::check_gap_after(
            ::core::mem::align_of::<#ident>(),
            #end,
            ::core::mem::size_of::<#ident>(),
        );
        const _: () = #krate::derived::check_size(::core::mem::size_of::<#ident>());
    });
    checks
}

/// Returns rkyv's name of the archived type: `ArchivedX`, or the one that `#[rkyv(archived = Y)]`
/// gives.
///
/// By its name and not as `<X as Archive>::Archived`: for two impls of that form, one in another
/// crate, the compiler cannot know that they are for different types.
pub(crate) fn archived_name(ident: &Ident, attributes: &[Attribute]) -> Ident {
    let listed = |attribute: &Attribute| {
        attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()
    };
    let rkyv = attributes.iter().filter(|attribute| attribute.path().is_ident("rkyv"));
    let given = rkyv.filter_map(listed).flatten().find_map(|meta| match meta {
        Meta::NameValue(MetaNameValue { path, value: Expr::Path(name), .. })
            if path.is_ident("archived") =>
        {
            name.path.get_ident().cloned()
        }
        _ => None,
    });
    given.unwrap_or_else(|| format_ident!("Archived{}", ident, span = ident.span()))
}

fn archive(input: &DeriveInput, all: &Container, declared: &Fields) -> Result<TokenStream> {
    let known = fields(declared)?;
    let krate = all.krate(Span::call_site());
    let (ident, generics) = (&input.ident, &input.generics);
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    let archived = quote!(<#ident #ty_generics as #krate::derived::rkyv::Archive>::Archived);
    let archived_name = archived_name(ident, &input.attrs);
    // Lifetimes do not affect the layout.
    let lifetimes = generics.lifetimes().map(|_| quote!('static));
    let some = quote!(<#ident<#(#lifetimes),*> as #krate::derived::rkyv::Archive>::Archived);

    let mut reported = Vec::new();
    let mut checks = TokenStream::new();
    for field in known.iter().filter(|field| !field.skipped()) {
        let (member, span) = (&field.member, field.span());
        let read = match field.part.show {
            Show::Typed => "archived",
            Show::Text => "archived_text",
            Show::Hex => "archived_hex",
            Show::Opaque => "archived_opaque",
        };
        let (read, krate) = (Ident::new(read, span), all.krate(span));
        let shape = |of: &TokenStream| {
            quote_spanned! {span=>
                #krate::derived::#read::<#of, _>(|archived| &archived.#member)
            }
        };
        reported.push(field.tokens(&krate, &archived, &shape(&archived)));
        let shape = shape(&some);
        checks.extend(quote_spanned! {span=>
            const _: () = #krate::derived::check_archived(#shape);
        });
    }
    let schema = schema(&krate, input, all, &quote!(Rkyv), &quote!(#krate::RKYV_FORMAT), &archived);
    let check_id = check_id(all);
    let span = at(ident.span());
    let at_ident = all.krate(span);
    checks.extend(quote_spanned! {span=>
        const _: () = #at_ident::derived::check_alignment(::core::mem::align_of::<#some>());
        const _: () = #at_ident::derived::check_size(::core::mem::size_of::<#some>());
    });
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics #krate::Shaped for #archived_name #ty_generics #where_clause {
            const SHAPE: #krate::Shape<'static> = #krate::Shape::structure(
                ::core::mem::size_of::<Self>() as u32,
                const { &[#(#reported),*] },
            );
        }

        #[automatically_derived]
        impl #impl_generics #krate::Record for #ident #ty_generics #where_clause {
            #schema
        }

        #[automatically_derived]
        impl #impl_generics #krate::RkyvRecord for #ident #ty_generics #where_clause {}

        #check_id
        #checks
    })
}

/// Generates the check of a given id.
fn check_id(all: &Container) -> Option<TokenStream> {
    let id = all.id.as_ref()?;
    let span = at(id.span());
    let krate = all.krate(span);
    Some(quote_spanned!(span=> const _: () = #krate::derived::check_id(#id);))
}

/// Generates `const SCHEMA`.
fn schema(
    krate: &TokenStream,
    input: &DeriveInput,
    all: &Container,
    encoding: &TokenStream,
    format: &TokenStream,
    shaped: &TokenStream,
) -> TokenStream {
    let name = match &all.name {
        Some(name) => name.to_token_stream(),
        None => {
            let name = format!(".{}", unraw(&input.ident));
            quote!(::core::concat!(::core::env!("CARGO_PKG_NAME"), #name))
        }
    };
    let version = all.version.as_ref().map_or_else(|| quote!(1), ToTokens::to_token_stream);
    let class = all.class.as_ref().map_or_else(|| quote!(Plain), ToTokens::to_token_stream);
    let help = &all.help;
    let id = all.id.as_ref().map(
        |id| quote!(let schema = #krate::Schema { id: #krate::derived::given_id(#id), ..schema };),
    );
    quote! {
        const SCHEMA: #krate::Schema<'static> = {
            let shape = <#shaped as #krate::Shaped>::SHAPE;
            let schema = #krate::Schema {
                version: #version,
                class: #krate::Class::#class,
                format: #format,
                help: #help,
                ..#krate::Schema::new(#name, #krate::Encoding::#encoding)
            }
            .with_fields(shape.size, shape.fields)
            .with_hashed_id();
            #id
            schema
        };
    }
}

/// Rejects types that a user is likely to write and that cannot be used, and says what to use
/// instead.
fn refuse(ty: &Type) -> Result<()> {
    const TEXT: &str = "use `perfring_types::Text<N>`, or make the struct an rkyv record: \
                        `#[derive(Archive, Serialize, Record)] #[record(rkyv)]`";
    let message = match ty {
        Type::Reference(_) => format!("a reference means nothing in another process: {TEXT}"),
        Type::Ptr(_) | Type::FnPtr(_) => {
            format!("a pointer means nothing in another process: {TEXT}")
        }
        Type::Array(array) => return refuse(&array.elem),
        Type::Group(group) => return refuse(&group.elem),
        Type::Paren(paren) => return refuse(&paren.elem),
        Type::Tuple(_) => {
            "the layout of a tuple is not stable: use a struct with `#[repr(C)]` and \
             `#[derive(Record)]`"
                .to_owned()
        }
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return Ok(()) };
            let generic = matches!(last.arguments, PathArguments::AngleBracketed(_));
            let name = last.ident.to_string();
            match (name.as_str(), generic) {
                ("String" | "str", false) | ("Vec" | "Box" | "Rc" | "Arc" | "Cow", true) => {
                    format!(
                        "the contents of a `{name}` are elsewhere in memory, where another process \
                         cannot see them: {TEXT}"
                    )
                }
                ("Option", true) => "the layout of an `Option` is not stable: let one value mean \
                                     none, or make the struct an rkyv record: \
                                     `#[derive(Archive, Serialize, Record)] #[record(rkyv)]`"
                    .to_owned(),
                ("bool", false) => {
                    "a byte that is neither 0 nor 1 is not a `bool`, and a payload may \
                                    hold any bytes: use `u8`, or an enum of two names as \
                                    `perfring_types::Enum<E>`"
                        .to_owned()
                }
                ("char", false) => "not every number is a `char`, and a payload may hold any \
                                    bytes: use `u32`"
                    .to_owned(),
                ("usize", false) => {
                    "the size of `usize` is not the same everywhere: use `u64`".to_owned()
                }
                ("isize", false) => {
                    "the size of `isize` is not the same everywhere: use `i64`".to_owned()
                }
                _ => return Ok(()),
            }
        }
        _ => return Ok(()),
    };
    Err(Error::new_spanned(ty, message))
}
