//! What the next request is: pure and seeded, so that a run can be repeated to the byte.

mod arrival;
mod offsets;

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoroshiro128Plus;

use qd1_model::plan::{BlockShare, IoWork, Order};

pub use arrival::Arrivals;
pub(crate) use offsets::mix;
pub use offsets::{Permutation, Zipf};

/// The part of a file or device that a worker uses, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte.
    pub start: u64,
    /// Number of bytes.
    pub length: u64,
}

/// Direction, place and size of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Read rather than write.
    pub read: bool,
    /// Byte offset.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
}

/// An endless stream of requests for one worker.
pub struct RequestStream {
    /// The smallest good generator: its weak bits are the lowest ones, and every draw here uses the high ones.
    rng: Xoroshiro128Plus,
    region: Region,
    shape: Shape,
}

enum Shape {
    /// One direction, one block size, every block equally likely: the most common case, and the one whose cost per
    /// request is measured.
    Uniform {
        read: bool,
        len: u32,
        count: u64,
    },
    Mixed(Mixed),
}

/// Everything else.
struct Mixed {
    /// A draw below this is a read: the read share scaled to 2^32.
    read_below: u64,
    blocks: Blocks,
    order: Cursor,
}

enum Blocks {
    /// Size, and how many fit in the region: a division saved per request.
    Fixed { len: u32, count: u64 },
    /// (upper bound of the draw, size), rising; the last bound is 2^32.
    Weighted(Vec<(u64, u32)>),
}

enum Cursor {
    Sequential { at: u64 },
    Random,
    Full(Full),
    Zipf(Zipf),
}

/// Full coverage: one permutation of the blocks after another.
struct Full {
    permutation: Permutation,
    at: u64,
    seed: u64,
    block: u32,
}

impl Full {
    fn next_offset(&mut self) -> u64 {
        if self.at == self.permutation.len() {
            self.at = 0;
            self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
            self.permutation = Permutation::new(self.permutation.len(), self.seed);
        }
        let index = self.permutation.get(self.at);
        self.at += 1;
        index * u64::from(self.block)
    }
}

/// Uniform draw below `n` by Lemire's multiplication (bias below 2^-32 for n < 2^32).
#[inline(always)]
fn below(rng: &mut Xoroshiro128Plus, n: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u64
}

impl RequestStream {
    /// The requests of one worker of `work`, confined to `region`.
    pub fn new(work: &IoWork, region: Region, seed: u64) -> Self {
        let rng = Xoroshiro128Plus::seed_from_u64(seed);
        let blocks = Blocks::new(&work.blocks, region.length);
        let smallest = work.blocks.iter().map(|share| share.bytes).min().unwrap_or(4096);
        let order = match work.order {
            Order::Sequential => Cursor::Sequential { at: 0 },
            Order::Random => Cursor::Random,
            Order::RandomFull => Cursor::Full(Full {
                permutation: Permutation::new(region.length / u64::from(smallest), seed),
                at: 0,
                seed,
                block: smallest,
            }),
            Order::Zipf { theta } => Cursor::Zipf(Zipf::new(region.length / u64::from(smallest), theta, seed)),
        };
        let read_below = u64::from(work.rwmixread.min(100)) * (1 << 32) / 100;
        let one_way = read_below == 0 || read_below == 1 << 32;
        let shape = match (blocks, order) {
            (Blocks::Fixed { len, count }, Cursor::Random) if one_way => {
                Shape::Uniform { read: read_below > 0, len, count }
            }
            (blocks, order) => Shape::Mixed(Mixed { read_below, blocks, order }),
        };
        Self { rng, region, shape }
    }

    /// The next request.
    #[inline(always)]
    pub fn next_request(&mut self) -> Request {
        match &mut self.shape {
            Shape::Uniform { read, len, count } => {
                let offset = self.region.start + below(&mut self.rng, *count) * u64::from(*len);
                Request { read: *read, offset, len: *len }
            }
            Shape::Mixed(mixed) => mixed.next_request(&mut self.rng, self.region),
        }
    }
}

impl Mixed {
    #[inline(never)]
    fn next_request(&mut self, rng: &mut Xoroshiro128Plus, region: Region) -> Request {
        let read = (rng.next_u64() >> 32) < self.read_below;
        let (len, count) = match &self.blocks {
            Blocks::Fixed { len, count } => (*len, *count),
            Blocks::Weighted(table) => {
                let len = pick(table, rng.next_u64() >> 32);
                (len, (region.length / u64::from(len)).max(1))
            }
        };
        let offset = match &mut self.order {
            Cursor::Sequential { at } => {
                if *at + u64::from(len) > region.length {
                    *at = 0;
                }
                let offset = *at;
                *at += u64::from(len);
                offset
            }
            Cursor::Random => below(rng, count) * u64::from(len),
            Cursor::Full(full) => full.next_offset().min(region.length.saturating_sub(u64::from(len))),
            Cursor::Zipf(zipf) => zipf.draw(rng) % count * u64::from(len),
        };
        Request { read, offset: region.start + offset, len }
    }
}

impl Blocks {
    fn new(shares: &[BlockShare], region: u64) -> Self {
        if let [only] = shares {
            let count = (region / u64::from(only.bytes.max(1))).max(1);
            return Self::Fixed { len: only.bytes, count };
        }
        let total: u64 = shares.iter().map(|share| u64::from(share.weight)).sum::<u64>().max(1);
        let mut sum = 0;
        let table = shares
            .iter()
            .map(|share| {
                sum += u64::from(share.weight);
                (sum * (1 << 32) / total, share.bytes)
            })
            .collect();
        Self::Weighted(table)
    }
}

#[inline]
fn pick(table: &[(u64, u32)], draw: u64) -> u32 {
    table.iter().find(|(bound, _)| draw < *bound).or(table.last()).map_or(4096, |(_, bytes)| *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::plan::{Arrival, Data, EngineChoice, FileUse, Rw, Sync};
    use qd1_model::units::Bytes;

    pub(super) fn work(rw: Rw, order: Order, blocks: &[(u32, u32)]) -> IoWork {
        IoWork {
            ioengine: EngineChoice::Auto,
            rw,
            rwmixread: match (rw.reads(), rw.writes()) {
                (true, true) => 70,
                (true, false) => 100,
                _ => 0,
            },
            order,
            blocks: blocks.iter().map(|(bytes, weight)| BlockShare { bytes: *bytes, weight: *weight }).collect(),
            iodepth: 1,
            numjobs: 1,
            direct: true,
            sync: Sync::None,
            file: FileUse::Shared,
            size: Bytes::mib(1),
            io_size: Bytes(0),
            arrival: Arrival::Closed,
            data: Data::Random,
            writes_per_sync: 1,
        }
    }

    const REGION: Region = Region { start: 8192, length: 1 << 20 };

    #[test]
    fn requests_stay_inside_the_region_and_aligned() {
        for order in [Order::Sequential, Order::Random, Order::RandomFull, Order::Zipf { theta: 1.1 }] {
            let mut load = RequestStream::new(&work(Rw::Randrw, order, &[(4096, 1)]), REGION, 5);
            for _ in 0..2000 {
                let request = load.next_request();
                assert!(request.offset >= 8192 && request.offset + 4096 <= 8192 + (1 << 20), "{order:?}");
                assert_eq!(request.offset % 4096, 0);
            }
        }
    }

    #[test]
    fn full_coverage_visits_each_block_exactly_once_per_round() {
        let mut load = RequestStream::new(&work(Rw::Randread, Order::RandomFull, &[(4096, 1)]), REGION, 9);
        for _round in 0..3 {
            let seen: std::collections::HashSet<u64> = (0..256).map(|_| load.next_request().offset).collect();
            assert_eq!(seen.len(), 256);
        }
    }

    #[test]
    fn the_read_share_is_as_asked() {
        let mut load = RequestStream::new(&work(Rw::Randrw, Order::Random, &[(4096, 1)]), REGION, 11);
        let reads = (0..100_000).filter(|_| load.next_request().read).count();
        assert!((69_000..71_000).contains(&reads), "{reads}");
    }

    #[test]
    fn block_sizes_follow_their_weights() {
        let mut load = RequestStream::new(&work(Rw::Randread, Order::Random, &[(4096, 60), (65536, 40)]), REGION, 13);
        let small = (0..100_000).filter(|_| load.next_request().len == 4096).count();
        assert!((59_000..61_000).contains(&small), "{small}");
    }

    #[test]
    fn the_same_seed_gives_the_same_requests() {
        let stream = |seed| {
            let mut load = RequestStream::new(&work(Rw::Randrw, Order::Random, &[(4096, 1)]), REGION, seed);
            (0..100).map(|_| load.next_request()).collect::<Vec<_>>()
        };
        assert_eq!(stream(1), stream(1));
        assert_ne!(stream(1), stream(2));
    }

    #[test]
    fn sequential_wraps_at_the_end() {
        let region = Region { start: 0, length: 10_000 };
        let mut load = RequestStream::new(&work(Rw::Write, Order::Sequential, &[(4096, 1)]), region, 1);
        let offsets: Vec<u64> = (0..4).map(|_| load.next_request().offset).collect();
        assert_eq!(offsets, [0, 4096, 0, 4096]);
    }

    #[test]
    fn zipf_concentrates_as_its_exponent_says() {
        // Theory: with theta 1.2 over 256 blocks the most popular one gets 1 / sum(i^-1.2) of the draws.
        let mut load = RequestStream::new(&work(Rw::Randread, Order::Zipf { theta: 1.2 }, &[(4096, 1)]), REGION, 17);
        let mut counts = std::collections::HashMap::new();
        for _ in 0..100_000 {
            *counts.entry(load.next_request().offset).or_insert(0u32) += 1;
        }
        let top = f64::from(*counts.values().max().unwrap()) / 100_000.0;
        let expected = 1.0 / (1..=256).map(|i| f64::from(i).powf(-1.2)).sum::<f64>();
        assert!((top / expected - 1.0).abs() < 0.02, "{top} against {expected}");
    }
}
