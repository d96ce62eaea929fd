//! Arithmetic: fio's expressions in parentheses, and the results of expanding `$ncpus` and similar variables.
//!
//! Whole numbers only, 64 bits, every step checked. The length of an expression is limited, and with it the depth of
//! the recursion.

use super::{Problem, Scale, magnitude};
use crate::Limits;

/// The value of an expression of whole numbers, `+ - * / % ^` and parentheses.
pub fn calculate(text: &str) -> Result<i64, Problem> {
    evaluate(text, &|unit| unit.is_empty().then_some(1))
}

/// The value of an expression whose numbers may have units.
pub(super) fn evaluate(text: &str, scale: Scale) -> Result<i64, Problem> {
    if text.len() > Limits::EXPRESSION_BYTES {
        return Err(format!("an expression may have at most {} characters", Limits::EXPRESSION_BYTES));
    }
    let mut reader = Reader { rest: text, scale };
    let value = reader.sum()?;
    reader.skip_blanks();
    if reader.rest.is_empty() { Ok(value) } else { Err(format!("`{}` does not belong there", reader.rest)) }
}

struct Reader<'a> {
    rest: &'a str,
    scale: Scale<'a>,
}

impl Reader<'_> {
    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Takes one of these operators if it comes next.
    fn operator(&mut self, of: &str) -> Option<char> {
        self.skip_blanks();
        let next = self.rest.chars().next().filter(|next| of.contains(*next))?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn sum(&mut self) -> Result<i64, Problem> {
        let mut value = self.product()?;
        while let Some(operator) = self.operator("+-") {
            let right = self.product()?;
            let result = if operator == '+' { value.checked_add(right) } else { value.checked_sub(right) };
            value = result.ok_or_else(too_large)?;
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<i64, Problem> {
        let mut value = self.power()?;
        while let Some(operator) = self.operator("*/%") {
            let right = self.power()?;
            if right == 0 && operator != '*' {
                return Err("it divides by zero".to_owned());
            }
            let result = match operator {
                '*' => value.checked_mul(right),
                '/' => value.checked_div(right),
                _ => value.checked_rem(right),
            };
            value = result.ok_or_else(too_large)?;
        }
        Ok(value)
    }

    fn power(&mut self) -> Result<i64, Problem> {
        let base = self.term()?;
        if self.operator("^").is_none() {
            return Ok(base);
        }
        let exponent = self.power()?;
        let exponent = u32::try_from(exponent).map_err(|_| "an exponent must not be below zero".to_owned())?;
        base.checked_pow(exponent).ok_or_else(too_large)
    }

    fn term(&mut self) -> Result<i64, Problem> {
        if self.operator("-").is_some() {
            return self.term()?.checked_neg().ok_or_else(too_large);
        }
        if self.operator("(").is_some() {
            let value = self.sum()?;
            return self.operator(")").map(|_| value).ok_or_else(|| "a `)` is missing".to_owned());
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest;
        if number.is_empty() { Err("a number is missing".to_owned()) } else { magnitude(number, self.scale) }
    }
}

fn too_large() -> Problem {
    "the result is too large".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_bind_as_in_arithmetic() {
        for (text, expected) in
            [("1+2*3", 7), ("(1+2)*3", 9), ("2^3^2", 512), ("7/2", 3), ("7%4", 3), ("-2+5", 3), (" 8 * 4 ", 32)]
        {
            assert_eq!(calculate(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn impossible_expressions_are_errors_and_no_panic() {
        for text in ["", "1/0", "1%0", "(", "1+", "9223372036854775807+1", "2^64", "2^-1", "1 2", ")", "1**2"] {
            assert!(calculate(text).is_err(), "{text}");
        }
        assert!(calculate(&"(".repeat(100_000)).is_err());
        assert!(calculate(&"-".repeat(256)).is_err());
    }
}
