//! What a worker on files counts, and when it stops.

use std::sync::atomic::{AtomicBool, Ordering};

use qd1_model::op::{OpClass, RequestCounts};
use qd1_model::record::{IoErrors, Stream};
use rustix::io::Errno;

use crate::error::errno_name;
use crate::meter::{Meter, Outbox, Parts, Timing};
use qd1_clock as clock;

/// Failures after which a worker gives up.
const ERRORS_MAX: u64 = 16;

/// Why an operation failed.
pub(super) enum Fault {
    /// The kernel's error.
    Errno(Errno),
    /// Less was read or written than requested.
    Short,
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// Data moved by an operation.
#[derive(Default)]
pub(super) struct Moved {
    /// Bytes of data.
    pub(super) bytes: u64,
    /// Time of its syncs, ns.
    pub(super) sync_ns: u64,
}

/// When the workers of a phase stop.
pub(super) struct Limits<'a> {
    pub(super) deadline_ns: u64,
    pub(super) cancel: &'a AtomicBool,
    /// Set when one of them met something that would stop all: no space, no quota, no permission to write.
    pub(super) broken: AtomicBool,
}

/// One worker's part of a phase.
pub(super) struct Lane<'a> {
    meter: Meter<1>,
    limits: &'a Limits<'a>,
    pub(super) requests: RequestCounts,
    pub(super) errors: Vec<IoErrors>,
    failed: u64,
    /// When its last operation ended.
    pub(super) last_ns: u64,
    /// Operations that succeeded.
    pub(super) ios: u64,
}

impl<'a> Lane<'a> {
    pub(super) fn new(
        class: OpClass,
        syncs: bool,
        limits: &'a Limits<'a>,
        started_ns: u64,
        interval_ns: u64,
        outbox: Outbox,
    ) -> Self {
        let parts = if syncs { Parts::Sync } else { Parts::None };
        Self {
            meter: Meter::new([(class, parts)], started_ns, interval_ns, outbox),
            limits,
            requests: RequestCounts::default(),
            errors: Vec::new(),
            failed: 0,
            last_ns: clock::now_ns(),
            ios: 0,
        }
    }

    /// Whether there is time for another operation and nothing has stopped the phase.
    pub(super) fn may_continue(&self) -> bool {
        self.last_ns < self.limits.deadline_ns
            && self.failed <= ERRORS_MAX
            && !self.limits.cancel.load(Ordering::Relaxed)
            && !self.limits.broken.load(Ordering::Relaxed)
    }

    /// Counts an operation that began at `begin_ns`.
    pub(super) fn count(&mut self, begin_ns: u64, moved: &Moved) {
        let completed_ns = clock::now_ns();
        self.last_ns = completed_ns;
        self.ios += 1;
        let timing = Timing { lat_ns: completed_ns - begin_ns, part_ns: moved.sync_ns, completed_ns };
        self.meter.record(0, u32::try_from(moved.bytes).unwrap_or(u32::MAX), &timing);
    }

    /// Notes that operation number `number` failed.
    pub(super) fn fault(&mut self, fault: &Fault, number: u64) {
        let error = match fault {
            Fault::Errno(errno) => errno_name(*errno),
            Fault::Short => "short".to_owned(),
        };
        self.failed += 1;
        self.last_ns = clock::now_ns();
        if let Fault::Errno(Errno::NOSPC | Errno::DQUOT | Errno::ROFS | Errno::MFILE) = fault {
            self.limits.broken.store(true, Ordering::Relaxed);
        }
        IoErrors::once(error, number).add_to(&mut self.errors);
    }

    /// Hands over what was measured.
    pub(super) fn finish(self) -> (Vec<Stream>, RequestCounts, Vec<IoErrors>) {
        (self.meter.finish(), self.requests, self.errors)
    }
}
