//! fio's own example jobs, which a test reads: Debian packages them separately, and images without documentation lack
//! them.
//!
//! They are GPL and stay outside the repository: the package is unpacked next to the pinned tools, not installed.

use std::path::PathBuf;

use anyhow::Result;

use crate::debian;
use crate::tools::{make_once, tools_dir};

const PACKAGE: &str = "fio-examples";
/// Where the package keeps them.
const INSIDE: &str = "usr/share/doc/fio/examples";

/// Their directory, if they have been fetched.
pub(crate) fn dir() -> Result<PathBuf> {
    Ok(tools_dir()?.join(PACKAGE))
}

/// Fetches them if they are missing. Without them one test is skipped with a message, so this does not fail.
pub(crate) fn fetch() -> Result<()> {
    let outcome = make_once(&dir()?, PACKAGE, |fresh| {
        debian::unpack(&[PACKAGE], fresh)?;
        Ok(fresh.join(INSIDE))
    });
    if let Err(error) = outcome {
        println!("setup: cannot fetch {PACKAGE}: {}", error.to_string().lines().next().unwrap_or_default());
    }
    Ok(())
}
