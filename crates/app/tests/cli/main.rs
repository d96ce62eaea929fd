//! The binary from its command line to what it prints and keeps. Needs no root, no other program and no disk of its
//! own; what the other tests need is in `system` and `programs`.

#[path = "../common/mod.rs"]
mod common;

mod bad_input;
mod check;
mod compare;
mod doctor;
mod fio_coverage;
mod fio_line;
mod fio_verify;
mod history;
mod hostile;
mod hostile_files;
mod identify;
mod inputs;
mod install;
mod kept;
mod kept_anyway;
mod long_check;
mod meta;
mod output;
mod ping;
mod plot;
mod powercut;
mod report;
mod signals;
mod suites;
mod sweep;
mod sync;
mod tables;
mod with_load;
