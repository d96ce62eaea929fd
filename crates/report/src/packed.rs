//! Files that are in the binary as zlib streams, which `build.rs` made.

use std::io::Read as _;

use flate2::read::ZlibDecoder;

/// The bytes of a file of `build.rs`, by its name.
macro_rules! packed {
    ($name:literal) => {
        $crate::packed::bytes(include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".zlib")))
    };
}

/// The same of a text.
macro_rules! packed_text {
    ($name:literal) => {
        String::from_utf8($crate::packed::packed!($name)).expect("it is a text")
    };
}

pub(crate) use {packed, packed_text};

/// Unpacks what `build.rs` packed.
pub(crate) fn bytes(packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    ZlibDecoder::new(packed).read_to_end(&mut bytes).expect("build.rs packed it");
    bytes
}
