//! `random_generator=lfsr`: a shift register that visits each block once and stores only its current state.
//!
//! A Galois register of `n` bits whose taps are a primitive polynomial goes through all of `1..2^n` before it comes
//! back. Blocks are the states less one; states beyond the last block are stepped over (cycle walking), which costs
//! less than one step more on average, as `n` is the least that has room.

use super::rng::mix;

/// The least register.
const LEAST_BITS: u32 = 2;

/// Taps of registers of 2 to 64 bits: the coefficients of x^1 to x^n of a primitive polynomial, as bits 0 to n-1 (that
/// of x^0 is one). Found by search among polynomials with about half of their coefficients set, as few taps make
/// neighbours similar; the test below proves each of them from the prime factors of 2^n - 1.
const TAPS: [u64; 63] = [
    0x3,
    0x5,
    0x9,
    0x12,
    0x21,
    0x41,
    0x8E,
    0x12F,
    0x327,
    0x659,
    0xC77,
    0x1E8D,
    0x28AC,
    0x7F20,
    0xB92F,
    0x1_4DAD,
    0x2_6683,
    0x5_A5C0,
    0x8_2FCF,
    0x13_74CB,
    0x3F_3C41,
    0x6E_7609,
    0xD7_46F2,
    0x1EE_544E,
    0x267_652B,
    0x6A1_4F12,
    0x9B4_E5E9,
    0x1D8F_089C,
    0x3FC3_2654,
    0x4D1D_8E78,
    0xD864_824F,
    0x1_2621_8FFD,
    0x3_6C90_25F8,
    0x5_4A3E_31B9,
    0xB_4CCE_0AEA,
    0x14_EA8B_AD8B,
    0x2D_A3B4_8C4A,
    0x64_3604_DC2F,
    0x86_E095_D391,
    0x1B8_AD14_1ABF,
    0x251_CE4A_2BBD,
    0x77E_1613_064F,
    0xDE8_09AF_7530,
    0x1C1A_1E92_0FF4,
    0x350E_6226_CE53,
    0x5B5F_914C_2672,
    0xDE29_02D1_4FB0,
    0x1_A652_34CD_5C87,
    0x3_1177_3591_AB4E,
    0x5_CBD2_5E01_6F45,
    0x8_BA82_F29A_E758,
    0x1A_8315_3F43_F093,
    0x21_6935_CA54_65B9,
    0x46_4D6D_8EF0_2376,
    0xED_D196_1ABC_4A0E,
    0x1BF_3E03_A159_AB16,
    0x241_ACB3_6661_E30F,
    0x672_69F4_903C_8FB1,
    0xA02_DE70_5F6C_AB7A,
    0x1BCF_C901_4AB1_5366,
    0x2581_18BC_096B_4B7F,
    0x4ED0_90CE_D3A2_E727,
    0x916A_1AA8_C1BD_B6AB,
];

/// Each of `0..len` once. The seed determines where it starts and by how much all blocks are rotated, so that clones of
/// a job do not follow each other.
#[derive(Clone, Debug)]
pub(super) struct Lfsr {
    len: u64,
    taps: u64,
    state: u64,
    turn: u64,
    left: u64,
}

impl Lfsr {
    pub(super) fn new(len: u64, seed: u64) -> Self {
        // States are 1 to 2^n - 1, so that many blocks need n bits.
        let bits = (64 - len.leading_zeros()).max(LEAST_BITS);
        let taps = TAPS[(bits - LEAST_BITS) as usize];
        let some = len.max(1);
        Self { len, taps, state: seed % some + 1, turn: mix(seed, 0) % some, left: len }
    }

    /// The next block, until each has been visited.
    #[inline]
    pub(super) fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let ahead = self.len - self.turn;
        let block = self.state - 1;
        let block = if block < ahead { block + self.turn } else { block - ahead };
        loop {
            let out = self.state & 1;
            self.state = (self.state >> 1) ^ (out.wrapping_neg() & self.taps);
            if self.state <= self.len {
                return Some(block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The product of two polynomials over GF(2), reduced by one of degree `bits` whose lower part is `low`.
    fn product(mut a: u64, mut b: u64, bits: u32, low: u64) -> u64 {
        let mut sum = 0;
        while b != 0 {
            if b & 1 == 1 {
                sum ^= a;
            }
            b >>= 1;
            let carry = a >> (bits - 1) & 1;
            a = (a << 1) & (u64::MAX >> (64 - bits));
            if carry == 1 {
                a ^= low;
            }
        }
        sum
    }

    fn power_of_x(mut exponent: u64, bits: u32, low: u64) -> u64 {
        let (mut result, mut base) = (1, 2);
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = product(result, base, bits, low);
            }
            base = product(base, base, bits, low);
            exponent >>= 1;
        }
        result
    }

    /// Distinct prime factors by trial division; what is left of 2^n - 1 after the factors up to 2^21 is prime, or a
    /// product of two that [`LARGE`] names.
    fn prime_factors(mut n: u64) -> Vec<u64> {
        let mut found = Vec::new();
        for large in LARGE {
            if n.is_multiple_of(large) {
                found.push(large);
                while n.is_multiple_of(large) {
                    n /= large;
                }
            }
        }
        let mut divisor = 2;
        while divisor * divisor <= n && divisor < 1 << 21 {
            if n.is_multiple_of(divisor) {
                found.push(divisor);
                while n.is_multiple_of(divisor) {
                    n /= divisor;
                }
            }
            divisor += 1;
        }
        if n > 1 {
            found.push(n);
        }
        found
    }

    /// Prime factors of 2^n - 1 above 2^21, for n up to 64.
    const LARGE: [u64; 14] = [
        2_099_863,
        2_796_203,
        3_033_169,
        6_700_417,
        13_264_529,
        15_790_321,
        20_394_401,
        164_511_353,
        616_318_177,
        715_827_883,
        2_147_483_647,
        3_203_431_780_337,
        4_432_676_798_593,
        2_305_843_009_213_693_951,
    ];

    #[test]
    fn the_taps_of_every_register_are_primitive() {
        for (index, taps) in TAPS.iter().enumerate() {
            let bits = index as u32 + LEAST_BITS;
            let period = u64::MAX >> (64 - bits);
            // The register's taps leave out x^0; reduction by the polynomial needs x^0 to x^(n-1).
            assert_eq!(taps >> (bits - 1), 1, "{bits} bits: the leading coefficient is x^n");
            let low = ((taps << 1) | 1) & period;
            assert_eq!(power_of_x(period, bits, low), 1, "{bits} bits: the order divides 2^n - 1");
            for factor in prime_factors(period) {
                assert_ne!(power_of_x(period / factor, bits, low), 1, "{bits} bits: the order is not less");
            }
        }
    }

    #[test]
    fn a_register_goes_round_its_whole_period() {
        for bits in 2..=16_u32 {
            let len = (1_u64 << bits) - 1;
            let mut lfsr = Lfsr::new(len, 5);
            let mut seen = vec![false; len as usize];
            while let Some(block) = lfsr.next() {
                assert!(!std::mem::replace(&mut seen[block as usize], true));
            }
            assert!(seen.iter().all(|seen| *seen), "{bits} bits");
        }
    }

    proptest! {
        #[test]
        fn each_block_comes_once_whatever_their_number(len in 1u64..5000, seed in any::<u64>()) {
            let mut lfsr = Lfsr::new(len, seed);
            let mut seen = vec![false; len as usize];
            while let Some(block) = lfsr.next() {
                prop_assert!(!seen[block as usize]);
                seen[block as usize] = true;
            }
            prop_assert!(seen.iter().all(|seen| *seen));
        }
    }

    #[test]
    fn a_register_of_no_blocks_has_none() {
        assert_eq!(Lfsr::new(0, 9).next(), None);
    }
}
