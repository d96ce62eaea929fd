//! Long lists of a Record as stored in JSON: one text for each list, a twentieth of its size as objects.
//!
//! The text is `zlib:` and the base64 of a zlib stream. It contains columns of whole numbers, each number with seven
//! bits per byte, the lowest first, and the highest bit set on all bytes but the last (LEB128). It begins with the
//! number of items and the length of each column in bytes; the columns follow. Each [`Item`] describes its own.
//!
//! Records of layout 2 have the numbers of an item one after another in a single column, without its length, and only
//! base64; those of layout 1 have lists of objects. Both can still be read.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::marker::PhantomData;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serializer};

use super::{Interval, IntervalStream, Slow, TimeSpent};
use crate::op::OpClass;

/// Maximum number of bins in a stream, and of streams in an interval: a text that has more is damaged.
const BINS_MAX: usize = 4096;
const STREAMS_MAX: usize = 64;

/// How a text of this layout begins.
const MARK: &str = "zlib:";

/// Maximum expanded size of any text, and the additional bytes for each of its own: lists shrink to a half or a tenth.
const BYTES_MIN: u64 = 64 << 10;
const BYTES_PER_BYTE: u64 = 50;

/// An item of a packed list.
pub(crate) trait Item: Sized {
    /// Maximum number of items in a list: in memory they take far more than in the text.
    const MOST: usize;
    /// Number of columns in a list.
    const COLUMNS: usize;

    /// Writes the item that follows `before`, each number at the end of its column.
    fn put(&self, before: Option<&Self>, out: &mut [Vec<u8>]);

    /// Reads it back; `None` if a column ends too early, or contains something invalid.
    fn take(before: Option<&Self>, columns: &mut Columns<'_>) -> Option<Self>;

    /// Maximum memory that the lists within the items take, bytes, by the length of each column.
    fn within(_lengths: &[usize]) -> usize {
        0
    }
}

/// The columns of a list: the unread rest of each.
pub(crate) struct Columns<'a> {
    /// In layout 2: one, with the numbers of all columns in turn.
    columns: Vec<Bytes<'a>>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(&mut self, number: usize) -> &mut Bytes<'a> {
        let last = self.columns.len() - 1;
        &mut self.columns[number.min(last)]
    }
}

/// What is left to read.
pub(super) struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    pub(super) fn number(&mut self) -> Option<u64> {
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

    pub(super) fn narrow<T: TryFrom<u64>>(&mut self) -> Option<T> {
        self.number()?.try_into().ok()
    }
}

pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes a difference, small ones of either sign in one byte.
pub(super) fn put_difference(out: &mut Vec<u8>, from: u64, to: u64) {
    let difference = to.wrapping_sub(from).cast_signed();
    put(out, ((difference << 1) ^ (difference >> 63)).cast_unsigned());
}

pub(super) fn take_difference(bytes: &mut Bytes<'_>, from: u64) -> Option<u64> {
    let zigzag = bytes.number()?;
    Some(from.wrapping_add((zigzag >> 1) ^ (zigzag & 1).wrapping_neg()))
}

/// Start, as the difference to the end of the one before; length; number of streams; then the columns of these.
impl Item for Interval {
    /// A thousand hours of 100 ms, as long as a run may be.
    const MOST: usize = 36_000_000;
    const COLUMNS: usize = 11;

    fn put(&self, before: Option<&Self>, out: &mut [Vec<u8>]) {
        put_difference(&mut out[0], end_of(before), self.start_ns);
        put(&mut out[1], self.length_ns);
        put(&mut out[2], self.streams.len() as u64);
        self.streams.iter().for_each(|stream| put_stream(stream, &mut out[3..]));
    }

    fn take(before: Option<&Self>, columns: &mut Columns<'_>) -> Option<Self> {
        let start_ns = take_difference(columns.of(0), end_of(before))?;
        let length_ns = columns.of(1).number()?;
        let count: usize = columns.of(2).narrow()?;
        if count > STREAMS_MAX {
            return None;
        }
        Some(Self { start_ns, length_ns, streams: exactly(count, || take_stream(columns))? })
    }

    /// A stream has a byte in the column of classes, and a bin one at least in that of its distance.
    fn within(lengths: &[usize]) -> usize {
        let streams = lengths[3].saturating_mul(size_of::<IntervalStream>() + 2 * ALLOCATION);
        streams.saturating_add(lengths[9].saturating_mul(size_of::<(u16, u32)>()))
    }
}

/// So many items, without room for more: an interval has one stream, and a list that grows has room for four.
fn exactly<T>(count: usize, mut take: impl FnMut() -> Option<T>) -> Option<Vec<T>> {
    let mut list = Vec::with_capacity(count);
    for _ in 0..count {
        list.push(take()?);
    }
    Some(list)
}

fn end_of(before: Option<&Interval>) -> u64 {
    before.map_or(0, |before| before.start_ns.wrapping_add(before.length_ns))
}

/// Class, as its place in [`OpClass::ALL`]; operations, bytes, sum and largest of the latencies; number of bins; of each
/// its distance from the one before, and its count.
fn put_stream(stream: &IntervalStream, out: &mut [Vec<u8>]) {
    let class = OpClass::ALL.iter().position(|class| *class == stream.class).unwrap_or_default();
    let bins = stream.bins.len() as u64;
    for (column, number) in
        [class as u64, stream.ios, stream.bytes, stream.lat_sum_ns, stream.lat_max_ns, bins].into_iter().enumerate()
    {
        put(&mut out[column], number);
    }
    let mut last = 0;
    for (bin, count) in &stream.bins {
        put_difference(&mut out[6], last, u64::from(*bin));
        put(&mut out[7], u64::from(*count));
        last = u64::from(*bin);
    }
}

fn take_stream(columns: &mut Columns<'_>) -> Option<IntervalStream> {
    let class = *OpClass::ALL.get(columns.of(3).narrow::<usize>()?)?;
    let mut number = |column| columns.of(column).number();
    let [ios, bytes, lat_sum_ns, lat_max_ns] = [number(4)?, number(5)?, number(6)?, number(7)?];
    let count: usize = columns.of(8).narrow()?;
    // Each bin takes a byte at least.
    if count > BINS_MAX || count > columns.of(9).0.len() {
        return None;
    }
    let mut last = 0;
    let mut bin = || {
        last = take_difference(columns.of(9), last)?;
        Some((u16::try_from(last).ok()?, columns.of(10).narrow::<u32>()?))
    };
    Some(IntervalStream { class, ios, bytes, lat_sum_ns, lat_max_ns, bins: exactly(count, &mut bin)? })
}

/// Start, as the difference to that of the one before; latency, likewise.
impl Item for Slow {
    const MOST: usize = 4096;
    const COLUMNS: usize = 2;

    fn put(&self, before: Option<&Self>, out: &mut [Vec<u8>]) {
        put_difference(&mut out[0], before.map_or(0, |before| before.at_ns), self.at_ns);
        put_difference(&mut out[1], before.map_or(0, |before| before.lat_ns), self.lat_ns);
    }

    fn take(before: Option<&Self>, columns: &mut Columns<'_>) -> Option<Self> {
        let at_ns = take_difference(columns.of(0), before.map_or(0, |before| before.at_ns))?;
        let lat_ns = take_difference(columns.of(1), before.map_or(0, |before| before.lat_ns))?;
        Some(Self { at_ns, lat_ns })
    }
}

/// Least latency, as the difference to that of the one before; how many; sums of their latency, work and waits.
impl Item for TimeSpent {
    const MOST: usize = 65_536;
    const COLUMNS: usize = 5;

    fn put(&self, before: Option<&Self>, out: &mut [Vec<u8>]) {
        put_difference(&mut out[0], before.map_or(0, |before| before.from_ns), self.from_ns);
        for (column, number) in [self.ios, self.lat_ns, self.worked_ns, self.waited_ns].into_iter().enumerate() {
            put(&mut out[column + 1], number);
        }
    }

    fn take(before: Option<&Self>, columns: &mut Columns<'_>) -> Option<Self> {
        let from_ns = take_difference(columns.of(0), before.map_or(0, |before| before.from_ns))?;
        let mut number = |column| columns.of(column).number();
        let [ios, lat_ns, worked_ns, waited_ns] = [number(1)?, number(2)?, number(3)?, number(4)?];
        Some(Self { from_ns, ios, lat_ns, worked_ns, waited_ns })
    }
}

/// Writes a list as its text.
pub(crate) fn serialize<T: Item, S: Serializer>(list: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    let mut columns = vec![Vec::new(); T::COLUMNS];
    let mut before = None;
    for item in list {
        item.put(before, &mut columns);
        before = Some(item);
    }
    let mut bytes = Vec::new();
    put(&mut bytes, list.len() as u64);
    columns.iter().for_each(|column| put(&mut bytes, column.len() as u64));
    bytes.extend(columns.concat());
    let packed = deflate(&bytes).map_err(serde::ser::Error::custom)?;
    serializer.serialize_str(&format!("{MARK}{}", BASE64.encode(packed)))
}

fn deflate(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let packed = |level| {
        let mut zlib = ZlibEncoder::new(Vec::new(), level);
        zlib.write_all(bytes)?;
        zlib.finish()
    };
    let small = packed(Compression::best())?;
    // A text that only repeats itself could not be read back.
    if bytes.len() as u64 <= most_bytes(small.len()) { Ok(small) } else { packed(Compression::none()) }
}

/// Memory a list takes in addition to its items, bytes.
const ALLOCATION: usize = 16;
/// Memory the analysis takes for each item in its own series, bytes.
const ANALYSIS_PER_ITEM: usize = 64;
/// Maximum memory for each byte of layout 2, bytes: the smallest item of all lists has five bytes, and becomes 184.
const LAYOUT_2_PER_BYTE: usize = 40;

/// The names of packed lists.
pub(crate) const LISTS: [&str; 4] = ["intervals", "machine", "slowest", "looked_at"];

/// Returns the maximum memory that the list of this name takes once its text is read, bytes.
pub(crate) fn room(name: &str, text: &str) -> usize {
    match name {
        "intervals" => room_of::<Interval>(text),
        "machine" => room_of::<super::machine::MachineInterval>(text),
        "slowest" => room_of::<Slow>(text),
        "looked_at" => room_of::<TimeSpent>(text),
        _ => 0,
    }
}

fn room_of<T: Item>(text: &str) -> usize {
    let Some(text) = text.strip_prefix(MARK) else { return text.len().saturating_mul(LAYOUT_2_PER_BYTE) };
    let Some(bytes) = BASE64.decode(text).ok().and_then(|packed| inflate(&packed)) else { return 0 };
    let Some((count, lengths)) = head::<T>(&mut Bytes(&bytes)) else { return 0 };
    // While it is being read, its source is in memory as well.
    let items = count.min(bytes.len()).saturating_mul(size_of::<T>() + ANALYSIS_PER_ITEM);
    bytes.len().saturating_add(items).saturating_add(T::within(&lengths))
}

const fn most_bytes(packed: usize) -> u64 {
    BYTES_MIN.saturating_add(BYTES_PER_BYTE.saturating_mul(packed as u64))
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
        let list = match text.strip_prefix(MARK) {
            Some(text) => inflate(&BASE64.decode(text).map_err(E::custom)?).and_then(|bytes| unpacked(&bytes)),
            None => unpacked_layout_2(&BASE64.decode(text).map_err(E::custom)?),
        };
        list.ok_or_else(|| E::custom("the packed list is damaged"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(list)
    }
}

fn inflate(packed: &[u8]) -> Option<Vec<u8>> {
    let most = most_bytes(packed.len());
    let mut bytes = Vec::new();
    ZlibDecoder::new(packed).take(most + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= most).then_some(bytes)
}

/// The number of items, and the length of each column in bytes.
fn head<T: Item>(bytes: &mut Bytes<'_>) -> Option<(usize, Vec<usize>)> {
    let count = bytes.narrow()?;
    Some((count, exactly(T::COLUMNS, || bytes.narrow())?))
}

fn unpacked<T: Item>(bytes: &[u8]) -> Option<Vec<T>> {
    let mut bytes = Bytes(bytes);
    let (count, lengths) = head::<T>(&mut bytes)?;
    let mut rest = bytes.0;
    let mut columns = Vec::new();
    for length in lengths {
        let (column, others) = rest.split_at_checked(length)?;
        columns.push(Bytes(column));
        rest = others;
    }
    if !rest.is_empty() {
        return None;
    }
    items(count, Columns { columns })
}

fn unpacked_layout_2<T: Item>(bytes: &[u8]) -> Option<Vec<T>> {
    let mut bytes = Bytes(bytes);
    let count = bytes.narrow()?;
    items(count, Columns { columns: vec![bytes] })
}

fn items<T: Item>(count: usize, mut columns: Columns<'_>) -> Option<Vec<T>> {
    // Each takes a byte at least of the first.
    if count > T::MOST.min(columns.of(0).0.len()) {
        return None;
    }
    // In layout 2 a text holds fewer than it has bytes.
    let mut list: Vec<T> = Vec::with_capacity(if columns.columns.len() > 1 { count } else { 0 });
    for _ in 0..count {
        let item = T::take(list.last(), &mut columns)?;
        list.push(item);
    }
    columns.columns.iter().all(|column| column.0.is_empty()).then_some(list)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::environment::{DeviceCounters, Writeback};
    use crate::record::machine::{MachineInterval, PressurePpm};

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

    fn machine() -> impl Strategy<Value = MachineInterval> {
        let known = (any::<Option<[u32; 3]>>(), any::<Option<[u64; 2]>>(), any::<Option<[u64; 14]>>());
        (any::<[u64; 2]>(), any::<[u32; 2]>(), known).prop_map(
            |([start_ns, length_ns], [busy_ppm, steal_ppm], (pressure, writeback, device))| MachineInterval {
                start_ns,
                length_ns,
                busy_ppm,
                steal_ppm,
                pressure_ppm: pressure.map(|[io, memory, cpu]| PressurePpm { io, memory, cpu }),
                writeback: writeback.map(|[dirty_bytes, writeback_bytes]| Writeback { dirty_bytes, writeback_bytes }),
                device: device.map(DeviceCounters::from_numbers),
            },
        )
    }

    proptest! {
        #[test]
        fn what_the_machine_did_is_read_again(list in prop::collection::vec(machine(), 0..9)) {
            prop_assert_eq!(read::<MachineInterval>(&packed(&list)).unwrap(), list);
        }

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

        /// A text from elsewhere must neither cause a panic nor take memory for items that it does not contain.
        #[test]
        fn any_other_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let text = format!("\"{}\"", BASE64.encode(&bytes));
            let _ = (read::<Interval>(&text), read::<Slow>(&text), read::<TimeSpent>(&text));
            let _ = (unpacked::<Interval>(&bytes), unpacked::<Slow>(&bytes), unpacked::<TimeSpent>(&bytes));
            let _ = unpacked::<MachineInterval>(&bytes);
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

    /// What qd1 0.1.0 wrote before lists had columns.
    #[test]
    fn a_text_of_layout_2_is_read() {
        let of = |numbers: &[u64]| {
            let mut bytes = Vec::new();
            numbers.iter().for_each(|number| put(&mut bytes, *number));
            format!("\"{}\"", BASE64.encode(bytes))
        };
        let slow = [Slow { at_ns: 300, lat_ns: 5 }, Slow { at_ns: 299, lat_ns: 7 }];
        assert_eq!(read::<Slow>(&of(&[2, 600, 10, 1, 4])).unwrap(), slow);
        let bins = vec![(20, 2), (21, 1)];
        let stream =
            IntervalStream { class: OpClass::ALL[1], ios: 3, bytes: 9, lat_sum_ns: 600, lat_max_ns: 250, bins };
        let interval = Interval { start_ns: 100, length_ns: 50, streams: vec![stream] };
        assert_eq!(read::<Interval>(&of(&[1, 200, 50, 1, 1, 3, 9, 600, 250, 2, 40, 2, 2, 1])).unwrap(), [interval]);
    }

    #[test]
    fn a_text_that_becomes_a_thousand_times_as_much_is_refused() {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
        zlib.write_all(&vec![0; 10 << 20]).unwrap();
        let text = format!("\"{MARK}{}\"", BASE64.encode(zlib.finish().unwrap()));
        assert!(read::<Slow>(&text).is_err());
    }

    #[test]
    fn the_room_of_a_list_is_what_it_takes() {
        let room_of = |list: &[Interval]| room("intervals", packed(list).trim_matches('"'));
        let stream = IntervalStream {
            class: OpClass::ALL[1],
            ios: 3,
            bytes: 9,
            lat_sum_ns: 600,
            lat_max_ns: 250,
            bins: vec![(20, 2), (21, 1)],
        };
        let interval = |number: u64| Interval { start_ns: number, length_ns: 1, streams: vec![stream.clone()] };
        let of = |count: u64| room_of(&(0..count).map(interval).collect::<Vec<_>>());
        let each = size_of::<Interval>() + ANALYSIS_PER_ITEM + size_of::<IntervalStream>() + 2 * ALLOCATION + 2 * 8;
        let bytes = 3 + 8 + 2 * 2;
        assert_eq!(of(1000) - of(200), 800 * (each + bytes));
        assert_eq!((room("slowest", "zlib:?"), room("command", "zlib:?"), room("machine", "12")), (0, 0, 80));
    }

    #[test]
    fn a_count_beyond_the_text_is_refused() {
        let mut bytes = Vec::new();
        put(&mut bytes, u64::MAX);
        assert!(unpacked::<Slow>(&bytes).is_none() && unpacked_layout_2::<Slow>(&bytes).is_none());
        assert!(unpacked::<Slow>(&[1, 1, 1, 0x80, 2]).is_none(), "a number that does not end");
        assert!(unpacked::<Slow>(&[0, 0, 1, 0]).is_none(), "more than was counted");
        assert!(unpacked::<Slow>(&[1, 1, 9, 0, 0]).is_none(), "a column longer than what there is");
        assert_eq!(unpacked::<Slow>(&[1, 1, 1, 0, 0]).unwrap(), [Slow { at_ns: 0, lat_ns: 0 }]);
        let (most, mut many) = (Slow::MOST + 1, Vec::new());
        [most, most, most].iter().for_each(|number| put(&mut many, *number as u64));
        many.resize(many.len() + 2 * most, 0);
        assert!(unpacked::<Slow>(&many).is_none(), "a gigabyte of a few kilobytes");
    }
}
