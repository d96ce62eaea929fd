//! The kind of a run: which command, or which built-in suite, made it. Everything that depends on the kind of run uses
//! this, never the suite's name, which users choose for their own suites.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Not recorded: the run was saved before Records had a subject. The store replaces it by [`Subject::infer_from_command`].
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
    /// Methods of making writes durable.
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
    /// A comparison of filesystems.
    Filesystems,
    /// fio's jobs: `qd1 fio`, and `qd1 run` with a job file.
    Jobs,
    /// A watch of disks: `qd1 watch`.
    Watch,
}

impl Subject {
    /// Returns the subject of a run that was saved without one, from the command that made it and the name of its
    /// suite.
    pub fn infer_from_command(command: &[String], suite: &str) -> Self {
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
            Some("watch") => Self::Watch,
            Some("run") => Self::infer_from_suite(&command[2..], suite),
            _ => Self::Jobs,
        }
    }

    /// Returns the subject of a saved `qd1 run`, from its arguments and the name of its suite.
    fn infer_from_suite(args: &[String], suite: &str) -> Self {
        let first = args.iter().find(|arg| !arg.starts_with('-'));
        // The suite was named directly, not through a user's file that defines a suite of the same name.
        let is_builtin = args.iter().any(|arg| arg == suite);
        match suite {
            "check" if is_builtin => Self::Check,
            "identify" if is_builtin => Self::Identify,
            "predict" if is_builtin => Self::Predict,
            // fio's jobs are saved as the suite "fio".
            "fio" if first.is_none_or(|file| !file.ends_with(".toml")) => Self::Jobs,
            _ => Self::Suite,
        }
    }

    /// Returns true if its steps are many short ones that are only meaningful together.
    pub const fn has_many_short_steps(self) -> bool {
        matches!(self, Self::Sweep | Self::Sync | Self::Filesystems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_a_saved_run_determines_its_subject() {
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
            ("qd1 run check /srv -o x.toml", "check", Subject::Check),
            ("qd1 run --quick identify /srv/d.toml", "identify", Subject::Identify),
            ("qd1 run job.ini /srv/d.toml -q", "fio", Subject::Jobs),
            ("qd1 run /home/me/mine.toml /srv", "fio", Subject::Suite),
        ] {
            let command: Vec<String> = command.split(' ').map(str::to_owned).collect();
            assert_eq!(Subject::infer_from_command(&command, suite), subject, "{command:?}");
        }
    }
}
