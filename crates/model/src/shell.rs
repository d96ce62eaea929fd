//! Words for a shell.

use crate::printable::is_hidden;

/// Quotes an argument for a shell; one with control characters as bash, ksh and zsh read it.
#[must_use]
pub fn shell_quoted(arg: &str) -> String {
    if arg.contains(is_hidden) {
        return format!("$'{}'", arg.chars().map(in_dollar_quotes).collect::<String>());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=:,+@%".contains(c);
    if !arg.is_empty() && arg.chars().all(plain) { arg.to_owned() } else { format!("'{}'", arg.replace('\'', r"'\''")) }
}

fn in_dollar_quotes(letter: char) -> String {
    match letter {
        '\\' | '\'' => format!("\\{letter}"),
        _ if is_hidden(letter) => letter.to_string().bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
        _ => letter.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_word_is_one_word_and_runs_nothing() {
        assert_eq!(shell_quoted("/var/lib"), "/var/lib");
        assert_eq!(shell_quoted("/tmp/x $(id)"), "'/tmp/x $(id)'");
        assert_eq!(shell_quoted("it's"), r"'it'\''s'");
        assert_eq!(shell_quoted("a\n\u{1b}"), r"$'a\x0a\x1b'");
        assert_eq!(shell_quoted(""), "''");
    }
}
