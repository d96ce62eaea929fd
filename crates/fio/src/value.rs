//! fio's rules for values: whole numbers with units, percentages, times, lists for read, write and trim.
//!
//! fio 3.33 reads as much of a value as it understands and ignores the rest: it reads `1.5g` as one byte, `10min` as
//! ten microseconds, and `size = 1g` (with blanks) as one byte. Here such a value is an error that says so, except for
//! blanks around it and `sec`, which fio's manual allows: these mean what they say.

mod errno;
mod expression;
mod lists;
mod pattern;

pub(crate) use errno::error_lists;
pub use expression::calculate;
pub(crate) use lists::{cpu_list, distribution, names, percentiles, splits};
pub(crate) use pattern::pattern;

use std::time::Duration;

use crate::types::{Amount, KbBase, Range};

/// What is wrong with a value, as a clause.
pub type Problem = String;

/// The unit of a plain number in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds, as in `runtime`.
    Seconds,
    /// Milliseconds, as in `log_avg_msec`.
    Milliseconds,
    /// Microseconds, as in `thinktime`.
    Microseconds,
}

impl TimeUnit {
    /// Microseconds per unit.
    const fn micros(self) -> i64 {
        match self {
            Self::Seconds => 1_000_000,
            Self::Milliseconds => 1_000,
            Self::Microseconds => 1,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
        }
    }
}

/// The factor of a unit in lower case, `None` if there is no such unit.
type Scale<'a> = &'a dyn Fn(&str) -> Option<i64>;

/// A whole number with a unit of size: `4096`, `4k`, `0x1000`, `(4k*2)`.
///
/// With `kb_base=1024` fio swaps SI and IEC: `k`, `kb` and `ki` are 1024 and `kib` is 1000. With 1000 it is the
/// other way round, `kib` being 1024 and the others 1000. (Its manual says that `ki` goes with `kib`; it does not.)
pub fn integer(text: &str, base: KbBase) -> Result<i64, Problem> {
    let scale = |unit: &str| size_unit(unit, base);
    scaled(text, &scale, &scale)
}

/// Like [`integer`], and not below zero.
pub fn unsigned(text: &str, base: KbBase) -> Result<u64, Problem> {
    u64::try_from(integer(text, base)?).map_err(|_| "it is below zero".to_owned())
}

/// A length of time: `10` in `unit`, or with `us`, `ms`, `s`, `m`, `h`, `d`. In an expression a plain number is
/// microseconds, as in fio.
pub fn duration(text: &str, unit: TimeUnit) -> Result<Duration, Problem> {
    let scale = |name: &str| if name.is_empty() { Some(unit.micros()) } else { time_unit(name) };
    let micros = scaled(text, &scale, &|name| if name.is_empty() { Some(1) } else { time_unit(name) })?;
    u64::try_from(micros).map(Duration::from_micros).map_err(|_| "it is below zero".to_owned())
}

/// The number of a percentage; `None` if the text is not a percentage. `%%` counts as `%`, as in fio: Python's ini
/// writer doubles it, and so does bench-fio in its job files.
pub fn percentage(text: &str) -> Option<&str> {
    let number = text.trim_end().trim_end_matches('%');
    (number.len() < text.trim_end().len()).then_some(number.trim())
}

/// A size in bytes or as a percentage: `1g`, `50%`.
pub fn amount(text: &str, base: KbBase) -> Result<Amount, Problem> {
    if let Some(number) = percentage(text) {
        return match number.parse::<u8>() {
            Ok(percent @ 0..=100) => Ok(Amount::Percent(percent)),
            _ => Err("a percentage must be a whole number from 0 to 100".to_owned()),
        };
    }
    let zones = text.trim().strip_suffix(['z', 'Z']);
    if zones.is_some_and(|count| !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err("it counts zones, but qd1 does not support zoned devices".to_owned());
    }
    unsigned(text, base).map(Amount::Bytes)
}

/// The same for `size`, where anything above 100 % means 100 %.
pub fn size(text: &str, base: KbBase) -> Result<Amount, Problem> {
    let percent = percentage(text).and_then(|number| number.parse::<u32>().ok());
    if percent.is_some_and(|percent| percent > 100) {
        return Ok(Amount::Percent(100));
    }
    amount(text, base)
}

/// A finite number with a fraction.
pub fn float(text: &str) -> Result<f64, Problem> {
    let text = text.trim();
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || b".+-eE".contains(&byte));
    match text.parse::<f64>() {
        Ok(value) if plain && value.is_finite() => Ok(value),
        _ => Err("it is not a number".to_owned()),
    }
}

/// `LOW-HIGH` or `LOW:HIGH`, in either order.
pub fn range(text: &str, base: KbBase) -> Result<Range, Problem> {
    let (low, high) = text.split_once(['-', ':']).ok_or_else(|| "a range needs two ends, as in 4k-64k".to_owned())?;
    let (low, high) = (unsigned(low, base)?, unsigned(high, base)?);
    Ok(Range { min: low.min(high), max: low.max(high) })
}

/// Values for reads, writes and trims.
///
/// One value is for all three. A value applies to all directions after it as well, unless a comma ends it: `8k,32k` is
/// 8k for reads and 32k for writes and trims; `8k,` is for reads alone; `,8k` leaves reads as they are. Without a
/// comma, fio also splits at `:` or `-`.
pub fn triple<T: Copy>(text: &str, mut one: impl FnMut(&str) -> Result<T, Problem>) -> Result<[Option<T>; 3], Problem> {
    let text = text.trim();
    let separators = if text.starts_with(['-', '(']) { &[',', ':'][..] } else { &[',', ':', '-'][..] };
    let parts: Vec<&str> = match separators.iter().find(|separator| text.contains(**separator)) {
        Some(separator) => text.split(*separator).collect(),
        None => vec![text],
    };
    if parts.len() > 3 {
        return Err("there are more than three values (read, write and trim)".to_owned());
    }
    if parts.iter().all(|part| part.trim().is_empty()) {
        return Err("it is empty".to_owned());
    }
    let mut values = [None; 3];
    for (index, part) in parts.iter().enumerate().filter(|(_, part)| !part.trim().is_empty()) {
        values[index] = Some(one(part)?);
    }
    let open = parts.last().is_some_and(|last| !last.trim().is_empty());
    if open {
        let last = parts.len() - 1;
        for index in last..3 {
            values[index] = values[last];
        }
    }
    Ok(values)
}

/// A number with `scale`, or an expression in parentheses with `inside`.
fn scaled(text: &str, scale: Scale, inside: Scale) -> Result<i64, Problem> {
    let text = text.trim();
    if text.starts_with('(') { expression::evaluate(text, inside) } else { literal(text, scale) }
}

/// A number and its unit.
fn literal(text: &str, scale: Scale) -> Result<i64, Problem> {
    let (negative, rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let value = magnitude(rest, scale)?;
    Ok(if negative { -value } else { value })
}

/// A number without a sign.
fn magnitude(text: &str, scale: Scale) -> Result<i64, Problem> {
    let too_large = || "it is too large".to_owned();
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        if hex.is_empty() || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err("a hexadecimal number may have only 0-9 and a-f after 0x, and no unit".to_owned());
        }
        let value = i64::from_str_radix(hex, 16).map_err(|_| too_large())?;
        return scale("").and_then(|factor| value.checked_mul(factor)).ok_or_else(too_large);
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    if digits.is_empty() {
        return Err(if text.is_empty() { "it is empty" } else { "it does not start with a digit" }.to_owned());
    }
    let number: i64 = digits.parse().map_err(|_| too_large())?;
    let factor = scale(&unit.to_ascii_lowercase()).ok_or_else(|| unit_problem(number, unit))?;
    number.checked_mul(factor).ok_or_else(too_large)
}

fn unit_problem(number: i64, unit: &str) -> Problem {
    let unit = crate::error::shortened(unit);
    if unit.starts_with('.') {
        format!("only whole numbers are accepted; fio would read {number} and ignore `{unit}`")
    } else {
        format!("`{unit}` is not a unit; fio would read {number} and ignore the rest")
    }
}

fn size_unit(unit: &str, base: KbBase) -> Option<i64> {
    let Some(prefix) = unit.chars().next().filter(|prefix| *prefix != 'b') else {
        return matches!(unit, "" | "b").then_some(1);
    };
    let power = "kmgtp".find(prefix)? as u32 + 1;
    let usual = match &unit[1..] {
        "" | "b" | "i" => true,
        "ib" => false,
        _ => return None,
    };
    let binary = usual == (base == KbBase::Binary);
    Some(if binary { 1_i64 << (10 * power) } else { 1000_i64.pow(power) })
}

fn time_unit(unit: &str) -> Option<i64> {
    Some(match unit {
        "us" | "usec" => 1,
        "ms" | "msec" => 1_000,
        "s" | "sec" => 1_000_000,
        "m" => 60 * 1_000_000,
        "h" => 3_600 * 1_000_000,
        "d" => 86_400 * 1_000_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_fio_3_33_prints_them_with_debug_parse() {
        use KbBase::{Binary, Decimal};
        for (text, base, expected) in [
            ("4k", Binary, 4096),
            ("4ki", Binary, 4096),
            ("4KB", Binary, 4096),
            ("4kib", Binary, 4000),
            ("1mib", Binary, 1_000_000),
            ("1p", Binary, 1 << 50),
            ("1b", Binary, 1),
            ("010", Binary, 10),
            ("0x1000", Binary, 4096),
            ("+4", Binary, 4),
            (" 4k ", Binary, 4096),
            ("4k", Decimal, 4000),
            ("4ki", Decimal, 4000),
            ("4kb", Decimal, 4000),
            ("4kib", Decimal, 4096),
            ("1mib", Decimal, 1 << 20),
            ("(4k*2)", Binary, 8192),
        ] {
            assert_eq!(integer(text, base), Ok(expected), "{text} {base:?}");
        }
    }

    #[test]
    fn what_fio_would_read_half_is_an_error() {
        for text in
            ["", "k", "1.5g", "4q", "1e", "0x", "0x10k", "4k 8k", "4k/8k", "8*4", "99999999999999999999", "9999999p"]
        {
            assert!(integer(text, KbBase::Binary).is_err(), "{text}");
        }
        assert!(integer("1.5g", KbBase::Binary).unwrap_err().contains("fio would read 1"));
    }

    #[test]
    fn times_have_the_options_own_unit() {
        use TimeUnit::{Microseconds, Seconds};
        for (text, unit, micros) in [
            ("10", Seconds, 10_000_000),
            ("10", Microseconds, 10),
            ("10s", Microseconds, 10_000_000),
            ("10m", Seconds, 600_000_000),
            ("10M", Seconds, 600_000_000),
            ("1h", Seconds, 3_600_000_000),
            ("1D", Seconds, 86_400_000_000),
            ("500ms", Seconds, 500_000),
            ("500usec", Seconds, 500),
            ("10sec", Seconds, 10_000_000),
            ("(10*2)", Seconds, 20),
        ] {
            assert_eq!(duration(text, unit), Ok(Duration::from_micros(micros)), "{text}");
        }
        for text in ["10min", "1m30s", "1.5", "-1", "", "999999999999999d"] {
            assert!(duration(text, Seconds).is_err(), "{text}");
        }
    }

    #[test]
    fn a_triple_reaches_as_far_as_fio_lets_it() {
        let read = |text| triple(text, |part| unsigned(part, KbBase::Binary));
        assert_eq!(read("4k"), Ok([Some(4096); 3]));
        assert_eq!(read("4k,8k"), Ok([Some(4096), Some(8192), Some(8192)]));
        assert_eq!(read("4k:8k"), Ok([Some(4096), Some(8192), Some(8192)]));
        assert_eq!(read("4k,,16k"), Ok([Some(4096), None, Some(16384)]));
        assert_eq!(read("8k,"), Ok([Some(8192), None, None]));
        assert_eq!(read(",2k,"), Ok([None, Some(2048), None]));
        assert_eq!(read(",2k"), Ok([None, Some(2048), Some(2048)]));
        for bad in ["", ",", "1,2,3,4", "4k,x"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn percentages_ranges_and_floats() {
        assert_eq!(amount("50%", KbBase::Binary), Ok(Amount::Percent(50)));
        assert_eq!(amount("50%%", KbBase::Binary), Ok(Amount::Percent(50)));
        assert_eq!(amount("1m", KbBase::Binary), Ok(Amount::Bytes(1 << 20)));
        for bad in ["101%", "%", "%%", "%5", "2z", "-1", "300%"] {
            assert!(amount(bad, KbBase::Binary).is_err(), "{bad}");
        }
        assert_eq!(range("64k-4k", KbBase::Binary), Ok(Range { min: 4096, max: 65536 }));
        assert_eq!(float("1.1"), Ok(1.1));
        for bad in ["inf", "nan", "", "1x", "1e999"] {
            assert!(float(bad).is_err(), "{bad}");
        }
    }
}
