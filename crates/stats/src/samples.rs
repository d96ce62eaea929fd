//! A steady stream made by hand, for tests here and in the crates above.

use qd1_model::hist::CoarseHist;
use qd1_model::op::OpClass;
use qd1_model::record::{Interval, IntervalStream, Stream};
use qd1_model::{Bytes, Hist};

/// Intervals of the stream: two seconds.
pub const INTERVALS: u64 = 20;

/// A stream and its intervals: `per_interval` operations in each, about `lat_ns` each with a little spread.
#[must_use]
pub fn stream(class: OpClass, block: u32, per_interval: u64, lat_ns: u64) -> (Stream, Vec<Interval>) {
    let mut lat = Hist::new();
    let mut intervals = Vec::new();
    for index in 0..INTERVALS {
        let mut coarse = CoarseHist::default();
        let mut sum = 0;
        for op in 0..per_interval {
            // A fixed scramble, so that neighbouring operations are not alike and no interval is special.
            let scrambled = ((index * per_interval + op + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 100;
            let value = lat_ns + lat_ns * scrambled / 500;
            lat.record(value);
            coarse.record(value);
            sum += value;
        }
        intervals.push(Interval {
            start_ns: index * 100_000_000,
            length_ns: 100_000_000,
            streams: vec![IntervalStream {
                class,
                ios: per_interval,
                bytes: per_interval * u64::from(block),
                lat_sum_ns: sum,
                lat_max_ns: lat_ns * 6 / 5,
                bins: coarse.sparse(),
            }],
        });
    }
    let bytes = Bytes(INTERVALS * per_interval * u64::from(block));
    let sync_part = (class == OpClass::Commit).then(|| lat.clone());
    let stream = Stream { sync_part, ..Stream::of(class, bytes, lat) };
    (stream, intervals)
}
