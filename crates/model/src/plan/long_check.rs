//! A check over hours: short rounds at random times, within a limit on the disk's time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schedule::mix;

/// When the rounds of a long check take place, and how much of the disk's time they may take.
///
/// The time is divided into as many equal parts as there are rounds, and each round comes at a random moment within its
/// part: stratified sampling, whose figures represent the whole time, even if the disk depends on the time of day. Only
/// the first round starts immediately, so that problems show up immediately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LongCheckPlan {
    /// Time that the figures represent, from the start of the run, ns.
    pub duration_ns: u64,
    /// Rounds in it; each visits every step once.
    pub rounds: u32,
    /// Longest time of a round, ns.
    pub round_max_ns: u64,
    /// Maximum disk time that the run may use, including preparation, ns.
    pub busy_max_ns: u64,
}

impl LongCheckPlan {
    /// Returns when a round begins, ns since the run began.
    pub fn at_ns(&self, round: u32, seed: u64) -> u64 {
        let part_ns = self.part_ns();
        if round == 0 {
            return 0;
        }
        // Never so late that it runs into the next part.
        let latest_ns = part_ns.saturating_sub(self.round_max_ns).max(1);
        u64::from(round) * part_ns + mix(seed ^ mix(u64::from(round))) % latest_ns
    }

    /// Returns the end of the part of the time that a round represents, ns since the run began.
    pub fn part_end_ns(&self, round: u32) -> u64 {
        (u64::from(round) + 1) * self.part_ns()
    }

    fn part_ns(&self) -> u64 {
        self.duration_ns / u64::from(self.rounds.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: LongCheckPlan =
        LongCheckPlan { duration_ns: 86_400_000_000_000, rounds: 400, round_max_ns: 1_000_000_000, busy_max_ns: 0 };

    #[test]
    fn each_round_lies_in_its_part_and_they_spread_evenly_within() {
        let part = DAY.part_ns();
        let times: Vec<u64> = (0..DAY.rounds).map(|round| DAY.at_ns(round, 7)).collect();
        for (round, at) in times.iter().enumerate() {
            let from = round as u64 * part;
            assert!((from..from + part - DAY.round_max_ns).contains(at), "{round}: {at}");
        }
        let mean = times.iter().map(|at| (at % part) as f64 / part as f64).sum::<f64>() / 400.0;
        // A mean of 400 uniform ones has a standard error of 0.0144.
        assert!((0.45..0.55).contains(&mean), "{mean}");
        assert_ne!(times, (0..DAY.rounds).map(|round| DAY.at_ns(round, 8)).collect::<Vec<_>>());
    }
}
