//! Random offsets within one file, and whether each block comes once.

use qd1_engine::load::Permutation;
use qd1_fio::FioJob;
use qd1_fio::types::{Distribution, RandomGenerator};

use super::blocks::Blocks;
use super::lfsr::Lfsr;
use super::map::Map;
use super::rng::Rng;
use super::skew::{Skew, Zones};

/// How a job's random offsets are drawn.
#[derive(Clone, Debug)]
pub(super) enum Choice {
    /// Every block is equally likely; blocks may repeat.
    Uniform,
    /// Each block once, all of one size: a permutation, which needs no map.
    Once,
    /// Each block once, by a shift register.
    Lfsr,
    /// Each part once, whatever the sizes: a map like fio's.
    Map,
    /// By popularity.
    Skewed(std::sync::Arc<Distribution>),
    /// By zone.
    Zoned(Box<Zones>),
}

/// Sizes and alignment of a job's blocks.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) blocks: [Blocks; 3],
    pub(super) ba: [u64; 3],
    /// The smallest block of all directions that the job uses, bytes: the unit of a map.
    pub(super) unit: u64,
}

impl Grid {
    pub(super) fn new(job: &FioJob) -> Self {
        let blocks = [0, 1, 2].map(|direction| Blocks::new(job, direction));
        let ba = [0, 1, 2].map(|direction| match job.ba[direction] {
            0 => u64::from(blocks[direction].min()),
            ba => ba,
        });
        let used = blocks.iter().zip(job.rw.kind.directions()).filter(|(_, used)| *used);
        let unit = used.map(|(blocks, _)| u64::from(blocks.min())).min().unwrap_or(1);
        Self { blocks, ba, unit }
    }

    /// How many places there are for the smallest block of a direction in this many bytes.
    #[inline]
    fn count(&self, direction: usize, bytes: u64) -> u64 {
        let (ba, min) = (self.ba[direction], u64::from(self.blocks[direction].min()));
        if min <= ba { bytes / ba } else { bytes.saturating_sub(min - ba) / ba }
    }
}

impl Choice {
    pub(super) fn new(job: &FioJob, grid: &Grid) -> Self {
        if let Some(zones) = Zones::new(&job.random_distribution) {
            return Self::Zoned(Box::new(zones));
        }
        if *job.random_distribution != Distribution::Random {
            return Self::Skewed(job.random_distribution.clone());
        }
        if job.random_generator == RandomGenerator::Lfsr {
            return Self::Lfsr;
        }
        let used = || (0..3).filter(|direction| job.rw.kind.directions()[*direction]);
        // As in fio, an alignment other than that of the blocks turns the map off.
        let aligned = used().all(|direction| grid.ba[direction] == u64::from(grid.blocks[direction].min()));
        let alike = used()
            .all(|direction| grid.blocks[direction].is_fixed() && u64::from(grid.blocks[direction].min()) == grid.unit);
        match (job.norandommap || !aligned, alike) {
            (true, _) => Self::Uniform,
            (false, true) => Self::Once,
            (false, false) => Self::Map,
        }
    }
}

/// Where one file's random offsets are.
#[derive(Clone, Debug)]
pub(super) enum Order {
    Uniform,
    Once { permutation: Box<Permutation>, at: u64 },
    Lfsr(Box<Lfsr>),
    Map(Box<Map>),
    Skewed(Box<Skew>),
    Zoned,
}

impl Order {
    /// For a file, or a zone of it, with this many bytes.
    pub(super) fn new(choice: &Choice, grid: &Grid, bytes: u64, rng: &mut Rng) -> Self {
        let units = bytes / grid.unit;
        match choice {
            Choice::Uniform => Self::Uniform,
            // There is no permutation of zero blocks; the count below reflects that.
            Choice::Once => Self::Once { permutation: Box::new(Permutation::new(units, rng.seed())), at: 0 },
            Choice::Lfsr => Self::Lfsr(Box::new(Lfsr::new(units, rng.seed()))),
            Choice::Map => Self::Map(Box::new(Map::new(units))),
            Choice::Skewed(asked) => match Skew::new(asked, units, rng.seed()) {
                Some(skew) => Self::Skewed(Box::new(skew)),
                None => Self::Uniform,
            },
            Choice::Zoned(_) => Self::Zoned,
        }
    }

    /// All blocks are free again; the file, or the current zone, has this many bytes. Nothing is allocated.
    pub(super) fn reset(&mut self, grid: &Grid, bytes: u64, rng: &mut Rng) {
        let units = bytes / grid.unit;
        match self {
            Self::Once { permutation, at } => {
                **permutation = Permutation::new(units, rng.seed());
                *at = 0;
            }
            Self::Lfsr(lfsr) => **lfsr = Lfsr::new(units, rng.seed()),
            Self::Map(map) => map.clear(units),
            Self::Uniform | Self::Skewed(_) | Self::Zoned => {}
        }
    }

    /// Offset within `bytes` bytes and length; `None` when everything has been visited or no block fits.
    #[inline]
    pub(super) fn draw(
        &mut self,
        choice: &Choice,
        grid: &Grid,
        direction: usize,
        bytes: u64,
        rng: &mut Rng,
    ) -> Option<(u64, u32)> {
        let (blocks, ba) = (&grid.blocks[direction], grid.ba[direction]);
        let count = grid.count(direction, bytes);
        if count == 0 {
            return None;
        }
        let offset = match self {
            Self::Uniform => rng.below(count) * ba,
            Self::Once { permutation, at } => {
                if *at == permutation.len() {
                    return None;
                }
                *at += 1;
                permutation.get(*at - 1) * ba
            }
            Self::Lfsr(lfsr) => loop {
                let offset = lfsr.next()? * grid.unit;
                // The last places may be too small for this direction's blocks.
                if offset + u64::from(blocks.min()) <= bytes {
                    break offset;
                }
            },
            Self::Map(map) => {
                let first = map.next_free(rng.below(count) * ba / grid.unit)?;
                // fio's map counts in the smallest block of the direction: no block is shorter, and each lies on a
                // multiple of it, even if part of it has been visited. A longer one ends where the next visited one
                // starts.
                let min = u64::from(blocks.min());
                let offset = (first * grid.unit / ba).min(count - 1) * ba;
                let len = u64::from(blocks.draw(rng, bytes - offset).unwrap_or(blocks.min()));
                let wanted = (offset + len).div_ceil(grid.unit).saturating_sub(first);
                let end = (first + map.take(first, wanted.max(1))) * grid.unit;
                let free = end.saturating_sub(offset);
                let len = if len <= free { len } else { (free - free % min).max(min) };
                return Some((offset, len as u32));
            }
            Self::Skewed(skew) => skew.draw(rng) % count * ba,
            Self::Zoned => match choice {
                Choice::Zoned(zones) => zones.draw(direction, count, ba, rng) * ba,
                _ => rng.below(count) * ba,
            },
        };
        Some((offset, blocks.draw(rng, bytes - offset)?))
    }
}
