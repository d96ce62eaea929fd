//! What was run is kept, found again by its id, and never stands in the way of a run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use predicates::prelude::*;
use serde_json::Value;

use crate::common::refusal::as_ordinary_user;
use crate::common::{self, Place, is_root, list, or_skip, thresholds};

const QUICK: [&str; 2] = ["--only", "read32"];

#[test]
fn runs_are_listed_newest_first_and_found_by_part_of_their_id() {
    let place = Place::new();
    let (first, second) = (place.report(&QUICK), place.report(&QUICK));
    let rows = place.runs();
    assert_eq!([&rows[0]["id"], &rows[1]["id"]], [&second["record"]["id"], &first["record"]["id"]]);
    assert_eq!(rows[0]["path"], second["record"]["plan"]["target"]["path"]);
    let id = first["record"]["id"].as_str().unwrap();
    // Two random ids share their first six digits once in 16 million times.
    let shown = common::json(place.qd1(&["history", "show", &id[..6], "--json"]));
    assert_eq!(shown["record"], first["record"], "the record is kept as it was");
    assert_eq!(shown, first, "and judged as it was");
    place.qd1(&["history"]).assert().success().stdout(predicate::str::contains(&id[..8]));
    assert_eq!(list(&common::json(place.qd1(&["history", "--json", "--limit", "1"]))).len(), 1);
}

#[test]
fn an_old_run_is_judged_by_todays_thresholds() {
    let place = Place::new();
    let id = place.report(&QUICK)["record"]["id"].as_str().unwrap().to_owned();
    let mine = place.beside("mine.toml");
    fs::write(&mine, thresholds("read32", "read", "iops", 2.0, 1.0)).unwrap();
    let shown = common::json(place.qd1(&["history", "show", &id, "--json", "--thresholds", mine.to_str().unwrap()]));
    common::find(&shown["verdicts"], "class", "mine");
}

#[test]
fn an_empty_history_is_no_error() {
    let place = Place::new();
    assert_eq!(place.runs(), Vec::<Value>::new());
    place.qd1(&["history"]).assert().success();
}

#[test]
fn an_unknown_id_is_named_and_told_apart_from_a_failed_run() {
    let place = Place::new();
    place.report(&QUICK);
    let said = predicate::str::contains("zzzz").and(predicate::str::contains("qd1 history"));
    place.qd1(&["history", "show", "zzzz"]).assert().code(2).stdout("").stderr(said);
}

#[test]
fn with_no_save_nothing_is_kept() {
    let place = Place::new();
    place.report(&["--only", "read32", "--no-save"]);
    assert!(!place.history().exists());
}

#[test]
fn the_history_is_where_xdg_says_and_only_its_owner_reads_it() {
    let place = Place::new();
    let state = place.beside("xdg");
    place.brief(&QUICK).env_remove("QD1_STORE").env("XDG_STATE_HOME", &state).assert().success();
    let file = state.join("qd1/history.db");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    place.brief(&QUICK).env_remove("QD1_STORE").assert().success();
    assert!(place.beside(".local/state/qd1/history.db").exists());
}

#[test]
fn a_history_that_cannot_be_written_does_not_stop_a_run() {
    let place = Place::new();
    let file = place.beside("file");
    fs::write(&file, "not a directory").unwrap();
    for store in [file.join("history.db"), "/proc/history.db".into()] {
        let ran = place.brief(&["--only", "read32", "--json"]).env("QD1_STORE", &store).assert().success();
        let said = String::from_utf8(ran.get_output().stderr.clone()).unwrap();
        assert_eq!(said.matches("will not be kept").count(), 1, "{said}");
        assert!(said.contains(store.to_str().unwrap()) && said.contains("--no-save"), "{said}");
        assert!(serde_json::from_slice::<Value>(&ran.get_output().stdout).is_ok());
    }
}

#[test]
fn a_damaged_history_is_named_and_not_overwritten() {
    let place = Place::new();
    let rubbish = b"this was a database once, before the disk it lay on was measured by someone else\n".repeat(100);
    fs::write(place.history(), &rubbish).unwrap();
    let said = || predicate::str::contains("history.db").and(predicate::str::contains("move it away"));
    place.qd1(&["history"]).assert().failure().stdout("").stderr(said());
    place.brief(&QUICK).assert().success().stderr(said());
    assert!(fs::read(place.history()).unwrap() == rubbish);
}

#[test]
fn a_history_with_damaged_pages_is_named_as_damaged() {
    let place = Place::new();
    place.report(&QUICK);
    let mut bytes = fs::read(place.history()).unwrap();
    bytes[4096..].fill(0xA5);
    fs::write(place.history(), bytes).unwrap();
    let said = predicate::str::contains("history.db").and(predicate::str::contains("damaged"));
    place.qd1(&["history"]).assert().failure().stderr(said);
}

#[test]
fn two_runs_at_once_are_both_kept() {
    let place = Place::new();
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..2).map(|_| scope.spawn(|| place.report(&["--only", "read32,files"]))).collect();
        runs.into_iter().for_each(|run| drop(run.join().unwrap()));
    });
    assert_eq!(place.runs().len(), 2);
    place.assert_empty();
}

/// Cause: a history of another user, or on a medium that cannot be written, was not shown, and `--no-save` was advised.
#[test]
fn a_history_that_cannot_be_written_is_listed_and_shown() {
    let place = Place::open_to_all();
    let id = place.report(&QUICK)["record"]["id"].as_str().unwrap().to_owned();
    let state = place.history().parent().unwrap().to_owned();
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    set(&place.history(), 0o444);
    set(&state, 0o555);
    let before = fs::read(place.history()).unwrap();
    let rows = or_skip!(as_ordinary_user(&place, &["history", "--json"]));
    assert!(rows.status.success(), "{}", common::said(&rows.stderr));
    assert!(common::said(&rows.stdout).contains(&id));
    let shown = or_skip!(as_ordinary_user(&place, &["history", "show", &id]));
    assert!(shown.status.success(), "{}", common::said(&shown.stderr));
    set(&place.history(), 0);
    if is_root() {
        let refused = or_skip!(as_ordinary_user(&place, &["history"]));
        let said = common::said(&refused.stderr);
        assert_eq!(refused.status.code(), Some(5), "{said}");
        assert!(said.contains("QD1_STORE") && !said.contains("--no-save"), "{said}");
    }
    set(&place.history(), 0o400);
    set(&state, 0o777);
    assert!(
        fs::read(place.history()).unwrap() == before && common::names(&state) == ["history.db", "history.db-spare"]
    );
}

/// Cause: `QD1_STORE` of another program's database got our table.
#[test]
fn another_programs_database_is_not_used() {
    let place = Place::new();
    let db = rusqlite::Connection::open(place.history()).unwrap();
    db.execute_batch("CREATE TABLE urls (url TEXT)").unwrap();
    drop(db);
    let before = fs::read(place.history()).unwrap();
    let said = || predicate::str::contains("another program");
    place.qd1(&["history"]).assert().code(2).stderr(said());
    place.brief(&QUICK).assert().success().stderr(said());
    assert!(fs::read(place.history()).unwrap() == before);
}

#[test]
fn tags_and_notes_name_runs_and_keep_them() {
    let place = Place::new();
    let ids: Vec<String> = (0..3).map(|_| place.report(&QUICK)["record"]["id"].as_str().unwrap().to_owned()).collect();
    place.qd1(&["history", "tag", &ids[0][..8], "before", "nightly"]).assert().success().stdout("");
    place.qd1(&["history", "note", &ids[0], "with the old controller"]).assert().success();
    place
        .qd1(&["history"])
        .assert()
        .success()
        .stdout(predicate::str::contains("@before @nightly; with the old controller"));
    let tagged = common::json(place.qd1(&["history", "--tag", "before", "--json"]));
    assert_eq!((list(&tagged).len(), &tagged[0]["id"]), (1, &Value::from(ids[0].clone())));
    // A tag is a run's name.
    assert_eq!(common::json(place.qd1(&["history", "show", "@before", "--json"]))["record"]["id"], ids[0].as_str());
    place.qd1(&["history", "tag", "@before", "old"]).assert().success();
    place.qd1(&["history", "tag", "@latest", "old"]).assert().success();
    let several = predicate::str::contains("@old names 2 runs");
    place.qd1(&["history", "note", "@old", "x"]).assert().code(2).stderr(several);
    place.qd1(&["history", "tag", "@old", "old", "--remove"]).assert().success();
    let compared = common::json(place.qd1(&["compare", "@before", "@latest", "--json"]));
    assert_eq!(list(&compared["sides"]).len(), 2);
    for (args, what) in [
        (&["history", "tag", &ids[0], "-x"][..], "unexpected argument"),
        (&["history", "tag", &ids[0], "a b"], "a tag is a word"),
        (&["history", "tag", "zzzz", "a"], "zzzz"),
        (&["compare", "@nosuch", "@latest"], "there is no run @nosuch"),
        (&["history", "--since", "soon"], "is not a time"),
    ] {
        place.qd1(args).assert().code(2).stderr(predicate::str::contains(what));
    }
    // What was said of a run keeps it.
    let prune = |args: &[&str]| {
        common::said(&place.qd1(&[&["history", "prune", "--keep", "1"], args].concat()).output().unwrap().stdout)
    };
    // And so does a check over hours that may be resumed.
    let db = rusqlite::Connection::open(place.history()).unwrap();
    db.execute("UPDATE run SET unfinished = 1 WHERE id = ?", [&ids[1]]).unwrap();
    assert_eq!(
        prune(&["--dry-run"]),
        "0 runs would be removed; kept 2 of the older runs: with tags or notes, or resumable\n"
    );
    db.execute("UPDATE run SET unfinished = 0 WHERE id = ?", [&ids[1]]).unwrap();
    drop(db);
    assert_eq!(
        prune(&["--dry-run"]),
        "1 run would be removed; kept 1 of the older runs: with tags or notes, or resumable\n"
    );
    assert_eq!(place.runs().len(), 3);
    assert_eq!(prune(&[]), "1 run removed; kept 1 of the older runs: with tags or notes, or resumable\n");
    let left: Vec<Value> = place.runs().into_iter().map(|row| row["id"].clone()).collect();
    assert_eq!(left, [ids[2].as_str(), ids[0].as_str()]);
    place.qd1(&["history", "tag", &ids[0], "before", "nightly", "--remove"]).assert().success();
    place.qd1(&["history", "note", &ids[0], ""]).assert().success();
    assert!(place.runs()[1].get("tags").is_none() && place.runs()[1].get("note").is_none());
}

#[test]
fn runs_go_to_another_history_with_what_was_said_of_them() {
    let (here, there) = (Place::new(), Place::new());
    let first = here.report(&QUICK);
    here.report(&QUICK);
    let id = first["record"]["id"].as_str().unwrap();
    here.qd1(&["history", "tag", id, "before"]).assert().success();
    here.qd1(&["history", "note", id, "a note"]).assert().success();
    for name in ["all.ndjson", "all.ndjson.gz"] {
        let file = here.beside(name);
        let file = file.to_str().unwrap();
        here.qd1(&["history", "export", "-o", file]).assert().success().stderr(predicate::str::contains("2 runs"));
        let added = if name.ends_with("gz") { "0 runs added; 2 runs already there" } else { "2 runs added" };
        there.qd1(&["history", "import", file]).assert().success().stdout(predicate::str::contains(added));
    }
    assert_eq!(common::json(there.qd1(&["history", "show", id, "--json"])), first, "the record is the same");
    let rows = there.runs();
    assert_eq!((&rows[1]["tags"], &rows[1]["note"]), (&serde_json::json!(["before"]), &Value::from("a note")));
    // One run alone, with its names left out.
    let shared = here.beside("shared.ndjson");
    here.qd1(&["history", "export", &id[..8], "--redact", "-o", shared.to_str().unwrap()]).assert().success();
    let text = fs::read_to_string(&shared).unwrap();
    assert_eq!(text.lines().count(), 1);
    assert!(!text.contains(here.dir_str()) && !text.contains("a note") && !text.contains("before"), "{text}");
    // Histograms that are merged are those of all runs together: what is exported is whole.
    let shown: Value = serde_json::from_str(text.trim()).unwrap();
    assert_eq!(shown["record"]["steps"][0]["streams"], first["record"]["steps"][0]["streams"]);

    let wrong = here.beside("wrong.ndjson");
    for (content, what) in [("", "is empty"), ("{}\n", "line 1"), ("\u{1}", "line 1"), ("{\"record\": {}}", "line 1")] {
        fs::write(&wrong, content).unwrap();
        let refused = there.qd1(&["history", "import", wrong.to_str().unwrap()]).assert().code(2).stdout("");
        refused.stderr(predicate::str::contains(what));
    }
    there.qd1(&["history", "import", "/nonexistent"]).assert().code(2).stderr(predicate::str::contains("/nonexistent"));
    assert_eq!(there.runs().len(), 2);
}

#[test]
fn of_a_damaged_history_the_runs_that_can_be_read_are_exported() {
    let place = Place::new();
    let ids: Vec<String> = (0..2).map(|_| place.report(&QUICK)["record"]["id"].as_str().unwrap().to_owned()).collect();
    let db = rusqlite::Connection::open(place.history()).unwrap();
    db.execute("UPDATE run SET record = x'0102' WHERE id = ?", [&ids[0]]).unwrap();
    drop(db);
    let file = place.beside("left.ndjson");
    let lost = predicate::str::contains(&ids[0]).and(predicate::str::contains("1 run could not be read"));
    place.qd1(&["history", "export", "-o", file.to_str().unwrap()]).assert().code(1).stderr(lost);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.lines().count() == 1 && text.contains(&ids[1]));
}

/// Cause: of `cat a.gz b.gz` only the first part was read.
#[test]
fn exports_that_were_joined_are_read_whole() {
    let place = Place::new();
    let ids = [(); 2].map(|()| place.report(&QUICK)["record"]["id"].as_str().unwrap().to_owned());
    for end in ["gz", "zst"] {
        let mut joined = Vec::new();
        for id in &ids {
            let file = place.beside(&format!("{id}.ndjson.{end}"));
            place.qd1(&["history", "export", id, "-o", file.to_str().unwrap()]).assert().success();
            joined.extend(fs::read(file).unwrap());
        }
        let file = place.beside(&format!("joined.ndjson.{end}"));
        fs::write(&file, joined).unwrap();
        let there = Place::new();
        let import = there.qd1(&["history", "import", file.to_str().unwrap()]).assert().success();
        import.stdout(predicate::str::contains("2 runs added"));
        // Cut within the second part: two parts of one length would be a whole one by half.
        let cut = fs::read(&file).unwrap();
        fs::write(&file, &cut[..cut.len() * 3 / 4]).unwrap();
        there.qd1(&["history", "import", file.to_str().unwrap()]).assert().failure();
    }
}

/// What zstd itself writes is read, and it reads what is written here.
#[test]
fn zstd_reads_exports_and_is_read() {
    let found = Command::new("zstd").arg("--version").output();
    or_skip!(found.map_err(|error| format!("zstd: {error} (Debian: package zstd)")));
    let place = Place::new();
    place.report(&QUICK);
    let (ours, plain) = (place.beside("a.ndjson.zst"), place.beside("a.ndjson"));
    for file in [&ours, &plain] {
        place.qd1(&["history", "export", "-o", file.to_str().unwrap()]).assert().success();
    }
    let unpacked = Command::new("zstd").arg("-dc").arg(&ours).output().unwrap();
    assert!(unpacked.status.success() && unpacked.stdout == fs::read(&plain).unwrap());
    let theirs = place.beside("theirs.ndjson.zst");
    let packed = Command::new("zstd").args(["-q", "-19"]).arg(&plain).arg("-o").arg(&theirs).status().unwrap();
    assert!(packed.success());
    let import = Place::new().qd1(&["history", "import", theirs.to_str().unwrap()]).assert().success();
    import.stdout(predicate::str::contains("1 run added"));
}

/// Cause: the index of ids was lost, which the list does not need, and no run was exported.
#[test]
fn runs_that_no_index_leads_to_are_exported() {
    let place = Place::new();
    (0..2).for_each(|_| drop(place.report(&QUICK)));
    let db = rusqlite::Connection::open(place.history()).unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_run_1'";
    let page: usize = db.query_row(sql, [], |row| row.get(0)).unwrap();
    db.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(())).unwrap();
    drop(db);
    let mut bytes = fs::read(place.history()).unwrap();
    bytes[(page - 1) * 4096..page * 4096].fill(0xA5);
    fs::write(place.history(), &bytes).unwrap();
    let file = place.beside("left.ndjson");
    let found = predicate::str::contains("exported 2 runs");
    place.qd1(&["history", "export", "-o", file.to_str().unwrap()]).assert().success().stderr(found);
}

#[test]
fn of_a_history_whose_list_is_lost_the_runs_are_exported_all_the_same() {
    let place = Place::new();
    (0..2).for_each(|_| drop(place.report(&QUICK)));
    let db = rusqlite::Connection::open(place.history()).unwrap();
    let page: usize =
        db.query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'run_list'", [], |row| row.get(0)).unwrap();
    db.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(())).unwrap();
    drop(db);
    let mut bytes = fs::read(place.history()).unwrap();
    bytes[(page - 1) * 4096..page * 4096].fill(0xA5);
    fs::write(place.history(), &bytes).unwrap();
    let said = predicate::str::contains("history export -o FILE").and(predicate::str::contains("damaged"));
    place.qd1(&["history"]).assert().failure().stderr(said);
    let file = place.beside("left.ndjson");
    let found = predicate::str::contains("2 runs more found").and(predicate::str::contains("exported 2 runs"));
    place.qd1(&["history", "export", "-o", file.to_str().unwrap()]).assert().success().stderr(found);
    let other = Place::new();
    other.qd1(&["history", "import", file.to_str().unwrap()]).assert().success();
    assert_eq!(other.runs().len(), 2);
    assert!(fs::read(place.history()).unwrap() == bytes, "the damaged one stays as it is");
}

#[test]
fn the_trend_of_a_figure_shows_its_runs_and_when_the_level_changed() {
    let place = Place::new();
    place.report(&QUICK);
    place.note_figure("read32", "read", "iops", 50e3);
    let shown = place.qd1(&["history", "--trend", "read32.iops"]).assert().success();
    shown.stdout(
        predicate::str::contains("read32 per second of reads in 1 run")
            .and(predicate::str::contains("At least 20 runs")),
    );
    // Thirty runs of before, half as fast: their figures are noted, and nothing of them is unpacked.
    let db = rusqlite::Connection::open(place.history()).unwrap();
    let (id, iops): (String, f64) = db
        .query_row("SELECT run, value FROM figure WHERE step = 'read32' AND metric = 'iops'", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    db.execute_batch(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 45)
         INSERT INTO run (id, started_unix_ns, elapsed_ns, suite, path, device, filesystem, version, interrupted, record, host,
                          kernel, size, has_figures)
         SELECT printf('%012x', i), i * 1000000000, 1, suite, path, device, filesystem, version, 0, x'00', host,
                CASE WHEN i <= 30 THEN '5.1' ELSE kernel END, size, 1 FROM n, run;",
    )
    .unwrap();
    for at in 1..=45 {
        let factor = if at <= 30 { 0.5 } else { 1.0 } * (1.0 + 0.02 * f64::from(at % 5));
        let run = format!("{at:012x}");
        db.execute(
            "INSERT INTO figure (run, step, op, metric, value) VALUES (?, 'read32', 'read', 'iops', ?)",
            (run, iops * factor),
        )
        .unwrap();
    }
    drop(db);
    let trend = common::json(place.qd1(&["history", "--trend", "read32.iops", "--json"]));
    assert_eq!((list(&trend["points"]).len(), list(&trend["changes"]).len()), (46, 1), "{trend}");
    assert_eq!(trend["changes"][0]["at"], 30);
    assert!((common::float(&trend["changes"][0]["ratio"]) - 2.0).abs() < 0.2, "{trend}");
    assert!(list(&trend["points"][30]["news"])[0].as_str().unwrap().starts_with("kernel 5.1 -> "), "{trend}");
    assert_eq!(trend["points"][45]["run"], id.as_str());
    for (args, what) in [
        (&["history", "--trend", "read32.iopz"][..], "does not name a metric"),
        (&["history", "--trend", "nosuch.p99"], "no run has nosuch.p99"),
        (&["history", "--trend", "read32"], "commit1.p99"),
    ] {
        place.qd1(args).assert().code(2).stderr(predicate::str::contains(what));
    }
}
