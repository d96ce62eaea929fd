//! Links from one document to another: each leads to a file that is there, and to a heading that it has.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::Notes;
use crate::cmd;

pub(super) fn run() -> Result<Notes> {
    let root = cmd::root();
    let mut files = Vec::new();
    for dir in ["", "docs", "docs/method", "docs/appendix", "docs/tutorials"] {
        let entries = fs::read_dir(root.join(dir)).with_context(|| dir.to_owned())?;
        files.extend(
            entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "md")),
        );
    }
    files.sort();
    let texts: BTreeMap<PathBuf, String> =
        files.into_iter().map(|path| Ok((path.clone(), fs::read_to_string(&path)?))).collect::<Result<_>>()?;
    let dead: Vec<String> = texts
        .iter()
        .flat_map(|(path, text)| {
            links(text).filter(|link| !leads_somewhere(path, link, &texts)).map(move |link| (path, link))
        })
        .map(|(path, link)| format!("{}: {link}", path.strip_prefix(&root).unwrap_or(path).display()))
        .collect();
    ensure!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
    Ok(Vec::new())
}

/// The targets of all links of a document that lead to another, or to a part of it; none within code.
fn links(text: &str) -> impl Iterator<Item = String> {
    let mut is_code = false;
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| {
            let fence = line.trim_start().starts_with("```");
            is_code ^= fence;
            !is_code && !fence
        })
        .collect();
    // A link's text may be on two lines.
    let prose: String = lines.join(" ").split('`').step_by(2).collect();
    let targets: Vec<String> =
        prose.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect();
    targets.into_iter().filter(|target| !target.is_empty() && !target.contains("://") && !target.contains(' '))
}

fn leads_somewhere(from: &Path, link: &str, texts: &BTreeMap<PathBuf, String>) -> bool {
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let to = if file.is_empty() { from.to_owned() } else { normal(&from.parent().unwrap_or(from).join(file)) };
    match texts.get(&to) {
        _ if !to.exists() => false,
        Some(text) if !heading.is_empty() => headings(text).any(|known| known == heading),
        _ => true,
    }
}

/// A path without `..`.
fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        if part == std::path::Component::ParentDir {
            path.pop();
        } else {
            path.push(part);
        }
        path
    })
}

/// The anchors of a document's headings, as GitHub makes them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter_map(|line| line.strip_prefix('#')).map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
        kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_code_and_to_elsewhere_are_left_alone() {
        let text = "[a](b.md) `[c](d.md)` [e](https://f)\n```\n[g](h.md)\n```\n[two\nlines](i.md#part)";
        assert_eq!(links(text).collect::<Vec<_>>(), ["b.md", "i.md#part"]);
    }

    #[test]
    fn a_heading_has_the_anchor_that_readers_follow() {
        let text = "# Do programs feel it?\n## Commits under load: `--with-load`\n";
        assert_eq!(headings(text).collect::<Vec<_>>(), ["do-programs-feel-it", "commits-under-load---with-load"]);
    }
}
