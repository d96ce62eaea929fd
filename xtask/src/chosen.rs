//! Choosing by name what a command runs.

use anyhow::{Result, bail};

/// Those of `all` with these names, or all if none is given. An error if no `what` has one of the names.
pub(crate) fn chosen<T>(
    all: impl IntoIterator<Item = T>,
    name_of: impl Fn(&T) -> &str,
    names: &[String],
    what: &str,
) -> Result<Vec<T>> {
    let mut all: Vec<T> = all.into_iter().collect();
    let known: Vec<&str> = all.iter().map(&name_of).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("there is no {what} {name}; choose from {}", known.join(", "));
    }
    all.retain(|one| names.is_empty() || names.iter().any(|name| name == name_of(one)));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_all_and_an_unknown_one_is_an_error() {
        let chosen = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            chosen(["a", "b"], |name| name, &names, "letter")
        };
        assert_eq!(chosen(&[]).unwrap(), ["a", "b"]);
        assert_eq!(chosen(&["b"]).unwrap(), ["b"]);
        assert_eq!(chosen(&["c"]).unwrap_err().to_string(), "there is no letter c; choose from a, b");
    }
}
