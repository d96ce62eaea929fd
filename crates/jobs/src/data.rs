//! What a job's writes contain: random bytes that neither compress nor deduplicate, unless the job asks for less.
//!
//! Otherwise a disk that compresses or deduplicates would be measured with data it will never hold. By default a buffer
//! is filled with random data once, and each of its 4 KiB blocks gets a stamp for each request, which costs nothing and
//! makes every block unique. Two requests from one buffer still differ only in their stamps: a filesystem that
//! compresses across requests sees through that, and `refill_buffers` is fio's answer to it.

use qd1_fio::FioJob;
use qd1_fio::types::{Pattern, PatternPart};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Data is made unique at this granularity: the smallest block that storage deduplicates.
const STAMP_EVERY: usize = 4096;

/// How many earlier blocks `dedupe_percentage` repeats from.
const EARLIER: usize = 1024;

/// An odd constant that spreads consecutive numbers over 64 bits (the golden ratio's fraction).
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// A 64-bit number that looks random and depends only on `seed` and `number` (the finalizer of SplitMix64).
pub(crate) fn mix(seed: u64, number: u64) -> u64 {
    let mut z = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(SPREAD));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Fills buffers with the data a job writes. Each thread has its own, with its own seed.
///
/// The precedence of options is that of fio 3.33: `buffer_pattern` first, unless there is a
/// `buffer_compress_percentage`, whose compressible part it then forms; next a compress or dedupe percentage, then
/// `zero_buffers`, then random data.
pub struct Filler {
    mode: Mode,
    compress: Compressible,
    rng: Xoshiro256PlusPlus,
}

enum Mode {
    /// Random once, stamped for each request.
    Stamp,
    /// Refilled with random data for each request.
    Refill,
    /// Always the same bytes: zeros, or a pattern without offsets.
    Fixed,
    /// A pattern with offsets.
    Pattern,
    Dedupe(Dedupe),
}

impl Filler {
    /// For the writes of `job`; equal seeds give equal data.
    pub fn new(job: &FioJob, seed: u64) -> Self {
        let pattern = Repeat::new(&job.buffer_pattern);
        let compress = Compressible::new(job, pattern);
        let fixed = compress.percent == 100 || (compress.percent == 0 && !compress.with.is_empty());
        let mode = if fixed && compress.with.has_offsets() {
            Mode::Pattern
        } else if fixed || (job.zero_buffers && compress.percent == 0 && job.dedupe_percentage == 0) {
            Mode::Fixed
        } else if job.dedupe_percentage > 0 {
            Mode::Dedupe(Dedupe::new(job))
        } else if job.refill_buffers || compress.percent > 0 {
            // Blocks that share their random part compress to a single block, whatever share was requested.
            Mode::Refill
        } else {
            Mode::Stamp
        };
        Self { mode, compress, rng: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// Fills a buffer completely, once, when it is made.
    pub fn prime(&mut self, buf: &mut [u8]) {
        match &mut self.mode {
            Mode::Fixed | Mode::Pattern => self.compress.with.fill(buf, 0),
            Mode::Stamp | Mode::Refill => self.compress.random(buf, &mut self.rng),
            Mode::Dedupe(dedupe) => dedupe.fill(buf, &self.compress, &mut self.rng),
        }
    }

    /// Makes a primed buffer ready for the write of its bytes at `offset`. `stamp` differs for each request of the
    /// thread. Cheap unless `refill_buffers`, `dedupe_percentage` or a pattern with offsets is requested.
    #[inline]
    pub fn fill(&mut self, buf: &mut [u8], offset: u64, stamp: u64) {
        match &mut self.mode {
            Mode::Stamp => stamp_blocks(buf, stamp),
            Mode::Fixed => {}
            Mode::Refill => self.compress.random(buf, &mut self.rng),
            Mode::Pattern => self.compress.with.fill(buf, offset),
            Mode::Dedupe(dedupe) => dedupe.fill(buf, &self.compress, &mut self.rng),
        }
    }
}

/// Writes to the start of each 4 KiB block a number that no other block of this thread has.
#[inline]
fn stamp_blocks(buf: &mut [u8], stamp: u64) {
    let base = mix(0, stamp);
    for (number, block) in buf.chunks_mut(STAMP_EVERY).enumerate() {
        if let Some(start) = block.first_chunk_mut::<8>() {
            *start = base.wrapping_add((number as u64).wrapping_mul(SPREAD)).to_le_bytes();
        }
    }
}

/// Random data with a share that compresses to nothing.
#[derive(Clone, Debug)]
pub(crate) struct Compressible {
    /// Of each chunk.
    percent: u32,
    /// Bytes of a chunk (`buffer_compress_chunk`; by default 512, less than any compressor's block); 0 for all.
    chunk: usize,
    /// The content of that share; zeros if empty.
    with: Repeat,
}

impl Compressible {
    /// As a job asks for it.
    pub(crate) fn new(job: &FioJob, with: Repeat) -> Self {
        let chunk = job.buffer_compress_chunk as usize;
        Self { percent: job.buffer_compress_percentage.min(100), chunk, with }
    }

    /// Fills `buf` from `rng`.
    pub(crate) fn random(&self, buf: &mut [u8], rng: &mut Xoshiro256PlusPlus) {
        if self.percent == 0 {
            rng.fill_bytes(buf);
            return;
        }
        let chunk = if self.chunk == 0 { buf.len().max(1) } else { self.chunk };
        for chunk in buf.chunks_mut(chunk) {
            let same = (chunk.len() * self.percent as usize + 50) / 100;
            let (random, same) = chunk.split_at_mut(chunk.len() - same);
            rng.fill_bytes(random);
            self.with.fill(same, 0);
        }
    }
}

/// Draws for each block whether it is new or a copy of an earlier one.
struct Dedupe {
    percent: u32,
    /// Bytes of a block: the smallest write, as in fio, so that blocks repeat whole.
    block: usize,
    /// Seeds of earlier blocks, the oldest replaced first.
    earlier: Vec<u64>,
    next: usize,
}

impl Dedupe {
    fn new(job: &FioJob) -> Self {
        let block = usize::try_from(job.block_range(1).min).unwrap_or(usize::MAX).max(1);
        Self { percent: job.dedupe_percentage, block, earlier: Vec::with_capacity(EARLIER), next: 0 }
    }

    fn fill(&mut self, buf: &mut [u8], compress: &Compressible, rng: &mut Xoshiro256PlusPlus) {
        for block in buf.chunks_mut(self.block) {
            let seed = self.seed(rng);
            compress.random(block, &mut Xoshiro256PlusPlus::seed_from_u64(seed));
        }
    }

    fn seed(&mut self, rng: &mut Xoshiro256PlusPlus) -> u64 {
        let repeat = rng.next_u64() % 100 < u64::from(self.percent);
        if repeat && !self.earlier.is_empty() {
            return self.earlier[(rng.next_u64() % self.earlier.len() as u64) as usize];
        }
        let seed = rng.next_u64();
        if self.earlier.len() < EARLIER {
            self.earlier.push(seed);
        } else {
            self.earlier[self.next] = seed;
            self.next = (self.next + 1) % EARLIER;
        }
        seed
    }
}

/// A pattern that is written again and again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repeat {
    /// One period; zeros where offsets go.
    period: Vec<u8>,
    /// Where in the period the offset stands, 8 bytes, little-endian.
    offsets: Vec<usize>,
}

impl Repeat {
    pub(crate) fn new(pattern: &Pattern) -> Self {
        let mut repeat = Self::default();
        for part in &pattern.0 {
            match part {
                PatternPart::Bytes(bytes) => repeat.period.extend(bytes),
                PatternPart::Offset => {
                    repeat.offsets.push(repeat.period.len());
                    repeat.period.extend([0; 8]);
                }
            }
        }
        repeat
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.period.is_empty()
    }

    fn has_offsets(&self) -> bool {
        !self.offsets.is_empty()
    }

    /// One period for a request at `offset`.
    pub(crate) fn period(&self, offset: u64) -> Vec<u8> {
        let mut period = self.period.clone();
        for at in &self.offsets {
            period[*at..at + 8].copy_from_slice(&offset.to_le_bytes());
        }
        period
    }

    /// Fills `buf`, a request at `offset`; with zeros where there is no pattern.
    pub(crate) fn fill(&self, buf: &mut [u8], offset: u64) {
        let length = self.period.len();
        match length {
            0 => buf.fill(0),
            1 => buf.fill(self.period[0]),
            _ if buf.len() < length => buf.copy_from_slice(&self.period(offset)[..buf.len()]),
            _ => {
                buf[..length].copy_from_slice(&self.period);
                for at in &self.offsets {
                    buf[*at..at + 8].copy_from_slice(&offset.to_le_bytes());
                }
                // Doubling keeps the copies few and long; each starts at a multiple of the period.
                let mut done = length;
                while done < buf.len() {
                    let more = done.min(buf.len() - done);
                    buf.copy_within(..more, done);
                    done += more;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use super::*;

    /// 256 writes of `bs` bytes through four buffers, one after another.
    fn written(job: &FioJob, bs: usize) -> Vec<u8> {
        let mut filler = Filler::new(job, 11);
        let mut buffers = vec![vec![0; bs]; 4];
        buffers.iter_mut().for_each(|buffer| filler.prime(buffer));
        let mut file = Vec::new();
        for write in 0..256u64 {
            let buffer = &mut buffers[write as usize % 4];
            filler.fill(buffer, write * bs as u64, write);
            file.extend_from_slice(buffer);
        }
        file
    }

    fn distinct(file: &[u8], block: usize) -> usize {
        file.chunks(block).collect::<HashSet<_>>().len()
    }

    fn random_job() -> FioJob {
        FioJob::new("d")
    }

    #[test]
    fn every_block_of_every_write_is_unique_by_default() {
        assert_eq!(distinct(&written(&random_job(), 4096), 4096), 256);
        assert_eq!(distinct(&written(&random_job(), 512), 512), 256);
        assert_eq!(distinct(&written(&random_job(), 65_536), 4096), 256 * 16);
        // Past the first MiB too.
        assert_eq!(distinct(&written(&random_job(), 3 << 20)[..64 << 20], 4096), 16 << 10);
    }

    #[test]
    fn stamps_change_eight_bytes_in_4_kib_and_refilling_all() {
        let mut job = random_job();
        let changed = |job: &FioJob| {
            let mut filler = Filler::new(job, 1);
            let mut buffer = vec![0; 8192];
            filler.prime(&mut buffer);
            let before = buffer.clone();
            filler.fill(&mut buffer, 0, 0);
            buffer.iter().zip(before).filter(|(after, before)| **after != *before).count()
        };
        assert!((1..=16).contains(&changed(&job)));
        job.refill_buffers = true;
        assert!(changed(&job) > 8000);
    }

    #[test]
    fn seeds_make_threads_differ_and_runs_repeat() {
        let fill = |seed| {
            let mut buffer = vec![0; 4096];
            Filler::new(&random_job(), seed).prime(&mut buffer);
            buffer
        };
        assert_eq!(fill(1), fill(1));
        assert_ne!(fill(1), fill(2));
    }

    #[test]
    fn zeros_and_patterns_are_written_as_asked_and_the_pattern_wins() {
        let mut job = random_job();
        job.zero_buffers = true;
        assert!(written(&job, 4096).iter().all(|byte| *byte == 0));
        job.buffer_pattern = Arc::new(Pattern(vec![PatternPart::Bytes(vec![1, 2, 3])]));
        let file = written(&job, 4096);
        // Each request restarts the pattern, as in fio.
        let wanted: Vec<u8> = [1, 2, 3].into_iter().cycle().take(4096).collect();
        assert!(file.chunks(4096).all(|block| block == wanted));
        job.buffer_pattern = Arc::new(Pattern(vec![PatternPart::Bytes(vec![7]), PatternPart::Offset]));
        let file = written(&job, 4096);
        assert_eq!(file[8192..8192 + 10], [7, 0, 0x20, 0, 0, 0, 0, 0, 0, 7]);
    }

    /// 4 MiB of blocks of 4 KiB that shared their random part compressed to 39 kB.
    #[test]
    fn blocks_do_not_share_their_random_part() {
        let mut job = FioJob::new("t");
        job.buffer_compress_percentage = 10;
        let (mut filler, mut buf) = (Filler::new(&job, 1), vec![0; 4096]);
        filler.prime(&mut buf);
        let blocks = (0..16).map(|stamp| {
            filler.fill(&mut buf, 0, stamp);
            buf[2048..2480].to_vec()
        });
        assert_eq!(blocks.collect::<std::collections::HashSet<_>>().len(), 16);
    }

    #[test]
    fn each_chunk_is_compressible_by_its_percentage_or_a_pattern() {
        let mut job = random_job();
        for percent in [1, 30, 50, 80, 99] {
            job.buffer_compress_percentage = percent;
            let file = written(&job, 4096);
            for chunk in file.chunks(512) {
                let zeros = chunk.iter().rev().take_while(|byte| **byte == 0).count();
                let wanted = 512 * percent as usize / 100;
                assert!(zeros.abs_diff(wanted) <= 4 || (percent == 99 && zeros >= 504), "{percent} %: {zeros}");
            }
            assert!(distinct(&file, 4096) == 256, "{percent} %");
        }
        job.buffer_pattern = Arc::new(Pattern(vec![PatternPart::Bytes(vec![0xAB])]));
        job.buffer_compress_percentage = 50;
        assert!(written(&job, 4096).chunks(512).all(|chunk| chunk[256..].iter().all(|byte| *byte == 0xAB)));
        job.buffer_compress_percentage = 100;
        assert!(written(&job, 4096).iter().all(|byte| *byte == 0xAB));
    }

    #[test]
    fn a_percentage_of_the_blocks_repeats_earlier_ones() {
        let mut job = random_job();
        job.bs[1] = 512;
        let share = |job: &FioJob| {
            let file = written(job, 16_384);
            1.0 - distinct(&file, 512) as f64 / (file.len() / 512) as f64
        };
        for percent in [20, 50, 80] {
            job.dedupe_percentage = percent;
            // 8,192 draws: four standard deviations are at most 2.3 points.
            assert!((share(&job) - f64::from(percent) / 100.0).abs() < 0.023, "{percent} %: {}", share(&job));
        }
        job.dedupe_percentage = 100;
        job.zero_buffers = true;
        let file = written(&job, 4096);
        assert_eq!(distinct(&file, 512), 1);
        assert!(file[..512].iter().any(|byte| *byte != 0), "as in fio, a dedupe percentage is of random blocks");
    }
}
