//! The order in which the cells of a sweep are measured.
//!
//! A disk changes while it is measured: burst credit runs out, flash fills, a neighbour wakes up. Measured in rising
//! order of depth, that change would look like an effect of depth. So each pass visits all cells in a random order, and
//! every second pass visits them in the reverse order of the pass before it: the mean position is then the same for
//! all cells, and a steady drift cancels out of their means and shows as a difference between passes instead. Within a
//! pass the directions stay together, because writes leave work behind that would disturb reads mixed with them.

/// Returns the cell that each step measures: `passes` permutations of `0..group.len()`, where cells with the same value
/// in `group` stay together. The same seed gives the same order.
#[must_use]
pub fn order(group: &[usize], passes: u32, seed: u64) -> Vec<Vec<usize>> {
    let mut random = SplitMix(seed);
    let mut all: Vec<Vec<usize>> = Vec::new();
    for pass in 0..passes as usize {
        if pass % 2 == 1 {
            let back = all[pass - 1].iter().rev().copied().collect();
            all.push(back);
            continue;
        }
        let mut cells: Vec<usize> = (0..group.len()).collect();
        for end in (1..cells.len()).rev() {
            let other = (random.next() % (end as u64 + 1)) as usize;
            cells.swap(end, other);
        }
        // Stable, so that the order inside a group stays random; each time another group comes first.
        let groups = group.iter().max().map_or(1, |most| most + 1);
        cells.sort_by_key(|cell| (group[*cell] + pass / 2) % groups);
        all.push(cells);
    }
    all
}

/// SplitMix64 (Steele, Lea, Flood 2014): enough for a shuffle.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Correlation between depth and position, which would confound the two.
    fn correlation(order: &[usize], depth: impl Fn(usize) -> f64) -> f64 {
        let n = order.len() as f64;
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for (at, cell) in order.iter().enumerate() {
            x.push(at as f64 - (n - 1.0) / 2.0);
            y.push(depth(*cell));
        }
        let mean = y.iter().sum::<f64>() / n;
        let product: f64 = x.iter().zip(&y).map(|(x, y)| x * (y - mean)).sum();
        let spread = |values: &[f64], mean: f64| values.iter().map(|v| (v - mean).powi(2)).sum::<f64>().sqrt();
        product / (spread(&x, 0.0) * spread(&y, mean))
    }

    #[test]
    fn each_pass_visits_each_cell_once_directions_together() {
        let group: Vec<usize> = (0..70).map(|cell| cell / 35).collect();
        for pass in order(&group, 5, 7) {
            let mut sorted = pass.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..70).collect::<Vec<_>>());
            assert_eq!(pass.windows(2).filter(|pair| group[pair[0]] != group[pair[1]]).count(), 1);
        }
    }

    #[test]
    fn over_two_passes_all_cells_have_the_same_mean_position() {
        let passes = order(&[0; 21], 4, 3);
        for pair in passes.chunks(2) {
            for cell in 0..21 {
                let at: usize = pair.iter().map(|pass| pass.iter().position(|one| *one == cell).unwrap()).sum();
                assert_eq!(at, 20);
            }
        }
    }

    #[test]
    fn time_does_not_follow_depth_even_within_a_pass() {
        let mean: f64 =
            (0..200).map(|seed| correlation(&order(&[0; 35], 1, seed)[0], |cell| (cell % 7) as f64).abs()).sum::<f64>()
                / 200.0;
        // Of 35 random positions the mean is 0.8 / sqrt(34) = 0.14.
        assert!(mean < 0.2, "{mean}");
    }

    #[test]
    fn the_order_depends_on_the_seed_alone() {
        assert_eq!(order(&[0; 12], 3, 5), order(&[0; 12], 3, 5));
        assert_ne!(order(&[0; 12], 3, 5), order(&[0; 12], 3, 6));
    }
}
