//! Limits of `--fail-if`: `commit1.p99 > +10%`.

use qd1_model::comparison::{Limit, Row};
use qd1_model::metric::{Better, METRICS, Metric};
use qd1_model::suggest::nearest;
use qd1_model::trend::FigureName;
use qd1_model::{Estimate, OpClass, Problem, printable};

/// Short names of metrics.
const SHORT: [(&str, &str); 11] = [
    ("p50", "lat_p50_ns"),
    ("p99", "lat_p99_ns"),
    ("p99.9", "lat_p999_ns"),
    ("p99.99", "lat_p9999_ns"),
    ("mean", "lat_mean_ns"),
    ("sync_p50", "sync_p50_ns"),
    ("sync_p99", "sync_p99_ns"),
    ("iops", "iops"),
    ("bw", "bytes_per_second"),
    ("throughput", "bytes_per_second"),
    ("stall_share", "stall_share"),
];

/// A limit on how much a figure may change.
#[derive(Clone, Debug)]
pub struct Condition {
    text: String,
    step: String,
    op: Option<OpClass>,
    metric: &'static Metric,
    /// Whether it is ratios above the limit that exceed it.
    is_upper: bool,
    limit: f64,
}

impl std::str::FromStr for Condition {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let wrong = |what: &str| Problem::usage(format!("{text:?} {what}; write it as 'commit1.p99 > +10%'"));
        let at = text.find(['<', '>']).ok_or_else(|| wrong("has no < or >"))?;
        let (figure, limit) = (text[..at].trim(), text[at + 1..].trim());
        let percent = limit.strip_suffix('%').ok_or_else(|| wrong("has a limit that is not in percent"))?;
        let percent: f64 = percent
            .trim()
            .parse()
            .map_err(|_| wrong("has a limit that is not a number; --fail-if may be given several times"))?;
        let limit = 1.0 + percent / 100.0;
        if !limit.is_finite() || limit <= 0.0 {
            return Err(wrong("has a limit that no ratio can reach"));
        }
        let (FigureName { step, op, .. }, metric) = named(figure).map_err(|what| wrong(&what))?;
        let is_upper = text.as_bytes()[at] == b'>';
        Ok(Self { text: text.to_owned(), step, op, metric, is_upper, limit })
    }
}

/// Returns the figure that is named as `commit1.p99`, or `paced.read.p99` if a step has several kinds of operation.
///
/// # Errors
/// If the name is wrong; the message says how.
pub fn figure_name(text: &str) -> Result<FigureName, Problem> {
    let found = named(text.trim()).map(|(name, _)| name);
    found.map_err(|what| Problem::usage(format!("{text:?} {what}; write it as 'commit1.p99'")))
}

fn named(figure: &str) -> Result<(FigureName, &'static Metric), String> {
    let (step, metric) = split(figure).ok_or("does not name a figure of a step")?;
    let known = || format!("does not name a metric: the known ones are {}", SHORT.map(|(short, _)| short).join(", "));
    let metric = metric_of(metric).ok_or_else(known)?;
    let class = step.rsplit_once('.').and_then(|(step, class)| {
        OpClass::ALL.into_iter().find(|known| known.name() == class).map(|known| (step, known))
    });
    let (step, op) = class.map_or((step, None), |(step, op)| (step, Some(op)));
    Ok((FigureName { step: step.to_owned(), op, metric: metric.name }, metric))
}

/// The step and the metric of `commit1.p99.9`.
fn split(figure: &str) -> Option<(&str, &str)> {
    let dots = figure.match_indices('.').map(|(at, _)| at);
    let mut ways = dots.map(|at| (&figure[..at], &figure[at + 1..]));
    let known = ways.clone().find(|(step, metric)| !step.is_empty() && metric_of(metric).is_some());
    known.or_else(|| ways.next_back()).filter(|(step, _)| !step.is_empty())
}

fn metric_of(name: &str) -> Option<&'static Metric> {
    let long = SHORT.iter().find(|(short, _)| *short == name).map_or(name, |(_, long)| long);
    METRICS.iter().find(|metric| metric.name == long)
}

impl Condition {
    /// Whether it applies to this row.
    pub(super) fn is_about(&self, row: &Row) -> bool {
        self.is_step_of(row) && row.metric == self.metric.name && self.op.is_none_or(|op| op == row.op)
    }

    /// Whether the operations of this row have its figure, even if no run of a side resolves it.
    pub(super) fn may_have_been(&self, row: &Row) -> bool {
        let is_latency = |name: &str| name.starts_with("lat_");
        self.is_step_of(row) && self.op.is_none_or(|op| op == row.op) && is_latency(self.metric.name)
    }

    /// The step that it names.
    #[must_use]
    pub fn step(&self) -> &str {
        &self.step
    }

    /// By any of its names.
    fn is_step_of(&self, row: &Row) -> bool {
        row.step == self.step || row.also.contains(&self.step)
    }

    /// Judges a ratio to the first side.
    pub(super) fn judge(&self, side: &str, ratio: Estimate, is_spoiled: bool) -> Limit {
        let is_of_better = self.is_upper == (self.metric.better == Better::Higher);
        let (is_beyond, is_within) = if is_spoiled {
            (false, false)
        } else if self.is_upper {
            (ratio.low.is_some_and(|low| low > self.limit), ratio.high.is_some_and(|high| high <= self.limit))
        } else {
            (ratio.high.is_some_and(|high| high < self.limit), ratio.low.is_some_and(|low| low >= self.limit))
        };
        Limit { text: self.text.clone(), side: side.to_owned(), ratio, is_beyond, is_within, is_of_better }
    }

    /// The error if it applies to no row, or to several.
    pub(super) fn not_one<'a>(&self, found: usize, rows: impl Iterator<Item = &'a Row>) -> Problem {
        let rows: Vec<&Row> = rows.collect();
        if found > 1 {
            let kinds = rows.iter().filter(|row| self.is_about(row)).map(|row| row.op.name());
            let kinds: Vec<&str> = kinds.collect();
            return Problem::usage(format!(
                "{:?}: the step has several kinds of operation ({}); write {}.{}.{} ...",
                self.text,
                kinds.join(", "),
                self.step,
                kinds[0],
                self.metric.name
            ));
        }
        let mut steps: Vec<&str> = rows.iter().map(|row| row.step.as_str()).collect();
        steps.dedup();
        if rows.iter().any(|row| self.is_step_of(row)) {
            let mine = rows.iter().filter(|row| self.is_step_of(row)).map(|row| {
                SHORT.iter().find(|(_, long)| *long == row.metric).map_or(row.metric.as_str(), |(short, _)| short)
            });
            let mut mine: Vec<&str> = mine.collect();
            mine.sort_unstable();
            mine.dedup();
            return Problem::usage(format!("{:?}: of this step, only {} are compared", self.text, mine.join(", ")));
        }
        let hint = match nearest(&self.step, steps.iter().copied()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("the steps compared are {}", listed(&steps)),
        };
        Problem::usage(format!("{:?}: step {} is not compared; {hint}", self.text, self.step))
    }
}

/// Names from outside, the first few of them, shortened.
fn listed(names: &[&str]) -> String {
    const MOST: usize = 20;
    const LETTERS: usize = 40;
    let short = |name: &&str| {
        let cut: String = name.chars().take(LETTERS).collect();
        let more = if cut.len() < name.len() { "..." } else { "" };
        format!("{}{more}", printable(&cut))
    };
    let more = if names.len() > MOST { format!(" and {} more", names.len() - MOST) } else { String::new() };
    names.iter().take(MOST).map(short).collect::<Vec<_>>().join(", ") + &more
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(text: &str) -> Condition {
        text.parse().unwrap()
    }

    #[test]
    fn conditions_are_read_with_dots_signs_and_spaces() {
        let p999 = condition("commit1.p99.9>+10%");
        assert_eq!((p999.step.as_str(), p999.metric.name, p999.is_upper), ("commit1", "lat_p999_ns", true));
        assert!((p999.limit - 1.1).abs() < 1e-9);
        let iops = condition("randread-4k-d8.read.iops < -5 %");
        assert_eq!((iops.step.as_str(), iops.op, iops.metric.name), ("randread-4k-d8", Some(OpClass::Read), "iops"));
        assert!((iops.limit - 0.95).abs() < 1e-9 && !iops.is_upper);
        assert_eq!(condition("a.sync_p99 > 0%").metric.name, "sync_p99_ns");
    }

    #[test]
    fn wrong_ones_say_how_to_write_them() {
        for text in [
            "",
            "commit1",
            "commit1.p99",
            "commit1.p99 > 10",
            "commit1.p98 > 1%",
            ".p99 > 1%",
            "a.p99 < -100%",
            "a.p99 > x%",
        ] {
            let error = text.parse::<Condition>().unwrap_err().to_string();
            assert!(error.contains("commit1.p99 > +10%"), "{error}");
        }
    }

    #[test]
    fn only_a_whole_interval_is_beyond() {
        let ratio = |low, high| Estimate { value: Some(1.2), low: Some(low), high: Some(high), ..Estimate::default() };
        let upper = condition("a.p99 > +10%");
        assert!(upper.judge("b", ratio(1.15, 1.3), false).is_beyond);
        let open = upper.judge("b", ratio(1.05, 1.3), false);
        assert!(!open.is_beyond && !open.is_within);
        assert!(upper.judge("b", ratio(0.9, 1.1), false).is_within);
        assert!(condition("a.iops < -10%").judge("b", ratio(0.5, 0.8), false).is_beyond);
        let spoilt = upper.judge("b", ratio(1.15, 1.3), true);
        assert!(!spoilt.is_beyond && !spoilt.is_within && !spoilt.is_of_better);
        let unknown = upper.judge("b", Estimate::default(), false);
        assert!(!unknown.is_beyond && !unknown.is_within);
    }
}
