//! Patterns of data: `0xdeadbeef`, `"text"`, decimal numbers, `%o`, one after another.
//!
//! Byte orders were seen in files that fio 3.33 wrote: hexadecimal digits keep the order written, with a leading zero
//! if their number is odd; a decimal number is little-endian, as short as possible, and 4 bytes long if negative.

use super::Problem;
use crate::Limits;
use crate::types::{Pattern, PatternPart};

/// A pattern; `offset_too` allows `%o`.
pub(crate) fn pattern(text: &str, offset_too: bool) -> Result<Pattern, Problem> {
    let mut rest = text.trim();
    let mut parts: Vec<PatternPart> = Vec::new();
    let mut total = 0;
    if rest.is_empty() {
        return Err("it is empty".to_owned());
    }
    while !rest.is_empty() {
        let (part, after) = one(rest, offset_too)?;
        total += part.bytes();
        if total > Limits::PATTERN_BYTES {
            return Err(format!("a pattern may have at most {} bytes", Limits::PATTERN_BYTES));
        }
        match (parts.last_mut(), part) {
            (Some(PatternPart::Bytes(before)), PatternPart::Bytes(more)) => before.extend(more),
            (_, part) => parts.push(part),
        }
        rest = after;
    }
    Ok(Pattern(parts))
}

/// The part at the start, and the rest.
fn one(text: &str, offset_too: bool) -> Result<(PatternPart, &str), Problem> {
    if let Some(inside) = text.strip_prefix('"') {
        let (string, rest) = inside.split_once('"').ok_or("the closing quote is missing")?;
        return Ok((PatternPart::Bytes(string.as_bytes().to_vec()), rest));
    }
    if text.starts_with('\'') {
        return Err("a pattern from a file is not supported; write its bytes as 0x...".to_owned());
    }
    if let Some(rest) = text.strip_prefix("%o") {
        let refused = || "%o is for verify_pattern only".to_owned();
        return if offset_too { Ok((PatternPart::Offset, rest)) } else { Err(refused()) };
    }
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        return Ok((PatternPart::Bytes(hexadecimal(&digits[..end])?), &digits[end..]));
    }
    let sign = usize::from(text.starts_with('-'));
    let end = text[sign..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |end| end + sign);
    // A zero before an `x` starts the next part: fio reads -120xff as -12 and 0xff.
    let before_hex = end > sign + 1 && text[..end].ends_with('0') && text[end..].starts_with(['x', 'X']);
    let end = end - usize::from(before_hex);
    let number: i64 =
        text[..end].parse().map_err(|_| "it is not a number, 0x with digits, \"text\" or %o".to_owned())?;
    Ok((PatternPart::Bytes(decimal(number)?), &text[end..]))
}

fn hexadecimal(digits: &str) -> Result<Vec<u8>, Problem> {
    if digits.is_empty() {
        return Err("digits are missing after 0x".to_owned());
    }
    let values: Vec<u8> = digits.chars().filter_map(|digit| digit.to_digit(16)).map(|value| value as u8).collect();
    let (first, pairs) = values.split_at(values.len() % 2);
    Ok(first.iter().copied().chain(pairs.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1])).collect())
}

fn decimal(number: i64) -> Result<Vec<u8>, Problem> {
    if let Ok(negative @ i32::MIN..0) = i32::try_from(number) {
        return Ok(negative.to_le_bytes().to_vec());
    }
    let number = u32::try_from(number).map_err(|_| "a decimal number may have at most 32 bits".to_owned())?;
    let length = (4 - number.leading_zeros() as usize / 8).max(1);
    Ok(number.to_le_bytes()[..length].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        match pattern(text, false).unwrap().0.as_slice() {
            [PatternPart::Bytes(bytes)] => bytes.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn patterns_have_the_bytes_that_fio_3_33_wrote() {
        assert_eq!(bytes("0xdeadbeef"), [0xde, 0xad, 0xbe, 0xef]);
        assert_eq!(bytes("0xabc"), [0x0a, 0xbc]);
        assert_eq!(bytes("300"), [0x2c, 0x01]);
        assert_eq!(bytes("-12"), [0xf4, 0xff, 0xff, 0xff]);
        assert_eq!(bytes("70000"), [0x70, 0x11, 0x01]);
        assert_eq!(bytes("0"), [0]);
        assert_eq!(bytes("\"ab\"0x0102"), [0x61, 0x62, 1, 2]);
        assert_eq!(bytes("-120xff"), [0xf4, 0xff, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn the_offset_is_a_part_of_its_own_and_for_verify_only() {
        assert_eq!(pattern("0xff%o", true).unwrap().0, [PatternPart::Bytes(vec![0xff]), PatternPart::Offset]);
        assert!(pattern("%o", false).is_err());
    }

    #[test]
    fn bad_patterns_are_errors() {
        for text in ["", "abc", "0x", "\"a", "'file'", "4294967296", "-2147483649", "-", "0x1g"] {
            assert!(pattern(text, true).is_err(), "{text}");
        }
        assert!(pattern(&format!("0x{}", "0".repeat(1026)), true).is_err());
    }
}
