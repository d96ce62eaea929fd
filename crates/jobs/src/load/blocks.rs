//! How long the next request of a direction is: one size, a range, or sizes with shares.

use qd1_fio::FioJob;

use super::rng::Rng;

/// Number of draws after which the rest of a file is considered too small for all but the smallest block.
const TRIES: u32 = 64;

/// The block sizes of one direction.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Blocks {
    /// Always this many bytes.
    Fixed(u32),
    /// Multiples of the least.
    Range { min: u32, max: u32 },
    /// (bound of a 32-bit draw, bytes), rising; the last bound is 2^32.
    Split { min: u32, table: Box<[(u64, u32)]> },
}

fn bytes(bs: u64) -> u32 {
    u32::try_from(bs).unwrap_or(u32::MAX).max(1)
}

impl Blocks {
    pub(super) fn new(job: &FioJob, direction: usize) -> Self {
        let range = job.block_range(direction);
        let (min, max) = (bytes(range.min), bytes(range.max));
        let shares = &job.bssplit[direction];
        if min == max {
            return Self::Fixed(min);
        }
        if shares.is_empty() {
            return Self::Range { min, max };
        }
        let total: f64 = shares.iter().map(|share| share.percent).sum();
        let mut sum = 0.0;
        let mut table: Box<[_]> = shares
            .iter()
            .map(|share| {
                sum += share.percent;
                ((sum / total.max(f64::MIN_POSITIVE) * 4_294_967_296.0) as u64, whole(bytes(share.bs), min))
            })
            .collect();
        if let Some(last) = table.last_mut() {
            last.0 = 1 << 32;
        }
        Self::Split { min, table }
    }

    /// The smallest block, bytes.
    pub(super) fn min(&self) -> u32 {
        match self {
            Self::Fixed(min) | Self::Range { min, .. } | Self::Split { min, .. } => *min,
        }
    }

    /// Whether all blocks have one size.
    pub(super) fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed(_))
    }

    /// A size of at most `room` bytes; `None` if not even the smallest block fits.
    #[inline]
    pub(super) fn draw(&self, rng: &mut Rng, room: u64) -> Option<u32> {
        if let Self::Fixed(len) = self {
            return (u64::from(*len) <= room).then_some(*len);
        }
        if u64::from(self.min()) > room {
            return None;
        }
        // Redrawn until it fits, as in fio, so that the sizes that fit keep their proportions.
        let fitting = (0..TRIES).map(|_| self.any(rng)).find(|len| u64::from(*len) <= room);
        Some(fitting.unwrap_or(self.min()))
    }

    fn any(&self, rng: &mut Rng) -> u32 {
        match self {
            Self::Fixed(len) => *len,
            Self::Range { min, max } => {
                // From min to min + max, cut down to a multiple of the least block and to the largest: with a range
                // of whole multiples each of them is as likely as another.
                let drawn = u64::from(*min) + rng.below(u64::from(*max));
                (drawn / u64::from(*min) * u64::from(*min)).min(u64::from(*max)) as u32
            }
            Self::Split { min, table } => {
                let draw = rng.below(1 << 32);
                table.iter().find(|(bound, _)| draw < *bound).map_or(*min, |(_, len)| *len)
            }
        }
    }
}

/// Cut down to a multiple of the least block, as fio does without `bs_unaligned`.
fn whole(len: u32, min: u32) -> u32 {
    len / min * min
}
