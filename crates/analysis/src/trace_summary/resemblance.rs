//! Which steps of suites resemble a load.

use qd1_model::order::Order as _;
use qd1_model::trace_summary::{Resemblance, Shape};

/// Most steps that are named.
const NAMED_MAX: usize = 3;
/// Largest distance of a step that resembles a load.
const FAR: f64 = 2.5;

/// Returns the closest steps, closest first; none if none is close.
pub(super) fn closest(shape: &Shape, mut steps: Vec<Resemblance>) -> Vec<Resemblance> {
    for step in &mut steps {
        step.distance = distance(shape, &step.shape);
    }
    steps.retain(|step| step.distance <= FAR);
    steps.order_by(|one, other| one.distance.total_cmp(&other.distance));
    // Suites share steps; one of each shape is enough.
    steps.dedup_by(|later, earlier| later.shape == earlier.shape);
    steps.truncate(NAMED_MAX);
    steps
}

/// The distance between two loads: a quarter of a share counts as much as a doubling of size or depth. Whether there are
/// syncs counts two.
fn distance(one: &Shape, other: &Shape) -> f64 {
    let shares = [one.read_share - other.read_share, one.random_share - other.random_share].map(|by| by * 4.0);
    let doublings = |one: f64, other: f64| (one.max(1.0) / other.max(1.0)).log2();
    let size = doublings(one.bs.0 as f64, other.bs.0 as f64);
    let depth = doublings(one.depth, other.depth);
    let syncs = match (one.writes_per_sync, other.writes_per_sync) {
        (None, None) => 0.0,
        (Some(one), Some(other)) => doublings(one, other),
        // Hardly any syncs are as good as none.
        (Some(some), None) | (None, Some(some)) => (2.0 - some.max(1.0).log2() / 4.0).max(0.0),
    };
    [shares[0], shares[1], size, depth, syncs].iter().map(|by| by * by).sum::<f64>().sqrt()
}
