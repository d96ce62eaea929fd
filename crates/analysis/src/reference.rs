//! How a disk ranks among those that others published (`reference.tsv`): reads by their median, commits by that of
//! their sync; and among VPS that p99bench measured (`reference/vps.tsv`), by the tail of their durable appends.
//!
//! p99bench's times are those of O_SYNC writes into allocated space. Such a write is durable when it returns, and each
//! changes metadata, as the first write to each block of check's `wal` does: these two can be compared, but recycled
//! blocks (`commit1`) with neither. The fdatasync that follows there has nothing left to write; its time (1/iops less
//! the mean, 1 to 13 % of the whole in these results) is in no percentile, and is not estimated here. docs/verdicts.md
//! has the whole reasoning.
//!
//! It judges nothing: the results are for products that somebody chose to publish, from other tools and machines, and
//! not a sample of what is sold.

use qd1_model::Summary;
use qd1_model::identity::StorageKind;
use qd1_model::op::OpClass;
use qd1_model::order::Order as _;
use qd1_model::reference::{AmongVps, Published, Standing};
use qd1_model::verdict::Impression;

const ROWS: &str = include_str!("reference.tsv");
const VPS: &str = include_str!("reference/vps.tsv");

/// A published result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// `read` or `sync`.
    pub what: &'static str,
    /// The kind of storage.
    pub kind: StorageKind,
    /// The median, ns.
    pub ns: f64,
    /// The product.
    pub product: &'static str,
}

/// Returns all published results.
pub fn rows() -> impl Iterator<Item = Row> {
    ROWS.lines().filter(|line| !line.starts_with('#')).skip(1).filter_map(|line| {
        let mut fields = line.split('\t');
        let (what, kind, us, product) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let kind = StorageKind::ALL.into_iter().find(|known| known.name() == kind)?;
        Some(Row { what, kind, ns: us.parse::<f64>().ok()? * 1e3, product })
    })
}

/// Returns where the disk of a check stands, by reads and by commits, if its figures are the disk's: what is not rated
/// (`impressions`) has no rank.
pub(crate) fn of(summary: &Summary, impressions: &[Impression]) -> Vec<Standing> {
    let is_rated = |requests: &str| impressions.iter().any(|one| one.requests == requests && one.word.is_some());
    let read = summary.stream("qd1", OpClass::Read).and_then(|stream| stream.lat_p50_ns.value);
    let sync = summary.stream("commit1", OpClass::Commit).and_then(|stream| stream.sync_p50_ns?.value);
    [("reads", "read", read), ("commits", "sync", sync)]
        .into_iter()
        .filter(|(requests, ..)| is_rated(requests))
        .filter_map(|(requests, what, median_ns)| Some(standing(requests, what, median_ns?)))
        .collect()
}

/// A virtual machine that was measured, the median of its runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vps {
    /// p99 of a durable append, ns.
    pub p99_ns: f64,
    /// p99.9 of it, ns.
    pub p999_ns: f64,
    /// How often it was measured.
    pub runs: u32,
    /// Provider, product and region.
    pub product: &'static str,
}

/// Returns all virtual machines, each once.
pub fn vps() -> impl Iterator<Item = Vps> {
    VPS.lines().filter(|line| !line.starts_with('#')).skip(1).filter_map(|line| {
        let mut fields = line.split('\t');
        let mut number = || fields.next()?.parse::<f64>().ok();
        let (p99_us, p999_us, runs) = (number()?, number()?, number()?);
        Some(Vps { p99_ns: p99_us * 1e3, p999_ns: p999_us * 1e3, runs: runs as u32, product: fields.next()? })
    })
}

/// Returns how the disk of a check ranks among them, by each figure that it resolved, if its commits are rated.
pub(crate) fn among_vps(summary: &Summary, impressions: &[Impression]) -> Vec<AmongVps> {
    let is_rated = impressions.iter().any(|one| one.requests == "commits" && one.word.is_some());
    let Some(wal) = summary.stream("wal", OpClass::Commit).filter(|_| is_rated) else { return Vec::new() };
    [
        among("lat_p99_ns", wal.lat_p99_ns.value, |vps| vps.p99_ns),
        among("lat_p999_ns", wal.lat_p999_ns.value, |vps| vps.p999_ns),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn among(metric: &str, value_ns: Option<f64>, figure: fn(&Vps) -> f64) -> Option<AmongVps> {
    let value_ns = value_ns?;
    let mut times: Vec<f64> = vps().map(|vps| figure(&vps)).collect();
    times.order_by(f64::total_cmp);
    let (least_ns, most_ns) = (*times.first()?, *times.last()?);
    Some(AmongVps {
        metric: metric.to_owned(),
        value_ns,
        slower: times.iter().filter(|ns| **ns > value_ns).count() as u32,
        of: times.len() as u32,
        least_ns,
        median_ns: times[times.len() / 2],
        most_ns,
    })
}

fn standing(requests: &str, what: &str, median_ns: f64) -> Standing {
    let all: Vec<Row> = rows().filter(|row| row.what == what).collect();
    let kinds = StorageKind::ALL.into_iter().filter_map(|kind| {
        let mut times: Vec<f64> = all.iter().filter(|row| row.kind == kind).map(|row| row.ns).collect();
        times.order_by(f64::total_cmp);
        let (least_ns, most_ns) = (*times.first()?, *times.last()?);
        Some(Published { kind, count: times.len() as u32, least_ns, median_ns: times[times.len() / 2], most_ns })
    });
    Standing {
        requests: requests.to_owned(),
        median_ns,
        slower: all.iter().filter(|row| row.ns > median_ns).count() as u32,
        of: all.len() as u32,
        kinds: kinds.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        let lines = ROWS.lines().filter(|line| !line.starts_with('#')).count() - 1;
        assert_eq!(rows().count(), lines);
        assert_eq!(vps().count(), VPS.lines().filter(|line| !line.starts_with('#')).count() - 1);
    }

    #[test]
    fn a_virtual_machine_counts_once_however_often_it_was_measured() {
        let best = among("lat_p99_ns", Some(1.0), |vps| vps.p99_ns).unwrap();
        assert_eq!((best.slower, best.of), (13, 13));
        assert_eq!(vps().map(|vps| vps.runs).sum::<u32>(), 17);
        // These are slower than 1.2 ms: one of three at Hetzner, netcup, two at OVH, all three at UpCloud, windcloud.
        assert_eq!(among("lat_p99_ns", Some(1.2e6), |vps| vps.p99_ns).unwrap().slower, 8);
        assert!(among("lat_p999_ns", None, |vps| vps.p999_ns).is_none());
    }

    #[test]
    fn a_disk_stands_between_the_slower_and_the_faster() {
        let [first, last] = [standing("reads", "read", 1.0), standing("reads", "read", 1e12)];
        assert_eq!((first.slower, last.slower), (first.of, 0));
        let ordered = |kind: &Published| kind.least_ns <= kind.median_ns && kind.median_ns <= kind.most_ns;
        assert!(first.kinds.len() >= 4 && first.kinds.iter().all(ordered), "{first:?}");
        assert_eq!(first.kinds.iter().map(|kind| kind.count).sum::<u32>(), first.of);
    }
}
