//! `qd1 limits` as text: the limits found and the evidence for them, or what the disk did without reaching one.

use qd1_model::limits::{Binding, Burst, Direction, Limit, Limits, Quantity};
use qd1_model::units::{format_rate, format_rate_binary, format_span_ns};
use qd1_model::{Estimate, Report};

use crate::page::{BOLD, DIM, GOOD, NOTE, Page};
use crate::section::{Lines, Section};
use crate::sections::check;
use crate::table::{compact, escaped, quoted};
use crate::words;

/// Column at which the text next to a label begins.
const COLUMN: usize = 10;

/// The limits that a search found.
pub(crate) struct Found<'a> {
    pub(crate) report: &'a Report,
    pub(crate) limits: &'a Limits,
}

impl Section for Found<'_> {
    fn answer(&self) -> String {
        sentence(self.limits)
    }

    fn brief(&self, page: &mut Page) {
        brief(page, self.limits);
    }

    fn human(&self, page: &mut Page) {
        section(page, self.limits);
    }

    fn markdown(&self, text: &mut String) {
        markdown(text, self.limits);
        check::steps_markdown(text, self.report);
    }

    fn csv(&self) -> Option<String> {
        Some(csv(self.report, self.limits))
    }

    fn lines(&self, lines: &mut Lines<'_>) {
        lines.all("limit", &self.limits.limits);
        lines.all("binding", &self.limits.binding);
        lines.all("tier", &self.limits.tiers);
    }
}

const CSV: &str = "run,requests,unit,reached,value,low,high,n,block_bytes,watched_ns,burst,burst_low,burst_high,burst_rate,\
                   burst_lasted_ns,refill\n";

/// Returns a row for each limit: its rate, and the burst before it, in requests or bytes.
fn csv(report: &Report, limits: &Limits) -> String {
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let row = |limit: &Limit| {
        let rate = &limit.sustained;
        let burst = limit.burst.as_ref();
        let volume = burst.map(|burst| burst.volume).unwrap_or_default();
        let refill = burst.and_then(|burst| burst.refill.as_ref()).and_then(|refill| refill.value);
        let unit = match limit.quantity {
            Quantity::Requests => "1/s",
            Quantity::Bytes => "B/s",
        };
        let fields = [
            quoted(&report.record.id),
            limit.direction.name().to_owned(),
            unit.to_owned(),
            limit.reached.to_string(),
            number(rate.value),
            number(rate.low),
            number(rate.high),
            rate.n.to_string(),
            limit.block.0.to_string(),
            limit.watched_ns.to_string(),
            number(volume.value),
            number(volume.low),
            number(volume.high),
            number(burst.and_then(|burst| burst.rate.value)),
            burst.map(|burst| burst.lasted_ns.to_string()).unwrap_or_default(),
            number(refill),
        ];
        fields.join(",") + "\n"
    };
    limits.limits.iter().fold(CSV.to_owned(), |text, limit| text + &row(limit))
}

/// Returns what was found in a sentence for each direction, and the published tier that fits best.
fn sentence(limits: &Limits) -> String {
    let mut sentences: Vec<String> =
        Direction::ALL.into_iter().filter_map(|direction| of_direction(limits, direction)).collect();
    if sentences.is_empty() {
        return "No limit was measured.".to_owned();
    }
    match limits.tiers.first() {
        Some(tier) => sentences.push(format!("That fits {}.", tier.name)),
        None if limits.limits.iter().any(|limit| limit.reached) => sentences.push("No known tier fits.".to_owned()),
        None => {}
    }
    sentences.join(" ")
}

/// `Writes are limited to 3,000 IOPS, after a burst of 5,400,000 requests at 10,000 IOPS.`
fn of_direction(limits: &Limits, direction: Direction) -> Option<String> {
    let all: Vec<&Limit> = limits.limits.iter().filter(|limit| limit.direction == direction).collect();
    let what = subject(direction);
    let reached: Vec<&&Limit> = all.iter().filter(|limit| limit.reached).collect();
    let rates = |of: &[&&Limit]| {
        let rates = of.iter().map(|limit| short_rate(limit.quantity, &limit.sustained));
        words::join(&rates.collect::<Vec<_>>())
    };
    if reached.is_empty() {
        let all: Vec<&&Limit> = all.iter().collect();
        return (!all.is_empty()).then(|| format!("{what} reach no limit up to {}.", rates(&all)));
    }
    let bursts = reached.iter().filter_map(|limit| limit.burst.as_ref().map(|burst| (limit.quantity, burst)));
    let bursts: Vec<String> = bursts
        .map(|(unit, burst)| {
            let refill = burst
                .refill
                .as_ref()
                .map_or_else(String::new, |refill| format!(", earned back at {}", short_rate(unit, refill)));
            format!(
                " after a burst of {} at {}{refill}",
                volume(unit, burst.volume.value),
                short_rate(unit, &burst.rate)
            )
        })
        .collect();
    Some(format!("{what} are limited to {}{}.", rates(&reached), bursts.join(",")))
}

const fn subject(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "Reads",
        Direction::Write => "Writes",
        Direction::Both => "Half reads, half writes",
    }
}

/// Returns a rate in one unit: `3,000 IOPS`, `125 MB/s`.
fn short_rate(unit: Quantity, estimate: &Estimate) -> String {
    match (unit, estimate.value) {
        (Quantity::Bytes, Some(value)) => format_rate(value),
        _ => rate(unit, estimate),
    }
}

/// Writes a line for each limit: what it is, and how well it is known.
fn brief(page: &mut Page, limits: &Limits) {
    let row = |limit: &Limit| {
        let how = if limit.reached { "limit" } else { "at least" };
        let watched = format!("{} for {}", limit.block, format_span_ns(limit.watched_ns));
        let span = span(limit.quantity, &limit.sustained).replace("95 % interval ", "");
        vec![subject(limit.direction).to_owned(), how.to_owned(), rate(limit.quantity, &limit.sustained), span, watched]
    };
    let rows: Vec<Vec<String>> = limits.limits.iter().map(row).collect();
    if !rows.is_empty() {
        compact(page, &["requests", "", "sustained", "95 % interval", "watched"], &rows);
    }
    for tier in limits.tiers.iter().take(2) {
        page.hang(2, "fits", BOLD, COLUMN, &format!("{}: {} ({})", tier.name, tier.fits, tier.source));
    }
}

/// Writes a row for each limit, its evidence below, and the tiers that fit.
fn markdown(text: &mut String, limits: &Limits) {
    *text += "### Limits\n\n| requests | | sustained | 95 % interval | block size | watched for | burst |\n|---|---|--:|---|---|--:|---|\n";
    for limit in &limits.limits {
        let how = if limit.reached { "limit" } else { "at least" };
        let span = span(limit.quantity, &limit.sustained).replace("95 % interval ", "");
        let burst = limit.burst.as_ref().map_or_else(String::new, |burst| {
            let (volume, rate) = (volume(limit.quantity, burst.volume.value), short_rate(limit.quantity, &burst.rate));
            let refill =
                burst.refill.as_ref().map(|refill| format!(", earned back at {}", short_rate(limit.quantity, refill)));
            format!("{volume} at {rate}{}", refill.unwrap_or_default())
        });
        *text += &format!(
            "| {} | {how} | {} | {} | {} | {} | {} |\n",
            subject(limit.direction),
            rate(limit.quantity, &limit.sustained),
            escaped(&span),
            limit.block,
            format_span_ns(limit.watched_ns),
            escaped(&burst)
        );
    }
    *text += "\n### Why\n\n";
    for limit in &limits.limits {
        for evidence in &limit.evidence {
            let sign = if evidence.speaks_for { "for" } else { "against" };
            *text +=
                &format!("- {} of {}, {sign}: {}\n", subject(limit.direction), limit.block, escaped(&evidence.text));
        }
    }
    for tier in &limits.tiers {
        *text += &format!("- fits {}: {} ({})\n", escaped(&tier.name), escaped(&tier.fits), escaped(&tier.source));
    }
    text.push('\n');
}

/// Writes the section of the human report.
fn section(page: &mut Page, limits: &Limits) {
    for direction in Direction::ALL {
        let found: Vec<&Limit> = limits.limits.iter().filter(|limit| limit.direction == direction).collect();
        if found.is_empty() {
            continue;
        }
        page.heading(subject(direction));
        for limit in found {
            limit_lines(page, limit);
        }
    }
    binding(page, limits);
    if let Some(shared) = limits.shared {
        let text = if shared { "reads and writes share one budget" } else { "reads and writes have separate budgets" };
        page.heading("Together");
        page.prose(1, text);
    }
    if !limits.tiers.is_empty() {
        page.heading("Known tiers that fit");
        for tier in &limits.tiers {
            page.prose(1, &format!("{}: {} ({})", tier.name, tier.fits, tier.source));
        }
    }
}

fn limit_lines(page: &mut Page, limit: &Limit) {
    let (label, paint) = if limit.reached { ("limit", GOOD) } else { ("at least", DIM) };
    let unit = limit.quantity;
    let mut text = format!("{}, {}", rate(unit, &limit.sustained), span(unit, &limit.sustained));
    text += &format!(" ({} blocks, watched for {})", limit.block, format_span_ns(limit.watched_ns));
    page.hang(1, label, paint, COLUMN, &text);
    if let Some(burst) = &limit.burst {
        burst_line(page, unit, burst);
    }
    let evidence = |supports: bool| {
        let texts: Vec<String> =
            limit.evidence.iter().filter(|e| e.speaks_for == supports).map(|e| e.text.clone()).collect();
        texts.join("; ")
    };
    if limit.reached {
        page.hang(1, "because", BOLD, COLUMN, &evidence(true));
    } else {
        page.hang(1, "no limit", BOLD, COLUMN, &format!("was reached: {}", evidence(false)));
    }
}

fn burst_line(page: &mut Page, unit: Quantity, burst: &Burst) {
    let mut text = format!(
        "{} above the limit, {}, at {} for {}",
        volume(unit, burst.volume.value),
        volume_span(unit, &burst.volume),
        rate(unit, &burst.rate),
        format_span_ns(burst.lasted_ns)
    );
    text += &match &burst.refill {
        Some(refill) => format!("; earned back at {}, {}", rate(unit, refill), span(unit, refill)),
        None => "; refill not measured".to_owned(),
    };
    page.hang(1, "burst", NOTE, COLUMN, &text);
}

/// Writes which limit applies at which block size, a line for each direction.
fn binding(page: &mut Page, limits: &Limits) {
    if !limits.limits.iter().any(|limit| limit.reached) {
        return;
    }
    page.heading("Which limit applies at which block size");
    for direction in [Direction::Read, Direction::Write] {
        let rows: Vec<&Binding> = limits.binding.iter().filter(|row| row.direction == direction).collect();
        let parts: Vec<String> = rows
            .iter()
            .map(|row| {
                let by = match row.by {
                    Some(Quantity::Requests) => "IOPS limit",
                    Some(Quantity::Bytes) => "MB/s limit",
                    None => "the disk itself",
                };
                let how = if row.measured { "" } else { ", calculated" };
                format!("{}: {by} ({}/s{how})", row.block, words::thousands(row.iops.round() as u64))
            })
            .collect();
        if !parts.is_empty() {
            page.hang(1, direction.name(), BOLD, COLUMN, &parts.join("; "));
        }
    }
}

fn rate(unit: Quantity, estimate: &Estimate) -> String {
    let Some(value) = estimate.value else { return "not resolved".to_owned() };
    match unit {
        Quantity::Requests => format!("{} IOPS", words::thousands(value.round() as u64)),
        Quantity::Bytes => format!("{} ({})", format_rate(value), format_rate_binary(value)),
    }
}

fn span(unit: Quantity, estimate: &Estimate) -> String {
    let (Some(low), Some(high)) = (estimate.low, estimate.high) else { return "without an interval".to_owned() };
    match unit {
        Quantity::Requests => {
            format!(
                "95 % interval {} to {}",
                words::thousands(low.round() as u64),
                words::thousands(high.round() as u64)
            )
        }
        Quantity::Bytes => format!("95 % interval {:.2} to {:.2} MB/s", low / 1e6, high / 1e6),
    }
}

fn volume(unit: Quantity, value: Option<f64>) -> String {
    let value = value.unwrap_or(0.0).round() as u64;
    match unit {
        Quantity::Requests => format!("{} requests", words::thousands(value)),
        Quantity::Bytes => format!("{} MB", words::thousands(value / 1_000_000)),
    }
}

fn volume_span(unit: Quantity, estimate: &Estimate) -> String {
    format!("95 % interval {} to {}", volume(unit, estimate.low), volume(unit, estimate.high))
}

#[cfg(test)]
mod tests {
    use qd1_model::limits::Evidence;

    use super::*;
    use crate::page::Style;
    use qd1_model::Bytes;

    fn human(limits: &Limits) -> String {
        let mut page = Page::new(&Style::plain(80));
        section(&mut page, limits);
        page.text
    }

    fn found(reached: bool) -> Limits {
        let estimate = |value| Estimate::exact(value, 100);
        let limit = |direction, quantity, value| Limit {
            direction,
            quantity,
            reached,
            sustained: estimate(value),
            watched_ns: 8_000_000_000,
            block: Bytes(4096),
            burst: reached.then(|| Burst {
                volume: estimate(150_000.0),
                rate: estimate(value * 1.5),
                lasted_ns: 30_000_000_000,
                refill: Some(estimate(value)),
            }),
            evidence: vec![Evidence {
                id: "pinned".to_owned(),
                speaks_for: reached,
                text: "the count wanders".to_owned(),
            }],
        };
        Limits {
            limits: vec![
                limit(Direction::Read, Quantity::Requests, 10_000.0),
                limit(Direction::Write, Quantity::Bytes, 400e6),
            ],
            ..Limits::default()
        }
    }

    #[test]
    fn a_limit_has_its_interval_and_burst_and_fits_the_page() {
        let text = human(&found(true));
        assert!(text.contains("10,000 IOPS") && text.contains("400 MB/s (381 MiB/s)"), "{text}");
        assert!(text.contains("earned back") && text.contains("95 % interval"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn without_a_limit_it_says_at_least_and_never_limit_of() {
        let text = human(&found(false));
        assert!(text.contains("at least 10,000 IOPS") && !text.contains("because"), "{text}");
    }
}
