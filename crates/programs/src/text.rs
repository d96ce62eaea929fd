//! Reads figures from the output of programs.

/// Returns the number that follows the first `mark`: `tps = 812.5 (without ...)` after `tps = `.
pub(crate) fn number_after(text: &str, mark: &str) -> Option<f64> {
    number(text.split_once(mark)?.1)
}

/// Returns the number at the start of a text, ignoring leading spaces.
pub(crate) fn number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let end = text.find(|c: char| !(c.is_ascii_digit() || ".eE+-".contains(c))).unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_after_its_mark() {
        assert_eq!(number_after("latency average = 13.2 ms\ntps = 756.1 (without", "tps = "), Some(756.1));
        assert_eq!(number_after("Throughput is 150 writes/s", "Throughput is "), Some(150.0));
        assert_eq!(number_after("took 1.5e-3s", "took "), Some(0.0015));
        assert_eq!(number_after("nothing", "tps = "), None);
    }
}
