//! Something else used the device during a step: another process, the filesystem's background work, a neighbouring
//! volume.
//!
//! Formula: extra = bytes the device counted - bytes we requested, reads and writes separately, less an allowance: 10 %
//! of the request, 8 MiB, 64 KiB for each sync (journal and metadata: ext4 writes about 20 KiB per commit, xfs up to 32
//! KiB, btrfs' log tree about 64 KiB), and for writes smaller than or not a multiple of a page one more page on each
//! side. From 1 MiB/s up it warns; from 8 MiB/s and half of what was requested up it is critical, and no failing grade
//! is given for a disk that was shared like this. Buffered reads are allowed their readahead, as much again as
//! requested. Source: `admin-guide/iostats` (sectors are counted for everyone).
//!
//! A real etcd writes its log and, ten times a second, its tree, each with a flush: it is allowed 512 KiB for each sync
//! and 1 MiB/s. What other programs write besides their log varies, so they are not examined.
//!
//! It cannot see traffic of other machines on shared storage, and counts a RAID's parity or a snapshot's copying as
//! traffic, which it is as far as latencies are concerned. File operations are left out: the cost of metadata is not
//! known.

use qd1_model::FindingId;
use qd1_model::plan::IoWork;
use qd1_model::printable;
use qd1_model::record::program::ETCD_WAL_FSYNC;
use qd1_model::record::{DeviceDelta, OtherUser, StepRecord};
use qd1_model::units::{Bytes, format_rate};
use qd1_model::{Finding, Record, Severity, Summary};

use super::{base_finding, counted_steps};

/// Allowed beyond what was requested, relative.
const ALLOWED_SHARE: f64 = 0.1;
/// Allowed once, bytes.
const ALLOWED_ONCE: f64 = (8 << 20) as f64;
/// Allowed per sync, bytes.
const ALLOWED_PER_SYNC: f64 = (64 << 10) as f64;
/// Smallest rate that is reported, bytes per second.
const RATE_MIN: f64 = (1 << 20) as f64;
/// Rate from which it is critical, bytes per second, if it is also this share of what was requested.
const RATE_CRITICAL: f64 = (8 << 20) as f64;
const SHARE_CRITICAL: f64 = 0.5;
/// Least share of the bytes that other programs must account for to be named.
const NAMED_SHARE: f64 = 0.5;
/// Allowed to a real etcd per sync, bytes.
const ETCD_PER_SYNC: u64 = 512 << 10;
const ADVICE: &str = "Find it with `iotop` or `pidstat -d 1`, and measure again on an idle machine.";
/// Page size.
const PAGE: u64 = 4096;

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    let mut all = Vec::new();
    for (step, io, device) in counted_steps(record) {
        let seconds = step.runtime_ns.max(1) as f64 / 1e9;
        let read = extra(device.counted.read_bytes, device.asked_read_bytes.0, read_allowance(device, step.direct));
        let written = extra(device.counted.write_bytes, device.asked_write_bytes.0, write_allowance(device, io));
        let rate = (read + written) / seconds;
        if rate < RATE_MIN {
            continue;
        }
        let asked = (device.asked_read_bytes.0 + device.asked_write_bytes.0) as f64;
        let is_much = rate >= RATE_CRITICAL && read + written >= SHARE_CRITICAL * asked;
        let severity = if is_much { Severity::Critical } else { Severity::Warning };
        let mut parts = Vec::new();
        for (what, extra, counted, asked) in [
            ("read", read, device.counted.read_bytes, device.asked_read_bytes),
            ("written", written, device.counted.write_bytes, device.asked_write_bytes),
        ] {
            if extra > 0.0 {
                parts.push(format!("{} {what}, {asked} requested", Bytes(counted)));
            }
        }
        let named = named(step, read, written);
        let who = named.as_ref().map_or_else(|| "something else".to_owned(), |named| named.who.clone());
        let did = named.as_ref().map_or_else(String::new, |named| format!("; {}", named.did));
        all.push(Finding {
            step: step.name.clone(),
            title: format!("{who} used the device during step {}", step.name),
            evidence: format!("{}: about {} more than expected{did}", parts.join(", "), format_rate(rate)),
            advice: named.map_or_else(|| ADVICE.to_owned(), |named| named.advice),
            ..base_finding(FindingId::OtherTraffic, severity, 0.7)
        });
    }
    all.extend(record.steps.iter().filter_map(beside_etcd));
    all
}

/// The programs that account for what was counted too much.
struct Named {
    who: String,
    did: String,
    advice: String,
}

/// Names the other programs if they account for at least half of the bytes that were read and written too much. What a
/// program changed in memory is written later, or was written already: the larger of both counts.
fn named(step: &StepRecord, read: f64, written: f64) -> Option<Named> {
    let writes = |other: &OtherUser| other.written_bytes.0.max(other.changed_bytes.0);
    let accounts = |others: &[OtherUser]| {
        let reads: u64 = others.iter().map(|other| other.read_bytes.0).sum();
        let writes: u64 = others.iter().map(writes).sum();
        (reads as f64).min(read) + (writes as f64).min(written)
    };
    let least = NAMED_SHARE * (read + written);
    let first = step.others.first()?;
    if accounts(&step.others) < least {
        return None;
    }
    let all: u64 = step.others.iter().map(OtherUser::bytes).sum();
    let did = |other: &OtherUser| {
        let did: Vec<String> =
            [(other.read_bytes, "read"), (other.written_bytes, "wrote"), (other.changed_bytes, "changed in memory")]
                .into_iter()
                .filter(|(bytes, _)| bytes.0 > 0)
                .map(|(bytes, verb)| format!("{verb} {}", about(bytes)))
                .collect();
        let more = match other.processes {
            0 | 1 => String::new(),
            processes => format!(" and {} more", processes - 1),
        };
        format!("{} (pid {}{more}) {}", printable(&other.comm), other.pid, did.join(" and "))
    };
    // Those that did less than a twentieth of it are not worth a word.
    let worth: Vec<&OtherUser> = step.others.iter().filter(|other| other.bytes() * 20 >= all).take(3).collect();
    let name = printable(&first.comm).into_owned();
    let is_alone = accounts(std::slice::from_ref(first)) >= least;
    let names = || worth.iter().map(|other| printable(&other.comm).into_owned()).collect::<Vec<_>>().join(", ");
    let (who, advice) = if is_alone {
        let advice = format!(
            "Measure again while {name} is not running; `qd1 trace --comm {name}` shows what it does on the disk."
        );
        (format!("another program ({name})"), advice)
    } else {
        let advice = "Measure again while they are not running; `qd1 trace` shows what they do on the disk.".to_owned();
        (format!("other programs ({})", names()), advice)
    };
    Some(Named { who, did: worth.into_iter().map(did).collect::<Vec<_>>().join(", "), advice })
}

/// A size in round numbers: `312 MiB`.
fn about(bytes: Bytes) -> Bytes {
    let unit = if bytes.0 >= 10 << 20 { 1 << 20 } else { 1 << 10 };
    Bytes(bytes.0.div_ceil(unit) * unit)
}

/// Traffic besides that of a real etcd.
fn beside_etcd(step: &StepRecord) -> Option<Finding> {
    let app = step.app.as_ref()?;
    let (device, log) = (app.device?, app.buckets.iter().find(|buckets| buckets.name == ETCD_WAL_FSYNC)?);
    // A disk without a volatile cache gets no flushes.
    let syncs = device.flushes.max(log.counts.iter().fold(0, |sum, count| sum.saturating_add(*count)));
    let seconds = step.runtime_ns.max(1) as f64 / 1e9;
    let allowed = ALLOWED_ONCE + seconds * RATE_MIN + syncs as f64 * ETCD_PER_SYNC as f64;
    let rate = (device.write_bytes as f64 - allowed) / seconds;
    (rate >= RATE_MIN).then(|| Finding {
        step: step.name.clone(),
        title: format!("something else used the device during step {}", step.name),
        evidence: format!(
            "{} written with {} syncs; etcd accounts for at most {}: about {} more than expected",
            Bytes(device.write_bytes),
            syncs,
            Bytes(allowed as u64),
            format_rate(rate)
        ),
        advice: ADVICE.to_owned(),
        ..base_finding(FindingId::OtherTraffic, Severity::Warning, 0.7)
    })
}

/// Bytes counted beyond those requested and allowed.
fn extra(counted: u64, asked: u64, allowed: f64) -> f64 {
    (counted as f64 - asked as f64 - allowed).max(0.0)
}

fn read_allowance(device: &DeviceDelta, direct: bool) -> f64 {
    let asked = device.asked_read_bytes.0 as f64;
    ALLOWED_ONCE + asked * if direct { ALLOWED_SHARE } else { 1.0 }
}

fn write_allowance(device: &DeviceDelta, io: &IoWork) -> f64 {
    let asked = device.asked_write_bytes.0 as f64;
    let ragged = io.blocks.iter().any(|share| !u64::from(share.bytes).is_multiple_of(PAGE));
    let pages = if ragged { (device.asked_writes * 2 * PAGE) as f64 } else { 0.0 };
    ALLOWED_ONCE + asked * ALLOWED_SHARE + device.asked_syncs as f64 * ALLOWED_PER_SYNC + pages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::environment::DeviceCounters;
    use qd1_model::plan::{Rw, Sync};
    use qd1_model::record::program::{AppStep, Buckets};

    #[test]
    fn a_backup_running_beside_the_test_is_noticed() {
        let mut record = testing::record();
        record.steps[0].device.as_mut().unwrap().counted.read_bytes += 300 << 20;
        let found = testing::run(detect, &record);
        assert_eq!(testing::ids(&found), ["other_traffic"]);
        assert_eq!((found[0].step.as_str(), found[0].severity), ("reads", Severity::Critical));
        record.steps[0].device.as_mut().unwrap().counted.read_bytes -= 270 << 20;
        assert_eq!(testing::run(detect, &record)[0].severity, Severity::Warning, "a little beside much of ours");
    }

    #[test]
    fn who_accounts_for_it_is_named() {
        let mut record = testing::record();
        record.steps[0].device.as_mut().unwrap().counted.read_bytes += 300 << 20;
        let other = |comm: &str, bytes| OtherUser {
            comm: comm.to_owned(),
            pid: 41,
            processes: 1,
            requests: 3,
            read_bytes: Bytes(bytes),
            ..OtherUser::default()
        };
        record.steps[0].others = vec![other("re\u{1b}stic", 290 << 20), other("cron", 4096)];
        let found = &testing::run(detect, &record)[0];
        assert!(found.title.starts_with("another program (re") && !found.title.contains('\u{1b}'), "{}", found.title);
        assert!(found.evidence.ends_with("(pid 41) read 290 MiB"), "{}", found.evidence);
        record.steps[0].others = vec![other("tar", 140 << 20), other("rsync", 130 << 20)];
        assert!(testing::run(detect, &record)[0].title.starts_with("other programs (tar, rsync) used the device"));
        // Who only changed data in memory does not account for reads.
        let changed = OtherUser { read_bytes: Bytes(0), changed_bytes: Bytes(290 << 20), ..other("dd", 0) };
        record.steps[0].others = vec![changed];
        assert!(testing::run(detect, &record)[0].title.starts_with("something else"));
        record.steps[0].others = vec![other("cron", 4096)];
        let found = &testing::run(detect, &record)[0];
        assert!(found.title.starts_with("something else") && found.advice.contains("iotop"), "{found:?}");
    }

    /// 1.6 MiB were written for each operation of an etcd, with no finding.
    #[test]
    fn a_backup_running_beside_etcd_is_noticed() {
        let mut record = testing::record();
        let buckets = Buckets { name: ETCD_WAL_FSYNC.to_owned(), bounds_ns: vec![1], counts: vec![1, 0], sum_ns: 1 };
        let counted = |write_bytes| DeviceCounters { write_bytes, flushes: 900, ..DeviceCounters::default() };
        let app = |write_bytes| AppStep {
            buckets: vec![buckets.clone()],
            device: Some(counted(write_bytes)),
            ..AppStep::default()
        };
        let found = |record: &Record| {
            testing::ids(&testing::run(detect, record)).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        record.steps[0].runtime_ns = 10_000_000_000;
        record.steps[0].app = Some(app((1_000 * 1_600) << 10));
        assert_eq!(found(&record), ["other_traffic"]);
        record.steps[0].app = Some(app((900 * 100) << 10));
        assert_eq!(found(&record), Vec::<String>::new(), "its own log and tree");
    }

    #[test]
    fn our_own_requests_and_a_journal_are_not_other_traffic() {
        let mut record = testing::record();
        let device = record.steps[1].device.as_mut().unwrap();
        device.counted.write_bytes += device.asked_syncs * 32 * 1024;
        assert_eq!(testing::run(detect, &record), []);
    }

    #[test]
    fn small_appends_write_whole_pages() {
        let mut record = testing::empty();
        let step =
            testing::step(&mut record, "wal", testing::io(Rw::Write, 2300, Sync::Fdatasync, false), 400, 240_000);
        let device = step.device.as_mut().unwrap();
        device.counted.write_bytes = device.asked_writes * (8192 + 20_480);
        assert_eq!(testing::run(detect, &record), []);
    }
}
