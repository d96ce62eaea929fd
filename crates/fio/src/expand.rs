//! Variables in values: `${NAME}` of the environment, and `$pagesize`, `$mb_memory`, `$ncpus` of the machine.
//!
//! After a machine variable is expanded, arithmetic without parentheses is evaluated too, as in fio (which uses `bc`):
//! `8*$mb_memory` becomes a number. A unit after it is kept: `2*$ncpus` + `k`.

use crate::value::calculate;
use crate::{Limits, World};

/// What is wrong with a value's variables.
pub type Problem = String;

/// A value as written in a job file, with variables expanded. An unset variable is empty, as in fio.
///
/// # Errors
/// If the result is longer than a value may be.
pub fn in_file(value: &str, world: &dyn World) -> Result<String, Problem> {
    let text = environment(value, world)?;
    machine(&text, world)
}

/// A value as written on the command line, where the shell has already expanded environment variables.
///
/// # Errors
/// If the result is longer than a value may be.
pub fn in_argument(value: &str, world: &dyn World) -> Result<String, Problem> {
    machine(value, world)
}

/// Expands `${NAME}`.
fn environment(value: &str, world: &dyn World) -> Result<String, Problem> {
    let mut text = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        text.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            return Err("a `}` is missing after `${`".to_owned());
        };
        text.push_str(&world.env(name).unwrap_or_default());
        check_length(&text)?;
        rest = after;
    }
    text.push_str(rest);
    check_length(&text)?;
    Ok(text)
}

/// Expands the machine's variables, and evaluates the arithmetic they are part of.
fn machine(value: &str, world: &dyn World) -> Result<String, Problem> {
    if !value.contains('$') {
        check_length(value)?;
        return Ok(value.to_owned());
    }
    let system = world.system();
    let mut text = value.to_owned();
    for (word, number) in [
        ("$pagesize", u64::from(system.pagesize)),
        ("$mb_memory", system.mb_memory),
        ("$ncpus", u64::from(system.ncpus)),
    ] {
        text = text.replace(word, &number.to_string());
    }
    check_length(&text)?;
    Ok(if text == value { text } else { worked_out(&text).unwrap_or(text) })
}

/// The result of plain arithmetic, with the unit that follows it.
fn worked_out(text: &str) -> Option<String> {
    let text = text.trim();
    let sum = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%');
    let unit = &text[sum.len()..];
    let arithmetic = sum.bytes().all(|byte| byte.is_ascii_digit() || b"+-*/%^() ".contains(&byte));
    // A range of processors (`0-3`) or a date is not arithmetic: without a machine variable this is not reached.
    if !arithmetic || !sum.contains(['+', '-', '*', '/', '%', '^']) {
        return None;
    }
    calculate(sum).ok().map(|value| format!("{value}{unit}"))
}

fn check_length(text: &str) -> Result<(), Problem> {
    if text.len() > Limits::VALUE_BYTES {
        return Err(format!("it is longer than {} bytes after its variables are expanded", Limits::VALUE_BYTES));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::*;
    use crate::System;

    struct Two;

    impl World for Two {
        fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
            Err(io::ErrorKind::NotFound.into())
        }
        fn env(&self, name: &str) -> Option<String> {
            match name {
                "SIZE" => Some("64m".into()),
                "LONG" => Some("x".repeat(5000)),
                _ => None,
            }
        }
        fn system(&self) -> System {
            System { ncpus: 2, mb_memory: 1000, pagesize: 4096 }
        }
    }

    #[test]
    fn the_environment_is_put_in_and_what_is_not_set_is_nothing() {
        assert_eq!(in_file("a${SIZE}b${NONE}", &Two).unwrap(), "a64mb");
        assert_eq!(in_argument("${SIZE}", &Two).unwrap(), "${SIZE}");
        assert!(in_file("${SIZE", &Two).is_err());
    }

    #[test]
    fn arithmetic_with_the_machines_words_is_worked_out_as_fio_does() {
        for (text, expected) in [
            ("8*$pagesize", "32768"),
            ("$mb_memory*2", "2000"),
            ("$mb_memorym", "1000m"),
            ("2*$ncpusk", "4k"),
            ("/tmp/$ncpus", "/tmp/2"),
            ("$jobname.$jobnum", "$jobname.$jobnum"),
            ("2*4", "2*4"),
        ] {
            assert_eq!(in_file(text, &Two).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn a_value_cannot_grow_without_bound() {
        assert!(in_file("${LONG}${LONG}", &Two).is_err());
    }
}
