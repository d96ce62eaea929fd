//! The model of a device: its parameters, and the law by which each request's completion follows from them.
//!
//! `channels` servers share a queue; each request takes a draw from a mixture of modes plus a time per byte; token
//! buckets for IOPS and bytes delay it; periodic stalls stop everything; a write cache acknowledges early and drains at
//! its own rate, and a flush waits for it. Wajahat et al. (Performance Evaluation 142, 2020) find a two-phase
//! hyper-exponential fits storage best; modes may be exponential, and two log-normal ones are that irregular too.

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::draw::{Service, draw_bytes};
use super::layers::{LayerOutcome, Layers, LayersState};
use super::noise::{Link, NeighbourLoad, Neighbours, Phases, PhasesOver, Wire};
use super::seek::{Heads, Mechanics};
use crate::request::{Op, OpKind};

/// A token bucket: `rate` per second, at most `burst` saved up; full at the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// Tokens (requests or bytes) per second.
    pub rate: f64,
    /// Tokens that can be saved up.
    pub burst: f64,
}

/// What a [`Limit`] is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Reads alone.
    Reads,
    /// Writes alone.
    Writes,
    /// Both together.
    Both,
}

/// A limit that a provider sets, in addition to [`Device::iops`] and [`Device::bytes`]: on one direction, or a second
/// bucket that caps the rate of a burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Which requests.
    pub scope: Scope,
    /// Counts bytes; otherwise requests.
    pub of_bytes: bool,
    /// The bucket.
    pub bucket: Bucket,
    /// Requests that have to wait are released at multiples of this, ns, as the kernel's throttle does with its slices
    /// of about 100 ms; 0 releases each as soon as its tokens are available.
    pub slice_ns: f64,
}

/// Times at which the device does nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stall {
    /// From one stall's start to the next, ns.
    pub period_ns: u64,
    /// Length of each, ns.
    pub length_ns: u64,
}

/// A volatile write cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cache {
    /// Bytes it holds.
    pub capacity: f64,
    /// Bytes per second that it writes out.
    pub drain: f64,
    /// Time to acknowledge a write that fits, ns.
    pub ack_ns: f64,
    /// Whether a flush waits for it to be empty; a cache that ignores flushes answers at once.
    pub honours_flush: bool,
}

/// A device: plain parameters, so that a scenario is data.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Seed of its randomness.
    pub seed: u64,
    /// Reads.
    pub read: Service,
    /// Writes.
    pub write: Service,
    /// Flush on top of draining the cache.
    pub flush: Service,
    /// Requests served in parallel.
    pub channels: u32,
    /// Limit on requests per second.
    pub iops: Option<Bucket>,
    /// Limit on bytes per second.
    pub bytes: Option<Bucket>,
    /// Periodic stalls.
    pub stall: Option<Stall>,
    /// Write cache.
    pub cache: Option<Cache>,
    /// More limits; a request waits for the strictest.
    pub limits: Vec<Limit>,
    /// Reads that continue where the last one ended, if the device has read ahead; otherwise they are like any other.
    pub sequential: Option<Service>,
    /// Heads and platters, on top of the services above.
    pub mechanics: Option<Mechanics>,
    /// The network to it.
    pub link: Option<Link>,
    /// Other users of the device.
    pub neighbours: Option<Neighbours>,
    /// Slow phases.
    pub phases: Option<Phases>,
    /// What lies above it: caches, first touches, compression.
    pub layers: Layers,
}

impl Default for Device {
    /// A quiet local SSD: 80 us reads, 30 us writes, 400 us flushes, 16 channels.
    fn default() -> Self {
        Self {
            seed: 1,
            read: Service::log_normal(80e3, 0.2),
            write: Service::log_normal(30e3, 0.2),
            flush: Service::log_normal(400e3, 0.3),
            channels: 16,
            iops: None,
            bytes: None,
            stall: None,
            cache: None,
            limits: Vec::new(),
            sequential: None,
            mechanics: None,
            link: None,
            neighbours: None,
            phases: None,
            layers: Layers::default(),
        }
    }
}

/// Tokens in a bucket at a moment; may be negative, a debt that later requests wait for.
struct Tokens {
    bucket: Bucket,
    level: f64,
    at_ns: f64,
}

impl Tokens {
    fn new(bucket: Bucket) -> Self {
        Self { bucket, level: bucket.burst, at_ns: 0.0 }
    }

    /// Takes `amount` at `now_ns`; returns when enough tokens are available.
    fn take(&mut self, amount: f64, now_ns: f64) -> f64 {
        let earned = (now_ns - self.at_ns).max(0.0) * self.bucket.rate / 1e9;
        self.level = (self.level + earned).min(self.bucket.burst);
        self.at_ns = self.at_ns.max(now_ns);
        self.level -= amount;
        if self.level >= 0.0 { now_ns } else { self.at_ns - self.level * 1e9 / self.bucket.rate }
    }
}

/// Time of a flush that is not sent anywhere, ns.
const NOTHING_NS: f64 = 1500.0;

/// The running state of a [`Device`]. It has no clock: the caller passes the time, so that the simulated engine drives
/// it in virtual time and a disk behind FUSE in real time, by the same law.
pub struct State {
    device: Device,
    rng: Xoshiro256PlusPlus,
    /// When each channel is free again.
    free_ns: Vec<f64>,
    iops: Option<Tokens>,
    bytes: Option<Tokens>,
    /// Those of [`Device::limits`], in its order.
    limits: Vec<Tokens>,
    /// Dirty bytes in the cache, and as of when.
    dirty: (f64, f64),
    heads: Option<Heads>,
    wire: Option<Wire>,
    load: Option<NeighbourLoad>,
    phases: Option<PhasesOver>,
    /// Where the last read ended.
    read_to: u64,
    layers: LayersState,
}

impl State {
    /// A device at its time 0: buckets full, cache empty.
    pub fn new(device: Device) -> Self {
        let rng = Xoshiro256PlusPlus::seed_from_u64(device.seed);
        Self {
            free_ns: vec![0.0; device.channels.max(1) as usize],
            iops: device.iops.map(Tokens::new),
            bytes: device.bytes.map(Tokens::new),
            limits: device.limits.iter().map(|limit| Tokens::new(limit.bucket)).collect(),
            dirty: (0.0, 0.0),
            heads: device.mechanics.map(Heads::new),
            wire: device.link.map(|link| Wire::new(link, device.seed)),
            load: device.neighbours.map(|neighbours| NeighbourLoad::new(neighbours, device.seed)),
            phases: device.phases.map(|phases| PhasesOver::new(phases, device.seed)),
            read_to: u64::MAX,
            layers: LayersState::new(&device.layers),
            rng,
            device,
        }
    }

    /// Serves requests by these laws from now on.
    pub(super) fn serve(&mut self, read: Service, write: Service, flush: Service) {
        (self.device.read, self.device.write, self.device.flush) = (read, write, flush);
    }

    /// Moves a moment inside a stall to the stall's end.
    fn after_stall(&self, at_ns: f64) -> f64 {
        let Some(stall) = self.device.stall else { return at_ns };
        // The first stall comes after a full period, so that a run starts undisturbed.
        let phase = at_ns % stall.period_ns as f64;
        let round = at_ns - phase;
        if round >= stall.period_ns as f64 && phase < stall.length_ns as f64 {
            round + stall.length_ns as f64
        } else {
            at_ns
        }
    }

    fn settle_cache(&mut self, cache: Cache, now_ns: f64) -> f64 {
        let drained = (now_ns - self.dirty.1).max(0.0) * cache.drain / 1e9;
        self.dirty = ((self.dirty.0 - drained).max(0.0), self.dirty.1.max(now_ns));
        self.dirty.0
    }

    /// When a request submitted at `now_ns` completes, both in ns since the device's time 0. Requests must be submitted
    /// in the order of their times.
    pub fn complete_ns(&mut self, op: &Op, now_ns: f64) -> f64 {
        self.complete_with(op, None, now_ns)
    }

    /// Whether the time of a write depends on its data.
    pub fn wants_data(&self) -> bool {
        self.layers.want_data()
    }

    /// [`Self::complete_ns`] of a write whose data is known.
    pub fn complete_with(&mut self, op: &Op, data: Option<&[u8]>, now_ns: f64) -> f64 {
        // It writes out dirty pages, which here were written immediately, and never sends a flush.
        if op.kind == OpKind::SyncFileRange {
            return now_ns + NOTHING_NS;
        }
        let is_flush = matches!(op.kind, OpKind::Fsync | OpKind::Fdatasync);
        // The network to a remote device comes first; a device that wants no flushes gets none.
        let arrived_ns = match &mut self.wire {
            Some(wire) if is_flush && !wire.sends_flushes() => return now_ns + NOTHING_NS,
            Some(wire) => wire.crossed_ns(op.len, now_ns),
            None => now_ns,
        };
        let mut end_ns = self.served_ns(op, data, arrived_ns);
        if let Some(phases) = &mut self.phases {
            end_ns = arrived_ns + (end_ns - arrived_ns) * phases.slowness(arrived_ns);
        }
        match &mut self.load {
            Some(load) => {
                let slowed_ns = arrived_ns + (end_ns - arrived_ns) * load.slowness(arrived_ns);
                load.after_stall(now_ns, slowed_ns)
            }
            None => end_ns,
        }
    }

    /// The same for a request that has arrived at the device, without neighbours.
    fn served_ns(&mut self, op: &Op, data: Option<&[u8]>, now_ns: f64) -> f64 {
        let mut begin = self.after_stall(now_ns);
        if op.len > 0 {
            for (tokens, amount) in [(&mut self.iops, 1.0), (&mut self.bytes, f64::from(op.len))] {
                if let Some(tokens) = tokens {
                    begin = begin.max(tokens.take(amount, now_ns));
                }
            }
            for (limit, tokens) in self.device.limits.iter().zip(&mut self.limits) {
                let is_meant = match limit.scope {
                    Scope::Reads => op.kind == OpKind::Read,
                    Scope::Writes => op.kind == OpKind::Write,
                    Scope::Both => true,
                };
                if is_meant {
                    let paid_ns = tokens.take(if limit.of_bytes { f64::from(op.len) } else { 1.0 }, now_ns);
                    let waits = limit.slice_ns > 0.0 && paid_ns > now_ns;
                    begin = begin.max(if waits { (paid_ns / limit.slice_ns).ceil() * limit.slice_ns } else { paid_ns });
                }
            }
        }
        let bytes = match self.layers.pass(op, data, begin, &mut self.rng) {
            LayerOutcome::Answered(at_ns) => return self.after_stall(at_ns),
            LayerOutcome::Below { begin_ns, bytes } => {
                begin = begin_ns;
                bytes
            }
        };
        if let Some(cache) = self.device.cache {
            let dirty = self.settle_cache(cache, begin);
            match op.kind {
                OpKind::Write if dirty + bytes <= cache.capacity => {
                    self.dirty.0 += bytes;
                    return self.after_stall(begin + cache.ack_ns);
                }
                OpKind::Fsync | OpKind::Fdatasync => {
                    if !cache.honours_flush {
                        return begin + cache.ack_ns;
                    }
                    begin += dirty / cache.drain * 1e9;
                }
                _ => {}
            }
        }
        let goes_on = op.kind == OpKind::Read && op.offset == self.read_to;
        if op.kind == OpKind::Read {
            self.read_to = op.offset + u64::from(op.len);
        }
        let ready = self.device.sequential.as_ref().filter(|_| goes_on);
        let service = match op.kind {
            OpKind::Read if ready.is_some() => ready.expect("just looked at"),
            OpKind::Read => &self.device.read,
            OpKind::Write | OpKind::Trim => &self.device.write,
            OpKind::Fsync | OpKind::Fdatasync => &self.device.flush,
            OpKind::SyncFileRange => unreachable!("it never reaches the device"),
        };
        let service_ns = draw_bytes(&mut self.rng, service, bytes);
        let arm = self.heads.as_ref().map(|heads| heads.arm_of(op.offset) % self.free_ns.len());
        let channel = match arm {
            Some(number) => &mut self.free_ns[number],
            None => self.free_ns.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("at least one channel"),
        };
        let start = begin.max(*channel);
        let moves = op.len > 0 && ready.is_none();
        let moved_ns = match &mut self.heads {
            Some(heads) if moves => heads.move_to(op.offset, op.len, op.kind == OpKind::Read, now_ns, start),
            _ => 0.0,
        };
        let end = start + service_ns + moved_ns;
        *channel = end;
        self.after_stall(end)
    }
}
