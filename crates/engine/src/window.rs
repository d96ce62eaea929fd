//! The time in which a step measures.

/// When a worker measures and stops, on the engine's clock.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    /// Requests issued (or due) from here on are measured.
    pub(crate) measure_ns: u64,
    /// No request is issued after this moment.
    pub(crate) deadline_ns: u64,
    pub(crate) interval_ns: u64,
}

impl Window {
    /// Whether a request is measured: one issued (or due) after the ramp, or one that waited through the
    /// whole window. Such a request may be all that a window saw of a disk that hangs.
    #[inline(always)]
    pub(crate) fn measures(&self, from_ns: u64, completed_ns: u64) -> bool {
        from_ns >= self.measure_ns || completed_ns >= self.deadline_ns
    }
}
