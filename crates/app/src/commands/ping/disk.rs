//! The requests of a ping: prepares the file or device safely, and makes one request at a time through the engine.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use qd1_engine::backing::{OpenAs, PathKind, Target, drop_cached_range, fill, no_readahead};
use qd1_engine::buf::Buffers;
use qd1_engine::load::{Region, RequestStream};
use qd1_engine::run::{Decision, tuning};
use qd1_engine::{Engine, Op, OpKind, Setup, errno_name, open};
use qd1_model::Bytes;
use qd1_model::plan::{Arrival, BlockShare, Data, EngineChoice, EngineKind, FileUse, IoWork, Order, Rw, Sync};
use qd1_probe::Machine;
use rustix::io::Errno;

use super::args::{Directions, PingSettings};
use qd1_model::{Problem, ProblemKind};
use qd1_runner::place::Place;
use qd1_runner::{TestFile, destroy, plan};

/// Longest time for writing the test file, ns: a ping should begin soon.
const PREPARE_NS: u64 = 5_000_000_000;

/// The largest folio of the page cache, bytes: a huge page, to which it is aligned.
const FOLIO_MAX: u64 = 2 << 20;

/// Where requests go.
pub(crate) struct Disk {
    engine: Box<dyn Engine>,
    file: OwnedFd,
    buffers: Arc<Buffers>,
    places: RequestStream,
    area: Region,
    directions: Directions,
    sync: Sync,
    size: u32,
    /// Whether data is dropped from the page cache before it is read.
    drops_cache: bool,
    stamp: u64,
    /// Keeps the unnamed file, or the device's exclusive use.
    _target: TestFile,
}

/// One request and its outcome.
pub(crate) struct Request {
    pub(crate) writes: bool,
    pub(crate) offset: u64,
    pub(crate) begin_ns: u64,
    /// Latency of the whole request, a write's sync included.
    pub(crate) lat_ns: u64,
    pub(crate) outcome: Outcome,
}

/// The outcome of a request.
pub(crate) enum Outcome {
    /// It succeeded; `sync_ns` is the time of its sync, if it has one.
    Done { sync_ns: Option<u64> },
    /// The error's name, or `short`.
    Failed(String),
}

/// Refuses settings that are not safe or not possible, before anything is touched.
///
/// # Errors
/// When they are refused; the message says what to do instead.
pub(crate) fn check_settings(
    settings: &PingSettings,
    place: &Place,
    machine: &Machine,
    named: Option<&Path>,
) -> Result<()> {
    let path = place.path.display();
    let is_block = matches!(place.kind, PathKind::Block(_));
    destroy::is_allowed(place, named)?;
    if settings.writes() && matches!(place.kind, PathKind::File(_)) {
        let message = format!("{path} is a file, and existing files are only read; name its directory instead");
        return Err(Problem::new(ProblemKind::Unsafe, message).into());
    }
    if settings.writes() && is_block {
        if named.is_none() {
            let message = format!(
                "{path} is a block device, and is only read; name a directory on it, or, if all of its data may be lost, \
                 add --destroy {path}"
            );
            return Err(Problem::new(ProblemKind::Unsafe, message).into());
        }
        destroy::refuse_in_use(machine, &place.path)?;
    }
    if settings.direct && !place.direct.supported {
        let kind = &place.filesystem.kind;
        return Err(Problem::new(
            ProblemKind::Capability,
            format!("{kind} refuses O_DIRECT at {path}; leave out --direct"),
        )
        .into());
    }
    let align = place.direct.align.max(1);
    if settings.direct && !settings.size.is_multiple_of(align) {
        let message = format!("direct I/O at {path} needs multiples of {align} bytes; choose --size accordingly");
        return Err(Problem::usage(message).into());
    }
    Ok(())
}

/// Returns how many bytes of the place are used.
fn area(settings: &PingSettings, place: &Place) -> Result<u64> {
    let path = place.path.display();
    let (PathKind::File(length) | PathKind::Block(length)) = place.kind else {
        let space = plan::space(place);
        if settings.own_area.0 > space.usable {
            let hint = if space.usable == 0 { "" } else { ", or give a smaller --area" };
            let message = format!("not enough space in {path}: ping {}{hint}", space.shortage(settings.own_area.0));
            return Err(Problem::new(ProblemKind::Unsafe, message).into());
        }
        return Ok(settings.own_area.0);
    };
    let area = settings.area.map_or(length, |area| area.0.min(length));
    if area < u64::from(settings.size) {
        let size = Bytes(settings.size.into());
        return Err(Problem::usage(format!("{path} has only {}, less than a request of {size}", Bytes(length))).into());
    }
    Ok(area)
}

impl Disk {
    /// Opens the place, and prepares the file in a directory. Returns `None` when stopped meanwhile.
    ///
    /// # Errors
    /// When it cannot be opened or written.
    pub(crate) fn open(
        settings: &PingSettings,
        place: &Place,
        unique: &str,
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<Option<Self>> {
        let mut area = area(settings, place)?;
        let target = match place.kind {
            PathKind::Directory => TestFile::create(&place.path, unique)?,
            PathKind::Block(_) if settings.writes() => Target::exclusive(&place.path)?.into(),
            _ => Target::existing(&place.path).into(),
        };
        if place.kind == PathKind::Directory {
            // Cached reads need the file in the page cache: the first read of a page would wait for the disk.
            let direct = place.direct.supported && area.is_multiple_of(1 << 20) && !settings.cached;
            let filled = fill(&target, area, PREPARE_NS, direct, seed, stop, &mut |_| Decision::Continue)?;
            if let Some(error) = filled.errors.first() {
                anyhow::bail!("writing a file of {} in {} failed: {}", Bytes(area), place.path.display(), error.error);
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            area = filled.prepare.bytes.0;
            if area < u64::from(settings.size) {
                let (written, request) = (Bytes(area), Bytes(u64::from(settings.size)));
                anyhow::bail!(
                    "only {written} could be written in 5 s, less than a request of {request}; give a smaller --size"
                );
            }
        }
        let how = OpenAs { write: settings.writes(), direct: settings.direct, sync: settings.sync };
        let file = target.open(how)?;
        if !settings.linear {
            no_readahead(&file);
        }
        let region = Region { start: 0, length: area };
        let buffers = Arc::new(Buffers::new(1, settings.size, seed)?);
        let tuning = tuning(settings.sync);
        let files = vec![file.as_raw_fd()];
        let setup = Setup { files, iodepth: 1, buffers: buffers.clone(), sim: None, tuning };
        Ok(Some(Self {
            engine: open(EngineKind::Psync, setup)?,
            places: RequestStream::new(&work(settings, area), region, seed),
            file,
            buffers,
            area: region,
            directions: settings.directions,
            sync: settings.sync,
            size: settings.size,
            drops_cache: !settings.direct && !settings.cached,
            stamp: seed,
            _target: target,
        }))
    }

    pub(crate) fn now_ns(&mut self) -> u64 {
        self.engine.now_ns()
    }

    /// Whether data is dropped from the page cache before it is read.
    pub(crate) fn drops_cache(&self) -> bool {
        self.drops_cache
    }

    /// Bytes that requests are spread over.
    pub(crate) fn area(&self) -> u64 {
        self.area.length
    }

    /// Makes request number `number`, from 1.
    ///
    /// # Errors
    /// When the engine itself fails.
    pub(crate) fn request(&mut self, number: u64) -> Result<Request> {
        let offset = self.places.next_request().offset;
        let writes = match self.directions {
            Directions::Reads => false,
            Directions::Writes => true,
            Directions::Both => number.is_multiple_of(2),
        };
        if writes {
            self.stamp = self.stamp.wrapping_add(1);
            self.buffers.stamp(0, self.size, self.stamp);
        }
        if self.drops_cache {
            // The kernel drops a large folio only as a whole.
            let from = offset / FOLIO_MAX * FOLIO_MAX;
            let end = (offset + u64::from(self.size)).next_multiple_of(FOLIO_MAX);
            drop_cached_range(&self.file, from, end - from);
        }
        let kind = if writes { OpKind::Write } else { OpKind::Read };
        let transfer = self.engine.one(0, &Op { kind, file: 0, len: self.size, offset })?;
        let begin_ns = transfer.issued_ns;
        let mut request = Request {
            writes,
            offset,
            begin_ns,
            lat_ns: transfer.completed_ns.saturating_sub(begin_ns),
            outcome: outcome(transfer.result, self.size, None),
        };
        let sync = match self.sync {
            Sync::Fsync => OpKind::Fsync,
            Sync::Fdatasync => OpKind::Fdatasync,
            _ => return Ok(request),
        };
        if writes && matches!(request.outcome, Outcome::Done { .. }) {
            let done = self.engine.one(0, &Op { kind: sync, file: 0, len: 0, offset: 0 })?;
            request.lat_ns = done.completed_ns.saturating_sub(begin_ns);
            request.outcome = outcome(done.result, 0, Some(done.completed_ns.saturating_sub(done.issued_ns)));
        }
        Ok(request)
    }
}

/// Returns the outcome of a request from its result, which should be `len`.
fn outcome(result: i32, len: u32, sync_ns: Option<u64>) -> Outcome {
    match result {
        failed if failed < 0 => Outcome::Failed(errno_name(Errno::from_raw_os_error(-failed))),
        done if done == len as i32 => Outcome::Done { sync_ns },
        _ => Outcome::Failed("short".to_owned()),
    }
}

/// Returns the order of offsets as work of a plan.
fn work(settings: &PingSettings, area: u64) -> IoWork {
    IoWork {
        ioengine: EngineChoice::Kind(EngineKind::Psync),
        rw: if settings.linear { Rw::Read } else { Rw::Randread },
        rwmixread: 100,
        order: if settings.linear { Order::Sequential } else { Order::Random },
        blocks: vec![BlockShare { bytes: settings.size, weight: 1 }],
        iodepth: 1,
        numjobs: 1,
        direct: settings.direct,
        sync: settings.sync,
        file: FileUse::Shared,
        size: Bytes(area),
        io_size: Bytes(0),
        arrival: Arrival::Closed,
        data: Data::Random,
        writes_per_sync: 1,
    }
}
