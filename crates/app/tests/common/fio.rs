//! Both programs, run the same way, and what they answer.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::{Place, qd1, real_time, said};

/// Whose program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Fio,
    Ours,
}

/// Whether fio is installed.
///
/// # Errors
/// That it is not.
pub(crate) fn has_fio() -> Result<(), String> {
    let has = Command::new("fio").arg("--version").output().is_ok_and(|output| output.status.success());
    has.then_some(()).ok_or_else(|| "fio is not installed".to_owned())
}

/// The words of a command line in which no word has a blank.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

impl Side {
    /// A command in this directory, which also has the history.
    pub(crate) fn command(self, dir: &Path, args: &[&str]) -> Command {
        let mut command = match self {
            Self::Fio => Command::new("fio"),
            Self::Ours => Command::new(qd1()),
        };
        self.set_up(&mut command, dir, args);
        command
    }

    fn set_up<'a>(self, command: &'a mut Command, dir: &Path, args: &[&str]) -> &'a mut Command {
        if self == Self::Ours {
            command.arg("fio");
        }
        command.args(args).current_dir(dir).env("HOME", dir).env("QD1_STORE", dir.with_extension("db"));
        command.stdin(Stdio::null())
    }

    pub(crate) fn run(self, dir: &Path, line: &str) -> Output {
        self.command(dir, &words(line)).output().unwrap()
    }

    /// As [`Side::report`], in real time: a pace is kept where the processor is there when it is wanted.
    #[track_caller]
    pub(crate) fn paced(self, dir: &Path, line: &str) -> Value {
        let mut command = match self {
            Self::Fio => real_time("fio"),
            Self::Ours => real_time(qd1()),
        };
        let line = format!("--output-format=json {line}");
        self.parsed(self.set_up(&mut command, dir, &words(&line)).output().unwrap(), &line)
    }

    /// The JSON report of a run that has to succeed with nothing on stderr.
    #[track_caller]
    pub(crate) fn report(self, dir: &Path, line: &str) -> Value {
        let line = format!("--output-format=json {line}");
        self.parsed(self.run(dir, &line), &line)
    }

    #[track_caller]
    fn parsed(self, output: Output, line: &str) -> Value {
        let (stdout, stderr) = (said(&output.stdout), said(&output.stderr));
        assert!(output.status.success(), "{self:?} {line}: {:?} {stderr}{stdout}", output.status);
        if self == Self::Ours {
            assert_eq!(stderr, "", "{line}");
        }
        // fio 3.33 puts notes before its report, ours does not.
        let from = if self == Self::Fio { stdout.find('{').unwrap_or(0) } else { 0 };
        serde_json::from_str(&stdout[from..]).unwrap_or_else(|error| panic!("{self:?} {line}: {error}: {stdout}"))
    }
}

/// What a line given to our side prints on both streams; its exit code has to be `code`.
#[track_caller]
pub(crate) fn ours(place: &Place, line: &str, code: i32) -> (String, String) {
    let output = Side::Ours.run(place.dir(), line);
    assert_eq!(output.status.code(), Some(code), "{line}: {}", said(&output.stderr));
    (said(&output.stdout), said(&output.stderr))
}

/// Does `work` for each item, several at a time: the programs mostly wait. What went wrong is told of all of them.
pub(crate) fn for_each<T: Sync>(items: &[T], workers: usize, work: impl Fn(&T) -> Result<(), String> + Sync) {
    let next = AtomicUsize::new(0);
    let problems = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(problem) = work(item) {
                        problems.lock().unwrap().push(problem);
                    }
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
