//! Rate limits of a disk: those that were found, and those that were not reached.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figure::Estimate;
use crate::units::Bytes;

/// Which requests a limit is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Reads alone.
    Read,
    /// Writes alone.
    Write,
    /// Half reads, half writes, counted together.
    Both,
}

impl Direction {
    /// All, in the order they are measured.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Both];

    /// Name in JSON and in step names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Both => "both",
        }
    }
}

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Requests per second.
    Requests,
    /// Bytes per second.
    Bytes,
}

/// What is known about one limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// Which requests.
    pub direction: Direction,
    /// What it counts.
    pub quantity: Quantity,
    /// Whether a limit was reached. If not, `sustained` is what the disk delivered: the limit, if any, is at least
    /// that.
    pub reached: bool,
    /// Requests or bytes per second.
    pub sustained: Estimate,
    /// How long the sustained rate was watched, ns. What a longer burst hides is unknown.
    pub watched_ns: u64,
    /// Block size at which it was measured.
    pub block: Bytes,
    /// Burst above the sustained rate, if one was seen to end.
    pub burst: Option<Burst>,
    /// The evidence for a limit, or why none was reached.
    pub evidence: Vec<Evidence>,
}

/// A burst: what a token bucket held when the disk had been idle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Burst {
    /// Requests or bytes served beyond the sustained rate.
    pub volume: Estimate,
    /// Requests or bytes per second while it lasted: a limit of its own, or the disk's own speed.
    pub rate: Estimate,
    /// How long it lasted under the load, ns.
    pub lasted_ns: u64,
    /// Requests or bytes per second regained while idle; absent if there was no pause.
    pub refill: Option<Estimate>,
}

/// One observation, for or against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Stable name: `same_at_other_size`, `same_at_other_depth`, `pinned`, `slices`, `round`, `burst_ended`, ...
    pub id: String,
    /// Whether it is evidence for a limit.
    pub speaks_for: bool,
    /// The figures.
    pub text: String,
}

/// Which limit decides at one block size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Binding {
    /// Which requests.
    pub direction: Direction,
    /// Block size.
    pub block: Bytes,
    /// The limit that decides; absent if none was reached.
    pub by: Option<Quantity>,
    /// Requests per second that the limits allow, or that the disk delivered.
    pub iops: f64,
    /// Whether `iops` was measured at this size rather than worked out from the limits.
    pub measured: bool,
}

/// A published performance tier that matches the figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TierMatch {
    /// Its name.
    pub name: String,
    /// Where its figures are published.
    pub source: String,
    /// The matching figures, in words.
    pub fits: String,
    /// How many of its published figures match.
    pub agree: u32,
}

/// Everything a run says about a disk's limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// One for each direction and quantity that was measured.
    pub limits: Vec<Limit>,
    /// Which limit decides at which block size.
    pub binding: Vec<Binding>,
    /// Whether reads and writes share the same budget; absent if that could not be determined.
    pub shared: Option<bool>,
    /// Matching published tiers, the best match first.
    pub tiers: Vec<TierMatch>,
}

impl Limits {
    /// The limit on `quantity` in `direction`, if it was measured.
    pub fn get(&self, direction: Direction, quantity: Quantity) -> Option<&Limit> {
        self.limits.iter().find(|limit| limit.direction == direction && limit.quantity == quantity)
    }
}
