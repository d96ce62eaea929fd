//! The same random requests through every engine leave identical files.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use proptest::prelude::*;
use qd1_engine::backing::{OpenAs, Target};
use qd1_engine::buf::Buffers;
use qd1_engine::{Op, OpKind, Setup, Slot, Tuning, open};
use qd1_model::plan::EngineKind;

const DEPTH: u32 = 4;
const BLOCK: u32 = 4096;
const BLOCKS: u64 = 32;
const ENGINES: [EngineKind; 8] = [
    EngineKind::Psync,
    EngineKind::Libaio,
    EngineKind::IoUring,
    EngineKind::Sync,
    EngineKind::Vsync,
    EngineKind::Pvsync,
    EngineKind::Pvsync2,
    EngineKind::Mmap,
];

/// (0 read, 1 write, 2 fsync, 3 fdatasync; block; length in blocks)
type Step = (u8, u64, u32);

fn run(kind: EngineKind, direct: bool, steps: &[Step]) -> Option<Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let target = Target::create_in(dir.path(), "same").unwrap();
    target.set_len(BLOCKS * u64::from(BLOCK)).unwrap();
    let file = target.open(OpenAs { write: true, direct, ..OpenAs::default() }).ok()?;
    let buffers = Arc::new(Buffers::new(DEPTH, BLOCK * 4, 5).unwrap());
    let setup = Setup {
        files: vec![file.as_raw_fd()],
        iodepth: DEPTH,
        buffers: buffers.clone(),
        sim: None,
        tuning: Tuning::default(),
    };
    let mut engine = open(kind, setup).ok()?;
    let mut slots = vec![Slot::default(); DEPTH as usize];
    let mut done = Vec::new();
    // Batches of requests that do not overlap, since order inside a batch is not promised.
    for (number, batch) in steps.chunks(DEPTH as usize).enumerate() {
        let mut taken = std::collections::HashSet::new();
        let mut queue: Vec<u32> = Vec::new();
        for (slot, (kind, block, blocks)) in batch.iter().enumerate() {
            let blocks = u64::from((*blocks).min(4)).min(BLOCKS - block);
            if (*block..block + blocks).any(|block| taken.contains(&block)) {
                continue;
            }
            taken.extend(*block..block + blocks);
            let (slot, len) = (slot as u32, blocks as u32 * BLOCK);
            let offset = block * u64::from(BLOCK);
            queue.push(slot);
            slots[slot as usize].op = match kind {
                0 => Op { kind: OpKind::Read, file: 0, len, offset },
                1 => {
                    buffers.stamp(slot, len, number as u64 * 100 + u64::from(slot));
                    Op { kind: OpKind::Write, file: 0, len, offset }
                }
                2 => Op { kind: OpKind::Fsync, file: 0, len: 0, offset: 0 },
                _ => Op { kind: OpKind::Fdatasync, file: 0, len: 0, offset: 0 },
            };
        }
        done.clear();
        let mut at = 0;
        while at < queue.len() {
            at += engine.submit(&mut slots, &queue[at..], &mut done).unwrap();
        }
        while done.len() < queue.len() {
            engine.reap(&mut slots, 1, u64::MAX, &mut done).unwrap();
        }
        assert!(queue.iter().all(|number| slots[*number as usize].done.result >= 0));
        // A read overwrites its buffer: refill it so that later writes carry the same bytes in every engine.
        for number in &queue {
            if slots[*number as usize].op.kind == OpKind::Read {
                let fresh = Buffers::new(DEPTH, BLOCK * 4, 5).unwrap().copy(*number, BLOCK as usize * 4);
                // SAFETY: the slot is idle, and both are BLOCK * 4 bytes long.
                unsafe { std::ptr::copy_nonoverlapping(fresh.as_ptr(), buffers.ptr(*number), fresh.len()) };
            }
        }
    }
    drop(engine);
    let reader = target.open(OpenAs::default()).unwrap();
    let mut bytes = vec![0; (BLOCKS * u64::from(BLOCK)) as usize];
    let mut at = 0;
    while at < bytes.len() {
        at += rustix::io::pread(&reader, &mut bytes[at..], at as u64).unwrap();
    }
    Some(bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_same_requests_leave_the_same_file_through_every_engine(
        steps in prop::collection::vec((0u8..4, 0..BLOCKS, 1u32..5), 1..40),
        direct in any::<bool>(),
    ) {
        let expected = run(EngineKind::Psync, false, &steps).unwrap();
        for kind in ENGINES {
            if let Some(bytes) = run(kind, direct, &steps) {
                prop_assert!(bytes == expected, "{} direct={direct} differs from psync", kind.name());
            }
        }
    }
}
