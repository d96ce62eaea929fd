//! Axes: where a value lies, where the grid is, and how its numbers are written.

use qd1_model::metric::Unit;
use qd1_model::units::{format_count, format_ns, format_rate};

use crate::plot::chart::{Axis, AxisUnit};

/// Distances of dates on an axis, s: 1, 5, 15 seconds; 1, 5, 15 minutes; 1, 3, 6, 12 hours; days, weeks, about a month, a quarter, a year.
const DATE_STEPS: [f64; 17] = [
    1.0,
    5.0,
    15.0,
    60.0,
    300.0,
    900.0,
    3600.0,
    10_800.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    604_800.0,
    1_209_600.0,
    2_592_000.0,
    7_776_000.0,
    31_536_000.0,
];

/// An axis with its ends, along a stretch of the picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) axis: Axis,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// Fits the axis to what it has to show.
    pub(super) fn fit(axis: Axis, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let shown = values.filter(|value| value.is_finite() && (!axis.is_log || *value > 0.0));
        let (low, high) =
            shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = match axis.unit {
            _ if low > high => {
                if axis.is_log {
                    (1.0, 10.0)
                } else {
                    (0.0, 1.0)
                }
            }
            _ if axis.is_log && low == high => (low / 2.0, high * 2.0),
            _ if axis.is_log => (low / 1.15, high * 1.15),
            AxisUnit::Share => (0.0, 1.0),
            // The first and the last run are not on the frame.
            AxisUnit::Date => {
                let margin = (0.03 * (high - low)).max(1.0);
                (low - margin, high + margin)
            }
            AxisUnit::PerSecond | AxisUnit::BytesPerSecond | AxisUnit::Bytes | AxisUnit::Number => {
                (0.0, if high > 0.0 { high * 1.08 } else { 1.0 })
            }
            _ if low == high => (low - 0.5, high + 0.5),
            _ => (low, high),
        };
        Self { axis, low, high, from, to }
    }

    /// Where a value lies; outside of the stretch for one beyond the ends.
    pub(super) fn place(&self, value: f64) -> f64 {
        let of = |value: f64| if self.axis.is_log { value.max(1e-12).ln() } else { value };
        self.from + (self.to - self.from) * (of(value) - of(self.low)) / (of(self.high) - of(self.low))
    }

    /// The values of the grid: about `most`.
    pub(super) fn ticks(&self, most: usize) -> Vec<f64> {
        let (low, high) = (self.low, self.high);
        let within =
            |values: Vec<f64>| values.into_iter().filter(|value| (low..=high).contains(value)).collect::<Vec<_>>();
        if self.axis.unit == AxisUnit::Nines {
            let nines = within([0.0, -0.5_f64.log10()].into_iter().chain((1..10).map(f64::from)).collect());
            if nines.len() > 1 {
                return nines;
            }
        }
        if self.axis.unit == AxisUnit::Count && self.axis.is_log {
            return within((0..32).map(|power| f64::from(1_u32 << power)).collect());
        }
        if self.axis.unit == AxisUnit::Date {
            let step = DATE_STEPS.into_iter().find(|step| (high - low) / step <= most as f64);
            let step = step.unwrap_or((high - low) / most as f64);
            let first = (low / step).ceil();
            return within((0..=most).map(|at| (first + at as f64) * step).collect());
        }
        if self.axis.is_log {
            let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
            let steps: &[f64] = match high.log10() - low.log10() {
                span if span <= 1.5 => &[1.0, 2.0, 3.0, 5.0, 7.0],
                span if span <= 3.0 => &[1.0, 2.0, 5.0],
                _ => &[1.0],
            };
            let of_decade = |decade: i32| steps.iter().map(move |step| step * 10_f64.powi(decade));
            let found = within(decades.flat_map(of_decade).collect());
            if found.len() > 1 {
                return found;
            }
        }
        let rough = (high - low) / most.max(1) as f64;
        let power = 10_f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|step| *step >= rough).unwrap_or(rough);
        let first = (low / step).ceil();
        (0..=2 * most).map(|at| (first + at as f64) * step).take_while(|value| *value <= high + step * 1e-9).collect()
    }

    /// A number of the axis with its unit.
    pub(super) fn format(&self, value: f64) -> String {
        format(self.axis.unit, value)
    }
}

/// A number with its unit, for people.
pub(super) fn format(unit: AxisUnit, value: f64) -> String {
    match unit {
        AxisUnit::Ns => trimmed(&format_ns(value)),
        AxisUnit::Seconds => format!("{} s", shortest(value)),
        AxisUnit::Date => date(value),
        AxisUnit::PerSecond => trimmed(&format_count(value)),
        AxisUnit::BytesPerSecond => trimmed(&format_rate(value)),
        AxisUnit::Bytes => trimmed(format_rate(value).trim_end_matches("/s")),
        AxisUnit::Nines => {
            let beyond = 10_f64.powf(-value);
            let digits = (value - 2.0).ceil().clamp(0.0, 9.0) as usize;
            format!("{:.digits$} %", 100.0 * (1.0 - beyond))
        }
        AxisUnit::Share => Unit::Share.format(value),
        AxisUnit::Count | AxisUnit::Number | AxisUnit::Names => shortest(value),
    }
}

/// Day, or day and time where it is not midnight.
fn date(seconds: f64) -> String {
    let Ok(at) = jiff::Timestamp::from_second(seconds.round() as i64) else { return String::new() };
    let at = at.to_zoned(jiff::tz::TimeZone::UTC);
    let form = match (at.hour(), at.minute(), at.second()) {
        (0, 0, 0) => "%Y-%m-%d",
        (_, _, 0) => "%m-%d %H:%M",
        _ => "%H:%M:%S",
    };
    at.strftime(form).to_string()
}

fn shortest(value: f64) -> String {
    let rounded = (value * 1e3).round() / 1e3;
    rounded.to_string()
}

/// `10.0 ms` as `10 ms`, `1.50k` as `1.5k`.
fn trimmed(text: &str) -> String {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if !number.contains('.') {
        return text.to_owned();
    }
    format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.'))
}
