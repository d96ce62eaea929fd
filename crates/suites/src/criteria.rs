//! Criteria: what a suite expects of its steps, each with its bound and its source.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use qd1_model::Bytes;
use qd1_model::metric::{Better, METRICS, Metric, Unit, metric};
use qd1_model::op::OpClass;
use qd1_model::plan::criterion::Criterion;
use qd1_model::spec::Job;
use qd1_model::suggest::nearest;
use qd1_model::units::parse_duration_ns;

use super::axes::{Step, written};
use super::keys::{self, Fault};

/// Returns one criterion for each step and kind of operation that the `[[job.criterion]]` in `table` applies to.
pub(super) fn spread(
    table: &Spanned<DeValue<'_>>,
    steps: &[Step<'_>],
    suite_source: &str,
    text: &str,
) -> Result<Vec<Criterion>, Fault> {
    let at = table.span();
    let Some(keys) = table.get_ref().as_table() else {
        return Err(Fault::new(at, "criterion must be a table; start it with [[job.criterion]]"));
    };
    keys::check(keys, keys::CRITERION, "[[job.criterion]]")?;
    let metric = which_metric(keys, &at)?;
    let Some(bound) = keys.get("bound") else {
        return Err(Fault::new(at, "a criterion needs a bound, such as bound = \">= 5000\""));
    };
    let published = bound_of("bound", bound, metric)?;
    let tolerance = tolerance(keys, text)?;
    let pass = match metric.better {
        Better::Lower => published * (1.0 + tolerance),
        Better::Higher => published * (1.0 - tolerance),
    };
    let fail = match keys.get("marginal") {
        None => pass,
        Some(marginal) => {
            let fail = bound_of("marginal", marginal, metric)?;
            let stricter = if metric.better == Better::Lower { fail < pass } else { fail > pass };
            if stricter {
                return Err(Fault::new(
                    marginal.span(),
                    "marginal is stricter than the bound; it must be more lenient",
                ));
            }
            fail
        }
    };
    let source = text_of(keys, "source")?.unwrap_or_else(|| suite_source.to_owned());
    if source.trim().is_empty() {
        return Err(Fault::new(
            at,
            "a criterion needs a source, its own or the suite's; state where the figure comes from",
        ));
    }
    let template = Criterion {
        step: String::new(),
        op: OpClass::Read,
        metric: metric.name.to_owned(),
        pass,
        fail,
        published: (tolerance > 0.0).then_some(published),
        label: text_of(keys, "label")?.unwrap_or_default(),
        source,
    };
    let op = op(keys)?;
    let mut criteria = Vec::new();
    for step in steps {
        if !applies(keys.get("where"), step, text)? {
            continue;
        }
        let judged = ops(&step.job).into_iter().filter(|one| op.is_none_or(|op| op == *one));
        let judged = judged.filter(|op| has_metric(metric, *op));
        criteria.extend(judged.map(|op| Criterion { step: step.job.name.clone(), op, ..template.clone() }));
    }
    if criteria.is_empty() {
        let message = format!("no step of this job matches the criterion; check its op, its where and {}", metric.name);
        return Err(Fault::new(at, message));
    }
    Ok(criteria)
}

fn which_metric(keys: &DeTable<'_>, at: &std::ops::Range<usize>) -> Result<&'static Metric, Fault> {
    let names = || METRICS.iter().map(|metric| metric.name);
    let known = || names().collect::<Vec<_>>().join(", ");
    let Some(value) = keys.get("metric") else {
        return Err(Fault::new(at.clone(), format!("a criterion needs a metric, one of {}", known())));
    };
    let name = value.get_ref().as_str().unwrap_or_default();
    metric(name).ok_or_else(|| {
        let hint = nearest(name, names())
            .map_or_else(|| format!("choose from {}", known()), |m| format!("did you mean {m:?}?"));
        Fault::new(value.span(), format!("unknown metric {name:?}; {hint}"))
    })
}

/// Returns the text of a key; `None` when it is absent.
fn text_of(keys: &DeTable<'_>, key: &str) -> Result<Option<String>, Fault> {
    let Some(value) = keys.get(key) else { return Ok(None) };
    match value.get_ref().as_str() {
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(Fault::new(value.span(), format!("{key} must be a string in quotes"))),
    }
}

/// Reads a bound: `">= 5000"` for a metric where higher is better, `"<= 10ms"` where lower is.
fn bound_of(key: &str, value: &Spanned<DeValue<'_>>, metric: &Metric) -> Result<f64, Fault> {
    let (sign, example) = match (metric.better, metric.unit) {
        (Better::Lower, Unit::Share) => ("<=", "<= 1%"),
        (Better::Lower, _) => ("<=", "<= 10ms"),
        (Better::Higher, Unit::BytesPerSecond) => (">=", ">= 200MB/s"),
        (Better::Higher, _) => (">=", ">= 5000"),
    };
    let fault = |why: String| Fault::new(value.span(), format!("{why}; for example, write {key} = {example:?}"));
    let Some(text) = value.get_ref().as_str() else {
        return Err(fault(format!("{key} must be a string with {sign} and a figure")));
    };
    let Some(figure) = text.trim().strip_prefix(sign) else {
        let better = if metric.better == Better::Lower { "lower" } else { "higher" };
        return Err(fault(format!(
            "{key} = {text:?} does not begin with {sign}, and {} is better when {better}",
            metric.name
        )));
    };
    figure_of(metric.unit, figure.trim())
        .ok_or_else(|| fault(format!("{key} = {text:?} has no figure for {}", metric.name)))
}

/// Reads a figure, in the metric's unit unless it names another one.
fn figure_of(unit: Unit, text: &str) -> Option<f64> {
    let figure = match (text.replace('_', "").parse::<f64>(), unit) {
        (Ok(plain), _) => plain,
        (_, Unit::Ns) => parse_duration_ns(text).ok()? as f64,
        (_, Unit::PerSecond) => text.replace('_', "").strip_suffix("/s")?.trim().parse().ok()?,
        (_, Unit::BytesPerSecond) => text.strip_suffix("/s")?.parse::<Bytes>().ok()?.0 as f64,
        (_, Unit::Share) => text.strip_suffix('%')?.trim().parse::<f64>().ok()? / 100.0,
    };
    (figure.is_finite() && figure >= 0.0).then_some(figure)
}

/// Returns the tolerance as a share.
fn tolerance(keys: &DeTable<'_>, text: &str) -> Result<f64, Fault> {
    let Some(value) = keys.get("tolerance") else { return Ok(0.0) };
    let percent: f64 =
        if value.get_ref().is_str() { f64::NAN } else { written(value, text).parse().unwrap_or(f64::NAN) };
    if !(0.0..100.0).contains(&percent) {
        return Err(Fault::new(value.span(), "tolerance must be a percentage below 100, such as 5"));
    }
    Ok(percent / 100.0)
}

fn op(keys: &DeTable<'_>) -> Result<Option<OpClass>, Fault> {
    let Some(value) = keys.get("op") else { return Ok(None) };
    let name = value.get_ref().as_str().unwrap_or_default();
    let found = OpClass::ALL.into_iter().find(|op| op.name() == name);
    found.map(Some).ok_or_else(|| {
        let known = OpClass::ALL.map(OpClass::name).join(", ");
        Fault::new(value.span(), format!("unknown op {name:?}; choose from {known}"))
    })
}

/// Returns the kinds of operation in a job.
fn ops(job: &Job) -> Vec<OpClass> {
    let Some(rw) = job.rw else {
        let ops = job.files.as_ref().and_then(|files| files.ops.as_ref());
        let classes = ops.map(|ops| ops.iter().map(|op| op.class()).collect());
        return classes.unwrap_or_else(|| vec![OpClass::Create, OpClass::Stat, OpClass::Delete]);
    };
    let write = if job.sync.unwrap_or_default().commits() { OpClass::Commit } else { OpClass::Write };
    let mut ops = Vec::new();
    if rw.reads() && (!rw.writes() || job.rwmixread != Some(0)) {
        ops.push(OpClass::Read);
    }
    if rw.writes() && (!rw.reads() || job.rwmixread != Some(100)) {
        ops.push(write);
    }
    ops
}

/// Returns true if operations of this kind have the metric: only commits have a sync part, and some move no bytes.
fn has_metric(metric: &Metric, op: OpClass) -> bool {
    match metric.name {
        "sync_p50_ns" | "sync_p99_ns" => op == OpClass::Commit,
        "bytes_per_second" => !op.moves_nothing(),
        _ => true,
    }
}

/// Returns true if the step has the values in `filter`: for each key one value, or one of a list.
fn applies(filter: Option<&Spanned<DeValue<'_>>>, step: &Step<'_>, text: &str) -> Result<bool, Fault> {
    let Some(filter) = filter else { return Ok(true) };
    let Some(keys) = filter.get_ref().as_table() else {
        return Err(Fault::new(filter.span(), "where must be a table, such as { bs = \"4k\", iodepth = 1 }"));
    };
    let mut all = true;
    for (key, wanted) in keys {
        let name = key.get_ref().as_ref();
        let Some(has) = step.table.get(name) else {
            let known: Vec<&str> = step.table.keys().map(|key| key.get_ref().as_ref()).collect();
            let hint = nearest(name, known.iter().copied()).map_or(String::new(), |m| format!("; did you mean {m:?}?"));
            return Err(Fault::new(
                key.span(),
                format!("where names {name:?}, which neither the job nor its sweep sets{hint}"),
            ));
        };
        let same =
            |one: &Spanned<DeValue<'_>>| normalized(name, &written(one, text)) == normalized(name, &written(has, text));
        all &= match wanted.get_ref() {
            DeValue::Array(list) => list.iter().any(same),
            _ => same(wanted),
        };
    }
    Ok(all)
}

/// Returns a comparable form of a value: `4k`, `4KiB` and `4096` are the same size.
fn normalized(key: &str, text: &str) -> String {
    match (key, text.parse::<Bytes>()) {
        ("bs" | "size" | "io_size", Ok(bytes)) => bytes.0.to_string(),
        _ => text.to_owned(),
    }
}
