//! A report with other texts in it, wherever they are.

use qd1_model::Report;
use serde_json::Value;

/// Returns the report whose JSON is `json`, after `change`. It goes by its JSON as text, as the history does: the code that
/// reads all types out of values would be as large once more.
///
/// # Errors
/// When the report is no JSON, which only a figure without a value makes it.
pub(crate) fn rewritten(json: &[u8], change: impl FnOnce(&mut Value)) -> serde_json::Result<Report> {
    let mut value = serde_json::from_slice(json)?;
    change(&mut value);
    serde_json::from_slice(&serde_json::to_vec(&value)?)
}
