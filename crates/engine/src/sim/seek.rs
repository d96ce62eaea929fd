//! What a rotating disk adds to a request: the movement of its head, the rotation of its platter, and what an array of
//! disks makes of a queue.
//!
//! Seek time grows with the square root of a short distance and linearly with a long one (Ruemmler and Wilkes, "An
//! introduction to disk drive modeling", IEEE Computer 27(3), 1994). Two published figures fix the curve: the seek from
//! track to track, and the average seek, which is that over a third of the stroke. Then the sector has to come round:
//! its position follows from the time, so that the rotational delay is computed and not drawn at random.

use std::collections::VecDeque;

/// A disk's mechanics, or those of an array of equal disks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mechanics {
    /// Bytes of one disk, which distances are relative to.
    pub capacity: f64,
    /// Bytes of a track; with `revolution_ns` this gives the rate at which data passes the head.
    pub track_bytes: f64,
    /// Seek from track to track, settling included, ns.
    pub settle_ns: f64,
    /// Average seek, ns.
    pub average_ns: f64,
    /// One revolution, ns.
    pub revolution_ns: f64,
    /// Disks that share the load.
    pub arms: u32,
    /// Bytes on one disk before the next disk follows.
    pub stripe: f64,
    /// Bytes of the disk's own memory in which it keeps the tracks it read last: reads of them need no head movement.
    pub buffer: f64,
}

/// Share of the stroke that an average seek crosses: two uniform places are a third of the range apart.
const AVERAGE_STROKE: f64 = 1.0 / 3.0;
/// By how much each doubling of the requests queued at an arm shortens the distance to the next one: a disk that may
/// choose among 32 serves about 2.3 times as many per second as one that may not (tests of native command queueing
/// found 2 to 2.5 for disks of 7,200 rpm).
const CHOICE: f64 = 0.25;

impl Mechanics {
    /// Time for the head to move over a distance of `bytes`, ns.
    pub fn seek_ns(&self, bytes: f64) -> f64 {
        let share = (bytes / self.capacity).clamp(0.0, 1.0);
        let way_ns = self.average_ns - self.settle_ns;
        if share <= AVERAGE_STROKE {
            self.settle_ns + way_ns * (share / AVERAGE_STROKE).sqrt()
        } else {
            // Beyond that, the head moves at full speed: the slope of the square root where it ends.
            self.average_ns + way_ns * (share - AVERAGE_STROKE) / (2.0 * AVERAGE_STROKE)
        }
    }
}

/// One disk of the array.
#[derive(Clone, Debug, Default)]
struct Arm {
    at: f64,
    /// When each of the requests it has taken will be done, in order.
    queued: VecDeque<f64>,
    /// Numbers of the tracks in its memory, the oldest first.
    kept: VecDeque<u64>,
}

/// Positions of the heads.
#[derive(Clone, Debug)]
pub(super) struct Heads {
    mechanics: Mechanics,
    arms: Vec<Arm>,
}

impl Heads {
    pub(super) fn new(mechanics: Mechanics) -> Self {
        Self { arms: vec![Arm::default(); mechanics.arms.max(1) as usize], mechanics }
    }

    /// Which disk an offset is on.
    pub(super) fn arm_of(&self, offset: u64) -> usize {
        (offset as f64 / self.mechanics.stripe) as usize % self.arms.len()
    }

    /// Moves the arm of `offset` there for a request of `len` bytes that begins at `start_ns` and was submitted at
    /// `now_ns`; returns how long that takes, including the transfer. A request longer than a stripe is read by several
    /// disks.
    pub(super) fn move_to(&mut self, offset: u64, len: u32, is_read: bool, now_ns: f64, start_ns: f64) -> f64 {
        let (mechanics, number) = (self.mechanics, self.arm_of(offset));
        let arms = self.arms.len() as f64;
        let arm = &mut self.arms[number];
        // Neighbouring stripes of an array are neighbours on each disk as well.
        let place = offset as f64 / arms;
        let track = (place / mechanics.track_bytes) as u64;
        if is_read && arm.kept.contains(&track) {
            return 0.0;
        }
        while arm.queued.front().is_some_and(|done_ns| *done_ns <= now_ns) {
            arm.queued.pop_front();
        }
        let shorter = 1.0 + CHOICE * (arm.queued.len() as f64 + 1.0).log2();
        let seek_ns = mechanics.seek_ns((place - arm.at).abs());
        let turned = ((start_ns + seek_ns) / mechanics.revolution_ns).fract();
        let wait = ((place / mechanics.track_bytes).fract() - turned).rem_euclid(1.0);
        let shared_by = (f64::from(len) / mechanics.stripe).clamp(1.0, arms);
        let transfer_ns = f64::from(len) / mechanics.track_bytes * mechanics.revolution_ns / shared_by;
        arm.at = place;
        if is_read && mechanics.buffer >= mechanics.track_bytes {
            arm.kept.push_back(track);
            if arm.kept.len() as f64 * mechanics.track_bytes > mechanics.buffer {
                arm.kept.pop_front();
            }
        }
        let took_ns = (seek_ns + wait * mechanics.revolution_ns) / shorter + transfer_ns;
        arm.queued.push_back(start_ns + took_ns);
        took_ns
    }
}

#[cfg(test)]
mod tests {
    use rand_core::{RngCore as _, SeedableRng as _};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// Ultrastar 7K4000: average seek 8.2 ms, 7,200 rpm.
    fn disk() -> Mechanics {
        Mechanics {
            capacity: 4e12,
            track_bytes: 1.4e6,
            settle_ns: 0.5e6,
            average_ns: 8.2e6,
            revolution_ns: 60e9 / 7200.0,
            arms: 1,
            stripe: 256.0 * 1024.0,
            buffer: 0.0,
        }
    }

    #[test]
    fn a_seek_has_the_published_times_and_grows_with_distance() {
        let disk = disk();
        assert_eq!(disk.seek_ns(0.0), 0.5e6);
        assert!((disk.seek_ns(4e12 / 3.0) - 8.2e6).abs() < 1.0);
        let ways = [1e6, 1e9, 1e11, 1e12, 2e12, 4e12].map(|bytes| disk.seek_ns(bytes));
        assert!(ways.is_sorted() && ways[5] < 20e6, "{ways:?}");
    }

    #[test]
    fn a_random_place_costs_half_a_turn_on_average_at_most_one() {
        let mut heads = Heads::new(disk());
        let (mut now_ns, mut sum_ns) = (0.0, 0.0);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        for _ in 0..2000 {
            let offset = (rng.next_u64() >> 34) / 4096 * 4096;
            let took_ns = heads.move_to(offset, 4096, true, now_ns, now_ns);
            assert!(took_ns < disk().seek_ns(1.1e9) + disk().revolution_ns * 1.01);
            (now_ns, sum_ns) = (now_ns + took_ns, sum_ns + took_ns);
        }
        let mean_ns = sum_ns / 2000.0;
        assert!((4.2e6..6e6).contains(&mean_ns), "{mean_ns}");
    }

    #[test]
    fn an_array_serves_as_many_at_once_as_it_has_disks() {
        let array = Mechanics { arms: 4, ..disk() };
        let heads = Heads::new(array);
        let arms: Vec<usize> = (0..8).map(|stripe| heads.arm_of(stripe * 262_144)).collect();
        assert_eq!(arms, [0, 1, 2, 3, 0, 1, 2, 3]);
    }
}
