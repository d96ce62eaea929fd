//! The character of commits and reads, in one word each.
//!
//! The words are labels, not verdicts: no program needs a disk to be like a local one. A word is given if the whole
//! interval lies between its bounds; if the interval crosses a bound or has no end, both ends of the possible range are
//! given. Only a figure that is not the disk's gets no word; if the disk can only be faster, it gets the worst possible
//! one.

use qd1_model::finding::Finding;
use qd1_model::metric::metric;
use qd1_model::op::OpClass;
use qd1_model::plan::criterion::Criterion;
use qd1_model::verdict::{Impression, WordBound};
use qd1_model::{Estimate, Record, StreamSummary, Summary};

use crate::judge::{judged_figure, why_not_the_disks};

/// The words for one kind of request, by one figure of one step.
struct Scale {
    requests: &'static str,
    step: &'static str,
    op: OpClass,
    metric: &'static str,
    /// Each with its upper bound, ns, the best first.
    words: &'static [(f64, &'static str)],
    beyond: &'static str,
    source: &'static str,
}

const SCALES: [Scale; 2] = [
    Scale {
        requests: "commits",
        step: "commit1",
        op: OpClass::Commit,
        metric: "lat_p99_ns",
        words: &[(2e6, "excellent"), (10e6, "good"), (50e6, "slow")],
        beyond: "very slow",
        source: "OpenShift's etcd practices (2 ms); etcd docs: hardware (10 ms); Netdata's guide to CockroachDB: WAL fsync \
                 latency (50 ms)",
    },
    Scale {
        requests: "reads",
        step: "qd1",
        op: OpClass::Read,
        metric: "lat_p999_ns",
        words: &[(300e3, "excellent"), (500e3, "acceptable")],
        beyond: "poor or oversold",
        source: "VPS-Disk-Latency-Bench 2.0",
    },
];

/// Returns the impressions that a check of a disk gives.
pub(crate) fn of(record: &Record, summary: &Summary, findings: &[Finding]) -> Vec<Impression> {
    let planned = |scale: &&Scale| record.plan.steps.iter().any(|step| step.name == scale.step);
    SCALES.iter().filter(planned).map(|scale| impression(record, summary, findings, scale)).collect()
}

fn impression(record: &Record, summary: &Summary, findings: &[Finding], scale: &Scale) -> Impression {
    let get = metric(scale.metric).expect("a test judges each scale").get;
    let stream = summary.stream(scale.step, scale.op);
    let whole = stream.and_then(get);
    let criterion = Criterion {
        step: scale.step.to_owned(),
        op: scale.op,
        metric: scale.metric.to_owned(),
        pass: scale.words[0].0,
        fail: scale.words[scale.words.len() - 1].0,
        published: None,
        label: String::new(),
        source: scale.source.to_owned(),
    };
    let spoiled = why_not_the_disks(record, summary, findings, &criterion);
    let figure = judged_figure(record, summary, &criterion);
    let word = figure.and_then(|figure| match &spoiled {
        None => scale.word(&figure),
        // What others took from the machine or the disk only makes it slower.
        Some(spoiled) if spoiled.is_no_slower => scale.word(&Estimate { low: None, ..figure }),
        Some(_) => None,
    });
    let stalls = stream.is_some_and(is_stalled);
    let word = word.map(|word| if stalls { format!("{word}, with stalls") } else { word });
    let why = match (&word, spoiled, figure) {
        (Some(_), ..) => String::new(),
        (None, Some(spoiled), _) => spoiled.why,
        (None, None, None) => format!("step {} did not run", scale.step),
        (None, None, Some(_)) => "too uncertain; a longer run on an idle machine would settle it".to_owned(),
    };
    Impression {
        requests: scale.requests.to_owned(),
        word,
        why,
        metric: scale.metric.to_owned(),
        with_waits: whole.filter(|whole| Some(*whole) != figure),
        figure,
        median: stream.map(|stream| stream.lat_p50_ns),
        bounds: scale.words.iter().map(|(bound, word)| WordBound { word: (*word).to_owned(), up_to: *bound }).collect(),
        source: scale.source.to_owned(),
    }
}

/// Share of moments in stalls, and length of a stall, beyond which a percentile alone would mislead: the bounds of the
/// classes that wait for commits (thresholds.toml).
const STALLS: (f64, f64) = (0.05, 1e9);

/// Whether stalls were certainly seen that the word for a percentile hides.
fn is_stalled(stream: &StreamSummary) -> bool {
    let share = stream.stall_share.and_then(|share| share.low).unwrap_or(0.0);
    let longest_ns = stream.stall_longest_ns.and_then(|longest| longest.value).unwrap_or(0.0);
    share > STALLS.0 || longest_ns > STALLS.1
}

impl Scale {
    /// The word for a figure, or the best and the worst that it may be; `None` if nothing is known about it.
    fn word(&self, figure: &Estimate) -> Option<String> {
        let place = |value: f64| self.words.iter().position(|(bound, _)| value <= *bound).unwrap_or(self.words.len());
        let name = |at: usize| self.words.get(at).map_or(self.beyond, |(_, word)| word);
        Some(match (figure.low.map(place), figure.high.map(place)) {
            (None, None) => return None,
            (Some(low), Some(high)) if low == high => name(low).to_owned(),
            (Some(low), Some(high)) => format!("{} to {}", name(low), name(high)),
            // A figure that is bad at its lower end cannot get better further up.
            (Some(low), None) if low == self.words.len() => name(low).to_owned(),
            // "The best word or any other" is not an answer.
            (Some(0), None) => return None,
            (Some(low), None) => format!("{} or worse", name(low)),
            // No word is better than the best, and "the worst or any other" is not an answer.
            (None, Some(0)) => name(0).to_owned(),
            (None, Some(high)) if high == self.words.len() => return None,
            (None, Some(high)) => format!("{} or better", name(high)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::base_finding;
    use crate::testing;
    use qd1_model::FindingId;
    use qd1_model::environment::FilesystemClass;
    use qd1_model::plan::{Rw, Sync};
    use qd1_model::{Severity, Subject};

    fn figure(low: f64, high: Option<f64>) -> Estimate {
        Estimate { value: Some(low), low: Some(low), high, ..Estimate::default() }
    }

    /// A check of 400 commits of about this latency.
    fn commits(lat_ns: u64) -> Record {
        let mut record = testing::empty();
        record.plan.subject = Subject::Check;
        let work = testing::io(Rw::Randwrite, 4096, Sync::Fdatasync, true);
        testing::step(&mut record, "commit1", work, 400, lat_ns);
        record
    }

    #[test]
    fn a_word_is_what_the_whole_interval_says() {
        let [commits, reads] = &SCALES;
        let said = |scale: &Scale, low: f64, high| scale.word(&figure(low, high));
        assert_eq!(said(commits, 0.3e6, Some(0.4e6)).as_deref(), Some("excellent"));
        assert_eq!(said(commits, 1.8e6, Some(2.4e6)).as_deref(), Some("excellent to good"));
        assert_eq!(said(commits, 1e6, Some(12e6)).as_deref(), Some("excellent to slow"));
        assert_eq!(said(commits, 60e6, None).as_deref(), Some("very slow"), "however long it may be");
        assert_eq!(said(commits, 16e6, None).as_deref(), Some("slow or worse"));
        assert_eq!(said(reads, 458e3, Some(1264e3)).as_deref(), Some("acceptable to poor or oversold"));
        assert_eq!(said(reads, 100e3, Some(200e3)).as_deref(), Some("excellent"));
    }

    #[test]
    fn a_check_says_one_for_each_kind_that_it_measured() {
        let mut record = commits(300_000);
        let seen = |record: &Record| crate::analyse(record.clone(), &qd1_model::Thresholds { class: Vec::new() });
        let impressions = seen(&record).impressions;
        assert_eq!(impressions.len(), 1, "no reads were planned");
        assert_eq!((impressions[0].requests.as_str(), impressions[0].word.as_deref()), ("commits", Some("excellent")));
        record.environment.filesystem.class = FilesystemClass::Memory;
        assert_eq!(seen(&record).impressions, []);
    }

    #[test]
    fn commits_that_no_flush_followed_get_no_word() {
        let mut record = testing::record();
        record.plan.subject = Subject::Check;
        record.plan.steps[1].name = "commit1".to_owned();
        record.steps[1].name = "commit1".to_owned();
        record.environment.devices.remove(0);
        record.steps[1].device.as_mut().unwrap().counted.flushes = 0;
        let summary = crate::summarize(&record);
        let found = of(&record, &summary, &crate::findings(&record, &summary));
        assert_eq!(found[0].word, None);
        assert!(found[0].why.contains("not durable"), "{}", found[0].why);
    }

    /// The time added by waits for this machine's processors is known; that taken by a hypervisor is not.
    #[test]
    fn a_bad_word_stands_beside_waits_and_not_beside_steal() {
        let mut record = testing::with_waits(4_500_000);
        record.plan.subject = Subject::Check;
        record.plan.steps[0].name = "qd1".to_owned();
        record.steps[0].name = "qd1".to_owned();
        let summary = crate::summarize(&record);
        let word = |ids: &[FindingId]| {
            let critical =
                |id: &FindingId| Finding { step: "qd1".to_owned(), ..base_finding(*id, Severity::Critical, 0.9) };
            let findings: Vec<Finding> = ids.iter().map(critical).collect();
            of(&record, &summary, &findings).remove(0).word
        };
        let (waits, steal) = (FindingId::CpuSpoiledRunDelay, FindingId::CpuSpoiledSteal);
        assert_eq!(word(&[waits]).as_deref(), Some("poor or oversold"));
        assert_eq!((word(&[steal]), word(&[waits, steal])), (None, None));
    }

    /// Commits with a p99 of 0.3 to 0.7 ms were "not rated" on a machine with a busy processor.
    #[test]
    fn a_figure_that_can_only_be_too_slow_has_the_worst_that_is_possible() {
        let [commits, _] = &SCALES;
        let at_worst = |high: Option<f64>| commits.word(&Estimate { high, ..Estimate::default() });
        assert_eq!(at_worst(Some(0.7e6)).as_deref(), Some("excellent"));
        assert_eq!(at_worst(Some(2.5e6)).as_deref(), Some("good or better"));
        assert_eq!(at_worst(Some(12e6)).as_deref(), Some("slow or better"));
        assert_eq!((at_worst(Some(70e6)), at_worst(None)), (None, None), "it may be anything");
    }

    #[test]
    fn a_good_word_stands_beside_steal() {
        let record = commits(3_000_000);
        let summary = crate::summarize(&record);
        let word = |id| {
            let critical = Finding { step: "commit1".to_owned(), ..base_finding(id, Severity::Critical, 0.9) };
            of(&record, &summary, &[critical]).remove(0).word
        };
        assert_eq!(word(FindingId::CpuSpoiledSteal).as_deref(), Some("good or better"));
        assert_eq!(word(FindingId::FlushIgnoredMissing), None);
    }
}
