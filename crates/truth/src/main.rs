//! Prints the tables: `cargo xtask truth`. `--tuning` draws from the seeds that thresholds were set with; a number sets
//! how many disks of each kind.
#![forbid(unsafe_code)]

use qd1_truth::{Seeds, identify, limits};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let seeds = if words.iter().any(|word| word == "--tuning") { Seeds::Tuning } else { Seeds::Table };
    let count = words.iter().find_map(|word| word.parse().ok()).unwrap_or(200);
    // `--only NAME` for one table.
    let only = words.iter().skip_while(|word| *word != "--only").nth(1);
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    let is_verbose = words.iter().any(|word| word == "--verbose");
    if wanted("limits") {
        print!("{}", limits::table(seeds, count, is_verbose));
    }
    if wanted("identify") {
        // Half as many again as of limits: 300 where those are 200.
        print!("{}", identify::table(seeds, count * 3 / 2, is_verbose));
    }
}
