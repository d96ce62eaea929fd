//! Steps that a plan leaves out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A step that will not run, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Skipped {
    /// The step's name.
    pub name: String,
    /// Why, in one sentence.
    pub why: String,
    /// Whether the user asked for other steps only: nothing is judged by this one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_out: bool,
}

impl Skipped {
    /// A step that cannot run, or does not belong in this run.
    pub fn because(name: &str, why: &str) -> Self {
        Self { name: name.to_owned(), why: why.to_owned(), left_out: false }
    }
}
