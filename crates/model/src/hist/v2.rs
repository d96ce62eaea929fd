//! A [`Hist`] in JSON: HdrHistogram's V2 encoding, which its libraries in every language can read.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FINE_BINS, Held, Hist, LATENCY_MAX_NS};

/// The first bytes of HdrHistogram's V2 encoding, and the number of bytes before its counts.
const V2_COOKIE: u32 = 0x1c84_9313;
const V2_HEADER: usize = 40;
/// The first bytes of the compressed form: then come the length of a zlib stream and the stream, which contains the
/// other form.
const V2_COMPRESSED_COOKIE: u32 = 0x1c84_9314;
/// Its maximum length in bytes: nine for each bin.
const V2_LONGEST: u64 = V2_HEADER as u64 + 9 * FINE_BINS as u64;

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Hist")]
/// A latency histogram: exact count and sum, and the base64 of HdrHistogram's V2 encoding, compressed (three digits, ns).
struct HistJson {
    /// Number of values.
    count: u64,
    /// Smallest value, ns.
    min_ns: u64,
    /// Largest value, ns.
    max_ns: u64,
    /// Exact sum, ns.
    sum_ns: u64,
    /// Base64 of the HdrHistogram V2 encoding, compressed.
    hdr_v2: String,
}

impl Serialize for Hist {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&to_hdr(self), &mut bytes).map_err(serde::ser::Error::custom)?;
        HistJson {
            count: self.count(),
            min_ns: self.min_ns(),
            max_ns: self.max_ns(),
            sum_ns: u64::try_from(self.sum_ns).unwrap_or(u64::MAX),
            hdr_v2: BASE64.encode(bytes),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Hist {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = HistJson::deserialize(deserializer)?;
        let bytes = BASE64.decode(&json.hdr_v2).map_err(serde::de::Error::custom)?;
        let values = plain(bytes)
            .and_then(|bytes| values(&bytes))
            .ok_or_else(|| serde::de::Error::custom("hdr_v2 is not a three-digit histogram of at most 2^40 ns"))?;
        Ok(Self::of_values(values, u128::from(json.sum_ns)))
    }
}

/// Returns how many values a base64 encoding has; 0 if it is damaged.
pub(crate) fn values_in(hdr_v2: &str) -> usize {
    BASE64.decode(hdr_v2).ok().and_then(plain).and_then(|bytes| values(&bytes)).map_or(0, |values| values.len())
}

/// Returns a V2 encoding without its compression; `None` if it is damaged, or longer than any of ours.
fn plain(encoded: Vec<u8>) -> Option<Vec<u8>> {
    let Some(compressed) = encoded.strip_prefix(&V2_COMPRESSED_COOKIE.to_be_bytes()) else { return Some(encoded) };
    let (length, zlib) = compressed.split_first_chunk::<4>()?;
    let mut bytes = Vec::new();
    ZlibDecoder::new(zlib).take(V2_LONGEST + 1).read_to_end(&mut bytes).ok()?;
    (u32::from_be_bytes(*length) as usize == zlib.len() && bytes.len() as u64 <= V2_LONGEST).then_some(bytes)
}

/// Returns the values of a V2 encoding and their counts, or `None` if it is damaged or asks for more than a [`Hist`]
/// has.
///
/// The crate could do this too, but with an array of a quarter of a MiB for each of the thousands that a record may
/// have.
fn values(encoded: &[u8]) -> Option<Vec<(u64, u64)>> {
    // Cookie, length of the counts, offset, digits, lowest and highest value, ratio.
    let word = |at: usize| encoded.get(at..at + 4).map_or(0, |word| u32::from_be_bytes(word.try_into().expect("four")));
    let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
    let mut counts = encoded.get(V2_HEADER..)?;
    let is_ours = word(0) == V2_COOKIE
        && counts.len() == word(4) as usize
        && word(8) == 0
        && word(12) == 3
        && (1..=2).contains(&long(16))
        && long(24) <= LATENCY_MAX_NS * 2;
    if !is_ours {
        return None;
    }
    let (unit_bits, mut index, mut values) = (long(16).ilog2(), 0u64, Vec::new());
    while !counts.is_empty() {
        let count = signed(&mut counts)?;
        if index >= FINE_BINS as u64 {
            return None;
        }
        // A number of empty bins, or the count of one bin.
        match u64::try_from(count) {
            Err(_) => index = index.checked_add(count.unsigned_abs())?,
            Ok(0) => index += 1,
            Ok(count) => {
                let bin = Held { index: index as u32, count };
                values.push((((bin.high_ns() + 1) << unit_bits) - 1, count));
                index += 1;
            }
        }
    }
    Some(values)
}

/// Reads a number as ZigZag LEB128 of at most nine bytes, the ninth of which has eight bits.
fn signed(bytes: &mut &[u8]) -> Option<i64> {
    let mut number = 0u64;
    for at in 0..9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let (bits, goes_on) = if at == 8 { (*byte, false) } else { (byte & 0x7f, byte & 0x80 != 0) };
        number |= u64::from(bits) << (7 * at);
        if !goes_on {
            break;
        }
    }
    Some((number >> 1) as i64 ^ -((number & 1) as i64))
}

/// The same from HdrHistogram.
pub(super) fn to_hdr(hist: &Hist) -> Histogram<u64> {
    let mut hdr = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("constant bounds are valid");
    hist.held.iter().for_each(|held| hdr.saturating_record_n(held.low_ns(), held.count));
    hdr
}

impl JsonSchema for Hist {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Hist".into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        HistJson::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::{Deserializer, V2Serializer};
    use proptest::prelude::*;
    use std::io::Write as _;

    proptest! {
        #[test]
        fn json_round_trips(values in prop::collection::vec(0u64..1 << 41, 0..50)) {
            let mut hist = Hist::new();
            values.iter().for_each(|v| hist.record(*v));
            let text = serde_json::to_string(&hist).unwrap();
            prop_assert_eq!(serde_json::from_str::<Hist>(&text).unwrap(), hist);
        }

        /// The crate's reader agrees, for any unit and bounds that are accepted.
        #[test]
        fn it_is_read_as_hdr_histogram_reads_it(
            values in prop::collection::vec((0u64..1 << 41, 1u64..1 << 40), 0..50), lowest in 1u64..=2, bits in 12u32..=41,
        ) {
            let mut hdr = Histogram::<u64>::new_with_bounds(lowest, 1 << bits, 3).unwrap();
            values.iter().for_each(|(value, times)| hdr.saturating_record_n(*value, *times));
            let mut bytes = Vec::new();
            V2Serializer::new().serialize(&hdr, &mut bytes).unwrap();
            let theirs: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
            let theirs = theirs.iter_recorded().map(|bin| (bin.value_iterated_to(), bin.count_since_last_iteration()));
            let ours = super::values(&bytes).unwrap().into_iter().filter(|(_, count)| *count > 0);
            prop_assert_eq!(ours.collect::<Vec<_>>(), theirs.collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_are_read_or_refused(counts in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut bytes = uncompressed(&Hist::new())[..V2_HEADER].to_vec();
            bytes[4..8].copy_from_slice(&(counts.len() as u32).to_be_bytes());
            bytes.extend(counts);
            if let Some(read) = super::values(&bytes) {
                prop_assert!(Hist::of_values(read, 0).bins().all(|(_, count)| count > 0));
            }
        }
    }

    /// A histogram in JSON with these bytes as its encoding.
    fn with_bytes(hist: &Hist, bytes: &[u8]) -> serde_json::Value {
        let mut json = serde_json::to_value(hist).unwrap();
        json["hdr_v2"] = BASE64.encode(bytes).into();
        json
    }

    /// The encoding without compression, as layouts 1 and 2 have it.
    fn uncompressed(hist: &Hist) -> Vec<u8> {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&to_hdr(hist), &mut bytes).unwrap();
        bytes
    }

    /// The compressed form of some bytes.
    fn compressed(bytes: &[u8]) -> Vec<u8> {
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        zlib.write_all(bytes).unwrap();
        let zlib = zlib.finish().unwrap();
        [&V2_COMPRESSED_COOKIE.to_be_bytes()[..], &(zlib.len() as u32).to_be_bytes(), &zlib].concat()
    }

    #[test]
    fn histograms_of_earlier_layouts_are_read() {
        let mut hist = Hist::new();
        [7, 1_000, 1_000, 5_000_000, LATENCY_MAX_NS].into_iter().for_each(|ns| hist.record(ns));
        for bytes in [uncompressed(&hist), compressed(&uncompressed(&hist))] {
            assert_eq!(serde_json::from_value::<Hist>(with_bytes(&hist, &bytes)).unwrap(), hist);
        }
    }

    /// Cause: a length of 4 GB in a damaged record was allocated before anything else was checked.
    #[test]
    fn a_damaged_histogram_is_refused_by_its_header() {
        let whole = Hist::new();
        let refused = |bytes: &[u8]| {
            let error = serde_json::from_value::<Hist>(with_bytes(&whole, bytes)).unwrap_err().to_string();
            assert!(error.contains("not a three-digit histogram"), "{error}");
        };
        // Its length; five digits; the largest value; its cookie.
        for (at, to) in [(4, &[255, 255, 255, 255][..]), (15, &[5]), (24, &[255; 8]), (3, &[9])] {
            let mut bytes = uncompressed(&whole);
            bytes[at..at + to.len()].copy_from_slice(to);
            refused(&bytes);
            refused(&compressed(&bytes));
        }
        // A kilobyte that becomes a megabyte; an invalid stream; a wrong stream length; nothing.
        refused(&compressed(&vec![0; 1 << 20]));
        refused(&[&V2_COMPRESSED_COOKIE.to_be_bytes()[..], &[0, 0, 0, 4], b"none"].concat());
        let mut long = compressed(&uncompressed(&whole));
        long.push(0);
        refused(&long);
        refused(&[]);
    }
}
