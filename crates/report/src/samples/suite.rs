//! A run of a suite with criteria of every grade, on the slow VPS.

use qd1_model::metric::metric;
use qd1_model::op::OpClass;
use qd1_model::plan::Work;
use qd1_model::plan::criterion::Criterion;
use qd1_model::verdict::Judged;
use qd1_model::{Grade, Report, Subject};

use super::slow_vps;

/// Three of the check's steps under other names, and what DigitalOcean would expect of them.
pub fn suite() -> Report {
    let mut report = slow_vps();
    report.record.plan.suite = "digitalocean".into();
    report.record.plan.subject = Subject::Suite;
    report.record.command = ["qd1", "run", "digitalocean", "/srv/data"].map(String::from).to_vec();
    report.record.plan.skipped.clear();
    report.verdicts.clear();
    report.impressions.clear();
    report.durability = None;
    report.findings.clear();
    for (old, new) in [("seqwrite", "bw-test"), ("qd1", "randrw-4k-one-at-a-time"), ("wal", "wal")] {
        report.record.plan.steps.iter_mut().filter(|step| step.name == old).for_each(|step| step.name = new.into());
        report.record.steps.iter_mut().filter(|step| step.name == old).for_each(|step| step.name = new.into());
        report.summary.steps.iter_mut().filter(|step| step.name == old).for_each(|step| step.name = new.into());
    }
    let kept = ["bw-test", "randrw-4k-one-at-a-time", "wal"];
    report.record.plan.steps.retain(|step| kept.contains(&step.name.as_str()));
    report.record.steps.retain(|step| kept.contains(&step.name.as_str()));
    report.summary.steps.retain(|step| kept.contains(&step.name.as_str()));
    // The log's step had a size to reach, and did not reach it.
    if let Some(Work::Io(io)) = report.record.plan.steps.iter_mut().find(|s| s.name == "wal").map(|s| &mut s.work) {
        io.io_size = qd1_model::Bytes::mib(22);
    }
    let wal = report.summary.steps.iter_mut().find(|step| step.name == "wal").unwrap();
    wal.ended = qd1_model::op::Ended::Time;

    let standard = about("bytes_per_second", 200e6, None, "standard droplet");
    let larger = about("bytes_per_second", 300e6, Some(180e6), "High CPU droplet; marginal is a standard one");
    let iops = about("iops", 500.0, None, "");
    let tail = Criterion { published: None, pass: 1e9, fail: 1e9, ..about("lat_p999_ns", 1e9, None, "no second") };
    report.criteria = vec![
        judged(&report, standard, "bw-test", OpClass::Write, Grade::Fail),
        judged(&report, larger, "bw-test", OpClass::Write, Grade::Marginal),
        judged(&report, iops.clone(), "randrw-4k-one-at-a-time", OpClass::Read, Grade::Pass),
        judged(&report, iops, "randrw-4k-one-at-a-time", OpClass::Write, Grade::Pass),
        judged(&report, tail, "wal", OpClass::Commit, Grade::NotResolved),
    ];
    report.record.plan.criteria = report.criteria.iter().map(|judged| judged.criterion.clone()).collect();
    report
}

/// A published figure that counts from 95 % on.
fn about(metric: &str, published: f64, fail: Option<f64>, label: &str) -> Criterion {
    let pass = published * 0.95;
    Criterion {
        step: String::new(),
        op: OpClass::Read,
        metric: metric.into(),
        pass,
        fail: fail.unwrap_or(pass),
        published: Some(published),
        label: label.into(),
        source: "DigitalOcean, 2018".into(),
    }
}

/// The grade is given, not found: only its wording is of interest here.
fn judged(report: &Report, criterion: Criterion, step: &str, op: OpClass, grade: Grade) -> Judged {
    let criterion = Criterion { step: step.into(), op, ..criterion };
    let figure = report.summary.stream(step, op).and_then(metric(&criterion.metric).unwrap().get);
    let why = match grade {
        Grade::NotResolved => "too few samples: n=1408, needs about 10000".to_owned(),
        _ => String::new(),
    };
    Judged { criterion, figure, grade, why }
}
