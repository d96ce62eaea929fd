//! The key figures of a run: what programs wait for.

use qd1_model::plan::{IoWork, Order, Sync, Work};
use qd1_model::{Bytes, Estimate, OpClass, Report, StepSummary, StreamSummary};

use crate::words::plural;

/// One of the key figures of the run.
pub(crate) struct KeyFigure {
    pub(crate) estimate: Estimate,
    pub(crate) what: String,
}

/// Returns the latencies at queue depth 1 and of durable commits, of all steps that measured them.
pub(crate) fn key_figures(report: &Report) -> Vec<KeyFigure> {
    let mut figures = Vec::new();
    // A check measures in visits what programs wait for; its other steps with one request at a time look for caches.
    let planned = &report.record.plan.steps;
    let has_visits = planned.iter().any(|step| step.visits > 1);
    let counts = |name: &str| !has_visits || planned.iter().any(|step| step.name == name && step.visits > 1);
    for step in report.summary.steps.iter().filter(|step| counts(&step.name)) {
        let Some(Work::Io(io)) = report.record.plan.steps.iter().find(|s| s.name == step.name).map(|s| &s.work) else {
            continue;
        };
        let alone = io.iodepth == 1 && io.numjobs == 1 && io.order != Order::Sequential;
        for stream in &step.streams {
            match stream.class {
                OpClass::Read | OpClass::Write if alone => depth_1(&mut figures, step, stream, io),
                OpClass::Commit => commit(&mut figures, step, stream, io),
                _ => {}
            }
        }
    }
    figures
}

fn depth_1(figures: &mut Vec<KeyFigure>, step: &StepSummary, stream: &StreamSummary, io: &IoWork) {
    let (name, class) = (&step.name, plural(stream.class));
    let cached = if io.direct { "" } else { ", through the page cache" };
    let what = |title: &str| format!("{name}: {title} of {} {class} at queue depth 1{cached}", size(io));
    figures.push(KeyFigure { estimate: stream.lat_p999_ns, what: what("p99.9") });
    if !stream.lat_p999_ns.is_resolved() {
        figures.push(KeyFigure { estimate: stream.lat_p99_ns, what: what("p99") });
    }
}

fn commit(figures: &mut Vec<KeyFigure>, step: &StepSummary, stream: &StreamSummary, io: &IoWork) {
    let (write, sync) = match io.sync {
        Sync::Fdatasync => ("write + fdatasync", "fdatasync"),
        Sync::Fsync => ("write + fsync", "fsync"),
        Sync::OSync => ("O_SYNC write", "sync"),
        Sync::ODsync => ("O_DSYNC write", "sync"),
        Sync::RwfDsync => ("RWF_DSYNC write", "sync"),
        Sync::SyncFileRange => ("write + sync_file_range", "sync_file_range"),
        Sync::None | Sync::EndFsync => ("write", "sync"),
    };
    let writers = if io.numjobs == 1 { String::new() } else { format!(", {} writers", io.numjobs) };
    let what = |title: &str| format!("{}: {title} of {} {write}{writers}", step.name, size(io));
    // Requests that arrive at their own times are too few for a tail, except in a long run.
    if !io.arrival.is_open() || stream.lat_p99_ns.is_resolved() {
        figures.push(KeyFigure { estimate: stream.lat_p99_ns, what: what("p99") });
    }
    if !stream.lat_p99_ns.is_resolved() {
        figures.push(KeyFigure { estimate: stream.lat_p50_ns, what: what("p50") });
    } else if let Some(estimate) = stream.sync_p99_ns {
        figures.push(KeyFigure { estimate, what: format!("{}: p99 of the {sync} alone", step.name) });
    }
}

fn size(io: &IoWork) -> String {
    match io.blocks.as_slice() {
        [one] => Bytes(one.bytes.into()).to_string(),
        _ => "mixed-size".into(),
    }
}
