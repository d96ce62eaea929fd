//! Real VPS as disks: their laws are drawn through the percentiles that p99bench published for them (`vps.tsv`).
//!
//! Anything that percentiles cannot express is left out: each request is drawn independently, so that slow ones do not
//! come in bursts, and a disk is as good at depth as with one request. How a durable write divides into write and flush
//! was not published either; here the flush takes all but a microsecond of it, as on a disk with a cache that must be
//! flushed.

use qd1_engine::sim::{Device, Service};

use crate::repeat::Cell;

/// Tab-separated; lines that begin with `#` are remarks, the first other one names the columns.
const ROWS: &str = include_str!("vps.tsv");
const US: f64 = 1e3;
/// How long each was measured, s.
const SECONDS: f64 = 60.0;
/// What a write takes before its flush, ns.
const WRITE_NS: f64 = 1e3;

/// One result.
#[derive(Clone, Debug)]
pub struct Vps {
    /// An anonymous name of the machine, the same in measurements at different hours.
    pub host: &'static str,
    /// Provider, product and region.
    pub product: &'static str,
    /// When it was measured, UTC.
    pub utc: &'static str,
    /// Durable writes, one at a time.
    pub wal: Figures,
    /// Reads, one at a time.
    pub read: Figures,
}

/// Latencies of one kind of request, ns.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Requests per second.
    pub iops: f64,
    /// Mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: f64,
    /// p99.
    pub p99_ns: f64,
    /// p99.9.
    pub p999_ns: f64,
    /// The longest of a minute, where it was published.
    pub max_ns: Option<f64>,
}

impl Figures {
    /// The law through them. It begins where its mean becomes the published one; the longest request has probability
    /// one over the number of requests.
    #[must_use]
    pub fn law(&self) -> Service {
        let longest = self.max_ns.map(|ns| (1.0 - 1.0 / (self.iops * SECONDS), ns));
        let known = [(0.5, self.p50_ns), (0.99, self.p99_ns), (0.999, self.p999_ns)].into_iter().chain(longest);
        let from = |least_ns: f64| {
            Service::through(std::iter::once((0.0, least_ns)).chain(known.clone()).collect::<Vec<(f64, f64)>>())
        };
        // Bisection on the logarithm: the later it begins, the longer the mean.
        let (mut low, mut high) = ((self.p50_ns / 100.0).ln(), self.p50_ns.ln());
        for _ in 0..50 {
            let middle = f64::midpoint(low, high);
            if mean_ns(&from(middle.exp())) < self.mean_ns { low = middle } else { high = middle }
        }
        from(low.exp())
    }
}

/// The mean of a law through points, ns: from one to the next ln t is a + b x with x = -ln(1 - p), whose density is
/// exp(-x).
fn mean_ns(law: &Service) -> f64 {
    let depth = |p: f64| -(1.0 - p).ln();
    let between = |pair: &[(f64, f64)]| {
        let [(low, low_ns), (high, high_ns)] = [pair[0], pair[1]];
        let (from, to) = (depth(low), depth(high));
        let slope = (high_ns / low_ns).ln() / (to - from);
        let steepness = slope - 1.0;
        let integral =
            if steepness.abs() < 1e-9 { to - from } else { ((steepness * (to - from)).exp() - 1.0) / steepness };
        low_ns * (-from).exp() * integral
    };
    let beyond = law.quantiles.last().map_or(0.0, |(p, ns)| (1.0 - p) * ns);
    law.quantiles.windows(2).map(between).sum::<f64>() + beyond
}

/// All results.
///
/// # Panics
/// On a malformed row, which a test would have shown.
#[must_use]
pub fn all() -> Vec<Vps> {
    ROWS.lines().filter(|line| !line.starts_with('#')).skip(1).map(row).collect()
}

fn row(line: &'static str) -> Vps {
    let fields: Vec<&'static str> = line.split('\t').collect();
    let [host, product, utc, ..] = fields[..] else { panic!("{line:?} is too short") };
    let figures: Vec<f64> = fields[3..].iter().map(|text| text.parse().expect("a number")).collect();
    let [iops, mean, p50, p99, p999, max, read_iops, read_p50, read_p99, read_p999] = figures[..] else {
        panic!("{line:?} has {} figures", figures.len())
    };
    let wal = Figures {
        iops,
        mean_ns: mean * US,
        p50_ns: p50 * US,
        p99_ns: p99 * US,
        p999_ns: p999 * US,
        max_ns: Some(max * US),
    };
    let read = Figures {
        iops: read_iops,
        mean_ns: 1e9 / read_iops,
        p50_ns: read_p50 * US,
        p99_ns: read_p99 * US,
        p999_ns: read_p999 * US,
        max_ns: None,
    };
    Vps { host, product, utc, wal, read }
}

/// The disk of one.
#[must_use]
pub fn device(vps: &Vps) -> Device {
    Device {
        read: vps.read.law(),
        write: Service::log_normal(WRITE_NS, 0.0),
        flush: vps.wal.law(),
        ..Device::default()
    }
}

/// A disk for each result.
#[must_use]
pub fn cells() -> Vec<Cell> {
    let all = all();
    let cell = |vps: &Vps| {
        let is_repeated = all.iter().filter(|other| other.host == vps.host).count() > 1;
        let short: Vec<&str> =
            vps.product.split(' ').map(|word| word.split("-storage").next().unwrap_or(word)).collect();
        let name = short.join(" ");
        let name = if is_repeated { format!("{name} {}", &vps.utc[5..]) } else { name };
        Cell::of(&name, device(vps))
    };
    all.iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seeds;
    use crate::parallel::each;
    use crate::repeat::{measured, planned};
    use qd1_analysis::analyse;
    use qd1_engine::sim::State;
    use qd1_engine::{Op, OpKind};
    use qd1_model::op::OpClass;
    use qd1_model::spec::Effort;
    use qd1_model::verdict::Thresholds;
    use qd1_model::{Grade, Report};

    /// Healthy up to here, and too slow beyond there, ns: etcd's p99 of a sync.
    const HEALTHY_NS: f64 = 2e6;
    const CEILING_NS: f64 = 10e6;
    /// A short check cannot distinguish published figures this close to a bound, relatively, from the bound.
    const NEAR: f64 = 0.1;

    /// The figures of a disk's commits on their own, one after another.
    fn commits(device: &Device, count: usize) -> Vec<f64> {
        let mut state = State::new(device.clone());
        let mut now_ns = 0.0;
        let mut one = || {
            let began_ns = now_ns;
            for (kind, len) in [(OpKind::Write, 8192), (OpKind::Fdatasync, 0)] {
                now_ns = state.complete_ns(&Op { kind, file: 0, len, offset: 0 }, now_ns);
            }
            now_ns - began_ns
        };
        let mut times: Vec<f64> = (0..count).map(|_| one()).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    #[test]
    fn commits_of_these_disks_take_as_long_as_was_published() {
        for vps in all() {
            let times = commits(&device(&vps), 200_000);
            let mean_ns = times.iter().sum::<f64>() / times.len() as f64;
            let quantile = |q: f64| times[(q * times.len() as f64) as usize];
            for (what, value, published, within) in [
                ("mean", mean_ns, vps.wal.mean_ns, 0.05),
                ("p50", quantile(0.5), vps.wal.p50_ns, 0.05),
                ("p99", quantile(0.99), vps.wal.p99_ns, 0.15),
                ("p99.9", quantile(0.999), vps.wal.p999_ns, 0.25),
            ] {
                let off = value / published - 1.0;
                assert!(off.abs() <= within, "{} {}: {what} is off by {off:.3}", vps.product, vps.utc);
            }
        }
    }

    fn by_bounds(ns: f64) -> Grade {
        if ns <= HEALTHY_NS {
            Grade::Pass
        } else if ns <= CEILING_NS {
            Grade::Marginal
        } else {
            Grade::Fail
        }
    }

    /// A check of each, by etcd's p99. There are also criteria about stalls, which may leave the class open but not
    /// reverse it.
    #[test]
    fn a_check_grades_real_vps_as_their_published_p99_does() {
        let thresholds: Thresholds = toml::from_str(include_str!("../../suites/src/thresholds.toml"))
            .expect("the thresholds that ship are valid");
        let (all, cells, planned) = (all(), cells(), planned(Effort::Default));
        let of =
            |number: u64| analyse(measured(&cells[number as usize], &planned, Seeds::Tuning.seed(number)), &thresholds);
        let reports: Vec<Report> = each(0..all.len() as u64, of);
        let (mut of_p99, mut of_class) = (0, 0);
        for (vps, report) in all.iter().zip(&reports) {
            let verdict = report.verdicts.iter().find(|verdict| verdict.class == "etcd").expect("it ships");
            let judged = verdict.judged.iter().find(|judged| judged.criterion.metric == "sync_p99_ns");
            let grade = judged.expect("etcd has a bound of it").grade;
            let right = by_bounds(vps.wal.p99_ns);
            let name = format!("{} {}: p99 {:.2} ms", vps.product, vps.utc, vps.wal.p99_ns / 1e6);
            let may_be = [1.0 - NEAR, 1.0, 1.0 + NEAR].map(|factor| by_bounds(vps.wal.p99_ns * factor));
            assert!(may_be.contains(&grade), "{name} is {grade:?}");
            assert!(
                may_be.contains(&verdict.grade) || verdict.grade == Grade::NotResolved,
                "{name} is {:?}",
                verdict.grade
            );
            of_p99 += usize::from(grade == right);
            of_class += usize::from(verdict.grade == right);
            let wal = report.summary.stream("wal", OpClass::Commit).expect("it ran");
            let off = wal.lat_p50_ns.value.expect("a median needs little") / vps.wal.p50_ns - 1.0;
            assert!(off.abs() < 0.05, "{name}: the median is off by {off:.3}");
        }
        assert!(of_p99 >= 14, "{of_p99} of 17 by p99 alone; it was 14, and three are within 8 % of 2 ms");
        assert!(of_class >= 12, "{of_class} of 17 of the class; it was 14");
    }

    #[test]
    fn check_compares_with_hosts_by_the_median_of_their_runs() {
        let median = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let all = all();
        let mut hosts: Vec<&str> = all.iter().map(|vps| vps.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let known: Vec<_> = qd1_analysis::reference::vps().collect();
        assert_eq!(known.len(), hosts.len());
        for host in hosts {
            let runs: Vec<&Vps> = all.iter().filter(|vps| vps.host == host).collect();
            let of = |figure: fn(&Vps) -> f64| median(runs.iter().map(|vps| figure(vps)).collect());
            let (p99_ns, p999_ns) = (of(|vps| vps.wal.p99_ns), of(|vps| vps.wal.p999_ns));
            let is_it = |row: &&qd1_analysis::reference::Vps| {
                let near = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;
                row.product == runs[0].product && near(row.p99_ns, p99_ns) && near(row.p999_ns, p999_ns)
            };
            let row = known.iter().find(is_it);
            assert!(row.is_some_and(|row| row.runs as usize == runs.len()), "{host}");
        }
    }
}
