//! What kind of run a Record is: which command, or which built-in suite, made it. Everything that depends on the kind of run
//! asks this, never the suite's name, which users choose for suites of their own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a run is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Not recorded: the run was kept before Records said it. The store replaces it by [`Subject::of_kept`].
    #[default]
    Unrecorded,
    /// The disk as a whole: `qd1 check`.
    Check,
    /// A suite of steps, built in or a user's own.
    Suite,
    /// A surface over block size, iodepth and rw.
    Sweep,
    /// Rate limits.
    Limits,
    /// Ways to make writes durable.
    Sync,
    /// File operations.
    Meta,
    /// bonnie++'s job.
    Bonnie,
    /// The kind of storage.
    Identify,
    /// Predictions for databases.
    Predict,
    /// A real program: `qd1 app`.
    Program,
    /// Filesystems beside each other.
    Filesystems,
    /// fio's jobs: `qd1 fio`, and `qd1 run` with a job file.
    Jobs,
}

impl Subject {
    /// The subject of a built-in suite, by its name.
    pub fn of_builtin(suite: &str) -> Self {
        match suite {
            "check" => Self::Check,
            "identify" => Self::Identify,
            "predict" => Self::Predict,
            _ => Self::Suite,
        }
    }

    /// The subject of a run that was kept without one, from the command that made it and the name of its suite.
    pub fn of_kept(command: &[String], suite: &str) -> Self {
        match command.get(1).map(String::as_str) {
            Some("check") => Self::Check,
            Some("sweep") => Self::Sweep,
            Some("limits") => Self::Limits,
            Some("sync") => Self::Sync,
            Some("meta") if suite == "bonnie" => Self::Bonnie,
            Some("meta") => Self::Meta,
            Some("identify") => Self::Identify,
            Some("predict") => Self::Predict,
            Some("app") => Self::Program,
            Some("filesystems") => Self::Filesystems,
            Some("run") if command.iter().any(|word| word.ends_with(".toml")) => Self::Suite,
            Some("run") if suite == "fio" => Self::Jobs,
            Some("run") => Self::of_builtin(suite),
            _ => Self::Jobs,
        }
    }

    /// Whether its steps are many short ones that only mean something side by side.
    pub const fn has_many_short_steps(self) -> bool {
        matches!(self, Self::Sweep | Self::Sync | Self::Filesystems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_run_is_what_its_command_made_it() {
        for (command, suite, subject) in [
            ("qd1 check /srv", "check", Subject::Check),
            ("qd1 run check /srv", "check", Subject::Check),
            ("qd1 run /home/me/mine.toml /srv", "check", Subject::Suite),
            ("qd1 run /home/me/limits.toml /srv", "limits", Subject::Suite),
            ("qd1 limits /srv --size 512", "limits", Subject::Limits),
            ("qd1 meta /srv --suite bonnie", "bonnie", Subject::Bonnie),
            ("qd1 meta /srv", "meta", Subject::Meta),
            ("qd1 app etcd /srv", "app-etcd", Subject::Program),
            ("qd1 run job.fio /srv", "fio", Subject::Jobs),
            ("qd1 fio --name=a", "fio", Subject::Jobs),
            ("qd1 run yabs /srv", "yabs", Subject::Suite),
        ] {
            let command: Vec<String> = command.split(' ').map(str::to_owned).collect();
            assert_eq!(Subject::of_kept(&command, suite), subject, "{command:?}");
        }
    }
}
