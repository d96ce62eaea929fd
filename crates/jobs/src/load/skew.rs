//! Popularity: zipf, pareto and normal, as block numbers or file numbers. Zones of different popularity.
//!
//! These implement what the parameters mean, not fio's arithmetic. fio scatters ranks with a hash that maps several
//! ranks to one block, approximates zipf's tail, scatters `normal` evenly unless it chooses files, and has a smaller
//! deviation than requested. Here each rank has its own block, zipf is exact (rejection inversion), and `normal` is
//! what fio's manual says: around the middle or the centre.

use qd1_engine::load::Permutation;
use qd1_fio::types::{Distribution as JobDistribution, FileOrder, Zone};
use rand_distr::{Distribution, StandardNormal, Zipf};

use super::rng::Rng;

/// Number of draws from a normal distribution before one outside is moved to the edge.
const TRIES: u32 = 64;

/// A distribution over `0..len`: ranks of popularity for zipf and pareto, places for normal.
#[derive(Clone, Debug)]
pub(super) enum Ranks {
    Zipf {
        ranks: Zipf<f64>,
        len: u64,
    },
    /// Rank = len * u^exponent.
    Pareto {
        exponent: f64,
        len: u64,
    },
    /// Centre and deviation as parts of the whole.
    Normal {
        center: f64,
        deviation: f64,
        len: u64,
    },
}

impl Ranks {
    fn zipf(theta: f64, len: u64) -> Option<Self> {
        Some(Self::Zipf { ranks: Zipf::new(len.max(1) as f64, theta).ok()?, len: len.max(1) })
    }

    /// A fraction `h` of the whole gets `1 - h` of the draws, and recursively within that fraction: Gray et al.,
    /// "Quickly generating billion-record synthetic databases" (SIGMOD 1994), self-similar.
    fn pareto(h: f64, len: u64) -> Self {
        Self::Pareto { exponent: h.ln() / (1.0 - h).ln(), len: len.max(1) }
    }

    /// `deviation` in percent of the whole.
    fn normal(deviation: f64, center: f64, len: u64) -> Self {
        Self::Normal { center, deviation: deviation / 100.0, len: len.max(1) }
    }

    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Self::Zipf { ranks, len } => (ranks.sample(rng.core()) as u64).clamp(1, *len) - 1,
            Self::Pareto { exponent, len } => ((rng.unit().powf(*exponent) * *len as f64) as u64).min(len - 1),
            Self::Normal { center, deviation, len } => {
                let mut place = 0.0;
                for _ in 0..TRIES {
                    let normal: f64 = StandardNormal.sample(rng.core());
                    place = center + deviation * normal;
                    if (0.0..1.0).contains(&place) {
                        break;
                    }
                }
                ((place.max(0.0) * *len as f64) as u64).min(len - 1)
            }
        }
    }
}

/// Popularity of the blocks of a file.
#[derive(Clone, Debug)]
pub(super) struct Skew {
    ranks: Ranks,
    /// Where ranks lie; the places of a normal distribution are not moved.
    places: Option<Permutation>,
    shift: u64,
}

impl Skew {
    /// Over `0..len`; `None` for other kinds of distribution.
    pub(super) fn new(asked: &JobDistribution, len: u64, seed: u64) -> Option<Self> {
        let (ranks, center) = match asked {
            JobDistribution::Zipf { theta, center } => (Ranks::zipf(*theta, len)?, center),
            JobDistribution::Pareto { h, center } => (Ranks::pareto(*h, len), center),
            JobDistribution::Normal { deviation, center } => {
                let ranks = Ranks::normal(*deviation, center.unwrap_or(0.5), len);
                return Some(Self { ranks, places: None, shift: 0 });
            }
            _ => return None,
        };
        let places = Permutation::new(len, seed);
        // With a centre, the most popular block lies there and the others follow the permutation around it.
        let shift = center.map_or(0, |center| {
            let at = ((center * len as f64) as u64).min(places.len() - 1);
            (at + places.len() - places.get(0)) % places.len()
        });
        Some(Self { ranks, places: Some(places), shift })
    }

    #[inline]
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        let rank = self.ranks.draw(rng);
        match &self.places {
            Some(places) => {
                let place = places.get(rank) + self.shift;
                if place < places.len() { place } else { place - places.len() }
            }
            None => rank,
        }
    }
}

/// Number of parts per file in which popularity is drawn, so fine that a file's share is that of all its parts, as in
/// fio: with `zipf:1.2` and 5 files, the first one gets 92 % and not the 49 % of its rank.
const PARTS: u64 = 1024;

/// Popularity of files.
#[derive(Clone, Debug)]
pub(super) struct FileSkew {
    ranks: Ranks,
    files: u64,
    shift: u64,
}

impl FileSkew {
    /// Over `files` files; `None` for other kinds of order.
    pub(super) fn new(order: FileOrder, files: u64, seed: u64) -> Option<Self> {
        let parts = files * PARTS;
        let ranks = match order {
            FileOrder::Zipf(theta) => Ranks::zipf(theta, parts)?,
            FileOrder::Pareto(h) => Ranks::pareto(h, parts),
            FileOrder::Normal(deviation) => Ranks::normal(deviation, 0.5, parts),
            _ => return None,
        };
        let shift = if matches!(ranks, Ranks::Normal { .. }) { 0 } else { seed % files.max(1) };
        Some(Self { ranks, files, shift })
    }

    pub(super) fn draw(&self, rng: &mut Rng) -> usize {
        ((self.ranks.draw(rng) / PARTS + self.shift) % self.files) as usize
    }
}

/// `zoned` and `zoned_abs`: the zone of each percent of the draws.
#[derive(Clone, Debug)]
pub(super) struct Zones {
    /// For each direction, (first, one after the last) in percent of the file or in bytes.
    zones: [Box<[(u64, u64)]>; 3],
    by_percent: [Box<[u8]>; 3],
    absolute: bool,
}

impl Zones {
    pub(super) fn new(asked: &JobDistribution) -> Option<Self> {
        let (lists, absolute) = match asked {
            JobDistribution::Zoned(lists) => (lists, false),
            JobDistribution::ZonedAbs(lists) => (lists, true),
            _ => return None,
        };
        let bounds = |list: &Vec<Zone>| {
            let mut at = 0_u64;
            list.iter()
                .map(|zone| {
                    let first = at;
                    at = at.saturating_add(zone.size);
                    (first, at)
                })
                .collect()
        };
        let percents = |list: &Vec<Zone>| {
            let each =
                list.iter().zip(0_u8..).map(|(zone, index)| std::iter::repeat_n(index, zone.access_percent.into()));
            each.flatten().collect()
        };
        Some(Self { zones: lists.each_ref().map(bounds), by_percent: lists.each_ref().map(percents), absolute })
    }

    /// A block of `0..count`, each `ba` bytes long. Zones that lie beyond the file get nothing, and the others keep
    /// their proportions.
    pub(super) fn draw(&self, direction: usize, count: u64, ba: u64, rng: &mut Rng) -> u64 {
        let percents = &self.by_percent[direction];
        for _ in 0..TRIES {
            let draw = rng.below(percents.len() as u64) as usize;
            let Some((first, end)) = percents.get(draw).map(|zone| self.zones[direction][usize::from(*zone)]) else {
                break;
            };
            let block = |bound: u64| {
                let block =
                    if self.absolute { bound / ba } else { (u128::from(bound) * u128::from(count) / 100) as u64 };
                block.min(count)
            };
            let (first, end) = (block(first), block(end));
            if first < end {
                return first + rng.below(end - first);
            }
        }
        rng.below(count)
    }
}
