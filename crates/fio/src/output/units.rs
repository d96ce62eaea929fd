//! Numbers as fio writes them: a few digits and a prefix.

/// Prefixes of thousands.
const SI: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
/// Prefixes of powers of 1024.
const IEC: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bare numbers, in thousands: IOPS, latencies.
    Plain,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Bits per second; the number itself is still in bytes.
    BitsPerSecond,
}

/// A number in at most `digits` characters, with a prefix of powers of 1024 where `binary`, else of 1000, and its unit:
/// `9481`, `24.2MiB`, `541MB/s`. It is divided only when it has too many digits, so `1024KiB` stays.
pub fn short(number: u64, digits: usize, binary: bool, unit: Unit) -> String {
    let mut number = u128::from(number) * if unit == Unit::BitsPerSecond { 8 } else { 1 };
    let thousand: u128 = if binary { 1024 } else { 1000 };
    let (mut step, mut rest) = (0, None);
    while number >= 10u128.pow(digits as u32) && step + 1 < SI.len() {
        rest = Some(number % thousand);
        number /= thousand;
        step += 1;
    }
    let suffix = match unit {
        Unit::Plain => "",
        Unit::Bytes => "B",
        Unit::BytesPerSecond => "B/s",
        Unit::BitsPerSecond => "bit/s",
    };
    let prefix = if binary { IEC[step] } else { SI[step] };
    let room = digits.saturating_sub(number.to_string().len());
    match rest {
        None => format!("{number}{prefix}{suffix}"),
        Some(rest) if room < 2 => format!("{}{prefix}{suffix}", number + u128::from(rest >= thousand / 2)),
        Some(rest) => {
            // One character is for the decimal point.
            let places = room - 1;
            let scale = 10u128.pow(places as u32);
            let fraction = (rest * scale + thousand / 2) / thousand;
            let (number, fraction) = (number + fraction / scale, fraction % scale);
            format!("{number}.{fraction:0places$}{prefix}{suffix}")
        }
    }
}

/// The unit in which latencies are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyUnit {
    /// Nanoseconds.
    Nsec,
    /// Microseconds.
    Usec,
    /// Milliseconds.
    Msec,
}

impl LatencyUnit {
    /// fio's choice for latencies from `min_ns` to `max_ns`: a coarser unit only if no information is lost.
    pub fn of(min_ns: u64, max_ns: u64) -> Self {
        if min_ns > 2_000_000 && max_ns > 99_999_999 {
            Self::Msec
        } else if min_ns > 2_000 && max_ns > 99_999 {
            Self::Usec
        } else {
            Self::Nsec
        }
    }

    /// The unit's name in fio's texts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nsec => "nsec",
            Self::Usec => "usec",
            Self::Msec => "msec",
        }
    }

    /// Its length, ns.
    pub const fn ns(self) -> u64 {
        match self {
            Self::Nsec => 1,
            Self::Usec => 1_000,
            Self::Msec => 1_000_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits_as_in_fios_texts() {
        let binary = |number| short(number, 4, true, Unit::Bytes);
        assert_eq!([0, 4096, 9999, 10_000].map(binary), ["0B", "4096B", "9999B", "9.77KiB"]);
        assert_eq!([1 << 20, 25_362_432, 65 << 20].map(binary), ["1024KiB", "24.2MiB", "65.0MiB"]);
        assert_eq!(short(541_081_081, 4, false, Unit::BytesPerSecond), "541MB/s");
        assert_eq!(short(279_860, 4, true, Unit::BitsPerSecond), "2186Kibit/s");
        assert_eq!(short(808_347, 4, false, Unit::Plain), "808k");
        assert_eq!(short(10_000, 4, false, Unit::Plain), "10.0k");
    }

    #[test]
    fn long_latencies_get_six_digits() {
        let latency = |number| short(number, 6, false, Unit::Plain);
        assert_eq!([999_999, 8_031_953, 28_638_822].map(latency), ["999999", "8032.0k", "28639k"]);
    }

    #[test]
    fn a_fraction_that_rounds_up_carries_into_the_whole() {
        assert_eq!(short(1024 * 1023 * 1024 / 64, 4, true, Unit::Bytes), "16.0MiB");
        // By then fio has already decided on two decimals.
        assert_eq!(short(10_239, 4, true, Unit::Bytes), "10.00KiB");
    }

    #[test]
    fn a_unit_is_coarse_only_if_both_ends_are() {
        assert_eq!(LatencyUnit::of(1_021, 23_605_741), LatencyUnit::Nsec);
        assert_eq!(LatencyUnit::of(2_561, 110_149), LatencyUnit::Usec);
        assert_eq!(LatencyUnit::of(2_000_001, 100_000_000), LatencyUnit::Msec);
        assert_eq!(LatencyUnit::of(2_000_000, 100_000_000), LatencyUnit::Usec);
    }
}
