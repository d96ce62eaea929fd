//! One suite over all engines: what the worker relies on, whichever engine runs.

use std::collections::HashSet;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use qd1_engine::buf::Buffers;
use qd1_engine::target::{OpenAs, Target};
use qd1_engine::{Done, Engine, EngineError, Op, OpKind, Setup, clock, open, sim};
use qd1_model::plan::EngineKind;

const DEPTH: u32 = 8;
const SIZE: u64 = 1 << 20;
const ALL: [EngineKind; 5] =
    [EngineKind::Psync, EngineKind::Libaio, EngineKind::IoUring, EngineKind::Null, EngineKind::Sim];

struct Bench {
    engine: Box<dyn Engine>,
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
    let setup = Setup { fd: file.as_raw_fd(), iodepth: DEPTH, buffers: buffers.clone(), sim };
    match open(kind, setup) {
        Ok(engine) => Some(Bench { engine, buffers, _file: file, _dir: dir }),
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

fn submit_all(engine: &mut dyn Engine, ops: &[Op]) {
    let mut at = 0;
    while at < ops.len() {
        at += engine.submit(&ops[at..]).unwrap();
    }
}

fn op(kind: OpKind, slot: u32, len: u32) -> Op {
    let transfers = matches!(kind, OpKind::Read | OpKind::Write);
    Op { kind, slot, len: if transfers { len } else { 0 }, offset: u64::from(slot) * 8192 * u64::from(transfers) }
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
            let ops: Vec<Op> = (0..DEPTH).map(|slot| op(kinds[(slot as usize + round) % 4], slot, 4096)).collect();
            let before = bench.engine.now_ns();
            submit_all(bench.engine.as_mut(), &ops);
            let mut done: Vec<Done> = Vec::new();
            while done.len() < ops.len() {
                bench.engine.reap(1, u64::MAX, &mut done).unwrap();
            }
            let slots: HashSet<u32> = done.iter().map(|done| done.slot).collect();
            assert_eq!((done.len(), slots.len()), (8, 8), "{}", bench.engine.kind().name());
            for done in &done {
                assert!(done.result >= 0);
                assert_eq!(done.result, ops[done.slot as usize].len as i32);
                assert!(before <= done.issued_ns && done.issued_ns <= done.submitted_ns);
                assert!(done.submitted_ns <= done.completed_ns && done.completed_ns <= bench.engine.now_ns());
            }
        }
    });
}

#[test]
fn what_was_written_is_read_back() {
    for_each_engine(|bench| {
        if !does_io(bench.engine.kind()) {
            return;
        }
        let mut done = Vec::new();
        bench.buffers.stamp(0, 8192, 77);
        let written = bench.buffers.copy(0, 8192);
        submit_all(bench.engine.as_mut(), &[Op { kind: OpKind::Write, slot: 0, len: 8192, offset: 65536 }]);
        bench.engine.reap(1, u64::MAX, &mut done).unwrap();
        submit_all(bench.engine.as_mut(), &[Op { kind: OpKind::Read, slot: 3, len: 8192, offset: 65536 }]);
        bench.engine.reap(1, u64::MAX, &mut done).unwrap();
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
        let mut done = Vec::new();
        // Half of it lies behind the end of the file.
        submit_all(bench.engine.as_mut(), &[Op { kind: OpKind::Read, slot: 1, len: 8192, offset: SIZE - 4096 }]);
        bench.engine.reap(1, u64::MAX, &mut done).unwrap();
        assert_eq!(done[0].result, 4096, "{name}: a short read tells its length");
        done.clear();
        // A negative offset is refused by the kernel.
        let bad = Op { kind: OpKind::Read, slot: 1, len: 4096, offset: 1 << 63 };
        match bench.engine.submit(&[bad]) {
            Ok(_) => {
                bench.engine.reap(1, u64::MAX, &mut done).unwrap();
                assert!(done[0].result < 0, "{name}: {:?}", done[0]);
            }
            Err(EngineError::Broken { .. }) if bench.engine.kind() == EngineKind::Libaio => {}
            Err(error) => panic!("{name}: {error}"),
        }
    });
}

#[test]
fn reaping_nothing_waits_until_the_time_given_and_no_longer_than_asked() {
    for_each_engine(|bench| {
        let mut done = Vec::new();
        bench.engine.reap(0, u64::MAX, &mut done).unwrap();
        let until = bench.engine.now_ns() + 2_000_000;
        bench.engine.reap(1, until, &mut done).unwrap();
        assert!(done.is_empty());
        assert!(bench.engine.now_ns() >= until, "{}", bench.engine.kind().name());
    });
}

#[test]
fn dropping_an_engine_with_requests_in_flight_is_safe() {
    for_each_engine(|bench| {
        let ops: Vec<Op> = (0..DEPTH).map(|slot| op(OpKind::Write, slot, 8192)).collect();
        submit_all(bench.engine.as_mut(), &ops);
    });
}

#[test]
fn a_machine_without_an_engine_says_so_and_what_to_do() {
    let error = EngineError::Unavailable { engine: "io_uring", why: "blocked".to_owned() }.to_string();
    assert!(error.contains("--engine auto"), "{error}");
    assert!(clock::now_ns() > 0);
}
