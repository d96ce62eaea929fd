//! The names of all conclusions that detectors can draw, so that the compiler checks any rule that names one.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! findings {
    ($($detector:ident in $base:literal { $($id:ident: $name:literal),+ })+) => {
        /// The detector that looks for it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "named as its file in crates/analysis/src/detect")]
        pub enum Detector {
            $($detector,)+
        }

        impl Detector {
            /// Returns its name, which is the prefix of its findings' names.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$detector => $base,)+
                }
            }
        }

        /// Which detector, and which of its conclusions. Its name, as in JSON, is stable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[expect(missing_docs, reason = "docs/method says what each means")]
        pub enum FindingId {
            $($(#[serde(rename = $name)] $id,)+)+
        }

        impl FindingId {
            /// All of them.
            pub const ALL: &[Self] = &[$($(Self::$id,)+)+];

            /// Returns its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Self::$id => $name,)+)+
                }
            }

            /// Returns the detector that looks for it.
            pub const fn detector(self) -> Detector {
                match self {
                    $($(Self::$id)|+ => Detector::$detector,)+
                }
            }
        }
    };
}

findings! {
    BehindItsRate in "behind_its_rate" { BehindItsRate: "behind_its_rate" }
    BufferedNotDurable in "buffered_not_durable" { BufferedNotDurable: "buffered_not_durable" }
    CacheAnswered in "cache_answered" { CacheAnswered: "cache_answered", CacheAnsweredFilesystem: "cache_answered.filesystem" }
    CpuSpoiled in "cpu_spoiled" { CpuSpoiledRunDelay: "cpu_spoiled.run_delay", CpuSpoiledSteal: "cpu_spoiled.steal", CpuSpoiledTail: "cpu_spoiled.tail" }
    DataReduction in "data_reduction" { DataReductionCompression: "data_reduction.compression", DataReductionDedup: "data_reduction.dedup", DataReductionZeros: "data_reduction.zeros" }
    DirtyLimits in "dirty_limits" { DirtyLimits: "dirty_limits" }
    Drift in "drift" { Drift: "drift" }
    EngineFallback in "engine_fallback" { EngineFallback: "engine_fallback" }
    FirstTouch in "first_touch" { FirstTouchRead: "first_touch.read", FirstTouchWrite: "first_touch.write" }
    FlushCost in "flush_cost" { FlushCostNothing: "flush_cost.nothing", FlushCostWaits: "flush_cost.waits" }
    FlushIgnored in "flush_ignored" { FlushIgnoredMissing: "flush_ignored.missing", FlushIgnoredNoBarrier: "flush_ignored.no_barrier", FlushIgnoredWriteThrough: "flush_ignored.write_through" }
    HostCache in "host_cache" { HostCache: "host_cache" }
    LoadedCommits in "loaded_commits" { LoadedCommitsSlower: "loaded_commits.slower", LoadedCommitsSteady: "loaded_commits.steady" }
    MergedOrSplit in "merged_or_split" { MergedOrSplitMerged: "merged_or_split.merged", MergedOrSplitSplit: "merged_or_split.split" }
    MountOptions in "mount_options" { MountOptionsCommit: "mount_options.commit", MountOptionsData: "mount_options.data", MountOptionsDiscard: "mount_options.discard", MountOptionsNoBarrier: "mount_options.no_barrier", MountOptionsSync: "mount_options.sync" }
    NotADisk in "not_a_disk" { NotADisk: "not_a_disk" }
    OtherTraffic in "other_traffic" { OtherTraffic: "other_traffic" }
    Pace in "pace" { Pace: "pace" }
    PeriodicStalls in "periodic_stalls" { PeriodicStalls: "periodic_stalls" }
    PrepareShortened in "prepare_shortened" { PrepareShortened: "prepare_shortened" }
    RateChanged in "rate_changed" { RateChanged: "rate_changed" }
    RateLimited in "rate_limited" { RateLimited: "rate_limited" }
    ShortOrFailedIo in "short_or_failed_io" { ShortOrFailedIo: "short_or_failed_io", ShortOrFailedIoStep: "short_or_failed_io.step" }
    Stalls in "stalls" { Stalls: "stalls" }
    StorageKind in "storage_kind" { StorageKind: "storage_kind" }
    SweepDepthNotReached in "sweep_depth_not_reached" { SweepDepthNotReached: "sweep_depth_not_reached" }
    SweepDeviceQueue in "sweep_device_queue" { SweepDeviceQueue: "sweep_device_queue" }
    SweepDrift in "sweep_drift" { SweepDrift: "sweep_drift" }
    SweepLittleBroken in "sweep_little_broken" { SweepLittleBroken: "sweep_little_broken" }
    SweepPassesDisagree in "sweep_passes_disagree" { SweepPassesDisagree: "sweep_passes_disagree" }
    ThrottledCgroup in "throttled_cgroup" { ThrottledCgroup: "throttled_cgroup" }
    UnwrittenExtents in "unwritten_extents" { UnwrittenExtentsEncoded: "unwritten_extents.encoded", UnwrittenExtentsMissing: "unwritten_extents.missing" }
    UnwrittenReads in "unwritten_reads" { UnwrittenReads: "unwritten_reads" }
    Watched in "watched" { WatchedBusy: "watched.busy", WatchedLimited: "watched.limited", WatchedSyncs: "watched.syncs", WatchedUnseen: "watched.unseen", WatchedWaited: "watched.waited" }
    WithoutRamp in "without_ramp" { WithoutRamp: "without_ramp" }
}

impl fmt::Display for FindingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl schemars::JsonSchema for FindingId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        String::schema_name()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_in_json_and_begin_with_their_detectors() {
        let names: std::collections::BTreeSet<&str> = FindingId::ALL.iter().map(|id| id.name()).collect();
        assert_eq!(names.len(), FindingId::ALL.len());
        for id in FindingId::ALL {
            let read: FindingId = serde_json::from_value(id.name().into()).unwrap();
            assert_eq!(read, *id);
            assert_eq!(id.name().split('.').next(), Some(id.detector().name()));
        }
    }
}
