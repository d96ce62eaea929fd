//! Constants of the running kernel, from its type information (BTF): `aya` finds only those of enumerations with a name.

/// Where the kernel shows its type information.
const VMLINUX: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
/// The kind of an enumeration of 32-bit values.
const ENUM: u32 = 6;

/// Returns the value of an enumerator of the running kernel; `None` if it has none of that name.
pub(crate) fn constant(name: &str) -> Option<u32> {
    find(&std::fs::read(VMLINUX).ok()?, name)
}

fn find(btf: &[u8], name: &str) -> Option<u32> {
    let word = |at: usize| Some(u32::from_ne_bytes(btf.get(at..at.checked_add(4)?)?.try_into().ok()?));
    if btf.get(..2)? != MAGIC.to_ne_bytes() {
        return None;
    }
    // The header's length, then where types and names begin after it, and their lengths.
    let header = word(4)? as usize;
    let (types, types_len, names) = (header + word(8)? as usize, word(12)? as usize, header + word(16)? as usize);
    let is_named = |at: u32| {
        let rest = btf.get(names + at as usize..).unwrap_or_default();
        rest.starts_with(name.as_bytes()) && rest.get(name.len()) == Some(&0)
    };
    let mut at = types;
    while at < types + types_len {
        let info = word(at + 4)?;
        let (kind, members) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        at += 12;
        if kind == ENUM {
            for member in (0..members).map(|member| at + 8 * member) {
                if is_named(word(member)?) {
                    return word(member + 4);
                }
            }
        }
        // What follows the type: for integers, variables and tags a word, for lists of members two or three words each.
        at += match kind {
            1 | 14 | 17 => 4,
            3 => 12,
            4 | 5 | 15 | 19 => 12 * members,
            ENUM | 13 => 8 * members,
            _ => 0,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Type information with an integer, a structure of one member and an enumeration of two.
    fn btf() -> Vec<u8> {
        let types: [u32; 22] = [
            [1, 1 << 24, 4, 32].as_slice(),
            &[0, 4 << 24 | 1, 4, 1, 1, 0],
            &[0, 6 << 24 | 2, 4, 3, 8, 9, 6],
            &[0, 8 << 24, 1, 0, 7 << 24],
        ]
        .concat()
        .try_into()
        .unwrap();
        let names = b"\0a\0BIO_X\0BIO_XY\0";
        let header = [24, 0, 4 * types.len() as u32, 4 * types.len() as u32, names.len() as u32];
        let magic = [MAGIC.to_ne_bytes().as_slice(), &[1, 0]].concat();
        let words = header.iter().chain(&types).flat_map(|word| word.to_ne_bytes());
        magic.into_iter().chain(words).chain(names.iter().copied()).collect()
    }

    #[test]
    fn an_enumerator_is_found_by_its_whole_name() {
        assert_eq!([find(&btf(), "BIO_X"), find(&btf(), "BIO_XY")], [Some(8), Some(6)]);
        assert_eq!([find(&btf(), "BIO_"), find(&btf(), "a")], [None, None]);
    }

    /// The program that checks old bios depends on it.
    #[test]
    fn this_kernel_has_the_flag_of_a_bio_in_flight() {
        if std::fs::exists(VMLINUX).unwrap() {
            assert!(constant("BIO_TRACE_COMPLETION").unwrap() < 16);
        }
    }

    #[test]
    fn damaged_information_has_no_constants() {
        let whole = btf();
        for len in 0..whole.len() - 8 {
            assert_eq!(find(&whole[..len], "BIO_XY"), None, "{len}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] = 0xff;
            let _ = find(&damaged, "BIO_XY");
        }
    }
}
