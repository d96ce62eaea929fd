//! Two places on one disk, measured in turn: they share everything that affects the disk, but have their own service
//! times.

use std::collections::BTreeMap;

use qd1_analysis::compare::{Group, Pairs, compare_in_turn, measured};
use qd1_engine::sim::{Device, Disk};
use qd1_model::Record;
use qd1_model::comparison::Comparison;
use qd1_model::plan::{InTurn, StepPlan};
use qd1_model::record::StepRecord;
use qd1_model::spec::Effort;

use super::slower;
use crate::repeat::{BETWEEN_NS, Cell, planned, run_visit, start_ns};

/// One comparison of a place with one where every request takes `factor` times as long.
pub(super) fn comparison(cell: &Cell, factor: f64, seed: u64) -> Comparison {
    let mut records = [planned(Effort::Default), planned(Effort::Default)];
    records.iter_mut().for_each(|record| record.plan.seed = seed);
    let turns = records[0].plan.clone().in_turn();
    records.iter_mut().for_each(|record| record.plan = turns.plan.clone());
    let devices = [cell.device().clone(), slower(cell.device(), factor)];
    let mut disk = Disk::new(Device { seed, ..cell.device().clone() });
    disk.idle(start_ns(seed));
    let mut pairs: Vec<(StepRecord, StepRecord)> = Vec::new();
    let mut paced: BTreeMap<usize, StepPlan> = BTreeMap::new();
    for visit in &turns.visits {
        let step = &turns.plan.steps[visit.step];
        if step.visits == 1 {
            disk.idle(2 * (BETWEEN_NS + step.duration_max_ns()));
            continue;
        }
        let seed = seed ^ u64::from(visit.number) << 40 ^ (visit.step as u64) << 32;
        let mut of_place = |step: &StepPlan, side: usize| {
            let Device { read, write, flush, .. } = devices[side].clone();
            disk.serve(read, write, flush);
            disk.idle(BETWEEN_NS);
            run_visit(&mut disk, step, seed ^ (side as u64) << 60)
        };
        // The pace of both is what both can sustain.
        let step = match (step.pace_probe(), paced.get(&visit.step)) {
            (None, _) => step,
            (Some(_), Some(known)) => known,
            (Some(probe), None) => {
                let sustained = [0, 1].map(|side| {
                    let one = of_place(&probe, side);
                    let done: u64 = one.streams.iter().map(|stream| stream.lat.count()).sum();
                    done as f64 * 1e9 / one.runtime_ns.max(1) as f64
                });
                paced.entry(visit.step).or_insert(step.at_pace(sustained[0].min(sustained[1])).0)
            }
        };
        let pair = if turns.is_first_first(*visit) {
            let first = of_place(step, 0);
            (first, of_place(step, 1))
        } else {
            let other = of_place(step, 1);
            (of_place(step, 0), other)
        };
        for (record, one) in records.iter_mut().zip([&pair.0, &pair.1]) {
            one.clone().add_to(&mut record.steps);
        }
        pairs.push(pair);
    }
    records.iter_mut().for_each(|record| sort(record, &turns));
    let [first, other] = records.map(|record| measured(&record, &qd1_analysis::summarize(&record), &[]));
    let groups = [("a", first), ("b", other)].map(|(name, run)| Group { name: name.to_owned(), runs: vec![run] });
    compare_in_turn(&groups, &[], &Pairs::new(&pairs)).expect("both have the same steps")
}

fn sort(record: &mut Record, turns: &InTurn) {
    record.steps.sort_by_key(|step| turns.plan.steps.iter().position(|planned| planned.name == step.name));
}
