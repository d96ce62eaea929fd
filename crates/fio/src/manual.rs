//! docs/fio.md: how to use qd1 as fio, and what qd1 does with each of fio's options. `cargo xtask docs` writes the
//! page.

use std::fmt::Write;

use crate::engines::{ENGINES, REFUSED};
use crate::flags::{FLAGS, FlagAction};
use crate::options::{self, CATEGORIES, FioOption, Support};

/// The text before the tables.
const HEAD: &str = include_str!("manual.md");

/// The page.
pub fn page() -> String {
    format!("{HEAD}\n{}\n\n{}", counts(), markdown_table())
}

/// How many options are supported, how many differ and how many are refused.
fn counts() -> String {
    let fios = options::all().filter(|option| option.is_fios());
    let (mut supported, mut differs, mut refused) = (0, 0, 0);
    for option in fios {
        match option.support {
            Support::Differs(_) => differs += 1,
            Support::Refused(_) => refused += 1,
            Support::Supported | Support::Ours => supported += 1,
        }
    }
    let all = supported + differs + refused;
    format!("Of fio's {all} options, {supported} are supported, {differs} differ, {refused} are refused.")
}

/// The tables: every engine, option and flag, and what qd1 does with it.
pub fn markdown_table() -> String {
    let mut text = String::from("### Engines\n\n| ioengine | | |\n|---|---|---|\n");
    for (name, _, help) in ENGINES {
        let _ = writeln!(text, "| `{name}` | supported | {help} |");
    }
    for engine in REFUSED {
        let _ = writeln!(text, "| {} | refused | {} |", code(engine.names), cell(engine.why));
    }
    for category in CATEGORIES {
        let _ = write!(text, "\n### {}\n\n", category.title);
        let refused = category.options.iter().all(|option| !option.is_here());
        text.push_str(if refused {
            "| option | | in fio | why, or what to use |\n|---|---|---|---|\n"
        } else {
            "| option | | takes | default | |\n|---|---|---|---|---|\n"
        });
        for option in category.options {
            row(&mut text, option);
        }
    }
    text.push_str("\n### Flags of the command line\n\n| flag | | |\n|---|---|---|\n");
    for flag in FLAGS {
        let (state, about) = match flag.act {
            FlagAction::Refuse(why) => ("refused", why),
            _ => ("supported", flag.help),
        };
        let _ = writeln!(text, "| `--{}` | {state} | {} |", flag.name, cell(about));
    }
    text
}

fn row(text: &mut String, option: &FioOption) {
    let names: Vec<_> = std::iter::once(option.name).chain(option.aliases.iter().copied()).collect();
    let names = code(&names);
    let mut help = option.help.to_owned();
    if !option.engines.is_empty() {
        let _ = write!(help, " ({})", option.engines.join(", "));
    }
    let default = option.default.map(|text| format!("`{text}`")).unwrap_or_default();
    let accepts = cell(&option.accepts());
    let _ = match option.support {
        Support::Refused(why) if option.plain.is_empty() => {
            writeln!(text, "| {names} | refused | {} | {} |", cell(&help), cell(why))
        }
        Support::Refused(why) => {
            writeln!(text, "| {names} | refused, except {} | {} | {} |", code(option.plain), cell(&help), cell(why))
        }
        Support::Differs(how) => {
            writeln!(
                text,
                "| {names} | differs | {accepts} | {default} | {}. **Differs:** {} |",
                cell(&help),
                cell(how)
            )
        }
        Support::Ours => writeln!(text, "| {names} | beyond fio | {accepts} | {default} | {} |", cell(&help)),
        Support::Supported => writeln!(text, "| {names} | supported | {accepts} | {default} | {} |", cell(&help)),
    };
}

fn code(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_engine_and_flag_has_its_row() {
        let table = markdown_table();
        for name in options::all().map(|option| option.name).chain(ENGINES.iter().map(|(name, ..)| *name)) {
            assert!(table.contains(&format!("`{name}`")), "{name}");
        }
        assert!(FLAGS.iter().all(|flag| table.contains(&format!("| `--{}` |", flag.name))));
    }

    #[test]
    fn every_row_has_the_cells_of_its_heading() {
        let mut cells = 0;
        let table = markdown_table();
        let mut lines = table.lines().peekable();
        while let Some(line) = lines.next() {
            let count = line.replace("\\|", "").matches('|').count();
            if lines.peek().is_some_and(|next| next.starts_with("|---")) {
                cells = count;
            }
            assert!(!line.starts_with('|') || count == cells, "{line}");
        }
    }
}
