//! What `qd1 run caches` finds between a program and the disk, rightly or wrongly: the table.
//!
//! Each virtual disk runs the steps of the suite itself, read from its file, through the real worker, and the detectors
//! see the resulting Record.

mod run;
mod scenario;

use std::fmt::Write as _;

use qd1_model::{Finding, Severity};

use crate::Seeds;
use crate::parallel::each;
pub use run::Steps;
pub use scenario::Property;
use scenario::{Scenario, draw};

/// The number of disks of one kind, and on how many of them something was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Found.
    pub found: u64,
    /// Of.
    pub of: u64,
}

impl Share {
    fn percent(self) -> f64 {
        100.0 * self.found as f64 / self.of.max(1) as f64
    }
}

/// What the disks with and without one property gave.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Disks with it on which it was found.
    pub with: Share,
    /// Disks without it on which it was found.
    pub without: Share,
    /// Disks with a finding that blames the storage for more than can be known.
    pub accused: u64,
    /// Of the host caches found, those whose stated size interval contains the truth.
    pub held: Share,
    /// One line for each disk on which something went wrong.
    pub notes: Vec<String>,
}

/// The disks numbered `numbers`, each once with and once without the property.
pub fn tally(seeds: Seeds, steps: Steps, property: Property, numbers: impl IntoIterator<Item = u64>) -> Tally {
    let outcomes = each(numbers, |number| {
        [false, true].map(|has| {
            let scenario = draw(seeds.seed(number), property, has);
            let findings = run::findings(&scenario, steps);
            (has, scenario, findings)
        })
    });
    let mut tally = Tally::default();
    for (has, scenario, findings) in outcomes.iter().flatten() {
        judge(&mut tally, property, *has, scenario, findings);
    }
    tally
}

fn judge(tally: &mut Tally, property: Property, has: bool, scenario: &Scenario, findings: &[Finding]) {
    let found = findings.iter().find(|finding| property.is(finding.id.name()));
    let share = if has { &mut tally.with } else { &mut tally.without };
    share.of += 1;
    share.found += u64::from(found.is_some());
    tally.accused += u64::from(found.is_some_and(|finding| finding.severity > Severity::Warning));
    let ids: Vec<&str> = findings.iter().map(|finding| finding.id.name()).collect();
    if found.is_some() != has {
        let what = if has { "missed" } else { "invented" };
        let evidence = found.map_or_else(String::new, |finding| format!("; {}", finding.evidence));
        tally.notes.push(format!("{what} {property:?}: {} {ids:?}{evidence}", scenario.name));
    }
    if let (Some(finding), Property::HostCache, Some(size)) = (found, property, scenario.cache_size) {
        let holds = run::holds(&finding.title, size);
        tally.held.of += 1;
        tally.held.found += u64::from(holds);
        if !holds {
            tally.notes.push(format!(
                "size off: {}: {} MiB; {} ({})",
                scenario.name,
                size >> 20,
                finding.title,
                finding.evidence
            ));
        }
    }
}

/// The table of `count` disks with and as many without each property.
pub fn table(seeds: Seeds, count: u64, is_verbose: bool) -> String {
    let mut text = format!("caches: {count} virtual disks with and {count} without each property, {seeds:?} seeds\n");
    let _ = writeln!(text, "  {:<44}{:>12}{:>12}  target", "", "found", "invented");
    let mut notes = Vec::new();
    for property in Property::ALL {
        let tally = tally(seeds, Steps::Caches, property, 0..count);
        let _ = writeln!(
            text,
            "  {:<44}{:>10.0} %{:>10.0} %  {}",
            property.name(),
            tally.with.percent(),
            tally.without.percent(),
            property.target()
        );
        if property == Property::HostCache {
            let _ = writeln!(
                text,
                "  {:<44}{:>10.0} %",
                "  of these, the stated size contains the truth",
                tally.held.percent()
            );
        }
        notes.extend(tally.notes);
    }
    let _ = writeln!(text, "  found by the eight seconds before check's visits:");
    for property in Property::OF_CHECK {
        let tally = tally(seeds, Steps::Check, property, 0..count);
        let (with, without) = (tally.with.percent(), tally.without.percent());
        let _ = writeln!(text, "  {:<44}{with:>10.0} %{without:>10.0} %  {}", property.name(), property.target());
        notes.extend(tally.notes);
    }
    if is_verbose {
        for note in notes {
            let _ = writeln!(text, "  - {note}");
        }
    }
    text
}
