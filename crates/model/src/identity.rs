//! The kind of storage: a probability for each kind, and the evidence for and against it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StorageKind {
    /// Flash behind PCI Express in this machine.
    Nvme,
    /// Flash behind SATA in this machine.
    SataSsd,
    /// A disk with a head that moves over rotating platters.
    Rotating,
    /// A block device on another machine.
    NetworkBlock,
    /// A filesystem on another machine.
    NetworkFile,
    /// Rotating disks behind a controller whose cache keeps writes.
    RaidCache,
    /// Storage shared with noticeable neighbours.
    Oversold,
    /// A file on an underlying filesystem, here or on the host, with that filesystem's cache in front.
    FileBacked,
    /// Memory.
    Ram,
}

impl StorageKind {
    /// All of them, in the order used in tables.
    pub const ALL: [Self; 9] = [
        Self::Nvme,
        Self::SataSsd,
        Self::Rotating,
        Self::NetworkBlock,
        Self::NetworkFile,
        Self::RaidCache,
        Self::Oversold,
        Self::FileBacked,
        Self::Ram,
    ];

    /// Name in JSON and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nvme => "nvme",
            Self::SataSsd => "sata_ssd",
            Self::Rotating => "rotating",
            Self::NetworkBlock => "network_block",
            Self::NetworkFile => "network_file",
            Self::RaidCache => "raid_cache",
            Self::Oversold => "oversold",
            Self::FileBacked => "file_backed",
            Self::Ram => "ram",
        }
    }

    /// What people call it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Nvme => "local NVMe",
            Self::SataSsd => "local SATA SSD",
            Self::Rotating => "rotating disk",
            Self::NetworkBlock => "network block device",
            Self::NetworkFile => "network filesystem",
            Self::RaidCache => "RAID of disks with a write cache",
            Self::Oversold => "oversold or noisy storage",
            Self::FileBacked => "file-backed disk",
            Self::Ram => "memory",
        }
    }
}

/// How likely one kind is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KindProbability {
    /// The kind.
    pub kind: StorageKind,
    /// 0..1; all of an [`Identity`] sum to 1.
    pub probability: f64,
}

/// Where a piece of evidence comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceSource {
    /// Measured here.
    Measured,
    /// What a device, a driver or the firmware reports about itself: in a virtual machine it reports what the host
    /// wants.
    Label,
    /// What this machine's own kernel does: it serves the requests itself.
    Structure,
}

/// One piece of evidence, and what it says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KindEvidence {
    /// Stable name: `read_median`, `size_slope`, `label_transport`, ...
    pub feature: String,
    /// Where it comes from.
    pub source: EvidenceSource,
    /// What was found, in words: `random 4 KiB reads take 92.1 us`.
    pub text: String,
    /// The figure in the feature's unit (ns, ns per byte, a ratio, a share); absent for labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// How much more likely (above 0) or less likely (below 0) this makes each kind, relative to the average over the
    /// kinds, as a natural logarithm.
    pub weights: Vec<KindWeight>,
}

/// What one piece of evidence says about one kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KindWeight {
    /// The kind.
    pub kind: StorageKind,
    /// Natural logarithm of a likelihood ratio.
    pub weight: f64,
}

/// What a Record says about the kind of storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    /// All nine, most likely first; they sum to 1.
    pub kinds: Vec<KindProbability>,
    /// The evidence, starting with the strongest for the most likely kind.
    pub evidence: Vec<KindEvidence>,
    /// Where labels and measurements disagree, or a layer served by this kernel hides another one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contradictions: Vec<String>,
    /// What could not be examined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// How many features were measured.
    pub measured: u32,
}

impl Identity {
    /// The most likely kind.
    pub fn top(&self) -> Option<KindProbability> {
        self.kinds.first().copied()
    }

    /// The probability of `kind`.
    pub fn of(&self, kind: StorageKind) -> f64 {
        self.kinds.iter().find(|one| one.kind == kind).map_or(0.0, |one| one.probability)
    }
}
