//! Options of mounts and commands: what they request stays, names given by the owner go.

use super::words::is_plain;

/// Returns options without values that may name something: `commit=30,data=ordered` as it is, `subvol=/acme` without
/// its value, and `<option>` for any word that is not a known option.
pub(super) fn plain(options: &str) -> String {
    options.split(',').map(plain_option).collect::<Vec<_>>().join(",")
}

fn plain_option(option: &str) -> String {
    match option.split_once('=') {
        Some((name, value)) if is_plain(name) => format!("{name}={}", plain_value(name, value)),
        None if is_plain(option) => option.to_owned(),
        _ => "<option>".to_owned(),
    }
}

/// Returns the value of an option or of a setting, where it names nothing.
pub(super) fn plain_value<'a>(name: &str, value: &'a str) -> &'a str {
    // Whatever the value is, somebody made it up.
    const NAMING: [&str; 16] = [
        "name", "conninfo", "pass", "secret", "path", "dir", "file", "user", "host", "command", "port", "label", "key",
        "ident", "addr", "id",
    ];
    let names_something =
        name.to_ascii_lowercase().split('_').any(|part| NAMING.iter().any(|naming| part.ends_with(naming)));
    if is_plain(name) && is_plain(value) && !names_something { value } else { "<redacted>" }
}

/// Returns a command whose words that may name something are marked.
pub(super) fn plain_command(command: &str) -> String {
    // As a Record has them: the device and the directory are not named.
    let plain = |word: &str| matches!(word, "DEVICE" | "DIR" | "POOL" | "") || is_plain(word);
    let words = command.split(' ').map(|word| if plain(word) { word.to_owned() } else { plain_option(word) });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_where_they_name_nobody() {
        assert_eq!(
            plain("rw,commit=30,data=ordered,subvol=/acme,jdev=SECRET,acme,password=hunter2"),
            "rw,commit=30,data=ordered,<option>,<option>,<option>,<option>"
        );
        assert_eq!(plain("errors=acme,size=512k"), "errors=<redacted>,size=512k");
        // A number may be a name as well as a word.
        assert_eq!(plain("label=7"), "label=<redacted>");
        assert_eq!(plain("cluster_name=1234,wal_level=replica"), "cluster_name=<redacted>,wal_level=replica");
        assert_eq!(plain_command("mkfs.ext4 -q -L acme DEVICE"), "mkfs.ext4 -q -L <option> DEVICE");
    }
}
