//! One suite over all engines: what the worker relies on, whichever engine runs.

use std::collections::HashSet;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use qd1_engine::buf::Buffers;
use qd1_engine::target::{OpenAs, Target};
use qd1_engine::{Engine, EngineError, Op, OpKind, Setup, Slot, Tuning, clock, open, sim};
use qd1_model::plan::EngineKind;

const DEPTH: u32 = 8;
const SIZE: u64 = 1 << 20;
const ALL: [EngineKind; 5] =
    [EngineKind::Psync, EngineKind::Libaio, EngineKind::IoUring, EngineKind::Null, EngineKind::Sim];

struct Bench {
    engine: Box<dyn Engine>,
    slots: Vec<Slot>,
    buffers: Arc<Buffers>,
    _file: OwnedFd,
    _dir: tempfile::TempDir,
}

/// An engine on a fresh file, or `None` (said aloud) where the machine does not offer it.
fn bench(kind: EngineKind) -> Option<Bench> {
    let dir = tempfile::tempdir().unwrap();
    let target = Target::create_in(dir.path(), "contract").unwrap();
    target.set_len(SIZE).unwrap();
    let file = target.open(OpenAs { write: true, ..OpenAs::default() }).unwrap();
    let buffers = Arc::new(Buffers::new(DEPTH, 8192, 1).unwrap());
    let sim = (kind == EngineKind::Sim).then(sim::Device::default);
    let setup = Setup {
        files: vec![file.as_raw_fd()],
        iodepth: DEPTH,
        buffers: buffers.clone(),
        sim,
        tuning: Tuning::default(),
    };
    match open(kind, setup) {
        Ok(engine) => {
            Some(Bench { engine, slots: vec![Slot::default(); DEPTH as usize], buffers, _file: file, _dir: dir })
        }
        Err(EngineError::Unavailable { why, .. }) => {
            skip(&format!("engine contract of {}", kind.name()), &why);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Says and counts that a test could not run here (see HACKING.md).
fn skip(test: &str, why: &str) {
    println!("SKIPPED: {test}: {why}");
    if let Some(path) = std::env::var_os("QD1_SKIP_LOG") {
        use std::io::Write as _;
        let mut log = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(log, "{test}: {why}").unwrap();
    }
}

fn for_each_engine(check: impl Fn(&mut Bench)) {
    for kind in ALL {
        if let Some(mut bench) = bench(kind) {
            check(&mut bench);
        }
    }
}

impl Bench {
    fn now_ns(&mut self) -> u64 {
        self.engine.now_ns()
    }

    /// Submits these requests, each to its slot.
    fn submit(&mut self, ops: &[(u32, Op)], done: &mut Vec<u32>) {
        let queue: Vec<u32> = ops.iter().map(|(number, _)| *number).collect();
        for (number, op) in ops {
            self.slots[*number as usize].op = *op;
        }
        let mut at = 0;
        while at < queue.len() {
            at += self.engine.submit(&mut self.slots, &queue[at..], done).unwrap();
        }
    }

    /// Waits until `count` are done.
    fn collect(&mut self, count: usize, done: &mut Vec<u32>) {
        while done.len() < count {
            self.engine.reap(&mut self.slots, 1, u64::MAX, done).unwrap();
        }
    }

    /// One request from beginning to end; its result.
    fn one(&mut self, number: u32, op: Op) -> i32 {
        let mut done = Vec::new();
        self.submit(&[(number, op)], &mut done);
        self.collect(1, &mut done);
        self.slots[number as usize].done.result
    }
}

fn op(kind: OpKind, number: u32, len: u32) -> (u32, Op) {
    let transfers = matches!(kind, OpKind::Read | OpKind::Write);
    let offset = u64::from(number) * 8192 * u64::from(transfers);
    (number, Op { kind, file: 0, len: if transfers { len } else { 0 }, offset })
}

/// Engines that do no I/O cannot fail and know no file.
fn does_io(kind: EngineKind) -> bool {
    !matches!(kind, EngineKind::Null | EngineKind::Sim)
}

#[test]
fn every_request_comes_back_exactly_once_with_its_times_in_order() {
    for_each_engine(|bench| {
        for round in 0..20 {
            let kinds = [OpKind::Write, OpKind::Read, OpKind::Fdatasync, OpKind::Fsync];
            let ops: Vec<(u32, Op)> =
                (0..DEPTH).map(|number| op(kinds[(number as usize + round) % 4], number, 4096)).collect();
            let before = bench.now_ns();
            let mut done = Vec::new();
            bench.submit(&ops, &mut done);
            bench.collect(ops.len(), &mut done);
            let numbers: HashSet<u32> = done.iter().copied().collect();
            assert_eq!((done.len(), numbers.len()), (8, 8), "{}", bench.engine.kind().name());
            let after = bench.now_ns();
            for (number, op) in &ops {
                let done = bench.slots[*number as usize].done;
                assert_eq!(done.result, op.len as i32);
                assert!(before <= done.issued_ns && done.issued_ns <= done.submitted_ns);
                assert!(done.submitted_ns <= done.completed_ns && done.completed_ns <= after);
            }
        }
    });
}

#[test]
fn one_request_alone_goes_as_through_the_lists() {
    for_each_engine(|bench| {
        let name = bench.engine.kind().name();
        let kinds = [OpKind::Write, OpKind::Fdatasync, OpKind::Read, OpKind::Fsync, OpKind::Write];
        for number in [0, DEPTH - 1, 3] {
            for (round, kind) in kinds.into_iter().enumerate() {
                let (_, op) = op(kind, number, 4096);
                let before = bench.now_ns();
                let done = bench.engine.one(number, &op).unwrap();
                assert_eq!(done.result, op.len as i32, "{name}: {kind:?}");
                assert!(before <= done.issued_ns && done.issued_ns <= done.submitted_ns, "{name}");
                assert!(done.submitted_ns <= done.completed_ns && done.completed_ns <= bench.now_ns(), "{name}");
                // Neither leaves anything behind that the other would stumble over.
                assert_eq!(bench.one((number + round as u32) % DEPTH, op), op.len as i32, "{name}");
            }
        }
        let mut done = Vec::new();
        bench.engine.reap(&mut bench.slots, 0, u64::MAX, &mut done).unwrap();
        assert!(done.is_empty(), "{name}");
        if does_io(bench.engine.kind()) {
            bench.buffers.stamp(2, 8192, 99);
            let written = bench.buffers.copy(2, 8192);
            let at = |kind| Op { kind, file: 0, len: 8192, offset: 131_072 };
            assert_eq!(bench.engine.one(2, &at(OpKind::Write)).unwrap().result, 8192, "{name}");
            assert_eq!(bench.engine.one(5, &at(OpKind::Read)).unwrap().result, 8192, "{name}");
            assert_eq!(bench.buffers.copy(5, 8192), written, "{name}");
            let behind = Op { kind: OpKind::Read, file: 0, len: 8192, offset: SIZE - 4096 };
            assert_eq!(bench.engine.one(1, &behind).unwrap().result, 4096, "{name}: a short read tells its length");
        }
    });
}

#[test]
fn what_was_written_is_read_back() {
    for_each_engine(|bench| {
        if !does_io(bench.engine.kind()) {
            return;
        }
        bench.buffers.stamp(0, 8192, 77);
        let written = bench.buffers.copy(0, 8192);
        assert_eq!(bench.one(0, Op { kind: OpKind::Write, file: 0, len: 8192, offset: 65536 }), 8192);
        assert_eq!(bench.one(3, Op { kind: OpKind::Read, file: 0, len: 8192, offset: 65536 }), 8192);
        assert_eq!(bench.buffers.copy(3, 8192), written);
    });
}

#[test]
fn a_failing_or_short_request_is_a_done_and_not_an_error() {
    for_each_engine(|bench| {
        if !does_io(bench.engine.kind()) {
            return;
        }
        let name = bench.engine.kind().name();
        // Half of it lies behind the end of the file.
        let short = bench.one(1, Op { kind: OpKind::Read, file: 0, len: 8192, offset: SIZE - 4096 });
        assert_eq!(short, 4096, "{name}: a short read tells its length");
        // The file is opened for writing too, so only its end refuses: beyond what a file can be.
        let refused = bench.one(2, Op { kind: OpKind::Write, file: 0, len: 4096, offset: (1 << 62) + 4096 });
        assert!(refused < 0, "{name}: {refused}");
    });
}

#[test]
fn reaping_nothing_waits_until_the_time_given_and_no_longer_than_asked() {
    for_each_engine(|bench| {
        let mut done = Vec::new();
        bench.engine.reap(&mut bench.slots, 0, u64::MAX, &mut done).unwrap();
        let until = bench.now_ns() + 2_000_000;
        bench.engine.reap(&mut bench.slots, 1, until, &mut done).unwrap();
        assert!(done.is_empty());
        assert!(bench.now_ns() >= until, "{}", bench.engine.kind().name());
    });
}

#[test]
fn dropping_an_engine_with_requests_in_flight_is_safe() {
    for_each_engine(|bench| {
        let ops: Vec<(u32, Op)> = (0..DEPTH).map(|number| op(OpKind::Write, number, 8192)).collect();
        bench.submit(&ops, &mut Vec::new());
    });
}

#[test]
fn a_machine_without_an_engine_says_so_and_what_to_do() {
    let error = EngineError::Unavailable { engine: "io_uring", why: "blocked".to_owned() }.to_string();
    assert!(error.contains("--engine auto"), "{error}");
    assert!(clock::now_ns() > 0);
}
