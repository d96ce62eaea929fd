//! Changes texts anywhere in a report.

use qd1_model::Report;
use serde_json::Value;

/// Returns the report whose JSON is `json`, after `change`. It goes through JSON text, as the history does: code that
/// reads all types from values would be just as large again.
///
/// # Errors
/// When the report is not valid JSON, which only a NaN or infinite figure can cause.
pub(crate) fn rewritten(json: &[u8], change: impl FnOnce(&mut Value)) -> serde_json::Result<Report> {
    let mut value = serde_json::from_slice(json)?;
    change(&mut value);
    serde_json::from_slice(&serde_json::to_vec(&value)?)
}
