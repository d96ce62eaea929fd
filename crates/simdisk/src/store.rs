//! The content of a file: sparse, in memory, in pieces that exist once they have been written to.

use std::collections::HashMap;

/// Bytes of one piece.
pub(crate) const PIECE: u64 = 64 << 10;

/// The content of one file.
#[derive(Default)]
pub(crate) struct Store {
    pieces: HashMap<u64, Box<[u8]>>,
    len: u64,
}

/// The pieces that a range touches, each with its part: (number of the piece, start in it, bytes).
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + len as u64;
    let mut at = offset;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let (piece, start) = (at / PIECE, at % PIECE);
            let bytes = (PIECE - start).min(end - at);
            at += bytes;
            (piece, start as usize, bytes as usize)
        })
    })
}

impl Store {
    /// Length of the file, bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of memory it takes.
    pub(crate) fn stored(&self) -> u64 {
        self.pieces.len() as u64 * PIECE
    }

    /// Bytes of memory that a write would add.
    pub(crate) fn growth(&self, offset: u64, len: usize) -> u64 {
        parts(offset, len).filter(|(piece, ..)| !self.pieces.contains_key(piece)).count() as u64 * PIECE
    }

    /// Writes, extending the file if needed.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        let mut rest = data;
        for (piece, start, bytes) in parts(offset, data.len()) {
            let (now, later) = rest.split_at(bytes);
            let piece = self.pieces.entry(piece).or_insert_with(|| vec![0; PIECE as usize].into_boxed_slice());
            piece[start..start + bytes].copy_from_slice(now);
            rest = later;
        }
        self.len = self.len.max(offset + data.len() as u64);
    }

    /// Reads up to `len` bytes, fewer at the end of the file; zeros where nothing has been written.
    pub(crate) fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let len = len.min(self.len.saturating_sub(offset) as usize);
        let mut data = vec![0; len];
        let mut filled = 0;
        for (piece, start, bytes) in parts(offset, len) {
            if let Some(piece) = self.pieces.get(&piece) {
                data[filled..filled + bytes].copy_from_slice(&piece[start..start + bytes]);
            }
            filled += bytes;
        }
        data
    }

    /// Flips one bit of an existing byte; false if there is none.
    pub(crate) fn flip(&mut self, offset: u64, bit: u8) -> bool {
        let Some(piece) = self.pieces.get_mut(&(offset / PIECE)) else { return false };
        piece[(offset % PIECE) as usize] ^= 1 << (bit & 7);
        true
    }

    /// Truncates the file or extends it by a hole.
    pub(crate) fn set_len(&mut self, len: u64) {
        if len < self.len {
            let end = len.next_multiple_of(PIECE);
            self.punch(len, end - len);
            self.pieces.retain(|piece, _| piece * PIECE < end);
        }
        self.len = len;
    }

    /// Turns a range into zeros, and frees the memory of whole pieces.
    pub(crate) fn punch(&mut self, offset: u64, len: u64) {
        for (piece, start, bytes) in parts(offset, len as usize) {
            if bytes as u64 == PIECE {
                self.pieces.remove(&piece);
            } else if let Some(piece) = self.pieces.get_mut(&piece) {
                piece[start..start + bytes].fill(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_read_back_across_pieces_and_holes_are_zeros() {
        let mut store = Store::default();
        let data: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
        let growth = store.growth(PIECE - 10, data.len());
        store.write(PIECE - 10, &data);
        assert_eq!(store.stored(), growth);
        assert_eq!(store.read(PIECE - 10, data.len()), data);
        assert_eq!(store.read(0, 10), vec![0; 10]);
        assert_eq!(store.read(store.len() - 3, 100).len(), 3, "a read ends with the file");
        assert!(store.read(store.len() + 5, 10).is_empty());
    }

    #[test]
    fn a_cut_file_that_grows_again_has_zeros_where_it_was_cut() {
        let mut store = Store::default();
        store.write(0, &[7; 100_000]);
        store.set_len(50);
        store.set_len(100_000);
        assert_eq!(store.read(0, 50), vec![7; 50]);
        assert!(store.read(50, 99_950).iter().all(|byte| *byte == 0));
        assert_eq!(store.stored(), PIECE);
    }

    #[test]
    fn a_flipped_bit_changes_one_byte() {
        let mut store = Store::default();
        store.write(0, &[0; 10]);
        assert!(store.flip(4, 3));
        assert_eq!(store.read(0, 10), [0, 0, 0, 0, 8, 0, 0, 0, 0, 0]);
        assert!(!store.flip(PIECE * 9, 0), "nothing is there");
    }
}
