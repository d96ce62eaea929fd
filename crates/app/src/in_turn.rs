//! The procedure of a run that measures two places in turn: like that of a session, with two of everything except the
//! time.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use qd1_analysis::compare::{Group, Pairs};
use qd1_model::plan::{EngineChoice, InTurn, Plan};
use qd1_model::spec::{Effort, Spec};
use qd1_model::suggest::nearest;
use qd1_model::units::format_span_ns;
use qd1_model::{Bytes, Problem, ProblemKind, Record, Subject, printable, printable_lines};
use qd1_probe::Machine;
use qd1_runner::in_turn::{MeasuredInTurn, as_one, execute_in_turn, plans_in_turn};
use qd1_runner::place::Place;
use qd1_runner::{RunContext, id, plan};

use crate::args::DestinationArgs;
use crate::bounds::Bounds;
use crate::command_line::CommandLine;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::suite_job::builtin;
use crate::{message, output, session, terminal};

/// What is measured in turn, and how.
pub(crate) struct Request<'a> {
    pub(crate) typed: &'a CommandLine,
    pub(crate) paths: [&'a Path; 2],
    pub(crate) effort: Effort,
    pub(crate) size: Option<Bytes>,
    pub(crate) runtime_ns: Option<u64>,
    pub(crate) only: &'a [String],
    pub(crate) engine: Option<EngineChoice>,
    pub(crate) seed: Option<u64>,
    pub(crate) dry_run: bool,
    pub(crate) leave_free: Option<Bytes>,
    pub(crate) in_memory: bool,
    pub(crate) no_save: bool,
    pub(crate) quiet: bool,
    /// Steps that limits name; each of them must be measured.
    pub(crate) limited: Vec<&'a str>,
    pub(crate) to: &'a DestinationArgs,
}

/// The outcome.
pub(crate) enum Outcome {
    /// Both places were measured.
    Measured(Box<Measured>),
    /// Nothing was measured: it was a dry run, or was stopped.
    Over(ExitCode),
}

/// Two runs that were measured in turn, ready to be compared.
pub(crate) struct Measured {
    pub(crate) groups: [Group; 2],
    pub(crate) pairs: Pairs,
    /// Whether a step or a request failed.
    pub(crate) has_failed: bool,
}

/// Measures both places in turn, and keeps their runs.
///
/// # Errors
/// When a place cannot be measured; the message says what to do.
pub(crate) fn measure(request: &Request<'_>) -> Result<Outcome> {
    session::needs_proc()?;
    let ids = [id::random_id()?, id::random_id()?];
    let machine = Machine::new();
    let [first, second] = request.paths;
    let mut places = [
        session::inspect(request.typed, &machine, first, &ids[0])?,
        session::inspect(request.typed, &machine, second, &ids[1])?,
    ];
    places.iter_mut().for_each(|place| place.leave_free = request.leave_free);
    places.iter().try_for_each(|place| session::refuse_memory(place, request.in_memory))?;
    share_space(&mut places);
    let seed = request.seed.unwrap_or_else(|| id::seed_of(&ids[0]));
    let plans = plans_in_turn(plans(request, &places, seed)?);
    if plans.iter().any(|turns| turns.visits.is_empty()) {
        let message = "the two places have no step in common; choose two directories, or two devices";
        return Err(Problem::usage(message).into());
    }
    knows_all(&plans[0].plan, &request.limited)?;
    places.iter().for_each(|place| session::note_place(&machine, &place.path));
    request.to.output.iter().try_for_each(|path| output::check_destination(path))?;
    if request.dry_run {
        let text = qd1_report::fitted(&dry_run(&plans), terminal::columns(std::io::stdout()));
        output::write(request.to, &printable_lines(&text))?;
        return Ok(Outcome::Over(ExitCode::SUCCESS));
    }
    let store = if request.no_save { None } else { session::open_store() };
    let signals = Signals::install()?;
    let command = command(request, &places, seed);
    let context = |id: &String| RunContext {
        id: id.clone(),
        command: command.clone(),
        machine: &machine,
        cancel: signals.stop(),
        // Both places are visited equally often.
        more_visits: &|_, _, _| Vec::new(),
        witness: None,
    };
    let contexts = [context(&ids[0]), context(&ids[1])];
    let mut progress = Progress::new(request.quiet);
    let measured = execute_in_turn(plans, [&contexts[0], &contexts[1]], &mut progress)?;
    drop(progress);
    let Some(MeasuredInTurn { runs, pairs }) = measured else {
        message::print("qd1: stopped before both places were measured");
        let code = signals.exit_code().unwrap_or(ProblemKind::Failed.exit_code());
        return Ok(Outcome::Over(ExitCode::from(code)));
    };
    let bounds = Bounds::of_run(Subject::Check, None)?;
    let mut has_failed = false;
    let [first, second] = names(&places);
    let mut group = |(record, files): (Record, qd1_runner::RunFiles), name: String| -> Result<Group> {
        has_failed |= session::has_failed(&record);
        let is_kept = store.as_ref().is_some_and(|store| session::keep(store, &record));
        drop(files);
        let report = bounds.judge(record, false)?;
        let run = session::measured_of(&report);
        if let Some(store) = store.as_ref().filter(|_| is_kept) {
            session::note(store, &report);
            session::note_measured(store, &report.record, &run);
        }
        Ok(Group { name, runs: vec![run] })
    };
    let [of_first, of_second] = runs;
    let groups = [group(of_first, first)?, group(of_second, second)?];
    Ok(Outcome::Measured(Box::new(Measured { groups, pairs: Pairs::new(&pairs), has_failed })))
}

/// Refuses a limit on a step that is not measured, before anything is measured.
fn knows_all(plan: &Plan, limited: &[&str]) -> Result<()> {
    let Some(unknown) = limited.iter().find(|name| plan.step(name).is_none()) else { return Ok(()) };
    let names: Vec<&str> = plan.steps.iter().map(|step| step.name.as_str()).collect();
    let hint = match nearest(unknown, names.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("the steps are {}", names.join(", ")),
    };
    Err(Problem::usage(format!("--fail-if: step {} is not measured; {hint}", printable(unknown))).into())
}

/// Gives each of two places on the same filesystem half of its space.
fn share_space(places: &mut [Place; 2]) {
    let device = |place: &Place| std::fs::metadata(&place.path).map(|found| found.dev()).ok();
    if device(&places[0]).is_none() || device(&places[0]) != device(&places[1]) {
        return;
    }
    for place in places {
        let space = plan::space(place);
        place.filesystem.available = Bytes(space.free - space.usable / 2);
    }
}

/// Plans both places, with test files of the same size.
fn plans(request: &Request<'_>, places: &[Place; 2], seed: u64) -> Result<[Plan; 2]> {
    let decide = |place: &Place, path: &Path, size: Option<Bytes>| {
        let spec = Spec {
            suite: builtin("check")?,
            path: path.to_owned(),
            effort: request.effort,
            size,
            runtime_ns: request.runtime_ns,
            only: request.only.to_vec(),
            engine: request.engine,
            seed: Some(seed),
            destroy: None,
            with_load: false,
            over_ns: None,
        };
        plan::decide(&spec, place, seed)
    };
    let both = |size: Option<Bytes>| -> Result<[Plan; 2]> {
        Ok([decide(&places[0], request.paths[0], size)?, decide(&places[1], request.paths[1], size)?])
    };
    let plans = both(request.size)?;
    let least = plans[0].target.size.min(plans[1].target.size);
    let is_same = plans.iter().all(|plan| plan.target.size == least);
    if is_same { Ok(plans) } else { both(Some(least)) }
}

/// Describes what would be done at both places.
fn dry_run(plans: &[InTurn; 2]) -> String {
    let [first, second] = [&plans[0].plan, &plans[1].plan];
    let whole = as_one([first, second]);
    let writes = Bytes(first.writes_max().0.saturating_add(second.writes_max().0));
    let again = if second.target.path == first.target.path {
        format!("and the same again in {}, alternating visit by visit\n", second.target.path.display())
    } else {
        format!("and, alternating visit by visit:\n{}", qd1_report::plan::dry_run(second))
    };
    format!(
        "{}{again}both      at most {}, and at most {writes} written\n",
        qd1_report::plan::dry_run(first),
        format_span_ns(whole.longest_ns()),
    )
}

/// The command that does the same from any directory.
fn command(request: &Request<'_>, places: &[Place; 2], seed: u64) -> Vec<String> {
    let mut command: Vec<String> = ["qd1", "compare", "--in-turn"].map(str::to_owned).into();
    command.extend(places.iter().map(|place| place.path.to_string_lossy().into_owned()));
    match request.effort {
        Effort::Quick => command.push("--quick".to_owned()),
        Effort::Full => command.push("--full".to_owned()),
        Effort::Default => {}
    }
    if !request.only.is_empty() {
        command.extend(["--only".to_owned(), request.only.join(",")]);
    }
    command.extend(request.runtime_ns.iter().flat_map(|ns| ["--runtime".to_owned(), format!("{ns}ns")]));
    command.extend(request.leave_free.iter().flat_map(|size| ["--leave-free".to_owned(), size.0.to_string()]));
    command.extend(request.size.iter().flat_map(|size| ["--size".to_owned(), size.0.to_string()]));
    if request.in_memory {
        command.push("--in-memory".to_owned());
    }
    if let Some(EngineChoice::Kind(kind)) = request.engine {
        command.extend(["--engine".to_owned(), kind.name().to_owned()]);
    }
    command.extend(["--seed".to_owned(), seed.to_string()]);
    command
}

/// Returns names that tell the places apart.
fn names(places: &[Place; 2]) -> [String; 2] {
    let words = [0, 1].map(|side| places[side].path.to_string_lossy().into_owned());
    match qd1_runs::find::names(&words).as_slice() {
        [first, second] if first != second => [first.clone(), second.clone()],
        _ => ["first", "second"].map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &Path, gib: u64) -> Place {
        let machine = Machine::new();
        let mut place = qd1_runner::place::inspect(&machine, path, "0123456789ab").unwrap();
        (place.filesystem.size, place.filesystem.available) = (Bytes(100 << 30), Bytes(gib << 30));
        place
    }

    /// Two test files on one filesystem share its space, and the space to leave free counts once.
    #[test]
    fn two_places_on_one_filesystem_share_its_space() {
        let dir = tempfile::tempdir().unwrap();
        let mut places = [place(dir.path(), 24), place(dir.path(), 24)];
        let before = plan::space(&places[0]);
        share_space(&mut places);
        let after = places.iter().map(|place| plan::space(place).usable).sum::<u64>();
        assert_eq!((after, plan::space(&places[0]).leave), (before.usable, before.leave));
    }

    #[test]
    fn places_of_the_same_name_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let same = [place(dir.path(), 24), place(dir.path(), 24)];
        assert_eq!(names(&same), ["first", "second"]);
        let [one, two] = ["old", "new"].map(|name| dir.path().join(name));
        [&one, &two].iter().for_each(|path| std::fs::create_dir(path).unwrap());
        assert_eq!(names(&[place(&one, 24), place(&two, 24)]), ["old", "new"]);
    }
}
