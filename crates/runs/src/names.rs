//! What runs are called when charts and pages show several: by the tag, the file, the host or the place that tells them
//! apart, and never by an id, which means nothing to people.

use jiff::tz::TimeZone;
use qd1_model::{Record, printable};

use crate::exports::Exported;
use crate::find;

/// How a date and time is shown.
const MOMENT: &str = "%Y-%m-%d %H:%M";
/// A name of at least this many hexadecimal digits, and nothing else, is an id.
const ID_MIN: usize = 6;

/// Returns a name for each run, given the word that named it; for redacted runs, their numbers.
pub fn of(runs: &[(&str, &Exported)], is_redacted: bool, zone: &TimeZone) -> Vec<String> {
    if is_redacted {
        return (1..=runs.len()).map(|number| format!("run {number}")).collect();
    }
    let named: Vec<Option<String>> = runs.iter().map(|(word, run)| of_person(word, run)).collect();
    let hosts: Vec<&str> = runs.iter().map(|(_, run)| run.record.environment.hostname.as_str()).collect();
    let is_one_host = hosts.len() > 1 && hosts.iter().all(|host| *host == hosts[0]);
    let mut names: Vec<String> = runs
        .iter()
        .zip(named)
        .map(|((_, run), named)| named.unwrap_or_else(|| of_machine(&run.record, is_one_host)))
        .collect();
    let records = || runs.iter().map(|(_, run)| &run.record);
    // What is the same in all of them tells nothing apart.
    tell_apart(&mut names, &records().map(|record| record.environment.hostname.clone()).collect::<Vec<_>>());
    tell_apart(&mut names, &records().map(path).collect::<Vec<_>>());
    tell_apart(&mut names, &records().map(|record| record.plan.suite.clone()).collect::<Vec<_>>());
    tell_apart(&mut names, &records().map(|record| moment(record, zone)).collect::<Vec<_>>());
    tell_apart(&mut names, &(1..=runs.len()).map(|number| format!("({number})")).collect::<Vec<_>>());
    names.iter().map(|name| printable(name).into_owned()).collect()
}

/// The name that somebody gave it: a tag, or that of its file.
fn of_person(word: &str, run: &Exported) -> Option<String> {
    if let Some(tag) = word.strip_prefix('@').filter(|tag| run.tags.iter().any(|other| other == tag)) {
        return Some(tag.to_owned());
    }
    if let Some(tag) = run.tags.first() {
        return Some(tag.clone());
    }
    let file = find::is_file(word).then(|| find::names(&[word.to_owned()]).remove(0))?;
    let stem = file.split('.').next().unwrap_or_default();
    let is_id = stem.len() >= ID_MIN && stem.bytes().all(|digit| digit.is_ascii_hexdigit());
    (!stem.is_empty() && !is_id).then(|| stem.to_owned())
}

fn of_machine(record: &Record, is_one_host: bool) -> String {
    let host = &record.environment.hostname;
    if host.is_empty() || is_one_host { path(record) } else { host.clone() }
}

fn path(record: &Record) -> String {
    record.plan.target.path.to_string_lossy().into_owned()
}

fn moment(record: &Record, zone: &TimeZone) -> String {
    let at = jiff::Timestamp::from_nanosecond(record.started_unix_ns.into());
    at.map_or_else(|_| String::new(), |at| at.to_zoned(zone.clone()).strftime(MOMENT).to_string())
}

/// Adds to each name that several runs share what differs between them.
fn tell_apart(names: &mut [String], by: &[String]) {
    let before = names.to_vec();
    for (at, name) in names.iter_mut().enumerate() {
        let same = || before.iter().enumerate().filter(|(_, other)| **other == before[at]).map(|(place, _)| &by[place]);
        let differs = same().any(|other| *other != by[at]);
        if differs && !by[at].is_empty() {
            *name = format!("{name} {}", by[at]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(host: &str, path: &str, second: u64, tags: &[&str]) -> Exported {
        let mut record = qd1_report::samples::slow_vps().record;
        record.environment.hostname = host.to_owned();
        record.plan.target.path = path.into();
        record.started_unix_ns = second * 1_000_000_000;
        Exported { tags: tags.iter().map(|tag| (*tag).to_owned()).collect(), ..Exported::alone(record) }
    }

    fn names(runs: &[(&str, Exported)]) -> Vec<String> {
        of(&runs.iter().map(|(word, run)| (*word, run)).collect::<Vec<_>>(), false, &TimeZone::UTC)
    }

    #[test]
    fn a_run_is_called_by_its_tag_else_its_host_else_its_place() {
        let runs = [
            ("@old", run("a", "/srv", 0, &["slow", "old"])),
            ("4f2a9c01", run("b", "/srv", 0, &["tagged"])),
            ("77aa0123", run("c", "/srv", 0, &[])),
            ("88bb0123", run("", "/data", 0, &[])),
        ];
        assert_eq!(names(&runs), ["old", "tagged", "c", "/data"]);
    }

    #[test]
    fn runs_of_one_host_are_called_by_their_places_and_those_of_one_place_by_their_times() {
        let runs = [("a1", run("a", "/srv", 0, &[])), ("a2", run("a", "/data", 0, &[]))];
        assert_eq!(names(&runs), ["/srv", "/data"]);
        let runs = [("a1", run("a", "/srv", 0, &[])), ("a2", run("a", "/srv", 3600, &[]))];
        assert_eq!(names(&runs), ["/srv 1970-01-01 00:00", "/srv 1970-01-01 01:00"]);
        let runs = [("a1", run("a", "/srv", 0, &[])), ("a2", run("a", "/srv", 0, &[]))];
        assert_eq!(names(&runs), ["/srv (1)", "/srv (2)"]);
        let runs = [("@vps", run("a", "/srv", 0, &["vps"])), ("@vps", run("b", "/srv", 0, &["vps"]))];
        assert_eq!(names(&runs), ["vps a", "vps b"]);
    }

    #[test]
    fn a_file_is_a_name_unless_it_is_an_id() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, "{}").unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (named, id) = (file("before.json"), file("4f2a9c01d3e7.json"));
        let runs = [(named.as_str(), run("a", "/srv", 0, &[])), (id.as_str(), run("b", "/srv", 0, &[]))];
        assert_eq!(names(&runs), ["before", "b"]);
    }

    #[test]
    fn redacted_runs_are_numbered() {
        let runs = [run("a", "/srv", 0, &["secret"]), run("b", "/srv", 0, &[])];
        let shared = of(&[("@secret", &runs[0]), ("b.json", &runs[1])], true, &TimeZone::UTC);
        assert_eq!(shared, ["run 1", "run 2"]);
    }
}
