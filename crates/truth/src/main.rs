//! Prints the tables: `cargo xtask truth`. `--tuning` draws from the seeds that thresholds were set with; a number sets
//! how many disks of each kind, and the name of a table prints that one only.
#![forbid(unsafe_code)]

use qd1_truth::{Seeds, caches, limits};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let seeds = if words.iter().any(|word| word == "--tuning") { Seeds::Tuning } else { Seeds::Table };
    let count = words.iter().find_map(|word| word.parse().ok()).unwrap_or(200);
    let is_verbose = words.iter().any(|word| word == "--verbose");
    let named = |name: &str| words.iter().any(|word| word == name);
    let wanted = |name: &str| named(name) || !["limits", "caches"].into_iter().any(named);
    if wanted("limits") {
        print!("{}", limits::table(seeds, count, is_verbose));
    }
    if wanted("caches") {
        print!("{}", caches::table(seeds, count.div_ceil(2), is_verbose));
    }
}
