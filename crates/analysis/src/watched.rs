//! What a watch amounts to: a row for each disk and operation, and findings about waits, syncs, limits and busy disks.

use qd1_model::order::Order as _;
use qd1_model::record::OtherUser;
use qd1_model::record::watched::{DiskLimit, LONG_SYNC_NS, LongWait, WatchedDisk, WatchedOp, WatchedProgram};
use qd1_model::units::{Bytes, format_ns, format_span_ns};
use qd1_model::watched::{Watched, WatchedLimits, WatchedRow};
use qd1_model::{Finding, FindingId, Record, Severity, printable};

use crate::detect::{base_finding, percent};

/// Waits from here on are critical, ns: programs give up.
const CRITICAL_NS: u64 = 10_000_000_000;
/// Share of the time from which a full disk is worth a finding.
const FULL_SHARE: f64 = 0.25;
/// Share of the observed time above a limit from which it is worth a finding, and a warning.
const LIMITED_SHARES: [f64; 2] = [0.01, 0.1];
/// Most disks whose limits are findings.
const LIMITED_MAX: usize = 3;
/// Programs that are named as those beside one that waited.
const NAMED: usize = 2;
/// A neighbour must have moved this share of all neighbours' bytes to be named, and this share of what the program that
/// waited moved itself.
const NAMED_SHARE: f64 = 0.1;
const NAMED_SHARE_OF_OWN: f64 = 0.5;

/// Works out a watch; `None` for other runs.
#[must_use]
pub(crate) fn of(record: &Record) -> Option<Watched> {
    let watch = record.watched.as_ref()?;
    let seconds = watch.watched_ns.max(1) as f64 / 1e9;
    let row = |disk: &WatchedDisk, op: &WatchedOp| {
        let step = record.step(&disk.name);
        let stream = step.and_then(|step| step.streams.iter().find(|stream| stream.class == op.class));
        // All requests were seen, so their percentiles need no interval; but a p99 of fewer than 100 is their maximum.
        let quantile = |share: f64| {
            let lat = stream.map(|stream| &stream.lat).filter(|lat| lat.count() as f64 * (1.0 - share) >= 1.0 - 1e-9);
            lat.map(|lat| lat.quantile(share))
        };
        WatchedRow {
            disk: disk.name.clone(),
            class: op.class,
            per_second: op.ios / seconds,
            bytes: op.bytes,
            await_ns: op.await_ns,
            lat_p50_ns: quantile(0.5),
            lat_p99_ns: quantile(0.99),
            lat_p999_ns: quantile(0.999),
            // The upper end of its bucket, as on the screen.
            lat_max_ns: step.and_then(|step| {
                let of_class = step.intervals.iter().flat_map(|interval| &interval.streams);
                of_class.filter(|stream| stream.class == op.class).map(|stream| stream.lat_max_ns).max()
            }),
            busy: disk.busy,
        }
    };
    Some(Watched {
        watched_ns: watch.watched_ns,
        unseen: watch.unseen.clone(),
        rows: watch.disks.iter().flat_map(|disk| disk.ops.iter().map(move |op| row(disk, op))).collect(),
        limits: watch.disks.iter().filter_map(limits).collect(),
        programs: watch.programs.clone(),
        waits: watch.waits.clone(),
        waits_seen: watch.waits_seen,
    })
}

fn limits(disk: &WatchedDisk) -> Option<WatchedLimits> {
    let limits = disk.limits.filter(|limits| limits.observed_ns > 0)?;
    Some(WatchedLimits { disk: disk.name.clone(), limits })
}

/// Conclusions, the most important first.
pub(crate) fn findings(watched: &Watched, record: &Record) -> Vec<Finding> {
    let mut all = Vec::new();
    all.extend(waited(watched));
    all.extend(watched.programs.iter().filter_map(|program| syncs(program, watched.watched_ns)).take(3));
    let mut limited: Vec<(f64, Finding)> = watched.limits.iter().filter_map(limited).collect();
    limited.order_by(|(a, _), (b, _)| b.total_cmp(a));
    all.extend(limited.into_iter().map(|(_, finding)| finding).take(LIMITED_MAX));
    all.extend(record.watched.iter().flat_map(|watch| &watch.disks).filter_map(full));
    if !watched.unseen.is_empty() {
        all.push(Finding {
            title: "latencies, syncs and waits were not seen".to_owned(),
            evidence: watched.unseen.clone(),
            ..base_finding(FindingId::WatchedUnseen, Severity::Info, 1.0)
        });
    }
    all
}

fn on(disk: &str) -> String {
    if disk.is_empty() { String::new() } else { format!(" on {}", printable(disk)) }
}

/// The longest wait, and how many there were.
fn waited(watched: &Watched) -> Option<Finding> {
    let longest = watched.waits.first()?;
    let LongWait { age_ns, what, disk, comm, pid, place, .. } = longest;
    let place = if place.is_empty() { String::new() } else { format!(" {place}") };
    let who = printable(comm);
    let many = match watched.waits_seen {
        0 | 1 => String::new(),
        seen => format!("; {seen} requests and syncs took 0.5 s or longer"),
    };
    let severity = if *age_ns >= CRITICAL_NS { Severity::Critical } else { Severity::Warning };
    let at = format_ns(longest.at_ns as f64);
    let target = disk_word(disk);
    Some(Finding {
        title: format!("{} took {} or longer{}", a(what), format_ns(*age_ns as f64), on(disk)),
        evidence: format!("{who} (pid {pid}) waited{place}, first seen after {at}{many}"),
        advice: format!("`qd1 trace {target} --slow 500ms` shows what happens around such a wait."),
        ..base_finding(FindingId::WatchedWaited, severity, 0.95)
    })
}

/// An operation with its article.
fn a(what: &str) -> String {
    match what {
        "other" => "another request".to_owned(),
        // Read letter by letter.
        "fsync" | "fdatasync" => format!("an {what}"),
        _ => format!("a {what}"),
    }
}

/// A name as a word of a shell's command: it may come from anybody.
fn word(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_./:+-".contains(letter);
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("'{}'", printable(name).replace('\'', "'\\''"))
}

/// A disk in a command; those known only by their numbers have no name there.
fn disk_word(name: &str) -> String {
    if name.is_empty() || name.contains(':') { "DISK".to_owned() } else { word(name) }
}

/// A program that waited long, or much, for its syncs.
fn syncs(program: &WatchedProgram, watched_ns: u64) -> Option<Finding> {
    if !program.suffers(watched_ns) {
        return None;
    }
    // A sync that has not ended counts by its time so far.
    let mean = (program.sync_ns as f64 / program.syncs.max(1) as f64).min(program.longest_sync_ns as f64);
    let mean = format_ns(mean);
    let longest = format_ns(program.longest_sync_ns as f64);
    let who = printable(&program.comm);
    let of = match program.processes {
        0 | 1 => format!("of pid {}", program.pid),
        processes => format!("of {processes} processes"),
    };
    let all: u64 = program.beside.iter().map(OtherUser::bytes).sum();
    let own = program.read_bytes.0 + program.written_bytes.0.max(program.changed_bytes.0);
    let least = (NAMED_SHARE * all as f64).max(NAMED_SHARE_OF_OWN * own as f64);
    let is_much = |other: &&OtherUser| other.bytes() as f64 >= least;
    let neighbours: Vec<String> = program.beside.iter().filter(is_much).take(NAMED).map(did).collect();
    let (meanwhile, beside) = if neighbours.is_empty() {
        (String::new(), "no other program used the disk much meanwhile".to_owned())
    } else {
        (format!(" while {}", neighbours[0]), format!("meanwhile {}", neighbours.join(", ")))
    };
    // Its own limit explains the wait; its neighbours need not have to do with it.
    let meanwhile =
        if program.limit.is_empty() { meanwhile } else { format!(", held back by {}", printable(&program.limit)) };
    let disk = disk_word(&program.disk);
    // A program that waits for short syncs alone is only busy.
    let is_stalled = !neighbours.is_empty() || program.longest_sync_ns >= LONG_SYNC_NS;
    let severity = if is_stalled { Severity::Warning } else { Severity::Info };
    Some(Finding {
        title: format!("syncs of {who}{} took {mean} on average, up to {longest}{meanwhile}", on(&program.disk)),
        evidence: format!(
            "{} syncs {of}, whose threads waited {} for them in {}; {beside}",
            program.syncs,
            format_ns(program.sync_ns as f64),
            format_span_ns(watched_ns),
        ),
        advice: format!(
            "`qd1 trace {disk} --op sync --comm {} --min-lat 10ms` shows what each waits for.",
            word(&program.comm)
        ),
        ..base_finding(FindingId::WatchedSyncs, severity, 0.95)
    })
}

/// `dd (pid 8) changed 3 GiB`.
fn did(other: &OtherUser) -> String {
    // What a program syncs itself was changed and written by it: the larger of both.
    let (written, changed) = (other.written_bytes.0, other.changed_bytes.0);
    let is_same = written.abs_diff(changed) * 10 <= written.max(changed);
    let changed = if is_same { Bytes(0) } else { other.changed_bytes };
    let did = [(other.read_bytes, "read"), (other.written_bytes, "wrote"), (changed, "changed")];
    let did = did.into_iter().filter(|(bytes, _)| bytes.0 > 0).map(|(bytes, verb)| format!("{verb} {bytes}"));
    let who = match other.processes {
        0 | 1 => format!("pid {}", other.pid),
        processes => format!("{processes} processes"),
    };
    format!("{} ({who}) {}", printable(&other.comm), did.collect::<Vec<_>>().join(" and "))
}

/// The limit of a disk that demand was above for most of the time, and its share.
fn limited(WatchedLimits { disk, limits }: &WatchedLimits) -> Option<(f64, Finding)> {
    let [least, much] = LIMITED_SHARES;
    // The volume's come first, so that they are named if shares are equal.
    let (limit, share) = limits.shares().reduce(|most, next| if next.1 > most.1 { next } else { most })?;
    if share < least {
        return None;
    }
    let exceeded = limits.shares().filter(|(_, share)| *share > 0.0);
    let exceeded: Vec<String> = exceeded.map(|(limit, share)| format!("{} {}", limit.name(), percent(share))).collect();
    let is_instance_store = limits.instance_iops_ns.is_none();
    let advice = match limit {
        DiskLimit::InstanceIops | DiskLimit::InstanceThroughput => {
            "The instance has this limit for all its EBS volumes together: an instance type with a higher one for EBS \
             helps, a larger volume does not."
        }
        DiskLimit::VolumeIops | DiskLimit::VolumeThroughput if is_instance_store => {
            "The limits of an instance store volume depend on the type of the instance: larger types have higher ones, \
             or more volumes to spread the load over."
        }
        DiskLimit::VolumeIops => {
            "Provision more IOPS for the volume, or send fewer and larger requests. For volume types whose limit \
             depends on the size, a larger volume has a higher one."
        }
        DiskLimit::VolumeThroughput => {
            "Provision more throughput for the volume. For volume types whose limit depends on the size, a larger \
             volume has a higher one."
        }
    };
    let severity = if share >= much { Severity::Warning } else { Severity::Info };
    let finding = Finding {
        title: format!(
            "demand on {} was above its limit of {} for {} of the time",
            printable(disk),
            limit.name(),
            percent(share)
        ),
        evidence: format!(
            "time above limits, as the disk itself counts it: {} of the {} that its answers cover",
            exceeded.join(", "),
            format_span_ns(limits.observed_ns)
        ),
        advice: advice.to_owned(),
        ..base_finding(FindingId::WatchedLimited, severity, 0.95)
    };
    Some((share, finding))
}

/// A disk that was in use all the time for a good part of the watch.
fn full(disk: &WatchedDisk) -> Option<Finding> {
    if disk.full < FULL_SHARE {
        return None;
    }
    Some(Finding {
        title: format!(
            "the disk {} was busy all the time in {} of the watch",
            printable(&disk.name),
            percent(disk.full)
        ),
        evidence: format!("{:.1} requests in flight on average", disk.in_flight),
        advice:
            "A disk that serves many requests in parallel may still have room: compare its latencies with those of \
                 a quiet time (`qd1 compare`)."
                .to_owned(),
        ..base_finding(FindingId::WatchedBusy, Severity::Info, 0.9)
    })
}

#[cfg(test)]
mod tests {

    use qd1_model::record::watched::{DiskLimits, WatchRecord};

    use super::*;

    const S: u64 = 1_000_000_000;

    fn etcd() -> WatchedProgram {
        WatchedProgram {
            comm: "etcd".to_owned(),
            pid: 77,
            processes: 1,
            disk: "sda".to_owned(),
            syncs: 40,
            sync_ns: 12 * S,
            longest_sync_ns: 812_000_000,
            beside: vec![
                OtherUser { comm: "dd".to_owned(), pid: 8, changed_bytes: Bytes(3 << 30), ..OtherUser::default() },
                OtherUser { comm: "cron".to_owned(), pid: 9, read_bytes: Bytes(4096), ..OtherUser::default() },
            ],
            ..WatchedProgram::default()
        }
    }

    #[test]
    fn who_waited_for_syncs_and_who_was_there_is_named() {
        let found = syncs(&etcd(), 60 * S).unwrap();
        assert_eq!(
            found.title,
            "syncs of etcd on sda took 300 ms on average, up to 812 ms while dd (pid 8) changed 3 GiB"
        );
        assert_eq!(
            found.evidence,
            "40 syncs of pid 77, whose threads waited 12.0 s for them in 60 s; meanwhile dd (pid 8) changed 3 GiB"
        );
        let limit = "its control group's limit (wiops=1)".to_owned();
        let held = syncs(&WatchedProgram { limit, ..etcd() }, 10 * S).expect("it waited long");
        assert!(held.title.ends_with(", held back by its control group's limit (wiops=1)"), "{}", held.title);
        let quick = WatchedProgram { longest_sync_ns: 2_000_000, sync_ns: S / 10, ..etcd() };
        assert_eq!(syncs(&quick, 60 * S), None);
    }

    #[test]
    fn a_hang_is_critical() {
        let wait = LongWait {
            age_ns: 12 * S,
            what: "read".to_owned(),
            disk: "sda".to_owned(),
            comm: "dd".to_owned(),
            pid: 8,
            place: "in the device".to_owned(),
            ..LongWait::default()
        };
        let watched = |age_ns: u64| Watched {
            waits: vec![LongWait { age_ns, ..wait.clone() }],
            waits_seen: 3,
            ..Watched::default()
        };
        let found = waited(&watched(12 * S)).unwrap();
        assert_eq!((found.severity, found.title.as_str()), (Severity::Critical, "a read took 12.0 s or longer on sda"));
        assert_eq!(
            found.evidence,
            "dd (pid 8) waited in the device, first seen after 0 ns; 3 requests and syncs took 0.5 s or longer"
        );
        assert_eq!(waited(&watched(S)).unwrap().severity, Severity::Warning);
        assert_eq!(a("fsync"), "an fsync");
        assert_eq!(a("write"), "a write");
        assert_eq!((word("tokio worker").as_str(), word("a';x").as_str()), ("'tokio worker'", "'a'\\'';x'"));
    }

    /// Watched for 60 s, with answers for 50 s.
    fn ebs(volume_iops_ms: u64, instance_throughput_ms: u64) -> DiskLimits {
        DiskLimits {
            observed_ns: 50 * S,
            volume_iops_ns: volume_iops_ms * 1_000_000,
            volume_throughput_ns: 0,
            instance_iops_ns: Some(0),
            instance_throughput_ns: Some(instance_throughput_ms * 1_000_000),
        }
    }

    fn of_limits(limits: &[DiskLimits]) -> Vec<Finding> {
        let disk = |(at, limits): (usize, &DiskLimits)| WatchedDisk {
            name: format!("nvme{at}n1"),
            limits: Some(*limits),
            ..WatchedDisk::default()
        };
        let disks = limits.iter().enumerate().map(disk).collect();
        let watch = WatchRecord { watched_ns: 60 * S, disks, ..WatchRecord::default() };
        let record = Record { watched: Some(watch), ..crate::testing::record() };
        findings(&of(&record).unwrap(), &record)
    }

    #[test]
    fn the_limit_that_held_a_disk_back_is_named_with_its_share_of_the_observed_time() {
        let found = of_limits(&[ebs(21_500, 1_000)]);
        let [found] = &found[..] else { panic!("{found:?}") };
        assert_eq!((found.id, found.severity), (FindingId::WatchedLimited, Severity::Warning));
        assert_eq!(found.title, "demand on nvme0n1 was above its limit of volume IOPS for 43 % of the time");
        assert_eq!(
            found.evidence,
            "time above limits, as the disk itself counts it: volume IOPS 43 %, instance throughput 2.0 % of the 50 s \
             that its answers cover"
        );
        assert!(found.advice.starts_with("Provision more IOPS"), "{}", found.advice);
        let of_instance = &of_limits(&[ebs(1_000, 4_000)])[0];
        assert!(of_instance.title.contains("limit of instance throughput for 8.0 %"), "{}", of_instance.title);
        assert!(of_instance.severity == Severity::Info && of_instance.advice.contains("a larger volume does not"));
        let store = DiskLimits { instance_iops_ns: None, instance_throughput_ns: None, ..ebs(21_500, 0) };
        assert!(of_limits(&[store])[0].advice.contains("the type of the instance"));
    }

    #[test]
    fn a_limit_is_a_finding_only_if_it_was_seen_to_matter() {
        assert_eq!(of_limits(&[ebs(400, 0)]), [], "less than a hundredth of the time");
        let unseen = DiskLimits { observed_ns: 0, ..ebs(21_500, 0) };
        assert_eq!(of_limits(&[unseen]), [], "no answer covers any time");
        let many = of_limits(&[ebs(1_000, 0), ebs(2_000, 0), ebs(30_000, 0), ebs(3_000, 0)]);
        let titles: Vec<&str> = many.iter().map(|found| &found.title[10..17]).collect();
        assert_eq!(titles, ["nvme2n1", "nvme3n1", "nvme1n1"], "the worst first, and not all");
    }
}
