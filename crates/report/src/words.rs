//! How figures and verdicts are worded, the same in every format that people read.
//!
//! It enforces that no figure is printed without its 95 % interval and sample count.

use qd1_model::metric::{Better, Metric, Unit, metric};
use qd1_model::op::{Ended, OpClass};
use qd1_model::plan::criterion::Criterion;
use qd1_model::units::format_rate_binary;
use qd1_model::verdict::Judged;
use qd1_model::{Estimate, Grade, LoadSummary, Report, Severity, StepSummary, Subject, Verdict};

/// Formats `48211` as `48,211`.
#[must_use]
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a needed number of samples: `~3,700`, `~120k`. It is a guide, so large ones are rounded.
pub(crate) fn about(n: u64) -> String {
    match n {
        0..10_000 => format!("~{}", thousands(n)),
        10_000..1_000_000 => format!("~{}k", thousands(n.div_ceil(1000))),
        // Short enough for a column of the steps table.
        1_000_000..10_000_000 => format!("~{:.1}M", n.div_ceil(100_000) as f64 / 10.0),
        _ => format!("~{}M", thousands(n.div_ceil(1_000_000))),
    }
}

/// Returns the divisor with which a value is printed, so that its interval is printed in the same unit.
fn scale(unit: Unit, value: f64) -> f64 {
    match unit {
        Unit::PerSecond if value < 999.5 => 1.0,
        Unit::PerSecond if value < 999.5e3 => 1e3,
        Unit::PerSecond => 1e6,
        Unit::Share => 0.01,
        _ if value < 999.5 => 1.0,
        _ if value < 999.5e3 => 1e3,
        _ if value < 999.5e6 => 1e6,
        _ => 1e9,
    }
}

/// Formats a value with three significant digits.
fn digits(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        v if v < 0.0995 => format!("{v:.3}"),
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v if v < 9_995.0 => format!("{v:.0}"),
        // The end of an interval that spans orders of magnitude still fits its column.
        v if v < 999.5e3 => format!("{:.0}k", v / 1e3),
        v => format!("{:.0}M", v / 1e6),
    }
}

/// Returns the 95 % interval in the unit of its figure: `[1.19..1.31]`; `?` for an end that n samples do not resolve.
pub(crate) fn interval(unit: Unit, estimate: &Estimate) -> String {
    estimate.value.map_or_else(String::new, |value| interval_by(scale(unit, value), estimate))
}

fn interval_by(divisor: f64, estimate: &Estimate) -> String {
    let end = |end: Option<f64>| end.map_or_else(|| "?".into(), |end| digits(end / divisor));
    // Not a useful bound: the calculation has an end, but one that is of no use.
    let is_endless = |high: f64| estimate.value.is_some_and(|value| value > 0.0 && high > 1e4 * value);
    match (estimate.low, estimate.high.filter(|high| !is_endless(*high))) {
        (None, None) => "no interval".into(),
        (low, high) => format!("[{}..{}]", end(low), end(high)),
    }
}

/// Returns a moment in `zone`: `2026-11-26 10:04`.
pub(crate) fn when(unix_ns: u64, zone: &jiff::tz::TimeZone) -> String {
    match jiff::Timestamp::from_nanosecond(unix_ns.into()) {
        Ok(time) => time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string(),
        Err(_) => "?".to_owned(),
    }
}

/// Returns a figure and its interval, or why there is none: `1.24 ms [1.19..1.31]`.
pub(crate) fn figure(unit: Unit, estimate: &Estimate) -> String {
    match estimate.value {
        Some(value) => format!("{} {}", worded(unit, value), interval(unit, estimate)),
        None => "not resolved".into(),
    }
}

/// Width of an interval, as a factor, from which its ends say more than the value in it.
const WIDE: f64 = 1.5;

/// Returns what is known of a figure, in few words: `1.24 ms`, `30 to 60 ms`, `above 31.6 ms`.
pub(crate) fn known(unit: Unit, estimate: &Estimate) -> String {
    match (estimate.value, estimate.low, estimate.high) {
        (_, Some(low), Some(high)) if low > 0.0 && high > WIDE * low => range(unit, low, high),
        (Some(value), ..) => worded(unit, value),
        (None, Some(low), _) => format!("above {}", two_digits(unit, low)),
        (None, None, Some(high)) => format!("below {}", two_digits(unit, high)),
        (None, None, None) => "not known".to_owned(),
    }
}

/// Returns the two ends of what is known of a figure: `30 to 60 ms`.
pub(crate) fn range(unit: Unit, low: f64, high: f64) -> String {
    let (from, to) = (two_digits(unit, low), two_digits(unit, high));
    let is_one_unit = from.split_once(' ').zip(to.split_once(' ')).is_some_and(|((_, a), (_, b))| a == b);
    let from = if is_one_unit { from.split(' ').next().unwrap_or_default().to_owned() } else { from };
    format!("{from} to {to}")
}

/// A number with two digits: it is too uncertain for a third.
fn two_digits(unit: Unit, value: f64) -> String {
    let shown = worded(unit, value);
    match shown.split_once(' ') {
        Some((number, unit)) => match number.parse::<f64>() {
            Ok(number) if number >= 10.0 => format!("{number:.0} {unit}"),
            Ok(number) => format!("{number:.1} {unit}"),
            Err(_) => shown,
        },
        None => shown,
    }
}

/// Returns the sample count, and how many are needed if they are too few.
pub(crate) fn samples(estimate: &Estimate) -> String {
    let n = thousands(estimate.n);
    match estimate.value {
        None if estimate.n_needed > 0 => {
            format!("n={n}, needs about {}", about(estimate.n_needed).trim_start_matches('~'))
        }
        _ => format!("n={n}"),
    }
}

/// Returns a figure with interval and sample count: `1.24 ms [1.19..1.31], n=48,211`, or
/// `not resolved: n=300, needs about 3,700`.
pub(crate) fn whole(unit: Unit, estimate: &Estimate) -> String {
    let between = if estimate.is_resolved() { "," } else { ":" };
    format!("{}{between} {}", figure(unit, estimate), samples(estimate))
}

/// Returns a throughput in binary units, in which providers state some of their caps; `None` if no bytes were moved.
pub(crate) fn binary(estimate: &Estimate) -> Option<(String, String)> {
    let value = estimate.value.filter(|value| *value > 0.0)?;
    let divisor = match value / 1024.0 {
        v if v < 1023.5 => 1024.0,
        v if v < 1023.5 * 1024.0 => 1024.0 * 1024.0,
        _ => 1024.0 * 1024.0 * 1024.0,
    };
    Some((format_rate_binary(value), interval_by(divisor, estimate)))
}

/// Formats a value for a sentence, unlike one in a column: operations per second have their unit.
pub(crate) fn worded(unit: Unit, value: f64) -> String {
    match unit {
        Unit::PerSecond => format!("{}/s", unit.format(value)),
        _ => unit.format(value),
    }
}

/// Formats a threshold without false precision: `10 ms`, `5,000/s`, `200 MB/s`.
pub(crate) fn threshold(unit: Unit, value: f64) -> String {
    if unit == Unit::PerSecond {
        return format!("{}/s", thousands(value.round() as u64));
    }
    let text = unit.format(value);
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

/// Returns the bounds of a threshold: `pass up to 2 ms, fail above 10 ms`.
pub(crate) fn limits(criterion: &Criterion) -> String {
    let Some(Metric { unit, better, .. }) = metric(&criterion.metric) else {
        return format!("pass at {}, fail beyond {}", criterion.pass, criterion.fail);
    };
    let [mut pass, fail] = [criterion.pass, criterion.fail].map(|value| threshold(*unit, value));
    if let Some(published) = criterion.published {
        let (percent, less) = (100.0 * (1.0 - criterion.pass / published), ["less", "more"]);
        let less = if percent > 0.0 { less[0] } else { less[1] };
        let (percent, published) = (percent.abs().round(), threshold(*unit, published));
        pass = format!("{published} ({pass}, {percent:.0} % {less}, counts)");
    }
    match (better, criterion.pass == criterion.fail) {
        (Better::Lower, true) => format!("at most {pass}"),
        (Better::Higher, true) => format!("at least {pass}"),
        (Better::Lower, false) => format!("pass up to {pass}, fail above {fail}"),
        (Better::Higher, false) => format!("pass from {pass}, fail below {fail}"),
    }
}

/// Returns a criterion's figure in words: `wal: sync p99 12.4 ms [11.9..13.0], n=4,211`.
pub(crate) fn judged(judged: &Judged) -> String {
    let Criterion { step, op, metric: name, .. } = &judged.criterion;
    let metric = metric(name);
    let title = metric.map_or(name.as_str(), |metric| metric.title);
    // `commit1: p99`, not `commit1 commit: p99`; a sync is part of a commit in any case.
    let is_plain = step.contains(op.name()) || name.starts_with("sync_");
    let mut text = if is_plain { format!("{step}:") } else { format!("{step} {}:", op.name()) };
    if metric.is_none_or(|metric| metric.unit != Unit::PerSecond) {
        text += &format!(" {title}");
    }
    let why = judged.why.as_str();
    match (&judged.figure, metric) {
        (Some(estimate), _) if !estimate.is_resolved() && judged.grade == Grade::NotResolved && !why.is_empty() => {
            text += &format!(" not resolved: {why}");
        }
        (Some(estimate), Some(metric)) => {
            text += &match binary(estimate).filter(|_| metric.unit == Unit::BytesPerSecond) {
                Some((binary, _)) => format!(" {} = {binary}, {}", figure(metric.unit, estimate), samples(estimate)),
                None => format!(" {}", whole(metric.unit, estimate)),
            };
            // A failure shown by a bound alone, or a figure affected by errors.
            if !why.is_empty() {
                text += &format!("; {why}");
            }
        }
        _ if why.is_empty() => text += " was not measured",
        _ => text = format!("{}: {why}", text.trim_end_matches(':')),
    }
    text
}

/// Returns the criteria that decided the class's grade; of a class that passes, its first criterion.
pub(crate) fn deciding(verdict: &Verdict) -> Vec<&Judged> {
    let same = verdict.judged.iter().filter(|judged| judged.grade == verdict.grade);
    same.take(if verdict.grade == Grade::Pass { 1 } else { usize::MAX }).collect()
}

/// Returns the results of the other criteria: `other criteria: 2 passed`; empty when there are none.
pub(crate) fn others(verdict: &Verdict) -> String {
    let shown = deciding(verdict).len();
    let rest: Vec<_> = [Grade::Fail, Grade::NotResolved, Grade::Marginal, Grade::Pass]
        .into_iter()
        .filter_map(|grade| {
            let all = verdict.judged.iter().filter(|judged| judged.grade == grade).count();
            let count = if grade == verdict.grade { all - shown } else { all };
            let word = match grade {
                Grade::Pass => "passed",
                Grade::Marginal => "marginal",
                Grade::Fail => "failed",
                Grade::NotResolved => "not resolved",
            };
            (count > 0).then(|| format!("{count} {word}"))
        })
        .collect();
    if rest.is_empty() { String::new() } else { format!("other criteria: {}", rest.join(", ")) }
}

/// Returns true if the run is a check, which has classes of workload and its own order of sections.
pub(crate) fn is_check(report: &Report) -> bool {
    report.record.plan.subject == Subject::Check
}

/// Returns a number of steps in words.
pub(crate) fn steps(count: usize) -> String {
    if count == 1 { "1 step".into() } else { format!("{count} steps") }
}

/// Joins words to a list: `a, b and c`.
pub(crate) fn join(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Returns the plural of a kind of operation.
pub(crate) const fn plural(class: OpClass) -> &'static str {
    match class {
        OpClass::Read => "reads",
        OpClass::Write => "writes",
        OpClass::Trim => "trims",
        OpClass::Flush => "flushes",
        OpClass::Commit => "commits",
        OpClass::Create => "creates",
        OpClass::Stat => "stats",
        OpClass::Delete => "deletes",
        OpClass::Open => "opens",
        OpClass::List => "lists",
        OpClass::Rename => "renames",
        OpClass::Link => "links",
        OpClass::Rewrite => "rewrites",
        OpClass::Seek => "seeks",
        OpClass::Transaction => "transactions",
        OpClass::Mixed => "operations",
    }
}

/// Returns why a step ended.
pub(crate) const fn ended(ended: Ended) -> &'static str {
    match ended {
        Ended::Time => "time limit",
        Ended::Precise => "precise",
        Ended::Done => "all done",
        Ended::Interrupted => "INTERRUPTED",
        Ended::Failed => "FAILED",
    }
}

/// Returns a severity as the word that is shown in colour.
pub(crate) const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    }
}

/// Most names that are listed; of a longer list only the first are, and the others are counted.
const NAMES_MAX: usize = 8;

/// Returns a finding's step and certainty: `seen in commit1, very likely`. In words, since nobody counted how often a
/// finding of each certainty is right.
pub(crate) fn certainty(finding: &qd1_model::Finding) -> String {
    let sure = match finding.confidence {
        0.995.. => "certain",
        0.9.. => "very likely",
        0.7.. => "likely",
        _ => "possible",
    };
    match (finding.step.as_str(), finding.also_in.as_slice()) {
        ("", _) => sure.to_owned(),
        (step, []) => format!("seen in {step}, {sure}"),
        (step, others) => format!("seen in {step}, less in {}, {sure}", some(others)),
    }
}

/// Returns the names, or the first few of many.
pub(crate) fn some<S: AsRef<str>>(names: &[S]) -> String {
    let shown = if names.len() > NAMES_MAX { NAMES_MAX - 2 } else { names.len() };
    let listed = names[..shown].iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    match names.len() - shown {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

/// Returns the background load of a step: `33.5 MB/s written, 499 reads/s`; empty if there was none.
pub(crate) fn load(step: &StepSummary) -> String {
    let one = |load: &LoadSummary| match load.class {
        OpClass::Write => format!("{} written", Unit::BytesPerSecond.format(load.bytes_per_second)),
        class => format!("{:.0} {}s/s", load.iops, class.name()),
    };
    step.background.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Returns why a step could not run, or its failed requests by error name; empty when nothing failed.
pub(crate) fn errors(report: &Report, step: &StepSummary) -> String {
    let Some(record) = report.record.step(&step.name).filter(|record| step.errors > 0 || !record.fault.is_empty())
    else {
        return String::new();
    };
    if step.errors == 0 {
        return record.fault.clone();
    }
    let kinds: Vec<_> = record.errors.iter().map(|e| format!("{} x {}", e.error, thousands(e.count))).collect();
    let of = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
    let fault = if record.fault.is_empty() { String::new() } else { format!("{}; ", record.fault) };
    format!("{fault}{} requests failed{of}; their time is not in these figures", thousands(step.errors))
}

/// Returns the steps without figures, with their reasons; those with the same reason together.
pub(crate) fn not_run(report: &Report) -> Vec<String> {
    let plan = &report.record.plan;
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for skipped in &plan.skipped {
        match reasons.iter_mut().find(|(why, _)| *why == skipped.why) {
            Some((_, names)) => names.push(&skipped.name),
            None => reasons.push((&skipped.why, vec![&skipped.name])),
        }
    }
    let skipped = reasons.iter().map(|(why, names)| format!("{}: {why}", names.join(", ")));
    let ran = |name: &str| report.summary.steps.iter().any(|step| step.name == name);
    let never: Vec<_> = plan.steps.iter().map(|step| step.name.as_str()).filter(|name| !ran(name)).collect();
    let why = if report.record.interrupted { "the run was interrupted before" } else { "not reached" };
    let never = (!never.is_empty()).then(|| format!("{}: {why}", never.join(", ")));
    skipped.chain(never).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(value: f64, low: f64, high: f64) -> Estimate {
        Estimate { low: Some(low * 1e6), high: Some(high * 1e6), ..Estimate::exact(value * 1e6, 48_211) }
    }

    #[test]
    fn a_percentile_is_never_a_bare_number() {
        assert_eq!(whole(Unit::Ns, &ms(1.24, 1.19, 1.31)), "1.24 ms [1.19..1.31], n=48,211");
        let unresolved = Estimate { n: 300, n_needed: 3_700, ..Estimate::default() };
        assert_eq!(whole(Unit::Ns, &unresolved), "not resolved: n=300, needs about 3,700");
    }

    #[test]
    fn an_interval_is_printed_in_the_unit_of_its_figure() {
        assert_eq!(interval(Unit::Ns, &ms(1.02, 0.94, 1.31)), "[0.94..1.31]");
        assert_eq!(interval(Unit::Ns, &ms(980e-3, 0.9, 1.1)), "[900..1100]");
        assert_eq!(
            interval(Unit::PerSecond, &Estimate { low: Some(7_900.0), ..Estimate::exact(8_020.0, 9) }),
            "[7.90..8.02]"
        );
        assert_eq!(interval(Unit::Ns, &Estimate { high: None, ..ms(12.4, 11.9, 0.0) }), "[11.9..?]");
        // Of 4.2 MB/s, in a step of which a machine left a moment.
        let wide = Estimate { low: Some(29.9), high: Some(150_536.0), ..Estimate::exact(420.0, 572) };
        assert_eq!(interval(Unit::BytesPerSecond, &wide), "[29.9..151k]");
    }

    #[test]
    fn a_cap_is_quoted_in_both_units_and_they_are_named() {
        let (text, range) =
            binary(&Estimate { low: Some(390e6), high: Some(410e6), ..Estimate::exact(400e6, 9) }).unwrap();
        assert_eq!((text.as_str(), range.as_str()), ("381 MiB/s", "[372..391]"));
    }

    #[test]
    fn thresholds_are_written_without_false_precision() {
        assert_eq!(threshold(Unit::Ns, 10e6), "10 ms");
        assert_eq!(threshold(Unit::Ns, 0.3e6), "300 us");
        assert_eq!(threshold(Unit::PerSecond, 5e3), "5,000/s");
        assert_eq!(threshold(Unit::BytesPerSecond, 200e6), "200 MB/s");
    }

    #[test]
    fn a_single_bound_is_one_text_and_a_tolerance_is_shown() {
        let like = crate::samples::slow_vps().verdicts[3].judged[0].criterion.clone();
        let of = |pass: f64, fail: f64, published: Option<f64>| {
            limits(&Criterion { metric: "bytes_per_second".into(), pass, fail, published, ..like.clone() })
        };
        assert_eq!(of(200e6, 200e6, None), "at least 200 MB/s");
        assert_eq!(of(190e6, 190e6, Some(200e6)), "at least 200 MB/s (190 MB/s, 5 % less, counts)");
        assert_eq!(
            of(285e6, 190e6, Some(300e6)),
            "pass from 300 MB/s (285 MB/s, 5 % less, counts), fail below 190 MB/s"
        );
    }

    #[test]
    fn a_failure_by_a_bound_alone_is_explained() {
        let mut judged = crate::samples::slow_vps().verdicts[1].judged[1].clone();
        assert_eq!(super::judged(&judged), "commit4: p99 not resolved: too few samples: n=812, needs about 1000");
        judged.grade = Grade::Fail;
        judged.why = "already p50 is at least 35.1 ms".into();
        let text = super::judged(&judged);
        assert_eq!(text, "commit4: p99 not resolved: n=812, needs about 1,000; already p50 is at least 35.1 ms");
    }

    #[test]
    fn numbers_of_samples_are_readable() {
        assert_eq!(
            (thousands(48_211), thousands(999), thousands(1_000_000)),
            ("48,211".into(), "999".into(), "1,000,000".into())
        );
        assert_eq!([3_700, 120_400, 1_511_000, 29_000_000].map(about), ["~3,700", "~121k", "~1.6M", "~29M"]);
    }
}
