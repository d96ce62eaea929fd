//! Published tiers: data in `tiers.tsv`, each row with its source.

use qd1_model::limits::{Direction, Limits, Quantity, TierMatch};
use qd1_model::order::Order as _;
use qd1_model::units::{format_count, format_rate};

/// How close a measured limit has to be to a published one to agree with it.
const AGREES: f64 = 0.02;

/// One published tier.
#[derive(Clone, Debug, PartialEq)]
pub struct Tier {
    /// Name.
    pub name: &'static str,
    /// Requests per second, if published.
    pub iops: Option<f64>,
    /// Bytes per second, if published.
    pub bytes: Option<f64>,
    /// Its source.
    pub source: &'static str,
}

/// All tiers of the table.
#[must_use]
pub fn tiers() -> Vec<Tier> {
    let row = |line: &'static str| {
        let mut cells = line.split('\t');
        let name = cells.next()?;
        let mut figure = || cells.next()?.parse::<f64>().ok().map(|figure| (figure > 0.0).then_some(figure));
        let (iops, bytes) = (figure()?, figure()?);
        Some(Tier { name, iops, bytes, source: cells.next()? })
    };
    include_str!("tiers.tsv").lines().filter(|line| !line.starts_with('#')).filter_map(row).collect()
}

/// The tiers that no measured limit contradicts and at least one agrees with; those with two agreeing figures before
/// those with one.
pub(super) fn matches(limits: &Limits) -> Vec<TierMatch> {
    let mut found: Vec<TierMatch> = tiers().iter().filter_map(|tier| one(limits, tier)).collect();
    found.order_by_key(|found| std::cmp::Reverse(found.agree));
    let most = found.first().map_or(0, |first| first.agree);
    found.retain(|found| found.agree == most);
    found
}

fn one(limits: &Limits, tier: &Tier) -> Option<TierMatch> {
    let mut fits = Vec::new();
    for (quantity, published) in [(Quantity::Requests, tier.iops), (Quantity::Bytes, tier.bytes)] {
        let Some(published) = published else { continue };
        let known =
            [Direction::Write, Direction::Read].into_iter().filter_map(|direction| limits.get(direction, quantity));
        let mut agrees = false;
        for limit in known {
            let value = limit.sustained.value?;
            match limit.reached {
                true if (value / published - 1.0).abs() <= AGREES => agrees = true,
                true => return None,
                // More than the tier allows, without a limit: it is a different tier.
                false if value > published * (1.0 + AGREES) => return None,
                false => {}
            }
        }
        if agrees {
            fits.push(match quantity {
                Quantity::Requests => format!("{} requests/s", format_count(published)),
                Quantity::Bytes => format_rate(published),
            });
        }
    }
    let agree = fits.len() as u32;
    (agree > 0).then(|| TierMatch {
        name: tier.name.to_owned(),
        source: tier.source.to_owned(),
        fits: fits.join(" and "),
        agree,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_read_and_has_a_figure_and_a_source() {
        let rows = include_str!("tiers.tsv").lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(tiers().len(), rows);
        assert!(tiers().iter().all(|tier| (tier.iops.is_some() || tier.bytes.is_some()) && !tier.source.is_empty()));
    }
}
