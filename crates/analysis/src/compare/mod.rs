//! Runs side by side: what is better, worse, the same or undecided.
//!
//! Steps are aligned by their names, else by what they do ([`align`]). Every effect is a ratio to the first side with
//! an interval ([`effects`]). A dozen primary figures decide, and are tested first and together; all others are
//! exploratory ([`family`], [`decide`]).
//!
//! How much two runs of one disk differ is only visible if a side has several runs. If no side has, the intervals are
//! those within the runs, which cover what the visits of a run saw of the disk. They do not cover a disk that behaves
//! differently tomorrow, and for a step that something else spoiled, only a difference that this cannot explain counts
//! ([`crate::spoiling`]). Two runs that were measured in turn are compared visit by visit ([`in_turn`]).

mod align;
mod circumstances;
mod condition;
mod decide;
mod effects;
mod family;
mod grades;
mod in_turn;
mod overall;
mod products;
mod rank;
mod shrinkage;
mod simultaneous;

use qd1_model::comparison::{Basis, Comparison, Limit, Row, RunName, Side, Word};
use qd1_model::measured::{Does, Measured, MeasuredStep, MeasuredStream};
use qd1_model::metric::{METRICS, Metric, metric};
use qd1_model::plan::StepPlan;
use qd1_model::{Estimate, Finding, OpClass, Problem, Record, SCHEMA_VERSION, StepSummary, StreamSummary, Summary};

use align::Aligned;
pub use condition::{Condition, figure_name};
use effects::{Figures, Spread, Width};
use family::FAMILY_WISE as ALPHA;
pub use grades::grade;
pub use in_turn::{Pairs, compare_in_turn};
pub use products::{by_host, prices};
use qd1_stats::randomized_blocks::over_runs;
pub use rank::rank;

/// Requests of at least this size are about throughput.
const LARGE: u32 = 128 << 10;
/// Number of steps of a side that an error names.
const NAMED_MAX: usize = 6;
/// Commands of qd1 that do the same as another tool.
const LIKE: [(&str, &str); 2] = [
    ("YABS", "`qd1 run yabs PATH` measures what YABS does"),
    ("bonnie++", "`qd1 meta --suite bonnie PATH` measures what bonnie++ does"),
];
/// The longest stall of a run says little about that of the next; the share of time in stalls says more.
const NOT_COMPARED: [&str; 1] = ["stall_longest_ns"];

/// The version of the analysis that works out the figures of a run: those noted by another version are worked out
/// again. Raise the number when summaries or the findings that spoil a step change.
pub const MEASURED_BY: &str = concat!(env!("CARGO_PKG_VERSION"), " 3");

/// One or more runs of the same thing, under one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its runs, one at least.
    pub runs: Vec<Measured>,
}

/// Returns a run of qd1 in the form in which it is compared. `spoilers` are the findings that say why its figures are
/// not the disk's alone.
#[must_use]
pub fn measured(record: &Record, summary: &Summary, spoilers: &[Finding]) -> Measured {
    let step = |step: &StepSummary| {
        let plan = record.plan.step(&step.name);
        let kept = record.step(&step.name);
        let is_open = plan.is_some_and(StepPlan::is_open);
        let stream = |stream: &StreamSummary| {
            let mut stream = MeasuredStream::of(stream);
            // A rate that was requested is not a figure of the disk.
            stream.figures.retain(|(name, figure)| !(is_open && is_rate(name) && figure.low == figure.high));
            stream
        };
        let spoils = |finding: &Finding| {
            finding.step.is_empty() || finding.step == step.name || finding.also_in.contains(&step.name)
        };
        let spoiling: Vec<&Finding> = spoilers.iter().filter(|finding| spoils(finding)).collect();
        MeasuredStep {
            name: step.name.clone(),
            title: step.title.clone(),
            does: plan.and_then(|plan| Does::of(plan, record.plan.target.size)),
            engine: step.engine.clone(),
            streams: step.streams.iter().map(stream).collect(),
            fault: kept.map(|step| step.fault.clone()).unwrap_or_default(),
            is_spoiled: !spoiling.is_empty(),
            explained: match kept {
                Some(kept) if !spoiling.is_empty() => crate::spoiling::explained(record, kept, &spoiling),
                _ => Vec::new(),
            },
        }
    };
    let circumstances = circumstances::of(record).into_iter().chain(spoilers.iter().map(circumstances::spoiled));
    Measured {
        label: record.id.chars().take(8).collect(),
        tool: format!("qd1 {}", record.version),
        started_unix_ns: Some(record.started_unix_ns),
        circumstances: circumstances.collect(),
        steps: summary.steps.iter().map(step).collect(),
        missing: Vec::new(),
        is_without_course: false,
    }
}

/// Returns the findings that say that the figures of a run do not describe its disk alone.
#[must_use]
pub fn spoilers(record: &Record, summary: &Summary) -> Vec<Finding> {
    circumstances::spoilers(record, summary)
}

/// Compares each group with the first one.
///
/// # Errors
/// If nothing can be compared, or a condition names something that none of them has; the message says what there is.
pub fn compare(groups: &[Group], conditions: &[Condition]) -> Result<Comparison, Problem> {
    compared(groups, conditions, None)
}

/// Compares groups, or two runs that were measured in turn.
fn compared(groups: &[Group], conditions: &[Condition], pairs: Option<&Pairs>) -> Result<Comparison, Problem> {
    let is_repeated = groups.iter().any(|group| group.runs.len() > 1);
    let alignment = align::align(groups);
    let mut rows: Vec<(Row, Figures)> =
        alignment.steps.iter().flat_map(|aligned| rows_with(aligned, groups, is_repeated, pairs)).collect();
    if rows.is_empty() {
        return Err(nothing(groups));
    }
    family::mark(&mut rows);
    let spreads =
        effects::spreads(&rows.iter().map(|(row, figures)| (row.metric.as_str(), figures)).collect::<Vec<_>>());
    let basis = match pairs {
        _ if spreads.iter().any(Option::is_some) => Basis::Runs,
        Some(_) => Basis::Pairs,
        None => Basis::Visits,
    };
    let (overall, width) = decide::decide(&mut rows, &spreads, groups.len(), basis);
    let limits = limits(conditions, &rows, &spreads, groups)?;
    let runs_needed = if basis == Basis::Pairs { None } else { runs_needed(&rows, &spreads, width) };
    Ok(Comparison {
        schema_version: SCHEMA_VERSION,
        sides: groups.iter().map(side).collect(),
        differences: circumstances::differences(groups, &alignment.steps),
        overall,
        rows: rows.into_iter().map(|(row, _)| row).collect(),
        family_wise_error: family::FAMILY_WISE,
        false_discovery_rate: family::DISCOVERY,
        left_out: alignment.left_out,
        basis,
        runs_needed,
        limits,
    })
}

/// Says why nothing can be compared: no step has figures, or no two steps do the same.
fn nothing(groups: &[Group]) -> Problem {
    let of = |group: &Group| {
        let names = group.runs.iter().flat_map(|run| &run.steps).map(|step| match &step.does {
            _ if !step.fault.is_empty() => format!("{}: {}", step.name, step.fault),
            Some(does) => format!("{}: {}", step.name, does.title()),
            None => step.name.clone(),
        });
        let mut names: Vec<String> = names.collect();
        names.dedup();
        let more = names.len().saturating_sub(NAMED_MAX);
        names.truncate(NAMED_MAX);
        if more > 0 {
            names.push(format!("and {more} more"));
        }
        format!("\n  {}\n    {}", group.name, names.join("\n    "))
    };
    let all: String = groups.iter().map(of).collect();
    let tools = groups.iter().flat_map(|group| &group.runs).map(|run| run.tool.as_str());
    let hint =
        tools.filter_map(|tool| LIKE.iter().find(|(name, _)| tool.starts_with(name))).map(|(_, how)| *how).next();
    let hint = hint.unwrap_or("compare runs of the same suite or job");
    Problem::usage(format!("the runs have no step with figures in common, by name or by what it does; {hint}{all}"))
}

fn side(group: &Group) -> Side {
    let run = |run: &Measured| RunName {
        label: run.label.clone(),
        tool: run.tool.clone(),
        started_unix_ns: run.started_unix_ns,
    };
    let mut missing: Vec<String> = Vec::new();
    for what in group.runs.iter().flat_map(|run| &run.missing) {
        if !missing.contains(what) {
            missing.push(what.clone());
        }
    }
    Side { name: group.name.clone(), runs: group.runs.iter().map(run).collect(), missing }
}

/// The rows of an aligned step: each figure that two sides have, one of them the first.
fn rows(aligned: &Aligned<'_>, groups: &[Group], is_repeated: bool) -> Vec<(Row, Figures)> {
    rows_with(aligned, groups, is_repeated, None)
}

/// The same with the differences of neighbouring visits, which may show what neither run resolves.
fn rows_with(aligned: &Aligned<'_>, groups: &[Group], is_repeated: bool, pairs: Option<&Pairs>) -> Vec<(Row, Figures)> {
    let sides = groups.len();
    // A single run of a tool that keeps no figures over time does not show how much of a difference is chance.
    let proves = |side: usize| is_repeated || !groups[side].runs.iter().any(|run| run.is_without_course);
    let bare =
        |figures: &Vec<Estimate>| figures.iter().map(|figure| Estimate { low: None, high: None, ..*figure }).collect();
    let mut classes: Vec<OpClass> = aligned.all().flat_map(|step| &step.streams).map(|stream| stream.class).collect();
    classes.sort_unstable();
    classes.dedup();
    let also = aligned.other_names();
    let is_spoiled: Vec<bool> = (0..sides).map(|side| aligned.of(side).any(|step| step.is_spoiled)).collect();
    let mut found = Vec::new();
    for class in classes {
        let of = |side: usize, metric: &str| -> Vec<Estimate> {
            let streams = aligned.of(side).filter_map(|step| step.streams.iter().find(|stream| stream.class == class));
            streams.filter_map(|stream| stream.figure(metric)).collect()
        };
        let has = |metric: &str| is_comparable(&(0..sides).map(|side| of(side, metric)).collect::<Vec<_>>());
        let has_figures = ["lat_p50_ns", "iops"].map(has);
        for metric in METRICS.iter().filter(|metric| !NOT_COMPARED.contains(&metric.name)) {
            let all: Vec<Vec<Estimate>> = (0..sides).map(|side| of(side, metric.name)).collect();
            let in_turn = pairs.and_then(|pairs| pairs.of(&aligned.first.name, class, metric.name));
            if !is_comparable(&all) && (in_turn.is_none() || all.iter().any(Vec::is_empty)) {
                continue;
            }
            let row = Row {
                step: aligned.first.name.clone(),
                also: also.clone(),
                title: aligned.first.title.clone(),
                op: class,
                metric: metric.name.to_owned(),
                leads: leads(metric, class, aligned.first.does.as_ref(), has_figures),
                is_primary: false,
                figures: all.iter().map(|figures| over_runs(figures)).collect(),
                effects: Vec::new(),
            };
            let proven = all.iter().enumerate().map(|(side, of)| if proves(side) { of.clone() } else { bare(of) });
            let figures = Figures::new(&proven.collect::<Vec<_>>(), is_spoiled.clone());
            let explained = |side: usize| {
                let mut of = aligned.of(side).map(|step| step.explained(class, metric.name));
                of.try_fold(1.0_f64, |most, factor| Some(most.max(factor?)))
            };
            let slack = (1..sides).map(|side| crate::spoiling::slack(metric, explained(0), explained(side)));
            let in_turn = in_turn.map(<[f64]>::to_vec).into_iter().collect();
            found.push((row, figures.explained(slack.collect()).in_turn(in_turn)));
        }
    }
    found
}

/// Whether the first side and another one have it, and it is resolved anywhere.
fn is_comparable(all: &[Vec<Estimate>]) -> bool {
    let has = |figures: &Vec<Estimate>| !figures.is_empty();
    has(&all[0]) && all[1..].iter().any(has) && all.iter().flatten().any(Estimate::is_resolved)
}

fn is_rate(name: &str) -> bool {
    metric(name).is_some_and(|metric| metric.unit.is_rate())
}

/// Whether it is what users of a step notice first: latency if one waits, the rate if several do, bytes if requests are
/// large.
fn leads(metric: &Metric, class: OpClass, does: Option<&Does>, [has_latency, has_rate]: [bool; 2]) -> bool {
    let names: &[&str] = match does {
        _ if has_rate && matches!(class, OpClass::Create | OpClass::Stat | OpClass::Delete | OpClass::Seek) => {
            &["iops"]
        }
        Some(does) if does.block >= LARGE => &["bytes_per_second"],
        Some(does) if does.in_flight > 4 => &["iops"],
        _ if !has_latency && !has_rate => &["bytes_per_second"],
        _ if !has_latency => &["sync_p50_ns", "sync_p99_ns", "iops"],
        _ => &["lat_p50_ns", "lat_p99_ns"],
    };
    names.contains(&metric.name)
}

fn limits(
    conditions: &[Condition],
    rows: &[(Row, Figures)],
    spreads: &[Option<Spread>],
    groups: &[Group],
) -> Result<Vec<Limit>, Problem> {
    let chance = ALPHA / (conditions.len() * (groups.len() - 1)).max(1) as f64;
    let mut all = Vec::new();
    for condition in conditions {
        let found = rows.iter().zip(spreads).filter(|((row, _), _)| condition.is_about(row));
        let found: Vec<_> = found.collect();
        if found.is_empty() && rows.iter().any(|(row, _)| condition.may_have_been(row)) {
            // A run that was too short for a figure says nothing about it.
            let open = |group: &Group| condition.judge(&group.name, Estimate::default(), true);
            all.extend(groups.iter().skip(1).map(open));
            continue;
        }
        let [((_, figures), spread)] = found.as_slice() else {
            return Err(condition.not_one(found.len(), rows.iter().map(|(row, _)| row)));
        };
        for (side, group) in groups.iter().enumerate().skip(1) {
            let ratio = figures.ratio(side, spread.as_ref(), Width::alone(chance));
            let is_lost = figures.is_lost(side, spread.as_ref()) && figures.slack(side).is_none();
            all.push(condition.judge(&group.name, ratio, is_lost));
        }
    }
    Ok(all)
}

/// The runs of each side with which half of the undecided primary figures would find a difference of
/// [`qd1_model::comparison::FOUND`].
fn runs_needed(rows: &[(Row, Figures)], spreads: &[Option<Spread>], width: Width) -> Option<u32> {
    let open = rows
        .iter()
        .zip(spreads)
        .filter(|((row, _), _)| row.is_primary && row.effects.iter().any(|effect| effect.word == Word::CannotTell));
    let mut needed: Vec<u32> =
        open.filter_map(|((_, figures), spread)| figures.runs_needed(spread.as_ref(), width)).collect();
    needed.sort_unstable();
    needed.get(needed.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::FindingId;

    fn run(label: &str, spoilers: &[Finding]) -> Measured {
        let record = testing::record();
        Measured { label: label.to_owned(), ..measured(&record, &crate::summarize(&record), spoilers) }
    }

    fn run_of(label: &str) -> Measured {
        run(label, &[])
    }

    fn groups(runs: [Measured; 2]) -> Vec<Group> {
        let group = |run: Measured| Group { name: run.label.clone(), runs: vec![run] };
        runs.map(group).into()
    }

    /// All latencies of a run times a factor.
    fn slower(mut run: Measured, factor: f64) -> Measured {
        for (name, figure) in
            run.steps.iter_mut().flat_map(|step| &mut step.streams).flat_map(|stream| &mut stream.figures)
        {
            let factor = if *name == "iops" || *name == "bytes_per_second" { 1.0 / factor } else { factor };
            *figure = qd1_stats::scaled(*figure, factor);
        }
        run
    }

    #[test]
    fn a_run_beside_one_like_it_is_the_same_and_beside_a_slower_one_better() {
        let same = compare(&groups([run("a", &[]), run("b", &[])]), &[]).unwrap();
        assert!(same.rows.iter().all(|row| !matches!(row.effects[0].word, Word::Better | Word::Worse)), "{same:?}");
        assert!(same.differences.is_empty() && same.basis == Basis::Visits);
        let worse = compare(&groups([run("a", &[]), slower(run("b", &[]), 3.0)]), &[]).unwrap();
        let of = |metric: &str| worse.rows.iter().find(|row| row.step == "reads" && row.metric == metric).unwrap();
        assert_eq!(of("lat_p50_ns").effects[0].word, Word::Worse);
        assert_eq!(of("iops").effects[0].word, Word::Worse);
        assert!(of("lat_p50_ns").leads && !of("lat_mean_ns").leads);
        assert_eq!(worse.overall[0].word, Word::Worse);
    }

    /// Regression: a ratio of 30 was ignored in a step whose workers waited for a processor a few percent of their
    /// time.
    #[test]
    fn what_waits_for_a_processor_cannot_explain_is_judged() {
        let waits = |factor: f64| {
            let mut record = testing::record();
            record.steps[0].cost.run_delay_ns = record.steps[0].runtime_ns / 12;
            let summary = crate::summarize(&record);
            let spoilers = spoilers(&record, &summary);
            assert_eq!(spoilers[0].id, FindingId::CpuSpoiledRunDelay);
            let run = Measured { label: "b".to_owned(), ..measured(&record, &summary, &spoilers) };
            let compared = compare(&groups([run_of("a"), slower(run, factor)]), &[]).unwrap();
            let row = compared.rows.iter().find(|row| row.step == "reads" && row.metric == "lat_p50_ns");
            row.unwrap().effects[0]
        };
        let large = waits(30.0);
        assert!(large.word == Word::Worse && !large.is_spoiled, "{large:?}");
        let explained = large.explained.unwrap();
        assert!(explained > 1.05 && large.ratio.low.unwrap() < 30.0 / explained * 1.01, "{large:?}");
        let small = waits(1.04);
        assert!(small.word == Word::CannotTell && small.is_spoiled && small.explained == large.explained, "{small:?}");
    }

    /// Regression: a run that was too short for a figure looked like a wrong option, and its other figures were not
    /// shown.
    #[test]
    fn a_limit_of_a_figure_that_no_run_resolves_cannot_be_told() {
        let judge = |limit: &str| compare(&groups([run_of("a"), run_of("b")]), &[limit.parse().unwrap()]);
        let open = judge("reads.p99.99 > +10%").unwrap().limits.remove(0);
        assert!(!open.is_beyond && !open.is_within && open.ratio.value.is_none(), "{open:?}");
        assert!(judge("reads.p50 > +10%").unwrap().limits[0].ratio.value.is_some());
        for wrong in ["reads.sync_p99 > +10%", "nosuch.p99 > +10%", "reads.write.p99 > +10%"] {
            assert!(judge(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn of_a_spoilt_step_nothing_is_concluded() {
        let spoiler = Finding { step: "reads".to_owned(), ..detect_other_traffic() };
        let compared = compare(&groups([run("a", &[]), slower(run("b", &[spoiler]), 3.0)]), &[]).unwrap();
        let words = |step: &str| {
            let rows = compared.rows.iter().filter(move |row| row.step == step);
            rows.map(|row| row.effects[0].word).collect::<Vec<_>>()
        };
        assert!(words("reads").iter().all(|word| *word == Word::CannotTell));
        assert!(words("commits").contains(&Word::Worse));
        let spoilt = &compared.differences[0];
        assert!(spoilt.values[0].is_empty() && spoilt.values[1].contains("reads"), "{spoilt:?}");
    }

    fn detect_other_traffic() -> Finding {
        Finding {
            title: "something else used the device".to_owned(),
            ..crate::detect::base_finding(FindingId::OtherTraffic, qd1_model::Severity::Warning, 1.0)
        }
    }

    /// Regression: with four jobs, one comparison of equal disks in six said "better" or "worse", with two runs each
    /// one in three, and with three against one four in ten.
    #[test]
    fn equal_sides_with_few_figures_are_hardly_ever_said_to_differ() {
        let mut random = qd1_stats::random::Random::new(11);
        for (sides, jobs, common) in [([3, 3], 4, 0.0), ([3, 1], 4, 0.0), ([2, 2], 4, 0.05), ([3, 3], 10, 0.02)] {
            let comparisons = 30;
            let (mut wrong, mut explored) = (0, 0);
            for _ in 0..comparisons {
                let mut run = |label: String| {
                    let shared = common * random.normal();
                    let step = |at: usize| {
                        let mut figure = |name: &'static str| {
                            let value = 1e6 * (shared + 0.05 * random.normal()).exp();
                            (name, Estimate { value: Some(value), n: 1000, ..Estimate::default() })
                        };
                        let figures =
                            vec![figure("lat_p50_ns"), figure("lat_p99_ns"), figure("lat_mean_ns"), figure("iops")];
                        let stream = MeasuredStream { class: OpClass::Read, figures };
                        MeasuredStep { name: format!("job{at}"), streams: vec![stream], ..MeasuredStep::default() }
                    };
                    Measured { label, steps: (0..jobs).map(step).collect(), ..Measured::default() }
                };
                let groups: Vec<Group> = sides
                    .iter()
                    .enumerate()
                    .map(|(side, runs)| Group {
                        name: side.to_string(),
                        runs: (0..*runs).map(|at| run(format!("{side}.{at}"))).collect(),
                    })
                    .collect();
                let compared = compare(&groups, &[]).unwrap();
                let of = |is_primary: bool| {
                    let rows = compared.rows.iter().filter(move |row| row.is_primary == is_primary);
                    rows.flat_map(|row| &row.effects).any(|effect| matches!(effect.word, Word::Better | Word::Worse))
                };
                let whole = compared.overall.iter().any(|effect| matches!(effect.word, Word::Better | Word::Worse));
                wrong += usize::from(of(true) || whole);
                explored += usize::from(of(false));
            }
            // More than five are one sample in 300 if five in a hundred are wrong.
            assert!(wrong <= 5 && explored <= 5, "{sides:?}, {jobs} jobs: {wrong}, {explored} of {comparisons}");
        }
    }

    #[test]
    fn conditions_are_held_against_their_row_alone() {
        let groups = groups([run("a", &[]), slower(run("b", &[]), 1.5)]);
        let judge =
            |text: &str| compare(&groups, &[text.parse().unwrap()]).map(|compared| compared.limits[0].is_beyond);
        assert!(judge("reads.p50 > +20%").unwrap());
        assert!(!judge("reads.p50 > +60%").unwrap());
        assert!(judge("reads.iops < -20%").unwrap());
        let error = judge("read.p50 > +20%").unwrap_err().to_string();
        assert!(error.contains("did you mean reads?"), "{error}");
    }

    #[test]
    fn what_has_nothing_in_common_is_refused_with_what_there_is() {
        let mut other = run("b", &[]);
        other.steps.iter_mut().for_each(|step| (step.name, step.does) = ("else".to_owned(), None));
        let error = compare(&groups([run("a", &[]), other]), &[]).unwrap_err().to_string();
        assert!(error.contains("in common") && error.contains("else"), "{error}");
    }
}
