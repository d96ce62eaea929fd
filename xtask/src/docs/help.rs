//! The page of help texts. Text that several commands share word for word is printed once, and each command refers to
//! it.

use std::fmt::Write as _;

/// What commands share, in the order in which it is printed. An option that no group names goes to the last group of
/// options.
const GROUPS: &[(&str, &[&str])] = &[
    ("Measuring", &["--quick", "--full", "--size", "--runtime", "--only", "--with-load", "--engine", "--destroy"]),
    ("Output", &["--format", "--json", "--output", "--verbose", "--redact", "--color", "--thresholds", "--fail-on"]),
    ("Run", &["--seed", "--dry-run", "--no-save", "--quiet"]),
    (OTHER, &[]),
    (EXIT_CODES, &[EXIT_CODES]),
];

const OTHER: &str = "Other";
const EXIT_CODES: &str = "Exit codes";

/// Present in every command, with a wording that depends on the length of the help.
const ALWAYS: &str = "--help";

/// A command and its help text, in parts.
pub(super) struct Command {
    title: String,
    /// Everything before the options: description, usage, arguments, subcommands.
    opening: String,
    entries: Vec<Entry>,
    /// The paragraphs after the options, except the one about exit codes.
    closing: Vec<String>,
}

/// What commands may share: an option, or the paragraph about exit codes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// An option's long form if there is one.
    name: String,
    lines: String,
}

impl Entry {
    fn option(lines: &[&str]) -> Self {
        let words = || lines[0].split_whitespace().map(|word| word.trim_end_matches(','));
        let flags = words().take_while(|word| word.starts_with('-') || word.starts_with(['<', '[']));
        let name = flags.clone().find(|word| word.starts_with("--")).or_else(|| words().next());
        Self { name: name.unwrap_or_default().to_owned(), lines: joined(lines) }
    }

    /// The same in the same words; the layout does not count, since the short and the long help indent differently.
    fn is_same(&self, other: &Self) -> bool {
        self.name == other.name && self.lines.split_whitespace().eq(other.lines.split_whitespace())
    }

    fn group(&self) -> &'static str {
        GROUPS.iter().find(|(_, names)| names.contains(&self.name.as_str())).map_or(OTHER, |(group, _)| group)
    }
}

impl Command {
    /// Reads what clap prints for `--help`.
    pub(super) fn new(title: &str, help: &str) -> Self {
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        let (mut opening, mut entries, mut closing) = (Vec::new(), Vec::new(), Vec::new());
        // Lines that begin at the margin, each with the indented and empty lines that follow.
        for block in lines.chunk_by(|_, next| next.is_empty() || next.starts_with(' ')) {
            let first = block.iter().skip(1).find(|line| !line.is_empty());
            if block[0].ends_with(':') && first.is_some_and(is_option) {
                let mut options: Vec<Vec<&str>> = Vec::new();
                for line in &block[1..] {
                    match options.last_mut() {
                        Some(option) if !is_option(line) => option.push(line),
                        _ => options.push(vec![line]),
                    }
                }
                entries.extend(options.iter().map(|option| Entry::option(option)));
            } else if entries.is_empty() {
                opening.extend(block);
            } else {
                closing.extend(block);
            }
        }
        entries.retain(|entry| entry.name != ALWAYS);
        let paragraphs = joined(&closing);
        let (codes, closing) = paragraphs
            .split("\n\n")
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
            .partition::<Vec<_>, _>(|text| text.starts_with(EXIT_CODES));
        entries.extend(codes.into_iter().map(|lines| Entry { name: EXIT_CODES.to_owned(), lines }));
        Self { title: title.to_owned(), opening: joined(&opening), entries, closing }
    }
}

/// Whether an option begins here: its description is indented further.
fn is_option(line: &&str) -> bool {
    let text = line.trim_start();
    text.starts_with('-') && (1..=6).contains(&(line.len() - text.len()))
}

fn joined(lines: &[&str]) -> String {
    lines.join("\n").trim_matches('\n').to_owned()
}

/// For each entry that at least two commands share word for word, the most common wording.
fn shared(commands: &[Command]) -> Vec<Entry> {
    let all: Vec<&Entry> = commands.iter().flat_map(|command| &command.entries).collect();
    let count = |entry: &Entry| all.iter().filter(|other| other.is_same(entry)).count();
    let mut shared: Vec<Entry> = Vec::new();
    for entry in &all {
        let most = all.iter().filter(|other| other.name == entry.name).map(|other| count(other)).max();
        if count(entry) >= 2 && Some(count(entry)) == most && !shared.iter().any(|known| known.name == entry.name) {
            shared.push((*entry).clone());
        }
    }
    shared
}

/// The sections of the page: first the shared texts, then each command.
pub(super) fn page(commands: &[Command]) -> String {
    let shared = shared(commands);
    let mut page = String::from("\n## Options that commands share\n\n");
    page.push_str("Each command below names the ones it has. An option that a command describes in other words is ");
    page.push_str("printed with that\ncommand. All commands have `-h` and `--help`.\n");
    for (group, _) in GROUPS {
        let texts: Vec<&str> =
            shared.iter().filter(|entry| entry.group() == *group).map(|entry| entry.lines.as_str()).collect();
        if !texts.is_empty() {
            let _ = write!(page, "\n### {group}\n\n{}", code(&texts.join("\n\n")));
        }
    }
    commands.iter().for_each(|command| page.push_str(&section(command, &shared)));
    page
}

fn section(command: &Command, shared: &[Entry]) -> String {
    let own = command.entries.iter().filter(|entry| !shared.iter().any(|known| known.is_same(entry)));
    let (codes, options): (Vec<&Entry>, Vec<&Entry>) = own.partition(|entry| entry.name == EXIT_CODES);
    let texts = |entries: &[&Entry]| entries.iter().map(|entry| entry.lines.clone()).collect::<Vec<_>>();
    let mut parts = vec![command.opening.clone()];
    if !options.is_empty() {
        let between = if options.iter().any(|option| option.lines.contains('\n')) { "\n\n" } else { "\n" };
        parts.push(format!("Options:\n{}", texts(&options).join(between)));
    }
    parts.extend(command.closing.iter().cloned().chain(texts(&codes)));
    let mut text = format!("\n## `{}`\n\n{}", command.title, code(&parts.join("\n\n")));
    let links: Vec<String> = GROUPS.iter().filter_map(|(group, _)| link(group, command, shared)).collect();
    if !links.is_empty() {
        let _ = write!(text, "\nShared:\n- {}\n", links.join("\n- "));
    }
    text
}

/// Which entries of a group a command has in the shared wording.
fn link(group: &str, command: &Command, shared: &[Entry]) -> Option<String> {
    let of_group: Vec<&Entry> = shared.iter().filter(|entry| entry.group() == group).collect();
    let has = |entry: &&&Entry| command.entries.iter().any(|own| own.is_same(entry));
    let names: Vec<String> = of_group.iter().filter(has).map(|entry| format!("`{}`", entry.name)).collect();
    let anchor = format!("[{}](#{})", group.to_lowercase(), group.to_lowercase().replace(' ', "-"));
    match names.len() {
        0 => None,
        _ if group == EXIT_CODES => Some(anchor),
        all if all == of_group.len() && group != OTHER => Some(format!("{anchor}: all")),
        _ => Some(format!("{anchor}: {}", names.join(", "))),
    }
}

/// A block that Markdown leaves as it is.
pub(super) fn code(text: &str) -> String {
    format!("```text\n{text}\n```\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECK: &str = "Measure a disk

Usage: qd1 check [OPTIONS] [PATH]

Arguments:
  [PATH]
          Directory

          [default: .]

Options:
      --size <SIZE>
          Size of the test file

  -q, --quiet
          No progress on stderr

      --format <FORMAT>
          Form of the result

          Possible values:
          - human: Text for people
          - json:  One document

  -h, --help
          Print help (see a summary with '-h')

Exit codes: 0 done; 1 the run
failed.
";

    const PING: &str = "Send requests

Usage: qd1 ping

Options:
  -c, --count <N>
          Stop after so many

  -s, --size <SIZE>
          Size of a request

  -q, --quiet
          No progress
          on stderr

  -h, --help
          Print help (see a summary with '-h')

Letters are ioping's.

Exit codes: 0 every request succeeded.
";

    const RESTORE: &str = "Undo

Usage: qd1 restore

Options:
  -q, --quiet    No progress on stderr
      --dry-run  Only say what would be undone
  -h, --help     Print help
";

    fn names(command: &Command) -> Vec<&str> {
        command.entries.iter().map(|entry| entry.name.as_str()).collect()
    }

    /// The part of a page below one heading.
    fn below<'a>(page: &'a str, heading: &str) -> &'a str {
        let rest = page.split_once(&format!("{heading}\n")).unwrap_or_else(|| panic!("no {heading} in {page}")).1;
        rest.split("\n## ").next().unwrap_or_default()
    }

    fn four() -> Vec<Command> {
        vec![
            Command::new("qd1 check", CHECK),
            Command::new("qd1 run", &CHECK.replace("Measure a disk", "Run a suite")),
            Command::new("qd1 ping", PING),
            Command::new("qd1 restore", RESTORE),
        ]
    }

    #[test]
    fn a_help_text_comes_apart_into_its_parts() {
        let check = Command::new("qd1 check", CHECK);
        assert!(check.opening.starts_with("Measure a disk\n\nUsage: "), "{}", check.opening);
        assert!(check.opening.ends_with("[default: .]"), "{}", check.opening);
        assert_eq!(names(&check), ["--size", "--quiet", "--format", EXIT_CODES]);
        assert!(check.entries[2].lines.ends_with("- json:  One document"), "{}", check.entries[2].lines);
        assert_eq!(Command::new("qd1 ping", PING).closing, ["Letters are ioping's."]);
        let restore = Command::new("qd1 restore", RESTORE);
        assert_eq!(names(&restore), ["--quiet", "--dry-run"]);
        assert!(restore.entries[0].is_same(&check.entries[1]), "short help is read like long help");
    }

    #[test]
    fn an_option_with_a_short_form_only_keeps_that_name() {
        assert_eq!(Entry::option(&["  -c <NAME=VALUE>", "          A setting, as --set has it"]).name, "-c");
        assert_eq!(Entry::option(&["  -c, --count <N>  See --size"]).name, "--count");
        assert_eq!(Entry::option(&["  -v  See --size"]).name, "-v");
    }

    #[test]
    fn what_is_shared_is_printed_once_and_what_is_said_in_other_words_stays() {
        let page = page(&four());
        for once in ["No progress", "Size of the test file", "Exit codes: 0 done"] {
            assert_eq!(page.matches(once).count(), 1, "{page}");
        }
        assert!(below(&page, "### Run").contains("-q, --quiet"), "{page}");
        assert!(below(&page, "### Measuring").contains("Size of the test file"), "{page}");
        assert!(below(&page, "### Output").contains("- json:  One document"), "{page}");
        let ping = below(&page, "## `qd1 ping`");
        for own in ["  -s, --size <SIZE>\n          Size of a request", "-c, --count <N>"] {
            assert!(ping.contains(own), "{ping}");
        }
        assert!(ping.contains("Letters are ioping's.\n\nExit codes: 0 every request succeeded."), "{ping}");
        assert!(!ping.contains("(#measuring)") && !ping.contains("(#exit-codes)"), "{ping}");
    }

    #[test]
    fn the_words_of_most_commands_are_the_shared_ones() {
        let help = |words: &str| format!("About\n\nOptions:\n      --seed <N>\n          {words}\n");
        let texts = ["rare", "common", "common", "rare", "common"];
        let commands: Vec<Command> = texts.iter().map(|words| Command::new(words, &help(words))).collect();
        let shared = shared(&commands);
        assert_eq!(shared.len(), 1);
        assert!(shared[0].lines.contains("common"), "{}", shared[0].lines);
    }

    #[test]
    fn a_command_names_what_it_has_of_each_group() {
        let page_of_four = page(&four());
        let run = below(&page_of_four, "## `qd1 run`");
        for link in ["- [measuring](#measuring): all", "- [output](#output): all", "- [exit codes](#exit-codes)"] {
            assert!(run.contains(link), "{run}");
        }
        let two = "About\n\nOptions:\n  -q, --quiet\n          Q\n\n      --seed <N>\n          S\n\n      --brew\n          B\n";
        let one = "About\n\nOptions:\n  -q, --quiet\n          Q\n";
        let page = page(&[Command::new("a", two), Command::new("b", two), Command::new("c", one)]);
        assert!(below(&page, "## `c`").contains("- [run](#run): `--quiet`"), "{page}");
        assert!(below(&page, "## `b`").contains("- [run](#run): all\n- [other](#other): `--brew`"), "{page}");
    }

    #[test]
    fn every_option_of_every_command_is_on_the_page() {
        let commands = four();
        let page = page(&commands);
        for command in &commands {
            let section = below(&page, &format!("## `{}`", command.title));
            for entry in &command.entries {
                let group = format!("(#{})", entry.group().to_lowercase().replace(' ', "-"));
                let is_there = section.contains(&entry.lines) || section.contains(&group);
                assert!(is_there, "{} of {}", entry.name, command.title);
            }
        }
    }
}
