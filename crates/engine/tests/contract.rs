//! One suite for all engines: what the worker relies on, whichever engine runs.

use std::collections::HashSet;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use qd1_clock as clock;
use qd1_engine::backing::{OpenAs, Target};
use qd1_engine::buf::Buffers;
use qd1_engine::{Engine, EngineError, Op, OpKind, Setup, Slot, Tuning, open, sim};
use qd1_model::plan::EngineKind;

const DEPTH: u32 = 8;
const SIZE: u64 = 1 << 20;
/// Every kind of request that is not a transfer.
const OTHERS: [OpKind; 4] = [OpKind::Fsync, OpKind::Fdatasync, OpKind::SyncFileRange, OpKind::Trim];
const ALL: [EngineKind; 10] = [
    EngineKind::Psync,
    EngineKind::Libaio,
    EngineKind::IoUring,
    EngineKind::Null,
    EngineKind::Sim,
    EngineKind::Sync,
    EngineKind::Vsync,
    EngineKind::Pvsync,
    EngineKind::Pvsync2,
    EngineKind::Mmap,
];

struct Bench {
    engine: Box<dyn Engine>,
    slots: Vec<Slot>,
    buffers: Arc<Buffers>,
    /// Two of them, of the same length.
    targets: [Target; 2],
    /// The engine's name in messages.
    name: String,
    _files: Vec<OwnedFd>,
    _dir: tempfile::TempDir,
}

/// An engine on two fresh files, or `None` (with a message) if the machine does not offer it.
fn bench(kind: EngineKind, tuning: Tuning) -> Option<Bench> {
    let name = if tuning == Tuning::default() { kind.name().to_owned() } else { format!("{} {tuning:?}", kind.name()) };
    let dir = tempfile::tempdir().unwrap();
    let targets = ["contract-0", "contract-1"].map(|name| Target::create_in(dir.path(), name).unwrap());
    let open_one = |target: &Target| {
        target.set_len(SIZE).unwrap();
        let file = target.open(OpenAs { write: true, direct: tuning.hipri, ..OpenAs::default() });
        file.map_err(|error| error.to_string())
    };
    let files: Result<Vec<OwnedFd>, String> = targets.iter().map(open_one).collect();
    let files = match files {
        Ok(files) => files,
        Err(why) => {
            skip(&format!("engine contract of {name}"), &why);
            return None;
        }
    };
    let buffers = Arc::new(Buffers::new(DEPTH, 8192, 1).unwrap());
    let sim = (kind == EngineKind::Sim).then(sim::Device::default);
    let raw = files.iter().map(AsRawFd::as_raw_fd).collect();
    let setup = Setup { files: raw, iodepth: DEPTH, buffers: buffers.clone(), sim, tuning };
    match open(kind, setup) {
        Ok(engine) => {
            let slots = vec![Slot::default(); DEPTH as usize];
            Some(Bench { engine, slots, buffers, targets, name, _files: files, _dir: dir })
        }
        Err(EngineError::Unavailable { why, .. }) => {
            skip(&format!("engine contract of {name}"), &why);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Reports and counts a test that could not run here (see HACKING.md).
fn skip(test: &str, why: &str) {
    println!("SKIPPED: {test}: {why}");
    if let Some(path) = std::env::var_os("QD1_SKIP_LOG") {
        use std::io::Write as _;
        let mut log = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(log, "{test}: {why}").unwrap();
    }
}

/// Every engine with its defaults, and with the other modes that fio offers.
fn ways() -> Vec<(EngineKind, Tuning)> {
    let plain = Tuning { sync_file_range: 7, ..Tuning::default() };
    let mut ways: Vec<(EngineKind, Tuning)> = ALL.into_iter().map(|kind| (kind, plain)).collect();
    ways.push((EngineKind::Psync, Tuning { write_dsync: true, ..plain }));
    let unregistered = Tuning { fixedbufs: false, registerfiles: false, ..plain };
    ways.push((EngineKind::IoUring, unregistered));
    ways.push((EngineKind::IoUring, Tuning { nonvectored: false, ..unregistered }));
    ways.push((EngineKind::IoUring, Tuning { sqthread_poll: true, ..plain }));
    ways.push((EngineKind::IoUring, Tuning { sqthread_poll: true, nonvectored: false, ..unregistered }));
    ways.push((EngineKind::Pvsync2, Tuning { hipri: true, ..plain }));
    ways
}

fn for_each_engine(check: impl Fn(&mut Bench)) {
    for (kind, tuning) in ways() {
        if let Some(mut bench) = bench(kind, tuning) {
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

    /// Content of file number `file`, as other processes see it.
    fn content(&self, file: usize, offset: u64, len: usize) -> Vec<u8> {
        let reader = self.targets[file].open(OpenAs::default()).unwrap();
        let mut bytes = vec![0; len];
        assert_eq!(rustix::io::pread(&reader, &mut bytes, offset).unwrap(), len);
        bytes
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
    let ranged = !matches!(kind, OpKind::Fsync | OpKind::Fdatasync);
    let offset = u64::from(number) * 8192 * u64::from(ranged);
    (number, Op { kind, file: (number % 2) as u16, len: if ranged { len } else { 0 }, offset })
}

/// Engines that do no I/O cannot fail and know no file.
fn does_io(kind: EngineKind) -> bool {
    !matches!(kind, EngineKind::Null | EngineKind::Sim)
}

#[test]
fn every_request_comes_back_once_with_its_times_in_order() {
    for_each_engine(|bench| {
        for round in 0..20 {
            let kinds = [OpKind::Write, OpKind::Read, OTHERS[round % 4], OTHERS[(round + 1) % 4]];
            let ops: Vec<(u32, Op)> =
                (0..DEPTH).map(|number| op(kinds[(number as usize + round) % 4], number, 4096)).collect();
            let before = bench.now_ns();
            let mut done = Vec::new();
            bench.submit(&ops, &mut done);
            bench.collect(ops.len(), &mut done);
            let numbers: HashSet<u32> = done.iter().copied().collect();
            assert_eq!((done.len(), numbers.len()), (8, 8), "{}", bench.name);
            let after = bench.now_ns();
            for (number, op) in &ops {
                let done = bench.slots[*number as usize].done;
                assert_eq!(done.result, op.len as i32, "{}: {op:?}", bench.name);
                assert!(before <= done.issued_ns && done.issued_ns <= done.submitted_ns);
                assert!(done.submitted_ns <= done.completed_ns && done.completed_ns <= after);
            }
        }
    });
}

#[test]
fn one_request_alone_goes_as_through_the_lists() {
    for_each_engine(|bench| {
        let name = bench.name.clone();
        let kinds = [&[OpKind::Write, OpKind::Read][..], &OTHERS, &[OpKind::Write]].concat();
        for number in [0, DEPTH - 1, 3] {
            for (round, kind) in kinds.iter().copied().enumerate() {
                let (_, op) = op(kind, number, 4096);
                let before = bench.now_ns();
                let done = bench.engine.one(number, &op).unwrap();
                assert_eq!(done.result, op.len as i32, "{name}: {kind:?}");
                assert!(before <= done.issued_ns && done.issued_ns <= done.submitted_ns, "{name}");
                assert!(done.submitted_ns <= done.completed_ns && done.completed_ns <= bench.now_ns(), "{name}");
                // Neither leaves anything behind that would break the other.
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
            assert_eq!(bench.engine.one(1, &behind).unwrap().result, 4096, "{name}: a short read returns its length");
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
fn each_request_goes_to_its_own_file() {
    for_each_engine(|bench| {
        if !does_io(bench.engine.kind()) {
            return;
        }
        // In turn, so that an engine that remembers a file's position is put to the test.
        for (slot, file) in [(0u32, 0u16), (1, 1), (2, 0), (3, 1)] {
            bench.buffers.fill(slot, 4096, |bytes| bytes.fill(10 + slot as u8));
            let offset = u64::from(slot / 2) * 4096;
            assert_eq!(bench.one(slot, Op { kind: OpKind::Write, file, len: 4096, offset }), 4096, "{}", bench.name);
            let sync = Op { kind: OpKind::Fdatasync, file, len: 0, offset: 0 };
            assert_eq!(bench.one(slot, sync), 0, "{}", bench.name);
        }
        for (file, first, second) in [(0usize, 10, 12), (1, 11, 13)] {
            let expected = [[first; 4096], [second; 4096]].concat();
            assert!(bench.content(file, 0, 8192) == expected, "{}: file {file}", bench.name);
            let all = Op { kind: OpKind::Read, file: file as u16, len: 8192, offset: 0 };
            assert_eq!(bench.one(5, all), 8192, "{}", bench.name);
            assert!(bench.buffers.inspect(5, 8192, |bytes| bytes == expected), "{}: file {file}", bench.name);
        }
    });
}

#[test]
fn what_was_trimmed_reads_as_zeros_and_the_rest_stays() {
    for_each_engine(|bench| {
        if !does_io(bench.engine.kind()) {
            return;
        }
        let name = bench.name.clone();
        bench.buffers.fill(0, 8192, |bytes| bytes.fill(0xA5));
        for at in 0..4 {
            let write = Op { kind: OpKind::Write, file: 1, len: 8192, offset: at * 8192 };
            assert_eq!(bench.one(0, write), 8192, "{name}");
        }
        let trim = |offset| Op { kind: OpKind::Trim, file: 1, len: 4096, offset };
        let mut done = Vec::new();
        // Trims among transfers, whether the engine queues them or not.
        let read = Op { kind: OpKind::Read, file: 1, len: 4096, offset: 16_384 };
        bench.submit(&[(1, read), (2, trim(4096)), (3, read), (4, trim(12_288))], &mut done);
        bench.collect(4, &mut done);
        assert_eq!(bench.engine.one(5, &trim(20_480)).unwrap().result, 4096, "{name}");
        done.sort_unstable();
        assert_eq!(done, [1, 2, 3, 4], "{name}");
        assert!((1..5).all(|slot| bench.slots[slot].done.result == 4096), "{name}");
        for block in 0..8u64 {
            let expected = if [1, 3, 5].contains(&block) { 0 } else { 0xA5 };
            let seen = bench.content(1, block * 4096, 4096);
            assert!(seen.iter().all(|byte| *byte == expected), "{name}: block {block}");
            let read = Op { kind: OpKind::Read, file: 1, len: 4096, offset: block * 4096 };
            assert_eq!(bench.one(6, read), 4096, "{name}");
            assert!(bench.buffers.inspect(6, 4096, |bytes| bytes == seen), "{name}: block {block}");
        }
        let length = rustix::fs::seek(bench.targets[1].open(OpenAs::default()).unwrap(), rustix::fs::SeekFrom::End(0));
        assert_eq!(length, Ok(SIZE), "{name}: a trim changes no length");
    });
}

#[test]
fn a_range_or_all_of_a_file_can_be_written_out() {
    for_each_engine(|bench| {
        let name = bench.name.clone();
        for (len, offset) in [(8192, 65_536), (0, 0), (0, 4096), (4096, SIZE)] {
            let sync = Op { kind: OpKind::SyncFileRange, file: 1, len, offset };
            assert_eq!(bench.one(1, sync), len as i32, "{name}");
            assert_eq!(bench.engine.one(2, &sync).unwrap().result, len as i32, "{name}");
        }
    });
    // Flags that no kernel knows make the request fail, which shows that they reached the kernel.
    for kind in ALL.into_iter().filter(|kind| does_io(*kind)) {
        let Some(mut bench) = bench(kind, Tuning { sync_file_range: 1 << 20, ..Tuning::default() }) else { continue };
        let sync = Op { kind: OpKind::SyncFileRange, file: 0, len: 4096, offset: 0 };
        assert_eq!(bench.one(0, sync), -rustix::io::Errno::INVAL.raw_os_error(), "{}", bench.name);
    }
}

#[test]
fn polled_requests_are_carried_out_or_refused_one_by_one() {
    let tuning = Tuning { hipri: true, sync_file_range: 2, ..Tuning::default() };
    let Some(mut bench) = bench(EngineKind::IoUring, tuning) else { return };
    bench.buffers.stamp(0, 8192, 5);
    let written = bench.buffers.copy(0, 8192);
    let results = [(OpKind::Write, 0), (OpKind::Read, 1)]
        .map(|(kind, slot)| bench.one(slot, Op { kind, file: 0, len: 8192, offset: 0 }));
    // Where the device cannot be polled. A write may still be carried out, by a worker of the kernel.
    let refused = -rustix::io::Errno::OPNOTSUPP.raw_os_error();
    assert!(results.iter().all(|result| [8192, refused].contains(result)), "{results:?}");
    if results == [8192, 8192] {
        assert_eq!(bench.buffers.copy(1, 8192), written);
    }
    // The kernel polls for transfers only; these must complete nevertheless.
    for kind in OTHERS {
        let (_, op) = op(kind, 2, 4096);
        assert_eq!(bench.one(2, op), op.len as i32, "{kind:?}");
    }
}

#[test]
fn a_file_cut_short_under_a_mapping_fails_only_its_requests() {
    let Some(mut bench) = bench(EngineKind::Mmap, Tuning::default()) else { return };
    let read = |file, offset| Op { kind: OpKind::Read, file, len: 8192, offset };
    let write = |offset| Op { kind: OpKind::Write, file: 0, len: 8192, offset };
    assert_eq!((bench.one(0, write(65_536)), bench.one(1, read(1, 65_536))), (8192, 8192));
    // Behind the engine's back: the mapped data is no longer there.
    bench.targets[0].set_len(4096).unwrap();
    assert_eq!(bench.one(2, read(0, 65_536)), -rustix::io::Errno::IO.raw_os_error());
    assert_eq!(bench.one(2, read(0, 65_536)), 0, "its new length is known from then on");
    assert_eq!(bench.one(2, read(0, 0)), 4096);
    assert_eq!(bench.one(2, write(65_536)), -rustix::io::Errno::NXIO.raw_os_error(), "a mapping cannot grow a file");
    assert_eq!(bench.one(3, read(1, 65_536)), 8192, "the other file is what it was");
    bench.targets[0].set_len(SIZE).unwrap();
    assert_eq!((bench.one(4, write(65_536)), bench.one(5, read(0, 65_536))), (8192, 8192));
    assert_eq!(bench.buffers.copy(4, 8192), bench.buffers.copy(5, 8192));
}

#[test]
fn a_file_open_for_reading_is_not_written_by_any_engine() {
    for kind in ALL.into_iter().filter(|kind| does_io(*kind)) {
        let Some(bench) = bench(kind, Tuning::default()) else { continue };
        let file = bench.targets[0].open(OpenAs::default()).unwrap();
        let buffers = Arc::new(Buffers::new(3, 4096, 1).unwrap());
        let files = vec![file.as_raw_fd()];
        let setup = Setup { files, iodepth: 3, buffers, sim: None, tuning: Tuning::default() };
        let mut engine = open(kind, setup).unwrap();
        let write = Op { kind: OpKind::Write, file: 0, len: 4096, offset: 0 };
        let read = Op { kind: OpKind::Read, ..write };
        let refused = -rustix::io::Errno::BADF.raw_os_error();
        assert_eq!(engine.one(0, &write).unwrap().result, refused, "{}", bench.name);
        assert_eq!(engine.one(0, &read).unwrap().result, 4096, "{}", bench.name);
        let mut slots = [read, write, read].map(|op| Slot { op, ..Slot::default() });
        let mut done = Vec::new();
        let mut at = 0;
        while at < 3 {
            at += engine.submit(&mut slots, &[0, 1, 2][at..], &mut done).unwrap();
        }
        while done.len() < 3 {
            engine.reap(&mut slots, 1, u64::MAX, &mut done).unwrap();
        }
        assert_eq!(slots.map(|slot| slot.done.result), [4096, refused, 4096], "{}", bench.name);
        assert!(slots.iter().all(|slot| slot.done.issued_ns > 0 && slot.done.issued_ns <= slot.done.completed_ns));
    }
}

#[test]
fn a_failing_or_short_request_is_a_done_and_not_an_error() {
    for_each_engine(|bench| {
        if !does_io(bench.engine.kind()) {
            return;
        }
        let name = bench.name.clone();
        // Half of it lies beyond the end of the file.
        let short = bench.one(1, Op { kind: OpKind::Read, file: 0, len: 8192, offset: SIZE - 4096 });
        assert_eq!(short, 4096, "{name}: a short read returns its length");
        // The file is opened for writing too, so the only reason to refuse is an offset beyond the maximum file size.
        let refused = bench.one(2, Op { kind: OpKind::Write, file: 0, len: 4096, offset: (1 << 62) + 4096 });
        assert!(refused < 0, "{name}: {refused}");
    });
}

#[test]
fn reaping_nothing_waits_until_the_time_given() {
    for_each_engine(|bench| {
        let mut done = Vec::new();
        bench.engine.reap(&mut bench.slots, 0, u64::MAX, &mut done).unwrap();
        let until = bench.now_ns() + 2_000_000;
        bench.engine.reap(&mut bench.slots, 1, until, &mut done).unwrap();
        assert!(done.is_empty());
        assert!(bench.now_ns() >= until, "{}", bench.name);
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
