//! Versions of kernels and modules.

/// Major and minor of a version such as that of `uname -r`.
pub(crate) fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_releases_are_read() {
        assert_eq!(version_of("6.18.44-fc-v669"), Some((6, 18)));
        assert_eq!(version_of("5.4"), Some((5, 4)));
        assert_eq!(version_of("unknown"), None);
    }
}
