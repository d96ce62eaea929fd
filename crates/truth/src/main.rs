//! Prints the tables: `cargo xtask truth`. `--tuning` draws from the seeds that thresholds were set with; a number sets
//! how many disks of each kind.
#![forbid(unsafe_code)]

use qd1_truth::{Seeds, limits};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let seeds = if words.iter().any(|word| word == "--tuning") { Seeds::Tuning } else { Seeds::Table };
    let count = words.iter().find_map(|word| word.parse().ok()).unwrap_or(200);
    let is_verbose = words.iter().any(|word| word == "--verbose");
    print!("{}", limits::table(seeds, count, is_verbose));
}
