//! The page of help texts. What several commands say in the same words is printed once, and each command names it.

use std::fmt::Write as _;

/// The options that commands share, in the order they are printed. One that no group names goes to the last.
const GROUPS: &[(&str, &[&str])] = &[
    ("Measuring", &["--quick", "--full", "--size", "--runtime", "--only", "--with-load", "--engine", "--destroy"]),
    ("Output", &["--format", "--json", "--output", "--verbose", "--redact", "--color", "--thresholds", "--fail-on"]),
    ("Run", &["--seed", "--dry-run", "--no-save", "--quiet"]),
    (OTHER, &[]),
];

const OTHER: &str = "Other";

/// Present in every command, in words that depend on the length of the help.
const ALWAYS: &str = "--help";

const EXIT_CODES: &str = "Exit codes:";

/// A command and its help text, in parts.
pub(super) struct Command {
    title: String,
    /// Everything before the options: what it is, usage, arguments, subcommands.
    opening: String,
    options: Vec<OptionHelp>,
    /// The paragraphs after the options.
    closing: Vec<String>,
}

/// One option in a help text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OptionHelp {
    /// The long form where there is one.
    name: String,
    lines: String,
}

impl OptionHelp {
    fn new(lines: &[&str]) -> Self {
        let words = || lines[0].split_whitespace().map(|word| word.trim_end_matches(','));
        let flags = words().take_while(|word| word.starts_with('-') || word.starts_with(['<', '[']));
        let name = flags.clone().find(|word| word.starts_with("--")).or_else(|| words().next());
        Self { name: name.unwrap_or_default().to_owned(), lines: joined(lines) }
    }

    /// The text without its layout: the short and the long form of help indent differently.
    fn text(&self) -> Vec<&str> {
        self.lines.split_whitespace().collect()
    }

    fn group(&self) -> &'static str {
        GROUPS.iter().find(|(_, names)| names.contains(&self.name.as_str())).map_or(OTHER, |(group, _)| group)
    }
}

impl Command {
    /// Reads what clap prints for `--help`.
    pub(super) fn new(title: &str, help: &str) -> Self {
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        let mut command =
            Self { title: title.to_owned(), opening: String::new(), options: Vec::new(), closing: Vec::new() };
        let (mut opening, mut closing) = (Vec::new(), Vec::new());
        for block in blocks(&lines) {
            let is_options =
                block[0].ends_with(':') && block.iter().skip(1).find(|line| !line.is_empty()).is_some_and(is_option);
            if is_options {
                command.options.extend(options(&block[1..]));
            } else if command.options.is_empty() {
                opening.extend(block);
            } else {
                closing.extend(block);
            }
        }
        command.options.retain(|option| option.name != ALWAYS);
        command.opening = joined(&opening);
        command.closing = joined(&closing).split("\n\n").filter(|it| !it.is_empty()).map(str::to_owned).collect();
        command
    }

    fn exit_codes(&self) -> Option<&String> {
        self.closing.iter().find(|paragraph| paragraph.starts_with(EXIT_CODES))
    }
}

/// Lines that begin at the margin, each with the indented and empty ones that follow.
fn blocks<'a>(lines: &[&'a str]) -> Vec<Vec<&'a str>> {
    let mut blocks: Vec<Vec<&str>> = Vec::new();
    for line in lines {
        let goes_on = line.is_empty() || line.starts_with(' ');
        match blocks.last_mut() {
            Some(block) if goes_on => block.push(line),
            _ => blocks.push(vec![line]),
        }
    }
    blocks
}

/// Whether an option begins here: its description is indented further.
fn is_option(line: &&str) -> bool {
    let text = line.trim_start();
    text.starts_with('-') && (1..=6).contains(&(line.len() - text.len()))
}

fn options(lines: &[&str]) -> Vec<OptionHelp> {
    let starts: Vec<usize> = (0..lines.len()).filter(|at| is_option(&lines[*at])).collect();
    let ends = starts.iter().skip(1).copied().chain([lines.len()]);
    starts.iter().zip(ends).map(|(start, end)| OptionHelp::new(&lines[*start..end])).collect()
}

fn joined(lines: &[&str]) -> String {
    lines.join("\n").trim_matches('\n').to_owned()
}

/// For each option that at least two commands have in the same words, the words of most of them.
fn shared(commands: &[Command]) -> Vec<OptionHelp> {
    let all: Vec<&OptionHelp> = commands.iter().flat_map(|command| &command.options).collect();
    let count = |option: &OptionHelp| all.iter().filter(|other| is_same(other, option)).count();
    let mut shared: Vec<OptionHelp> = Vec::new();
    for option in &all {
        let most = all.iter().filter(|other| other.name == option.name).map(|other| count(other)).max();
        if count(option) >= 2 && Some(count(option)) == most && !shared.iter().any(|known| known.name == option.name) {
            shared.push((*option).clone());
        }
    }
    shared
}

fn is_same(one: &OptionHelp, other: &OptionHelp) -> bool {
    one.name == other.name && one.text() == other.text()
}

/// The exit codes that most commands have, where two or more agree.
fn usual_exit_codes(commands: &[Command]) -> Option<&String> {
    let all: Vec<&String> = commands.iter().filter_map(Command::exit_codes).collect();
    let count = |codes: &String| all.iter().filter(|other| **other == codes).count();
    all.iter().copied().filter(|codes| count(codes) >= 2).max_by_key(|codes| count(codes))
}

/// The sections of the page: first what is shared, then each command.
pub(super) fn page(commands: &[Command]) -> String {
    let shared = shared(commands);
    let exit_codes = usual_exit_codes(commands);
    let mut page = String::from("\n## Options that commands share\n\n");
    page.push_str("Each command below names the ones it has. An option that a command describes in other words is ");
    page.push_str("printed with that\ncommand. All commands have `-h` and `--help`.\n");
    for (group, _) in GROUPS {
        let of_group: Vec<&OptionHelp> = shared.iter().filter(|option| option.group() == *group).collect();
        if !of_group.is_empty() {
            let texts: Vec<&str> = of_group.iter().map(|option| option.lines.as_str()).collect();
            let _ = write!(page, "\n### {group}\n\n{}", code(&texts.join("\n\n")));
        }
    }
    if let Some(codes) = exit_codes {
        let _ = write!(page, "\n### Exit codes\n\n{}", code(codes));
    }
    for command in commands {
        page.push_str(&section(command, &shared, exit_codes));
    }
    page
}

fn section(command: &Command, shared: &[OptionHelp], exit_codes: Option<&String>) -> String {
    let is_shared = |option: &&OptionHelp| shared.iter().any(|known| is_same(known, option));
    let own: Vec<&str> = command.options.iter().filter(|it| !is_shared(it)).map(|it| it.lines.as_str()).collect();
    let mut parts = vec![command.opening.clone()];
    if !own.is_empty() {
        parts.push(format!(
            "Options:\n{}",
            own.join(if own.iter().any(|it| it.contains('\n')) { "\n\n" } else { "\n" })
        ));
    }
    parts.extend(command.closing.iter().filter(|paragraph| Some(*paragraph) != exit_codes).cloned());
    let mut text = format!("\n## `{}`\n\n{}", command.title, code(&parts.join("\n\n")));

    let mut links: Vec<String> = GROUPS.iter().filter_map(|(group, _)| link(group, command, shared)).collect();
    if exit_codes.is_some() && command.exit_codes() == exit_codes {
        links.push("[exit codes](#exit-codes)".to_owned());
    }
    if !links.is_empty() {
        let _ = write!(text, "\nShared:\n- {}\n", links.join("\n- "));
    }
    text
}

/// Which options of a group a command has in the shared words.
fn link(group: &str, command: &Command, shared: &[OptionHelp]) -> Option<String> {
    let of_group: Vec<&OptionHelp> = shared.iter().filter(|option| option.group() == group).collect();
    let has = |option: &&&OptionHelp| command.options.iter().any(|own| is_same(own, option));
    let names: Vec<String> = of_group.iter().filter(has).map(|option| format!("`{}`", option.name)).collect();
    let anchor = format!("[{}](#{})", group.to_lowercase(), group.to_lowercase());
    match names.len() {
        0 => None,
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
        command.options.iter().map(|option| option.name.as_str()).collect()
    }

    /// The part of a page below one heading.
    fn below<'a>(page: &'a str, heading: &str) -> &'a str {
        let rest = page.split_once(&format!("{heading}\n")).unwrap_or_else(|| panic!("no {heading} in {page}")).1;
        rest.split("\n## ").next().unwrap_or_default()
    }

    fn three() -> Vec<Command> {
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
        assert_eq!(names(&check), ["--size", "--quiet", "--format"]);
        assert!(check.options[2].lines.ends_with("- json:  One document"), "{}", check.options[2].lines);
        assert_eq!(check.closing, ["Exit codes: 0 done; 1 the run\nfailed."]);
    }

    #[test]
    fn short_help_is_read_like_long_help() {
        let restore = Command::new("qd1 restore", RESTORE);
        assert_eq!(names(&restore), ["--quiet", "--dry-run"]);
        assert_eq!(restore.options[0].text(), Command::new("qd1 check", CHECK).options[1].text());
    }

    #[test]
    fn an_option_with_a_short_form_only_keeps_that_name() {
        assert_eq!(OptionHelp::new(&["  -c <NAME=VALUE>", "          A setting, as --set has it"]).name, "-c");
        assert_eq!(OptionHelp::new(&["  -c, --count <N>  See --size"]).name, "--count");
        assert_eq!(OptionHelp::new(&["  -v  See --size"]).name, "-v");
    }

    #[test]
    fn a_shared_option_is_printed_once() {
        let page = page(&three());
        assert_eq!(page.matches("No progress").count(), 1, "{page}");
        assert_eq!(page.matches("Size of the test file").count(), 1, "{page}");
        assert!(below(&page, "### Run").contains("-q, --quiet"), "{page}");
        assert!(below(&page, "### Output").contains("- json:  One document"), "{page}");
    }

    #[test]
    fn a_shared_option_in_other_words_is_printed_in_full() {
        let page = page(&three());
        assert!(below(&page, "### Measuring").contains("Size of the test file"), "{page}");
        let ping = below(&page, "## `qd1 ping`");
        assert!(ping.contains("  -s, --size <SIZE>\n          Size of a request"), "{ping}");
        assert!(!ping.contains("(#measuring)"), "{ping}");
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
    fn an_option_of_one_command_stays_with_it() {
        let page = page(&three());
        assert!(below(&page, "## `qd1 ping`").contains("-c, --count <N>"), "{page}");
        assert!(!below(&page, "## Options that commands share").contains("--count"), "{page}");
    }

    #[test]
    fn a_command_names_the_groups_it_has() {
        let page = page(&three());
        let run = below(&page, "## `qd1 run`");
        for link in ["- [measuring](#measuring): all", "- [output](#output): all", "- [exit codes](#exit-codes)"] {
            assert!(run.contains(link), "{run}");
        }
        let restore = below(&page, "## `qd1 restore`");
        assert!(restore.contains("- [run](#run): all"), "{restore}");
        assert!(restore.contains("Only say what would be undone"), "{restore}");
    }

    #[test]
    fn a_part_of_a_group_is_named_option_by_option() {
        let two = "About\n\nOptions:\n  -q, --quiet\n          Q\n\n      --seed <N>\n          S\n";
        let one = "About\n\nOptions:\n  -q, --quiet\n          Q\n";
        let page = page(&[Command::new("a", two), Command::new("b", two), Command::new("c", one)]);
        assert!(below(&page, "## `c`").contains("- [run](#run): `--quiet`"), "{page}");
        assert!(below(&page, "## `b`").contains("- [run](#run): all"), "{page}");
    }

    #[test]
    fn an_option_without_a_group_goes_to_the_last() {
        let help = "About\n\nOptions:\n      --brew <TEA>\n          T\n";
        let page = page(&[Command::new("a", help), Command::new("b", help)]);
        assert!(below(&page, "### Other").contains("--brew <TEA>"), "{page}");
        assert!(below(&page, "## `b`").contains("- [other](#other): `--brew`"), "{page}");
    }

    #[test]
    fn exit_codes_that_differ_stay_with_their_command() {
        let page = page(&three());
        assert_eq!(page.matches("Exit codes: 0 done").count(), 1, "{page}");
        let ping = below(&page, "## `qd1 ping`");
        assert!(ping.contains("Letters are ioping's.\n\nExit codes: 0 every request succeeded."), "{ping}");
        assert!(!ping.contains("(#exit-codes)"), "{ping}");
    }

    #[test]
    fn every_option_of_every_command_is_on_the_page() {
        let commands = three();
        let page = page(&commands);
        for command in &commands {
            let section = below(&page, &format!("## `{}`", command.title));
            for option in &command.options {
                let own = section.contains(&option.lines);
                let group = format!("(#{})", option.group().to_lowercase());
                assert!(own || section.contains(&group), "{} of {}", option.name, command.title);
            }
        }
    }
}
