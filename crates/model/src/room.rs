//! Estimates how much memory a document will take before it is read.
//!
//! A byte of text becomes a hundred if it is all brackets, so the size of a file says little about the cost of reading
//! it. The document is parsed once, and nothing is kept.

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};

use crate::hist::values_in;
use crate::record::packed;

/// Memory that any document may take.
const ROOM_MIN: usize = 128 << 20;
/// For larger documents: memory for each byte.
const ROOM_PER_BYTE: usize = 2;
/// The same for each byte of a file with a qd1 run: the rounds of a check over days are many small histograms.
const ROOM_PER_BYTE_OF_RUN: usize = 12;

/// Memory for a value in a growing list.
const VALUE: usize = 64;
/// Memory for a non-empty object, and for each member in addition to its name.
const OBJECT: usize = 640;
const MEMBER: usize = 128;
/// Memory for a text in addition to its characters.
const TEXT: usize = 16;
/// Length up to which a text in a run is free; each further character takes this many bytes, since reports repeat names
/// many times.
const LETTERS: usize = 4096;
const PER_LETTER: usize = 256;

/// The name of a histogram's encoding, and the memory for each value in it: sixteen bytes, and as many again if a
/// report keeps the record along with its results.
const HISTOGRAM: &str = "hdr_v2";
const HISTOGRAM_PER_VALUE: usize = 32;

/// The memory left for a document. Its needs are bounded by those of generic values; specific types are smaller.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    left: usize,
    is_exceeded: bool,
    /// Whether its texts are shown many times.
    is_run: bool,
}

impl Room {
    /// Returns the room for a text of this many bytes.
    pub fn of(text: usize) -> Self {
        Self { left: ROOM_MIN.max(text.saturating_mul(ROOM_PER_BYTE)), is_exceeded: false, is_run: false }
    }

    /// Returns the room for a stored qd1 run in a file of this many bytes.
    pub fn of_run(file: usize) -> Self {
        Self { left: ROOM_MIN.max(file.saturating_mul(ROOM_PER_BYTE_OF_RUN)), is_exceeded: false, is_run: true }
    }

    /// Returns true if a document took more.
    pub const fn is_exceeded(&self) -> bool {
        self.is_exceeded
    }

    /// Parses a document, and subtracts what it needs from the room.
    ///
    /// # Errors
    /// If it is not a valid document, or takes more than is left.
    pub fn take<'de, D: Deserializer<'de>>(&mut self, document: D) -> Result<(), D::Error> {
        self.deserialize(document)
    }

    fn charge<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => {
                self.is_exceeded = true;
                return Err(E::custom("reading it would take too much memory"));
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for &mut Room {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, document: D) -> Result<(), D::Error> {
        document.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Room {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.charge(VALUE)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.charge(VALUE)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.charge(VALUE)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.charge(VALUE)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.charge(VALUE)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        let shown = if self.is_run { text.len().saturating_sub(LETTERS).saturating_mul(PER_LETTER) } else { 0 };
        self.charge((VALUE + TEXT + text.len()).saturating_add(shown))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.charge(VALUE)?;
        while list.next_element_seed(&mut *self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        self.charge(VALUE)?;
        let mut is_first = true;
        while let Some(name) = object.next_key_seed(Name(self))? {
            self.charge(if std::mem::take(&mut is_first) { OBJECT } else { MEMBER })?;
            object.next_value_seed(Member { room: self, name })?;
        }
        Ok(())
    }
}

/// The name of a member, if it determines what its text becomes.
struct Name<'a>(&'a mut Room);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<&'static str>;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<Self::Value, D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<&'static str>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        self.0.charge(TEXT + name.len())?;
        Ok(packed::LISTS.iter().chain([&HISTOGRAM]).copied().find(|packed| *packed == name))
    }
}

/// The value of a member: with some names, a text takes the memory of what it becomes.
struct Member<'a> {
    room: &'a mut Room,
    name: Option<&'static str>,
}

impl<'de> DeserializeSeed<'de> for Member<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        match self.name {
            Some(HISTOGRAM) => value.deserialize_str(self),
            Some(_) => value.deserialize_any(self),
            None => value.deserialize_any(self.room),
        }
    }
}

impl<'de> Visitor<'de> for Member<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a text, or a list")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        let becomes = match self.name {
            Some(HISTOGRAM) => HISTOGRAM_PER_VALUE * values_in(text),
            Some(list) => packed::room(list, text),
            None => 0,
        };
        self.room.charge(VALUE + TEXT + text.len() + becomes)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        self.room.visit_seq(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<(), A::Error> {
        self.room.visit_map(object)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.room.visit_unit()
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.room.visit_u64(number)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.room.visit_i64(number)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.room.visit_f64(number)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.room.visit_bool(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str) -> Result<usize, serde_json::Error> {
        let mut room = Room { left: 10_000, is_exceeded: false, is_run: false };
        room.take(&mut serde_json::Deserializer::from_str(text)).map(|()| 10_000 - room.left)
    }

    #[test]
    fn brackets_cost_more_than_letters() {
        assert_eq!(taken("7").unwrap(), VALUE);
        assert_eq!(taken("\"abc\"").unwrap(), VALUE + TEXT + 3);
        assert_eq!(taken("[[], null]").unwrap(), 3 * VALUE);
        assert_eq!(taken("{\"a\": 1, \"b\": {}}").unwrap(), 3 * VALUE + OBJECT + MEMBER + 2 * (TEXT + 1));
    }

    /// Cause: ten megabytes of small histograms became four gigabytes.
    #[test]
    fn a_histogram_takes_what_it_becomes() {
        let hist = crate::Hist::of_values((0..2000).map(|at| (at, 1)), 0);
        let text = serde_json::to_string(&hist).unwrap();
        let (mut small, mut large) = (Room::of(0), Room { left: 10_000, is_exceeded: false, is_run: false });
        assert!(small.take(&mut serde_json::Deserializer::from_str(&text)).is_ok());
        assert!(large.take(&mut serde_json::Deserializer::from_str(&text)).is_err() && text.len() < 1000, "{text}");
        assert!(large.is_exceeded());
        assert!(large.take(&mut serde_json::Deserializer::from_str("{\"hdr_v2\": []}")).is_err());
    }

    /// Cause: bins with one value take a byte each and sixteen in memory: 85 kB of them became 800 MB.
    #[test]
    fn each_value_of_a_histogram_takes_room() {
        let dense = crate::Hist::of_values((0..2000).map(|at| (at, 1)), 0);
        let sparse = crate::Hist::of_values([(1, 1), (1 << 30, 1 << 40)], 0);
        let takes = |hist: &crate::Hist| {
            let mut room = Room::of_run(0);
            room.take(&mut serde_json::Deserializer::from_str(&serde_json::to_string(hist).unwrap())).unwrap();
            Room::of_run(0).left - room.left
        };
        assert!(takes(&dense) - takes(&sparse) >= 1998 * HISTOGRAM_PER_VALUE);
    }

    /// Cause: ten megabytes of intervals without an operation became 1.4 GB.
    #[test]
    fn a_packed_list_takes_what_it_becomes() {
        let intervals = vec![crate::record::Interval { start_ns: 0, length_ns: 0, streams: Vec::new() }; 300];
        let mut text = b"{\"intervals\": ".to_vec();
        packed::serialize(&intervals, &mut serde_json::Serializer::new(&mut text)).unwrap();
        let text = String::from_utf8(text).unwrap() + "}";
        let mut room = Room { left: 10_000, is_exceeded: false, is_run: false };
        assert!(room.take(&mut serde_json::Deserializer::from_str(&text)).is_err() && room.is_exceeded());
        for other in ["[[1, 2]]", "null", "7", "-7", "0.5", "true", "{\"a\": 1}"] {
            assert!(taken(&format!("{{\"intervals\": {other}}}")).is_ok(), "{other}");
        }
    }

    /// Cause: the page for a run whose host name had nine megabytes took 2.2 GB.
    #[test]
    fn a_name_of_megabytes_takes_what_reports_make_of_it() {
        let taken = |letters: usize| {
            let mut room = Room::of_run(0);
            room.take(&mut serde_json::Deserializer::from_str(&format!(
                "{{\"hostname\": \"{}\"}}",
                "h".repeat(letters)
            )))
        };
        assert!(taken(100_000).is_ok() && taken(1_000_000).is_err());
        let mut document = Room::of(0);
        let text = format!("\"{}\"", "h".repeat(1_000_000));
        assert!(document.take(&mut serde_json::Deserializer::from_str(&text)).is_ok());
    }

    #[test]
    fn what_takes_more_than_there_is_room_is_told_from_what_is_no_document() {
        let over = |text: &str| {
            let mut room = Room { left: 10_000, is_exceeded: false, is_run: false };
            let taken = room.take(&mut serde_json::Deserializer::from_str(text));
            (taken.is_err(), room.is_exceeded())
        };
        assert_eq!(over(&format!("[{}0]", "0,".repeat(200))), (true, true));
        assert_eq!(over("[1, 2"), (true, false));
        assert_eq!(over("[1, 2]"), (false, false));
    }
}
