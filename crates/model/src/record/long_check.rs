//! What a check over hours keeps of its rounds.

use crate::order::Order as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StepRecord;
use crate::units::Bytes;

/// The rounds of a check over hours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LongCheckRecord {
    /// When it was begun and resumed, in order: each time the test file was rewritten.
    pub starts: Vec<Use>,
    /// The rounds measured, in order.
    pub rounds: Vec<RoundRecord>,
}

/// A use of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Use {
    /// When it began, ns since the run began.
    pub at_ns: u64,
    /// How long it took, ns.
    pub busy_ns: u64,
    /// Bytes written, without those of ramps.
    pub written: Bytes,
}

/// One round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoundRecord {
    /// Its number in the plan, from 0.
    pub number: u32,
    /// When it took place, and how much it used the disk.
    #[serde(flatten)]
    pub used: Use,
}

impl LongCheckRecord {
    /// Returns every use of the disk.
    pub fn uses(&self) -> impl Iterator<Item = &Use> {
        self.starts.iter().chain(self.rounds.iter().map(|round| &round.used))
    }

    /// Returns how long the disk was used, ns.
    pub fn busy_ns(&self) -> u64 {
        self.uses().fold(0, |sum, used| sum.saturating_add(used.busy_ns))
    }

    /// Returns the bytes written.
    pub fn written(&self) -> Bytes {
        Bytes(self.uses().fold(0, |sum, used| sum.saturating_add(used.written.0)))
    }

    /// Returns how many times it was resumed and measured more.
    pub fn resumed(&self) -> u32 {
        let start_of = |round: &RoundRecord| self.starts.partition_point(|start| start.at_ns <= round.used.at_ns);
        let mut starts: Vec<usize> = self.rounds.iter().map(start_of).collect();
        starts.dedup();
        starts.len().saturating_sub(1) as u32
    }

    /// Returns the number of the next round.
    pub fn next(&self) -> u32 {
        self.rounds.last().map_or(0, |round| round.number.saturating_add(1))
    }
}

/// A round as stored before the run is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The round.
    pub round: RoundRecord,
    /// What its visits measured, with times as in the whole record.
    pub steps: Vec<StepRecord>,
}

impl super::Record {
    /// Returns whether it is a check over hours whose time is not over, so that it can be resumed.
    pub fn is_unfinished(&self) -> bool {
        self.plan.over.is_some_and(|plan| self.interrupted && self.elapsed_ns < plan.duration_ns)
    }

    /// Adds a round that was measured after all others.
    pub fn add_round(&mut self, round: Round) {
        let Use { at_ns, busy_ns, .. } = round.round.used;
        self.elapsed_ns = self.elapsed_ns.max(at_ns.saturating_add(busy_ns));
        self.over.get_or_insert_default().rounds.push(round.round);
        for step in round.steps {
            step.add_to(&mut self.steps);
        }
        let place = |step: &StepRecord| self.plan.steps.iter().position(|planned| planned.name == step.name);
        self.steps.order_by_key(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_failed_is_no_resumption() {
        let at = |at_ns| Use { at_ns, ..Use::default() };
        let rounds = [5, 8, 40].map(|at_ns| RoundRecord { number: at_ns as u32, used: at(at_ns) });
        let resumed = |starts: &[u64], count: usize| {
            let starts = starts.iter().map(|at_ns| at(*at_ns)).collect();
            LongCheckRecord { starts, rounds: rounds[..count].to_vec() }.resumed()
        };
        assert_eq!((resumed(&[0], 0), resumed(&[0], 2), resumed(&[0, 30], 2), resumed(&[0, 30], 3)), (0, 0, 0, 1));
        assert_eq!((resumed(&[0, 10, 20, 30], 3), resumed(&[0, 3], 2)), (1, 0));
    }
}
