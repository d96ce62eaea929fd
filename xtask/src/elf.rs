//! Just enough ELF to tell whether a binary is static.

use anyhow::{Result, bail, ensure};

/// Program header type of the path of the dynamic loader (ELF-64 Object File Format, figure 2).
const PT_INTERP: u32 = 3;

/// Whether a 64-bit little-endian ELF file asks for a dynamic loader. A static-pie binary has a dynamic section but no
/// loader, so PT_INTERP is the question to ask.
pub(crate) fn has_interpreter(file: &[u8]) -> Result<bool> {
    ensure!(file.starts_with(b"\x7fELF"), "not an ELF file");
    ensure!(file.get(4..6) == Some(&[2, 1]), "not a 64-bit little-endian ELF file");
    let headers = u64::from_le_bytes(field(file, 0x20)?);
    let size = u16::from_le_bytes(field(file, 0x36)?);
    let count = u16::from_le_bytes(field(file, 0x38)?);
    for index in 0..u64::from(count) {
        let at = headers.saturating_add(index * u64::from(size));
        if u32::from_le_bytes(field(file, usize::try_from(at)?)?) == PT_INTERP {
            return Ok(true);
        }
    }
    Ok(false)
}

fn field<const N: usize>(file: &[u8], at: usize) -> Result<[u8; N]> {
    match file.get(at..at.saturating_add(N)).map(<[u8; N]>::try_from) {
        Some(Ok(bytes)) => Ok(bytes),
        _ => bail!("the ELF file ends before byte {at}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF header with program headers of the given types.
    fn elf(types: &[u32]) -> Vec<u8> {
        let mut file = vec![0_u8; 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[0x20] = 64;
        file[0x36] = 56;
        file[0x38] = u8::try_from(types.len()).unwrap();
        for kind in types {
            file.extend_from_slice(&kind.to_le_bytes());
            file.extend_from_slice(&[0; 52]);
        }
        file
    }

    #[test]
    fn only_a_binary_with_a_loader_is_dynamic() {
        assert!(!has_interpreter(&elf(&[1, 1, 2])).unwrap());
        assert!(has_interpreter(&elf(&[1, 2, PT_INTERP])).unwrap());
    }

    #[test]
    fn a_cut_or_foreign_file_is_an_error() {
        assert!(has_interpreter(b"#!/bin/sh").is_err());
        assert!(has_interpreter(&elf(&[1, 1])[..100]).is_err());
    }
}
