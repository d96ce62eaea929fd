//! What a check over hours keeps of its rounds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StepRecord;
use crate::units::Bytes;

/// The rounds of a check over hours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverRecord {
    /// When it was begun (0) and resumed, ns since the run began.
    pub begun_ns: Vec<u64>,
    /// Those measured, in order.
    pub rounds: Vec<RoundRecord>,
}

impl OverRecord {
    /// Returns how long the disk was used, ns.
    pub fn busy_ns(&self) -> u64 {
        self.rounds.iter().fold(0, |sum, round| sum.saturating_add(round.busy_ns))
    }

    /// Returns the number of the next round.
    pub fn next(&self) -> u32 {
        self.rounds.last().map_or(0, |round| round.number.saturating_add(1))
    }
}

/// One round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoundRecord {
    /// Its number in the plan, from 0.
    pub number: u32,
    /// When it began, ns since the run began.
    pub at_ns: u64,
    /// How long the disk was used for it, ns; of the first after a start, with the preparation.
    pub busy_ns: u64,
    /// Bytes written, with the preparation likewise; without those of ramps.
    pub written: Bytes,
}

/// A round as it is kept before the run is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The round.
    pub round: RoundRecord,
    /// When the process that measured it began, ns since the run began.
    pub begun_ns: u64,
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
        let over = self.over.get_or_insert_default();
        if over.begun_ns.last() != Some(&round.begun_ns) {
            over.begun_ns.push(round.begun_ns);
        }
        over.rounds.push(round.round);
        self.elapsed_ns = self.elapsed_ns.max(round.round.at_ns.saturating_add(round.round.busy_ns));
        for step in round.steps {
            step.add_to(&mut self.steps);
        }
        let place = |step: &StepRecord| self.plan.steps.iter().position(|planned| planned.name == step.name);
        self.steps.sort_by_key(place);
    }
}
