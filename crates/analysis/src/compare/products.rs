//! Machines of a provider: results that name their product, region and host belong to that host, whatever their files
//! are called, and hosts of a product are listed next to each other.
//!
//! Repeats on one host show how it changes from one hour to the next, other hosts how similar those of a product are:
//! the former widen the interval of a disk, the latter are separate disks.

use qd1_model::order::Order as _;
use std::collections::BTreeMap;

use qd1_model::measured::{Aspect, Measured};
use qd1_model::metric::{Better, metric};
use qd1_model::ranking::{OfProduct, Ranking};

use super::Group;

/// Letters of a host's name that distinguish it from others of the same product and region.
const HOST_LETTERS: usize = 6;

/// Which host a run belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    product: String,
    region: String,
    host: String,
}

impl Identity {
    /// Only for results that name a region: qd1 itself knows at best a machine's type, which many share.
    fn of(run: &Measured) -> Option<Self> {
        let known = |aspect| {
            let found = run.circumstances.iter().find(|known| known.aspect == aspect);
            found.map(|known| known.value.clone())
        };
        Some(Self { product: known(Aspect::Instance)?, region: known(Aspect::Region)?, host: known(Aspect::Host)? })
    }

    fn name(&self) -> String {
        format!("{} {}", self.product, self.region)
    }
}

/// Groups the runs of each host, named after product and region; all others stay as they are.
#[must_use]
pub fn by_host(groups: Vec<Group>) -> Vec<Group> {
    let mut found: Vec<(Option<Identity>, Group)> = Vec::new();
    for group in groups {
        let mut rest = Vec::new();
        for run in group.runs {
            match Identity::of(&run) {
                None => rest.push(run),
                Some(identity) => match found.iter_mut().find(|(known, _)| known.as_ref() == Some(&identity)) {
                    Some((_, same)) => same.runs.push(run),
                    None => {
                        let name = identity.name();
                        found.push((Some(identity), Group { name, runs: vec![run] }));
                    }
                },
            }
        }
        if !rest.is_empty() {
            found.push((None, Group { name: group.name, runs: rest }));
        }
    }
    let names: Vec<String> = found.iter().map(|(_, group)| group.name.clone()).collect();
    let distinct = |(identity, group): (Option<Identity>, Group)| match identity {
        Some(identity) if names.iter().filter(|name| **name == group.name).count() > 1 => {
            let host: String = identity.host.chars().take(HOST_LETTERS).collect();
            Group { name: format!("{} {host}", group.name), ..group }
        }
        _ => group,
    };
    found.into_iter().map(distinct).collect()
}

/// The product that a disk belongs to, if its results say so.
pub(super) fn product(group: &Group) -> Option<String> {
    let mut products = group.runs.iter().map(|run| Identity::of(run).map(|identity| identity.product));
    let first = products.next()??;
    products.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

/// The prices of disks according to their own results: the unit, and one price per disk; `None` if no result has a
/// price, or units differ.
#[must_use]
pub fn prices(groups: &[Group]) -> Option<(String, Vec<Option<f64>>)> {
    let price = |group: &Group| {
        let last = group.runs.iter().flat_map(|run| &run.circumstances).rfind(|known| known.aspect == Aspect::Price)?;
        let (amount, unit) = last.value.split_once(' ')?;
        Some((amount.parse::<f64>().ok()?, unit.to_owned()))
    };
    let all: Vec<Option<(f64, String)>> = groups.iter().map(price).collect();
    let mut units = all.iter().flatten().map(|(_, unit)| unit);
    let unit = units.next()?.clone();
    units
        .all(|other| *other == unit)
        .then(|| (unit, all.iter().map(|one| one.as_ref().map(|(amount, _)| *amount)).collect()))
}

/// The products with several hosts in a list, each with the median of its hosts and the worst of them.
pub(super) fn of_products(ranking: &Ranking) -> Vec<OfProduct> {
    let mut rows = Vec::new();
    for list in ranking.lists.iter().filter(|list| list.leads) {
        let mut hosts: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for place in &list.places {
            if let Some((product, value)) = ranking.disks[place.disk].product.as_deref().zip(place.figure.value) {
                hosts.entry(product).or_default().push(value);
            }
        }
        for (product, mut values) in hosts.into_iter().filter(|(_, values)| values.len() > 1) {
            values.order_by(f64::total_cmp);
            if metric(&list.metric).is_some_and(|metric| metric.better == Better::Higher) {
                values.reverse();
            }
            let middle = values.len() / 2;
            let median =
                if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) };
            rows.push(OfProduct {
                product: product.to_owned(),
                hosts: values.len(),
                step: list.step.clone(),
                op: list.op,
                metric: list.metric.clone(),
                median,
                worst: *values.last().expect("there are two"),
            });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::measured::Circumstance;

    fn run(host: &str, region: &str, price: &str) -> Measured {
        let known = [(Aspect::Host, host), (Aspect::Instance, "p S"), (Aspect::Region, region), (Aspect::Price, price)];
        let circumstances =
            known.into_iter().map(|(aspect, value)| Circumstance { aspect, value: value.to_owned() }).collect();
        Measured { circumstances, ..Measured::default() }
    }

    #[test]
    fn the_same_host_at_another_hour_is_a_repeat_and_another_host_a_disk() {
        let file = |name: &str, run: Measured| Group { name: name.to_owned(), runs: vec![run] };
        let groups = by_host(vec![
            file("a", run("aaaaaaaaaaaa", "north", "5 EUR/month")),
            file("mine", Measured::default()),
            file("b", run("bbbbbbbbbbbb", "north", "5 EUR/month")),
            file("c", run("aaaaaaaaaaaa", "north", "6 EUR/month")),
            file("d", run("cccccccccccc", "south", "5 EUR/month")),
        ]);
        let found: Vec<(&str, usize)> = groups.iter().map(|group| (group.name.as_str(), group.runs.len())).collect();
        assert_eq!(found, [("p S north aaaaaa", 2), ("mine", 1), ("p S north bbbbbb", 1), ("p S south", 1)]);
        let (unit, prices) = prices(&groups).unwrap();
        assert_eq!((unit.as_str(), prices), ("EUR/month", vec![Some(6.0), None, Some(5.0), Some(5.0)]));
        assert_eq!(product(&groups[0]).as_deref(), Some("p S"));
        assert_eq!(product(&groups[1]), None);
    }

    #[test]
    fn prices_in_two_currencies_are_not_compared() {
        let groups = by_host(vec![
            Group { name: "a".to_owned(), runs: vec![run("a", "north", "5 EUR/month")] },
            Group { name: "b".to_owned(), runs: vec![run("b", "north", "5 USD/month")] },
        ]);
        assert_eq!(prices(&groups), None);
    }
}
