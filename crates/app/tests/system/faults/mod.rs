//! The campaign: each command under each fault, and after each that nothing was lost, left or changed.
//!
//! `cargo xtask faults` runs it for long; the test here is its short form. Runs are drawn from a seed, so that one that
//! went wrong can be repeated alone.

mod arena;
mod commands;
mod fault;
mod judge;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;

use crate::common::{is_root, random, skip, test_name};
use arena::{Arena, Who};
use commands::COMMANDS;
use fault::{FAULTS, Fault};

/// Runs of the short form, and their seed.
const SHORT: usize = 16;
const SEED: u64 = 0xFA57;

/// One run of the campaign.
#[derive(Clone, Copy, Debug)]
struct Case {
    command: &'static commands::Tested,
    fault: Fault,
    who: Who,
    /// Decides the moment and the rest of what is drawn.
    seed: u64,
}

impl Case {
    fn name(&self, number: usize) -> String {
        format!("{number} {} {:?} {:?} {:#x}", self.command.name, self.fault, self.who, self.seed)
    }
}

/// All pairs of commands and faults that make sense, in an order drawn from the seed, again and again with other
/// moments and users.
fn cases(seed: u64, runs: usize) -> Vec<Case> {
    let mut draw = random(seed);
    let mut cases = Vec::new();
    while cases.len() < runs {
        let mut round: Vec<Case> = Vec::new();
        for command in &COMMANDS {
            // Half a minute each is too long for the short form.
            let in_time = |fault: &Fault| runs > SHORT || *fault != Fault::LongHang;
            for fault in FAULTS.into_iter().filter(|fault| fault.concerns(command) && in_time(fault)) {
                let who = Who::ALL[(draw() * Who::ALL.len() as f64) as usize];
                // Nothing protects against oneself, or against root.
                let elsewhere = (command.needs_root && who == Who::User) || fault == Fault::HostileOwner;
                let who = if elsewhere { Who::RootElsewhere } else { who };
                round.push(Case { command, fault, who, seed: (draw() * u64::MAX as f64) as u64 });
            }
        }
        for at in (1..round.len()).rev() {
            round.swap(at, (draw() * (at + 1) as f64) as usize);
        }
        cases.extend(round);
    }
    cases.truncate(runs);
    cases
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn no_fault_loses_leaves_or_changes_anything() {
    if !is_root() {
        return skip(test_name!(), "loop devices and other users need root");
    }
    let cases = cases(number("QD1_FAULTS_SEED", SEED), number("QD1_FAULTS_RUNS", SHORT as u64) as usize);
    // A long campaign that was stopped goes on where it was.
    let log = std::env::var_os("QD1_FAULTS_LOG");
    let known = log.as_ref().and_then(|log| fs::read_to_string(log).ok()).unwrap_or_default();
    let done: BTreeSet<usize> = known.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect();
    let only = std::env::var("QD1_FAULTS_ONLY").ok().and_then(|text| text.parse::<usize>().ok());
    let fault = std::env::var("QD1_FAULTS_FAULT").ok();
    let mut wrong = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let is_other = fault.as_ref().is_some_and(|fault| *fault != format!("{:?}", case.fault));
        if done.contains(&number) || is_other || only.is_some_and(|only| only != number) {
            continue;
        }
        let found = match Arena::new(case) {
            Ok(mut arena) => arena.run(case),
            Err(why) => return skip(test_name!(), &why),
        };
        let line =
            format!("{} {}", case.name(number), if found.is_empty() { "ok".to_owned() } else { found.join("; ") });
        println!("{line}");
        if let Some(log) = &log {
            let mut log = fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
            writeln!(log, "{}", line.replace('\n', " ")).unwrap();
        }
        if !found.is_empty() {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{} of {} runs:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
