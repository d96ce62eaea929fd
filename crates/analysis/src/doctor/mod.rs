//! The doctor: rules on the machine's settings, as data. Pure: it sees only an [`Inventory`].
//!
//! A rule is a row of a table in one of the files here: what it costs, who says so, how to prove it, and a function
//! that finds the settings it applies to. A rule without a source is not written, and `cases.rs` has an inventory that
//! triggers each rule and one that does not. The detectors of `detect/` that judge settings use the same functions, so
//! that `check` and `doctor` cannot disagree.

mod fix;
mod mount_fix;
pub(crate) mod mounts;
mod program_fix;
mod programs;
mod queue;
mod storage;
mod system;
pub(crate) mod writeback;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod wording;

use qd1_model::doctor::{Advice, Diagnosis, Fix};
use qd1_model::order::Order as _;
use qd1_model::setting::{Inventory, Setting};
use qd1_model::{SCHEMA_VERSION, Severity, shell_quoted};

/// One rule.
pub struct Rule {
    /// Its name, stable: `mount.discard`.
    pub id: &'static str,
    /// What it looks for.
    pub what: &'static str,
    /// How much it matters at most.
    pub severity: Severity,
    /// What a setting that it finds costs.
    pub cost: &'static str,
    /// Who says so.
    pub sources: &'static [&'static str],
    /// How to see what a change does; `PATH` stands for the place.
    pub proof: &'static str,
    find: fn(&Inventory) -> Vec<Found>,
}

/// One setting that a rule found.
#[derive(Default)]
struct Found {
    subject: String,
    title: String,
    /// Less than the rule's, where this one matters less.
    severity: Option<Severity>,
    setting: Option<Setting>,
    fix: Fix,
    /// Where to measure what a change does; empty if that can be anywhere.
    path: String,
}

/// All rules.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    [mounts::RULES, writeback::RULES, queue::RULES, storage::RULES, system::RULES, programs::RULES]
        .into_iter()
        .flatten()
}

/// Applies all rules.
#[must_use]
pub fn diagnose(inventory: Inventory) -> Diagnosis {
    let mut advice: Vec<Advice> = rules().flat_map(|rule| advice(rule, &inventory)).collect();
    advice.order_by(|a, b| b.severity.cmp(&a.severity));
    let places = inventory.places.iter().filter(|place| place.has_storage()).map(|place| {
        match place.filesystem.mount_point.as_str() {
            "" => place.filesystem.source.clone(),
            point => point.to_owned(),
        }
    });
    Diagnosis {
        schema_version: SCHEMA_VERSION,
        places: places.filter(|place| !place.is_empty()).collect(),
        rules: rules().count(),
        advice,
        unseen: inventory.unseen,
        settings: inventory.settings,
    }
}

fn advice(rule: &Rule, inventory: &Inventory) -> Vec<Advice> {
    let of = |found: Found| {
        let path = if found.path.is_empty() { "PATH".to_owned() } else { shell_quoted(&found.path) };
        Advice {
            rule: rule.id.to_owned(),
            severity: found.severity.unwrap_or(rule.severity),
            proof: rule.proof.replace("PATH", &path),
            subject: found.subject,
            title: found.title,
            setting: found.setting,
            cost: rule.cost.to_owned(),
            sources: rule.sources.iter().map(|source| (*source).to_owned()).collect(),
            fix: found.fix,
        }
    };
    (rule.find)(inventory).into_iter().map(of).collect()
}

/// Where the filesystem is that a device belongs to; its node where it has none.
fn path_of(inventory: &Inventory, device: &str) -> String {
    let point = inventory.place_of(device).map(|place| place.filesystem.mount_point.as_str()).unwrap_or_default();
    if point.is_empty() { format!("/dev/{device}") } else { point.to_owned() }
}

/// Whether the machine is a virtual one or a container: the disks are then what the host makes of them.
fn is_virtual(inventory: &Inventory) -> bool {
    inventory.environment.virtualization != "none"
}
