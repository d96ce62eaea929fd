//! The commands: each file or folder has the arguments of one command and runs it.

pub(crate) mod app;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod filesystems;
pub(crate) mod fio;
pub(crate) mod help;
pub(crate) mod helpers;
pub(crate) mod history;
pub(crate) mod identify;
pub(crate) mod limits;
pub(crate) mod meta;
pub(crate) mod ping;
pub(crate) mod plot;
pub(crate) mod powercut;
pub(crate) mod predict;
mod ranking;
pub(crate) mod report;
pub(crate) mod restore;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod suites;
pub(crate) mod sweep;
pub(crate) mod sync;
pub(crate) mod trace;
pub(crate) mod version;
pub(crate) mod watch;
