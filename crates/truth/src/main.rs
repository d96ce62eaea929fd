//! Prints the tables: `cargo xtask truth`. `--only NAME` for one of them; `--tuning` draws from the seeds that
//! thresholds were set with; a number sets how many disks of each kind; `--disk=0xSEED` shows what `limits` measured on
//! one of them; `--traces FILE` holds the claims of long checks against drives of others, and `--agree FILE...`
//! compares reports of one disk.
#![forbid(unsafe_code)]

use qd1_truth::{
    Seeds, agree, caches, changes, compare, fingerprints, identify, limits, long_check, program_verdicts, published,
    repeat, stalls, traces, verdicts,
};

/// A table, from its seeds, how many disks, and whether each that went wrong gets a line.
type Table = fn(Seeds, u64, bool) -> String;

/// All of them, in the order they are printed.
const TABLES: &[(&str, Table)] = &[
    ("limits", limits::table),
    ("fingerprints", fingerprints::table),
    // Half as many with each of the five, and without: 100 where of limits there are 200.
    ("caches", |seeds, count, verbose| caches::table(seeds, count.div_ceil(2), verbose)),
    ("change", changes::table),
    // Half as many again: 300.
    ("identify", |seeds, count, verbose| identify::table(seeds, count * 3 / 2, verbose)),
    // Five times as many: 1,000.
    ("repeat", |seeds, count, verbose| repeat::table(seeds, count * 5, verbose)),
    // A tenth as many: 20.
    ("verdicts", |seeds, count, verbose| verdicts::table(seeds, count.div_ceil(10), verbose)),
    ("stalls", |seeds, count, _| stalls::table(seeds, count)),
    ("over", |seeds, count, _| long_check::table(seeds, count)),
    ("compare", compare::table),
    // What these hold against the analysis is kept.
    ("published", |_, _, _| published::table()),
    ("program-verdicts", |seeds, _, _| program_verdicts::table(seeds)),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let seeds = if words.iter().any(|word| word == "--tuning") { Seeds::Tuning } else { Seeds::Table };
    let count = words.iter().find_map(|word| word.parse().ok()).unwrap_or(200);
    let only = words.iter().skip_while(|word| *word != "--only").nth(1);
    let is_verbose = words.iter().any(|word| word == "--verbose");
    if let Some(seed) = words.iter().find_map(|word| u64::from_str_radix(word.strip_prefix("--disk=0x")?, 16).ok()) {
        print!("{}", limits::probes(seed));
        return;
    }
    let after = |flag: &str| words.iter().skip_while(|word| *word != flag).skip(1).cloned().collect::<Vec<_>>();
    if let Some(path) = after("--traces").first() {
        let table = traces::table(std::path::Path::new(path), seeds);
        return print_or_exit(table.map_err(|error| format!("cannot read {path}: {error}")));
    }
    if words.iter().any(|word| word == "--agree") {
        return print_or_exit(agree::table(&after("--agree")));
    }
    if let Some(unknown) = only.filter(|only| TABLES.iter().all(|(name, _)| only != name)) {
        let names: Vec<&str> = TABLES.iter().map(|(name, _)| *name).collect();
        eprintln!("there is no table {unknown:?}; choose from {}", names.join(", "));
        std::process::exit(2);
    }
    for (_, table) in TABLES.iter().filter(|(name, _)| only.is_none_or(|only| only == name)) {
        println!("{}", table(seeds, count, is_verbose));
    }
}

fn print_or_exit(table: Result<String, String>) {
    match table {
        Ok(text) => println!("{text}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    }
}
