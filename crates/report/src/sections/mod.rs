//! The parts of a report that belong to one kind of run, or to one kind of statement.

pub(crate) mod apps;
pub(crate) mod criteria;
pub(crate) mod filesystems;
pub(crate) mod identity;
pub(crate) mod limits;
pub(crate) mod meta;
pub(crate) mod over;
pub(crate) mod prediction;
pub(crate) mod suite;
pub(crate) mod sweep;
pub(crate) mod sync;
pub(crate) mod tail;
