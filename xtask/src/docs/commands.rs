//! `cargo xtask docs --run`: runs every qd1 command that the documents show, exactly as written, below its own
//! directory. The check `docs` parses the same commands with the binary without measuring anything.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use qd1_lab::{clock, cmd};

/// The documents whose commands are run.
const DOCUMENTS: [&str; 9] = [
    "README.md",
    "docs/introduction.md",
    "docs/usage.md",
    "docs/suites.md",
    "docs/tutorials/choose-a-vps.md",
    "docs/tutorials/what-you-pay-for.md",
    "docs/tutorials/etcd.md",
    "docs/tutorials/filesystem-for-postgresql.md",
    "docs/tutorials/bonnie-and-fio.md",
];
/// Directories that the documents measure; each is below the scratch directory when its command runs.
const PLACES: [&str; 8] =
    ["/mnt/old", "/mnt/new", "/var/lib/etcd", "/var/lib", "/srv/postgresql", "/srv/mysql", "/srv", "/mnt/volume"];
/// The ids that the documents use for runs.
const IDS: [&str; 6] = ["3f2a", "77aa", "9c01", "b211", "c0de", "d00d"];
/// fio results that they name.
const RESULTS: [(&str, u32); 2] = [("fio.json", 1000), ("other-fio.json", 2000)];
/// Commands that support `--dry-run`.
const MEASURING: [&str; 11] =
    ["check", "run", "sweep", "limits", "sync", "meta", "predict", "identify", "filesystems", "app", "."];
/// A job for the fio commands.
const JOB: &str = "[global]\nsize=16m\nruntime=2\ntime_based\n[job]\nrw=randread\n";

/// A command as written.
#[derive(Debug, PartialEq)]
struct Shown {
    document: &'static str,
    line: usize,
    text: String,
}

/// Whether commands measure, or only say what they would do.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum How {
    Whole,
    Understood,
}

/// Runs them with this binary; only those of documents whose names contain `only`.
pub(crate) fn run(binary: &Path, how: How, only: &str) -> Result<usize> {
    let scratch = tempfile::Builder::new().prefix("qd1-docs-").tempdir()?;
    let place = scratch.path();
    // A server of another user must be able to enter it.
    fs::set_permissions(place, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    for dir in PLACES.iter().chain(&["/srv/data", "/bin", "/work", "/work/results", "/var/lib/node_exporter"]) {
        fs::create_dir_all(below(place, dir))?;
    }
    fs::copy(binary, place.join("bin/qd1"))?;
    fs::write(place.join("work/job.fio"), JOB)?;
    for (name, iops) in RESULTS {
        let job = format!(r#"{{"jobname": "job", "read": {{"total_ios": 9000, "iops": {iops}, "runtime": 9000}}}}"#);
        let text = format!(r#"{{"fio version": "fio-3.36", "jobs": [{job}]}}"#);
        fs::write(place.join("work").join(name), &text)?;
        fs::write(place.join("work/results").join(name), &text)?;
    }
    fs::write(place.join("work/prices.csv"), "disk,EUR per month\nfio,5\nother-fio,4\n")?;
    let mut failed = Vec::new();
    let mut count = 0;
    for document in DOCUMENTS.iter().filter(|document| document.contains(only)) {
        let text = fs::read_to_string(cmd::root().join(document)).with_context(|| (*document).to_owned())?;
        for shown in commands(document, &text) {
            count += 1;
            if let Err(error) = try_one(&shown, place, how) {
                failed.push(format!("{}:{}: {}: {error:#}", shown.document, shown.line, shown.text));
            }
        }
    }
    ensure!(failed.is_empty(), "commands in the documents that do not work as shown:\n{}", failed.join("\n"));
    Ok(count)
}

fn below(place: &Path, dir: &str) -> PathBuf {
    place.join(dir.trim_start_matches('/'))
}

fn try_one(shown: &Shown, place: &Path, how: How) -> Result<()> {
    let mut run = in_place(place);
    let text = prepared(&shown.text, place, &kept(place)?, how);
    let outside = text.split([' ', '=']).find(|word| word.starts_with('/') && !Path::new(word).starts_with(place));
    ensure!(outside.is_none(), "{} is outside the directories that may be measured here", outside.unwrap_or_default());
    run.arg(&text);
    let (output, took) = clock::timed(|| cmd::output(&mut run));
    let output = output?;
    let code = output.status.code();
    if how == How::Whole {
        println!("  {:>4.0} s  {}", took.as_secs_f64(), shown.text);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // 3: it was measured, and is worse than required.
    ensure!(matches!(code, Some(0 | 3)), "exited with {code:?}: {}", said.trim().lines().last().unwrap_or_default());
    Ok(())
}

/// A shell in the working directory, with its own history of runs.
fn in_place(place: &Path) -> Command {
    let mut shell = cmd::command("sh");
    let path = std::env::var("PATH").unwrap_or_default();
    shell.env("PATH", format!("{}:{path}", place.join("bin").display()));
    shell.env("QD1_STORE", place.join("history.db")).current_dir(place.join("work")).arg("-c");
    shell
}

/// The ids of runs made before all commands, since documents refer to earlier runs.
fn kept(place: &Path) -> Result<Vec<String>> {
    let file = place.join("kept");
    if let Ok(ids) = fs::read_to_string(&file) {
        return Ok(ids.lines().map(str::to_owned).collect());
    }
    let made = |_| {
        let check = "qd1 check --quick --size 16M --only commit1 --runtime 1s --json";
        let report = cmd::json(in_place(place).arg(check))?;
        Ok(report["record"]["id"].as_str().context("the report has no id")?.to_owned())
    };
    // The latest one is not one of those that the documents name.
    let ids = (0..=IDS.len()).map(made).collect::<Result<Vec<String>>>()?;
    fs::write(&file, ids.join("\n"))?;
    Ok(ids)
}

/// The command with the directories and ids that exist here.
fn prepared(text: &str, place: &Path, ids: &[String], how: How) -> String {
    let here = |path: &str| match path {
        // One of fio's files, in a directory that exists.
        "/data/test" => place.join("work/test").display().to_string(),
        _ => below(place, path).display().to_string(),
    };
    let is_place = |path: &str| {
        path == "/data/test" || PLACES.iter().any(|dir| path == *dir || path.starts_with(&format!("{dir}/")))
    };
    let word = |word: &str| match word.split_once('=') {
        Some((flag, path)) if is_place(path) => format!("{flag}={}", here(path)),
        _ if is_place(word) => here(word),
        _ => IDS.iter().zip(ids).fold(word.to_owned(), |word, (shown, id)| word.replace(shown, id)),
    };
    let words: Vec<String> = text.split(' ').map(word).collect();
    let is_long = words.iter().any(|word| word == "--over");
    let is_measuring = match words.get(1).map(String::as_str) {
        Some("compare") => words.iter().any(|word| word == "--in-turn"),
        Some("history" | "suites" | "help" | "schema" | "version" | "completions" | "man" | "restore") => false,
        Some("fio") => {
            return if how == How::Whole { words.join(" ") } else { format!("{} --parse-only", words.join(" ")) };
        }
        // A path or an option alone means `check`.
        Some(word) => MEASURING.contains(&word) || word.starts_with(['-', '/']),
        None => true,
    };
    let has_dry_run = words.iter().any(|word| word == "--dry-run");
    match is_measuring && !has_dry_run && (is_long || how == How::Understood) {
        true => format!("{} --dry-run", words.join(" ")),
        false => words.join(" "),
    }
}

/// The qd1 commands in a document's code blocks, without the comments next to them.
fn commands(document: &'static str, text: &str) -> Vec<Shown> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            continue;
        }
        let line_text = line.trim_start_matches("$ ").trim_start_matches("sudo ");
        // Resuming a check over hours needs one that was interrupted.
        if !is_code || !line_text.starts_with("qd1 ") || line_text.contains(" --resume ") {
            continue;
        }
        let command = line_text.split(" #").next().unwrap_or(line_text).trim_end();
        found.push(Shown { document, line: number + 1, text: command.to_owned() });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_in_code_without_their_remarks() {
        let text = "qd1 prose\n```sh\nsudo qd1 meta /srv   # files\n$ qd1 --quick\nls\nqd1 check --resume 3f2a\n```\nqd1 more prose\n";
        let found: Vec<String> = commands("x.md", text).into_iter().map(|shown| shown.text).collect();
        assert_eq!(found, ["qd1 meta /srv", "qd1 --quick"]);
    }

    #[test]
    fn a_command_is_run_below_the_scratch_directory() {
        let with = |text: &str, how| prepared(text, Path::new("/tmp/x"), &["abcd".to_owned()], how);
        assert_eq!(with("qd1 check /var/lib/etcd", How::Whole), "qd1 check /tmp/x/var/lib/etcd");
        assert_eq!(
            with("qd1 check --over 24h /srv/data", How::Whole),
            "qd1 check --over 24h /tmp/x/srv/data --dry-run"
        );
        assert_eq!(with("qd1 history show 3f2a", How::Understood), "qd1 history show abcd");
        assert_eq!(with("qd1 /var/lib", How::Understood), "qd1 /tmp/x/var/lib --dry-run");
        let file = "qd1 fio --filename=/srv/data/test --runtime=1";
        assert_eq!(with(file, How::Whole), "qd1 fio --filename=/tmp/x/srv/data/test --runtime=1");
        assert_eq!(with("qd1 fio job.fio", How::Understood), "qd1 fio job.fio --parse-only");
    }
}
