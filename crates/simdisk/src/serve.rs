//! When each request is answered: the model gives the time, and this waits for it in real time.
//!
//! The request's path to us and the answer's path back take time that is not the disk's. It is measured at each mount
//! (see `mount.rs`) and subtracted from the model's time, so that a client sees the law itself, as long as the law
//! stays above that cost.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use fuser::Errno;
use qd1_clock::monotonic_ns;
use qd1_engine::sim::{Device, State};
use qd1_engine::{Op, OpKind};
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::Timespec;

use crate::fault::{Fault, FaultEffect, Faults, RequestKind};
use crate::truth::Law;

/// Bounds of the answer time during calibration, ns: longer than any path to us and back, and no slower than necessary.
const CALIBRATION_NS: (f64, f64) = (300e3, 3e6);
/// A single waiting request spins over the last part of its time: a sleeping processor takes tens of microseconds to
/// wake.
const SPIN_NS: u64 = 60_000;
/// How many delays are kept: the first ones.
const LATE_MAX: usize = 1 << 20;

/// What FUSE itself adds to a request at depth 1, ns: means without the slowest tenth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// 4 KiB reads.
    pub read_ns: u64,
    /// 4 KiB writes.
    pub write_ns: u64,
    /// fdatasync.
    pub flush_ns: u64,
}

impl Overhead {
    fn of(self, on: RequestKind) -> u64 {
        match on {
            RequestKind::Read => self.read_ns,
            RequestKind::Write => self.write_ns,
            RequestKind::Flush => self.flush_ns,
            RequestKind::Open => 0,
        }
    }
}

/// What a disk has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Reads answered, failed ones included.
    pub reads: u64,
    /// Writes answered, failed ones included.
    pub writes: u64,
    /// Flushes answered, failed ones included.
    pub flushes: u64,
    /// Reads, writes, flushes and opens hit by a fault.
    pub faults: [u64; 4],
    /// Bytes whose bit was flipped: offsets in their file, in the order of the writes.
    pub flipped: Vec<u64>,
    /// How long after the model's time answers were sent to requests that were alone in flight: median, 99th percentile
    /// and maximum, ns. It reveals a machine that is too busy for accurate figures.
    pub late_ns: [u64; 3],
}

#[derive(Default)]
struct Log {
    served: Served,
    late: Vec<u64>,
}

/// The device in real time.
pub(crate) struct Server {
    device: Device,
    clock_zero_ns: AtomicU64,
    state: Mutex<State>,
    faults: Mutex<Faults>,
    overhead: Mutex<Overhead>,
    calibrating: AtomicBool,
    /// Answer time during calibration, by [`RequestKind`]: the law's median, since the longer a processor has slept,
    /// the longer it takes to wake, and that is part of the path.
    calibration_ns: [u64; 4],
    gone: Mutex<bool>,
    going: Condvar,
    waiting: AtomicUsize,
    log: Mutex<Log>,
}

/// A request as FUSE delivers it.
#[derive(Clone, Copy)]
pub(crate) struct DiskRequest<'a> {
    pub(crate) on: RequestKind,
    /// The file's number: each file has its own place on the device.
    pub(crate) ino: u64,
    /// Offset in the file.
    pub(crate) offset: u64,
    pub(crate) len: u32,
    /// The data to write; empty for other requests.
    pub(crate) data: &'a [u8],
    /// A write that must be durable when answered (O_SYNC, O_DSYNC): the model sees a flush after it.
    pub(crate) synced: bool,
}

impl DiskRequest<'_> {
    /// A flush.
    pub(crate) const FLUSH: Self = Self { on: RequestKind::Flush, ino: 0, offset: 0, len: 0, data: &[], synced: false };
    /// Opening a file.
    pub(crate) const OPEN: Self = Self { on: RequestKind::Open, ..Self::FLUSH };
}

/// Number of bits of a device offset that hold the offset in the file.
const FILE_BITS: u32 = 40;

/// A request that has been accepted.
pub(crate) struct Admitted {
    on: RequestKind,
    due_ns: u64,
    fate: Option<(FaultEffect, u64)>,
}

/// What to do with a request once its time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// As requested.
    Good,
    /// Fail with this error.
    Fail(Errno),
    /// Only a part of it.
    Short,
    /// All of it, with a bit of this byte of the file flipped.
    Flip(u64),
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Server {
    pub(crate) fn new(device: &Device, faults: &[Fault]) -> Self {
        let median = |law: Law| law.quantile(0.5).clamp(CALIBRATION_NS.0, CALIBRATION_NS.1) as u64;
        let [read, write, flush] = [Law::reads, Law::writes, Law::flushes].map(|law| median(law(device, 4096, 101)));
        Self {
            calibration_ns: [read, write, flush, 0],
            clock_zero_ns: AtomicU64::new(monotonic_ns()),
            state: Mutex::new(State::new(device.clone())),
            faults: Mutex::new(Faults::new(faults, device.seed)),
            device: device.clone(),
            overhead: Mutex::default(),
            calibrating: AtomicBool::new(true),
            gone: Mutex::new(false),
            going: Condvar::new(),
            waiting: AtomicUsize::new(0),
            log: Mutex::default(),
        }
    }

    /// Ends calibration: from now on the device serves, and this is its time 0.
    pub(crate) fn begin(&self, overhead: Overhead) {
        *locked(&self.overhead) = overhead;
        *locked(&self.state) = State::new(self.device.clone());
        *locked(&self.log) = Log::default();
        self.clock_zero_ns.store(monotonic_ns(), Ordering::SeqCst);
        self.calibrating.store(false, Ordering::SeqCst);
    }

    /// How long an answer is held back during calibration.
    pub(crate) fn calibration_ns(&self, on: RequestKind) -> u64 {
        self.calibration_ns[on as usize]
    }

    pub(crate) fn overhead(&self) -> Overhead {
        *locked(&self.overhead)
    }

    pub(crate) fn served(&self) -> Served {
        let log = locked(&self.log);
        let mut late = log.late.clone();
        late.sort_unstable();
        let at = |q: f64| late.get((q * late.len() as f64) as usize).or(late.last()).copied().unwrap_or(0);
        Served { late_ns: [at(0.5), at(0.99), at(1.0)], ..log.served.clone() }
    }

    /// Accepts a request: decides when it is due and which fault hits it.
    pub(crate) fn admit(&self, asked: &DiskRequest<'_>) -> Admitted {
        let DiskRequest { on, ino, offset, len, data, synced } = *asked;
        if self.calibrating.load(Ordering::Relaxed) {
            return Admitted { on, due_ns: monotonic_ns() + self.calibration_ns(on), fate: None };
        }
        let fate = locked(&self.faults).judge(on, offset, u64::from(len));
        let kind = match on {
            RequestKind::Read => OpKind::Read,
            RequestKind::Write => OpKind::Write,
            RequestKind::Flush => OpKind::Fdatasync,
            RequestKind::Open => return Admitted { on, due_ns: monotonic_ns(), fate },
        };
        let zero_ns = self.clock_zero_ns.load(Ordering::Relaxed);
        let due_ns = {
            let mut state = locked(&self.state);
            // Read under the lock, so that the model sees requests in the order of their times.
            let now_ns = (monotonic_ns() - zero_ns) as f64;
            let place = (ino << FILE_BITS).wrapping_add(offset);
            let data = (on == RequestKind::Write).then_some(data);
            let mut due_ns = state.complete_with(&Op { kind, file: 0, len, offset: place }, data, now_ns);
            if synced {
                due_ns = state.complete_ns(&Op { kind: OpKind::Fdatasync, file: 0, len: 0, offset: 0 }, due_ns);
            }
            zero_ns + due_ns as u64
        };
        Admitted { on, due_ns: due_ns.saturating_sub(self.overhead().of(on)), fate }
    }

    /// Waits until a request is due and returns its fate. The work on its data is best done before.
    pub(crate) fn wait(&self, admitted: &Admitted) {
        if let Some((FaultEffect::Hang(millis), _)) = admitted.fate {
            self.hang(millis);
        }
        if admitted.on == RequestKind::Open {
            locked(&self.log).served.faults[admitted.on as usize] += u64::from(admitted.fate.is_some());
            return;
        }
        let alone = self.waiting.fetch_add(1, Ordering::Relaxed) == 0;
        sleep_until(admitted.due_ns, if alone { SPIN_NS } else { 0 });
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let late_ns = monotonic_ns().saturating_sub(admitted.due_ns);
        let mut log = locked(&self.log);
        let served = &mut log.served;
        match admitted.on {
            RequestKind::Read => served.reads += 1,
            RequestKind::Write => served.writes += 1,
            RequestKind::Flush => served.flushes += 1,
            RequestKind::Open => unreachable!("it was answered above"),
        }
        if let Some((what, byte)) = admitted.fate {
            served.faults[admitted.on as usize] += 1;
            if what == FaultEffect::Flip {
                served.flipped.push(byte);
            }
        } else if alone && log.late.len() < LATE_MAX {
            log.late.push(late_ns);
        }
    }

    fn hang(&self, millis: u64) {
        let gone = locked(&self.gone);
        if millis == 0 {
            drop(self.going.wait_while(gone, |gone| !*gone));
        } else {
            drop(self.going.wait_timeout_while(gone, Duration::from_millis(millis), |gone| !*gone));
        }
    }

    /// The disk goes away: hanging requests are answered.
    pub(crate) fn leave(&self) {
        *locked(&self.gone) = true;
        self.going.notify_all();
    }
}

impl Admitted {
    pub(crate) fn fate(&self) -> Fate {
        match self.fate {
            None => Fate::Good,
            Some((FaultEffect::Eio | FaultEffect::Hang(0), _)) => Fate::Fail(Errno::EIO),
            Some((FaultEffect::Edquot, _)) => Fate::Fail(Errno::EDQUOT),
            Some((FaultEffect::Hang(_), _)) => Fate::Good,
            Some((FaultEffect::Short, _)) => Fate::Short,
            Some((FaultEffect::Flip, byte)) => Fate::Flip(byte),
        }
    }
}

fn sleep_until(until_ns: u64, spin_ns: u64) {
    let wake_ns = until_ns.saturating_sub(spin_ns);
    while monotonic_ns() < wake_ns {
        let at = Timespec { tv_sec: (wake_ns / 1_000_000_000) as i64, tv_nsec: (wake_ns % 1_000_000_000) as i64 };
        // The loop resumes an interrupted sleep.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &at);
    }
    // No spin_loop(): a hypervisor takes the processor away from guests that execute many of its instructions.
    while monotonic_ns() < until_ns {}
}

/// Gives the calling thread, and those that it starts, real-time priority if that is granted: other programs on a busy
/// machine would otherwise add to the disk's latency.
pub(crate) fn be_real_time() {
    let param = libc::sched_param { sched_priority: 10 };
    // SAFETY: the call reads `param`, which lives, and changes nothing but the calling thread's scheduling. Refused
    // without the privilege; then the figures are as noisy as the machine, which `late_ns` shows.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_engine::sim::{Bucket, Service};

    fn read(offset: u64) -> DiskRequest<'static> {
        DiskRequest { on: RequestKind::Read, ino: 1, offset, len: 4096, data: &[], synced: false }
    }

    #[test]
    fn requests_are_due_at_the_models_time_less_the_transport() {
        let device = Device { read: Service::log_normal(50e6, 0.0), ..Device::default() };
        let server = Server::new(&device, &[]);
        server.begin(Overhead { read_ns: 1_000_000, ..Overhead::default() });
        let before = monotonic_ns();
        let admitted = server.admit(&read(0));
        let after = monotonic_ns();
        assert!((before + 49_000_000..=after + 49_000_001).contains(&admitted.due_ns));
        server.wait(&admitted);
        assert!(monotonic_ns() >= admitted.due_ns);
        assert_eq!(server.served().reads, 1);
    }

    #[test]
    fn a_token_bucket_is_kept_in_real_time() {
        let iops = Some(Bucket { rate: 1000.0, burst: 10.0 });
        let device = Device { iops, write: Service::log_normal(1e3, 0.0), ..Device::default() };
        let server = Server::new(&device, &[]);
        server.begin(Overhead::default());
        let begin = monotonic_ns();
        let last = (0..110)
            .map(|n| server.admit(&DiskRequest { on: RequestKind::Write, ..read(n * 4096) }).due_ns)
            .max()
            .unwrap();
        // 10 immediately, then one per millisecond.
        assert!(last - begin >= 99_000_000, "{}", last - begin);
    }

    #[test]
    fn an_open_fails_as_told_and_takes_none_of_the_devices_time() {
        let fault = |on, what| Fault { on, what, at: None, rate: 1.0, after: 1, times: 1 };
        let faults = [fault(RequestKind::Open, FaultEffect::Eio), fault(RequestKind::Write, FaultEffect::Edquot)];
        let server = Server::new(&Device::default(), &faults);
        server.begin(Overhead::default());
        let fate_of = |request: &DiskRequest<'_>| {
            let admitted = server.admit(request);
            server.wait(&admitted);
            admitted.fate()
        };
        let opens = [(); 3].map(|()| fate_of(&DiskRequest::OPEN));
        assert_eq!(opens, [Fate::Good, Fate::Fail(Errno::EIO), Fate::Good]);
        let writes = [0, 4096].map(|at| fate_of(&DiskRequest { on: RequestKind::Write, ..read(at) }));
        assert_eq!(writes, [Fate::Good, Fate::Fail(Errno::EDQUOT)]);
        let served = server.served();
        assert_eq!((served.faults, served.reads, served.writes, served.flushes), ([0, 1, 0, 1], 0, 2, 0));
    }

    #[test]
    fn what_hangs_is_answered_when_the_disk_goes_away() {
        let hang = Fault { on: RequestKind::Read, what: FaultEffect::Hang(0), at: None, rate: 1.0, after: 0, times: 0 };
        let server = Server::new(&Device::default(), &[hang]);
        server.begin(Overhead::default());
        let admitted = server.admit(&read(0));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| server.wait(&admitted));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!waits.is_finished());
            server.leave();
            waits.join().unwrap();
        });
        assert_eq!(admitted.fate(), Fate::Fail(Errno::EIO));
    }
}
