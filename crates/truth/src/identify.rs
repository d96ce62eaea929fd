//! `qd1 identify` on disks of nine kinds: the confusion table.

use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

use qd1_analysis::identify::identify;
use qd1_engine::run::{Decision, IoJob, run_io};
use qd1_engine::sim::Device;
use qd1_model::environment::ThreadCost;
use qd1_model::identity::{Identity, StorageKind};
use qd1_model::plan::{EngineKind, StepPlan, Work};
use qd1_model::record::StepRecord;
use qd1_model::spec::{Effort, PerEffort};
use qd1_model::{Bytes, Record, Subject};

use crate::Seeds;
use crate::kinds::{Drawn, Labels, draw};
use crate::machines::environment;
use crate::parallel::each;
use crate::suite;

/// The suite that the product runs: its steps are these steps.
const SUITE: &str = include_str!("../../suites/src/identify.toml");
/// Sure enough to act on.
pub const CONFIDENT: f64 = 0.9;
const KINDS: usize = StorageKind::ALL.len();

/// One disk and what was said about it.
#[derive(Clone, Debug)]
pub struct Judged {
    /// What it is.
    pub kind: StorageKind,
    /// What its machine said about it.
    pub labels: Labels,
    /// Its name and seed.
    pub name: String,
    /// What the analysis said.
    pub identity: Identity,
}

impl Judged {
    /// The likeliest kind and its probability.
    fn said(&self) -> (StorageKind, f64) {
        self.identity.top().map_or((self.kind, 0.0), |top| (top.kind, top.probability))
    }

    /// Whether the likeliest kind is the true one.
    pub fn is_right(&self) -> bool {
        self.said().0 == self.kind
    }

    /// Wrong, and confident.
    pub fn is_confidently_wrong(&self) -> bool {
        let (kind, probability) = self.said();
        kind != self.kind && probability >= CONFIDENT
    }
}

/// The disks numbered `numbers`: the kind is the number's remainder by nine.
pub fn judged(seeds: Seeds, numbers: std::ops::Range<u64>) -> Vec<Judged> {
    each(numbers, |number| judge(seeds, number))
}

fn judge(seeds: Seeds, number: u64) -> Judged {
    let kind = StorageKind::ALL[(number % KINDS as u64) as usize];
    let drawn = draw(kind, seeds.seed(number) ^ 0x1DE0_0000_0000);
    let record = record(&drawn);
    let identity = identify(&record).expect("every disk was measured");
    Judged { kind, labels: drawn.labels, name: drawn.name, identity }
}

/// What a run of the suite on `drawn` gives.
fn record(drawn: &Drawn) -> Record {
    let table = suite::table(SUITE);
    let sizes: PerEffort<Bytes> = table["size"].clone().try_into().expect("a size for each effort");
    let mut record = suite::record("identify", Subject::Identify, sizes.default, environment(drawn));
    record.plan.steps =
        suite::jobs(&table).iter().map(|job| suite::step(job, Effort::Default, sizes.default.0)).collect();
    let steps = record.plan.steps.iter().enumerate();
    record.steps = steps.map(|(index, step)| run(drawn, index as u64, step)).collect();
    record
}

/// Runs a step on the disk. Each meets it at a different time: neighbours are at another point of their work.
fn run(drawn: &Drawn, index: u64, step: &StepPlan) -> StepRecord {
    let Work::Io(work) = &step.work else { unreachable!("made above") };
    let seed = drawn.device.seed ^ index << 40;
    let job = IoJob {
        work,
        stop: &step.stop,
        interval_ns: step.stop.interval_ns(),
        kind: EngineKind::Sim,
        files: &[],
        offset: 0,
        seed,
        sim: Some(Device { seed, ..drawn.device.clone() }),
        batch_min: 1,
        thread_cost: ThreadCost::default,
        thread_time: None,
    };
    let outcome =
        run_io(&job, &AtomicBool::new(false), &mut |_| Decision::Continue).expect("a simulated device never breaks");
    suite::measured(&step.name, outcome)
}

/// Short names for the table's columns.
const SHORT: [&str; KINDS] = ["nvme", "sata", "rot", "block", "file", "raid", "over", "image", "ram"];

/// The table of `count` disks.
pub fn table(seeds: Seeds, count: u64, is_verbose: bool) -> String {
    let all = judged(seeds, 0..count);
    let mut text =
        format!("identify: {count} virtual disks of nine kinds, {seeds:?} seeds; rows: true, columns: reported\n");
    let _ = writeln!(text, "  {:<34}{}", "", SHORT.map(|name| format!("{name:>6}")).concat());
    for kind in StorageKind::ALL {
        let of = |said: StorageKind| all.iter().filter(|one| one.kind == kind && one.said().0 == said).count();
        let cells = StorageKind::ALL.map(|said| match of(said) {
            0 => format!("{:>6}", "."),
            n => format!("{n:>6}"),
        });
        let _ = writeln!(text, "  {:<34}{}", kind.title(), cells.concat());
    }
    let mut line = |name: &str, of: &[&Judged]| {
        let count = |is: &dyn Fn(&Judged) -> bool| of.iter().filter(|one| is(one)).count();
        let share = |n: usize| 100.0 * n as f64 / of.len().max(1) as f64;
        let right = count(&Judged::is_right);
        let wrong = count(&Judged::is_confidently_wrong);
        let sure = count(&|one| one.said().1 >= CONFIDENT);
        let _ = writeln!(
            text,
            "  {name:<34}{:>4} disks  right {:.1} %  sure {:.1} %  confidently wrong {:.1} % ({wrong})",
            of.len(),
            share(right),
            share(sure),
            share(wrong)
        );
    };
    for (name, labels) in [
        ("labels right", Labels::Right),
        ("a hypervisor's labels", Labels::Virtual),
        ("no labels", Labels::None),
        ("wrong labels", Labels::Wrong),
    ] {
        line(name, &all.iter().filter(|one| one.labels == labels).collect::<Vec<_>>());
    }
    line("all (target: 95 % right)", &all.iter().collect::<Vec<_>>());
    let brier: f64 = all.iter().map(|one| 1.0 - one.identity.of(one.kind)).sum::<f64>() / all.len().max(1) as f64;
    let _ = writeln!(text, "  mean probability given to kinds other than the true one: {:.1} %", brier * 100.0);
    for one in all.iter().filter(|one| is_verbose && !one.is_right()) {
        let (said, probability) = one.said();
        let _ = writeln!(
            text,
            "  - {} ({:?} labels): {} {:.2}, true {:.2}",
            one.name,
            one.labels,
            said.name(),
            probability,
            one.identity.of(one.kind)
        );
        for evidence in one.identity.evidence.iter() {
            let weight = |kind| evidence.weights.iter().find(|weight| weight.kind == kind).map_or(0.0, |w| w.weight);
            let difference = weight(said) - weight(one.kind);
            if difference.abs() > 0.5 {
                let _ = writeln!(text, "      {difference:+.1} {} {}", evidence.feature, evidence.text);
            }
        }
    }
    text
}
