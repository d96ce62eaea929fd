//! Rust sources reduced to their code: comments and literals blanked, lines kept.
//!
//! Enough of a lexer for the house rules, so that a word in a comment or a string is not taken for code.

/// The source with comments, strings and characters replaced by spaces. Line breaks stay where they are.
pub(super) fn code_of(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = skip(bytes, at);
        if end == at {
            out.push(char::from(bytes[at]));
            at += 1;
        } else {
            let blanked = bytes[at..end].iter().map(|byte| if *byte == b'\n' { '\n' } else { ' ' });
            out.extend(blanked);
            at = end;
        }
    }
    out
}

/// Where the comment or literal that starts at `at` ends; `at` itself where none starts.
fn skip(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let in_word = at > 0 && is_word(bytes[at - 1]);
    match rest {
        [b'/', b'/', ..] => at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => at + block_comment(rest),
        [b'"', ..] => at + quoted(rest, 1),
        [b'b' | b'c', b'"', ..] if !in_word => at + quoted(rest, 2),
        [b'r', ..] if !in_word => at + raw(rest, 1),
        [b'b' | b'c', b'r', ..] if !in_word => at + raw(rest, 2),
        [b'\'', ..] => at + character(rest),
        _ => at,
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The length of a block comment. They nest.
fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at.min(rest.len())
}

/// The length of a string whose text begins at `at`.
fn quoted(rest: &[u8], mut at: usize) -> usize {
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of a raw string whose hashes begin at `at`, or 0 where it is a word such as `r#type`.
fn raw(rest: &[u8], at: usize) -> usize {
    let hashes = rest[at..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(at + hashes) != Some(&b'"') {
        return 0;
    }
    let close = [&b"\""[..], &b"#".repeat(hashes)].concat();
    let text = at + hashes + 1;
    let end = rest[text..].windows(close.len()).position(|window| window == close);
    end.map_or(rest.len(), |end| text + end + close.len())
}

/// The length of a character literal, or 0 where the quote begins a lifetime.
fn character(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        let end = rest.iter().skip(3).position(|byte| *byte == b'\'');
        return end.map_or(rest.len(), |end| end + 4);
    }
    // One character may be up to four bytes; a lifetime has no quote after its first character.
    let first = std::str::from_utf8(&rest[1..rest.len().min(5)]);
    let valid = first.map_or_else(|error| error.valid_up_to(), str::len);
    let text = std::str::from_utf8(&rest[1..=valid]).unwrap_or_default();
    let width = text.chars().next().map_or(0, char::len_utf8);
    if width > 0 && rest.get(1 + width) == Some(&b'\'') { width + 2 } else { 0 }
}

/// Whether a line of code holds a word as a whole word.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line.as_bytes()[..at].last();
        let after = line.as_bytes().get(at + word.len());
        !before.is_some_and(|byte| is_word(*byte)) && !after.is_some_and(|byte| is_word(*byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_go_and_code_stays() {
        let source = "let a = \"unsafe \\\" x\"; // unsafe\nlet b = r#\"un\"safe\"#; /* a /* b */ c */ unsafe {}\n";
        let code = code_of(source);
        assert_eq!(code.matches("unsafe").count(), 1, "{code}");
        assert_eq!(code.lines().count(), source.lines().count());
        assert!(code.starts_with("let a ="));
    }

    #[test]
    fn quotes_of_lifetimes_and_characters_are_told_apart() {
        let code = code_of("fn f<'a>(x: &'a str) { let q = '\"'; let e = '\\''; let u = 'é'; unsafe {} }");
        assert!(code.contains("fn f<'a>(x: &'a str)") && code.contains("unsafe {}"), "{code}");
        assert!(!code.contains('"'), "{code}");
    }

    #[test]
    fn raw_words_are_words() {
        assert_eq!(code_of("let r#type = br; r"), "let r#type = br; r");
    }

    #[test]
    fn a_word_is_whole() {
        assert!(has_word("unsafe { }", "unsafe"));
        assert!(!has_word("#![forbid(unsafe_code)]", "unsafe"));
        assert!(!has_word("mktemp qd1.aaaaaa", "aaa"));
    }
}
