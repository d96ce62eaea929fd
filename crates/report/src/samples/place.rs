//! The machine of the sample reports, and what was found on it.

use qd1_model::FindingId;
use qd1_model::environment::{Clock, Device, Environment, Filesystem, FilesystemClass};
use qd1_model::identity::StorageKind;
use qd1_model::metric::metric;
use qd1_model::reference::{Published, Standing};
use qd1_model::verdict::{Impression, WordBound};
use qd1_model::{Bytes, Finding, OpClass, Severity, Summary};

pub(super) fn environment() -> Environment {
    let device = |name: &str, kind: &str| Device {
        name: name.into(),
        number: "252:1".into(),
        kind: kind.into(),
        size: Bytes::gib(80),
        discard: Some(true),
        ..Device::default()
    };
    let disk = Device {
        transport: "virtio".into(),
        model: "QEMU QEMU HARDDISK NVMe-oF Premium Block Storage BPKZ-90817263".into(),
        firmware: "2.5+".into(),
        scheduler: "none".into(),
        rotational: Some(false),
        write_cache: "write back".into(),
        ..device("vda", "disk")
    };
    Environment {
        hostname: "db-prod-7".into(),
        kernel: "6.8.0-45-generic".into(),
        os: "Ubuntu 24.04.1 LTS".into(),
        cpu_model: "DO-Premium-AMD".into(),
        cpus: 2,
        memory: Bytes(4_104_921_088),
        virtualization: "kvm".into(),
        vendor: "DigitalOcean".into(),
        product: "Droplet".into(),
        clock: Clock { source: "kvm-clock".into(), read_cost_ns: 31.0, resolution_ns: 1 },
        filesystem: Filesystem {
            kind: "ext4".into(),
            class: FilesystemClass::Disk,
            source: "/dev/vda1".into(),
            mount_point: "/srv".into(),
            options: ["rw", "relatime", "discard", "errors=remount-ro", "commit=30"].map(String::from).to_vec(),
            version: String::new(),
            upper: String::new(),
            id: "5b0e3f6a91c2d874".into(),
            size: Bytes(83_200_000_000),
            available: Bytes(41_300_000_000),
            inodes: None,
        },
        devices: vec![device("vda1", "partition"), disk],
        ..Environment::default()
    }
}

fn finding(severity: Severity, id: FindingId, step: &str, confidence: f64, texts: [&str; 3]) -> Finding {
    let [title, evidence, advice] = texts.map(String::from);
    Finding { id, severity, confidence, step: step.into(), also_in: Vec::new(), title, evidence, advice }
}

pub(super) fn findings() -> Vec<Finding> {
    vec![
        finding(
            Severity::Critical,
            FindingId::FlushIgnoredMissing,
            "commit1",
            0.97,
            [
                "Flushes do not reach the device: a power cut can lose commits that were reported durable.",
                "2,141 fdatasync calls were made; the device counted 0 flushes although its cache is write back.",
                "Ask the provider whether the volume's cache survives a power cut, or keep this database elsewhere.",
            ],
        ),
        finding(
            Severity::Warning,
            FindingId::RateLimited,
            "read32",
            0.99,
            [
                "The volume is limited to 10,000 requests per second.",
                "read32 and write32 both stand at 10.0k/s within 0.4 % from one second to the next, at any block size up to 16k.",
                "More depth will not help; larger requests or a bigger plan will.",
            ],
        ),
        finding(
            Severity::Info,
            FindingId::EngineFallback,
            "",
            1.0,
            [
                "io_uring is blocked on this machine, so libaio ran where requests are queued.",
                "io_uring_setup: EPERM (kernel.io_uring_disabled=2).",
                "",
            ],
        ),
    ]
}

/// Where the slow disk stands among a few published ones.
pub(super) fn standings() -> Vec<Standing> {
    let kind =
        |kind, count, [least_ns, median_ns, most_ns]: [f64; 3]| Published { kind, count, least_ns, median_ns, most_ns };
    vec![Standing {
        requests: "reads".to_owned(),
        median_ns: 302e3,
        slower: 31,
        of: 62,
        kinds: vec![
            kind(StorageKind::Nvme, 16, [6e3, 84e3, 104e3]),
            kind(StorageKind::Rotating, 7, [5.9e6, 8e6, 15e6]),
            kind(StorageKind::NetworkBlock, 20, [11e3, 620e3, 8.3e6]),
        ],
    }]
}

/// What one kind of request is like by its figure in `step`.
pub(super) fn impression(
    requests: &str,
    word: Option<&str>,
    name: &str,
    summary: &Summary,
    step: &str,
    op: OpClass,
) -> Impression {
    let stream = summary.stream(step, op);
    let words = if requests == "commits" {
        [("excellent", 2e6), ("good", 10e6)]
    } else {
        [("excellent", 300e3), ("acceptable", 500e3)]
    };
    Impression {
        requests: requests.to_owned(),
        word: word.map(str::to_owned),
        why: if word.is_some() { String::new() } else { "the figures are not those of a disk".to_owned() },
        metric: name.to_owned(),
        figure: stream.and_then(metric(name).unwrap().get),
        with_waits: None,
        median: stream.map(|stream| stream.lat_p50_ns),
        bounds: words.map(|(word, up_to)| WordBound { word: word.to_owned(), up_to }).into(),
        source: "a test".to_owned(),
    }
}
