//! Identifiers and seeds of runs.

use anyhow::{Context as _, Result};

/// Returns twelve random hexadecimal digits from the kernel.
pub fn random_id() -> Result<String> {
    let mut bytes = [0u8; 6];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .context("the kernel gives no random numbers")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns a seed for a run whose user gave none.
pub fn random_seed() -> Result<u64> {
    Ok(seed_of(&random_id()?))
}

/// Derives a seed from the id of a run whose user gave none.
pub fn seed_of(id: &str) -> u64 {
    u64::from_str_radix(id, 16).unwrap_or(1) >> 16
}
