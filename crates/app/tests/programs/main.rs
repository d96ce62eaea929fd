//! The binary beside other programs: the servers that it drives, the readers of fio's reports, fio itself, a browser,
//! and the virtual machine of the lab. What is not installed is skipped and says so.

#[path = "../common/mod.rs"]
mod common;

mod bonnie;
mod dsn;
mod fio_logs;
mod fio_rates;
mod fio_same;
mod lab;
mod mysql;
mod others;
mod postgres;
mod readers;
mod report;
