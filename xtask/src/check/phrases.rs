//! Phrases that read as if translated, which user-visible texts must not contain.
//!
//! ast-grep looks for them in documents, help texts and the program's own strings. Generated pages take their words
//! from those.

use anyhow::Result;

use super::{Notes, ast_grep};

/// A phrase as a regular expression, and what to write instead. "There is no file" is plain English.
const PHRASES: &[(&str, &str)] = &[
    (r"\b(is|are) told\b", "is or are reported"),
    (r"\bwas told to\b", "was asked to"),
    (r"\bis none of the\b", "is not one of the"),
    (r"\bthat is none\b", "invalid"),
    (
        r"(^|[^e]|[^r]e) is no (file|disk|directory|whole number|number|time|list|line|unit|history|run|name|option|JSON|proof)\b",
        "is not a file",
    ),
    (r"\bby itself\b", "on its own, or separately"),
    (r"\bruns? (is|are) meant\b", "the run matches"),
    (r"\bto mend\b", "to fix"),
    (r"\bbeside (it|the)\b", "next to it, with it, or at the same time"),
    (r"\bbeside (setting|making)\b", "plus setting or making"),
    (r"\bholds it against\b", "compares it with"),
    (r"\bheld against\b", "compared with"),
    (r"\bwhat is meant\b", "the meaning"),
];

/// Prose, and sentences in code, except in assertions and tests.
const PLACES: [&str; 2] = [
    "language: Markdown\nignores: [docs/cli.md, docs/fio.md]\nrule: { any: [{ kind: inline, regex: PHRASE }, { kind: pipe_table_cell, regex: PHRASE }] }",
    "language: Rust\nignores: ['xtask/**', '**/tests/**', '**/tests.rs']\nrule:\n  kind: string_content\n  regex: PHRASE\n  not:\n    \
     any:\n      - { inside: { kind: macro_invocation, regex: '^(debug_)?assert', stopBy: end } }\n      \
     - { inside: { kind: mod_item, follows: { kind: attribute_item, regex: 'cfg\\(test\\)' }, stopBy: end } }",
];

pub(super) fn run() -> Result<Notes> {
    ast_grep(&["scan", "--inline-rules", &rules()])
}

/// A rule for each phrase in each place.
fn rules() -> String {
    let rule = |(number, (phrase, better)): (usize, &(&str, &str))| {
        let regex = format!("'(?i){}'", phrase.replace(' ', r"\s+"));
        let head = format!("id: phrase-{number}\nseverity: error\nmessage: 'say \"{better}\"'\n");
        PLACES.map(|place| format!("{head}{}", place.replace("PHRASE", &regex)))
    };
    PHRASES.iter().enumerate().flat_map(rule).collect::<Vec<_>>().join("\n---\n")
}
