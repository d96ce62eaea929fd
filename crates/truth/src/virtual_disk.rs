//! A simulated disk that keeps its state from one probe to the next: buckets stay empty, caches stay full.

use std::sync::Arc;

use qd1_analysis::limits::{Measured, Probe, Procedure};
use qd1_engine::buf::Buffers;
use qd1_engine::sim::Device;
use qd1_engine::{Engine, Op, OpKind, Setup, Slot, Tuning, open};
use qd1_model::OpClass;
use qd1_model::hist::CoarseHist;
use qd1_model::limits::{Direction, Limits};
use qd1_model::plan::EngineKind;
use qd1_model::record::{Interval, IntervalStream};
use rand_core::{RngCore as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

const INTERVAL_NS: u64 = 100_000_000;
/// How often a procedure is asked whether it has seen enough, as in the application.
const LOOK_NS: u64 = 500_000_000;
/// Most requests in flight.
const SLOTS: u32 = 512;
/// Time between the steps of a run, ns: opening files and an engine.
const BETWEEN_NS: u64 = 20_000_000;
/// Size of the addressed region, bytes.
const SPAN: u64 = 1 << 30;

/// A disk in virtual time.
pub struct VirtualDisk {
    engine: Box<dyn Engine>,
    slots: Vec<Slot>,
    rng: Xoshiro256PlusPlus,
    /// Bytes written so far.
    pub written: u64,
}

impl VirtualDisk {
    /// A disk as described by `device`, idle until now.
    ///
    /// # Panics
    /// When there is no memory for one buffer.
    pub fn new(device: Device) -> Self {
        let rng = Xoshiro256PlusPlus::seed_from_u64(device.seed ^ 0x0FF5);
        let buffers = Arc::new(Buffers::new(1, 4096, 1).expect("4 KiB of memory"));
        let (files, tuning) = (Vec::new(), Tuning::default());
        let setup = Setup { files, iodepth: SLOTS, buffers, sim: Some(device), tuning };
        let engine = open(EngineKind::Sim, setup).expect("the simulated engine needs nothing");
        Self { engine, slots: vec![Slot::default(); SLOTS as usize], rng, written: 0 }
    }

    /// Virtual time since the beginning, ns.
    pub fn now_ns(&mut self) -> u64 {
        self.engine.now_ns()
    }

    fn idle(&mut self, ns: u64) {
        let until_ns = self.engine.now_ns() + ns;
        self.engine.reap(&mut self.slots, 1, until_ns, &mut Vec::new()).expect("waiting cannot fail");
    }

    /// Carries out one probe; `enough` may end it.
    pub fn run(&mut self, probe: &Probe, enough: impl Fn(&[Interval]) -> bool) -> Measured {
        self.idle(BETWEEN_NS + probe.pause_ns);
        let started_ns = self.engine.now_ns();
        let mut intervals: Vec<Interval> = Vec::new();
        let (mut amounts, mut look_ns, mut moved) = (<[Amount; 2]>::default(), LOOK_NS, 0u64);
        let (mut free, mut done) = ((0..probe.iodepth.min(SLOTS)).collect::<Vec<u32>>(), Vec::new());
        let (mut in_flight, mut is_over) = (0usize, false);
        loop {
            if !is_over && !free.is_empty() {
                for number in &free {
                    self.slots[*number as usize].op = op(&mut self.rng, probe);
                }
                in_flight += self.engine.submit(&mut self.slots, &free, &mut done).expect("it takes all");
                free.clear();
            }
            if in_flight == 0 {
                break;
            }
            self.engine.reap(&mut self.slots, 1, u64::MAX, &mut done).expect("it never breaks");
            for number in done.drain(..) {
                in_flight -= 1;
                free.push(number);
                let slot = &self.slots[number as usize];
                let at_ns = slot.done.completed_ns - started_ns;
                while at_ns >= (intervals.len() as u64 + 1) * INTERVAL_NS {
                    intervals.push(interval(intervals.len() as u64, &mut amounts));
                }
                let is_write = slot.op.kind == OpKind::Write;
                amounts[usize::from(is_write)].add(slot);
                self.written += if is_write { u64::from(slot.op.len) } else { 0 };
                moved += u64::from(slot.op.len);
                is_over |= at_ns >= probe.max_ns || probe.bytes_max > 0 && moved >= probe.bytes_max;
                if !is_over && at_ns >= look_ns {
                    look_ns = at_ns + LOOK_NS;
                    is_over = enough(&intervals);
                }
            }
        }
        let runtime_ns = self.engine.now_ns() - started_ns;
        // Requests still in flight at the end had no successors: they do not count as throughput.
        let drained = intervals.len().saturating_sub(1);
        intervals.truncate(if moved > 0 { drained } else { 0 });
        Measured { direction: probe.direction, role: probe.role, block: probe.block, started_ns, runtime_ns, intervals }
    }
}

/// Runs a whole procedure on a disk.
pub fn limits_of(disk: &mut VirtualDisk, mut procedure: Procedure) -> (Limits, Procedure) {
    while let Some(probe) = procedure.next() {
        let measured = disk.run(&probe, |intervals| procedure.enough(&probe, intervals));
        procedure.feed(measured);
    }
    (qd1_analysis::limits::conclude(procedure.measured()), procedure)
}

fn op(rng: &mut Xoshiro256PlusPlus, probe: &Probe) -> Op {
    let kind = match probe.direction {
        Direction::Read => OpKind::Read,
        Direction::Write => OpKind::Write,
        Direction::Both if rng.next_u32() & 1 == 0 => OpKind::Read,
        Direction::Both => OpKind::Write,
    };
    let block = u64::from(probe.block);
    Op { kind, file: 0, len: probe.block, offset: rng.next_u64() % (SPAN / block) * block }
}

/// The content of an interval for one kind of request.
#[derive(Default)]
struct Amount {
    ios: u64,
    bytes: u64,
    lat_sum_ns: u64,
    lat_max_ns: u64,
    bins: CoarseHist,
}

impl Amount {
    fn add(&mut self, slot: &Slot) {
        let lat_ns = slot.done.completed_ns - slot.done.issued_ns;
        (self.ios, self.bytes) = (self.ios + 1, self.bytes + u64::from(slot.op.len));
        (self.lat_sum_ns, self.lat_max_ns) = (self.lat_sum_ns + lat_ns, self.lat_max_ns.max(lat_ns));
        self.bins.record(lat_ns);
    }

    /// Returns its content and empties it.
    fn take(&mut self, class: OpClass) -> IntervalStream {
        let Self { ios, bytes, lat_sum_ns, lat_max_ns, .. } = *self;
        let stream = IntervalStream { class, ios, bytes, lat_sum_ns, lat_max_ns, bins: self.bins.sparse() };
        self.bins.clear();
        (self.ios, self.bytes, self.lat_sum_ns, self.lat_max_ns) = (0, 0, 0, 0);
        stream
    }
}

fn interval(number: u64, amounts: &mut [Amount; 2]) -> Interval {
    let classes = [OpClass::Read, OpClass::Write].into_iter().zip(amounts);
    let streams = classes.filter(|(_, amount)| amount.ios > 0).map(|(class, amount)| amount.take(class)).collect();
    Interval { start_ns: number * INTERVAL_NS, length_ns: INTERVAL_NS, streams }
}
