//! `#[derive(Traverse)]` for jit-frontend, which documents and re-exports it.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Data, DeriveInput, Error, Field, Fields, Index, Result, parse_macro_input};

/// Implements `jit_frontend::Traverse` for a struct: named, tuple or unit, generic or not.
///
/// `#[traverse(skip)]`: the field (`Hash + Clone`) is no leaf, but part of the structure. `#[traverse(ignore)]`: the
/// field (`Clone`) is neither.
#[proc_macro_derive(Traverse, attributes(traverse))]
pub fn derive_traverse(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(input).unwrap_or_else(Error::into_compile_error).into()
}

/// What a field is to `Traverse`.
enum Role {
    Leaf,
    Skip,
    Ignore,
}

fn expand(mut input: DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "`Traverse` can be derived for structs only"));
    };
    let mut visit = TokenStream::new();
    let mut rebuild = TokenStream::new();
    let mut static_key = TokenStream::new();
    let mut bounds: Vec<TokenStream> = Vec::new();
    let generic = input.generics.type_params().next().is_some();
    for (i, field) in data.fields.iter().enumerate() {
        let member = field
            .ident
            .as_ref()
            .map_or_else(|| Index::from(i).into_token_stream(), quote::ToTokens::to_token_stream);
        let ty = &field.ty;
        match role(field)? {
            Role::Leaf => {
                visit.extend(quote! { ::jit_frontend::Traverse::visit(&self.#member, visitor); });
                rebuild
                    .extend(quote! { #member: ::jit_frontend::Traverse::rebuild(&self.#member, rebuilder), });
                static_key
                    .extend(quote! { ::jit_frontend::Traverse::static_key(&self.#member, &mut *state); });
                bounds.push(quote! { #ty: ::jit_frontend::Traverse });
            }
            Role::Skip => {
                rebuild.extend(quote! { #member: ::core::clone::Clone::clone(&self.#member), });
                static_key.extend(quote! { ::core::hash::Hash::hash(&self.#member, &mut &mut *state); });
                bounds.push(quote! { #ty: ::core::clone::Clone + ::core::hash::Hash });
            }
            Role::Ignore => {
                rebuild.extend(quote! { #member: ::core::clone::Clone::clone(&self.#member), });
                bounds.push(quote! { #ty: ::core::clone::Clone });
            }
        }
    }
    // Bounds on the fields' types, not on the parameters: `Vec3<A>` is what must be traversed. A struct without parameters
    // needs none, and gets better errors without.
    if generic {
        let clause = input.generics.make_where_clause();
        for bound in bounds {
            clause.predicates.push(syn::parse2(bound)?);
        }
    }
    let body = match &data.fields {
        Fields::Unit => quote! { Self },
        _ => quote! { Self { #rebuild } },
    };
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics ::jit_frontend::Traverse for #name #type_generics #where_clause {
            fn visit(&self, visitor: &mut dyn ::jit_frontend::traverse::Visitor) {
                let _ = &visitor;
                #visit
            }

            fn rebuild(&self, rebuilder: &mut dyn ::jit_frontend::traverse::Rebuilder) -> Self {
                let _ = &rebuilder;
                #body
            }

            fn static_key(&self, state: &mut dyn ::core::hash::Hasher) {
                let _ = &state;
                #static_key
            }
        }
    })
}

fn role(field: &Field) -> Result<Role> {
    let mut role = Role::Leaf;
    for attribute in field.attrs.iter().filter(|a| a.path().is_ident("traverse")) {
        attribute.parse_nested_meta(|meta| {
            role = if meta.path.is_ident("skip") {
                Role::Skip
            } else if meta.path.is_ident("ignore") {
                Role::Ignore
            } else {
                return Err(meta.error("`traverse` takes `skip` or `ignore`"));
            };
            Ok(())
        })?;
    }
    Ok(role)
}
