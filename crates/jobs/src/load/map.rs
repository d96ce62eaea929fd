//! Which blocks have been visited: one bit each, and above them levels that summarize 64 words at a time, so that the
//! next free block is found in as many steps as there are levels, even if almost all are taken.

/// A map of `0..len`, all free at first. One bit a block and a 63rd part of that for the summaries.
#[derive(Clone, Debug)]
pub(super) struct Map {
    len: u64,
    free: u64,
    /// The lowest level has a bit for each block; in the others a bit is set if the word below is full.
    levels: Vec<Vec<u64>>,
}

impl Map {
    pub(super) fn new(len: u64) -> Self {
        let mut levels = Vec::new();
        let mut bits = len.max(1);
        loop {
            let words = bits.div_ceil(64);
            levels.push(vec![0_u64; usize::try_from(words).unwrap_or(usize::MAX)]);
            if words == 1 {
                break;
            }
            bits = words;
        }
        let mut map = Self { len, free: len, levels };
        map.clear(len);
        map
    }

    /// Frees everything; from now on the map covers `0..len`, which must not exceed its original size.
    pub(super) fn clear(&mut self, len: u64) {
        (self.len, self.free) = (len, len);
        let mut bits = len;
        for level in &mut self.levels {
            level.fill(0);
            // Blocks beyond the end are never free.
            let word = (bits / 64) as usize;
            if let Some(tail) = level.get_mut(word) {
                *tail = u64::MAX << (bits % 64);
            }
            level.iter_mut().skip(word + 1).for_each(|word| *word = u64::MAX);
            // A word that lies entirely beyond the end is full from the start.
            bits = bits.div_ceil(64);
        }
    }

    /// The first free block at `from` or after it, else the first of all.
    pub(super) fn next_free(&self, from: u64) -> Option<u64> {
        if self.free == 0 {
            return None;
        }
        self.free_from(from).or_else(|| self.free_from(0))
    }

    fn free_from(&self, from: u64) -> Option<u64> {
        let mut at = from;
        let mut level = 0;
        // Up until a word has a free bit at this place or after it,
        let mut found = loop {
            let words = self.levels.get(level)?;
            let open = !*words.get((at / 64) as usize)? & (u64::MAX << (at % 64));
            if open != 0 {
                break at / 64 * 64 + u64::from(open.trailing_zeros());
            }
            at = at / 64 + 1;
            level += 1;
        };
        // then down again along the first free bit of each.
        while level > 0 {
            level -= 1;
            let open = !self.levels[level][found as usize];
            found = found * 64 + u64::from(open.trailing_zeros());
        }
        Some(found)
    }

    /// Takes up to `most` consecutive free blocks from `first`, which is free, and returns how many.
    pub(super) fn take(&mut self, first: u64, most: u64) -> u64 {
        let mut taken = 0;
        while taken < most && first + taken < self.len && !self.is_taken(first + taken) {
            self.set(first + taken);
            taken += 1;
        }
        self.free -= taken;
        taken
    }

    fn is_taken(&self, block: u64) -> bool {
        self.levels[0][(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    fn set(&mut self, block: u64) {
        let mut at = block;
        for level in &mut self.levels {
            let word = &mut level[(at / 64) as usize];
            *word |= 1 << (at % 64);
            if *word != u64::MAX {
                break;
            }
            at /= 64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_next_free_block_is_what_a_plain_search_finds(
            len in 1u64..9000,
            shorter in 0u64..9000,
            draws in proptest::collection::vec((any::<u64>(), 1u64..200), 1..200),
        ) {
            let mut map = Map::new(len);
            let len = if shorter > 0 && shorter < len { map.clear(shorter); shorter } else { len };
            let mut plain = vec![false; len as usize];
            for (draw, most) in draws {
                let from = draw % len;
                let expected = (from..len).chain(0..from).find(|block| !plain[*block as usize]);
                prop_assert_eq!(map.next_free(from), expected);
                let Some(first) = expected else { break };
                let run = (first..len).take(most as usize).take_while(|block| !plain[*block as usize]).count() as u64;
                prop_assert_eq!(map.take(first, most), run);
                (first..first + run).for_each(|block| plain[block as usize] = true);
            }
        }
    }

    #[test]
    fn a_map_fills_up_and_is_empty_again_after_clearing() {
        let mut map = Map::new(300_000);
        for round in 0..2 {
            let mut count = 0;
            while let Some(block) = map.next_free(count * 7919 % 300_000) {
                count += map.take(block, 1);
            }
            assert_eq!(count, 300_000, "round {round}");
            map.clear(300_000);
        }
    }
}
