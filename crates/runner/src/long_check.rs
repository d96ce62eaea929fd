//! A check over hours: rounds of short visits at random times (`LongCheckPlan`), each kept as soon as it is over, so that a
//! run can continue after a reboot.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use qd1_clock as clock;
use qd1_engine::run::Progress;
use qd1_model::op::Ended;
use qd1_model::plan::{LongCheckPlan, Plan, StepPlan, Stop, Visit};
use qd1_model::record::long_check::{Round, RoundRecord, Use};
use qd1_model::record::{Interval, Record, StepRecord};
use qd1_model::units::format_span_ns;
use qd1_model::{Bytes, OpClass, Problem};

use crate::context::{Run, RunContext};
use crate::step::{self, Follower};
use crate::watch::Watch;

/// How long a signal may go unnoticed between two rounds.
const NAP: Duration = Duration::from_millis(250);

/// Where a long run is kept while it goes on.
pub trait Keep {
    /// Keeps the run as it is before its first round, or its first after it was resumed.
    ///
    /// # Errors
    /// When it cannot be kept.
    fn begin(&mut self, record: &Record) -> Result<()>;

    /// Keeps one more round of it; `before` is the run without it.
    ///
    /// # Errors
    /// When the run must not go on.
    fn round(&mut self, before: &Record, round: &Round) -> Result<()>;
}

/// Runs what is left of a check over hours, and returns all of it with what ended it early. `earlier` is what was
/// measured before, if it is resumed.
///
/// # Errors
/// When the target cannot be made, the run cannot be kept, or nothing could be measured.
pub fn execute_long_check(
    plan: Plan,
    context: &RunContext<'_>,
    watch: &mut dyn Watch,
    keep: &mut dyn Keep,
    earlier: Option<Record>,
) -> Result<(Record, Option<anyhow::Error>)> {
    let over = plan.over.ok_or_else(|| Problem::usage("the plan is not a check over hours"))?;
    let before_ns = earlier.as_ref().map_or(0, elapsed_ns);
    watch.begin(&plan);
    let begun = Begun { boot_ns: clock::boot_ns(), before_ns };
    let mut run = Run::new(plan, context);
    // A process killed while it writes the test file has used the disk as well; one that fails, for as long as it took.
    let written = if run.plan.needs_shared_file() { run.plan.target.size } else { Bytes(0) };
    let keep_start = |keep: &mut dyn Keep, busy_ns: u64| -> Result<()> {
        let Some(mut begun) = earlier.clone() else { return Ok(()) };
        begun.over.get_or_insert_default().starts.push(Use { at_ns: before_ns, busy_ns, written });
        keep.begin(&begun)
    };
    keep_start(keep, run.plan.target.prepare_max_ns)?;
    if let Err(error) = run.open_shared(watch) {
        let kept = keep_start(keep, begun.elapsed_ns() - before_ns);
        return Err(match kept {
            Ok(()) => error,
            Err(kept) => error.context(format!("{kept:#}")),
        });
    }
    let empty = || run.record(clock::wall_ns().saturating_sub(begun.elapsed_ns()), Vec::new());
    let mut record = earlier.unwrap_or_else(empty);
    // Interrupted until it is over, whatever ends this process.
    (record.prepare, record.interrupted) = (run.prepared.clone().or(record.prepare), true);
    // Before its first round there is nothing to continue; a test file that was cut short would decide the rest.
    if context.is_cancelled() && record.over.is_none() {
        return Ok((record, None));
    }
    let written = run.prepared.as_ref().map_or(Bytes(0), |prepared| prepared.bytes);
    let start = Use { at_ns: before_ns, busy_ns: begun.elapsed_ns() - before_ns, written };
    record.over.get_or_insert_default().starts.push(start);
    keep.begin(&record)?;
    if context.is_cancelled() {
        return Ok((record, None));
    }
    let mut rounds = Rounds { over, begun, record, failed: Vec::new() };
    let (is_whole, failure) = match rounds.run(&mut run, watch, keep) {
        Ok(is_whole) => (is_whole, None),
        Err(error) => (false, Some(error)),
    };
    let mut record = rounds.record;
    record.elapsed_ns = begun.elapsed_ns().max(record.elapsed_ns);
    record.interrupted = !is_whole;
    match failure {
        Some(error) if record.steps.iter().all(|step| step.streams.is_empty()) => Err(error),
        failure => Ok((record, failure)),
    }
}

/// The age of a run that is resumed now, ns; no less than it has measured, whatever the clock says.
fn elapsed_ns(earlier: &Record) -> u64 {
    clock::wall_ns().saturating_sub(earlier.started_unix_ns).max(earlier.elapsed_ns)
}

/// The start of this process's part of a run.
#[derive(Clone, Copy)]
struct Begun {
    boot_ns: u64,
    /// How old the run was, ns.
    before_ns: u64,
}

impl Begun {
    /// How old the run is, ns; a machine that sleeps ages too.
    fn elapsed_ns(self) -> u64 {
        self.before_ns + (clock::boot_ns() - self.boot_ns)
    }
}

struct Rounds {
    over: LongCheckPlan,
    begun: Begun,
    record: Record,
    /// Steps that failed, which are not tried again.
    failed: Vec<usize>,
}

impl Rounds {
    /// Measures all remaining rounds; false when it ended before the last one.
    ///
    /// # Errors
    /// When no step of the first round can run, or a round cannot be kept because the run is another's.
    fn run(&mut self, run: &mut Run<'_>, watch: &mut dyn Watch, keep: &mut dyn Keep) -> Result<bool> {
        let schedule = run.plan.schedule();
        let next = self.record.over.as_ref().map_or(0, |over| over.next());
        for visits in schedule.chunk_by(|one, other| one.number == other.number) {
            let number = visits[0].number;
            let is_over = self.begun.elapsed_ns() >= self.over.part_end_ns(number);
            if number < next || is_over || !self.may_use(number) {
                continue;
            }
            let at_ns = self.over.at_ns(number, run.plan.seed);
            watch.note(&self.waiting(number, at_ns, run.plan.seed));
            self.wait(at_ns, run.context.cancel);
            let Some(round) = self.round(run, visits)? else {
                // A round on a stopped machine measures nothing; the next one may.
                if run.context.is_cancelled() {
                    return Ok(false);
                }
                continue;
            };
            keep.round(&self.record, &round)?;
            self.record.add_round(round);
            // Resumed, they are tried again.
            if self.failed.len() == run.plan.steps.len() || run.context.is_cancelled() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether enough of the disk's time is left for this round and a fair share for those after it.
    fn may_use(&self, number: u32) -> bool {
        let used_ns = self.record.over.as_ref().map_or(0, |over| over.busy_ns());
        let left = u64::from(self.over.rounds - number - 1);
        // Each later round is owed what is planned for it, as long as the preparations have left that much.
        let owed_ns = left * self.over.round_max_ns;
        let fair_ns = self.over.busy_max_ns / u64::from(self.over.rounds) * (u64::from(number) + 1);
        // The first round comes immediately, even if writing the test file has used up what the next ones are owed.
        let fair_ns = if number == 0 { self.over.busy_max_ns } else { fair_ns };
        used_ns + self.over.round_max_ns + owed_ns <= self.over.busy_max_ns
            || used_ns + self.over.round_max_ns <= fair_ns.min(self.over.busy_max_ns)
    }

    /// Says which rounds are still to come.
    fn waiting(&self, number: u32, at_ns: u64, seed: u64) -> String {
        let now_ns = self.begun.elapsed_ns();
        let within = |at_ns: u64| {
            format_span_ns(at_ns.saturating_sub(now_ns).max(1_000_000_000) / 1_000_000_000 * 1_000_000_000)
        };
        let all = self.over.rounds;
        let last_ns = self.over.at_ns(all - 1, seed);
        format!("round {} of {all} in {}, the last in {}", number + 1, within(at_ns), within(last_ns))
    }

    fn wait(&self, at_ns: u64, cancel: &AtomicBool) {
        while !cancel.load(Ordering::Relaxed) {
            let left_ns = at_ns.saturating_sub(self.begun.elapsed_ns());
            if left_ns == 0 {
                return;
            }
            std::thread::sleep(NAP.min(Duration::from_nanos(left_ns)));
        }
    }

    /// Measures one round; `None` when nothing was measured in it.
    ///
    /// # Errors
    /// When no step of the first round can run.
    fn round(&mut self, run: &mut Run<'_>, visits: &[Visit]) -> Result<Option<Round>> {
        let begin_ns = clock::now_ns();
        let at_ns = self.begun.elapsed_ns();
        (run.begin_ns, run.earlier_ns) = (begin_ns, at_ns);
        let (mut steps, mut first_error) = (Vec::new(), None);
        for visit in visits {
            if run.context.is_cancelled() {
                break;
            }
            if self.failed.contains(&visit.step) {
                continue;
            }
            let planned = run.plan.steps[visit.step].clone();
            let follower = Follower { watch: &mut Unwatched, so_far: &[], enough: &|_| false };
            let step = step::run(run, &planned, *visit, follower).unwrap_or_else(|error| {
                let started_ns = self.begun.elapsed_ns();
                let failed = StepRecord::failed(&planned.name, format!("{error:#}"), started_ns);
                first_error.get_or_insert(error);
                failed
            });
            if step.ended == Ended::Failed {
                self.failed.push(visit.step);
            }
            if !step.streams.is_empty() || step.ended == Ended::Failed {
                steps.push(step.in_one_interval());
            }
        }
        let has_measured = |steps: &[StepRecord]| steps.iter().any(|step| !step.streams.is_empty());
        match first_error {
            Some(error) if !has_measured(&steps) && !has_measured(&self.record.steps) => return Err(error),
            _ if steps.is_empty() => return Ok(None),
            _ => {}
        }
        let written = Bytes(steps.iter().map(written).sum());
        let used = Use { at_ns, busy_ns: clock::now_ns().saturating_sub(begin_ns), written };
        Ok(Some(Round { round: RoundRecord { number: visits[0].number, used }, steps }))
    }
}

/// Bytes that a visit wrote.
fn written(step: &StepRecord) -> u64 {
    let streams = step.streams.iter().filter(|stream| matches!(stream.class, OpClass::Write | OpClass::Commit));
    streams.map(|stream| stream.bytes.0).sum()
}

/// Nobody follows the visits of a long run: each is over in a moment.
struct Unwatched;

impl Watch for Unwatched {
    fn begin(&mut self, _: &Plan) {}
    fn heading(&mut self, _: &str) {}
    fn prepare(&mut self, _: Bytes) {}
    fn prepared(&mut self, _: &Progress<'_>) {}
    fn note(&mut self, _: &str) {}
    fn insert(&mut self, _: usize, _: &StepPlan) {}
    fn step(&mut self, _: usize, _: &StepPlan) {}
    fn figures(&mut self, _: &[Interval]) {}
    fn tick(&mut self, _: u64, _: &Stop) {}
    fn step_done(&mut self, _: &StepRecord) {}
}

#[cfg(test)]
mod tests {
    use qd1_model::Subject;
    use qd1_model::spec::{Effort, PerEffort, Span, Spec, Suite};
    use qd1_probe::Machine;

    use super::*;
    use crate::{place, plan};

    const JOBS: [&str; 2] = [
        "name = \"reads\"\nrw = \"randread\"\nruntime = \"50ms\"\nramp_time = \"0s\"\nadaptive = false",
        "name = \"commits\"\nrw = \"write\"\ndirect = false\nsync = \"fdatasync\"\nfile = \"own\"\nsize = \"1MiB\"\n\
         io_size = \"64KiB\"\nruntime = \"50ms\"\nramp_time = \"0s\"\nadaptive = false",
    ];

    fn same<T: Copy>(value: T) -> PerEffort<T> {
        PerEffort { quick: value, default: value, full: value }
    }

    fn spec(dir: &std::path::Path, over_ns: u64) -> Spec {
        let suite = Suite {
            name: "check".to_owned(),
            subject: Subject::Check,
            title: String::new(),
            source: String::new(),
            size: same(Bytes::mib(16)),
            prepare: same(Span(5_000_000_000)),
            job: JOBS.iter().map(|job| toml::from_str(job).unwrap()).collect(),
            criteria: Vec::new(),
            sweep: None,
        };
        Spec {
            suite,
            path: dir.to_owned(),
            effort: Effort::Default,
            size: None,
            runtime_ns: None,
            only: Vec::new(),
            engine: None,
            seed: Some(1),
            destroy: None,
            with_load: false,
            over_ns: Some(over_ns),
        }
    }

    /// Keeps rounds in memory, and stops the run after so many.
    struct Kept<'a> {
        /// The last start of each record that it was begun with.
        begun: Vec<Use>,
        rounds: Vec<Round>,
        stop_after: usize,
        cancel: &'a AtomicBool,
    }

    impl Keep for Kept<'_> {
        fn begin(&mut self, record: &Record) -> Result<()> {
            let rounds = record.over.as_ref().map_or(0, |over| over.rounds.len());
            assert_eq!(rounds, self.rounds.len(), "kept with all that was measured");
            self.begun.push(*record.over.as_ref().unwrap().starts.last().unwrap());
            Ok(())
        }

        fn round(&mut self, before: &Record, round: &Round) -> Result<()> {
            assert_eq!(before.over.as_ref().map(|over| over.rounds.len()), Some(self.rounds.len()));
            self.rounds.push(round.clone());
            self.cancel.store(self.rounds.len() == self.stop_after, Ordering::Relaxed);
            Ok(())
        }
    }

    #[test]
    fn the_time_and_the_disks_time_decide_how_many_rounds() {
        let dir = tempfile::tempdir().unwrap();
        let place = place::inspect(&Machine::new(), dir.path(), "t").unwrap();
        let hour = 3_600_000_000_000;
        for (hours, rounds) in [(1, 115), (24, 3050)] {
            let plan = plan::decide(&spec(dir.path(), hours * hour), &place, 1).unwrap();
            let over = plan.over.unwrap();
            assert!(over.rounds.abs_diff(rounds) < rounds / 20, "{} rounds in {hours} h", over.rounds);
            let most_ns = u64::from(over.rounds) * over.round_max_ns + plan.target.prepare_max_ns;
            assert!(most_ns <= over.duration_ns / 200, "{most_ns} ns of the disk's time");
            // 64 KiB a round, their file and the test file.
            let writes = Bytes((u64::from(over.rounds) << 16) + (17 << 20));
            assert_eq!(plan.writes_max(), writes);
            assert!(plan.steps.iter().all(|step| step.visits == over.rounds));
        }
        for wrong in [hour / 2, 15 * 24 * hour] {
            let error = plan::decide(&spec(dir.path(), wrong), &place, 1).unwrap_err().to_string();
            assert!(error.contains("between 1h and 14d"), "{error}");
        }
    }

    /// Six parts of half a second: stopped after two rounds, resumed after the third's part is over. In memory, where no
    /// neighbour holds it up.
    #[test]
    fn a_stopped_run_continues_where_it_was() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let machine = Machine::new();
        let place = place::inspect(&machine, dir.path(), "t").unwrap();
        let mut plan = plan::decide(&spec(dir.path(), 3_600_000_000_000), &place, 1).unwrap();
        plan.steps.iter_mut().for_each(|step| {
            let visit = step.visit().stop;
            (step.stop.max_ns, step.visits) = (6 * visit.max_ns, 6);
        });
        let (duration_ns, round_max_ns) = (3_000_000_000, 100_000_000);
        plan.over = Some(LongCheckPlan { duration_ns, rounds: 6, round_max_ns, busy_max_ns: u64::MAX / 2 });
        let cancel = AtomicBool::new(false);
        let context = RunContext {
            id: "0123456789ab".to_owned(),
            command: Vec::new(),
            machine: &machine,
            cancel: &cancel,
            more_visits: &|_, _, _| Vec::new(),
            witness: None,
        };
        let mut kept = Kept { begun: Vec::new(), rounds: Vec::new(), stop_after: 2, cancel: &cancel };
        let (first, failure) = execute_long_check(plan.clone(), &context, &mut Unwatched, &mut kept, None).unwrap();
        assert!(failure.is_none() && first.is_unfinished(), "{failure:?}");
        assert_eq!((kept.begun.len(), kept.rounds.len()), (1, 2));

        let third_ends_ns = plan.over.unwrap().part_end_ns(2);
        std::thread::sleep(Duration::from_nanos(third_ends_ns.saturating_sub(first.elapsed_ns)));
        cancel.store(false, Ordering::Relaxed);
        let prepare_max_ns = plan.target.prepare_max_ns;
        // A start that fails at once costs no more than it took; nine of them had used up the run.
        let mut nowhere = plan.clone();
        nowhere.target.path = dir.path().join("nowhere");
        assert!(execute_long_check(nowhere, &context, &mut Unwatched, &mut kept, Some(first.clone())).is_err());
        assert!(kept.begun.len() == 3 && kept.begun[2].busy_ns < prepare_max_ns / 2, "{:?}", kept.begun);
        let (whole, failure) =
            execute_long_check(plan, &context, &mut Unwatched, &mut kept, Some(first.clone())).unwrap();
        assert!(failure.is_none() && !whole.interrupted, "{failure:?}");
        assert_eq!(kept.begun.len(), 5, "kept before it writes its file again, and after");
        let (most, spent) = (kept.begun[3], kept.begun[4]);
        assert_eq!((most.busy_ns, most.written), (prepare_max_ns, Bytes::mib(16)), "a kill meanwhile loses no use");
        assert!(spent.busy_ns < most.busy_ns && spent.at_ns == most.at_ns);
        let over = whole.over.as_ref().unwrap();
        let numbers: Vec<u32> = over.rounds.iter().map(|round| round.number).collect();
        assert_eq!(numbers[..2], [0, 1]);
        assert!(numbers[2] >= 3 && numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
        assert_eq!((over.starts.len(), over.resumed()), (2, 1));
        assert!(
            over.starts.iter().all(|start| start.written == Bytes::mib(16) && start.busy_ns > 0),
            "each wrote the file"
        );
        let ends: Vec<u64> = (0..6).map(|number| whole.plan.over.unwrap().part_end_ns(number)).collect();
        for round in &over.rounds[1..] {
            let at_ns = round.used.at_ns;
            assert!(at_ns < ends[round.number as usize], "round {} at {at_ns} ns", round.number);
        }
        // All that the rounds measured is in the whole, each visit as one interval.
        for step in &whole.steps {
            let visits = kept.rounds.iter().flat_map(|round| &round.steps).filter(|visit| visit.name == step.name);
            let of_visits: u64 = visits.flat_map(|visit| &visit.streams).map(|stream| stream.lat.count()).sum();
            let of_step: u64 = step.streams.iter().map(|stream| stream.lat.count()).sum();
            assert_eq!((of_step, step.intervals.len()), (of_visits, over.rounds.len()), "{}", step.name);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
    }
}
