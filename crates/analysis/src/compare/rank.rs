//! Disks in the order of each figure.
//!
//! Intervals are those of a side on its own: between its runs if any side has several (the spread is pooled over all of
//! them, `shrinkage.rs`), else within its run. Those of one list hold simultaneously (Bonferroni over the disks). A
//! disk's rank is one more than the number of disks that are certainly better, whose whole interval lies on the better
//! side of its own. Of two that overlap neither is called better, so a disk with a wide interval ranks high rather than
//! low.

use qd1_model::order::Order as _;
use std::collections::BTreeSet;

use qd1_model::comparison::Row;
use qd1_model::metric::{Better, metric};
use qd1_model::ranking::{Place, RankList, RankedDisk, Ranking};
use qd1_model::{Estimate, Problem};

use super::effects::{self, Figures, Spread, Width};
use super::{ALPHA, Group, align, nothing, overall, products, rows};

/// An interval whose ends differ by this factor is dropped.
const SPAN_MAX: f64 = 100.0;

/// Ranks disks, each of one or more runs.
///
/// # Errors
/// If no two of them have a figure in common.
pub fn rank(disks: &[Group]) -> Result<Ranking, Problem> {
    let mut left: Vec<Group> = disks.to_vec();
    let mut ranking = Ranking { disks: disks.iter().map(disk).collect(), ..Ranking::default() };
    // Steps that the first side lacks are in no row: runs of another suite or tool get a table of their own.
    while left.len() > 1 {
        left.order_by_key(|group| std::cmp::Reverse(group.runs.iter().map(|run| run.steps.len()).max()));
        let alike = like_the_first(&left);
        let found = family(&alike);
        let place = |side: usize| disks.iter().position(|disk| disk.name == alike[side].name).unwrap_or_default();
        if ranking.overall.is_none() && alike.len() > 1 {
            ranking.overall = overall_of(&found).map(|places| numbered(places, &place));
        }
        let spreads = spreads(&found);
        for ((row, figures), spread) in found.iter().zip(&spreads) {
            let places = numbered(places(row, figures, spread.as_ref()), &place);
            if places.len() > 1 {
                ranking.lists.push(RankList {
                    step: row.step.clone(),
                    title: row.title.clone(),
                    op: row.op,
                    metric: row.metric.clone(),
                    leads: row.leads,
                    places,
                });
            }
        }
        remove_ranked(&mut left);
    }
    ranking.products = products::of_products(&ranking);
    if ranking.lists.is_empty() { Err(nothing(disks)) } else { Ok(ranking) }
}

fn disk(group: &Group) -> RankedDisk {
    let tools: BTreeSet<&String> = group.runs.iter().map(|run| &run.tool).collect();
    RankedDisk {
        name: group.name.clone(),
        runs: group.runs.len(),
        tools: tools.into_iter().filter(|tool| !tool.is_empty()).cloned().collect(),
        product: products::product(group),
    }
}

/// The first group, and those that share a step with it.
fn like_the_first(groups: &[Group]) -> Vec<Group> {
    let steps = align::align(groups).steps;
    let has_any = |side: usize| steps.iter().any(|aligned| aligned.of(side).next().is_some());
    groups.iter().enumerate().filter(|(side, _)| *side == 0 || has_any(*side)).map(|(_, group)| group.clone()).collect()
}

/// The rows of all steps that the first group has.
fn family(groups: &[Group]) -> Vec<(Row, Figures)> {
    let is_repeated = groups.iter().any(|group| group.runs.len() > 1);
    align::align(groups).steps.iter().flat_map(|aligned| rows(aligned, groups, is_repeated)).collect()
}

fn spreads(rows: &[(Row, Figures)]) -> Vec<Option<Spread>> {
    effects::spreads(&rows.iter().map(|(row, figures)| (row.metric.as_str(), figures)).collect::<Vec<_>>())
}

/// Removes the ranked steps from the groups, and the groups that have none left.
fn remove_ranked(groups: &mut Vec<Group>) {
    let left: BTreeSet<(String, String)> =
        align::align(groups).left_out.into_iter().map(|left| (left.side, left.step)).collect();
    let (first, rest) = groups.split_first_mut().expect("there are two");
    first.runs.clear();
    for group in rest {
        let name = &group.name;
        for run in &mut group.runs {
            run.steps.retain(|step| step.fault.is_empty() && left.contains(&(name.clone(), step.name.clone())));
        }
        group.runs.retain(|run| !run.steps.is_empty());
    }
    groups.retain(|group| !group.runs.is_empty());
}

fn places(row: &Row, figures: &Figures, spread: Option<&Spread>) -> Vec<Place> {
    let sides = figures.runs().len();
    let known = figures.runs().iter().filter(|runs| **runs > 0).count();
    let width = Width::alone(ALPHA / known.max(1) as f64);
    let all = (0..sides).filter(|side| figures.runs()[*side] > 0).map(|side| Place {
        disk: side,
        rank: None,
        figure: bounded(figures.level(side, spread, width)),
        is_spoiled: figures.is_spoiled(side, spread),
    });
    let better = metric(&row.metric).map_or(Better::Lower, |metric| metric.better);
    ranked(all.collect(), better)
}

/// Drops an interval that says nothing: two runs of a disk may leave seven orders of magnitude open.
fn bounded(figure: Estimate) -> Estimate {
    match figure.low.zip(figure.high) {
        Some((low, high)) if high > SPAN_MAX * low => Estimate { low: None, high: None, ..figure },
        _ => figure,
    }
}

/// Over all kinds of operation, as multiples of the best.
fn overall_of(rows: &[(Row, Figures)]) -> Option<Vec<Place>> {
    let figures = overall::figures(rows)?;
    let spread = figures.between();
    let sides = figures.runs().len();
    let width = Width::alone(ALPHA / sides as f64);
    let levels: Vec<_> = (0..sides).map(|side| figures.level(side, spread.as_ref(), width)).collect();
    let best = levels.iter().filter_map(|level| level.value).min_by(f64::total_cmp)?;
    let place = |(disk, level): (usize, Estimate)| Place {
        disk,
        rank: None,
        figure: bounded(qd1_stats::scaled(level, 1.0 / best)),
        is_spoiled: false,
    };
    Some(ranked(levels.into_iter().enumerate().map(place).collect(), Better::Lower))
}

/// Orders places and gives them their ranks.
fn ranked(mut places: Vec<Place>, better: Better) -> Vec<Place> {
    let limits = |place: &Place| place.figure.value.and(place.figure.low.zip(place.figure.high));
    let has_rank = |place: &Place| !place.is_spoiled && limits(place).is_some();
    let value = |place: &Place| match (place.figure.value, better) {
        (None, _) => f64::INFINITY,
        (Some(value), Better::Lower) => value,
        (Some(value), Better::Higher) => -value,
    };
    places.order_by(|a, b| {
        let order = (!has_rank(a)).cmp(&!has_rank(b));
        order.then(value(a).total_cmp(&value(b))).then(a.disk.cmp(&b.disk))
    });
    let known: Vec<(f64, f64)> = places.iter().filter(|place| has_rank(place)).filter_map(limits).collect();
    // A single one is ahead of none.
    if known.len() < 2 {
        return places;
    }
    for place in &mut places {
        let Some(mine) = limits(place).filter(|_| !place.is_spoiled) else { continue };
        place.rank = Some(better.rank(mine, &known));
    }
    places.order_by_key(|place| (place.rank.is_none(), place.rank));
    places
}

/// Replaces the numbers of the sides by those of the disks in the ranking.
fn numbered(mut places: Vec<Place>, number: &impl Fn(usize) -> usize) -> Vec<Place> {
    places.iter_mut().for_each(|place| place.disk = number(place.disk));
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::OpClass;
    use qd1_model::measured::{Measured, MeasuredStep, MeasuredStream};
    use qd1_stats::random::Random;

    fn run(steps: &[(&str, f64)], spread: f64) -> Measured {
        let step = |(name, p50): &(&str, f64)| {
            let figure = Estimate {
                value: Some(*p50),
                low: Some(p50 / (1.0 + spread)),
                high: Some(p50 * (1.0 + spread)),
                n: 1000,
                ..Estimate::default()
            };
            let figures = vec![("lat_p50_ns", figure), ("lat_mean_ns", figure)];
            let streams = vec![MeasuredStream { class: OpClass::Read, figures }];
            MeasuredStep { name: (*name).to_owned(), streams, ..MeasuredStep::default() }
        };
        Measured { label: "x".to_owned(), steps: steps.iter().map(step).collect(), ..Measured::default() }
    }

    fn disk(name: &str, runs: Vec<Measured>) -> Group {
        Group { name: name.to_owned(), runs }
    }

    fn order<'a>(ranking: &'a Ranking, places: &[Place]) -> Vec<(&'a str, Option<usize>)> {
        places.iter().map(|place| (ranking.disks[place.disk].name.as_str(), place.rank)).collect()
    }

    #[test]
    fn disks_are_in_the_order_of_their_figures_and_overlapping_ones_share_a_rank() {
        let disks = [
            disk("slow", vec![run(&[("a", 3e6), ("b", 3e6)], 0.02)]),
            disk("fast", vec![run(&[("a", 1e6), ("b", 1e6)], 0.02)]),
            disk("also fast", vec![run(&[("a", 1.01e6), ("b", 1.01e6)], 0.02)]),
        ];
        let ranking = rank(&disks).unwrap();
        let list = ranking.lists.iter().find(|list| list.step == "a" && list.metric == "lat_p50_ns").unwrap();
        let expected = [("fast", Some(1)), ("also fast", Some(1)), ("slow", Some(3))];
        assert_eq!(order(&ranking, &list.places), expected);
        let overall = ranking.overall.as_ref().unwrap();
        assert_eq!(order(&ranking, overall), expected);
        assert!((overall[2].figure.value.unwrap() - 3.0).abs() < 1e-6);
    }

    /// Regression: a disk was ranked below one whose interval its own overlapped, because another one stood between.
    #[test]
    fn a_disk_that_is_badly_known_ranks_below_none_that_it_overlaps() {
        let one = |name: &str, p50: f64, spread: f64| disk(name, vec![run(&[("a", p50)], spread)]);
        let ranking = rank(&[one("a", 1.0e6, 0.01), one("c", 1.1e6, 0.01), one("d", 1.12e6, 0.3)]).unwrap();
        let list = ranking.lists.iter().find(|list| list.metric == "lat_p50_ns").unwrap();
        assert_eq!(order(&ranking, &list.places), [("a", Some(1)), ("d", Some(1)), ("c", Some(2))]);
    }

    #[test]
    fn what_the_first_disk_lacks_is_ranked_as_well() {
        let disks = [
            disk("a", vec![run(&[("x", 1e6), ("y", 1e6), ("z", 1e6)], 0.01)]),
            disk("b", vec![run(&[("x", 2e6)], 0.01)]),
            disk("c", vec![run(&[("other", 1e6)], 0.01)]),
            disk("d", vec![run(&[("other", 5e6)], 0.01)]),
            disk("e", vec![run(&[("alone", 5e6)], 0.01)]),
        ];
        let ranking = rank(&disks).unwrap();
        let steps: BTreeSet<&str> = ranking.lists.iter().map(|list| list.step.as_str()).collect();
        assert_eq!(steps, BTreeSet::from(["x", "other"]));
        let other = ranking.lists.iter().find(|list| list.step == "other").unwrap();
        assert_eq!(order(&ranking, &other.places), [("c", Some(1)), ("d", Some(2))]);
    }

    #[test]
    fn a_spoilt_run_and_one_without_an_interval_have_no_rank() {
        let mut spoilt = run(&[("a", 1e5)], 0.01);
        spoilt.steps[0].is_spoiled = true;
        let mut bare = run(&[("a", 1e5)], 0.01);
        bare.steps[0].streams[0].figures.iter_mut().for_each(|(_, figure)| (figure.low, figure.high) = (None, None));
        let disks = [
            disk("spoilt", vec![spoilt]),
            disk("bare", vec![bare]),
            disk("a", vec![run(&[("a", 1e6)], 0.01)]),
            disk("b", vec![run(&[("a", 2e6)], 0.01)]),
        ];
        let ranking = rank(&disks).unwrap();
        let expected = [("a", Some(1)), ("b", Some(2)), ("spoilt", None), ("bare", None)];
        assert_eq!(order(&ranking, &ranking.lists[0].places), expected);
    }

    /// Twenty equal disks whose runs differ by 5 %: one of them is hardly ever ranked apart from the first. One more
    /// that is half as slow again mostly is.
    #[test]
    fn equal_disks_share_the_first_rank() {
        let mut random = Random::new(5);
        let rankings = 100;
        let (mut wrong, mut found) = (0, 0);
        for _ in 0..rankings {
            let mut runs = |count: usize| {
                let one = |_| run(&[("a", 1e6 * (0.05 * random.normal()).exp())], 0.01);
                (0..count).map(one).collect()
            };
            let mut disks: Vec<Group> = (0..20).map(|at| disk(&at.to_string(), runs(3))).collect();
            let ranking = rank(&disks).unwrap();
            let list = ranking.lists.iter().find(|list| list.metric == "lat_p50_ns").unwrap();
            wrong += usize::from(list.places.iter().any(|place| place.rank != Some(1)));
            let slower = |mut run: Measured| {
                let figures =
                    run.steps.iter_mut().flat_map(|step| &mut step.streams).flat_map(|stream| &mut stream.figures);
                figures.for_each(|(_, figure)| *figure = qd1_stats::scaled(*figure, 1.5));
                run
            };
            disks.push(disk("slower", runs(3).into_iter().map(slower).collect()));
            let ranking = rank(&disks).unwrap();
            let list = ranking.lists.iter().find(|list| list.metric == "lat_p50_ns").unwrap();
            found += usize::from(list.places.last().is_some_and(|last| last.disk == 20 && last.rank > Some(1)));
        }
        assert!(found >= 90, "{found} of {rankings}");
        // More than nine are one sample in 35 if five in a hundred are wrong.
        assert!(wrong <= 9, "{wrong} of {rankings}");
    }

    /// Regression: one more disk with other steps removed the table of the whole.
    #[test]
    fn a_disk_with_other_steps_leaves_the_whole_to_the_others() {
        let steps = [("a", 1e6), ("b", 1e6)];
        let disks = [
            disk("a", vec![run(&steps, 0.01)]),
            disk("b", vec![run(&steps, 0.01)]),
            disk("other", vec![run(&[("z", 1e6)], 0.01)]),
        ];
        let ranking = rank(&disks).unwrap();
        assert_eq!(ranking.overall.as_ref().map(Vec::len), Some(2));
        assert!(ranking.lists.iter().all(|list| list.places.len() == 2));
    }

    #[test]
    fn one_disk_whose_figure_is_known_is_before_nobody_and_two_runs_far_apart_have_no_interval() {
        let mut bare = run(&[("a", 1e6)], 0.01);
        bare.steps[0].streams[0].figures.iter_mut().for_each(|(_, figure)| (figure.low, figure.high) = (None, None));
        let disks = [disk("a", vec![run(&[("a", 1e6)], 0.01)]), disk("bare", vec![bare])];
        assert!(rank(&disks).unwrap().lists[0].places.iter().all(|place| place.rank.is_none()));
        let far = |factor: f64| vec![run(&[("a", 1e6)], 0.01), run(&[("a", 1e6 * factor)], 0.01)];
        let disks = [disk("a", far(3.0)), disk("b", vec![run(&[("a", 1e6)], 0.01)])];
        assert!(rank(&disks).unwrap().lists[0].places.iter().all(|place| place.figure.low.is_none()));
    }

    #[test]
    fn disks_with_nothing_in_common_are_refused() {
        let disks = [disk("a", vec![run(&[("x", 1e6)], 0.01)]), disk("b", vec![run(&[("y", 1e6)], 0.01)])];
        assert!(rank(&disks).unwrap_err().to_string().contains("in common"));
    }
}
