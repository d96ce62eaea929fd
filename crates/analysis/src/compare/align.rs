//! Which steps of several runs are the same: by name, else by what they do.

use qd1_model::comparison::LeftOut;
use qd1_model::measured::{Measured, MeasuredStep};

use super::Group;

/// A step of the first side and those of all runs that are like it.
pub(super) struct Aligned<'a> {
    pub(super) first: &'a MeasuredStep,
    /// One for each side: those of its runs that have it.
    sides: Vec<Vec<&'a MeasuredStep>>,
}

impl<'a> Aligned<'a> {
    /// Those of a side.
    pub(super) fn of(&self, side: usize) -> impl Iterator<Item = &'a MeasuredStep> + '_ {
        self.sides[side].iter().copied()
    }

    /// The names that it has on other sides, where they differ.
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

/// All of them, and what is like nothing.
pub(super) struct Alignment<'a> {
    pub(super) steps: Vec<Aligned<'a>>,
    pub(super) left_out: Vec<LeftOut>,
}

/// Aligns the steps of all groups with those of the first one.
pub(super) fn align(groups: &[Group]) -> Alignment<'_> {
    let mut left_out = Vec::new();
    let mut leave = |side: &str, step: &str, why: String| {
        let left = LeftOut { side: side.to_owned(), step: step.to_owned(), why };
        if !left_out.contains(&left) {
            left_out.push(left);
        }
    };
    for group in groups {
        for step in group.runs.iter().flat_map(|run| &run.steps).filter(|step| !step.fault.is_empty()) {
            leave(&group.name, &step.name, step.fault.clone());
        }
    }
    let mut steps: Vec<Aligned<'_>> = Vec::new();
    let names = references(&groups[0]);
    for first in names.iter().copied() {
        let sides = groups.iter().map(|group| group.runs.iter().filter_map(|run| find(run, first, &names)).collect());
        steps.push(Aligned { first, sides: sides.collect() });
    }
    for (side, group) in groups.iter().enumerate().skip(1) {
        for aligned in steps.iter().filter(|aligned| aligned.sides[side].is_empty()) {
            let same_name = group.runs.iter().flat_map(usable).find(|step| step.name == aligned.first.name);
            let why = match same_name.and_then(|step| step.does) {
                Some(does) => format!("that of {} does something else: {}", group.name, does.title()),
                None => String::new(),
            };
            leave(&groups[0].name, &aligned.first.name, why);
        }
        for step in group.runs.iter().flat_map(usable) {
            if !steps.iter().any(|aligned| aligned.of(side).any(|taken| taken.name == step.name)) {
                leave(&group.name, &step.name, String::new());
            }
        }
    }
    steps.retain(|aligned| aligned.sides[1..].iter().any(|side| !side.is_empty()));
    Alignment { steps, left_out }
}

fn usable(run: &Measured) -> impl Iterator<Item = &MeasuredStep> {
    run.steps.iter().filter(|step| step.fault.is_empty())
}

/// The steps of a group, those of its first run first.
fn references(group: &Group) -> Vec<&MeasuredStep> {
    let mut found: Vec<&MeasuredStep> = Vec::new();
    for step in group.runs.iter().flat_map(usable) {
        if !found.iter().any(|known| known.name == step.name) {
            found.push(step);
        }
    }
    found
}

/// The step of `run` that is like `first`: of the same name, unless it does something else; or one that does the same and
/// bears none of `names`, those of the first side's steps.
fn find<'a>(run: &'a Measured, first: &MeasuredStep, names: &[&MeasuredStep]) -> Option<&'a MeasuredStep> {
    let is_like = |step: &MeasuredStep| step.does.zip(first.does).is_none_or(|(one, two)| one.is_like(&two));
    if let Some(same) = usable(run).find(|step| step.name == first.name) {
        return is_like(same).then_some(same);
    }
    // The first of the steps that do the same has it.
    let is_first = |does| {
        names
            .iter()
            .find(|step| step.does.is_some_and(|other| other == does))
            .is_some_and(|step| step.name == first.name)
    };
    let does = first.does.filter(|does| is_first(*does))?;
    usable(run).find(|step| {
        step.does.is_some_and(|other| other.is_like(&does)) && !names.iter().any(|known| known.name == step.name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::measured::Does;
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
}
