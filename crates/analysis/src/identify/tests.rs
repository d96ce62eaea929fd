//! Kinds of storage identified from records built by hand.

use qd1_model::plan::{IoWork, Rw, Sync};

use super::*;
use crate::testing::{self, io};

/// Records of a disk whose figures are these: far, near, forward, 64 KiB, 1 MiB reads, writes and flushes, ns; how many
/// times one request's rate 32 in flight do.
fn record(figures: [u64; 5], commit_ns: (u64, u64), parallel: u64) -> Record {
    let mut record = testing::empty();
    let mut add = |name: &str, work: IoWork, ns: u64, at_once: u64| {
        let per_interval = (at_once * 100_000_000 / ns).max(6);
        testing::step(&mut record, name, work, per_interval.min(4000), ns);
    };
    let [far, near, forward, middle, large] = figures;
    add("a", io(Rw::Randread, 4096, Sync::None, true), far, 1);
    add("b", IoWork { size: qd1_model::Bytes::mib(8), ..io(Rw::Randread, 4096, Sync::None, true) }, near, 1);
    add("c", io(Rw::Read, 4096, Sync::None, true), forward, 1);
    add("d", io(Rw::Randread, 64 << 10, Sync::None, true), middle, 1);
    add("e", io(Rw::Randread, 1 << 20, Sync::None, true), large, 1);
    add("f", IoWork { iodepth: 32, ..io(Rw::Randread, 4096, Sync::None, true) }, far, parallel);
    let (write_ns, sync_ns) = commit_ns;
    add("g", io(Rw::Randwrite, 4096, Sync::Fdatasync, true), write_ns + sync_ns, 1);
    let commits = &mut record.steps.last_mut().expect("just added").streams[0];
    let part = |ns: u64| {
        let mut hist = qd1_model::Hist::new();
        (0..commits.lat.count()).for_each(|_| hist.record(ns));
        hist
    };
    (commits.write_part, commits.sync_part) = (Some(part(write_ns)), Some(part(sync_ns)));
    record
}

fn nvme() -> Record {
    record([80_000, 80_000, 40_000, 95_000, 420_000], (20_000, 30_000), 24)
}

fn head() -> Record {
    record([6_000_000, 4_600_000, 80_000, 6_300_000, 12_000_000], (90_000, 8_300_000), 2)
}

#[test]
fn probabilities_sum_to_one_and_each_figure_names_all_kinds() {
    let identity = identify(&nvme()).unwrap();
    let sum: f64 = identity.kinds.iter().map(|kind| kind.probability).sum();
    assert!((sum - 1.0).abs() < 1e-9 && identity.kinds.len() == KINDS);
    assert!(identity.evidence.iter().all(|one| one.weights.len() == KINDS && !one.text.is_empty()));
    assert_eq!((identity.measured, identity.missing.len()), (6, 0), "{:?}", identity.missing);
}

#[test]
fn clear_figures_give_a_clear_answer_without_any_label() {
    for (record, kind) in [(nvme(), StorageKind::Nvme), (head(), StorageKind::Rotating)] {
        let identity = identify(&record).unwrap();
        assert_eq!(identity.top().unwrap().kind, kind, "{:?}", identity.kinds);
        assert!(identity.of(kind) > 0.7, "{:?}", identity.kinds);
    }
}

#[test]
fn a_label_that_the_measurements_refute_loses_and_is_named() {
    let mut record = head();
    record.environment.virtualization = "none".to_owned();
    record.environment.devices[1].transport = "nvme".to_owned();
    let identity = identify(&record).unwrap();
    assert_eq!(identity.top().unwrap().kind, StorageKind::Rotating);
    assert!(identity.of(StorageKind::Nvme) < 0.02, "{:?}", identity.kinds);
    let named = identity.contradictions.join("; ");
    assert!(named.contains("NVMe device") && named.contains("but"), "{named}");
}

#[test]
fn a_label_that_fits_makes_it_surer() {
    let mut record = nvme();
    let before = identify(&record).unwrap().of(StorageKind::Nvme);
    record.environment.devices[1].transport = "nvme".to_owned();
    record.environment.virtualization = "none".to_owned();
    let identity = identify(&record).unwrap();
    assert!(identity.of(StorageKind::Nvme) > before && identity.contradictions.is_empty());
}

#[test]
fn thin_evidence_is_never_confident() {
    let mut record = nvme();
    record.environment.devices[1].transport = "nvme".to_owned();
    record.environment.virtualization = "none".to_owned();
    for kept in 1..5 {
        let mut thin = record.clone();
        thin.steps.truncate(kept);
        let identity = identify(&thin).unwrap();
        assert!(identity.top().unwrap().probability < 0.9 && identity.measured < PARTS_ENOUGH, "{kept}");
        assert!(!identity.missing.is_empty());
    }
    record.steps.clear();
    assert_eq!(identify(&record), None, "labels alone are no identity");
}

#[test]
fn layers_of_this_kernel_are_known_and_what_is_below_is_named() {
    let mut record = nvme();
    record.environment.devices.insert(
        0,
        qd1_model::environment::Device { name: "loop0".to_owned(), kind: "loop".to_owned(), ..Default::default() },
    );
    let identity = identify(&record).unwrap();
    assert!(identity.of(StorageKind::FileBacked) > 0.95);
    assert_eq!(identity.evidence[0].source, EvidenceSource::Structure);
    assert!(identity.contradictions[0].contains("local NVMe"), "{:?}", identity.contradictions);
}

#[test]
fn waits_for_a_processor_lower_confidence_and_add_no_noise() {
    let mut record = nvme();
    let before = identify(&record).unwrap();
    for step in &mut record.steps {
        step.cost.run_delay_ns = step.runtime_ns * 2 / 5;
    }
    let after = identify(&record).unwrap();
    assert!(after.top().unwrap().probability < before.top().unwrap().probability.min(0.7), "{:?}", after.kinds);
    assert!(after.evidence.iter().all(|one| one.feature != "wander" && one.feature != "read_tail"));
    assert!(after.missing.iter().any(|text| text.contains("processor")), "{:?}", after.missing);
}

#[test]
fn reads_that_a_page_cache_answered_are_not_taken_for_the_disk() {
    let mut record = nvme();
    record.steps.iter_mut().for_each(|step| step.direct = false);
    assert_eq!(identify(&record), None);
}

#[test]
fn engines_without_io_identify_nothing() {
    let mut record = nvme();
    record.steps.iter_mut().for_each(|step| step.engine = Some(qd1_model::plan::EngineKind::Null));
    assert_eq!(identify(&record), None);
}

/// QEMU's limit of 500 requests a second before a file of its host was taken for a network volume with 97 %.
#[test]
fn behind_a_limit_of_requests_no_kind_is_sure() {
    // As many with 32 in flight as with one, and no faster in order than at random.
    let limited = record([1_840_000, 1_830_000, 1_600_000, 1_850_000, 1_860_000], (1_900_000, 7_000), 1);
    let identity = identify(&limited).unwrap();
    assert!(identity.kinds[0].probability < 0.6, "{:?}", identity.kinds);
    assert!(
        identity.missing.iter().any(|one| one.starts_with("which kind of disk is behind a limit")),
        "{:?}",
        identity.missing
    );
    // One head gains by reading in order.
    let head = record([6_000_000, 4_600_000, 80_000, 6_300_000, 12_000_000], (90_000, 8_300_000), 1);
    assert!(
        !identify(&head).unwrap().missing.iter().any(|one| one.starts_with("which kind of disk is behind a limit"))
    );
}
