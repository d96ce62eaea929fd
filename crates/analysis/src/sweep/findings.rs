//! What a sweep's surface shows about the sweep itself: cells and passes that cannot be taken at face value.

use qd1_model::FindingId;
use qd1_model::finding::{Finding, Severity};
use qd1_model::order::Order as _;
use qd1_model::sweep::{Cell, CellFlag, Surface};

use crate::detect::{base_finding, percent};

/// A pass this much off the mean of all passes is reported.
const DRIFT: f64 = 0.05;

/// Conclusions, one for each kind.
#[must_use]
pub fn findings(surface: &Surface) -> Vec<Finding> {
    let mut all = Vec::new();
    all.extend(depth_not_reached(surface));
    all.extend(little_broken(surface));
    all.extend(device_queue(surface));
    all.extend(passes_disagree(surface));
    all.extend(drift(surface));
    all
}

/// The cells with `flag`, worst first by `badness`.
fn flagged(surface: &Surface, flag: CellFlag, badness: impl Fn(&Cell) -> f64) -> Vec<&Cell> {
    let mut cells: Vec<&Cell> = surface.cells.iter().filter(|cell| cell.flags.contains(&flag)).collect();
    cells.order_by(|a, b| badness(b).total_cmp(&badness(a)));
    cells
}

/// A finding about these cells: the first step of the worst, with the others listed.
fn of_cells(id: FindingId, severity: Severity, confidence: f64, cells: &[&Cell]) -> Finding {
    let mut names = cells.iter().filter_map(|cell| cell.steps.first().cloned());
    let step = names.next().unwrap_or_default();
    Finding { step, also_in: names.collect(), ..base_finding(id, severity, confidence) }
}

fn depth_not_reached(surface: &Surface) -> Option<Finding> {
    let cells = flagged(surface, CellFlag::DepthNotReached, |cell| f64::from(cell.iodepth) / cell.in_flight.max(1e-9));
    let worst = cells.first()?;
    Some(Finding {
        title: "the queue was not as deep as requested: by Little's law, fewer requests were in flight".to_owned(),
        evidence: format!(
            "throughput times mean latency gives {:.1} in flight, {} were requested (tolerance {})",
            worst.in_flight,
            worst.iodepth,
            percent(worst.in_flight_tolerance)
        ),
        advice: "qd1 or the system call was the limit, not the disk: look at the processor's load, or use another \
                 --engine; these cells show what one thread can do"
            .to_owned(),
        ..of_cells(FindingId::SweepDepthNotReached, Severity::Warning, 0.95, &cells)
    })
}

fn little_broken(surface: &Surface) -> Option<Finding> {
    let cells = flagged(surface, CellFlag::LittleBroken, |cell| cell.in_flight / f64::from(cell.iodepth));
    let worst = cells.first()?;
    Some(Finding {
        title: "throughput and latency contradict each other by Little's law".to_owned(),
        evidence: format!(
            "throughput times mean latency gives {:.1} in flight, but at most {} are possible",
            worst.in_flight, worst.iodepth
        ),
        advice: "do not trust these cells: the clock jumped, or the machine was suspended; measure again".to_owned(),
        ..of_cells(FindingId::SweepLittleBroken, Severity::Critical, 0.9, &cells)
    })
}

fn device_queue(surface: &Surface) -> Option<Finding> {
    let share = |cell: &Cell| cell.in_flight_device.unwrap_or(0.0) / f64::from(cell.iodepth);
    let cells = flagged(surface, CellFlag::DeviceQueueShallow, |cell| -share(cell));
    let worst = cells.first()?;
    Some(Finding {
        title: "requests waited above the disk: it saw a shallower queue than requested".to_owned(),
        evidence: format!(
            "the kernel counted {:.1} requests at the disk on average, with {} in flight from qd1",
            worst.in_flight_device.unwrap_or(0.0),
            worst.iodepth
        ),
        advice:
            "a lock of the filesystem, a scheduler, a limit of the device's queue or of a cgroup holds them back, or \
                 the processor takes the time; deeper queues will not help on this path"
                .to_owned(),
        ..of_cells(FindingId::SweepDeviceQueue, Severity::Info, 0.7, &cells)
    })
}

fn passes_disagree(surface: &Surface) -> Option<Finding> {
    let apart = |cell: &Cell| {
        let low = cell.pass_iops.iter().copied().fold(f64::INFINITY, f64::min);
        cell.pass_iops.iter().copied().fold(0.0, f64::max) / low
    };
    let cells = flagged(surface, CellFlag::PassesDisagree, apart);
    let worst = cells.first()?;
    // A neighbour may put one cell in twenty out of line; more is a property of the disk or of the hour.
    let many = cells.len() * 10 > surface.cells.len();
    let rates: Vec<String> = worst.pass_iops.iter().map(|rate| qd1_model::units::format_count(*rate)).collect();
    Some(Finding {
        title: "the same cell gave different throughput in different passes".to_owned(),
        evidence: format!("{} of {} cells; at worst {} IOPS", cells.len(), surface.cells.len(), rates.join(", then ")),
        advice: "the disk is shared, still settling, or using burst credit; try --full, which makes more passes, \
                 and do not read much into differences between neighbouring cells"
            .to_owned(),
        ..of_cells(FindingId::SweepPassesDisagree, if many { Severity::Warning } else { Severity::Info }, 0.9, &cells)
    })
}

fn drift(surface: &Surface) -> Option<Finding> {
    let significant = surface.drift.iter().filter(|drift| {
        let (Some(low), Some(high)) = (drift.relative.low, drift.relative.high) else { return false };
        low > 0.0 || high < 0.0
    });
    let size = |relative: Option<f64>| relative.unwrap_or(0.0).abs();
    let worst = significant.max_by(|a, b| size(a.relative.value).total_cmp(&size(b.relative.value)))?;
    let relative = worst.relative.value.filter(|relative| relative.abs() > DRIFT)?;
    let word = if relative > 0.0 { "faster" } else { "slower" };
    Some(Finding {
        title: format!("pass {} was {} {word} than the mean of all passes", worst.pass, percent(relative.abs())),
        evidence: format!(
            "mean over {} cells, each compared with its own mean of all passes; 95 % interval {} to {}",
            worst.relative.n,
            percent(worst.relative.low.unwrap_or(0.0)),
            percent(worst.relative.high.unwrap_or(0.0))
        ),
        advice: "the disk changed while it was measured; the order of the steps keeps this out of the curves, but \
                 their level is a mean over the change: qd1 limits --burst finds burst credit"
            .to_owned(),
        ..base_finding(FindingId::SweepDrift, Severity::Warning, 0.9)
    })
}
