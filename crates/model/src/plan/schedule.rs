//! The order in which a run measures its steps.
//!
//! A disk changes from one second to the next: neighbours come and go, a device collects its garbage. A step measured
//! in one go reflects only its own seconds. So a step may be measured in several *visits*: each round has one visit to
//! every such step, in a newly drawn order. Steps listed before all of these come first. Later ones that only read go
//! between the rounds, so that the visits span more of the run; those that write come last, since what they leave in
//! caches would disturb the others.

use super::{Plan, StepPlan, Work};
use crate::order::Order as _;

/// One part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Index of the step in the plan.
    pub step: usize,
    /// Which of the step's visits, from 0.
    pub number: u32,
}

impl Plan {
    /// Returns every visit of every step in the order of the run; the same for the same steps and seed.
    pub fn schedule(&self) -> Vec<Visit> {
        let once = |step: usize| Visit { step, number: 0 };
        let all: Vec<usize> = (0..self.steps.len()).collect();
        let visits = |step: &usize| self.steps[*step].visits.max(1);
        let rounds = all.iter().map(visits).max().unwrap_or(1);
        if rounds == 1 {
            return all.into_iter().map(once).collect();
        }
        let first = all.iter().position(|step| visits(step) > 1).unwrap_or(0);
        let (before, all) = all.split_at(first);
        let (visited, others): (Vec<_>, Vec<_>) = all.iter().copied().partition(|step| visits(step) > 1);
        let (between, after): (Vec<_>, Vec<_>) = others.into_iter().partition(|step| only_reads(&self.steps[*step]));
        let mut between = between.into_iter().enumerate().map(|(at, step)| (at as u32 + 1, step)).peekable();
        let gaps = between.len() as u32 + 1;
        let mut schedule: Vec<Visit> = before.iter().copied().map(once).collect();
        for round in 0..rounds {
            // The n-th of them comes after the n-th equal part of the rounds.
            while let Some((_, step)) = between.next_if(|(at, _)| *at * rounds / gaps <= round) {
                schedule.push(once(step));
            }
            // A step with fewer visits than there are rounds skips some, evenly.
            let of_round = |step: &usize| {
                let number = (round * visits(step)).div_ceil(rounds);
                (number * rounds / visits(step) == round).then_some(Visit { step: *step, number })
            };
            let mut visits: Vec<Visit> = visited.iter().filter_map(of_round).collect();
            visits.order_by_key(|visit| mix(self.seed ^ mix(u64::from(round) << 32 | visit.step as u64)));
            schedule.extend(visits);
        }
        schedule.extend(between.map(|(_, step)| once(step)).chain(after.into_iter().map(once)));
        schedule
    }
}

/// When two places are measured in turn: number of visits for a step that an ordinary run measures once.
const IN_TURN: u32 = 6;

/// A plan that is run in turn with the same plan for another place.
#[derive(Clone, Debug)]
pub struct InTurn {
    /// What is done at each place: more and shorter visits in the same time.
    pub plan: Plan,
    /// Its visits in the order of the run; the other place's visit is made right before or after each.
    pub visits: Vec<Visit>,
}

impl Plan {
    /// Returns the plan for measuring its place in turn with another. Each visit becomes two adjacent ones of half the
    /// length; random reads and writes that are measured in one go are divided into six. Steps that read or write a
    /// file from its beginning, and those before the visits, are not divided: a part of them would measure something
    /// else.
    #[must_use]
    pub fn in_turn(mut self) -> InTurn {
        let schedule = self.schedule();
        let first = self.steps.iter().position(|step| step.visits > 1).unwrap_or(0);
        let parts: Vec<u32> = self.steps.iter().enumerate().map(|(at, step)| step.parts_in_turn(at >= first)).collect();
        let of_visit = |visit: Visit| {
            let parts = parts[visit.step];
            (0..parts).map(move |part| Visit { number: visit.number * parts + part, ..visit })
        };
        let visits = schedule.into_iter().flat_map(of_visit).collect();
        for (step, parts) in self.steps.iter_mut().zip(&parts) {
            let before_ns = step.duration_max_ns().max(1);
            step.visits = step.visits.max(1) * parts;
            // Each visit has its own ramp.
            let times = step.duration_max_ns() as f64 / before_ns as f64;
            step.writes_max.0 = (step.writes_max.0 as f64 * times).ceil() as u64;
        }
        InTurn { plan: self, visits }
    }
}

impl InTurn {
    /// Returns true if the first place comes first at this visit. Two neighbouring visits of a step have opposite
    /// orders, so that drift cancels.
    pub fn is_first_first(&self, visit: Visit) -> bool {
        let pair = u64::from(visit.number / 2) << 32 | visit.step as u64;
        (mix(self.plan.seed ^ mix(pair)) & 1 == 0) == visit.number.is_multiple_of(2)
    }
}

impl StepPlan {
    /// Number of parts into which its visit is divided when two places are measured in turn.
    fn parts_in_turn(&self, is_after_first: bool) -> u32 {
        let Work::Io(io) = &self.work else { return 1 };
        let is_plain = is_after_first && self.background.is_empty() && io.io_size.0 == 0 && io.rw.is_random();
        match self.visits {
            2.. => 2,
            _ if is_plain => IN_TURN,
            _ => 1,
        }
    }

    /// Returns the part of the step that one visit measures: its share of the time and of `io_size`.
    #[must_use]
    pub fn visit(&self) -> Self {
        let visits = u64::from(self.visits.max(1));
        let mut part = self.clone();
        part.stop.max_ns = (self.stop.max_ns / visits).max(1);
        part.stop.min_ns = self.stop.min_ns / visits;
        if let Work::Io(io) = &mut part.work
            && io.io_size.0 > 0
        {
            let least = u64::from(io.block_max()) * u64::from(io.numjobs.max(1));
            io.io_size.0 = (io.io_size.0 / visits).max(least);
        }
        part
    }
}

fn only_reads(step: &StepPlan) -> bool {
    matches!(&step.work, Work::Io(io) if !io.rw.writes()) && step.background.is_empty()
}

/// The mixing function of SplitMix64 (Steele, Lea, Flood 2014).
pub(super) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{
        Arrival, BlockShare, Data, EngineChoice, FileUse, IoWork, Order, Rw, Stop, Sync, TargetKind, TargetPlan,
    };
    use crate::subject::Subject;
    use crate::units::Bytes;

    fn step(name: &str, rw: Rw, visits: u32) -> StepPlan {
        let work = IoWork {
            ioengine: EngineChoice::Auto,
            rw,
            rwmixread: 0,
            order: Order::Random,
            blocks: vec![BlockShare { bytes: 4096, weight: 1 }],
            iodepth: 1,
            numjobs: 1,
            direct: true,
            sync: Sync::None,
            writes_per_sync: 1,
            file: FileUse::Shared,
            size: Bytes(1 << 20),
            io_size: Bytes(120_000),
            arrival: Arrival::Closed,
            data: Data::Random,
        };
        StepPlan {
            name: name.to_owned(),
            title: String::new(),
            work: Work::Io(work),
            background: Vec::new(),
            stop: Stop { min_ns: 0, max_ns: 12_000, ramp_ns: 10, quantile: 0.0, tolerance: 0.0 },
            visits,
            writes_max: Bytes(0),
        }
    }

    fn plan(steps: Vec<StepPlan>, seed: u64) -> Plan {
        let target = TargetPlan {
            path: "/mnt".into(),
            kind: TargetKind::Directory,
            filesystem: String::new(),
            size: Bytes(1 << 20),
            direct: true,
            align: 512,
            prepare_max_ns: 0,
        };
        Plan { steps, ..Plan::new("", Subject::Suite, target, seed) }
    }

    fn usual(seed: u64) -> Plan {
        let visited = ["a", "b", "c"].map(|name| step(name, Rw::Write, 12));
        let once = [("read", Rw::Randread), ("write", Rw::Write), ("read2", Rw::Read)].map(|(n, rw)| step(n, rw, 1));
        plan(visited.into_iter().chain([step("six", Rw::Write, 6)]).chain(once).collect(), seed)
    }

    #[test]
    fn in_turn_each_step_takes_its_time_in_more_visits() {
        let before = usual(7);
        let InTurn { plan, visits } = before.clone().in_turn();
        let counts: Vec<u32> = plan.steps.iter().map(|step| step.visits).collect();
        assert_eq!(counts, [24, 24, 24, 12, 1, 1, 1], "those with an io_size are whole");
        for (step, planned) in plan.steps.iter().enumerate() {
            let numbers: Vec<u32> = visits.iter().filter(|v| v.step == step).map(|v| v.number).collect();
            assert_eq!(numbers, (0..planned.visits).collect::<Vec<_>>(), "{}", planned.name);
            assert_eq!(planned.stop.max_ns, before.steps[step].stop.max_ns);
        }
        let turned = InTurn { plan, visits };
        let firsts: Vec<bool> = (0..24).map(|number| turned.is_first_first(Visit { step: 1, number })).collect();
        assert!(firsts.chunks(2).all(|pair| pair[0] != pair[1]), "{firsts:?}");
        assert!(firsts.chunks(2).any(|pair| pair[0]) && firsts.chunks(2).any(|pair| pair[1]), "drawn by lot");
    }

    #[test]
    fn steps_without_visits_keep_their_order() {
        let all = plan(vec![step("a", Rw::Read, 1), step("b", Rw::Write, 1), step("c", Rw::Read, 1)], 1).schedule();
        assert_eq!(all.iter().map(|visit| visit.step).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn each_visit_comes_once_and_in_order() {
        let plan = usual(7);
        let all = plan.schedule();
        for (step, planned) in plan.steps.iter().enumerate() {
            let numbers: Vec<u32> = all.iter().filter(|visit| visit.step == step).map(|visit| visit.number).collect();
            assert_eq!(numbers, (0..planned.visits).collect::<Vec<_>>(), "{}", planned.name);
        }
        assert_eq!(all.len(), 3 * 12 + 6 + 3);
    }

    #[test]
    fn reads_lie_between_the_rounds_and_writes_after_them() {
        let all = usual(7).schedule();
        let at = |step: usize| all.iter().position(|visit| visit.step == step).unwrap();
        assert_eq!(at(5), all.len() - 1, "the write is last");
        // A third and two thirds of the way.
        assert!((12..=16).contains(&at(4)) && (26..=30).contains(&at(6)), "{} {}", at(4), at(6));
    }

    #[test]
    fn what_stands_before_the_visits_comes_first() {
        let before = [("cold", Rw::Randread), ("flush", Rw::Write)].map(|(name, rw)| step(name, rw, 1));
        let all = plan(before.into_iter().chain(usual(7).steps).collect(), 7).schedule();
        assert_eq!([all[0].step, all[1].step], [0, 1]);
        assert_eq!(all.iter().filter(|visit| visit.step < 2).count(), 2);
        assert_eq!(all.len(), 2 + 3 * 12 + 6 + 3);
    }

    #[test]
    fn the_order_changes_from_round_to_round_and_with_the_seed() {
        let orders = |seed| -> Vec<Vec<usize>> {
            let all: Vec<usize> = usual(seed).schedule().iter().map(|v| v.step).filter(|s| *s < 3).collect();
            all.chunks(3).map(<[usize]>::to_vec).collect()
        };
        let mut different = orders(3);
        different.sort();
        different.dedup();
        assert!(different.len() >= 4, "{different:?}");
        assert_ne!(orders(3), orders(4));
        assert_eq!(orders(3), orders(3));
        // Over many seeds each step is as often first as any other.
        let first: Vec<usize> = (0..300).map(|seed| orders(seed)[5][0]).collect();
        assert!((0..3).all(|step| (70..130).contains(&first.iter().filter(|one| **one == step).count())), "{first:?}");
    }

    #[test]
    fn a_visit_has_its_share_of_time_and_bytes() {
        let part = step("a", Rw::Write, 12).visit();
        let Work::Io(io) = &part.work else { panic!("it is I/O") };
        assert_eq!((part.stop.max_ns, part.stop.ramp_ns, io.io_size.0), (1000, 10, 10_000));
        assert_eq!(step("a", Rw::Write, 12).duration_max_ns(), 12_120);
    }
}
