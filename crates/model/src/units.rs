//! Sizes and durations as people write them, and as reports print them.
//!
//! MB and MiB are never mixed: printing always names the unit, parsing follows fio with `kb_base=1024`
//! (`4k` = 4 KiB, `1M` = 1 MiB); a trailing `iB` makes that explicit, and `kB`/`MB`/`GB` are powers of 1000.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number of bytes. Serialized as a raw integer; parsed from `4096`, `4k`, `4KiB`, `1MB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// The error for a text that is not a size or a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not a size.
    #[error("{0:?} is not a size; write for example 4096, 4k, 1MiB or 2G")]
    Size(String),
    /// Not a duration.
    #[error("{0:?} is not a duration; write for example 500ms, 30s, 2m, 24h or a plain number of seconds")]
    Duration(String),
}

impl Bytes {
    /// `n` KiB.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }
    /// `n` MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }
    /// `n` GiB.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }
}

impl fmt::Display for Bytes {
    /// Binary units, at most one decimal: `4 KiB`, `1.5 GiB`, `2300 B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        for (scale, unit) in UNITS {
            if self.0 >= scale {
                let tenths = (u128::from(self.0) * 10 / u128::from(scale)) as u64;
                if self.0.is_multiple_of(scale) || tenths.is_multiple_of(10) && tenths >= 1000 {
                    return write!(f, "{} {unit}", self.0 / scale);
                }
                if tenths >= 10 && (scale > 1 << 10 || self.0.is_multiple_of(512)) {
                    return write!(f, "{}.{} {unit}", tenths / 10, tenths % 10);
                }
            }
        }
        write!(f, "{} B", self.0)
    }
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let err = || UnitError::Size(text.to_owned());
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let unit = unit.trim();
        let scale: u64 = match unit {
            "" | "b" | "B" => 1,
            "k" | "K" | "ki" | "Ki" | "kib" | "KiB" => 1 << 10,
            "m" | "M" | "mi" | "Mi" | "mib" | "MiB" => 1 << 20,
            "g" | "G" | "gi" | "Gi" | "gib" | "GiB" => 1 << 30,
            "t" | "T" | "ti" | "Ti" | "tib" | "TiB" => 1 << 40,
            "kB" | "kb" | "KB" => 1_000,
            "MB" | "mb" => 1_000_000,
            "GB" | "gb" => 1_000_000_000,
            "TB" | "tb" => 1_000_000_000_000,
            _ => return Err(err()),
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(scale).map(Bytes).ok_or_else(err);
        }
        let value: f64 = number.parse().map_err(|_| err())?;
        let bytes = value * scale as f64;
        if !(bytes.is_finite() && (0.0..9e18).contains(&bytes)) {
            return Err(err());
        }
        Ok(Bytes(bytes.round() as u64))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Bytes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes or a size such as \"4k\"")
            }
            fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<Bytes, E> {
                Ok(Bytes(v))
            }
            fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<Bytes, E> {
                u64::try_from(v).map(Bytes).map_err(|_| E::custom("a size cannot be negative"))
            }
            fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<Bytes, E> {
                v.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Parses `500ms`, `30s`, `2m`, `1h`, `250us`, `90` (seconds) into nanoseconds.
///
/// # Errors
/// [`UnitError::Duration`] when the text is none of these or does not fit.
pub fn parse_duration_ns(text: &str) -> Result<u64, UnitError> {
    let err = || UnitError::Duration(text.to_owned());
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let scale: f64 = match unit.trim() {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "" | "s" | "sec" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        "d" => 86_400e9,
        _ => return Err(err()),
    };
    let value: f64 = number.parse().map_err(|_| err())?;
    let ns = value * scale;
    if !(ns.is_finite() && (0.0..9e18).contains(&ns)) {
        return Err(err());
    }
    Ok(ns.round() as u64)
}

/// A latency with three significant digits and its unit: `87 us`, `1.24 ms`, `30.5 ms`, `2.10 s`.
pub fn format_ns(ns: f64) -> String {
    let (value, unit) = match ns {
        v if v < 999.5 => return format!("{v:.0} ns"),
        v if v < 999.5e3 => (v / 1e3, "us"),
        v if v < 999.5e6 => (v / 1e6, "ms"),
        v => (v / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A plan's duration or a remaining time, for people: `0.4 s`, `12 s`, `2 min 05 s`.
pub fn format_span_ns(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    if seconds < 9.95 {
        format!("{seconds:.1} s")
    } else if seconds < 119.5 {
        format!("{seconds:.0} s")
    } else if seconds < 7_200.0 && !(seconds.round() as u64).is_multiple_of(3_600) {
        let whole = seconds.round() as u64;
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else {
        let minutes = (seconds / 60.0).round() as u64;
        let (days, hours) = (minutes / 1440, minutes / 60);
        match minutes {
            2880.. if hours % 24 == 0 => format!("{days} d"),
            2880.. => format!("{days} d {} h", hours % 24),
            _ if minutes.is_multiple_of(60) => format!("{hours} h"),
            _ => format!("{hours} h {:02} min", minutes % 60),
        }
    }
}

/// A rate with its decimal unit: `812 kB/s`, `273 MB/s`, `2.13 GB/s`.
pub fn format_rate(bytes_per_second: f64) -> String {
    let (value, unit) = match bytes_per_second {
        v if v < 999.5 => return format!("{v:.0} B/s"),
        v if v < 999.5e3 => (v / 1e3, "kB/s"),
        v if v < 999.5e6 => (v / 1e6, "MB/s"),
        v => (v / 1e9, "GB/s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// The same rate in binary units: `381 MiB/s`.
pub fn format_rate_binary(bytes_per_second: f64) -> String {
    let (value, unit) = match bytes_per_second / 1024.0 {
        v if v < 1023.5 => (v, "KiB/s"),
        v if v < 1023.5 * 1024.0 => (v / 1024.0, "MiB/s"),
        v => (v / 1024.0 / 1024.0, "GiB/s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A count for people: `950`, `12.3k`, `1.42M`.
pub fn format_count(value: f64) -> String {
    match value {
        v if v < 99.95 && v.fract().abs() > 0.05 => format!("{v:.1}"),
        v if v < 999.5 => format!("{v:.0}"),
        v if v < 999.5e3 => format!("{}k", three_digits(v / 1e3)),
        v => format!("{}M", three_digits(v / 1e6)),
    }
}

/// A share for people, in percent: `0 %`, `0.12 %`, `3.4 %`, `51 %`.
pub fn format_share(value: f64) -> String {
    match value * 100.0 {
        0.0 => "0 %".to_owned(),
        v if v.abs() < 0.995 => format!("{v:.2} %"),
        v if v.abs() < 9.95 => format!("{v:.1} %"),
        v => format!("{v:.0} %"),
    }
}

fn three_digits(value: f64) -> String {
    if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// A block size in fio's short form: `4k`, `1M`, `2300`.
pub fn short_size(block: Bytes) -> String {
    match block.0 {
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{}k", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_fio_reads_them_with_kb_base_1024() {
        for (text, bytes) in
            [("4096", 4096), ("4k", 4096), ("1MiB", 1 << 20), ("2G", 2 << 30), ("1MB", 1_000_000), ("1.5k", 1536)]
        {
            assert_eq!(text.parse::<Bytes>().unwrap().0, bytes, "{text}");
        }
        for bad in ["", "k", "4x", "-1", "1e99G", "99999999999T"] {
            assert!(bad.parse::<Bytes>().is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_print_with_their_unit() {
        assert_eq!(Bytes(2300).to_string(), "2300 B");
        assert_eq!(Bytes(4096).to_string(), "4 KiB");
        assert_eq!(Bytes(3 << 29).to_string(), "1.5 GiB");
    }

    #[test]
    fn durations_are_read_and_printed() {
        assert_eq!(parse_duration_ns("500ms").unwrap(), 500_000_000);
        assert_eq!(parse_duration_ns("2").unwrap(), 2_000_000_000);
        assert!(parse_duration_ns("2 fortnights").is_err());
        assert_eq!(format_ns(1_240_000.0), "1.24 ms");
        assert_eq!(format_ns(87_000.0), "87.0 us");
        assert_eq!(format_span_ns(125_000_000_000), "2 min 05 s");
        let hours = |hours: f64| format_span_ns((hours * 3.6e12) as u64);
        assert_eq!([1.0, 2.0, 24.0, 26.5, 48.0].map(hours), ["1 h", "2 h", "24 h", "26 h 30 min", "2 d"]);
        assert_eq!([336.0, 51.0].map(hours), ["14 d", "2 d 3 h"]);
        assert_eq!(format_rate(400e6), "400 MB/s");
        assert_eq!(format_rate_binary(400e6), "381 MiB/s");
        assert_eq!(format_count(11_800.0), "11.8k");
        assert_eq!([0.0, 0.0012, 0.034, 0.511].map(format_share), ["0 %", "0.12 %", "3.4 %", "51 %"]);
    }
}
