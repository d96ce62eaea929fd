//! What to measure next: a pure state machine, so that the same procedure runs on disks and on simulated ones.
//!
//! For reads and for writes: 4 KiB at random (requests), then 256 KiB in sequence (bytes); each repeated immediately at
//! another block size and at twice the depth, while the bucket is still empty, and, if it looks like a limit and the
//! end of a burst was seen, once more after a pause, for the refill. For half reads and half writes only the two
//! themselves. Small requests come first: large ones at a disk's full speed would drain a bucket of requests unnoticed.

use qd1_model::limits::{Direction, Quantity};
use qd1_model::record::Interval;

use super::conclude::{Measured, is_candidate};
use super::fingerprint::is_flat;
use super::probe::{Probe, Role};
use super::series::{Fit, Series};

const SECOND_NS: u64 = 1_000_000_000;
/// Small requests: constrained by a limit on requests.
const SMALL: u32 = 4096;
/// Another small size: equally cheap for a limiter of requests, but not for a disk.
const SMALL_OTHER: u32 = 16 << 10;
/// Large requests: constrained by a limit on bytes. Those of 1 MiB are split by many devices, and io_uring's then count
/// twice under a limit set by a cgroup (docs/method.md); AWS counts larger ones as several.
const LARGE: u32 = 256 << 10;
/// Requests in flight: enough for 20,000 requests a second at 5 ms.
const SMALL_DEPTH: u32 = 128;
const LARGE_DEPTH: u32 = 64;
/// A level that lasts this long is the sustained rate, s.
const SETTLED_S: f64 = 4.0;
/// And its relative uncertainty is at most this.
const PRECISION: f64 = 0.004;

/// The user's options.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Directions to measure: only reads if the target may not be written.
    pub directions: Vec<Direction>,
    /// Shortest time of a main probe, ns: a burst that lasts longer is not seen.
    pub look_ns: u64,
    /// Longest time of a main probe, ns.
    pub longest_ns: u64,
    /// Most bytes of a main probe that writes.
    pub writes_max: u64,
    /// Smallest request that direct I/O allows here, bytes.
    pub align: u32,
}

impl Options {
    /// Two minutes on an unthrottled disk, and less than 20 GB written to it.
    pub fn brief(directions: Vec<Direction>, align: u32) -> Self {
        Self { directions, look_ns: 5 * SECOND_NS, longest_ns: 12 * SECOND_NS, writes_max: 3 << 30, align }
    }

    /// Looks `look_ns` for the end of a burst, and for as long again at what follows it.
    pub fn burst(directions: Vec<Direction>, align: u32, look_ns: u64) -> Self {
        let look_ns = look_ns.max(5 * SECOND_NS);
        Self { directions, look_ns, longest_ns: look_ns.max(10 * SECOND_NS) * 2, writes_max: 64 << 30, align }
    }
}

/// The procedure.
#[derive(Clone, Debug)]
pub struct Procedure {
    options: Options,
    done: Vec<Measured>,
}

impl Procedure {
    /// Starts the procedure.
    pub fn new(options: Options) -> Self {
        Self { options, done: Vec::new() }
    }

    /// Results so far.
    pub fn measured(&self) -> &[Measured] {
        &self.done
    }

    /// Takes the result of a probe. The next probe depends on all results.
    pub fn feed(&mut self, measured: Measured) {
        debug_assert!(
            self.of(measured.direction, measured.role).is_none(),
            "next() names each probe once, so each has one result"
        );
        self.done.push(measured);
    }

    /// Returns the next probe; nothing when everything is known.
    pub fn next(&self) -> Option<Probe> {
        self.options.directions.iter().find_map(|direction| {
            let direction = *direction;
            let groups = [
                [Role::Small, Role::SmallSize, Role::SmallDepth, Role::SmallRefill],
                [Role::Large, Role::LargeSize, Role::LargeDepth, Role::LargeRefill],
            ];
            let missing = |role: Role| self.of(direction, role).is_none();
            groups.into_iter().find_map(|[main, size, depth, refill]| {
                if missing(main) {
                    return Some(self.main(direction, main));
                }
                if direction == Direction::Both {
                    return None;
                }
                let check = [size, depth].into_iter().find(|role| missing(*role));
                check.map(|role| self.check(direction, role)).or_else(|| {
                    let is_wanted = missing(refill) && is_candidate(&self.done, direction, main);
                    if is_wanted { self.refill(direction, main, refill) } else { None }
                })
            })
        })
    }

    /// Returns the probes that a disk without limits or bursts gets, for a plan shown beforehand.
    pub fn outline(&self) -> Vec<Probe> {
        let roles = [Role::Small, Role::SmallSize, Role::SmallDepth, Role::Large, Role::LargeSize, Role::LargeDepth];
        let of = |direction: &Direction| {
            let direction = *direction;
            let is_wanted = move |role: &Role| role.is_main() || direction != Direction::Both;
            roles.into_iter().filter(is_wanted).map(move |role| (direction, role))
        };
        let probe = |(direction, role): (Direction, Role)| {
            if role.is_main() { self.main(direction, role) } else { self.check(direction, role) }
        };
        self.options.directions.iter().flat_map(of).map(probe).collect()
    }

    /// Whether a running probe has seen enough.
    pub fn enough(&self, probe: &Probe, intervals: &[Interval]) -> bool {
        let elapsed_ns = intervals.last().map_or(0, |interval| interval.start_ns + interval.length_ns);
        let series = Series::new(intervals, probe.role.quantity(), probe.block);
        match probe.role {
            Role::Large | Role::Small => {
                if elapsed_ns < self.options.look_ns {
                    return false;
                }
                let settled = series.settled(SETTLED_S.min(self.options.look_ns as f64 * 0.7e-9), PRECISION);
                // If no burst ended, looking longer would not end it either.
                let is_vain =
                    elapsed_ns >= self.options.look_ns * 3 / 2 && series.fit().is_some_and(|fit| fit.burst.is_none());
                settled || is_vain
            }
            Role::LargeRefill | Role::SmallRefill => {
                let main = if probe.role == Role::LargeRefill { Role::Large } else { Role::Small };
                let Some(known) = self.fit(probe.direction, main) else { return true };
                let is_back = |fit: Fit| {
                    fit.burst.is_some()
                        && fit.sustained.seconds >= 3.0
                        && (fit.sustained.rate / known.sustained.rate - 1.0).abs() < 0.03
                };
                elapsed_ns >= 4 * SECOND_NS && series.fit().is_some_and(is_back)
            }
            role => {
                // What returned to the bucket in the meantime has to be used up first.
                let main = if role.quantity() == Quantity::Bytes { Role::Large } else { Role::Small };
                let in_burst = self.fit(probe.direction, main).is_some_and(|main| {
                    main.burst.is_some()
                        && Series::new(intervals, Quantity::Requests, probe.block).fit().is_none_or(|fit| {
                            let block = f64::from(if role.quantity() == Quantity::Bytes { probe.block } else { 1 });
                            fit.sustained.rate * block > main.sustained.rate * 1.02
                        })
                });
                let least_ns = self.check_ns(probe.direction, main);
                let is_late = self.is_brief() && elapsed_ns >= least_ns + SECOND_NS;
                is_late || elapsed_ns >= least_ns && !in_burst && series.settled(1.5, PRECISION)
            }
        }
    }

    fn of(&self, direction: Direction, role: Role) -> Option<&Measured> {
        self.done.iter().find(|measured| measured.direction == direction && measured.role == role)
    }

    fn fit(&self, direction: Direction, role: Role) -> Option<Fit> {
        self.of(direction, role).and_then(Measured::fit)
    }

    fn main(&self, direction: Direction, role: Role) -> Probe {
        let is_large = role == Role::Large;
        Probe {
            direction,
            role,
            block: if is_large { LARGE } else { SMALL },
            iodepth: if is_large { LARGE_DEPTH } else { SMALL_DEPTH },
            sequential: is_large,
            pause_ns: 0,
            max_ns: self.options.longest_ns,
            bytes_max: if direction == Direction::Read { 0 } else { self.options.writes_max },
        }
    }

    /// The main probe again after a pause in which about half of the bucket refills; nothing if no burst ended or the
    /// bucket fills within a second.
    fn refill(&self, direction: Direction, main: Role, role: Role) -> Option<Probe> {
        let fit = self.fit(direction, main)?;
        let burst = fit.burst?;
        let longest_s = if self.is_brief() { 4.0 } else { 20.0 };
        let pause_s = (0.5 * burst.volume.0 / fit.sustained.rate).min(longest_s);
        let drains_s = pause_s * fit.sustained.rate / (burst.level.rate - fit.sustained.rate).max(1e-9);
        let max_ns = ((drains_s * 1.5 + 12.0) * 1e9) as u64;
        let is_worth_it = pause_s >= 0.5 && max_ns <= self.options.longest_ns * 2;
        let base = self.main(direction, main);
        is_worth_it.then_some(Probe { role, pause_ns: (pause_s * 1e9) as u64, max_ns, ..base })
    }

    fn check(&self, direction: Direction, role: Role) -> Probe {
        let main = if role.quantity() == Quantity::Bytes { Role::Large } else { Role::Small };
        // Brief ones end long before; a step's intervals are a hundredth of this, and should be as long as a slice.
        let max_ns = if self.is_brief() { 10 * SECOND_NS } else { 30 * SECOND_NS };
        let base = Probe { role, max_ns, ..self.main(direction, main) };
        let bytes_max = base.bytes_max * 2 / 3;
        match role {
            Role::LargeDepth | Role::SmallDepth => Probe { iodepth: base.iodepth * 2, bytes_max, ..base },
            Role::LargeSize => {
                let block = self.large_size(direction);
                Probe { block, bytes_max, iodepth: (LARGE_DEPTH * (LARGE / 1024) / (block / 1024)).min(512), ..base }
            }
            _ => Probe { block: SMALL_OTHER, bytes_max, ..base },
        }
    }

    /// Shortest time of a check. If the count looks like a limiter's it is longer: some work in slices of 100 ms, and
    /// one slice more or less in two seconds is 5 %. A disk that has no limit seldom needs it.
    fn check_ns(&self, direction: Direction, main: Role) -> u64 {
        let is_flat = |fit: Fit| is_flat(&fit.sustained, main.quantity());
        if self.fit(direction, main).is_some_and(is_flat) { 5 * SECOND_NS } else { 3 * SECOND_NS }
    }

    fn is_brief(&self) -> bool {
        self.options.look_ns < 20 * SECOND_NS
    }

    /// Block size at which both limits, as far as known, would bind equally.
    fn crossover(&self, direction: Direction) -> f64 {
        let rate = |role| self.fit(direction, role).map(|fit| fit.sustained.rate);
        match (rate(Role::Large), rate(Role::Small)) {
            (Some(bytes), Some(requests)) if requests > 0.0 => bytes / requests,
            _ => f64::INFINITY,
        }
    }

    /// Another size at which the limit on bytes should still bind: the smallest, since there a disk's own cost of each
    /// request shows most.
    fn large_size(&self, direction: Direction) -> u32 {
        let crossover = self.crossover(direction);
        let sizes = [16, 32, 48, 64, 96, 128].map(|kib: u32| kib << 10);
        sizes.into_iter().find(|size| f64::from(*size) > crossover * 1.15).unwrap_or(512 << 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outline_writes_less_than_twenty_gigabytes_and_a_file() {
        let outline = Procedure::new(Options::brief(Direction::ALL.to_vec(), 512)).outline();
        let written = |probe: &Probe| match probe.direction {
            Direction::Read => 0,
            Direction::Write => probe.bytes_max,
            Direction::Both => probe.bytes_max / 2,
        };
        let all: u64 = outline.iter().map(written).sum();
        assert!(all + (512 << 20) < 20_000_000_000, "{all}");
        assert!(outline.iter().all(|probe| probe.direction == Direction::Read || probe.bytes_max > 0));
    }

    #[test]
    fn a_target_that_is_only_read_gets_no_probe_that_writes() {
        let outline = Procedure::new(Options::brief(vec![Direction::Read], 512)).outline();
        assert!(outline.len() == 6 && outline.iter().all(|probe| probe.direction == Direction::Read));
    }

    #[test]
    fn a_name_says_what_a_probe_was_for() {
        for probe in Procedure::new(Options::brief(Direction::ALL.to_vec(), 512)).outline() {
            assert_eq!(Probe::parse(&probe.name()), Some((probe.direction, probe.role)));
        }
        assert_eq!(Probe::parse("read32"), None);
    }

    #[test]
    fn probes_that_brought_nothing_do_not_make_it_go_on_for_ever() {
        let mut procedure = Procedure::new(Options::brief(Direction::ALL.to_vec(), 512));
        let mut count = 0;
        while let Some(probe) = procedure.next() {
            let (direction, role, block) = (probe.direction, probe.role, probe.block);
            procedure.feed(Measured { direction, role, block, started_ns: 0, runtime_ns: 0, intervals: Vec::new() });
            count += 1;
        }
        assert_eq!(count, 14);
        assert!(super::super::conclude(procedure.measured()).limits.is_empty());
    }
}
