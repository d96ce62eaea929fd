//! Imports and paths in Rust sources, as they are written.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree, Visibility};

/// The words of a path.
pub(super) type Names = Vec<String>;

/// What some code names.
#[derive(Default)]
pub(super) struct Paths {
    pub(super) imports: Vec<Import>,
    pub(super) used: BTreeSet<Names>,
}

/// A name that a `use` brings.
pub(super) struct Import {
    /// The name that it brings; nothing for a glob.
    pub(super) name: Option<String>,
    pub(super) path: Names,
    pub(super) re_export: bool,
}

impl Paths {
    /// Adds what an item names, but for its tests.
    pub(super) fn gather(&mut self, item: &Item) {
        Collector { paths: self }.visit_item(item);
    }
}

/// Gathers the imports and paths of one item, down into its bodies.
struct Collector<'a> {
    paths: &'a mut Paths,
}

impl Collector<'_> {
    fn uses(&mut self, tree: &UseTree, before: &[String], re_export: bool) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        let mut import = |name: Option<String>, path: Names| self.paths.imports.push(Import { name, path, re_export });
        match tree {
            UseTree::Path(path) => self.uses(&path.tree, &with(&path.ident), re_export),
            UseTree::Name(name) if name.ident == "self" => import(before.last().cloned(), before.to_vec()),
            UseTree::Name(name) => import(Some(name.ident.to_string()), with(&name.ident)),
            UseTree::Rename(rename) if rename.ident == "self" => {
                import(Some(rename.rename.to_string()), before.to_vec());
            }
            UseTree::Rename(rename) => import(Some(rename.rename.to_string()), with(&rename.ident)),
            UseTree::Glob(_) => import(None, before.to_vec()),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.uses(tree, before, re_export)),
        }
    }

    /// Paths in what a macro is given: words joined by `::`. A word after a dot is a field or a method.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons, mut dots) = (Names::new(), 0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(word) if colons == 2 && !path.is_empty() => path.push(word.to_string()),
                TokenTree::Ident(word) => {
                    self.path(std::mem::take(&mut path));
                    // After colons alone: of another crate, or what follows `Vec::<T>`. Nothing of ours either way.
                    if colons != 2 && dots != 1 {
                        path.push(word.to_string());
                    }
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    (colons, dots) = (colons + 1, 0);
                    continue;
                }
                TokenTree::Punct(punct) if punct.as_char() == '.' => {
                    self.path(std::mem::take(&mut path));
                    (colons, dots) = (0, dots + 1);
                    continue;
                }
                TokenTree::Group(group) => {
                    self.path(std::mem::take(&mut path));
                    self.tokens(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => self.path(std::mem::take(&mut path)),
            }
            (colons, dots) = (0, 0);
        }
        self.path(path);
    }

    fn path(&mut self, path: Names) {
        if !path.is_empty() {
            self.paths.used.insert(path);
        }
    }

    fn syn_path(&mut self, path: &syn::Path) {
        if path.leading_colon.is_none() {
            self.path(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            self.uses(&item.tree, &[], !matches!(item.vis, Visibility::Inherited));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.syn_path(path);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.syn_path(&call.path);
        self.tokens(call.tokens.clone());
    }

    /// serde and clap take paths as text: `#[serde(with = "crate::model::text")]`.
    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        self.syn_path(attribute.meta.path());
        let syn::Meta::List(list) = &attribute.meta else { return };
        self.tokens(list.tokens.clone());
        for token in list.tokens.clone() {
            let TokenTree::Literal(literal) = token else { continue };
            let text = syn::parse_str::<syn::LitStr>(&literal.to_string());
            if let Some(path) = text.ok().and_then(|text| text.parse::<syn::Path>().ok()) {
                self.syn_path(&path);
            }
        }
    }
}

/// The name that an item brings into its module, if it has one.
pub(super) fn defined(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether this is only there in tests: `#[test]`, `#[cfg(test)]`, `#[cfg(all(test, ...))]`.
pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = match &attribute.meta {
            syn::Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string().replace(' ', ""),
            meta => return meta.path().is_ident("test"),
        };
        let all = text.strip_prefix("all(").and_then(|rest| rest.strip_suffix(')'));
        text == "test" || all.is_some_and(|parts| parts.split(',').any(|part| part == "test"))
    })
}
