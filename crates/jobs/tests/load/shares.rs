//! Shares: what was asked as a percentage or a parameter is what many draws show. Figures are printed.

use std::collections::HashMap;

use super::{extents, load, round};
use qd1_jobs::load::{JobRequest, READ};

/// Draws of each claim.
const DRAWS: usize = 100_000;

fn draws(options: &str, length: u64, n: usize) -> Vec<JobRequest> {
    let mut load = load(options, &extents(1, length), 42);
    (0..n)
        .map(|_| {
            let direction = load.direction();
            load.next(direction).expect("the load goes on")
        })
        .collect()
}

fn assert_near(what: &str, found: f64, asked: f64) {
    println!("{what}: asked {asked:.4}, found {found:.4}, ratio {:.4}", found / asked);
    assert!((found / asked - 1.0).abs() < 0.02, "{what}: asked {asked}, found {found}");
}

fn share(requests: &[JobRequest], what: impl Fn(&JobRequest) -> bool) -> f64 {
    requests.iter().filter(|next| what(next)).count() as f64 / requests.len() as f64
}

#[test]
fn reads_have_the_share_of_rwmixread() {
    for percent in [10, 30, 50, 70, 95] {
        for rw in ["rw", "randrw"] {
            let options = format!("rw={rw} rwmixread={percent} norandommap time_based runtime=1");
            let found = share(&draws(&options, 1 << 30, DRAWS), |next| next.direction == READ);
            assert_near(&options, found, f64::from(percent) / 100.0);
        }
    }
    assert!(draws("rw=randrw rwmixread=100 norandommap", 1 << 20, 1000).iter().all(|next| next.direction == READ));
    assert!(draws("rw=randrw rwmixread=0 norandommap", 1 << 20, 1000).iter().all(|next| next.direction != READ));
}

#[test]
fn block_sizes_have_the_shares_of_bssplit() {
    let shares = [(4096, 10.0), (8192, 25.0), (65536, 65.0)];
    for rw in ["read", "randread norandommap"] {
        let options = format!("rw={rw} bssplit=4k/10:8k/25:64k/");
        let requests = draws(&options, 1 << 40, DRAWS);
        for (len, percent) in shares {
            assert_near(&format!("{options} {len}"), share(&requests, |next| next.len == len), percent / 100.0);
        }
    }
    // Each direction has its own.
    let requests = draws("rw=randrw norandommap bssplit=4k/50:8k/50,16k/20:32k/80", 1 << 30, 2 * DRAWS);
    let (reads, writes): (Vec<_>, Vec<_>) = requests.into_iter().partition(|next| next.direction == READ);
    assert_near("reads of 8k", share(&reads, |next| next.len == 8192), 0.5);
    assert_near("writes of 32k", share(&writes, |next| next.len == 32768), 0.8);
    assert_near("writes of 16k", share(&writes, |next| next.len == 16384), 0.2);
}

#[test]
fn each_multiple_in_a_range_of_blocks_is_as_likely_as_another() {
    let requests = draws("rw=randread norandommap bsrange=4k-16k", 1 << 30, DRAWS);
    for len in [4096, 8192, 12288, 16384] {
        assert_near(&format!("bsrange=4k-16k {len}"), share(&requests, |next| next.len == len), 0.25);
    }
    // An upper end that is no multiple gets what is above the last one.
    let requests = draws("rw=randread norandommap bsrange=4k-10k", 1 << 30, DRAWS);
    for (len, asked) in [(4096, 0.4), (8192, 0.4), (10240, 0.2)] {
        assert_near(&format!("bsrange=4k-10k {len}"), share(&requests, |next| next.len == len), asked);
    }
}

#[test]
fn percentage_random_is_the_share_of_jumps() {
    for percent in [10, 50, 90] {
        let options = format!("rw=randread norandommap percentage_random={percent}");
        let requests = draws(&options, 1 << 34, DRAWS);
        let jumps = requests.windows(2).filter(|pair| pair[1].offset != pair[0].offset + 4096).count();
        assert_near(&options, jumps as f64 / (DRAWS - 1) as f64, f64::from(percent) / 100.0);
    }
    let requests = draws("rw=randread percentage_random=0", 1 << 30, 1000);
    assert!(requests.windows(2).all(|pair| pair[1].offset == pair[0].offset + 4096), "0 % is sequential");
}

/// How often the blocks were drawn, most popular first.
pub(crate) fn popularity(blocks: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut counts = HashMap::new();
    blocks.for_each(|block| *counts.entry(block).or_insert(0_u64) += 1);
    let mut counts: Vec<_> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
}

/// Zipf's exponent by maximum likelihood over the most popular blocks: the one under which the mean logarithm of the
/// rank, given that it is one of those, is the one found.
pub(crate) fn zipf_exponent(counts: &[u64]) -> f64 {
    let top = &counts[..counts.len().min(40)];
    let ranks = || (1..=top.len()).map(|rank| rank as f64);
    let total: u64 = top.iter().sum();
    let found = top.iter().zip(ranks()).map(|(count, rank)| *count as f64 * rank.ln()).sum::<f64>() / total as f64;
    let expected = |theta: f64| {
        let weight: f64 = ranks().map(|rank| rank.powf(-theta)).sum();
        ranks().map(|rank| rank.powf(-theta) * rank.ln()).sum::<f64>() / weight
    };
    let (mut low, mut high) = (0.01, 5.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if expected(middle) > found { low = middle } else { high = middle }
    }
    low
}

/// The share of draws that the most popular part `h` of all `blocks` gets.
pub(crate) fn top_share(counts: &[u64], blocks: f64, h: f64) -> f64 {
    let all: u64 = counts.iter().sum();
    let top: u64 = counts.iter().take((blocks * h) as usize).sum();
    top as f64 / all as f64
}

/// Mean and deviation.
pub(crate) fn moments(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
    (mean, variance.sqrt())
}

#[test]
fn the_exponent_of_zipf_is_recovered() {
    for theta in [0.8, 1.1, 1.2, 1.5, 2.0] {
        let options = format!("rw=randread random_distribution=zipf:{theta}");
        let requests = draws(&options, 10_240 << 12, 4 * DRAWS);
        let counts = popularity(requests.iter().map(|next| next.offset / 4096));
        assert_near(&options, zipf_exponent(&counts), theta);
        // The share of the first rank is one over the sum of all weights.
        let weights: f64 = (1..=10_240).map(|rank| f64::from(rank).powf(-theta)).sum();
        assert_near(&format!("{options}, first rank"), counts[0] as f64 / requests.len() as f64, 1.0 / weights);
    }
}

#[test]
fn under_pareto_a_part_h_of_the_blocks_gets_all_but_h() {
    for h in [0.1, 0.2, 0.4] {
        let options = format!("rw=randread random_distribution=pareto:{h}");
        let requests = draws(&options, 1000 << 12, 4 * DRAWS);
        let counts = popularity(requests.iter().map(|next| next.offset / 4096));
        assert_near(&options, top_share(&counts, 1000.0, h), 1.0 - h);
    }
}

#[test]
fn normal_has_the_mean_and_deviation_asked() {
    for (option, center, deviation) in [("10", 0.5, 0.10), ("2.5", 0.5, 0.025), ("5:0.3", 0.3, 0.05)] {
        let options = format!("rw=randread random_distribution=normal:{option}");
        let length = 1_u64 << 30;
        let places: Vec<f64> =
            draws(&options, length, DRAWS).iter().map(|next| next.offset as f64 / length as f64).collect();
        let (mean, found) = moments(&places);
        assert_near(&format!("{options} mean"), mean, center);
        assert_near(&format!("{options} deviation"), found, deviation);
    }
}

#[test]
fn the_centre_is_the_most_popular_block() {
    for (options, at) in [("zipf:1.2:0.3", 0.3), ("pareto:0.2:0.75", 0.75), ("zipf:1.2:0", 0.0), ("zipf:1.2:1", 0.9999)]
    {
        let requests = draws(&format!("rw=randread random_distribution={options}"), 10_240 << 12, DRAWS);
        let mut counts = HashMap::new();
        requests.iter().for_each(|next| *counts.entry(next.offset / 4096).or_insert(0) += 1);
        let (top, _) = counts.iter().max_by_key(|(_, count)| **count).unwrap();
        assert!((*top as f64 / 10_240.0 - at).abs() < 0.001, "{options}: {top}");
    }
}

#[test]
fn zones_get_the_shares_asked() {
    // Percent of the file; and bytes, with a zone beyond the file whose share goes to the others.
    type Shares = &'static [(f64, f64, f64)];
    let cases: [(&str, Shares); 3] = [
        ("zoned:60/10:30/20:8/30:2/40", &[(0.0, 0.1, 0.6), (0.1, 0.3, 0.3), (0.3, 0.6, 0.08), (0.6, 1.0, 0.02)]),
        ("zoned_abs:70/100m:30/900m", &[(0.0, 0.1, 0.7), (0.1, 1.0, 0.3)]),
        ("zoned_abs:40/500m:10/500m:50/2g", &[(0.0, 0.5, 0.8), (0.5, 1.0, 0.2)]),
    ];
    let length = 1000_u64 << 20;
    for (option, zones) in cases {
        let requests = draws(&format!("rw=randread random_distribution={option}"), length, 4 * DRAWS);
        for (from, to, asked) in zones {
            let inside = |next: &JobRequest| (*from..*to).contains(&(next.offset as f64 / length as f64));
            assert_near(&format!("{option} {from} to {to}"), share(&requests, inside), *asked);
        }
    }
}

#[test]
fn files_have_the_shares_of_their_service() {
    let found = |service: &str| {
        let options = format!("rw=randread norandommap nrfiles=5 file_service_type={service}");
        let requests = round(&mut load(&options, &extents(5, 1 << 20), 8), (DRAWS as u64) << 12);
        let mut counts = popularity(requests.iter().map(|next| u64::from(next.file)));
        counts.resize(5, 0);
        counts.iter().map(|count| *count as f64 / requests.len() as f64).collect::<Vec<_>>()
    };
    found("random").into_iter().for_each(|share| assert_near("random", share, 0.2));
    // Ranks are those of 1024 parts of each file.
    for theta in [0.5, 1.2] {
        let weight = |file: u32| (1..=1024).map(|part| f64::from(file * 1024 + part).powf(-theta)).sum::<f64>();
        let all: f64 = (0..5).map(weight).sum();
        assert_near(&format!("zipf:{theta}, first file"), found(&format!("zipf:{theta}"))[0], weight(0) / all);
    }
    // P(u^e < 1/5) with e = ln h / ln(1 - h).
    let power = 0.8_f64.ln() / 0.2_f64.ln();
    assert_near("pareto:0.2, first file", found("pareto:0.2")[0], 0.2_f64.powf(power));
    // Half a file either side of the middle is one deviation.
    assert_near("normal:10, middle file", found("normal:10")[0], 0.6827);
}
