//! The options in the help of each command: described in words that fit the command, its special options first and
//! those that most commands share last.

use std::io::IsTerminal as _;

use clap::Command;

/// Options that most commands have, shown below their own.
const COMMON: [&str; 15] = [
    "engine",
    "destroy",
    "seed",
    "leave_free",
    "in_memory",
    "no_save",
    "quiet",
    "format",
    "json",
    "output",
    "verbose",
    "color",
    "redact",
    "thresholds",
    "fail_on",
];
const COMMON_HEADING: &str = "Common options";

/// Columns if the width is not known.
const COLUMNS: usize = 80;

/// Options of `check` that the list of commands shows: they can be given without the command's name.
const OF_CHECK: [&str; 5] = ["path", "quick", "full", "over", "dry_run"];

/// The values of `--only` for each command.
const ONLY: [(&str, &str); 6] = [
    (
        "check",
        "cold, touch-16m, again-16m, flush-4k, flush-1m, qd1, commit1, commit4, wal, paced, read32, write32, seqread, seqwrite, files, buffered",
    ),
    ("identify", "far, near, forward, middle, large, deep, commit"),
    ("predict", "commit1, commit-large, wal, checkpoint, reread, journal"),
    ("sweep", "names such as randread-4k-d8-p1 (rw, block size, depth, pass): randread-4k-*"),
    ("sync", "names such as fdatasync-p1, size-64k, own-4, append: fdatasync*"),
    ("run", "the steps of the suite"),
];

/// Options that mean something special to a command: its name, the option's, and the words.
const SPECIAL: [(&str, &str, &str); 10] = [
    ("check", "quick", "Take about 20 seconds: wider intervals, no file operations"),
    ("check", "full", "Take a few minutes: tighter intervals, commits under load"),
    ("check", "size", "Size of the test file [default: 1GiB; --quick 256MiB, --full 4GiB]"),
    ("doctor", "verbose", "Show all sources, the names of the rules, and all that could not be looked at"),
    ("identify", "size", "Size of the test file [default: 512MiB; --quick 256MiB, --full 2GiB]"),
    ("predict", "size", "Size of the test file [default: 64MiB]"),
    ("run", "size", "Size of the test file [default: the suite's, which --dry-run shows]"),
    ("run", "quick", "Use the suite's shortest times: wider intervals"),
    ("run", "full", "Use the suite's longest times: tighter intervals"),
    ("sync", "quick", "Make one pass over the methods: wider intervals"),
];

/// Returns the definition of the command line, with option help in the words and order that fit each command.
pub(crate) fn worded(root: Command) -> Command {
    let root = of_command(root, "check");
    let root = root.mut_args(|arg| {
        let is_shown = OF_CHECK.contains(&arg.get_id().as_str());
        arg.hide_short_help(!is_shown).hide_long_help(!is_shown)
    });
    // `mut_subcommand` would put each at the end of the list.
    let root = root.mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        of_command(command, &name).mut_subcommands(|part| of_command(part, &name))
    });
    if std::io::stdout().is_terminal() { root } else { root.term_width(COLUMNS) }
}

fn of_command(command: Command, name: &str) -> Command {
    command.mut_args(|arg| {
        let id = arg.get_id().to_string();
        let arg = match COMMON.contains(&id.as_str()) {
            true => arg.help_heading(COMMON_HEADING),
            false => arg,
        };
        if let Some((_, steps)) = ONLY.iter().find(|(of, _)| *of == name && id == "only") {
            let help = "Run only these steps, separated by commas; * matches any characters. --dry-run lists them";
            return arg.help(format!("{help}: {steps}"));
        }
        match SPECIAL.iter().find(|(of, option, _)| *of == name && *option == id) {
            Some((.., words)) => arg.help(*words),
            None => arg,
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use qd1_model::spec::Effort;

    use super::*;
    use crate::cli::Cli;

    fn help(name: &str) -> String {
        Cli::definition().find_subcommand_mut(name).unwrap().render_long_help().to_string()
    }

    fn words(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Regression: the help of every command listed the steps of `check`.
    #[test]
    fn the_steps_that_the_help_names_are_those_of_the_suite() {
        for (name, names) in ONLY.iter().filter(|(name, _)| ["check", "identify", "predict"].contains(name)) {
            let suite = qd1_suites::builtin(name).unwrap();
            for step in names.split(", ") {
                assert!(suite.job.iter().any(|job| job.name == step), "{name}: {step}");
            }
            let help = words(&help(name));
            assert!(help.contains(names) && (*name == "check" || !help.contains("commit4")), "{help}");
        }
    }

    #[test]
    fn the_sizes_that_the_help_names_are_those_of_the_suite() {
        for (name, ..) in SPECIAL.iter().filter(|(name, option, _)| *option == "size" && *name != "run") {
            let size = qd1_suites::builtin(name).unwrap().size.get(Effort::Default).to_string();
            let help = words(&help(name));
            assert!(help.contains(&format!("[default: {}", size.replace(' ', ""))), "{help}");
        }
    }

    #[test]
    fn special_options_of_a_command_come_before_common_ones() {
        for (name, first) in [("check", "--quick"), ("sync", "--quick"), ("limits", "--burst")] {
            let help = help(name);
            let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("{name} has no {text}: {help}"));
            assert!(at(first) < at(COMMON_HEADING) && at(COMMON_HEADING) < at("--format"), "{help}");
        }
    }

    #[test]
    fn every_special_word_belongs_to_an_option() {
        for (name, option, words) in SPECIAL {
            let root = Cli::command();
            let command = root.find_subcommand(name).unwrap();
            assert!(command.get_arguments().any(|arg| arg.get_id() == option), "{name} --{option}: {words}");
        }
    }

    /// Regression: the list of commands was followed by all options of `check`, 154 lines in all.
    #[test]
    fn the_help_without_a_command_fits_two_screens() {
        let help = Cli::definition().render_help().to_string();
        assert!(help.lines().count() <= 48 && help.contains("qd1 check --help"), "{help}");
        assert!(!help.contains("--thresholds") && help.contains("--quick"), "{help}");
    }
}
