//! The command line as it was typed, and the command that runs the same again from any directory.

use std::path::Path;

use qd1_model::Problem;
use qd1_model::suggest::nearest;

/// A word, or a flag with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// The name of a command, or of a program after `app`.
    Command(String),
    /// A flag without a value, as typed; or flags after one dash.
    Flag(String),
    /// An option with its value.
    Option {
        /// Its identifier in the definition of the command line.
        id: String,
        /// As typed: `--size`, `-o`.
        flag: String,
        /// The value.
        value: String,
        /// Whether both were one word: `--size=1G`.
        joined: bool,
        /// Whether the value names a file that is read.
        is_input: bool,
    },
    /// An argument without a flag.
    Positional {
        /// Its identifier.
        id: String,
        /// The value.
        value: String,
    },
}

/// A command line, split into words by its definition.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandLine {
    /// What was typed after the program's name.
    pub(crate) words: Vec<Word>,
    /// Names of all commands, for "did you mean".
    pub(crate) commands: Vec<String>,
}

impl CommandLine {
    /// Returns the command that does the same from any directory: each option in `changes`, by identifier, gets that
    /// value, whether it was typed or not, and input files are named by their absolute path.
    pub(crate) fn rerun_command(&self, changes: &[(&str, String)]) -> Vec<String> {
        let mut command = vec!["qd1".to_owned()];
        let mut seen = Vec::new();
        // A value that was decided replaces all values typed for that option.
        let mut changed = |id: &str, value: &str| match changes.iter().position(|(of, _)| *of == id) {
            Some(at) if seen.contains(&at) => None,
            Some(at) => {
                seen.push(at);
                Some(changes[at].1.clone())
            }
            None => Some(value.to_owned()),
        };
        for word in &self.words {
            match word {
                Word::Command(word) | Word::Flag(word) => command.push(word.clone()),
                Word::Positional { id, value } => command.extend(changed(id, value)),
                Word::Option { id, flag, value, joined, is_input } => {
                    let value = if *is_input { absolute(value) } else { value.clone() };
                    let Some(value) = changed(id, &value) else { continue };
                    if *joined {
                        command.push(format!("{flag}={value}"));
                    } else {
                        command.extend([flag.clone(), value]);
                    }
                }
            }
        }
        for (at, (id, value)) in changes.iter().enumerate().filter(|(at, _)| !seen.contains(at)) {
            debug_assert!(!value.is_empty(), "change {at} has a value");
            if *id == PATH {
                command.push(value.clone());
                continue;
            }
            // After `--` it would not be an option.
            let end = command.iter().position(|word| word == "--").unwrap_or(command.len());
            command.splice(end..end, [format!("--{}", id.replace('_', "-")), value.clone()]);
        }
        command
    }

    /// Returns the error for a path that does not exist. It may be a mistyped command: `qd1 histroy` parses as a path.
    pub(crate) fn missing(&self, path: &Path) -> Problem {
        // After the name of a command it can only be a path.
        let first = std::env::args_os().nth(1).unwrap_or_default();
        if self.commands.iter().any(|command| *command == *first.to_string_lossy()) {
            return qd1_runner::place::missing(path);
        }
        let text = path.to_string_lossy();
        match nearest(&text, self.commands.iter().map(String::as_str)) {
            Some(command) => Problem::usage(format!(
                "there is no file or directory {text:?}; did you mean the command `qd1 {command}`?"
            )),
            // A bare word is more often meant as a command than as a path.
            None if !text.contains(['/', '.']) && !text.is_empty() => {
                let commands = self.commands.join(", ");
                Problem::usage(format!("there is no file, directory or command {text:?}; the commands are {commands}"))
            }
            None => qd1_runner::place::missing(path),
        }
    }
}

/// Identifier of the argument that names the place to measure; every command that measures has it.
pub(crate) const PATH: &str = "path";

fn absolute(path: &str) -> String {
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_command_is_recognised() {
        let line = CommandLine { words: Vec::new(), commands: vec!["history".to_owned(), "check".to_owned()] };
        assert!(line.missing(Path::new("histroy")).to_string().contains("qd1 history"));
        assert!(line.missing(Path::new("/srv/data")).to_string().contains("does not exist"));
    }
}
