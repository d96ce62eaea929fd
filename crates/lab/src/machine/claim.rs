//! What a scenario claims about a report: a place in the JSON, and the value expected there.
//!
//! A place is a path of keys, numbers for list elements, and `key=value` for the first element of a list with that
//! value: `/record/steps/name=qd1/runtime_ns`.

use std::fmt;

use anyhow::{Result, ensure};
use serde::Deserialize;
use serde_json::Value;

/// One claim; exactly one of the four is given, or `at_least` with `at_most`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    at: String,
    equals: Option<toml::Value>,
    contains: Option<String>,
    at_least: Option<f64>,
    at_most: Option<f64>,
}

impl Claim {
    /// Checks that it claims exactly one thing.
    pub(super) fn check(&self) -> Result<()> {
        let ranged = self.at_least.is_some() || self.at_most.is_some();
        let kinds = [self.equals.is_some(), self.contains.is_some(), ranged].into_iter().filter(|given| *given).count();
        ensure!(kinds == 1, "{}: give equals, contains, or at_least and at_most", self.at);
        ensure!(self.at.starts_with('/'), "{}: a place must begin with /", self.at);
        Ok(())
    }

    /// Why it does not hold for this report; `None` if it does.
    pub(super) fn broken_by(&self, report: &Value) -> Option<String> {
        let Some(found) = find(report, &self.at) else { return Some(format!("{} is missing; {self}", self.at)) };
        let number = || found.as_f64().unwrap_or(f64::NAN);
        let holds = match (&self.equals, &self.contains) {
            (Some(wanted), _) => serde_json::to_value(wanted).is_ok_and(|wanted| alike(found, &wanted)),
            (_, Some(part)) => found.as_str().map_or_else(|| found.to_string(), str::to_owned).contains(part),
            _ => {
                number() >= self.at_least.unwrap_or(f64::NEG_INFINITY)
                    && number() <= self.at_most.unwrap_or(f64::INFINITY)
            }
        };
        (!holds).then(|| format!("{} is {found}; {self}", self.at))
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.equals, &self.contains, self.at_least, self.at_most) {
            (Some(wanted), ..) => write!(f, "expected {wanted}"),
            (_, Some(part), ..) => write!(f, "expected to contain {part}"),
            (_, _, Some(least), Some(most)) => write!(f, "expected {least} to {most}"),
            (_, _, Some(least), None) => write!(f, "expected at least {least}"),
            (.., most) => write!(f, "expected at most {}", most.unwrap_or(f64::INFINITY)),
        }
    }
}

/// Equal, treating TOML integers like JSON numbers.
fn alike(found: &Value, wanted: &Value) -> bool {
    found == wanted || (found.is_number() && found.as_f64() == wanted.as_f64())
}

fn find<'a>(report: &'a Value, place: &str) -> Option<&'a Value> {
    place.split('/').skip(1).try_fold(report, |value, step| match (value, step.split_once('=')) {
        (Value::Array(list), Some((key, wanted))) => list.iter().find(|element| element[key] == wanted),
        (Value::Array(list), None) => list.get(step.parse::<usize>().ok()?),
        _ => value.get(step),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(claim: &str) -> Option<String> {
        let report = serde_json::json!({ "steps": [{ "name": "a" }, { "name": "b", "ns": 5, "of": ["x y"] }] });
        let claim: Claim = toml::from_str(claim).unwrap();
        claim.check().unwrap();
        claim.broken_by(&report)
    }

    #[test]
    fn places_lead_through_lists_by_name_and_number() {
        assert_eq!(broken("at = '/steps/name=b/ns'\nequals = 5"), None);
        assert_eq!(broken("at = '/steps/1/of/0'\ncontains = 'x'"), None);
        assert_eq!(broken("at = '/steps/name=b/ns'\nat_least = 5\nat_most = 6"), None);
    }

    #[test]
    fn what_does_not_hold_is_told_with_what_was_found() {
        let told = |claim| broken(claim).unwrap();
        assert_eq!(told("at = '/steps/name=b/ns'\nat_most = 4"), "/steps/name=b/ns is 5; expected at most 4");
        assert!(told("at = '/steps/name=c/ns'\nequals = 5").contains("is missing"));
        assert!(told("at = '/steps/1/of/0'\nat_least = 0").contains("x y"), "a text is no number");
        assert!(told("at = '/steps/0/name'\nequals = 'b'").contains("expected \"b\""));
    }
}
