//! `qd1 fio` beside the fio that is installed: the same command lines, run by both, and what a user or a script sees of
//! them from outside. Where fio is not installed, what needs it is skipped aloud.

#[path = "../common/mod.rs"]
mod common;

mod cli;
mod coverage;
mod logs;
mod rates;
mod same;
mod side;
mod stop;
mod verify;
