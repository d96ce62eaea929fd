//! Keeps every run in SQLite.
