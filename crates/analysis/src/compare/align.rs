//! Which steps of several runs are the same: by name, else by what they do.

use std::collections::{HashMap, HashSet};

use qd1_model::comparison::LeftOut;
use qd1_model::measured::{Does, Measured, MeasuredStep};

use super::Group;

/// A step of the first side and the matching steps of all runs.
pub(super) struct Aligned<'a> {
    pub(super) first: &'a MeasuredStep,
    /// For each side, the steps of its runs that have it.
    sides: Vec<Vec<&'a MeasuredStep>>,
}

impl<'a> Aligned<'a> {
    /// Those of a side.
    pub(super) fn of(&self, side: usize) -> impl Iterator<Item = &'a MeasuredStep> + '_ {
        self.sides[side].iter().copied()
    }

    /// Its names on other sides, if they differ.
    pub(super) fn other_names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.all().map(|step| step.name.clone()).filter(|name| *name != self.first.name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Those of all sides.
    pub(super) fn all(&self) -> impl Iterator<Item = &'a MeasuredStep> + '_ {
        self.sides.iter().flatten().copied()
    }
}

/// Aligned steps, and those without a counterpart.
pub(super) struct Alignment<'a> {
    pub(super) steps: Vec<Aligned<'a>>,
    pub(super) left_out: Vec<LeftOut>,
}

/// Aligns the steps of all groups with those of the first one.
pub(super) fn align(groups: &[Group]) -> Alignment<'_> {
    let mut left_out = LeftOuts::default();
    for group in groups {
        for step in group.runs.iter().flat_map(|run| &run.steps).filter(|step| !step.fault.is_empty()) {
            left_out.add(&group.name, &step.name, step.fault.clone());
        }
    }
    let firsts = Firsts::of(&groups[0]);
    let mut indices: Vec<Vec<Index<'_>>> = Vec::with_capacity(groups.len());
    for group in groups {
        indices.push(group.runs.iter().map(|run| Index::of(run, &firsts)).collect());
    }
    let mut steps: Vec<Aligned<'_>> = Vec::with_capacity(firsts.steps.len());
    for first in firsts.steps.iter().copied() {
        let sides = indices.iter().map(|runs| runs.iter().filter_map(|run| run.find(first, &firsts)).collect());
        steps.push(Aligned { first, sides: sides.collect() });
    }
    for (side, group) in groups.iter().enumerate().skip(1) {
        for aligned in steps.iter().filter(|aligned| aligned.sides[side].is_empty()) {
            let same_name = indices[side].iter().find_map(|run| run.by_name.get(aligned.first.name.as_str()));
            let why = match same_name.and_then(|step| step.does) {
                Some(does) => format!("the step of this name in {} does something else: {}", group.name, does.title()),
                None => String::new(),
            };
            left_out.add(&groups[0].name, &aligned.first.name, why);
        }
        let taken: HashSet<&str> =
            steps.iter().flat_map(|aligned| aligned.of(side)).map(|step| step.name.as_str()).collect();
        for step in group.runs.iter().flat_map(usable).filter(|step| !taken.contains(step.name.as_str())) {
            left_out.add(&group.name, &step.name, String::new());
        }
    }
    steps.retain(|aligned| aligned.sides[1..].iter().any(|side| !side.is_empty()));
    Alignment { steps, left_out: left_out.in_order }
}

fn usable(run: &Measured) -> impl Iterator<Item = &MeasuredStep> {
    run.steps.iter().filter(|step| step.fault.is_empty())
}

/// What is left out, each named once.
#[derive(Default)]
struct LeftOuts {
    in_order: Vec<LeftOut>,
    known: HashSet<LeftOut>,
}

impl LeftOuts {
    fn add(&mut self, side: &str, step: &str, why: String) {
        let left = LeftOut { side: side.to_owned(), step: step.to_owned(), why };
        if self.known.insert(left.clone()) {
            self.in_order.push(left);
        }
    }
}

/// The steps of the first side, one of each name, starting with those of its first run.
struct Firsts<'a> {
    steps: Vec<&'a MeasuredStep>,
    names: HashSet<&'a str>,
    /// The name of the first step that does the same.
    by_does: HashMap<Does, &'a str>,
}

impl<'a> Firsts<'a> {
    fn of(group: &'a Group) -> Self {
        let mut firsts = Self { steps: Vec::new(), names: HashSet::new(), by_does: HashMap::new() };
        for step in group.runs.iter().flat_map(usable) {
            if firsts.names.insert(&step.name) {
                firsts.steps.push(step);
                if let Some(does) = step.does {
                    firsts.by_does.entry(does).or_insert(&step.name);
                }
            }
        }
        firsts
    }
}

/// The steps of a run, findable by name and by what they do: each step of the first side is looked up in each run.
struct Index<'a> {
    /// The first step of each name.
    by_name: HashMap<&'a str, &'a MeasuredStep>,
    /// Those whose name no step of the first side has, with their places: by what they do, ignoring whether they bypass
    /// the page cache, the first for each answer to that.
    by_does: HashMap<Does, Vec<(usize, &'a MeasuredStep)>>,
}

impl<'a> Index<'a> {
    fn of(run: &'a Measured, firsts: &Firsts<'_>) -> Self {
        let mut index = Self { by_name: HashMap::new(), by_does: HashMap::new() };
        for (at, step) in usable(run).enumerate() {
            index.by_name.entry(&step.name).or_insert(step);
            let Some(does) = step.does.filter(|_| !firsts.names.contains(step.name.as_str())) else { continue };
            let alike = index.by_does.entry(Does { direct: None, ..does }).or_default();
            if !alike.iter().any(|(_, known)| known.does == step.does) {
                alike.push((at, step));
            }
        }
        index
    }

    /// The step matching `first`: the one of the same name, unless it does something else; or the first one that does
    /// the same and whose name no step of the first side has.
    fn find(&self, first: &MeasuredStep, firsts: &Firsts<'_>) -> Option<&'a MeasuredStep> {
        let is_like = |step: &MeasuredStep| step.does.zip(first.does).is_none_or(|(one, two)| one.is_like(&two));
        if let Some(same) = self.by_name.get(first.name.as_str()) {
            return is_like(same).then_some(same);
        }
        // The first of the steps that do the same has the match.
        let does = first.does.filter(|does| firsts.by_does.get(does) == Some(&first.name.as_str()))?;
        let alike = self.by_does.get(&Does { direct: None, ..does })?.iter();
        alike.filter(|(_, step)| is_like(step)).min_by_key(|(at, _)| *at).map(|(_, step)| *step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::plan::Rw;

    fn does(block: u32) -> Does {
        Does {
            rw: Rw::Randread,
            rwmixread: 100,
            block,
            in_flight: 1,
            commits: false,
            sync_every: 0,
            direct: Some(true),
        }
    }

    fn group(name: &str, steps: &[(&str, Option<Does>)]) -> Group {
        let step = |(name, does): &(&str, Option<Does>)| MeasuredStep {
            name: (*name).to_owned(),
            does: *does,
            ..MeasuredStep::default()
        };
        let run = Measured { steps: steps.iter().map(step).collect(), ..Measured::default() };
        Group { name: name.to_owned(), runs: vec![run] }
    }

    #[test]
    fn names_come_first_and_then_what_is_done() {
        let a = group("a", &[("qd1", Some(does(4096))), ("near", Some(does(4096))), ("large", Some(does(65536)))]);
        let b = group("b", &[("job", Some(does(4096))), ("large", Some(does(65536))), ("other", None)]);
        let groups = [a, b];
        let found = align(&groups);
        let pairs: Vec<(&str, &str)> =
            found.steps.iter().map(|step| (step.first.name.as_str(), step.sides[1][0].name.as_str())).collect();
        assert_eq!(pairs, [("qd1", "job"), ("large", "large")]);
        let left: Vec<(&str, &str)> =
            found.left_out.iter().map(|left| (left.side.as_str(), left.step.as_str())).collect();
        assert_eq!(left, [("a", "near"), ("b", "other")]);
    }

    #[test]
    fn one_name_for_two_things_is_no_comparison() {
        let groups = [group("a", &[("job", Some(does(4096)))]), group("b", &[("job", Some(does(65536)))])];
        let found = align(&groups);
        assert!(found.steps.is_empty());
        assert!(found.left_out[0].why.contains("64 KiB"), "{:?}", found.left_out);
    }

    /// Regression: each step, including those left out, was searched for among all others; 20,000 took half a minute.
    #[test]
    fn many_steps_are_found_by_their_names_and_by_what_they_do() {
        let count = 60_000;
        let named = |prefix: &str, from: u32| -> Vec<(String, Option<Does>)> {
            (from..count).map(|at| (format!("{prefix}{at}"), Some(does(512 * (at + 1))))).collect()
        };
        let make = |name: &str, steps: &[(String, Option<Does>)]| {
            let steps: Vec<(&str, Option<Does>)> = steps.iter().map(|(name, does)| (name.as_str(), *does)).collect();
            group(name, &steps)
        };
        let groups = [make("a", &named("x", 0)), make("b", &named("x", 1)), make("c", &named("y", 1))];
        let found = align(&groups);
        assert_eq!(found.steps.len(), count as usize - 1);
        assert!(found.steps.iter().all(|step| step.sides.iter().all(|side| side.len() == 1)));
        assert_eq!(found.steps[0].other_names(), ["y1"]);
        assert_eq!(found.left_out.len(), 1, "{:?}", found.left_out);
    }

    #[test]
    fn of_those_that_do_the_same_the_first_is_taken() {
        let direct = |direct| Some(Does { direct, ..does(4096) });
        let of = |asked, there: &[Option<bool>]| {
            let named: Vec<(String, Option<Does>)> =
                there.iter().enumerate().map(|(at, is)| (at.to_string(), direct(*is))).collect();
            let named: Vec<(&str, Option<Does>)> = named.iter().map(|(name, does)| (name.as_str(), *does)).collect();
            let groups = [group("a", &[("job", direct(asked))]), group("b", &named)];
            align(&groups).steps.first().map(|step| step.sides[1][0].name.clone())
        };
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(of(yes, &[no, no, None, yes]).as_deref(), Some("2"));
        assert_eq!(of(None, &[no, yes]).as_deref(), Some("0"));
        assert_eq!(of(yes, &[no]), None);
    }
}
