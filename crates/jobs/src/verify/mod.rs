//! Puts headers and checksums into written data, and finds blocks that were read back wrong.
//!
//! Blocks have fio's headers, so that either program can check what the other wrote. fio's own check has gaps (`meta`
//! does not cover the data, `sha512` contains no hash, the header's time is never checked); ours has none for blocks
//! that we wrote: see [`header`].
//!
//! Blocks of several sizes have a header at each multiple of the smallest, as in fio.

mod checksum;
mod header;
mod history;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use qd1_fio::FioJob;
use qd1_fio::types::Verify;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::data::{Compressible, Repeat, mix};
use header::Header;
pub use history::History;

/// Bytes of a header, including its checksum: no write of the job may be smaller. 0 for types without headers.
pub fn header_bytes(verify: Verify) -> usize {
    checksum::layout(verify).map_or(0, |(_, length)| header::BYTES + length)
}

/// Fills and checks the verified blocks of one thread. Cheap to clone; clones check the same way, but only one may
/// fill.
#[derive(Clone)]
pub struct Verifier {
    verify: Verify,
    thread: u16,
    seed: u64,
    next: u64,
    /// Bytes from header to header; `None` for one header in each request.
    interval: Option<usize>,
    /// Where the header lies in its interval (`verify_offset`): it swaps places with the data there.
    place: usize,
    content: Arc<Content>,
}

struct Content {
    pattern: Repeat,
    random: Compressible,
}

/// A block that was written, as it must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The file, counted from 0 within the job.
    pub file: u16,
    /// Whether the header identifies this exact write. It does not with `verify_only`, where another run wrote the
    /// block.
    pub written: bool,
    /// Bytes.
    pub len: u32,
    /// Where in the file.
    pub offset: u64,
    /// Number of the write within its thread, counted from 0: fio's numberio.
    pub sequence: u64,
}

/// A block that differs from what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("verify: at offset {offset}, length {len}: {what}")]
pub struct Mismatch {
    /// Where in the file the first wrong block starts.
    pub offset: u64,
    /// Its bytes.
    pub len: u32,
    /// What was found and what was wanted.
    pub what: String,
}

impl Verifier {
    /// For thread `thread` (1 is fio's first) of `job`; `None` where nothing is verified. The data depends on `seed`
    /// and the number of the write, so each thread needs its own seed.
    pub fn new(job: &FioJob, thread: u16, seed: u64) -> Option<Self> {
        if job.verify == Verify::None {
            return None;
        }
        let sizes = job.block_range(1);
        let interval = match job.verify_interval {
            0 if sizes.min == sizes.max => None,
            0 => usize::try_from(sizes.min).ok(),
            bytes => usize::try_from(bytes).ok(),
        };
        debug_assert!(
            interval.is_none_or(|interval| sizes.min.is_multiple_of(interval as u64)),
            "the dialect's checks make verify_interval a divisor of the blocks"
        );
        let place = usize::try_from(job.verify_offset).unwrap_or(0);
        let random = Compressible::new(job, Repeat::new(&job.buffer_pattern));
        let content = Arc::new(Content { pattern: Repeat::new(&job.verify_pattern), random });
        Some(Self { verify: job.verify, thread, seed, next: 0, interval, place, content })
    }

    /// Fills `buf` for a write at `offset` of `file`: data, then the headers. Returns what must be found later.
    pub fn fill(&mut self, buf: &mut [u8], file: u16, offset: u64) -> Expected {
        let expected = Expected { written: true, ..self.expect(file, offset, buf.len() as u32) };
        self.data(buf, offset, expected.sequence);
        for (number, block) in self.blocks(buf.len()).enumerate() {
            let at = offset + block.start as u64;
            let block = &mut buf[block];
            self.head(block, at, number, expected.sequence);
            self.change_places(block);
        }
        expected
    }

    /// What an earlier run left with this write: for `verify_only`, which draws the writes but makes none.
    pub fn expect(&mut self, file: u16, offset: u64, len: u32) -> Expected {
        let sequence = self.next;
        self.next += 1;
        Expected { file, written: false, len, offset, sequence }
    }

    /// Compares what was read from `offset` with what was written.
    ///
    /// Without `expected`, or if it says that another run wrote the block, the header's length, offset and type, its
    /// checksum and that of the data must match, as in fio; an older write of the same block passes. With it, the
    /// header's seed, thread and number must be those of this exact write.
    ///
    /// # Errors
    /// The first block that is wrong. fio's errno for it is EILSEQ.
    pub fn check(&self, buf: &[u8], offset: u64, expected: Option<&Expected>) -> Result<(), Mismatch> {
        let sequence = expected.filter(|expected| expected.written).map(|expected| expected.sequence);
        match self.verify {
            Verify::None | Verify::Null => return Ok(()),
            Verify::Pattern if self.content.pattern.is_empty() => return self.check_data(buf, offset, sequence),
            Verify::Pattern => return self.check_pattern(buf, offset),
            _ => {}
        }
        if buf.len() < header_bytes(self.verify) {
            return self.check_data(buf, offset, sequence);
        }
        for (number, block) in self.blocks(buf.len()).enumerate() {
            let at = offset + block.start as u64;
            let bytes = &buf[block];
            let checked = if self.place == 0 {
                self.check_block(bytes, at, number, sequence)
            } else {
                let mut bytes = bytes.to_vec();
                self.change_places(&mut bytes);
                self.check_block(&bytes, at, number, sequence)
            };
            checked.map_err(|what| Mismatch { offset: at, len: bytes.len() as u32, what })?;
        }
        Ok(())
    }

    /// The parts, each with a header. A remainder at the end belongs to the last part, since it may be too small for a
    /// header.
    fn blocks(&self, len: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let least = header_bytes(self.verify);
        let each = self.interval.unwrap_or(len).max(least).max(1);
        let count = (len / each).max(1);
        (0..count).map(move |number| number * each..if number + 1 == count { len } else { (number + 1) * each })
    }

    /// Puts the header where `verify_offset` says, and the data from there to the start; and back.
    fn change_places(&self, block: &mut [u8]) {
        let bytes = header_bytes(self.verify);
        if self.place >= bytes && self.place + bytes <= block.len() {
            let (start, rest) = block.split_at_mut(self.place);
            start[..bytes].swap_with_slice(&mut rest[..bytes]);
        }
    }

    /// The data of a whole request, before any header.
    fn data(&self, buf: &mut [u8], offset: u64, sequence: u64) {
        if self.content.pattern.is_empty() {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.seed_of(sequence, 0));
            self.content.random.random(buf, &mut rng);
        } else {
            self.content.pattern.fill(buf, offset);
        }
    }

    /// The seed in the header of a request's block.
    fn seed_of(&self, sequence: u64, number: usize) -> u64 {
        mix(self.seed, sequence).wrapping_add(number as u64)
    }

    fn head(&self, block: &mut [u8], offset: u64, number: usize, sequence: u64) {
        let Some((code, length)) = checksum::layout(self.verify) else { return };
        let Some((head, after)) = block.split_at_mut_checked(header::BYTES) else { return };
        let len = (head.len() + after.len()) as u32;
        let Some((field, data)) = after.split_at_mut_checked(length) else { return };
        field.copy_from_slice(checksum::compute(self.verify, data, &mut [0; checksum::LONGEST]));
        let seed = self.seed_of(sequence, number);
        let header = Header {
            magic: header::MAGIC,
            checksum: code,
            len,
            seed,
            offset,
            written: header::mark(seed, after),
            thread: self.thread,
            number: sequence as u16,
        };
        head.copy_from_slice(&header.encode());
    }

    fn check_block(&self, block: &[u8], offset: u64, number: usize, sequence: Option<u64>) -> Result<(), String> {
        let (Some((code, length)), Some((head, after))) =
            (checksum::layout(self.verify), block.split_first_chunk::<{ header::BYTES }>())
        else {
            return Ok(());
        };
        let (found, stands, belongs) = Header::decode(head);
        if found.magic != header::MAGIC {
            return Err(format!("the header starts with {:x}, expected {:x}", found.magic, header::MAGIC));
        }
        if stands != belongs {
            return Err(format!("the header's own checksum is {stands:08x}, expected {belongs:08x}"));
        }
        if found.len as usize != block.len() {
            return Err(format!("the header's length is {}, expected {}", found.len, block.len()));
        }
        if found.offset != offset {
            return Err(format!("the header's offset is {}, expected {offset}", found.offset));
        }
        if found.checksum != code {
            let other = checksum::name(found.checksum).map_or(format!("number {}", found.checksum), str::to_owned);
            return Err(format!("the header was made with verify={other}, expected {}", self.verify.name()));
        }
        if let Some(sequence) = sequence {
            self.check_identity(&found, number, sequence)?;
        }
        let (field, data) = after.split_at(length);
        let mut out = [0; checksum::LONGEST];
        let wanted = checksum::compute(self.verify, data, &mut out);
        if field != wanted {
            return Err(format!("{} is {}, expected {}", self.verify.name(), hex(field), hex(wanted)));
        }
        if found.is_marked() {
            let wanted = header::mark(found.seed, after);
            if found.written != wanted {
                return Err(format!("the hash of the whole block is {:x}, expected {wanted:x}", found.written));
            }
        }
        Ok(())
    }

    /// Whether a header belongs to this exact write and not to an older one.
    fn check_identity(&self, found: &Header, number: usize, sequence: u64) -> Result<(), String> {
        let wanted = self.seed_of(sequence, number);
        if found.thread != self.thread {
            return Err(format!("the block was written by thread {}, expected {}", found.thread, self.thread));
        }
        if found.number != sequence as u16 {
            return Err(format!("the block comes from write {}, expected {}", found.number, sequence as u16));
        }
        if found.seed != wanted {
            return Err(format!("the header's seed is {:x}, expected {wanted:x}", found.seed));
        }
        Ok(())
    }

    fn check_pattern(&self, buf: &[u8], offset: u64) -> Result<(), Mismatch> {
        let period = self.content.pattern.period(offset);
        for (number, found) in buf.chunks(period.len()).enumerate() {
            let wanted = &period[..found.len()];
            if found != wanted {
                return Err(differs(found, wanted, number * period.len(), offset, buf.len()));
            }
        }
        Ok(())
    }

    /// For blocks without room for a header: the data is generated again, for which the write must be known.
    fn check_data(&self, buf: &[u8], offset: u64, sequence: Option<u64>) -> Result<(), Mismatch> {
        let Some(sequence) = sequence else { return Ok(()) };
        let mut wanted = vec![0; buf.len()];
        self.data(&mut wanted, offset, sequence);
        if buf == wanted { Ok(()) } else { Err(differs(buf, &wanted, 0, offset, buf.len())) }
    }
}

/// The first byte that differs between parts that lie `base` bytes within a request.
fn differs(found: &[u8], wanted: &[u8], base: usize, offset: u64, len: usize) -> Mismatch {
    let at = found.iter().zip(wanted).position(|(found, wanted)| found != wanted).unwrap_or(0);
    let what = format!("byte {} is {:02x}, expected {:02x}", base + at, found[at], wanted[at]);
    Mismatch { offset, len: len as u32, what }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
