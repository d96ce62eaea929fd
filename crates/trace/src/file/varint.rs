//! Numbers of variable length (LEB128), and signed ones in zigzag order, as in protocol buffers.

use anyhow::{Result, ensure};

/// Appends a number: seven bits a byte, the lowest first; the highest bit says that more follow.
pub(super) fn put(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Appends a signed number: 0, -1, 1, -2, ... as 0, 1, 2, 3, ...
pub(super) fn put_signed(to: &mut Vec<u8>, value: i64) {
    put(to, (value << 1 ^ value >> 63).cast_unsigned());
}

/// Bytes that are being decoded.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    /// Takes a number.
    ///
    /// # Errors
    /// If the bytes end within it, or it has more than 64 bits.
    pub(super) fn number(&mut self) -> Result<u64> {
        let mut value = 0;
        for (at, byte) in self.0.iter().enumerate() {
            ensure!(at < 9 || at == 9 && *byte <= 1, "a number is too long");
            value |= u64::from(byte & 0x7f) << (7 * at);
            if *byte < 0x80 {
                self.0 = &self.0[at + 1..];
                return Ok(value);
            }
        }
        anyhow::bail!("it ends within a number")
    }

    /// Takes a number of at most 32 bits.
    ///
    /// # Errors
    /// As for [`Bytes::number`].
    pub(super) fn small(&mut self) -> Result<u32> {
        Ok(u32::try_from(self.number()?)?)
    }

    /// Takes a signed number.
    ///
    /// # Errors
    /// As for [`Bytes::number`].
    pub(super) fn signed(&mut self) -> Result<i64> {
        let value = self.number()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// Takes a number of things that follow, each of at least one byte.
    ///
    /// # Errors
    /// If there cannot be as many.
    pub(super) fn count(&mut self) -> Result<usize> {
        let count = self.number()?;
        ensure!(count <= self.0.len() as u64, "it has too few bytes for {count} entries");
        Ok(count as usize)
    }

    /// Takes some bytes.
    ///
    /// # Errors
    /// If there are fewer.
    pub(super) fn some(&mut self, length: usize) -> Result<&'a [u8]> {
        ensure!(length <= self.0.len(), "it ends within a name");
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_written() {
        let values = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        let signed = [0, -1, 1, i64::MIN, i64::MAX, -300];
        let mut bytes = Vec::new();
        values.iter().for_each(|value| put(&mut bytes, *value));
        signed.iter().for_each(|value| put_signed(&mut bytes, *value));
        let mut read = Bytes(&bytes);
        assert_eq!(values.map(|_| read.number().unwrap()), values);
        assert_eq!(signed.map(|_| read.signed().unwrap()), signed);
        assert!(read.number().is_err(), "nothing is left");
        for invalid in [&[0xff; 11][..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], &[0x80]] {
            assert!(Bytes(invalid).number().is_err(), "{invalid:?}");
        }
        assert!(Bytes(&[5, 1, 2]).count().is_err());
    }
}
