//! What each file of a crate uses from which other file, read from the sources.
//!
//! Names are resolved as far as this question needs: by `crate`, `self` and `super`, by the modules that a file
//! declares and by its imports. A name is followed to the file that defines it, so a `mod.rs` that only re-exports
//! creates no dependency.
//! What counts as use:
//!
//! - an import that is not a re-export, and each path in code, in a macro's arguments or in an attribute's text;
//! - a glob import, which uses the module's own file if that defines anything, and all that it re-exports by name.
//!
//! What does not count: `mod x;`, a re-export as such, a module named without anything in it, test code, and things
//! used without being named (methods, fields).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use proc_macro2::TokenStream;

use super::paths::Paths;

/// Reads a source file; `None` if there is none.
pub(super) type Reader<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// File to file, with the names that the first uses from the second.
pub(super) type Ties = BTreeMap<(PathBuf, PathBuf), BTreeSet<String>>;

/// The modules of one crate; the first is its root.
#[derive(Default)]
struct Modules(Vec<Module>);

struct Module {
    file: PathBuf,
    parent: usize,
    children: BTreeMap<String, usize>,
    paths: Paths,
}

/// What a path leads to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    /// Something that this module's file defines.
    Inside(usize),
    /// The module as such.
    Itself(usize),
}

/// The dependencies between the files of the crate with this root file.
pub(super) fn ties(root: &Path, read: Reader<'_>) -> Result<Ties> {
    Ok(Modules::of(root, read)?.ties())
}

impl Modules {
    fn of(root: &Path, read: Reader<'_>) -> Result<Self> {
        let mut modules = Self::default();
        let source = read(root).with_context(|| format!("cannot read {}", root.display()))?;
        let dir = root.parent().context("a crate's root lies in a directory")?;
        modules.add(root, tokens(root, &source)?, dir, 0, read)?;
        Ok(modules)
    }

    /// Adds a module of a file and those below it. `dir` is where their files are.
    fn add(&mut self, file: &Path, content: TokenStream, dir: &Path, parent: usize, read: Reader<'_>) -> Result<usize> {
        let at = self.0.len();
        let mut paths = Paths::of(content);
        let below = std::mem::take(&mut paths.modules);
        self.0.push(Module { file: file.to_owned(), parent, children: BTreeMap::new(), paths });
        for (name, content) in below {
            let inside = dir.join(&name);
            let places = [dir.join(format!("{name}.rs")), inside.join("mod.rs")];
            let child = match content {
                Some(content) => self.add(file, content, &inside, at, read)?,
                None => {
                    let found = places.iter().find_map(|place| Some((place, read(place)?)));
                    let (file, source) =
                        found.with_context(|| format!("{}: there is no file for mod {name}", file.display()))?;
                    self.add(file, tokens(file, &source)?, &inside, at, read)?
                }
            };
            self.0[at].children.insert(name, child);
        }
        Ok(at)
    }

    fn ties(&self) -> Ties {
        let mut ties = Ties::new();
        for (at, module) in self.0.iter().enumerate() {
            let imports = module.paths.imports.iter().filter(|import| !import.re_export);
            let taken = imports.map(|import| (&import.path, import.name.is_none()));
            for (path, glob) in taken.chain(module.paths.used.iter().map(|path| (path, false))) {
                for file in self.files(at, path, glob) {
                    if *file != module.file {
                        let names = ties.entry((module.file.clone(), file.clone())).or_default();
                        names.insert(shown(path));
                    }
                }
            }
        }
        ties
    }

    /// The files that a path in this module leads to.
    fn files(&self, at: usize, path: &[String], glob: bool) -> BTreeSet<&PathBuf> {
        let mut files = BTreeSet::new();
        for target in self.resolve(at, path, &mut BTreeSet::new()) {
            match target {
                Target::Inside(module) => drop(files.insert(&self.0[module].file)),
                Target::Itself(module) if glob => {
                    let module_at = &self.0[module];
                    if !module_at.paths.items.is_empty() {
                        files.insert(&module_at.file);
                    }
                    for import in
                        module_at.paths.imports.iter().filter(|import| import.re_export && import.name.is_some())
                    {
                        files.extend(self.files(module, &import.path, false));
                    }
                }
                Target::Itself(_) => {}
            }
        }
        files
    }

    /// Where a path in this module leads; nowhere where it leaves the crate. `open` holds the
    /// imports that are being followed, which ends those that lead to each other.
    fn resolve(&self, at: usize, path: &[String], open: &mut BTreeSet<(usize, usize)>) -> BTreeSet<Target> {
        let Some(first) = path.first() else { return BTreeSet::from([Target::Itself(at)]) };
        match first.as_str() {
            "crate" => self.inside(0, &path[1..], true, open),
            "self" => self.inside(at, &path[1..], true, open),
            "super" => match &path[1..] {
                rest @ [next, ..] if next == "super" => self.resolve(self.0[at].parent, rest, open),
                rest => self.inside(self.0[at].parent, rest, true, open),
            },
            _ => self.inside(at, path, false, open),
        }
    }

    /// As [`Self::resolve`], for a path from within a module. `ours` says that the path is known to be the crate's own:
    /// what is not found is then taken to be the file's.
    fn inside(&self, at: usize, path: &[String], ours: bool, open: &mut BTreeSet<(usize, usize)>) -> BTreeSet<Target> {
        let Some((name, rest)) = path.split_first() else { return BTreeSet::from([Target::Itself(at)]) };
        let module = &self.0[at];
        let mut found = BTreeSet::new();
        let child = module.children.get(name);
        if let Some(child) = child {
            found.extend(self.inside(*child, rest, true, open));
        }
        // A function may have the name of a module, but then nothing lies inside it.
        if module.paths.items.contains(name) && (rest.is_empty() || child.is_none()) {
            found.insert(Target::Inside(at));
        }
        for (index, import) in module.paths.imports.iter().enumerate() {
            if import.name.as_ref() == Some(name) && open.insert((at, index)) {
                found.extend(self.resolve(at, &[&import.path, rest].concat(), open));
                open.remove(&(at, index));
            }
        }
        if found.is_empty() {
            for (index, glob) in module.paths.imports.iter().enumerate() {
                if glob.name.is_none() && open.insert((at, index)) {
                    for target in self.resolve(at, &glob.path, open) {
                        if let Target::Itself(source) = target {
                            found.extend(self.inside(source, path, false, open));
                        }
                    }
                    open.remove(&(at, index));
                }
            }
        }
        if found.is_empty() && ours {
            found.insert(Target::Inside(at));
        }
        found
    }
}

fn tokens(file: &Path, source: &str) -> Result<TokenStream> {
    source.parse().map_err(|error| anyhow!("cannot parse {}: {error}", file.display()))
}

/// A path's type or trait, where it names one: `Kind` of `crate::kinds::Kind::Fast`; else its last word.
fn shown(path: &[String]) -> String {
    let of_a_type = |name: &&String| name.starts_with(char::is_uppercase);
    path.iter().find(of_a_type).or(path.last()).cloned().unwrap_or_default()
}
