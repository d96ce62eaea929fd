//! Phrases that read as if translated: what a user reads has none of them.
//!
//! They are looked for in documents, help texts and sentences of the program's own (text in quotes that has a blank). Pages
//! that are generated have their words from there.

use anyhow::{Result, ensure};

use super::{Notes, sources};

/// A phrase in lower case, and what is meant.
const PHRASES: &[(&str, &str)] = &[
    (" is told", "is reported"),
    (" are told", "are reported"),
    (" was told to", "was asked to"),
    ("is none of the", "is not one of the"),
    (" that is none", "invalid"),
    (" is no ", "is not a"),
    (" are no ", "are not"),
    (" by itself", "on its own, or separately"),
    ("run is meant", "run matches"),
    ("runs are meant", "runs match"),
    (" to mend", "to fix"),
    (" beside it", "next to it, or at the same time"),
    (" beside the ", "next to the, or with the"),
    ("beside setting", "plus setting"),
    ("beside making", "plus making"),
    ("holds it against", "compares it with"),
    ("held against", "compared with"),
    ("what is meant", "the meaning"),
];

/// Generated, or somebody else's words.
const OTHERS: &[&str] = &["docs/cli.md", "docs/fio.md", "docs/schema", "xtask/src/check/phrases.rs"];

pub(super) fn run() -> Result<Notes> {
    let mut faults = Vec::new();
    for (path, text) in sources(&["*.md", "*.rs", "crates/app/src/help/*.txt"])? {
        if !OTHERS.iter().any(|other| path.starts_with(other)) {
            scan(&path, &text, &mut faults);
        }
    }
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(Notes::new())
}

fn scan(path: &str, text: &str, faults: &mut Vec<String>) {
    let is_code = path.ends_with(".rs");
    if is_code && (path.contains("/tests") || path.starts_with("xtask/")) {
        return;
    }
    for (index, line) in text.lines().enumerate() {
        if is_code && line.trim() == "#[cfg(test)]" {
            return;
        }
        // "There is no file" is plain English.
        let sentences = if is_code { quoted(line) } else { line.to_lowercase() }.replace("there is no ", "");
        let sentences = ["no longer", "no larger", "no narrower", "no faster", "no more than"]
            .iter()
            .fold(sentences.replace("there are no ", ""), |text, fine| text.replace(fine, ""));
        for (phrase, better) in PHRASES.iter().filter(|(phrase, _)| sentences.contains(phrase)) {
            faults.push(format!("{path}:{}: \"{}\": say \"{better}\"", index + 1, phrase.trim()));
        }
    }
}

/// What stands in quotes in a line of code, in lower case; nothing of comments and assertions.
fn quoted(line: &str) -> String {
    let code = line.trim();
    if code.starts_with("//") || code.contains("assert") {
        return String::new();
    }
    let parts = code.split('"').skip(1).step_by(2).filter(|part| part.contains(' '));
    parts.collect::<Vec<_>>().join("\n").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        scan(path, text, &mut faults);
        faults
    }

    #[test]
    fn sentences_of_documents_and_of_the_program_are_read() {
        assert_eq!(found("docs/a.md", "Fine.\nThe user is told.\n"), ["docs/a.md:2: \"is told\": say \"is reported\""]);
        assert_eq!(found("crates/a/src/b.rs", "let why = \"no run is meant by this\";").len(), 1);
    }

    #[test]
    fn comments_tests_and_names_are_not() {
        let code =
            "// It is told.\nlet is_told = 1;\nassert!(x, \"it is told\");\n#[cfg(test)]\nlet a = \"it is told\";\n";
        assert!(found("crates/a/src/b.rs", code).is_empty());
        assert!(found("crates/a/tests/b.rs", "let a = \"it is told\";").is_empty());
    }
}
