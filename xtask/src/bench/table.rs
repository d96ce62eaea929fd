//! A plain table with a verdict in its last column.

use std::fmt;

use super::rounds::Spread;

/// The target for a figure.
#[derive(Clone, Copy)]
pub(super) enum Target {
    AtMost(f64),
    AtLeast(f64),
    Between(f64, f64),
}

impl Target {
    fn met(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
            Self::Between(least, most) => (least..=most).contains(&value),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "<= {most}"),
            Self::AtLeast(least) => write!(f, ">= {least}"),
            Self::Between(least, most) => write!(f, "{least} to {most}"),
        }
    }
}

/// Rows of text under a heading; the first column is left-aligned, the others right-aligned.
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    missed: bool,
}

impl Table {
    /// A table with these columns plus two for target and verdict.
    pub(super) fn new(columns: &[&str]) -> Self {
        let heading = columns.iter().chain(&["target", "verdict"]).map(|name| (*name).to_owned()).collect();
        Self { rows: vec![heading], missed: false }
    }

    /// A row whose `value` is judged; one without a target is only shown.
    pub(super) fn row(&mut self, mut cells: Vec<String>, value: f64, target: Option<Target>) {
        let (shown, verdict) = match target {
            Some(target) if target.met(value) => (target.to_string(), "ok"),
            Some(target) => (target.to_string(), "MISSED"),
            None => (String::from("-"), "-"),
        };
        self.missed |= verdict == "MISSED";
        cells.extend([shown, verdict.to_owned()]);
        self.rows.push(cells);
    }

    /// A row for a figure measured in each round on both sides: the peer's, ours, their ratio, and its median, which is
    /// judged.
    pub(super) fn pairs(
        &mut self,
        mut cells: Vec<String>,
        pairs: impl IntoIterator<Item = (f64, f64)>,
        unit: f64,
        target: Option<Target>,
    ) {
        let (peer, ours): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        let ratio = Spread::of(peer.iter().zip(&ours).map(|(peer, ours)| ours / peer));
        cells.extend([Spread::of(peer).shown(unit, 1), Spread::of(ours).shown(unit, 1)]);
        cells.extend([ratio.shown(1.0, 2), format!("{:.3}", ratio.median)]);
        self.row(cells, ratio.median, target);
    }

    /// Whether a row missed its target.
    pub(super) fn missed(&self) -> bool {
        self.missed
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cell = |row: &Vec<String>, column: usize| row.get(column).map_or(0, |text| text.chars().count());
        let widths: Vec<_> = (0..columns).map(|column| self.rows.iter().map(|row| cell(row, column)).max()).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (text, width) in row.iter().zip(&widths) {
                let width = width.unwrap_or(0);
                let padded = if line.is_empty() { format!("{text:<width$}") } else { format!("  {text:>width$}") };
                line.push_str(&padded);
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_target_is_told() {
        let mut table = Table::new(&["engine", "cost"]);
        table.row(vec!["psync".into(), "250".into()], 250.0, Some(Target::AtMost(260.0)));
        table.row(vec!["null".into(), "90".into()], 90.0, None);
        assert!(!table.missed());
        table.row(vec!["libaio".into(), "300".into()], 300.0, Some(Target::AtMost(260.0)));
        assert!(table.missed());
        let text = table.to_string();
        assert!(text.starts_with("engine  cost  target  verdict\npsync    250  <= 260       ok\n"), "{text}");
        assert!(text.ends_with("MISSED\n"), "{text}");
    }

    #[test]
    fn a_range_has_two_ends() {
        let range = Target::Between(0.95, 1.05);
        assert!(range.met(1.0) && !range.met(0.9) && !range.met(1.1) && !range.met(f64::NAN));
    }
}
