//! How the latencies of each kind of operation are distributed, with intervals at some percentiles.

use qd1_model::chart::{Distribution, Part};
use qd1_model::figure::QUANTILES;
use qd1_model::order::Order as _;
use qd1_model::record::{Record, StepRecord};
use qd1_model::{Estimate, Hist};

use crate::summarize::{Percentiles, cross_step, in_order};
use qd1_stats::CrossStep;

/// Percentiles that are shown with their intervals besides those of the tables.
const OTHERS: [f64; 8] = [0.05, 0.1, 0.25, 0.75, 0.9, 0.95, 0.995, 0.99999];
/// Number of points in each decade beyond 99 %.
const PER_DECADE: i32 = 12;

/// Returns one for each kind of operation of each step, and for the parts of commits.
pub(super) fn all(record: &Record) -> Vec<Distribution> {
    let cross_step = cross_step(record);
    record.steps.iter().flat_map(|step| of_step(record, step, &cross_step)).collect()
}

fn of_step(record: &Record, step: &StepRecord, cross_step: &CrossStep) -> Vec<Distribution> {
    let plan = record.plan.steps.iter().find(|plan| plan.name == step.name);
    let mut all = Vec::new();
    for stream in step.streams.iter().filter(|stream| stream.lat.count() > 0) {
        let of = |part, lat: &Hist, figures| Distribution {
            step: step.name.clone(),
            class: stream.class,
            part,
            count: lat.count(),
            points: points(lat),
            figures,
        };
        let percentiles = Percentiles::new(step, plan, stream, cross_step);
        all.push(of(Part::Whole, &stream.lat, figures(&percentiles, stream.lat.count())));
        for (part, lat) in [(Part::Write, &stream.write_part), (Part::Sync, &stream.sync_part)] {
            all.extend(lat.as_ref().filter(|lat| lat.count() > 0).map(|lat| of(part, lat, Vec::new())));
        }
    }
    all
}

/// Percentiles with their intervals; those of the tables bound each other, as in the tables.
fn figures(percentiles: &Percentiles, count: u64) -> Vec<(f64, Estimate)> {
    let mut tables = QUANTILES.map(|q| percentiles.at(q));
    in_order(&mut tables);
    let others = OTHERS.into_iter().filter(|q| is_seen(*q, count)).map(|q| (q, percentiles.at(q)));
    let tables = QUANTILES.into_iter().zip(tables).filter(|(q, _)| is_seen(*q, count));
    let mut figures: Vec<(f64, Estimate)> = tables.chain(others).collect();
    figures.order_by(|(a, _), (b, _)| a.total_cmp(b));
    figures
}

/// Whether this many operations have any beyond quantile `q`.
fn is_seen(q: f64, count: u64) -> bool {
    let beyond = count as f64 * q.min(1.0 - q);
    beyond >= 1.0
}

/// Returns the latency at every percent, then at ever rarer shares until the slowest.
fn points(lat: &Hist) -> Vec<(f64, f64)> {
    let count = lat.count();
    let percents = (1..100).map(|percent| f64::from(percent) / 100.0);
    let rarer = (1..)
        .map(|step| 1.0 - 0.01 * 10_f64.powf(-f64::from(step) / f64::from(PER_DECADE)))
        .take_while(|share| (1.0 - share) * count as f64 > 1.0);
    // Of the shares with the same rank, the last: this many are at most as slow.
    let mut ranks: Vec<(f64, u64)> = Vec::new();
    for share in percents.chain(rarer) {
        let rank = (share * count as f64).ceil() as u64;
        match ranks.last_mut() {
            Some(last) if last.1 == rank => last.0 = share,
            _ => ranks.push((share, rank)),
        }
    }
    ranks.retain(|(_, rank)| *rank < count);
    ranks.push((1.0, count));
    at_ranks(lat, &ranks)
}

/// Returns the latencies at rising 1-based ranks, each with its share, by one walk through the histogram.
fn at_ranks(lat: &Hist, ranks: &[(f64, u64)]) -> Vec<(f64, f64)> {
    let mut wanted = ranks.iter().copied().peekable();
    let mut seen = 0;
    let mut points = Vec::with_capacity(ranks.len());
    for (value_ns, count) in lat.bins() {
        seen += count;
        while let Some((share, _)) = wanted.next_if(|(_, rank)| *rank <= seen) {
            points.push((share, value_ns as f64));
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summarize;
    use crate::testing;

    #[test]
    fn a_curve_has_the_percentiles_of_the_table_and_ends_with_the_slowest() {
        let mut record = testing::record();
        let commits =
            record.steps.iter_mut().flat_map(|step| &mut step.streams).find(|stream| stream.sync_part.is_some());
        let commits = commits.unwrap();
        commits.write_part = Some(commits.lat.clone());
        let (all, summary) = (all(&record), summarize(&record));
        for step in &summary.steps {
            for stream in &step.streams {
                let is_it =
                    |one: &&Distribution| (&one.step, one.class, one.part) == (&step.name, stream.class, Part::Whole);
                let curve = all.iter().find(is_it).unwrap();
                let at = |q: f64| curve.figures.iter().find(|(share, _)| *share == q).map(|(_, figure)| *figure);
                assert_eq!(at(0.5), Some(stream.lat_p50_ns), "{}", step.name);
                assert_eq!(at(0.99), Some(stream.lat_p99_ns), "{}", step.name);
                for q in [0.5, 0.99] {
                    let point = curve.points.iter().find(|(share, _)| (share - q).abs() < 1e-9);
                    let table = at(q).and_then(|figure| figure.value);
                    assert!(
                        table.is_none_or(|ns| point.is_some_and(|point| (point.1 / ns - 1.0).abs() < 0.002)),
                        "{q}"
                    );
                }
                let (share, slowest) = *curve.points.last().unwrap();
                assert_eq!((share, curve.count), (1.0, stream.ios));
                assert!((slowest / stream.lat_max_ns as f64 - 1.0).abs() < 0.001);
                assert!(curve.points.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
            }
        }
        assert!(all.iter().any(|one| one.part == Part::Sync) && all.iter().any(|one| one.part == Part::Write));
    }

    #[test]
    fn points_of_a_uniform_distribution_lie_on_its_line() {
        let mut lat = Hist::new();
        (1..=100_000).for_each(|ns| lat.record(ns));
        let points = points(&lat);
        assert!(points.iter().all(|(share, ns)| (ns / 100_000.0 - share).abs() < 0.002), "{points:?}");
        assert!(points.len() > 99 + 30 && points.len() < 140, "{}", points.len());
        let mut one = Hist::new();
        one.record(7);
        assert_eq!(super::points(&one), [(1.0, 7.0)]);
    }
}
