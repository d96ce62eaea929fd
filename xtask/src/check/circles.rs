//! No dependency cycle may connect files of different rooms.
//!
//! A room is a folder below `src`, and `src` itself is one; `a.rs` next to the folder `a` belongs to the room `a`, as
//! `a/mod.rs` does. Files in one room may use each other freely. Files in two rooms that depend on each other, directly
//! or not, cannot be read, moved or tested separately, so that is a fault. `modules.rs` defines what counts as a
//! dependency of one file on another.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use serde_json::Value;

use super::Notes;
use super::modules::{self, Ties};
use crate::metadata;

pub(super) fn run() -> Result<Notes> {
    let metadata = metadata::workspace()?;
    let mut faults = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().context("a package of the workspace has no name")?;
        for root in roots(package) {
            let src = root.parent().context("a crate's root lies in a directory")?;
            let ties = modules::ties(&root, &|file| fs::read_to_string(file).ok())?;
            faults.extend(circles(&inside(&ties, src)).into_iter().map(|circle| format!("{name}: {circle}")));
        }
    }
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(Vec::new())
}

/// The roots of a package's libraries and programs. Tests, examples and build scripts have no rooms.
fn roots(package: &Value) -> Vec<PathBuf> {
    let targets = package["targets"].as_array().into_iter().flatten();
    let kinds = |target: &Value| target["kind"].as_array().cloned().unwrap_or_default();
    let built = targets.filter(|target| kinds(target).iter().any(|kind| kind == "lib" || kind == "bin"));
    built.filter_map(|target| target["src_path"].as_str().map(PathBuf::from)).collect()
}

/// The dependencies, with paths below `src`, which is how messages name files.
fn inside(ties: &Ties, src: &Path) -> Ties {
    let short = |file: &PathBuf| file.strip_prefix(src).unwrap_or(file).to_owned();
    ties.iter().map(|((from, to), names)| ((short(from), short(to)), names.clone())).collect()
}

/// Each cycle with files of more than one room, and its dependencies from room to room.
fn circles(ties: &Ties) -> Vec<String> {
    let files: BTreeSet<&PathBuf> = ties.keys().flat_map(|(from, to)| [from, to]).collect();
    let rooms: BTreeMap<&PathBuf, PathBuf> = files.iter().map(|file| (*file, room(file, &files))).collect();
    let mut found = Vec::new();
    let graph: DiGraphMap<&PathBuf, ()> = ties.keys().map(|(from, to)| (from, to)).collect();
    for circle in tarjan_scc(&graph) {
        let crossed: BTreeSet<&PathBuf> = circle.iter().map(|file| &rooms[file]).collect();
        if crossed.len() < 2 {
            continue;
        }
        let named: Vec<_> = crossed.iter().map(|room| shown(room)).collect();
        let mut text = format!("a cycle of {} files ties {} rooms: {}", circle.len(), named.len(), named.join(", "));
        for ((from, to), names) in ties {
            if circle.contains(&from) && circle.contains(&to) && rooms[from] != rooms[to] {
                let names: Vec<_> = names.iter().map(String::as_str).collect();
                text += &format!("\n  {} -> {}: {}", from.display(), to.display(), names.join(", "));
            }
        }
        found.push(text);
    }
    found
}

/// The room of a file: its folder, or the folder next to it with the same name.
fn room(file: &Path, files: &BTreeSet<&PathBuf>) -> PathBuf {
    let own = file.with_extension("");
    let has_folder = files.iter().any(|other| other.starts_with(&own));
    if has_folder { own } else { file.parent().map(Path::to_owned).unwrap_or_default() }
}

fn shown(room: &Path) -> String {
    if room.as_os_str().is_empty() { "src".to_owned() } else { room.display().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The faults of a crate of these files; paths are below its `src`.
    fn faults(files: &[(&str, &str)]) -> Vec<String> {
        let read = |path: &Path| {
            let found = files.iter().find(|(name, _)| Path::new("src").join(name) == path);
            found.map(|(_, source)| (*source).to_owned())
        };
        circles(&inside(&modules::ties(Path::new("src/lib.rs"), &read).unwrap(), Path::new("src")))
    }

    #[test]
    fn two_rooms_that_use_each_other_are_a_fault() {
        let found = faults(&[
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod x; pub use x::X;"),
            ("a/x.rs", "use crate::b::y; pub struct X; fn f() { y::g() }"),
            ("b/mod.rs", "pub mod y;"),
            ("b/y.rs", "use crate::a::X; pub fn g() {}"),
        ]);
        let expected = "a cycle of 2 files ties 2 rooms: a, b\n  a/x.rs -> b/y.rs: g\n  b/y.rs -> a/x.rs: X";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn a_circle_over_three_rooms_is_one_fault() {
        let found = faults(&[
            ("lib.rs", "mod a; mod b; fn top() { a::a() }"),
            ("a/mod.rs", "pub fn a() { crate::b::b() }"),
            ("b/mod.rs", "pub fn b() { crate::top() }"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("a cycle of 3 files ties 3 rooms: src, a, b\n"), "{found:?}");
    }

    #[test]
    fn files_of_one_room_may_use_each_other() {
        let parent_and_child = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod x; pub struct Type; fn f() { x::g() }"),
            ("a/x.rs", "use super::Type; pub fn g() {}"),
        ];
        assert_eq!(faults(&parent_and_child), Vec::<String>::new());
        let siblings =
            [("lib.rs", "mod a; mod b;"), ("a.rs", "pub fn f() { crate::b::g() }"), ("b.rs", "use crate::a::f;")];
        assert_eq!(faults(&siblings), Vec::<String>::new());
    }

    #[test]
    fn a_room_inside_a_room_is_a_room() {
        let found = faults(&[
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod b; pub struct Type; fn f() { b::g() }"),
            ("a/b/mod.rs", "pub fn g(_: super::Type) {}"),
        ]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("2 rooms: a, a/b"), "{found:?}");
    }

    #[test]
    fn a_re_export_or_a_declaration_ties_nothing() {
        let found = faults(&[
            ("lib.rs", "mod a; mod b; pub use a::X; pub use b::Y;"),
            ("a/mod.rs", "pub struct X; impl X { fn f(_: crate::Y) {} }"),
            ("b/mod.rs", "pub struct Y;"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn a_glob_ties_to_what_its_module_defines_and_re_exports() {
        let with = |lib: &'static str| {
            faults(&[("lib.rs", lib), ("a/mod.rs", "use crate::*;"), ("b/mod.rs", "pub struct Y; use crate::a::z;")])
        };
        assert_eq!(with("mod a; mod b;"), Vec::<String>::new());
        assert_eq!(with("mod a; mod b; pub use b::Y;").len(), 1);
    }

    #[test]
    fn tests_tie_nothing() {
        let found = faults(&[
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "pub fn f() { crate::b::g() }"),
            ("b/mod.rs", "pub fn g() {} #[cfg(test)] mod tests; #[cfg(test)] use crate::a::f;"),
            ("b/tests.rs", "use crate::a::f;"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn paths_in_macros_bodies_and_attributes_count() {
        for body in [
            "fn g() { println!(\"{}\", crate::a::f()); }",
            "fn g() { vec![0; 1].len(); let _: Vec<crate::a::T>; }",
            "struct S { #[serde(with = \"crate::a::text\")] x: u8 }",
            "fn g() { use crate::a::*; }",
            "macro_rules! m { () => { $crate::a::f() } }",
            "use crate::a as renamed; fn g() { renamed::f() }",
        ] {
            let source = format!("{body} pub fn b() {{}}");
            let found = faults(&[
                ("lib.rs", "mod a; mod b;"),
                ("a/mod.rs", "pub fn f() { crate::b::b() } pub struct T;"),
                ("b/mod.rs", &source),
            ]);
            assert_eq!(found.len(), 1, "{body}");
        }
    }

    #[test]
    fn words_that_only_look_like_paths_tie_nothing() {
        let found = faults(&[
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "pub fn f() { crate::b::b() }"),
            (
                "b/mod.rs",
                "pub fn b() {} // crate::a::f()\nfn g(s: S) { let t = \"crate::a::f\"; println!(\"{}\", s.a); }",
            ),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }
}
