//! Packs long texts for the binary, each as a zlib stream: together they are 0.25 MB, and packed a quarter of that.

use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// The files to pack; `src/packed.rs` unpacks them.
const FILES: [&str; 6] = [
    "../../docs/schema.json",
    "../../docs/schema-compare.json",
    "../../docs/schema-doctor.json",
    "src/html/uPlot.iife.min.js",
    "src/html/report.js",
    "src/plot/draw/font/DejaVuSans.ttf",
];

fn main() -> std::io::Result<()> {
    let out = std::env::var_os("OUT_DIR").expect("cargo names it");
    for file in FILES {
        println!("cargo::rerun-if-changed={file}");
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
        zlib.write_all(&std::fs::read(file)?)?;
        let name = Path::new(file).file_name().expect("each is a file").to_string_lossy();
        std::fs::write(Path::new(&out).join(format!("{name}.zlib")), zlib.finish()?)?;
    }
    Ok(())
}
