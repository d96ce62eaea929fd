//! Connection strings, read as libpq reads them, to keep their secrets out of everything that others can see: reports,
//! messages, the history, the command lines of programs.
//!
//! Source: PostgreSQL's documentation, "Connection Strings" (keyword/value strings, and URIs by RFC 3986).

use qd1_model::Problem;

/// Keywords whose values are secret.
const SECRETS: [&str; 5] = ["password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"];
const SCHEMES: [&str; 2] = ["postgresql://", "postgres://"];

/// A connection string in two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conninfo {
    /// Everything except the secrets, as libpq accepts it.
    pub(crate) public: String,
    /// The password, which libpq also reads from PGPASSWORD.
    pub(crate) password: Option<String>,
}

impl Conninfo {
    /// Reads a connection string, or the plain name of a database.
    ///
    /// # Errors
    /// If libpq would not accept it, or it holds a secret other than the password. The message contains no part of it.
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        let (public, secrets) = parts(text).map_err(|why| {
            Problem::usage(format!(
                "--dsn cannot be read: {why}; give keywords such as host=db user=me dbname=x, with quotes around \
                 values that contain blanks (password='a b'), or a URI (postgresql://me@db/x)"
            ))
        })?;
        let mut password = None;
        for (keyword, value) in secrets {
            if keyword != "password" {
                return Err(Problem::usage(format!(
                    "{keyword} in --dsn would be on the command line of psql and pgbench, where all users can see it; \
                     put it in a libpq service file (service=NAME)"
                )));
            }
            // As in libpq, the last one counts.
            password = Some(value);
        }
        Ok(Self { public, password })
    }
}

/// Returns a connection string without its secrets, for reports and messages; one that cannot be read is treated as
/// entirely secret.
pub fn without_password(dsn: &str) -> String {
    parts(dsn).map_or_else(|_| "(an unreadable connection string)".to_owned(), |(public, _)| public)
}

/// The public part, and each secret keyword with its value; or why it cannot be read.
type Parts = Result<(String, Vec<(String, String)>), &'static str>;

fn parts(text: &str) -> Parts {
    match SCHEMES.iter().find_map(|scheme| Some((*scheme, text.strip_prefix(scheme)?))) {
        Some((scheme, rest)) => uri(scheme, rest),
        None if text.contains('=') => keywords(text),
        // libpq would take `me:secret@db` for the name of a database, and print it in its message.
        None if text.contains([':', '/', '@']) => Err("a URI must begin with postgresql://, in lower case"),
        None => Ok((text.to_owned(), Vec::new())),
    }
}

/// `keyword = value` pairs: blanks around the sign and between pairs, values in single quotes, `\` before any
/// character.
fn keywords(text: &str) -> Parts {
    let is_blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c');
    let (mut public, mut secrets) = (Vec::new(), Vec::new());
    let mut rest = text.trim_start_matches(is_blank);
    while !rest.is_empty() {
        let pair = rest;
        let end = rest.find(|c| c == '=' || is_blank(c)).ok_or("a keyword has no value")?;
        let keyword = &rest[..end];
        if keyword.is_empty() || !keyword.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err("a keyword has characters other than letters");
        }
        if keyword.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err("keywords must be in lower case");
        }
        rest = rest[end..].trim_start_matches(is_blank).strip_prefix('=').ok_or("a keyword has no value")?;
        rest = rest.trim_start_matches(is_blank);
        let quoted = rest.starts_with('\'');
        let mut value = String::new();
        let mut chars = rest[usize::from(quoted)..].char_indices();
        let mut taken = rest.len();
        let mut is_closed = !quoted;
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => value.extend(chars.next().map(|(_, c)| c)),
                '\'' if quoted => {
                    (taken, is_closed) = (at + 2, true);
                    break;
                }
                c if !quoted && is_blank(c) => {
                    taken = at;
                    break;
                }
                c => value.push(c),
            }
        }
        if !is_closed {
            return Err("a quoted value has no closing quote");
        }
        rest = &rest[taken..];
        if SECRETS.contains(&keyword) {
            secrets.push((keyword.to_owned(), value));
        } else {
            public.push(pair[..pair.len() - rest.len()].to_owned());
        }
        rest = rest.trim_start_matches(is_blank);
    }
    Ok((public.join(" "), secrets))
}

/// `scheme://user:password@host:port,.../database?keyword=value&...`, each part percent-encoded.
fn uri(scheme: &str, rest: &str) -> Parts {
    let mut secrets = Vec::new();
    let (user, rest) = match user_end(rest) {
        Some(at) => (Some(&rest[..at]), &rest[at + 1..]),
        None => (None, rest),
    };
    let mut public = scheme.to_owned();
    if let Some(user) = user {
        let (name, password) = user.split_once(':').map_or((user, None), |(name, password)| (name, Some(password)));
        if let Some(password) = password {
            secrets.push(("password".to_owned(), decoded(password)?));
        }
        public.push_str(name);
        public.push('@');
    }
    let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
    public.push_str(place);
    let mut sign = '?';
    for pair in query.into_iter().flat_map(|query| query.split('&')) {
        let (keyword, value) = pair.split_once('=').ok_or("a parameter of the URI has no value")?;
        let keyword = decoded(keyword)?;
        if SECRETS.contains(&keyword.as_str()) {
            secrets.push((keyword, decoded(value)?));
        } else {
            public.push(sign);
            public.push_str(pair);
            sign = '&';
        }
    }
    // The slash that ended the host part may have been in the password.
    if user.is_none() && user_end(&public[scheme.len()..]).is_some() {
        return Err("an @ in a parameter of the URI must be written as %40");
    }
    Ok((public, secrets))
}

/// Where the user part of a URI without its scheme ends: at the first @, if no slash comes before it.
fn user_end(rest: &str) -> Option<usize> {
    rest.find(['/', '@']).filter(|at| rest[*at..].starts_with('@'))
}

fn decoded(text: &str) -> Result<String, &'static str> {
    const WHY: &str = "a percent sign of the URI is not followed by two hexadecimal digits of UTF-8";
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16)).ok_or(WHY);
        bytes.push(if byte == b'%' { (digit(rest.next())? * 16 + digit(rest.next())?) as u8 } else { byte });
    }
    String::from_utf8(bytes).map_err(|_| WHY)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Each form in which a password escaped, or could.
    #[test]
    fn no_password_gets_into_a_report() {
        for (dsn, public, password) in [
            ("dbname=x", "dbname=x", None),
            ("x", "x", None),
            ("host=db password=s3cret dbname=x", "host=db dbname=x", Some("s3cret")),
            ("password = s3cret\tdbname = x", "dbname = x", Some("s3cret")),
            ("dbname=x\npassword\n=\n's3 cret'", "dbname=x", Some("s3 cret")),
            (r"dbname='a b' password='it\'s \\ s3cret'user=me", "dbname='a b' user=me", Some(r"it's \ s3cret")),
            (r"password=s3\ cret dbname=x", "dbname=x", Some("s3 cret")),
            ("password=one password=two", "", Some("two")),
            ("password= dbname=x", "", Some("dbname=x")),
            ("postgres://me:s3cret@db:5433/x?password=s3cret", "postgres://me@db:5433/x", Some("s3cret")),
            ("postgresql://me:s3%20cret@db", "postgresql://me@db", Some("s3 cret")),
            ("postgresql:///x?host=/run", "postgresql:///x?host=/run", None),
            ("postgresql://db/x?host=a&password=s3cret&user=me", "postgresql://db/x?host=a&user=me", Some("s3cret")),
            ("postgresql://db/x?pass%77ord=s3cret", "postgresql://db/x", Some("s3cret")),
            ("postgresql://me:s3cret@a:1,b:2/x?a=b", "postgresql://me@a:1,b:2/x?a=b", Some("s3cret")),
            ("postgresql://db/x?application_name=a%40b", "postgresql://db/x?application_name=a%40b", None),
        ] {
            let expected = Conninfo { public: public.to_owned(), password: password.map(str::to_owned) };
            assert_eq!(Conninfo::parse(dsn).unwrap(), expected, "{dsn}");
            assert_eq!(without_password(dsn), public, "{dsn}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_wholly_secret() {
        for dsn in [
            // Without its password the last parameter would be the user (found by the fuzzer).
            "postgresql://?password=cret/&host=a@b",
            "password=s3 cret x=y",
            "password='s3cret",
            "postgresql://db?s3cret",
            "postgresql://me:s3cret%zz@db",
            " postgresql://me:s3cret@db/x?a=b",
            "=s3cret",
            "me:s3cret@db",
            "//me:s3cret@db/x",
            "POSTGRESQL://me:s3cret@db/x",
            "host=db PASSWORD=s3cret",
        ] {
            let error = Conninfo::parse(dsn).unwrap_err().to_string();
            assert!(error.contains("--dsn cannot be read") && !error.contains("cret"), "{dsn}: {error}");
            assert!(!without_password(dsn).contains("cret"), "{dsn}");
        }
        for dsn in ["sslpassword=s3cret", "postgresql://db?sslpass%77ord=s3cret"] {
            let error = Conninfo::parse(dsn).unwrap_err().to_string();
            assert!(error.contains("service file") && !error.contains("s3cret"), "{error}");
            assert!(!without_password(dsn).contains("s3cret"));
        }
    }

    proptest! {
        #[test]
        fn no_string_shows_the_value_of_a_secret(
            secret in "[A-Z]{8}",
            before in "[a-z ='\\\\\t]{0,12}",
            sign in prop_oneof![Just("="), Just(" = "), Just("\t=\n"), Just("='")],
            after in "[a-z ='\\\\]{0,12}",
        ) {
            for keyword in ["password", "sslpassword"] {
                // The text before it may make it a different keyword, or a value: then libpq sees no secret either.
                let dsn = format!("{before} {keyword}{sign}{secret}{after}");
                if let Ok((public, secrets)) = keywords(&dsn) {
                    let is_secret = secrets.iter().any(|(_, value)| value.contains(&secret));
                    prop_assert!(is_secret != public.contains(&secret), "{dsn:?}: {public:?} {secrets:?}");
                }
                let dsn = format!("postgresql://u:{secret}@h/d?{keyword}={secret}");
                prop_assert!(!without_password(&dsn).contains(&secret));
            }
        }
    }
}
