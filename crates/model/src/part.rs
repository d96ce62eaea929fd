//! What a report contains in addition to its figures, findings and verdicts, by kind of run: one row for each.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::app::AppSummary;
use crate::figure::Summary;
use crate::filesystems::Comparison;
use crate::finding::Finding;
use crate::identity::Identity;
use crate::limits::Limits;
use crate::long_check::LongCheckSummary;
use crate::meta::Meta;
use crate::prediction::Prediction;
use crate::record::Record;
use crate::reference::{AmongVps, Standing};
use crate::report::Report;
use crate::sweep::Surface;
use crate::sync::SyncTable;
use crate::verdict::{Durability, Grade, Impression, Judged, Verdict};
use crate::watched::Watched;

/// The type of a part.
pub trait IsPart: Sized {
    /// Returns it, if the part is of this type.
    fn of(part: &Part) -> Option<&Self>;
    /// The same, mutably.
    fn of_mut(part: &mut Part) -> Option<&mut Self>;
    /// Returns it as a part.
    fn into_part(self) -> Part;
}

/// Defines [`Part`], and the JSON document of a report, in which each part has its own key.
macro_rules! parts {
    ($($(#[doc = $doc:literal])+ $name:ident($kind:ty) in $key:ident;)+) => {
        /// A part of a report that belongs to one kind of run.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Part {
            $($(#[doc = $doc])+ $name($kind),)+
        }

        $(impl IsPart for $kind {
            fn of(part: &Part) -> Option<&Self> {
                if let Part::$name(found) = part { Some(found) } else { None }
            }

            fn of_mut(part: &mut Part) -> Option<&mut Self> {
                if let Part::$name(found) = part { Some(found) } else { None }
            }

            fn into_part(self) -> Part {
                Part::$name(self)
            }
        })+

        /// One run, judged. Reports render this and compute nothing.
        #[derive(Serialize, Deserialize, JsonSchema)]
        #[schemars(rename = "Report")]
        struct Document<'a> {
            /// Version of this layout: [`crate::SCHEMA_VERSION`].
            schema_version: u32,
            /// Grades per class of workload.
            verdicts: Cow<'a, [Verdict]>,
            /// Commits and reads, described in one word each; empty except in a check of a disk.
            #[serde(default, skip_serializing_if = "is_empty")]
            impressions: Cow<'a, [Impression]>,
            /// Whether flushes write data out; absent except in a check of a disk with commits.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            durability: Option<Cow<'a, Durability>>,
            /// The suite's own criteria, judged, in its order; absent if it has none.
            #[serde(default, skip_serializing_if = "is_empty")]
            criteria: Cow<'a, [Judged]>,
            /// Conclusions, the most severe first.
            findings: Cow<'a, [Finding]>,
            $($(#[doc = $doc])+
            #[serde(default, skip_serializing_if = "Option::is_none")]
            $key: Option<Cow<'a, $kind>>,)+
            /// How the disk ranks among published results; empty except in a check of a disk.
            #[serde(default, skip_serializing_if = "is_empty")]
            standings: Cow<'a, [Standing]>,
            /// How it ranks among VPS measured in the same way; empty except in a check of a disk.
            #[serde(default, skip_serializing_if = "is_empty")]
            among_vps: Cow<'a, [AmongVps]>,
            /// Figures with their intervals.
            summary: Cow<'a, Summary>,
            /// Everything measured.
            record: Cow<'a, Record>,
        }

        impl<'a> Document<'a> {
            fn of(report: &'a Report) -> Self {
                Self {
                    schema_version: report.schema_version,
                    verdicts: Cow::Borrowed(&report.verdicts),
                    impressions: Cow::Borrowed(&report.impressions),
                    durability: report.durability.as_ref().map(Cow::Borrowed),
                    criteria: Cow::Borrowed(&report.criteria),
                    findings: Cow::Borrowed(&report.findings),
                    $($key: report.part().map(Cow::Borrowed),)+
                    standings: Cow::Borrowed(&report.standings),
                    among_vps: Cow::Borrowed(&report.among_vps),
                    summary: Cow::Borrowed(&report.summary),
                    record: Cow::Borrowed(&report.record),
                }
            }

            fn into_report(self) -> Report {
                let mut parts = Vec::new();
                $(parts.extend(self.$key.map(|part| Part::$name(part.into_owned())));)+
                Report {
                    schema_version: self.schema_version,
                    verdicts: self.verdicts.into_owned(),
                    impressions: self.impressions.into_owned(),
                    durability: self.durability.map(Cow::into_owned),
                    criteria: self.criteria.into_owned(),
                    findings: self.findings.into_owned(),
                    parts,
                    standings: self.standings.into_owned(),
                    among_vps: self.among_vps.into_owned(),
                    summary: self.summary.into_owned(),
                    record: self.record.into_owned(),
                }
            }
        }
    };
}

// In the order of a report: a command's own answer comes before parts that a check has as well.
parts! {
    /// Filesystems side by side; absent in other runs.
    Filesystems(Comparison) in filesystems;
    /// Rate limits; absent except in runs of `limits`.
    Limits(Limits) in limits;
    /// What databases will do on the disk; absent unless requested.
    Prediction(Prediction) in prediction;
    /// The hours of a check over hours; absent in other runs.
    LongCheck(LongCheckSummary) in over;
    /// The surface of a sweep; absent in other runs.
    Sweep(Surface) in sweep;
    /// Results of file operations; absent in runs that do not measure them separately.
    Meta(Meta) in meta;
    /// Ways to make writes durable; absent except in runs of `sync`.
    Sync(SyncTable) in sync;
    /// Results from a real program's own counters; absent in other runs.
    App(AppSummary) in app;
    /// What a watch of disks saw; absent in other runs.
    Watch(Watched) in watch;
    /// What kind of storage it is; absent if too little was measured to say anything.
    Identity(Identity) in identity;
}

impl Part {
    /// Returns the grades from its own rules.
    #[must_use]
    pub fn grades(&self) -> Vec<Grade> {
        let Self::App(app) = self else { return Vec::new() };
        app.loads.iter().flat_map(|load| &load.checks).map(|check| check.grade).collect()
    }
}

#[expect(clippy::ptr_arg, reason = "serde passes the field as it is")]
fn is_empty<T: Clone>(list: &Cow<'_, [T]>) -> bool {
    list.is_empty()
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Document::of(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Report {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Document::deserialize(deserializer).map(Document::into_report)
    }
}

impl JsonSchema for Report {
    fn schema_name() -> Cow<'static, str> {
        Document::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Document::json_schema(generator)
    }
}
