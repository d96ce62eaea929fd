//! What a run prints and where it goes: formats, colour, progress, result files.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use predicates::prelude::*;
use serde_json::Value;

use crate::common::fio::words;
use crate::common::refusal::refused;
use crate::common::{Place, Running, find, int, names, said, text, wait_until};
use crate::kept::kept;

#[test]
fn every_format_of_one_run_tells_the_same() {
    let run = kept("check");
    let report = &run.report;
    let id = report["record"]["id"].as_str().unwrap();
    let shown = |format: &str| &run.shown[format];
    let n = int(&find(&report["summary"]["steps"], "name", "qd1")["streams"][0]["ios"]);
    for format in ["human", "markdown"] {
        let text = shown(format);
        assert!(text.contains(id) && text.contains("commit1"), "{format}:\n{text}");
        let grouped = text.replace(',', "");
        assert!(
            grouped.contains(&format!("n={n}")) || grouped.contains(&n.to_string()),
            "{n} is not in {format}:\n{text}"
        );
    }
    let csv = shown("csv");
    let row = csv.lines().find(|line| line.starts_with(&format!("{id},qd1,read,lat_p50_ns,ns,"))).expect("a row");
    assert!(row.contains(&format!(",{n},")), "{row}");
    let lines: Vec<Value> = shown("ndjson").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().all(|line| line["run"] == id));
    assert_eq!(lines.last().unwrap()["steps"], report["record"]["steps"]);
}

#[test]
fn colour_comes_when_asked_for_and_no_color_wins_over_force() {
    let place = Place::new();
    place.report(&["--only", "read32"]);
    let id = place.runs()[0]["id"].as_str().unwrap().to_owned();
    let show = |args: &[&str]| place.qd1(&[&["history", "show", &id], args].concat());
    let colour = predicate::str::contains("\x1b[");
    show(&["--color", "always"]).assert().stdout(colour.clone());
    show(&["--color", "always"]).env("NO_COLOR", "1").assert().stdout(colour.clone());
    show(&[]).env("CLICOLOR_FORCE", "1").assert().stdout(colour.clone());
    show(&[]).env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").assert().stdout(colour.clone().not());
    show(&["--color", "never"]).env("CLICOLOR_FORCE", "1").assert().stdout(colour.not());
}

#[test]
fn progress_goes_to_stderr_and_quiet_leaves_it_empty() {
    let place = Place::new();
    let progress = predicate::str::contains("[1/1] read32");
    place.brief(&["--only", "read32"]).assert().stderr(progress.clone()).stdout(progress.not());
    place.brief(&["--only", "read32", "--quiet"]).assert().success().stderr("");
}

#[test]
fn a_result_file_is_replaced_whole_and_the_report_is_in_it() {
    let place = Place::new();
    let file = place.beside("result.json");
    fs::write(&file, "old").unwrap();
    let out = ["--only", "read32", "--json", "-o", file.to_str().unwrap()];
    place.brief(&out).assert().success().stdout("");
    let report: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(report["record"]["id"], place.runs()[0]["id"]);
    assert_eq!(names(file.parent().unwrap()), ["result.json", "state", "target"]);
}

#[test]
fn a_failing_run_leaves_the_old_result_file_as_it_was() {
    let place = Place::new();
    let (old, new) = (place.beside("old.json"), place.beside("new.json"));
    fs::write(&old, "old").unwrap();
    for file in [&old, &new] {
        place.brief(&["--only", "nosuch", "-o", file.to_str().unwrap()]).assert().code(2);
    }
    assert_eq!(fs::read_to_string(&old).unwrap(), "old");
    assert_eq!(names(old.parent().unwrap()), ["old.json", "state", "target"]);
}

#[test]
fn a_result_goes_into_a_fifo_or_device_and_does_not_replace_it() {
    let place = Place::new();
    let fifo = place.beside("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || fs::read_to_string(fifo).unwrap()
    });
    place.brief(&["--only", "read32", "--json", "-o", fifo.to_str().unwrap()]).assert().success();
    let kind = std::os::unix::fs::FileTypeExt::is_fifo(&fs::metadata(&fifo).unwrap().file_type());
    assert!(kind, "the fifo was replaced by a file");
    assert!(reader.join().unwrap().contains("\"schema_version\""));
}

/// It waited for ever, and the first signal was lost.
#[test]
fn a_fifo_that_nobody_reads_is_given_up_at_a_signal() {
    let place = Place::new();
    let fifo = place.beside("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let args = ["check", place.dir_str(), "--size", "32MiB", "--runtime", "100ms", "--only", "read32", "--json"];
    let mut run = Running::start(place.command(&[&args[..], &["-o", fifo.to_str().unwrap()]].concat()));
    wait_until("the run is kept", || place.history().exists() && !place.runs().is_empty());
    run.signal(rustix::process::Signal::INT);
    let report: Value = serde_json::from_reader(run.0.stdout.take().unwrap()).unwrap();
    assert_eq!(report["record"]["id"], place.runs()[0]["id"], "what nobody reads there is printed");
    assert_eq!(run.0.wait().unwrap().code(), Some(130));
}

/// Each was replaced by the report, and what was in it was lost.
#[test]
fn a_result_does_not_take_the_place_of_what_the_command_reads() {
    let place = Place::new();
    place.report(&["--only", "read32"]);
    let (suite, job, file) = (place.beside("own.toml"), place.beside("job.fio"), place.beside("data"));
    fs::write(&suite, "name = \"own\"\n[[job]]\nname = \"r\"\nrw = \"randread\"\n").unwrap();
    fs::write(&job, "[j]\nrw=read\nsize=64k\n").unwrap();
    fs::write(&file, vec![0x5A; 16 << 20]).unwrap();
    let (history, link) = (place.history(), place.beside("link"));
    std::os::unix::fs::symlink(&suite, &link).unwrap();
    let path = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    for (line, kept) in [
        (format!("run {} . -o {}", path(&suite), path(&suite)), &suite),
        (format!("run {} . -o {}", path(&suite), path(&link)), &suite),
        (format!("check {} --only read32 -o {}", path(&file), path(&file)), &file),
        (format!("fio --output={} {}", path(&job), path(&job)), &job),
        (format!("check . --only read32 -o {}", path(&history)), &history),
    ] {
        let before = fs::read(kept).unwrap();
        let output = place.qd1(&words(&line)).output().unwrap();
        refused(&output, 2, &["name another file"]);
        assert!(fs::read(kept).unwrap() == before, "{line}");
    }
    assert_eq!(place.runs().len(), 1);
}

/// It was saved in a file that had no name any more.
#[test]
fn a_history_that_is_removed_during_a_run_is_begun_anew() {
    let place = Place::new();
    let args = ["check", place.dir_str(), "--size", "32MiB", "--runtime", "60s", "--only", "qd1"];
    let mut run = Running::start(place.command(&args));
    run.wait_until_it_measures();
    for name in names(place.history().parent().unwrap()).iter().filter(|name| name.starts_with("history.db")) {
        fs::remove_file(place.history().with_file_name(name)).unwrap();
    }
    run.signal(rustix::process::Signal::INT);
    std::io::read_to_string(run.0.stdout.take().unwrap()).unwrap();
    assert_eq!((run.0.wait().unwrap().code(), place.runs().len()), (Some(130), 1));
}

#[test]
fn sizes_beyond_what_can_be_counted_are_refused() {
    let place = Place::new();
    for size in ["18446744073709551615", "18446744073709000000"] {
        let output = place.qd1(&["check", ".", "--size", size]).output().unwrap();
        refused(&output, 4, &["not enough space", "smaller --size"]);
    }
}

/// The file behind it was replaced, with what a shell had put there.
#[test]
fn a_result_on_dev_stdout_goes_where_stdout_goes() {
    let place = Place::new();
    let log = place.beside("log");
    fs::write(&log, "first\n").unwrap();
    let append = fs::File::options().append(true).open(&log).unwrap();
    let id = place.report(&["--only", "read32"])["record"]["id"].as_str().unwrap().to_owned();
    let mut show = place.command(&["history", "show", &id, "-o", "/dev/stdout"]);
    assert!(show.stdout(append).status().unwrap().success());
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.starts_with("first\n") && text.contains("read32"), "{text}");
}

/// What is behind a descriptor may have no name: a pipe, or a file that was deleted.
#[test]
fn a_result_goes_to_an_open_descriptor() {
    let place = Place::new();
    let id = place.report(&["--only", "read32"])["record"]["id"].as_str().unwrap().to_owned();
    let line = |to: &str| format!("exec \"$0\" history show {id} -o {to}");
    let said_by = |shell: &str, script: &str| {
        let mut command = std::process::Command::new(shell);
        let output = place.environment(&mut command).args(["-c", script, crate::common::qd1()]).output();
        output.ok().map(|output| said(&output.stdout))
    };
    for to in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/fd/3 3>&1 >/dev/null"] {
        assert!(said_by("sh", &line(to)).unwrap().contains("read32"), "{to}");
    }
    // Not every machine has a shell that knows it.
    if let Some(text) = said_by("bash", &line(">(cat)").replace("exec ", "")) {
        assert!(text.contains("read32"), "{text}");
    }
    let deleted = place.beside("deleted");
    let script = format!("exec 3<>../deleted; rm ../deleted; \"$0\" history show {id} -o /dev/fd/3; cat <&3");
    assert!(said_by("sh", &script).unwrap().contains("read32") && !deleted.exists());
    // A closed one is known at once.
    let closed = place.qd1(&["check", ".", "--only", "read32", "-o", "/dev/fd/99"]).output().unwrap();
    refused(&closed, 2, &["/dev/fd/99", "choose another place"]);
}

#[test]
fn a_link_to_a_result_file_stays_a_link() {
    let place = Place::new();
    let (file, link) = (place.beside("file.json"), place.beside("link.json"));
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    place.brief(&["--only", "read32", "--json", "-o", link.to_str().unwrap()]).assert().success();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&file).unwrap().contains("\"schema_version\""));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    for format in ["human", "json"] {
        let args = ["--size", "32MiB", "--runtime", "100ms", "--only", "read32,commit1", "--format", format];
        let mut command = place.command(&args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::with_capacity(16, child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        drop(stdout);
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{stderr}");
        assert!(!stderr.contains("panic") && !stderr.contains("ipe"), "{stderr}");
    }
}

#[test]
fn a_result_that_cannot_be_written_is_a_failure() {
    let place = Place::new();
    let said = || predicate::str::contains("No space left on device");
    place.brief(&["--only", "read32", "-o", "/dev/full"]).assert().code(1).stderr(said());
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = place.command(&["check", "--size", "32MiB", "--runtime", "50ms", "--only", "read32"]);
    let ended = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(said().eval(&String::from_utf8_lossy(&ended.stderr)));
}

#[test]
fn a_run_prints_what_the_history_shows_of_it() {
    let place = Place::new();
    let ran = place.brief(&["--only", "read32", "-v"]).assert().success().get_output().clone();
    let id = place.runs()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(said(&ran.stdout), text(place.qd1(&["history", "show", &id])));
    assert!(!said(&ran.stderr).contains('\x1b'));
}

/// Cause: the name of a job cleared the terminal, and was in what `--redact` left, as was an address in its description.
#[test]
fn a_hostile_name_of_a_job_is_written_out_and_redacted() {
    let place = Place::new();
    let job = place.beside("hostile.fio");
    let file = place.dir().join("file");
    let text = "[\x1b[2Jacme]\nrw=read\nsize=1m\ndescription=for eve@acme.example\nfilename=";
    fs::write(&job, format!("{text}{}\n", file.display())).unwrap();
    for command in ["run", "fio"] {
        let ran = place.qd1(&[command, job.to_str().unwrap()]).assert().success();
        for stream in [&ran.get_output().stdout, &ran.get_output().stderr] {
            assert!(!stream.contains(&0x1b), "{command}: {}", said(stream).escape_debug());
        }
    }
    let id = place.runs()[0]["id"].as_str().unwrap().to_owned();
    for format in ["--format=json", "--format=csv", "--format=markdown"] {
        let shown = place.qd1(&["history", "show", &id, "--redact", format]).assert().success();
        let shown = said(&shown.get_output().stdout);
        assert!(shown.contains("job1") && !shown.contains("acme") && !shown.contains('\x1b'), "{format}: {shown}");
    }
    // Errors name what was typed.
    let refused = place.qd1(&["check", "/no/\x1b[2Jsuch"]).assert().code(2);
    assert!(!refused.get_output().stderr.contains(&0x1b));
}
