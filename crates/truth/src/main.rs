//! Prints the tables: `cargo xtask truth`. `--tuning` draws from the seeds that thresholds were set with; a number sets
//! how many disks of each kind; `--disk=0xSEED` shows what was measured on one of them.
#![forbid(unsafe_code)]

use qd1_truth::{Seeds, fingerprints, limits};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let seeds = if words.iter().any(|word| word == "--tuning") { Seeds::Tuning } else { Seeds::Table };
    let count = words.iter().find_map(|word| word.parse().ok()).unwrap_or(200);
    let is_verbose = words.iter().any(|word| word == "--verbose");
    if let Some(seed) = words.iter().find_map(|word| u64::from_str_radix(word.strip_prefix("--disk=0x")?, 16).ok()) {
        print!("{}", limits::probes(seed));
        return;
    }
    // One of the tables alone, while working on it.
    if !words.iter().any(|word| word == "--fingerprints") {
        print!("{}", limits::table(seeds, count, is_verbose));
    }
    print!("{}", fingerprints::table(seeds, count, is_verbose));
}
