//! `qd1 help`: the help of a command, or a page on a topic.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use qd1_model::Problem;
use qd1_model::suggest::nearest;

use crate::args::DestinationArgs;
use crate::output;

/// The topics, and their pages.
const TOPICS: [(&str, &str); 4] = [
    ("verdicts", include_str!("../help/verdicts.txt")),
    ("units", include_str!("../help/units.txt")),
    ("exit-codes", include_str!("../help/exit-codes.txt")),
    ("safety", include_str!("../help/safety.txt")),
];

/// Commands that are listed without a description, so that the list fits on a screen.
const MINOR: [&str; 7] = ["plot", "restore", "suites", "schema", "completions", "version", "help"];

/// Most letters of a word that an error message repeats.
const WORD_MAX: usize = 40;

#[derive(Debug, Args)]
pub(crate) struct HelpArgs {
    /// A command, or one of: verdicts, units, exit-codes, safety
    pub(crate) topic: Vec<String>,
}

/// Prints the page. `root` is the definition of the command line.
///
/// # Errors
/// When there is no such command or topic.
pub(crate) fn run(args: &HelpArgs, mut root: clap::Command) -> Result<ExitCode> {
    let page = match args.topic.as_slice() {
        [] => overview(&root),
        [topic] if page_of(topic).is_some() => page_of(topic).unwrap_or_default().to_owned(),
        words => {
            if let [topic, word, ..] = words
                && page_of(topic).is_some()
            {
                let why = format!("{topic} is a topic; run `qd1 help {topic}` without {}", shown(word));
                return Err(Problem::usage(why).into());
            }
            root.build();
            let mut command = &mut root;
            for word in words {
                let known: Vec<String> = command
                    .get_subcommands()
                    .filter(|sub| !sub.is_hide_set())
                    .map(|sub| sub.get_name().to_owned())
                    .collect();
                command = command.find_subcommand_mut(word).ok_or_else(|| unknown(word, &known))?;
            }
            command.render_long_help().to_string()
        }
    };
    output::write(&DestinationArgs::stdout(), &page)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the overview on one screen, with a line for each command.
fn overview(root: &clap::Command) -> String {
    let mut page = format!("{}\n", root.get_about().map(ToString::to_string).unwrap_or_default());
    page += "Usage: qd1 [OPTIONS] [PATH] (the same as `qd1 check`), or qd1 COMMAND\n";
    let commands = root.get_subcommands().filter(|command| !command.is_hide_set());
    for command in commands.filter(|command| !MINOR.contains(&command.get_name())) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        page += &format!("  {:<11}  {about}\n", command.get_name());
    }
    let topics = TOPICS.map(|(name, _)| name).join(", ");
    page += &format!("  and {}\n", MINOR.join(", "));
    page + &format!("`qd1 help` explains a command, or a topic: {topics}\n")
}

fn page_of(topic: &str) -> Option<&'static str> {
    TOPICS.iter().find(|(name, _)| *name == topic).map(|(_, page)| *page)
}

/// Returns a word as it was typed; of a long one only the beginning.
fn shown(word: &str) -> String {
    let letters: String = word.chars().take(WORD_MAX).collect();
    if letters == word { format!("{word:?}") } else { format!("{letters:?}...") }
}

fn unknown(word: &str, commands: &[String]) -> Problem {
    if commands.is_empty() {
        return Problem::usage(format!("no help for {}; that command has no subcommands", shown(word)));
    }
    let topics = TOPICS.map(|(name, _)| name);
    let all = commands.iter().map(String::as_str).chain(topics);
    let (topics, commands) = match nearest(word, all) {
        Some(name) => return Problem::usage(format!("no help for {}; did you mean {name}?", shown(word))),
        None => (topics.join(", "), commands.join(", ")),
    };
    Problem::usage(format!("no help for {}; the topics are {topics}; the commands are {commands}", shown(word)))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Regression: the list of commands with all options of `check` was 154 lines long.
    #[test]
    fn the_overview_fits_a_screen_and_names_all_commands() {
        let root = crate::cli::Cli::command();
        let page = overview(&root);
        assert!(page.lines().count() <= 23 && page.lines().all(|line| line.chars().count() <= 79), "{page}");
        let shown = root.get_subcommands().filter(|command| !command.is_hide_set());
        for name in shown.map(clap::Command::get_name).chain(TOPICS.map(|(name, _)| name)) {
            let mut words = page.split(|letter: char| !letter.is_alphanumeric() && letter != '-');
            assert!(words.any(|word| word == name), "{name}: {page}");
        }
    }

    /// Regression: `qd1 help safety x` suggested safety, and `qd1 help run yabs` printed an empty list of commands.
    #[test]
    fn unknown_help_is_reported_in_one_line() {
        let said = |words: &[&str]| {
            let args = HelpArgs { topic: words.iter().map(|word| (*word).to_owned()).collect() };
            run(&args, crate::cli::Cli::command()).unwrap_err().to_string()
        };
        assert_eq!(said(&["safety", "x"]), "safety is a topic; run `qd1 help safety` without \"x\"");
        assert_eq!(said(&["run", "yabs"]), "no help for \"yabs\"; that command has no subcommands");
        assert_eq!(said(&["limit"]), "no help for \"limit\"; did you mean limits?");
        assert!(said(&["x".repeat(3000).as_str()]).len() < 400);
    }

    #[test]
    fn the_pages_fit_a_terminal_of_80_columns() {
        for (topic, page) in TOPICS {
            assert!(page.lines().all(|line| line.chars().count() <= 79), "{topic}");
            assert!(page.is_ascii() && page.ends_with('\n'), "{topic}");
        }
    }
}
