//! How much of the processors' time the hypervisor may take before figures are no longer the disk's.
//!
//! Steal is the share of the machine's processor time given to other guests (proc(5)).

/// Share from which it warns.
pub(crate) const STEAL_WARNING: f64 = 0.02;
/// Share from which the hypervisor decides how long the slowest hundredth takes.
pub(crate) const STEAL_TAIL: f64 = 0.03;
/// Share from which all figures are spoiled.
pub(crate) const STEAL_CRITICAL: f64 = 0.10;
