//! Operations on one large file through the page cache, a chunk at a time, as bonnie++ makes them: write, rewrite,
//! read, seek.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use qd1_model::plan::{FileOp, FilesWork};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fs::{Mode, OFlags, fsync};
use rustix::io::{pread, pwrite};

use super::lane::{Fault, Lane, Moved};
use crate::buf::Buffers;
use crate::error::EngineError;
use qd1_clock as clock;

/// One in this many random reads is followed by a write to the same place.
const UPDATE_EVERY: u64 = 10;

/// What the workers on the file share.
pub(super) struct Block<'a> {
    pub(super) path: &'a Path,
    pub(super) work: &'a FilesWork,
    pub(super) op: FileOp,
    pub(super) seed: u64,
    /// Random reads started so far, by all workers.
    pub(super) tickets: AtomicU64,
}

impl Block<'_> {
    /// How many operations there are in all.
    pub(super) fn wanted(&self) -> u64 {
        match self.op {
            FileOp::Seek => self.work.seeks,
            _ => self.work.size.0 / self.work.chunk.0.max(1),
        }
    }

    /// Does the part of worker `index`; returns the time of the sync at its end, ns.
    pub(super) fn run(&self, index: u32, lane: &mut Lane<'_>) -> Result<u64, EngineError> {
        let file = self.open()?;
        let chunk = self.work.chunk.0 as usize;
        let buffers = Buffers::new(1, chunk as u32, self.seed ^ u64::from(index))?;
        match self.op {
            FileOp::Seek => self.seek(index, &file, &buffers, lane),
            _ => {
                for number in 0..self.wanted() {
                    if !lane.may_continue() {
                        break;
                    }
                    buffers.stamp(0, chunk as u32, self.seed.wrapping_add(number));
                    let begin_ns = clock::now_ns();
                    match self.sequential(&file, number, &buffers, lane) {
                        Ok(()) => lane.count(begin_ns, &Moved { bytes: chunk as u64, sync_ns: 0 }),
                        Err(fault) => lane.fault(&fault, number * chunk as u64),
                    }
                }
            }
        }
        self.close(&file, lane)
    }

    fn open(&self) -> Result<OwnedFd, EngineError> {
        let flags = match self.op {
            FileOp::BlockWrite => OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC,
            _ => OFlags::RDWR | OFlags::CLOEXEC,
        };
        let opened = rustix::fs::open(self.path, flags, Mode::RUSR | Mode::WUSR);
        opened.map_err(|errno| EngineError::path("open", self.path, errno))
    }

    fn sequential(&self, file: &OwnedFd, number: u64, buffers: &Buffers, lane: &mut Lane<'_>) -> Result<(), Fault> {
        let offset = number * self.work.chunk.0;
        if self.op != FileOp::BlockWrite {
            self.get(file, offset, buffers, lane)?;
        }
        if self.op == FileOp::BlockRewrite {
            // One word is changed, as a program would change a record.
            buffers.fill(0, 8, |word| word.copy_from_slice(&self.seed.wrapping_add(number).to_le_bytes()));
        }
        if self.op != FileOp::BlockRead {
            self.put(file, offset, buffers, lane)?;
        }
        Ok(())
    }

    fn seek(&self, index: u32, file: &OwnedFd, buffers: &Buffers, lane: &mut Lane<'_>) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.seed ^ (u64::from(index) << 32));
        let chunks = (self.work.size.0 / self.work.chunk.0.max(1)).max(1);
        let mut own = 0;
        while lane.may_continue() && self.tickets.fetch_add(1, Ordering::Relaxed) < self.work.seeks {
            let offset = rng.next_u64() % chunks * self.work.chunk.0;
            let updates = own % UPDATE_EVERY == 0;
            own += 1;
            let begin_ns = clock::now_ns();
            let outcome = self.get(file, offset, buffers, lane).and_then(|()| {
                if !updates {
                    return Ok(0);
                }
                buffers.fill(0, 8, |word| word.copy_from_slice(&rng.next_u64().to_le_bytes()));
                self.put(file, offset, buffers, lane)?;
                self.sync_each(file, lane)
            });
            match outcome {
                Ok(sync_ns) => lane.count(begin_ns, &Moved { bytes: self.work.chunk.0, sync_ns }),
                Err(fault) => lane.fault(&fault, offset),
            }
        }
    }

    fn sync_each(&self, file: &OwnedFd, lane: &mut Lane<'_>) -> Result<u64, Fault> {
        if !self.work.fsync.files {
            return Ok(0);
        }
        let begin_ns = clock::now_ns();
        fsync(file)?;
        lane.requests.syncs += 1;
        Ok(clock::now_ns() - begin_ns)
    }

    fn get(&self, file: &OwnedFd, offset: u64, buffers: &Buffers, lane: &mut Lane<'_>) -> Result<(), Fault> {
        let chunk = self.work.chunk.0 as usize;
        let got = buffers.fill(0, chunk, |buffer| pread(file, buffer, offset))?;
        if got < chunk {
            return Err(Fault::Short);
        }
        lane.requests.reads += 1;
        lane.requests.read_bytes += chunk as u64;
        Ok(())
    }

    fn put(&self, file: &OwnedFd, offset: u64, buffers: &Buffers, lane: &mut Lane<'_>) -> Result<(), Fault> {
        let chunk = self.work.chunk.0 as usize;
        let put = buffers.inspect(0, chunk, |data| pwrite(file, data, offset))?;
        if put < chunk {
            return Err(Fault::Short);
        }
        lane.requests.writes += 1;
        lane.requests.write_bytes += chunk as u64;
        Ok(())
    }

    /// Everything written must be on the disk before the operation counts as done.
    fn close(&self, file: &OwnedFd, lane: &mut Lane<'_>) -> Result<u64, EngineError> {
        if self.op == FileOp::BlockRead {
            return Ok(0);
        }
        let begin_ns = clock::now_ns();
        match fsync(file) {
            Ok(()) => lane.requests.syncs += 1,
            Err(errno) => lane.fault(&errno.into(), 0),
        }
        Ok(clock::now_ns() - begin_ns)
    }
}
