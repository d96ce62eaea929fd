//! Long lists of a Record as they are in JSON: one text for a list, a tenth of what it would be as objects.
//!
//! The text is base64 of whole numbers, each in seven bits a byte, the lowest first, the highest bit set on all bytes but
//! the last (LEB128). Before the items comes their number. What each item consists of is said at its [`Item`]. Records of
//! layout 1 have lists of objects instead, and are read as well.

use std::fmt;
use std::marker::PhantomData;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serializer};

use super::{Interval, IntervalStream, Slow, TimeSpent};
use crate::op::OpClass;

/// Bins of a stream, and streams of an interval, at most: a text that has more is damaged.
const BINS_MAX: usize = 4096;
const STREAMS_MAX: usize = 64;

/// An item of a packed list.
pub(super) trait Item: Sized {
    /// Items of a list at most: in memory they take far more than in the text.
    const MOST: usize;

    /// Writes the item that follows `before`.
    fn put(&self, before: Option<&Self>, out: &mut Vec<u8>);

    /// Reads it again; `None` where the text ends before, or is none.
    fn take(before: Option<&Self>, bytes: &mut Bytes<'_>) -> Option<Self>;
}

/// What is left to read.
pub(super) struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (first, rest) = self.0.split_first()?;
            self.0 = rest;
            let bits = u64::from(first & 0x7f);
            // Of the tenth byte only one bit is left.
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if first & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn narrow<T: TryFrom<u64>>(&mut self) -> Option<T> {
        self.number()?.try_into().ok()
    }

    /// Returns a count of items, each of which takes a byte at least: no more than there are bytes, nor than `most`.
    fn count(&mut self, most: usize) -> Option<usize> {
        let count: usize = self.narrow()?;
        (count <= self.0.len().min(most)).then_some(count)
    }
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes a difference, small ones of either sign in one byte.
fn put_difference(out: &mut Vec<u8>, from: u64, to: u64) {
    let difference = to.wrapping_sub(from).cast_signed();
    put(out, ((difference << 1) ^ (difference >> 63)).cast_unsigned());
}

fn take_difference(bytes: &mut Bytes<'_>, from: u64) -> Option<u64> {
    let zigzag = bytes.number()?;
    Some(from.wrapping_add((zigzag >> 1) ^ (zigzag & 1).wrapping_neg()))
}

/// Start, as the difference to the end of the one before; length; number of streams; each of them.
impl Item for Interval {
    /// A thousand hours of 100 ms, as long as a run may be.
    const MOST: usize = 36_000_000;

    fn put(&self, before: Option<&Self>, out: &mut Vec<u8>) {
        put_difference(out, end_of(before), self.start_ns);
        put(out, self.length_ns);
        put(out, self.streams.len() as u64);
        self.streams.iter().for_each(|stream| put_stream(stream, out));
    }

    fn take(before: Option<&Self>, bytes: &mut Bytes<'_>) -> Option<Self> {
        let start_ns = take_difference(bytes, end_of(before))?;
        let length_ns = bytes.number()?;
        let count = bytes.count(STREAMS_MAX)?;
        let streams = (0..count).map(|_| take_stream(bytes)).collect::<Option<_>>()?;
        Some(Self { start_ns, length_ns, streams })
    }
}

fn end_of(before: Option<&Interval>) -> u64 {
    before.map_or(0, |before| before.start_ns.wrapping_add(before.length_ns))
}

/// Class, as its place in [`OpClass::ALL`]; operations, bytes, sum and largest of the latencies; number of bins; each as
/// its distance from the one before and its count.
fn put_stream(stream: &IntervalStream, out: &mut Vec<u8>) {
    let class = OpClass::ALL.iter().position(|class| *class == stream.class).unwrap_or_default();
    for number in [class as u64, stream.ios, stream.bytes, stream.lat_sum_ns, stream.lat_max_ns] {
        put(out, number);
    }
    put(out, stream.bins.len() as u64);
    let mut last = 0;
    for (bin, count) in &stream.bins {
        put_difference(out, last, u64::from(*bin));
        put(out, u64::from(*count));
        last = u64::from(*bin);
    }
}

fn take_stream(bytes: &mut Bytes<'_>) -> Option<IntervalStream> {
    let class = *OpClass::ALL.get(bytes.narrow::<usize>()?)?;
    let [ios, byte_sum, lat_sum_ns, lat_max_ns] = [bytes.number()?, bytes.number()?, bytes.number()?, bytes.number()?];
    let count = bytes.count(BINS_MAX)?;
    let mut last = 0;
    let mut bin = |bytes: &mut Bytes<'_>| {
        last = take_difference(bytes, last)?;
        Some((u16::try_from(last).ok()?, bytes.narrow::<u32>()?))
    };
    let bins = (0..count).map(|_| bin(bytes)).collect::<Option<_>>()?;
    Some(IntervalStream { class, ios, bytes: byte_sum, lat_sum_ns, lat_max_ns, bins })
}

/// Start, as the difference to that of the one before; latency, likewise.
impl Item for Slow {
    const MOST: usize = 4096;

    fn put(&self, before: Option<&Self>, out: &mut Vec<u8>) {
        put_difference(out, before.map_or(0, |before| before.at_ns), self.at_ns);
        put_difference(out, before.map_or(0, |before| before.lat_ns), self.lat_ns);
    }

    fn take(before: Option<&Self>, bytes: &mut Bytes<'_>) -> Option<Self> {
        let at_ns = take_difference(bytes, before.map_or(0, |before| before.at_ns))?;
        let lat_ns = take_difference(bytes, before.map_or(0, |before| before.lat_ns))?;
        Some(Self { at_ns, lat_ns })
    }
}

/// Least latency, as the difference to that of the one before; how many; sums of their latency, work and waits.
impl Item for TimeSpent {
    const MOST: usize = 65_536;

    fn put(&self, before: Option<&Self>, out: &mut Vec<u8>) {
        put_difference(out, before.map_or(0, |before| before.from_ns), self.from_ns);
        for number in [self.ios, self.lat_ns, self.worked_ns, self.waited_ns] {
            put(out, number);
        }
    }

    fn take(before: Option<&Self>, bytes: &mut Bytes<'_>) -> Option<Self> {
        let from_ns = take_difference(bytes, before.map_or(0, |before| before.from_ns))?;
        let (ios, lat_ns) = (bytes.number()?, bytes.number()?);
        Some(Self { from_ns, ios, lat_ns, worked_ns: bytes.number()?, waited_ns: bytes.number()? })
    }
}

/// Writes a list as its text.
pub(super) fn serialize<T: Item, S: Serializer>(list: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    let mut bytes = Vec::new();
    put(&mut bytes, list.len() as u64);
    let mut before = None;
    for item in list {
        item.put(before, &mut bytes);
        before = Some(item);
    }
    serializer.serialize_str(&BASE64.encode(bytes))
}

/// Reads a list from its text, or from a list of objects.
pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Item + Deserialize<'de>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_any(Either(PhantomData))
}

struct Either<T>(PhantomData<T>);

impl<'de, T: Item + Deserialize<'de>> Visitor<'de> for Either<T> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a packed list, or a list of objects")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        let bytes = BASE64.decode(text).map_err(E::custom)?;
        unpacked(&bytes).ok_or_else(|| E::custom("the packed list is damaged"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(list)
    }
}

fn unpacked<T: Item>(bytes: &[u8]) -> Option<Vec<T>> {
    let mut bytes = Bytes(bytes);
    let count = bytes.count(T::MOST)?;
    let mut list: Vec<T> = Vec::new();
    for _ in 0..count {
        let item = T::take(list.last(), &mut bytes)?;
        list.push(item);
    }
    bytes.0.is_empty().then_some(list)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packed<T: Item>(list: &[T]) -> String {
        let mut text = Vec::new();
        serialize(list, &mut serde_json::Serializer::new(&mut text)).unwrap();
        String::from_utf8(text).unwrap()
    }

    fn read<T: Item + for<'de> Deserialize<'de>>(text: &str) -> serde_json::Result<Vec<T>> {
        deserialize(&mut serde_json::Deserializer::from_str(text))
    }

    fn streams() -> impl Strategy<Value = Vec<IntervalStream>> {
        let stream = (0..14_usize, any::<[u64; 4]>(), prop::collection::vec(any::<(u16, u32)>(), 0..6));
        prop::collection::vec(stream, 0..3).prop_map(|streams| {
            let stream = |(class, [ios, bytes, lat_sum_ns, lat_max_ns], bins): (usize, [u64; 4], _)| IntervalStream {
                class: OpClass::ALL[class],
                ios,
                bytes,
                lat_sum_ns,
                lat_max_ns,
                bins,
            };
            streams.into_iter().map(stream).collect()
        })
    }

    proptest! {
        #[test]
        fn what_was_packed_is_read_again(all in prop::collection::vec((any::<[u64; 2]>(), streams()), 0..5)) {
            let list: Vec<Interval> = all
                .into_iter()
                .map(|([start_ns, length_ns], streams)| Interval { start_ns, length_ns, streams })
                .collect();
            prop_assert_eq!(read::<Interval>(&packed(&list)).unwrap(), list);
        }

        #[test]
        fn latencies_and_times_are_read_again(all in prop::collection::vec(any::<[u64; 5]>(), 0..9)) {
            let slow: Vec<Slow> = all.iter().map(|[at_ns, lat_ns, ..]| Slow { at_ns: *at_ns, lat_ns: *lat_ns }).collect();
            prop_assert_eq!(read::<Slow>(&packed(&slow)).unwrap(), slow);
            let time = |[from_ns, ios, lat_ns, worked_ns, waited_ns]: &[u64; 5]| TimeSpent {
                from_ns: *from_ns, ios: *ios, lat_ns: *lat_ns, worked_ns: *worked_ns, waited_ns: *waited_ns,
            };
            let spent: Vec<TimeSpent> = all.iter().map(time).collect();
            prop_assert_eq!(read::<TimeSpent>(&packed(&spent)).unwrap(), spent);
        }

        /// A text from elsewhere must neither panic nor take memory for items that it does not hold.
        #[test]
        fn any_other_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let text = format!("\"{}\"", BASE64.encode(bytes));
            let _ = (read::<Interval>(&text), read::<Slow>(&text), read::<TimeSpent>(&text));
        }
    }

    #[test]
    fn a_list_of_objects_of_layout_1_is_read() {
        let text = r#"[{"start_ns":5,"length_ns":7,"streams":[]}]"#;
        assert_eq!(read::<Interval>(text).unwrap(), [Interval { start_ns: 5, length_ns: 7, streams: Vec::new() }]);
    }

    #[test]
    fn two_days_of_intervals_are_read_again() {
        let interval =
            |number: u64| Interval { start_ns: number * 100_000_000, length_ns: 100_000_000, streams: vec![] };
        let list: Vec<Interval> = (0..2 * 864_000).map(interval).collect();
        assert!(read::<Interval>(&packed(&list)).unwrap() == list);
    }

    #[test]
    fn a_count_beyond_the_text_is_refused() {
        let mut bytes = Vec::new();
        put(&mut bytes, u64::MAX);
        assert!(unpacked::<Slow>(&bytes).is_none());
        assert!(unpacked::<Slow>(&[1, 0x80]).is_none(), "a number that does not end");
        assert!(unpacked::<Slow>(&[0, 0]).is_none(), "more than was counted");
        let mut many = Vec::new();
        put(&mut many, Slow::MOST as u64 + 1);
        many.resize(many.len() + 2 * (Slow::MOST + 1), 0);
        assert!(unpacked::<Slow>(&many).is_none(), "a gigabyte of a few kilobytes");
    }
}
