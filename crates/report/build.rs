//! Packs the JSON Schema of the documents for the binary: its text is 0.1 MB.

use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;

const SCHEMA: &str = "../../docs/schema.json";

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed={SCHEMA}");
    let text = std::fs::read(SCHEMA)?;
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    zlib.write_all(&text)?;
    let out = std::env::var_os("OUT_DIR").expect("cargo names it");
    std::fs::write(Path::new(&out).join("schema.json.zlib"), zlib.finish()?)
}
