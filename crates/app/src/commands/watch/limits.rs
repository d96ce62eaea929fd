//! For how long demand was above the limits of a cloud's disks, from one reading to the next.

use std::collections::HashMap;

use qd1_clock as clock;
use qd1_model::record::watched::DiskLimits;
use qd1_probe::Machine;
use qd1_probe::amazon::Exceeded;

use crate::aside::Aside;

/// Shortest time between two questions to a disk, ns: for questions more often than every second, the device may let
/// other commands wait (Amazon's documentation). Somewhat less, as intervals of a second are not exact.
const BETWEEN_NS: u64 = 900_000_000;

/// The counters of the disks that have them.
#[derive(Default)]
pub(super) struct Limits {
    /// `None` for a disk without such counters.
    disks: HashMap<String, Option<Asked>>,
}

/// The counters of a disk.
struct Asked {
    aside: Aside<(), Option<Answer>>,
    /// When the last question was asked.
    asked_ns: Option<u64>,
    before: Option<Answer>,
}

/// What a disk answered.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    at_ns: u64,
    /// The volume that answered.
    serial: String,
    exceeded: Exceeded,
}

impl Limits {
    /// Returns for how long demand was above the limits of this disk since its answer before; `None` if there is no new
    /// answer, or none before, or the disk has no such counters.
    pub(super) fn read(&mut self, machine: &Machine, disk: &str) -> Option<DiskLimits> {
        if !self.disks.contains_key(disk) {
            self.disks.insert(disk.to_owned(), asked(machine, disk));
        }
        self.disks.get_mut(disk)?.as_mut()?.read(clock::now_ns())
    }

    /// Forgets disks that are gone: their names may be reused by others.
    pub(super) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.disks.retain(|name, _| is_there(name));
    }
}

/// Begins to ask a disk, if its model has such counters.
fn asked(machine: &Machine, disk: &str) -> Option<Asked> {
    machine.amazon_device(disk)?;
    let (machine, disk) = (machine.clone(), disk.to_owned());
    Some(Asked::begin(move || {
        // Looked up each time: another volume may have got the name.
        let device = machine.amazon_device(&disk)?;
        let exceeded = device.exceeded()?;
        Some(Answer { at_ns: clock::now_ns(), serial: device.serial, exceeded })
    }))
}

impl Asked {
    fn begin(ask: impl Fn() -> Option<Answer> + Send + 'static) -> Self {
        Self { aside: Aside::begin("limits", move |()| ask()), asked_ns: None, before: None }
    }

    /// An answer that comes late counts for the next reading.
    fn read(&mut self, now_ns: u64) -> Option<DiskLimits> {
        let answer = if self.aside.is_pending() {
            self.aside.late()
        } else if self.asked_ns.is_some_and(|asked_ns| now_ns < asked_ns + BETWEEN_NS) {
            None
        } else {
            self.asked_ns = Some(now_ns);
            self.aside.ask(())
        };
        // Counters go on while the disk does not answer, so the next answer covers that time, too.
        let answer = answer.flatten()?;
        let limits = self.before.as_ref().and_then(|before| between(before, &answer));
        self.before = Some(answer);
        limits
    }
}

/// What the counters grew by; `None` if they are not those of before.
fn between(before: &Answer, answer: &Answer) -> Option<DiskLimits> {
    if before.serial != answer.serial {
        return None;
    }
    let ns = |[iops, throughput]: [u64; 2], [iops_before, throughput_before]: [u64; 2]| {
        let ns = |now: u64, before: u64| Some(now.checked_sub(before)?.saturating_mul(1000));
        Some([ns(iops, iops_before)?, ns(throughput, throughput_before)?])
    };
    let [volume_iops_ns, volume_throughput_ns] = ns(answer.exceeded.volume_us, before.exceeded.volume_us)?;
    let instance = match (answer.exceeded.instance_us, before.exceeded.instance_us) {
        (Some(now), Some(before)) => Some(ns(now, before)?),
        _ => None,
    };
    Some(DiskLimits {
        observed_ns: answer.at_ns.saturating_sub(before.at_ns),
        volume_iops_ns,
        volume_throughput_ns,
        instance_iops_ns: instance.map(|[iops, _]| iops),
        instance_throughput_ns: instance.map(|[_, throughput]| throughput),
    })
}

/// `volume IOPS 43 % of the time, instance throughput 2 %`.
pub(super) fn shown(limits: &DiskLimits) -> String {
    let percent = |share: f64| if share < 0.01 { "<1 %".to_owned() } else { format!("{:.0} %", 100.0 * share) };
    let exceeded = limits.shares().filter(|(_, share)| *share > 0.0);
    let mut words: Vec<String> =
        exceeded.map(|(limit, share)| format!("{} {}", limit.name(), percent(share))).collect();
    match words.first_mut() {
        Some(first) => *first += " of the time",
        None => return "not exceeded".to_owned(),
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::thread;
    use std::time::Duration;

    use super::*;

    const S: u64 = 1_000_000_000;

    fn answer(at_s: u64, volume_us: [u64; 2], instance_us: [u64; 2]) -> Answer {
        let exceeded = Exceeded { volume_us, instance_us: Some(instance_us) };
        Answer { at_ns: at_s * S, serial: "vol1".to_owned(), exceeded }
    }

    #[test]
    fn what_counters_grew_by_is_the_time_above_each_limit() {
        let before = answer(10, [5_000_000, 7], [0, 1_000_000]);
        let limits = between(&before, &answer(12, [5_860_000, 7], [0, 1_040_000])).unwrap();
        let expected = DiskLimits {
            observed_ns: 2 * S,
            volume_iops_ns: 860_000_000,
            volume_throughput_ns: 0,
            instance_iops_ns: Some(0),
            instance_throughput_ns: Some(40_000_000),
        };
        assert_eq!(limits, expected);
        assert_eq!(shown(&limits), "volume IOPS 43 % of the time, instance throughput 2 %");
        assert_eq!(shown(&DiskLimits { volume_iops_ns: 0, instance_throughput_ns: None, ..limits }), "not exceeded");
        assert_eq!(
            shown(&DiskLimits { volume_iops_ns: 1, ..limits }),
            "volume IOPS <1 % of the time, instance throughput 2 %"
        );
    }

    #[test]
    fn counters_of_another_volume_are_not_compared() {
        let before = answer(10, [5_000_000, 7], [3, 4]);
        for less in [answer(11, [4_999_999, 7], [3, 4]), answer(11, [5_000_000, 7], [3, 3])] {
            assert_eq!(between(&before, &less), None, "one counter went back");
        }
        let other = Answer { serial: "vol2".to_owned(), ..answer(11, [6_000_000, 7], [3, 4]) };
        assert_eq!(between(&before, &other), None);
    }

    /// A disk that gives these answers, the last one first, and may take as long as it likes; it hangs while its lock
    /// is held.
    fn disk(answers: Vec<Option<Answer>>) -> (Asked, Arc<Mutex<Vec<Option<Answer>>>>) {
        let left = Arc::new(Mutex::new(answers));
        let answers = left.clone();
        let mut asked = Asked::begin(move || answers.lock().unwrap().pop().flatten());
        asked.aside.wait = Duration::from_secs(60);
        (asked, left)
    }

    #[test]
    fn an_answer_covers_the_time_since_the_one_before() {
        let later = answer(13, [1_500_000, 0], [0, 0]);
        let (mut asked, left) = disk(vec![Some(later), None, Some(answer(10, [0, 0], [0, 0]))]);
        assert_eq!(asked.read(10 * S), None, "the first answer is only the baseline");
        assert_eq!(asked.read(10 * S + BETWEEN_NS - 1), None);
        assert_eq!(left.lock().unwrap().len(), 2, "it is not asked again so soon");
        assert_eq!(asked.read(11 * S), None, "it did not answer");
        let limits = asked.read(13 * S).unwrap();
        assert_eq!((limits.observed_ns, limits.volume_iops_ns), (3 * S, 1_500_000_000));
        assert_eq!(asked.read(14 * S), None, "it has no more answers");
    }

    #[test]
    fn a_disk_that_hangs_does_not_stop_the_watch() {
        let (mut asked, left) = disk(vec![Some(answer(12, [1_000_000, 0], [0, 0])), Some(answer(10, [0, 0], [0, 0]))]);
        asked.read(10 * S);
        asked.aside.wait = Duration::from_millis(1);
        let hang = left.lock().unwrap();
        assert_eq!((asked.read(11 * S), asked.read(12 * S)), (None, None));
        drop(hang);
        let late = (0..1000).find_map(|_| {
            thread::sleep(Duration::from_millis(5));
            asked.read(12 * S)
        });
        assert_eq!(late.map(|limits| (limits.observed_ns, limits.volume_iops_ns)), Some((2 * S, S)));
    }

    #[test]
    fn a_disk_without_such_counters_is_looked_up_once() {
        let dir = tempfile::tempdir().unwrap();
        let (mut limits, machine) = (Limits::default(), Machine::at(dir.path()));
        assert_eq!(limits.read(&machine, "sda"), None);
        assert!(limits.disks["sda"].is_none());
        limits.keep(|name| name != "sda");
        assert!(limits.disks.is_empty());
    }
}
