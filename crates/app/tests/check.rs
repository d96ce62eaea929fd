//! `qd1 check` from the command line to the result: what it measures hangs together, and what it prints is clean.
//!
//! The runs are too short for figures; that they add up holds at any length.

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use common::{Place, find, float, int, list, names, schema, skip, step};
use predicates::prelude::*;
use serde_json::Value;

const STEPS: [&str; 10] =
    ["qd1", "commit1", "commit4", "wal", "read32", "write32", "seqread", "seqwrite", "files", "buffered"];

#[test]
fn a_whole_check_measures_every_step_and_leaves_nothing_but_its_run() {
    let place = Place::new();
    let report = place.report(&[]);
    let ran: Vec<&str> = list(&report["record"]["steps"]).iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(ran, STEPS);
    assert_eq!(report["record"]["interrupted"], false);
    place.assert_empty();
    assert_eq!(place.runs()[0]["id"], report["record"]["id"]);

    let schema = common::json(place.qd1(&["schema"]));
    assert_eq!(schema::faults(&schema, &schema, &report, ""), Vec::<String>::new());
    for step in list(&report["record"]["steps"]) {
        intervals_have_no_gaps(step);
        histograms_and_intervals_agree(step);
    }
    commits_are_write_plus_sync(&report);
    every_percentile_has_n_and_an_interval_or_is_unresolved(&report);
    the_kernel_was_asked_what_we_measured(&report);
}

fn intervals_have_no_gaps(step: &Value) {
    let name = &step["name"];
    let mut end = 0;
    for interval in list(&step["intervals"]) {
        let (start, length) = (int(&interval["start_ns"]), int(&interval["length_ns"]));
        assert_eq!(start, end, "{name}: an interval begins where the last one ended");
        assert!(length <= 100_000_000, "{name}: an interval of {length} ns");
        end = start + length;
    }
    assert!(end > 0, "{name}: no intervals");
    // Where the step ends with one fsync, nothing completes in that, and no interval is needed.
    assert!(end + int(&step["end_fsync_ns"]) >= int(&step["runtime_ns"]), "{name}: {end} ns are covered");
}

fn histograms_and_intervals_agree(step: &Value) {
    let name = &step["name"];
    assert!(!list(&step["streams"]).is_empty(), "{name} measured nothing");
    for stream in list(&step["streams"]) {
        let class = stream["class"].as_str().unwrap();
        let of_class = || {
            list(&step["intervals"])
                .iter()
                .flat_map(|interval| list(&interval["streams"]))
                .filter(|s| s["class"] == class)
        };
        let sum = |key: &str| of_class().map(|part| int(&part[key])).sum::<u64>();
        assert_eq!(sum("ios"), int(&stream["lat"]["count"]), "{name} {class}: operations");
        assert_eq!(sum("bytes"), int(&stream["bytes"]), "{name} {class}: bytes");
        assert_eq!(sum("lat_sum_ns"), int(&stream["lat"]["sum_ns"]), "{name} {class}: sum of latencies");
        let binned: u64 = of_class().flat_map(|part| list(&part["bins"])).map(|bin| int(&bin[1])).sum();
        assert_eq!(binned, sum("ios"), "{name} {class}: coarse histograms");
        let slowest: Vec<u64> = list(&stream["slowest"]).iter().map(|slow| int(&slow["lat_ns"])).collect();
        assert!(slowest.is_sorted_by(|a, b| a >= b) && !slowest.is_empty(), "{name} {class}: {slowest:?}");
        assert!(slowest[0] <= int(&stream["lat"]["max_ns"]), "{name} {class}: slower than the slowest");
    }
}

fn commits_are_write_plus_sync(report: &Value) {
    for name in ["commit1", "commit4", "wal"] {
        let commit = find(&step(report, name)["streams"], "class", "commit");
        let (whole, write, sync) = (&commit["lat"], &commit["write_part"], &commit["sync_part"]);
        assert_eq!((&whole["count"], &whole["count"]), (&write["count"], &sync["count"]), "{name}");
        let [whole_ns, write_ns, sync_ns] = [whole, write, sync].map(|hist| int(&hist["sum_ns"]) as f64);
        // Between the two parts there is only our own time.
        assert!(write_ns + sync_ns <= whole_ns * 1.001, "{name}: {write_ns} + {sync_ns} > {whole_ns}");
        assert!(write_ns > 0.0 && sync_ns > 0.0, "{name}");
        assert!(int(&sync["max_ns"]) <= int(&whole["max_ns"]), "{name}: fsync is inside the commit");
    }
}

fn every_percentile_has_n_and_an_interval_or_is_unresolved(report: &Value) {
    for step in list(&report["summary"]["steps"]) {
        for stream in list(&step["streams"]) {
            for key in ["lat_p50_ns", "lat_p99_ns", "lat_p999_ns", "lat_p9999_ns"] {
                let figure = &stream[key];
                let what = format!("{} {} {key}: {figure}", step["name"], stream["class"]);
                assert_eq!(figure["n"], stream["ios"], "{what}");
                if figure["value"].is_null() {
                    assert!(int(&figure["n_needed"]) > int(&figure["n"]), "{what}");
                } else {
                    let [low, value, high] = ["low", "value", "high"].map(|key| float(&figure[key]));
                    assert!(low <= value && value <= high, "{what}");
                }
            }
        }
    }
}

/// Other programs may use the disk, and caches may answer: only what cannot be otherwise is asserted.
fn the_kernel_was_asked_what_we_measured(report: &Value) {
    for step in list(&report["record"]["steps"]) {
        let device = &step["device"];
        if device.is_null() || step["name"] == "files" {
            continue;
        }
        for (class, asked) in [("read", "asked_reads"), ("write", "asked_writes"), ("commit", "asked_syncs")] {
            if let Some(stream) = list(&step["streams"]).iter().find(|stream| stream["class"] == class) {
                // The ramp is asked for as well, and not measured.
                assert!(int(&device[asked]) >= int(&stream["lat"]["count"]), "{}: {device}", step["name"]);
            }
        }
        if step["direct"] == true && report["record"]["plan"]["target"]["filesystem"] == "ext4" {
            let counted = int(&device["counted"]["read_bytes"]) + int(&device["counted"]["write_bytes"]);
            let asked = int(&device["asked_read_bytes"]) + int(&device["asked_write_bytes"]);
            assert!(counted >= asked, "{}: the kernel counted {counted} B of {asked} B", step["name"]);
        }
    }
}

#[test]
fn on_ext4_the_test_file_is_written_whole_and_not_sparse() {
    let mounted = match common::device::Mounted::ext4("defaults") {
        Ok(mounted) => mounted,
        Err(why) => return skip("on_ext4_the_test_file_is_written_whole_and_not_sparse", &why),
    };
    let report = Place::at(mounted.path()).report(&["--only", "read32"]);
    let prepare = &report["record"]["prepare"];
    assert_eq!(int(&prepare["bytes"]), 32 << 20);
    assert_eq!(prepare["extents"]["written"], prepare["bytes"]);
    assert_eq!(int(&prepare["extents"]["hole"]) + int(&prepare["extents"]["unwritten"]), 0);
    assert_eq!(int(&prepare["lat"]["count"]), 32);
}

#[test]
fn without_a_command_it_is_check_of_this_directory() {
    let place = Place::new();
    let report = common::json(place.qd1(&["--size", "32MiB", "--runtime", "100ms", "--only", "read32", "--json"]));
    assert_eq!(report["record"]["plan"]["target"]["path"], place.dir().canonicalize().unwrap().to_str().unwrap());
    assert_eq!(report["record"]["command"][1], "check");
}

#[test]
fn the_same_seed_gives_the_same_plan_and_another_one_another() {
    let place = Place::new();
    let of = |seed: &str| place.report(&["--only", "read32,wal", "--seed", seed])["record"]["plan"].clone();
    let (first, second, other) = (of("7"), of("7"), of("8"));
    assert_eq!(first, second);
    assert_eq!(int(&first["seed"]), 7);
    assert_ne!(first, other);
}

#[test]
fn the_command_to_run_it_again_works_from_anywhere_and_plans_the_same() {
    let place = Place::new();
    let path = std::path::Path::new(common::qd1()).parent().unwrap().to_str().unwrap().to_owned();
    for name in ["it's a name", "-dash"] {
        fs::create_dir(place.dir().join(name)).unwrap();
        let first =
            common::json(place.qd1(&["--json", "--size", "32MiB", "--runtime", "50ms", "--only", "qd1", "--", name]));
        let id = first["record"]["id"].as_str().unwrap();
        let shown = place.qd1(&["history", "show", id]).output().unwrap().stdout;
        let shown = String::from_utf8(shown).unwrap();
        let command = shown.lines().find(|line| line.starts_with("  qd1 check ")).expect("a command to paste");
        let mut shell = std::process::Command::new("sh");
        let shell_env = place.environment(&mut shell);
        shell_env.env("PATH", format!("{path}:/usr/bin:/bin")).current_dir("/").args(["-c", command]);
        let second = common::json(assert_cmd::Command::from_std(shell));
        assert_eq!(first["record"]["plan"], second["record"]["plan"]);
    }
}

#[test]
fn steps_left_out_are_named_with_the_reason() {
    let report = Place::new().report(&["--only", "read32,files"]);
    let skipped = &report["record"]["plan"]["skipped"];
    assert_eq!(list(skipped).len(), STEPS.len() - 2);
    assert_eq!(find(skipped, "name", "qd1")["why"], "left out by --only");
}

#[test]
fn a_dry_run_shows_the_plan_and_touches_nothing() {
    let place = Place::new();
    let plan = place.brief(&["--dry-run"]).assert().success().stderr("").get_output().stdout.clone();
    let plan = String::from_utf8(plan).unwrap();
    for word in STEPS.iter().chain(&["32 MiB", "time", "writes", "space", "seed"]) {
        assert!(plan.contains(word), "{word} is not in\n{plan}");
    }
    place.assert_empty();
    assert!(!place.history().exists());
}

#[test]
fn each_engine_asked_for_is_the_one_that_ran() {
    let place = Place::new();
    for engine in ["psync", "libaio", "io_uring"] {
        let output = place.brief(&["--json", "--only", "read32", "--engine", engine]).output().unwrap();
        if output.status.code() == Some(5) {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(why.contains(engine), "{why}");
            skip("each_engine_asked_for_is_the_one_that_ran", &format!("{engine} cannot be had here"));
            continue;
        }
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(step(&report, "read32")["engine"], engine);
        assert_eq!(find(&report["summary"]["steps"], "name", "read32")["engine"], engine);
    }
}

#[test]
fn the_null_engine_measures_the_instrument_and_asks_no_disk() {
    let report = Place::new().report(&["--only", "read32", "--engine", "null"]);
    let step = step(&report, "read32");
    assert_eq!(step["engine"], "null");
    assert!(int(&find(&step["streams"], "class", "read")["lat"]["count"]) > 1_000);
}

#[test]
fn a_threshold_of_ones_own_decides_the_exit_code_only_with_fail_on() {
    let place = Place::new();
    let thresholds = place.beside("mine.toml");
    // No disk reads in no time at all.
    let text = "[[class]]\nname = \"mine\"\ntitle = \"mine\"\n[[class.criterion]]\nstep = \"qd1\"\nop = \"read\"\n\
                metric = \"lat_p50_ns\"\npass = 0.0\nfail = 0.0\nsource = \"nowhere\"\n";
    fs::write(&thresholds, text).unwrap();
    let args = ["--only", "qd1", "--thresholds", thresholds.to_str().unwrap()];
    place.brief(&args).assert().code(0).stdout(predicate::str::contains("mine"));
    place.brief(&[&args[..], &["--fail-on", "not-resolved"]].concat()).assert().code(3);
}

#[test]
fn every_format_of_one_run_tells_the_same() {
    let place = Place::new();
    let report = place.report(&["--only", "qd1,commit1"]);
    let id = report["record"]["id"].as_str().unwrap();
    let shown = |format: &str| {
        let output =
            place.qd1(&["history", "show", id, "--format", format]).assert().success().get_output().stdout.clone();
        String::from_utf8(output).unwrap()
    };
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
fn through_a_pipe_no_line_is_over_80_columns_and_none_has_colour() {
    let place = Place::new();
    let ran = place.brief(&["--no-save"]).assert().success();
    let text = String::from_utf8(ran.get_output().stdout.clone()).unwrap();
    assert!(!text.contains('\x1b'), "{text}");
    // The command to run it again is never wrapped: a broken line could not be pasted.
    let long: Vec<&str> =
        text.lines().filter(|line| line.chars().count() > 80 && !line.starts_with("  qd1 check ")).collect();
    assert_eq!(long, Vec::<&str>::new());
    assert!(!String::from_utf8_lossy(&ran.get_output().stderr).contains('\x1b'));
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
fn a_given_file_is_only_read() {
    let place = Place::new();
    let file = place.beside("given.bin");
    let content: Vec<u8> = (0..32u32 << 20).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(&file, &content).unwrap();
    let args = ["check", file.to_str().unwrap(), "--runtime", "100ms", "--json"];
    let report = common::json(place.qd1(&args));
    assert!(fs::read(&file).unwrap() == content, "the file was changed");
    let ran: Vec<&Value> = list(&report["record"]["steps"]).iter().map(|step| &step["name"]).collect();
    assert_eq!(ran, ["qd1", "read32", "seqread"]);
    assert!(
        find(&report["record"]["plan"]["skipped"], "name", "commit1")["why"].as_str().unwrap().contains("only read")
    );
}
