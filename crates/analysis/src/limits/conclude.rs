//! Conclusions from the probes: limits with their evidence, or "at least".

use qd1_model::Bytes;
use qd1_model::Estimate;
use qd1_model::limits::{Binding, Burst, Direction, Evidence, Limit, Limits, Quantity};
use qd1_model::plan::{StepPlan, Work};
use qd1_model::record::{Interval, Record, StepRecord};

use super::fingerprint;
use super::probe::{Probe, Role};
use super::series::{BurstFit, Fit, Series};
use super::tiers;

/// Two rates are the same when they differ by no more than this beyond their own uncertainty.
const SAME: f64 = 0.012;
/// Figures that together are less certain than this prove nothing by agreeing.
const UNSURE: f64 = 0.06;
/// Block sizes of the table of what binds where.
const SIZES: [u64; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// The result of a probe.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Which requests.
    pub direction: Direction,
    /// Its purpose.
    pub role: Role,
    /// Block size, bytes.
    pub block: u32,
    /// When it began, ns of the run.
    pub started_ns: u64,
    /// How long it took, ns.
    pub runtime_ns: u64,
    /// What happened.
    pub intervals: Vec<Interval>,
}

impl Measured {
    /// From a step of a Record; `None` for steps of other procedures.
    pub fn of(plan: &StepPlan, step: &StepRecord) -> Option<Self> {
        let (direction, role) = Probe::parse(&step.name)?;
        let Work::Io(work) = &plan.work else { return None };
        Some(Self {
            direction,
            role,
            block: work.block_max(),
            started_ns: step.started_ns,
            runtime_ns: step.runtime_ns,
            intervals: before_the_end(&step.intervals, u64::from(work.iodepth) * u64::from(work.numjobs)).to_vec(),
        })
    }

    /// The token bucket that fits it.
    pub fn fit(&self) -> Option<Fit> {
        self.fit_of(self.role.quantity())
    }

    fn fit_of(&self, quantity: Quantity) -> Option<Fit> {
        Series::new(&self.intervals, quantity, self.block).fit()
    }

    /// Requests per second.
    fn iops(&self) -> Option<(f64, f64)> {
        let level = self.fit_of(Quantity::Requests)?.sustained;
        Some((level.rate, level.half / level.rate.max(1e-9)))
    }
}

/// The intervals before a step began to end: its last `in_flight` requests have no successors, so they do not count as
/// throughput, and for a long time only the slowest of them may arrive.
fn before_the_end(intervals: &[Interval], in_flight: u64) -> &[Interval] {
    let of = |interval: &Interval| interval.streams.iter().map(|stream| stream.ios).sum::<u64>();
    let total: u64 = intervals.iter().map(of).sum();
    let mut count = 0;
    let before = intervals.iter().take_while(|interval| {
        count += of(interval);
        count + in_flight <= total
    });
    // There are so few requests that most are among the last, so all of them are needed.
    let enough = before.count().max(intervals.len() / 2);
    &intervals[..enough.min(intervals.len().saturating_sub(1))]
}

/// Concludes limits from a Record of the procedure, including a stored one.
#[must_use]
pub fn of_record(record: &Record) -> Limits {
    let steps = record.plan.steps.iter().zip(&record.steps);
    conclude(&steps.filter_map(|(plan, step)| Measured::of(plan, step)).collect::<Vec<_>>())
}

/// Concludes limits from the results of all probes.
#[must_use]
pub fn conclude(measured: &[Measured]) -> Limits {
    let mut limits = Limits::default();
    for direction in Direction::ALL {
        let of: Vec<&Measured> = measured.iter().filter(|one| one.direction == direction).collect();
        let find = |role: Role| of.iter().find(|one| one.role == role).copied();
        for (main, refill) in [(Role::Small, Role::SmallRefill), (Role::Large, Role::LargeRefill)] {
            let Some(main) = find(main) else { continue };
            let Some(fit) = main.fit() else { continue };
            let mut evidence = match direction {
                Direction::Both => evidence_of_sum(&limits, main, &fit),
                _ => evidence_for(&of, main, &fit),
            };
            let reached = !evidence.is_empty() && evidence.iter().all(|evidence| evidence.speaks_for);
            if reached {
                evidence.extend(fingerprint::of(main.role.quantity(), &fit, &main.intervals));
            }
            limits.limits.push(Limit {
                direction,
                quantity: main.role.quantity(),
                reached,
                sustained: fit.sustained.estimate(),
                watched_ns: (fit.sustained.seconds * 1e9) as u64,
                block: Bytes(u64::from(main.block)),
                burst: if reached { burst(&of, main, &fit, find(refill)) } else { None },
                evidence,
            });
        }
        bindings(&mut limits, direction, &of);
    }
    limits.shared = shared(&limits);
    limits.tiers = tiers::matches(&limits);
    limits
}

/// Evidence for and against a limit on reads or writes.
fn evidence_for(of: &[&Measured], main: &Measured, fit: &Fit) -> Vec<Evidence> {
    let find = |role: Role| of.iter().find(|one| one.role == role).copied();
    let quantity = main.role.quantity();
    let (size, depth, other) = match quantity {
        Quantity::Bytes => (Role::LargeSize, Role::LargeDepth, Role::Small),
        Quantity::Requests => (Role::SmallSize, Role::SmallDepth, Role::Large),
    };
    let Some((rate, error)) = main.iops() else { return Vec::new() };
    let mut evidence = Vec::new();
    let mut add = |id: &str, speaks_for: bool, text: String| {
        evidence.push(Evidence { id: id.to_owned(), speaks_for, text });
    };
    if let Some(other) = find(other)
        && let (Some((there, there_error)), Some(wide)) = (other.iops(), find(Role::Large).and_then(Measured::fit))
    {
        // Requests also bind at 256 KiB, or bytes at 4 KiB: this quantity was not the one that held it back.
        let ratio = match quantity {
            Quantity::Bytes => rate / there,
            Quantity::Requests => rate * f64::from(main.block) / wide.sustained.rate,
        };
        if (ratio - 1.0).abs() <= 2.0 * SAME + error + there_error {
            let why = match quantity {
                Quantity::Bytes => "the limit on requests per second binds at this size too",
                Quantity::Requests => "the limit on bytes per second binds at this size too",
            };
            add("other_limit_binds", false, why.to_owned());
        }
    }
    if let Some(check) = find(depth)
        && let Some((there, there_error)) = check.iops()
    {
        let change = there / rate - 1.0;
        // If latency were the limit, throughput would rise. A fall is an effect of the disk or machine, and not
        // evidence either way.
        let unsure = error + there_error;
        let is_same = change + unsure <= SAME || change <= SAME + unsure && unsure <= UNSURE;
        add("same_at_other_depth", is_same, format!("{:+.1} % at twice the depth", change * 100.0));
    }
    if let Some(check) = find(size)
        && let (Some((there, there_error)), Some(small), Some(large)) =
            (check.iops(), find(Role::Small).and_then(Measured::fit), find(Role::Large).and_then(Measured::fit))
    {
        let expected = small.sustained.rate.min(large.sustained.rate / f64::from(check.block));
        let change = there / expected - 1.0;
        let is_same = change.abs() <= SAME + error + there_error && error + there_error <= UNSURE;
        let block = Bytes(u64::from(check.block));
        add(
            "same_at_other_size",
            is_same,
            format!("{:+.1} % compared with what the limits allow at {block}", change * 100.0),
        );
    }
    for (id, role) in [("same_at_other_size", size), ("same_at_other_depth", depth)] {
        // A test that could not be made because a fast disk finished too soon is not evidence.
        if !evidence.iter().any(|one| one.id == id) {
            let text = if find(role).is_some() { "too short to tell" } else { "not measured" };
            evidence.push(Evidence { id: id.to_owned(), speaks_for: false, text: text.to_owned() });
        }
    }
    evidence.push(fingerprint::pinned(&fit.sustained, quantity));
    evidence
}

/// Reads and writes together: limited if their sum is what the limit of one direction, or both limits, would allow.
fn evidence_of_sum(limits: &Limits, main: &Measured, fit: &Fit) -> Vec<Evidence> {
    let quantity = main.role.quantity();
    let of =
        |direction| limits.get(direction, quantity).and_then(|limit| Some((limit.sustained.value?, limit.reached)));
    let known = |direction| of(direction).filter(|(_, reached)| *reached).map(|(rate, _)| rate);
    let sum = fit.sustained;
    let (read, write) = (known(Direction::Read), known(Direction::Write));
    // Whether a request is a read is random, so the sum of two budgets is less certain than either.
    let same = (2.0 * SAME + sum.half / sum.rate.max(1e-9)).min(UNSURE);
    let is = |expected: Option<f64>| expected.is_some_and(|expected| (sum.rate / expected - 1.0).abs() <= same);
    let lower = of(Direction::Read).zip(of(Direction::Write)).map(|(a, b)| if a.0 <= b.0 { a } else { b });
    let separate = lower.filter(|(_, reached)| *reached).map(|(rate, _)| 2.0 * rate);
    let evidence =
        |id: &str, speaks_for, text: &str| vec![Evidence { id: id.to_owned(), speaks_for, text: text.to_owned() }];
    if is(read) || is(write) {
        evidence("shared_budget", true, "reads and writes together get as much as one of them alone")
    } else if is(separate) {
        evidence("separate_budgets", true, "half reads and half writes get twice the lower of their limits")
    } else {
        evidence("no_known_sum", false, "the limits of reads and of writes do not explain the sum")
    }
}

/// Whether a refill is worth measuring: all tests made so far indicate a limit.
pub(super) fn is_candidate(measured: &[Measured], direction: Direction, role: Role) -> bool {
    let of: Vec<&Measured> = measured.iter().filter(|one| one.direction == direction).collect();
    let Some(main) = of.iter().find(|one| one.role == role).copied() else { return false };
    let Some(fit) = main.fit() else { return false };
    // Before large requests are measured, the expected rate at another size is not known.
    let is_early = !of.iter().any(|one| one.role == Role::Large);
    evidence_for(&of, main, &fit).iter().all(|one| one.speaks_for || is_early && one.id == "same_at_other_size")
}

fn burst(of: &[&Measured], main: &Measured, fit: &Fit, again: Option<&Measured>) -> Option<Burst> {
    // The bucket was full for the first step that emptied it, which may have sent other requests.
    let is_before = |one: &&&Measured| one.started_ns <= main.started_ns;
    let first = of.iter().filter(is_before).find_map(|one| {
        let there = one.fit_of(main.role.quantity())?;
        let is_same = (there.sustained.rate / fit.sustained.rate - 1.0).abs() <= 2.0 * SAME;
        there.burst.filter(|_| is_same)
    });
    let burst = first.or(fit.burst)?;
    let volume = burst.volume.0;
    let refill = again.and_then(|again| {
        let at = of.iter().position(|one| one.role == again.role)?;
        let before = of.get(at.checked_sub(1)?)?;
        let idle_s = again.started_ns.checked_sub(before.started_ns + before.runtime_ns)? as f64 / 1e9;
        let (back, half) = again.fit()?.burst?.volume;
        // A full bucket shows only that it filled up in time.
        (idle_s > 0.0 && back < 0.9 * volume).then(|| figure(back / idle_s, half / idle_s, burst.level.n))
    });
    Some(burst_of(&burst, refill))
}

fn burst_of(burst: &BurstFit, refill: Option<Estimate>) -> Burst {
    Burst {
        volume: figure(burst.volume.0, burst.volume.1, burst.level.n),
        rate: burst.level.estimate(),
        lasted_ns: (burst.seconds * 1e9) as u64,
        refill,
    }
}

fn figure(value: f64, half: f64, n: usize) -> Estimate {
    let (low, high) = (Some((value - half).max(0.0)), Some(value + half));
    Estimate { value: Some(value), low, high, n: n as u64, n_effective: n as f64, n_needed: 0 }
}

/// Which limit decides at which size, from the limits reached.
fn bindings(limits: &mut Limits, direction: Direction, of: &[&Measured]) {
    let rate = |quantity| {
        limits.get(direction, quantity).filter(|limit| limit.reached).and_then(|limit| limit.sustained.value)
    };
    let (requests, bytes) = (rate(Quantity::Requests), rate(Quantity::Bytes));
    let mut rows = Vec::new();
    for size in SIZES {
        let own = of.iter().find(|one| u64::from(one.block) == size).and_then(|one| one.iops());
        let allowed =
            [requests.map(|rate| (rate, Quantity::Requests)), bytes.map(|rate| (rate / size as f64, Quantity::Bytes))];
        let strictest = allowed.into_iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0));
        let block = Bytes(size);
        match (strictest, own) {
            // A rate below a limit is that of the disk, not of the limit.
            (Some((iops, _)), Some((measured, _))) if measured < iops * 0.95 => {
                rows.push(Binding { direction, block, by: None, iops: measured, measured: true });
            }
            (Some((_, by)), Some((measured, _))) => {
                rows.push(Binding { direction, block, by: Some(by), iops: measured, measured: true });
            }
            (Some((iops, by)), None) => rows.push(Binding { direction, block, by: Some(by), iops, measured: false }),
            (None, Some((measured, _))) => {
                rows.push(Binding { direction, block, by: None, iops: measured, measured: true });
            }
            (None, None) => {}
        }
    }
    limits.binding.extend(rows);
}

/// Whether reads and writes draw on one budget, according to the probes of both.
fn shared(limits: &Limits) -> Option<bool> {
    let says = |id: &str| {
        let both = limits.limits.iter().filter(|limit| limit.direction == Direction::Both);
        both.flat_map(|limit| &limit.evidence).any(|evidence| evidence.id == id)
    };
    match (says("shared_budget"), says("separate_budgets")) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    }
}
