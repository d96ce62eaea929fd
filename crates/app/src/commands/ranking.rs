//! `qd1 report --ranking`: the disks of a folder of results, as one page.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use qd1_analysis::compare::{Group, by_host, grade, measured, prices as own_prices, rank, spoilers};
use qd1_model::measured::Measured;
use qd1_model::ranking::{RankedDisk, Ranking};
use qd1_model::suggest::nearest;
use qd1_model::{Problem, Record, Subject, Verdict, printable};
use qd1_report::{Prices, ranking_html};
use qd1_system::source::{self, Kind};

use crate::bounds::Bounds;
use crate::message;

/// Most runs and disks.
const RUNS_MAX: usize = 2000;
const DISKS_MAX: usize = 500;
/// Most places that a message names.
const SITES_SHOWN: usize = 3;
/// A file of prices.
const PRICES: Kind = Kind { name: "a price file", most: 1 << 20 };
/// A page, of which only the beginning is read.
const PAGE: Kind = Kind { name: "a page", most: u64::MAX };
/// File extensions that are not part of a disk's name.
const ENDS: [&str; 7] = [".gz", ".zst", ".json", ".ndjson", ".jsonl", ".txt", ".csv"];

/// Returns the page of a folder: each file in it is a disk, each folder in it a disk with several runs. What is not a
/// result is left out, and reported on stderr and on the page.
///
/// # Errors
/// When the folder or the prices cannot be read, or no two disks have a figure in common.
pub(super) fn page(dir: &Path, prices: Option<&Path>) -> Result<String> {
    let text = prices.map(|path| source::read_text(path, PRICES)).transpose()?;
    let Folder { groups, verdicts, mut left_out } = disks(dir, prices)?;
    let disks = by_host(groups);
    let mut ranking = if disks.len() < 2 { None } else { Some(rank(&disks)?) };
    if let Some(ranking) = &mut ranking {
        let of = |disk: &RankedDisk| verdicts.get(&disk.name).cloned().unwrap_or_default();
        let verdicts: Vec<Vec<Vec<Verdict>>> = ranking.disks.iter().map(of).collect();
        grade(ranking, &verdicts);
    }
    if let Some(ranking) = &ranking {
        let unranked = ranking.disks.iter().enumerate().filter(|(at, _)| !ranking.has(*at));
        left_out.extend(unranked.map(|(_, disk)| format!("{}: has no figure in common with another disk", disk.name)));
    }
    for line in &left_out {
        message::print(format_args!("qd1: left out: {line}"));
    }
    let Some(ranking) = ranking else {
        let found = if disks.is_empty() { "no result" } else { "only one disk" };
        let message = format!(
            "{}: has {found}; put a file for each disk into it, from `qd1 history export --redact` or --json",
            shown(dir)
        );
        return Err(Problem::usage(message).into());
    };
    let file = prices.map(shown).unwrap_or_default();
    let prices = match text {
        Some(text) => Some(parse_prices(&file, &text, &ranking)?),
        // Without a price file, the prices in the results count; the two are not mixed, as currencies may differ.
        None => own_prices(&disks).map(|(header, of)| Prices { header, of }),
    };
    Ok(ranking_html(&ranking, prices.as_ref(), &left_out))
}

/// Refuses to write the page over a result.
///
/// # Errors
/// When the file exists in the folder.
pub(super) fn check_output(dir: &Path, output: &Path) -> Result<(), Problem> {
    let both = dir.canonicalize().ok().zip(output.canonicalize().ok());
    if both.is_some_and(|(dir, output)| output.starts_with(dir)) && !is_page(output) {
        let message = format!("-o {}: is in the folder that is ranked; name another file", shown(output));
        return Err(Problem::usage(message));
    }
    Ok(())
}

/// Whether the file is a page, for example an earlier ranking.
fn is_page(path: &Path) -> bool {
    let mut begin = [0; 15];
    let read = source::open(path, PAGE).is_ok_and(|mut file| file.read_exact(&mut begin).is_ok());
    read && begin == *b"<!DOCTYPE html>"
}

fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

fn cannot(path: &Path, error: &std::io::Error) -> Problem {
    Problem::usage(format!("{}: cannot be read: {error}", shown(path)))
}

/// Returns the visible entries of a folder, sorted by name.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, Problem> {
    let all = std::fs::read_dir(dir).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let mut paths: Vec<PathBuf> =
        all.map_err(|error| cannot(dir, &error))?.iter().map(std::fs::DirEntry::path).collect();
    paths.retain(|path| !path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")));
    paths.sort();
    Ok(paths)
}

/// The contents of a folder.
#[derive(Default)]
struct Folder {
    groups: Vec<Group>,
    /// By the name of a disk, the verdicts of each of its runs.
    verdicts: BTreeMap<String, Vec<Vec<Verdict>>>,
    left_out: Vec<String>,
}

/// What the ranking needs from a record in addition to what is compared.
struct Look {
    site: Site,
    verdicts: Vec<Verdict>,
}

/// Where a run was.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Site {
    host: String,
    path: String,
    /// Whether its names were removed, so that only properties shared by many machines tell it from others.
    is_redacted: bool,
}

impl Site {
    fn of(record: &Record) -> Self {
        let env = &record.environment;
        if !env.hostname.starts_with('<') {
            let path = record.plan.target.path.to_string_lossy().into_owned();
            return Self { host: env.hostname.clone(), path, is_redacted: false };
        }
        let device =
            env.devices.first().map_or_else(String::new, |device| format!(" on {} of {}", device.name, device.size));
        let host = format!("a machine with {} x {}, {}", env.cpus, env.cpu_model, env.memory);
        Self { host, path: format!("{}{device}", env.filesystem.kind), is_redacted: true }
    }

    /// `/srv on db-1`.
    fn words(&self) -> String {
        let words = if self.host.is_empty() { self.path.clone() } else { format!("{} on {}", self.path, self.host) };
        printable(&words).into_owned()
    }

    /// How to export the runs of this place alone.
    fn export(&self) -> String {
        let quoted = |text: &str| format!("'{}'", printable(text).replace('\'', r"'\''"));
        let host = if self.host.is_empty() { String::new() } else { format!(" --host {}", quoted(&self.host)) };
        let conditions = if self.is_redacted {
            " --path PATH --redact".to_owned()
        } else {
            format!("{host} --path {}", quoted(&self.path))
        };
        format!("qd1 history export{conditions} -o disk-a.ndjson")
    }
}

/// Returns what is compared of a run, and what else the ranking needs.
fn look(record: Record) -> Result<(Measured, Look)> {
    let site = Site::of(&record);
    if record.plan.subject != Subject::Check {
        return Ok((qd1_runs::find::of_record(&record), Look { site, verdicts: Vec::new() }));
    }
    let report = Bounds::of_run(Subject::Check, None)?.judge(record, false)?;
    let spoilers = spoilers(&report.record, &report.summary);
    Ok((measured(&report.record, &report.summary, &spoilers), Look { site, verdicts: report.verdicts }))
}

/// Refuses runs of several places or machines in the file or folder of one disk.
fn of_one_site(place: &str, sites: &[Site]) -> Result<(), Problem> {
    let mut found: Vec<&Site> = Vec::new();
    for site in sites {
        if !found.contains(&site) {
            found.push(site);
        }
    }
    let [first, _, ..] = found.as_slice() else { return Ok(()) };
    let mut names: Vec<String> = found.iter().map(|site| site.words()).take(SITES_SHOWN).collect();
    if found.len() > SITES_SHOWN {
        names.push(format!("{} more", found.len() - SITES_SHOWN));
    }
    Err(Problem::usage(format!(
        "{place}: has runs of {} places ({}), but a file or folder stands for one disk; export each place to a \
         separate file: {}",
        found.len(),
        names.join(", "),
        first.export()
    )))
}

/// Returns the disks of a folder, and what was left out.
fn disks(dir: &Path, prices: Option<&Path>) -> Result<Folder, Problem> {
    let Folder { mut groups, mut verdicts, mut left_out } = Folder::default();
    let is_of_prices = |path: &PathBuf| {
        prices
            .is_some_and(|prices| path.canonicalize().ok().zip(prices.canonicalize().ok()).is_some_and(|(a, b)| a == b))
    };
    let entries: Vec<PathBuf> = entries(dir)?.into_iter().filter(|path| !is_of_prices(path)).collect();
    for (path, name) in entries.iter().zip(names(&entries)) {
        let is_folder = path.is_dir() && !path.is_symlink();
        let files = if is_folder { self::entries(path)? } else { vec![path.clone()] };
        if files.is_empty() {
            left_out.push(format!("{name}: is an empty folder"));
        }
        let mut runs: Vec<Measured> = Vec::new();
        let (mut sites, mut judged): (Vec<Site>, Vec<Vec<Verdict>>) = (Vec::new(), Vec::new());
        for file in files {
            let place = shown(file.strip_prefix(dir).unwrap_or(&file));
            // A folder from others may contain links to anything, even to a device whose reads wait for input.
            match regular(&file).and_then(|()| qd1_runs::find::looked_at(&file, RUNS_MAX, look)) {
                Ok(found) => {
                    for (run, look) in found {
                        match same_as(
                            &run,
                            groups.iter().map(|group| (&group.name, &group.runs)).chain([(&name, &runs)]),
                        ) {
                            Some(other) => left_out.push(format!("{place}: has a run that is already in {other}")),
                            None => {
                                runs.push(run);
                                let Some(Look { site, verdicts }) = look else { continue };
                                sites.push(site);
                                judged.push(verdicts);
                            }
                        }
                    }
                }
                Err(error) => left_out.push(reason(&place, &file, &format!("{error:#}"))),
            }
        }
        of_one_site(&shown(path.strip_prefix(dir).unwrap_or(path)), &sites)?;
        if !runs.is_empty() {
            verdicts.insert(name.clone(), judged);
            groups.push(Group { name, runs });
        }
        let count: usize = groups.iter().map(|group| group.runs.len()).sum();
        if groups.len() > DISKS_MAX || count > RUNS_MAX {
            let message =
                format!("{}: has more than {DISKS_MAX} disks or {RUNS_MAX} runs; rank only some of them", shown(dir));
            return Err(Problem::usage(message));
        }
    }
    Ok(Folder { groups, verdicts, left_out })
}

/// Refuses anything but a regular file of the folder itself.
fn regular(path: &Path) -> Result<()> {
    let kind = path.symlink_metadata().map_err(|error| cannot(path, &error))?.file_type();
    let what = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_symlink() => "is a link; put the file itself into the folder",
        _ if kind.is_dir() => "is a folder in a folder",
        _ => "is not a file",
    };
    Err(Problem::usage(what).into())
}

/// The error of a file, with its place instead of its path.
fn reason(place: &str, file: &Path, error: &str) -> String {
    let path = shown(file);
    let said = error.strip_prefix(&path).map_or(error, |rest| rest.trim_start_matches([':', ' ']));
    format!("{place}: {said}")
}

/// The disk that has this run.
fn same_as<'a>(run: &Measured, disks: impl IntoIterator<Item = (&'a String, &'a Vec<Measured>)>) -> Option<&'a str> {
    let is_same = |other: &Measured| other.started_unix_ns == run.started_unix_ns && other.steps == run.steps;
    disks.into_iter().find(|(_, runs)| runs.iter().any(is_same)).map(|(name, _)| name.as_str())
}

/// Returns the names of disks: their file names without an extension such as `.json`, unless two would be the same.
fn names(paths: &[PathBuf]) -> Vec<String> {
    let whole = |path: &PathBuf| printable(&path.file_name().unwrap_or(OsStr::new("?")).to_string_lossy()).into_owned();
    let short = |path: &PathBuf| {
        let mut name = whole(path);
        while let Some(shorter) =
            ENDS.iter().find_map(|end| name.strip_suffix(end)).filter(|name| !name.is_empty() && !path.is_dir())
        {
            name = shorter.to_owned();
        }
        name
    };
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    paths.iter().for_each(|path| *count.entry(short(path)).or_default() += 1);
    let mut names: Vec<String> = Vec::new();
    for path in paths {
        let name = Some(short(path)).filter(|name| count[name] == 1).unwrap_or_else(|| whole(path));
        // Names with characters that cannot be shown may look the same.
        let number = (1..).find(|number| !names.contains(&numbered(&name, *number))).unwrap_or(1);
        names.push(numbered(&name, number));
    }
    names
}

fn numbered(name: &str, number: usize) -> String {
    if number == 1 { name.to_owned() } else { format!("{name} ({number})") }
}

/// Reads prices: a line `NAME,PRICE` for each disk. The first line may name the unit: `disk,EUR per month`.
fn parse_prices(file: &str, text: &str, ranking: &Ranking) -> Result<Prices, Problem> {
    let mut prices = Prices { header: "price".to_owned(), of: vec![None; ranking.disks.len()] };
    let place = |name: &str| ranking.disks.iter().position(|disk| disk.name == name);
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim).enumerate();
    let mut is_first = true;
    for (at, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let wrong = |what: &str| {
            Problem::usage(format!("{file}, line {}: {what}; write NAME,PRICE, such as vps-a,4.90", at + 1))
        };
        let (name, price) = line.rsplit_once(',').ok_or_else(|| wrong("has no comma"))?;
        let (name, price) = (name.trim().trim_matches('"'), price.trim().trim_matches('"'));
        let is_header = std::mem::take(&mut is_first) && price.parse::<f64>().is_err() && place(name).is_none();
        if is_header {
            price.clone_into(&mut prices.header);
            continue;
        }
        let amount = price.parse::<f64>().ok().filter(|price| price.is_finite() && *price >= 0.0);
        let amount = amount.ok_or_else(|| wrong(&format!("\"{}\" is not a price", printable(price))))?;
        let Some(disk) = place(name) else {
            let all = ranking.disks.iter().map(|disk| disk.name.as_str());
            let near = nearest(name, all).map_or_else(String::new, |near| format!("; did you mean {near}?"));
            message::print(format_args!("qd1: {file}, line {}: no disk is called {}{near}", at + 1, printable(name)));
            continue;
        };
        if prices.of[disk].replace(amount).is_some() {
            return Err(wrong(&format!("{} has a price already", printable(name))));
        }
    }
    if prices.of.iter().all(Option::is_none) {
        let names: Vec<&str> = ranking.disks.iter().map(|disk| disk.name.as_str()).collect();
        let message = format!("{file}: no price for any disk; the disks are called {}", names.join(", "));
        return Err(Problem::usage(message));
    }
    Ok(prices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt as _;

    fn ranking() -> Ranking {
        let disk = |name: &str| RankedDisk { name: name.to_owned(), ..RankedDisk::default() };
        Ranking { disks: vec![disk("vps-a"), disk("b, large")], ..Ranking::default() }
    }

    #[test]
    fn runs_of_several_places_are_refused_and_the_message_says_how_to_separate_them() {
        let site = |host: &str, path: &str| Site { host: host.to_owned(), path: path.to_owned(), is_redacted: false };
        assert!(of_one_site("a.ndjson", &[site("db-1", "/srv"), site("db-1", "/srv")]).is_ok());
        for other in [site("db-2", "/srv"), site("db-1", "/it's")] {
            let error = of_one_site("a.ndjson", &[site("db-1", "/srv"), other]).unwrap_err().to_string();
            assert!(error.starts_with("a.ndjson: has runs of 2 places (/srv on db-1, "), "{error}");
            assert!(error.ends_with("qd1 history export --host 'db-1' --path '/srv' -o disk-a.ndjson"), "{error}");
        }
    }

    #[test]
    fn runs_without_names_are_told_apart_by_machine_and_device() {
        let record = qd1_report::samples::slow_vps().record;
        let shared = qd1_report::redact(&record).unwrap();
        assert!(of_one_site("a", &[Site::of(&shared), Site::of(&shared)]).is_ok());
        let mut other = shared.clone();
        other.environment.devices[0].name = "vdb1".to_owned();
        let error = of_one_site("a", &[Site::of(&shared), Site::of(&other)]).unwrap_err().to_string();
        assert!(error.contains("ext4 on vda1 of") && error.contains("ext4 on vdb1 of"), "{error}");
        assert!(error.ends_with("qd1 history export --path PATH --redact -o disk-a.ndjson"), "{error}");
    }

    #[test]
    fn prices_belong_to_the_disks_named() {
        let parse_prices = |text: &str, ranking: &Ranking| parse_prices("prices.csv", text, ranking);
        let prices =
            parse_prices("disk,EUR per month\n# tax\n\"b, large\", 12\nvps-a,4.90\nother,3\n", &ranking()).unwrap();
        assert_eq!(prices, Prices { header: "EUR per month".to_owned(), of: vec![Some(4.9), Some(12.0)] });
        for (wrong, what) in [
            ("vps-a,1\nvps-a;4", "line 2: has no comma"),
            ("other,1\nvps-a,x", "\"x\" is not a price"),
            ("a,-1", "not a price"),
            ("vps-a,$5", "not a price"),
            ("vps-a,1\nvps-a,2", "price already"),
            ("x,5", "the disks are called vps-a"),
        ] {
            let error = parse_prices(wrong, &ranking()).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn names_lose_their_extensions_unless_that_makes_two_the_same() {
        let paths: Vec<PathBuf> =
            ["d/a.json", "d/b.ndjson.gz", "d/c.json", "d/c.txt", "d/.json"].map(PathBuf::from).into();
        assert_eq!(names(&paths), ["a", "b", "c.json", "c.txt", ".json"]);
        let unreadable = |byte: u8| PathBuf::from(OsStr::from_bytes(&[b'd', b'/', byte]));
        assert_eq!(names(&[unreadable(0xfe), unreadable(0xff)]), ["\u{fffd}", "\u{fffd} (2)"]);
    }
}
