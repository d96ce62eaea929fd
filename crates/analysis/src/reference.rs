//! Where a disk stands among those that others published (`reference.tsv`): reads by their median, commits by that of their
//! sync.
//!
//! It judges nothing: the results are of products that somebody cared to publish, by other tools and on other machines, and
//! no sample of what is sold.

use qd1_model::Summary;
use qd1_model::identity::StorageKind;
use qd1_model::op::OpClass;
use qd1_model::reference::{Published, Standing};
use qd1_model::verdict::Impression;

const ROWS: &str = include_str!("reference.tsv");

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

/// Returns where the disk of a check stands, by reads and by commits, where its figures are the disk's: what is not rated
/// (`impressions`) has no place.
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

fn standing(requests: &str, what: &str, median_ns: f64) -> Standing {
    let all: Vec<Row> = rows().filter(|row| row.what == what).collect();
    let kinds = StorageKind::ALL.into_iter().filter_map(|kind| {
        let mut times: Vec<f64> = all.iter().filter(|row| row.kind == kind).map(|row| row.ns).collect();
        times.sort_by(f64::total_cmp);
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
