//! Disks with known truth, and how close the analysis comes to it.
//!
//! A scenario is drawn from a seed: parameters of published tiers, and disks as irregular as measured ones. A
//! procedure of `qd1_analysis` runs on it in virtual time through the simulated engine, and a table compares its
//! conclusions with the truth. `cargo xtask truth` prints the tables in full; a few seeds run in the tests.
//!
//! Seeds for tuning and for tables are disjoint: see [`Seeds`].
#![forbid(unsafe_code)]

pub mod agree;
pub mod caches;
pub mod changes;
pub mod compare;
pub mod coverage;
pub mod fingerprints;
pub mod identify;
pub mod kinds;
pub mod limits;
pub mod long_check;
mod machines;
mod parallel;
pub mod program_verdicts;
pub mod published;
mod random;
pub mod repeat;
mod scenario;
mod score;
pub mod stalls;
mod suite;
#[cfg(test)]
mod sweep;
pub mod sync;
pub mod traces;
pub mod verdicts;
pub mod virtual_disk;
pub mod vps;

/// Which seeds to draw from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seeds {
    /// Those used to set thresholds.
    Tuning,
    /// Those used for the tables, never looked at while setting thresholds.
    Table,
}

impl Seeds {
    /// The `number`-th seed of this set. The sets differ in their highest bits.
    pub const fn seed(self, number: u64) -> u64 {
        assert!(number < 1 << 48, "the seeds of the sets must differ in their highest bits");
        let set = match self {
            Self::Tuning => 1,
            // 2 has already been looked at.
            Self::Table => 5,
        };
        set << 48 | number
    }
}
