//! The table of kinds (`kinds.tsv`) and the likelihood of a figure under each of its classes.
//!
//! A published range [low, high] is taken as a uniform distribution of the figure's logarithm with soft ends: convolved
//! with a normal distribution of the feature's shoulder, it has a density in closed form,
//! `(Phi((x - low) / s) - Phi((x - high) / s)) / (high - low)`. A share (OUTSIDE in the table) is spread over all values
//! that the figure can take, since no table covers every device: no single figure rules out a class.

use std::sync::LazyLock;

use qd1_model::identity::StorageKind;

/// Ranges are taken to be at least this wide, in powers of ten: published ones understate the spread.
const WIDTH_MIN: f64 = 0.04;

/// A figure, its possible values (powers of ten), and how soft the ends of its ranges are.
struct Domain {
    name: &'static str,
    least: f64,
    most: f64,
    shoulder: f64,
    /// Share of devices outside all ranges.
    outside: f64,
}

/// A class of device within a kind.
pub(super) struct Class {
    pub(super) name: &'static str,
    pub(super) kind: StorageKind,
    /// Share of the kind, relative to its other classes.
    pub(super) weight: f64,
}

struct Range {
    class: &'static str,
    feature: &'static str,
    low: f64,
    high: f64,
}

/// The whole table.
pub(super) struct Table {
    domains: Vec<Domain>,
    pub(super) classes: Vec<Class>,
    ranges: Vec<Range>,
}

/// The table as it comes with qd1.
pub(super) static TABLE: LazyLock<Table> =
    LazyLock::new(|| read(include_str!("kinds.tsv")).expect("a test reads the table"));

fn read(text: &'static str) -> Option<Table> {
    let mut table = Table { domains: Vec::new(), classes: Vec::new(), ranges: Vec::new() };
    let ten = |text: &str| Some(text.parse::<f64>().ok()?.log10());
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match line.split('\t').collect::<Vec<_>>()[..] {
            ["feature", name, _, least, most, shoulder, outside] => {
                let [shoulder, outside] = [shoulder.parse().ok()?, outside.parse().ok()?];
                table.domains.push(Domain { name, least: ten(least)?, most: ten(most)?, shoulder, outside });
            }
            ["class", name, kind, weight, _] => {
                let kind = StorageKind::ALL.into_iter().find(|known| known.name() == kind)?;
                table.classes.push(Class { name, kind, weight: weight.parse().ok()? });
            }
            // A range without a source is ignored.
            ["range", class, feature, low, high, source] if !source.is_empty() => {
                table.ranges.push(Range { class, feature, low: ten(low)?, high: ten(high)? });
            }
            _ => return None,
        }
    }
    Some(table)
}

impl Table {
    /// Logarithm of the density of `value` (of `feature`) under `class`; nothing for a feature that the table lacks.
    pub(super) fn log_likelihood(&self, class: &Class, feature: &str, value: f64) -> Option<f64> {
        let domain = self.domains.iter().find(|domain| domain.name == feature)?;
        let range = self.range(class, feature)?;
        let x = value.max(f64::MIN_POSITIVE).log10().clamp(domain.least, domain.most);
        let middle = f64::midpoint(range.low, range.high);
        let half = ((range.high - range.low) / 2.0).max(WIDTH_MIN / 2.0);
        let (low, high) = (middle - half, middle + half);
        // Values at the ends of the possible range include those beyond, so a range that reaches an end has no shoulder
        // there.
        let from_low = if range.low <= domain.least { 1.0 } else { phi((x - low) / domain.shoulder) };
        let to_high = if range.high >= domain.most { 0.0 } else { phi((x - high) / domain.shoulder) };
        let inside = (from_low - to_high).max(0.0);
        let density = (1.0 - domain.outside) * inside / (high - low) + domain.outside / (domain.most - domain.least);
        Some(density.ln())
    }

    fn range(&self, class: &Class, feature: &str) -> Option<&Range> {
        let of = |name: &str| self.ranges.iter().find(|range| range.class == name && range.feature == feature);
        of(class.name).or_else(|| of("*"))
    }
}

/// The normal distribution function: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.17 (error below
/// 7.5e-8).
fn phi(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let terms = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = terms.iter().rev().fold(0.0, |sum, term| (sum + term) * t);
    let beyond = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * sum;
    if z >= 0.0 { 1.0 - beyond } else { beyond }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_range_with_a_source_for_every_feature() {
        let table = &*TABLE;
        assert!(table.domains.len() >= 10 && table.classes.len() >= 15);
        for class in &table.classes {
            for domain in &table.domains {
                let range = table.range(class, domain.name);
                let range = range.unwrap_or_else(|| panic!("{} has no {}", class.name, domain.name));
                assert!(
                    range.low < range.high && range.low >= domain.least && range.high <= domain.most,
                    "{} {}",
                    class.name,
                    domain.name
                );
            }
        }
        for kind in StorageKind::ALL {
            let weight: f64 = table.classes.iter().filter(|class| class.kind == kind).map(|class| class.weight).sum();
            assert!((weight - 1.0).abs() < 1e-9, "{kind:?} has {weight}");
        }
        for range in &table.ranges {
            let is_known = range.class == "*" || table.classes.iter().any(|class| class.name == range.class);
            assert!(is_known && table.domains.iter().any(|domain| domain.name == range.feature));
        }
    }

    #[test]
    fn a_density_has_an_area_of_one_over_all_that_the_figure_can_be() {
        let table = &*TABLE;
        for class in &table.classes {
            for domain in table.domains.iter().filter(|domain| domain.most - domain.least > 3.0) {
                let steps = 20_000;
                let width = (domain.most - domain.least) / f64::from(steps);
                let at = |step: i32| 10f64.powf(domain.least + (f64::from(step) + 0.5) * width);
                let density = |step| table.log_likelihood(class, domain.name, at(step)).unwrap().exp();
                let area: f64 = (0..steps).map(density).sum::<f64>() * width;
                // A range that ends near the limit of the possible values loses some of its shoulder beyond it.
                assert!((0.85..1.05).contains(&area), "{} {}: {area}", class.name, domain.name);
            }
        }
    }

    #[test]
    fn phi_is_the_normal_law() {
        for (z, p) in [(0.0, 0.5), (1.0, 0.841_344_746), (-1.959_964, 0.025), (3.0, 0.998_650_102)] {
            assert!((phi(z) - p).abs() < 1e-6, "{z}");
        }
    }
}
