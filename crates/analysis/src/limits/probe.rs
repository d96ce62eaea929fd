//! The measurements of the procedure: the purpose of each, and how it appears in the name of its step.

use qd1_model::limits::{Direction, Quantity};

/// The purpose of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Large requests: the limit on bytes.
    Large,
    /// The same after a pause.
    LargeRefill,
    /// At another block size.
    LargeSize,
    /// At twice the depth.
    LargeDepth,
    /// Small requests: the limit on requests.
    Small,
    /// The same after a pause.
    SmallRefill,
    /// At another block size.
    SmallSize,
    /// At twice the depth.
    SmallDepth,
}

impl Role {
    const ALL: [Self; 8] = [
        Self::Large,
        Self::LargeRefill,
        Self::LargeSize,
        Self::LargeDepth,
        Self::Small,
        Self::SmallRefill,
        Self::SmallSize,
        Self::SmallDepth,
    ];

    /// Name in step names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Large => "large",
            Self::LargeRefill => "large-refill",
            Self::LargeSize => "large-size",
            Self::LargeDepth => "large-depth",
            Self::Small => "small",
            Self::SmallRefill => "small-refill",
            Self::SmallSize => "small-size",
            Self::SmallDepth => "small-depth",
        }
    }

    /// The quantity whose limit it looks for.
    pub const fn quantity(self) -> Quantity {
        match self {
            Self::Large | Self::LargeRefill | Self::LargeSize | Self::LargeDepth => Quantity::Bytes,
            Self::Small | Self::SmallRefill | Self::SmallSize | Self::SmallDepth => Quantity::Requests,
        }
    }

    /// Whether it is one of the two that find a limit, rather than one that checks it.
    pub const fn is_main(self) -> bool {
        matches!(self, Self::Large | Self::Small)
    }
}

/// One measurement to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Which requests.
    pub direction: Direction,
    /// Its purpose.
    pub role: Role,
    /// Block size, bytes.
    pub block: u32,
    /// Requests in flight.
    pub iodepth: u32,
    /// Whether offsets are in sequence; else random.
    pub sequential: bool,
    /// Idle time before it, ns.
    pub pause_ns: u64,
    /// Longest time, ns. [`Procedure::enough`](super::Procedure::enough) ends it earlier.
    pub max_ns: u64,
    /// Most bytes, reads and writes together; 0 for no bound.
    pub bytes_max: u64,
}

impl Probe {
    /// Name of its step, which [`Measured::of`](super::Measured::of) parses.
    pub fn name(&self) -> String {
        format!("{}-{}", self.direction.name(), self.role.name())
    }

    /// The probe that a step's name states.
    pub(super) fn parse(name: &str) -> Option<(Direction, Role)> {
        let (direction, role) = name.split_once('-')?;
        let direction = Direction::ALL.into_iter().find(|known| known.name() == direction)?;
        Some((direction, Role::ALL.into_iter().find(|known| known.name() == role)?))
    }
}
