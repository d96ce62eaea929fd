//! What one module of Rust declares, imports and names, read from its tokens: no more of the syntax matters here, and
//! macros look like all other code.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The words of a path.
pub(super) type Names = Vec<String>;

/// What a module has, without its tests.
#[derive(Default)]
pub(super) struct Paths {
    /// Its modules, those within it with their content.
    pub(super) modules: Vec<(String, Option<TokenStream>)>,
    /// What it defines: types, functions, constants, macros.
    pub(super) items: BTreeSet<String>,
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

/// What precedes the name of an item.
const ITEMS: [&str; 8] = ["const", "enum", "fn", "static", "struct", "trait", "type", "union"];

impl Paths {
    /// Reads the tokens of a module.
    pub(super) fn of(module: TokenStream) -> Self {
        let mut this = Self::default();
        this.read(module, true);
        this
    }

    /// Reads tokens of the module itself, or of what is inside its items.
    fn read(&mut self, tokens: TokenStream, is_module: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut rest = &tokens[..];
        // The punctuation just before, and whether it is a visibility that is before.
        let (mut before, mut is_public) = (String::new(), false);
        while let Some((first, tail)) = rest.split_first() {
            rest = tail;
            let was_public = std::mem::take(&mut is_public);
            match (first, tail) {
                (TokenTree::Punct(punct), _) => {
                    before.push(punct.as_char());
                    continue;
                }
                (TokenTree::Group(group), _) if before.ends_with('#') || before.ends_with("#!") => {
                    if is_test(&group.stream()) {
                        rest = if before.ends_with('!') { &[] } else { after_item(tail, is_module) };
                    } else {
                        self.attribute(group.stream());
                    }
                }
                (TokenTree::Group(group), _) => {
                    is_public = was_public && group.delimiter() == Delimiter::Parenthesis;
                    self.read(group.stream(), false);
                }
                (TokenTree::Ident(word), [next, ..]) if word == "use" && !is(next, '<') => {
                    let end = tail.iter().position(|token| is(token, ';')).unwrap_or(tail.len());
                    self.import(&tail[..end], &[], was_public);
                    rest = &tail[end..];
                }
                (TokenTree::Ident(word), [TokenTree::Ident(name), next, ..]) if is_module && word == "mod" => {
                    let content = if let TokenTree::Group(group) = next { Some(group.stream()) } else { None };
                    self.modules.push((plain(name), content));
                    rest = &tail[2..];
                }
                (TokenTree::Ident(word), [TokenTree::Ident(name), ..])
                    if is_module && ITEMS.contains(&word.to_string().as_str()) =>
                {
                    self.items.insert(plain(name));
                }
                (TokenTree::Ident(word), [_, TokenTree::Ident(name), ..]) if is_module && word == "macro_rules" => {
                    self.items.insert(plain(name));
                }
                (TokenTree::Ident(word), _) => {
                    is_public = word == "pub";
                    let mut path = vec![plain(word)];
                    while let [one, two, TokenTree::Ident(word), ..] = rest
                        && is(one, ':')
                        && is(two, ':')
                    {
                        path.push(plain(word));
                        rest = &rest[3..];
                    }
                    // A field, a method or a lifetime. What follows colons alone is another crate's, or inside a type.
                    let is_field = before.ends_with('.') && !before.ends_with("..");
                    if !is_field && !before.ends_with("::") && !before.ends_with('\'') {
                        self.used.insert(path);
                    }
                }
                (TokenTree::Literal(_), _) => {}
            }
            before.clear();
        }
    }

    /// Its tokens, and the paths in its texts, as serde and clap take them: `#[serde(with = "crate::model::text")]`.
    fn attribute(&mut self, tokens: TokenStream) {
        for token in tokens.clone() {
            let TokenTree::Group(group) = token else { continue };
            let texts = group.stream().into_iter().filter_map(|token| match token {
                TokenTree::Literal(text) => Some(text.to_string().trim_matches('"').to_owned()),
                _ => None,
            });
            let paths = texts.map(|text| text.split("::").map(str::to_owned).collect::<Names>());
            let is_word = |word: &String| !word.is_empty() && word.chars().all(|it| it.is_alphanumeric() || it == '_');
            self.used.extend(paths.filter(|path| path.iter().all(is_word)));
        }
        self.read(tokens, false);
    }

    /// What a tree of imports brings, of which `before` is known.
    fn import(&mut self, tree: &[TokenTree], before: &[String], re_export: bool) {
        for branch in tree.split(|token| is(token, ',')) {
            // Another crate's.
            if branch.is_empty() || is(&branch[0], ':') {
                continue;
            }
            let (mut path, mut name) = (before.to_vec(), None);
            let mut words = branch.iter();
            while let Some(token) = words.next() {
                match token {
                    TokenTree::Group(group) => {
                        let inside: Vec<_> = group.stream().into_iter().collect();
                        self.import(&inside, &path, re_export);
                        path.clear();
                    }
                    TokenTree::Ident(word) if word == "as" => name = words.next().map(ToString::to_string),
                    TokenTree::Ident(word) => path.push(plain(word)),
                    _ => {}
                }
            }
            if path.len() > 1 && path.last().is_some_and(|word| word == "self") {
                path.pop();
            }
            if branch.last().is_some_and(|token| is(token, '*')) {
                self.imports.push(Import { name: None, path, re_export });
            } else if !path.is_empty() {
                self.imports.push(Import { name: name.or(path.last().cloned()), path, re_export });
            }
        }
    }
}

fn is(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

/// A word without the mark of a raw one.
fn plain(word: &proc_macro2::Ident) -> String {
    word.to_string().trim_start_matches("r#").to_owned()
}

/// What follows an item; inside of one, what follows a field, a variant or an argument.
fn after_item(tokens: &[TokenTree], is_module: bool) -> &[TokenTree] {
    let is_end = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        token => is(token, ';') || (!is_module && is(token, ',')),
    };
    tokens.iter().position(is_end).map_or(&[], |end| &tokens[end + 1..])
}

/// Whether an attribute says that something is only there in tests: `test`, `cfg(test)`, `cfg(all(test, ...))`.
fn is_test(attribute: &TokenStream) -> bool {
    let text = attribute.to_string().replace(' ', "");
    let all = text.strip_prefix("cfg(all(").and_then(|rest| rest.strip_suffix("))"));
    text == "test" || text == "cfg(test)" || all.is_some_and(|parts| parts.split(',').any(|part| part == "test"))
}
