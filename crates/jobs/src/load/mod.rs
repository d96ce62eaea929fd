//! Draws a job's next request: direction, file, offset and size, according to the job's options. Pure and seeded.
//!
//! ```text
//! direction (mix) -> Service (file) -> Strided (zone) -> File (sequential) | Order (random) -> Blocks (size)
//! ```
//!
//! Where fio's order is fixed, the order here is the same, request by request (tests/load.rs runs both side by side).
//! Where fio draws randomly, this draws from other generators, with the same shares and guarantees but other offsets.
//!
//! When it ends: a file is done when fio calls it done, which is when the smallest block no longer fits after the last
//! one or all blocks have been visited; a round is done with its last file. Loads that could go on forever (random
//! without a map, popularity, `rw=read:8k`, zones) are ended by the caller's count of bytes, which is
//! [`JobLoad::round_bytes`] unless the job says otherwise.

mod blocks;
mod file;
mod lfsr;
mod map;
mod order;
mod rng;
mod service;
mod skew;

use qd1_fio::FioJob;
use qd1_fio::types::{RwKind, Sequence};

use file::{File, Strided};
use order::{Choice, Grid, Order};
use rng::{Rng, mix};
use service::Service;

/// Index of reads in all triples.
pub const READ: usize = 0;
/// Index of writes.
pub const WRITE: usize = 1;
/// Index of trims.
pub const TRIM: usize = 2;

/// The part of a file that a job uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub start: u64,
    /// Bytes.
    pub length: u64,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobRequest {
    /// [`READ`], [`WRITE`] or [`TRIM`].
    pub direction: usize,
    /// Which of the files.
    pub file: u16,
    /// Byte of the file.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
}

/// The requests of one clone of a job.
#[derive(Clone, Debug)]
pub struct JobLoad {
    kind: RwKind,
    rwmixread: u32,
    sequence: Sequence,
    percentage_random: [u32; 3],
    grid: Grid,
    choice: Choice,
    /// Files start again where they end.
    wrap: bool,
    /// There is one file.
    is_alone: bool,
    zone: Option<Strided>,
    files: Box<[File]>,
    service: Service,
    /// Requests until the next random offset.
    run_left: u32,
    /// `trimwrite`: the request that [`JobLoad::direction`] already had to draw.
    drawn: Option<Option<JobRequest>>,
    /// A write takes the offset and size of the preceding trim.
    writes_what_was_trimmed: bool,
    round_bytes: u64,
    /// A file wrapped to its start within the round.
    wrapped: bool,

    seed: u64,
    randrepeat: bool,
    round: u64,
    mix: Rng,
    place: Rng,
    choose: Rng,
}

/// One generator for each purpose.
fn generators(seed: u64) -> [Rng; 3] {
    [0, 1, 2].map(|purpose| Rng::new(mix(seed, purpose)))
}

impl JobLoad {
    /// The requests of `job` in `files`, of which only the first 65,536 are used. Each clone needs its own seed.
    pub fn new(job: &FioJob, files: &[Extent], seed: u64) -> Self {
        let files = &files[..files.len().min(1 << 16)];
        let grid = Grid::new(job);
        let choice = Choice::new(job, &grid);
        let zone = Strided::new(job);
        let [mix_rng, mut place, choose] = generators(seed);
        let service = Service::new(job, files.len(), mix(seed, 3));
        let random = job.rw.kind.is_random();
        let file = |extent: &Extent| {
            let bytes = zone.as_ref().map_or(extent.length, |zone| zone.range.min(extent.length));
            let order = if random { Order::new(&choice, &grid, bytes, &mut place) } else { Order::Uniform };
            File::new(extent, order)
        };
        let opened = files.iter().map(file).collect();
        let all: u64 = files.iter().fold(0, |sum, extent| sum.saturating_add(extent.length));
        let trims_first = matches!(job.rw.kind, RwKind::Trimwrite | RwKind::Randtrimwrite);
        // In sequential order the offsets match on their own if all sizes are equal. Different sizes for trims and
        // writes are kept: several writes may follow one trim.
        let drawn_alike = grid.blocks[WRITE] == grid.blocks[TRIM] && !grid.blocks[WRITE].is_fixed();
        let writes_what_was_trimmed =
            job.rw.kind == RwKind::Randtrimwrite || (job.rw.kind == RwKind::Trimwrite && drawn_alike);
        let mut load = Self {
            kind: job.rw.kind,
            rwmixread: job.rwmixread,
            sequence: job.rw.sequence,
            percentage_random: job.percentage_random,
            grid,
            choice,
            wrap: job.time_based || service.is_skewed(),
            is_alone: files.len() == 1,
            zone,
            files: opened,
            service,
            run_left: 0,
            drawn: None,
            writes_what_was_trimmed,
            round_bytes: if trims_first { all.saturating_mul(2) } else { all },
            wrapped: false,
            seed,
            randrepeat: job.randrepeat,
            round: 0,
            mix: mix_rng,
            place,
            choose,
        };
        // Creating the files consumed random numbers; a repeated round must not do so again.
        [load.mix, load.place, load.choose] = generators(seed);
        load.rewind();
        load
    }

    /// The direction that the mix wants next. A mix is redrawn at each call; no offset is used up.
    #[inline]
    pub fn direction(&mut self) -> usize {
        match self.kind {
            RwKind::Read | RwKind::Randread => READ,
            RwKind::Write | RwKind::Randwrite => WRITE,
            RwKind::Trim | RwKind::Randtrim => TRIM,
            RwKind::Rw | RwKind::Randrw => {
                if self.mix.percent(self.rwmixread) {
                    READ
                } else {
                    WRITE
                }
            }
            // Which one depends on the file, so the request is drawn and kept.
            RwKind::Trimwrite | RwKind::Randtrimwrite => {
                if self.drawn.is_none() {
                    self.drawn = Some(self.fill(None));
                }
                self.drawn.flatten().map_or(TRIM, |next| next.direction)
            }
        }
    }

    /// The next request of this direction; `None` when the round has nothing left.
    ///
    /// With `trimwrite` the request has the direction that [`Self::direction`] returns, whatever is requested. With
    /// `time_based`, and if files are chosen by popularity, files restart when they end, as in fio, and only a file
    /// that is too small ends the round.
    #[inline]
    pub fn next(&mut self, direction: usize) -> Option<JobRequest> {
        match self.kind {
            RwKind::Trimwrite | RwKind::Randtrimwrite => self.drawn.take().unwrap_or_else(|| self.fill(None)),
            _ => self.fill(Some(direction)),
        }
    }

    /// A new round: files from their start, nothing visited. With `randrepeat` it repeats the same random numbers, as
    /// in fio; otherwise it uses others.
    pub fn restart(&mut self) {
        self.round += 1;
        let seed = if self.randrepeat { self.seed } else { mix(self.seed, 16 + self.round) };
        [self.mix, self.place, self.choose] = generators(seed);
        self.rewind();
    }

    /// Whether a file wrapped to its start within the round since this was last queried.
    #[inline]
    pub fn take_wrapped(&mut self) -> bool {
        std::mem::take(&mut self.wrapped)
    }

    /// Bytes of one round: those of all files, or twice as many if each block is trimmed and then written.
    pub fn round_bytes(&self) -> u64 {
        self.round_bytes
    }

    fn rewind(&mut self) {
        (self.run_left, self.drawn) = (0, None);
        if let Some(zone) = &mut self.zone {
            zone.restart();
        }
        self.service.restart();
        for file in &mut self.files {
            file.restart(self.zone.as_ref(), &self.grid, &mut self.place);
        }
    }

    /// A request of the first file that has one.
    #[inline]
    fn fill(&mut self, direction: Option<usize>) -> Option<JobRequest> {
        loop {
            let index = self.service.pick(&mut self.choose)?;
            let direction = direction.unwrap_or_else(|| self.files[index].trim_or_write());
            if let Some((offset, len)) = self.place(index, direction) {
                self.files[index].went(direction, offset, len);
                self.wrapped |= std::mem::take(&mut self.files[index].wrapped);
                if let Some(zone) = &mut self.zone {
                    zone.went(len);
                }
                return Some(JobRequest { direction, file: index as u16, offset, len });
            }
            self.service.finish(index);
        }
    }

    #[inline]
    fn place(&mut self, index: usize, direction: usize) -> Option<(u64, u32)> {
        let Self { grid, choice, place: rng, .. } = self;
        let file = &mut self.files[index];
        if self.writes_what_was_trimmed && direction == WRITE {
            return Some(file.trimmed());
        }
        if let Some(zone) = &mut self.zone {
            zone.enter(file, direction, grid, rng);
        }
        if !self.kind.is_random() {
            let skip = if let Sequence::Skip(skip) = self.sequence { skip } else { 0 };
            // As in fio: with several files, each is done at its end, and the next round begins with the first.
            let wrap = self.wrap && (self.is_alone || self.service.is_skewed());
            return file.sequential(grid, direction, skip, wrap, rng);
        }
        let starts = self.run_left == 0;
        if let Sequence::Run(length) = self.sequence {
            self.run_left = if starts { length.max(1) } else { self.run_left } - 1;
        }
        if !(starts && rng.percent(self.percentage_random[direction])) {
            // At the end of the file it continues at a random offset.
            let followed = file.sequential(grid, direction, 0, self.wrap, rng);
            if followed.is_some() {
                return followed;
            }
        }
        // A zone is left only after its bytes: when all of its blocks have been visited, it starts again.
        file.random(choice, grid, direction, self.wrap || self.zone.is_some(), rng)
    }
}
