//! Real programs on the disk: PostgreSQL, MySQL and MariaDB, etcd, SQLite, RocksDB, sysbench, with plain data as
//! options.
//!
//! The interface is [`Driver`], one file or directory for each program; [`ProgramRun`] runs its loads as the steps of
//! an ordinary run.
#![forbid(unsafe_code)]

mod answers;
mod etcd;
mod find;
mod mysql;
pub mod options;
mod postgres;
mod program;
mod puts;
mod rocksdb;
mod run;
mod sqlite;
mod sysbench;
mod tally;
mod text;

pub use etcd::Etcd;
pub use mysql::Mysql;
pub use postgres::{Postgres, without_password};
pub use program::{Driver, Loaded, Site, open_to_others};
pub use rocksdb::Rocksdb;
pub use run::ProgramRun;
pub use sqlite::Sqlite;
pub use sysbench::Sysbench;
