//! Against the fio that is installed: what it wrote we can verify, what we wrote it can, and both name the same wrong
//! block. And what its buffers are like beside ours.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use qd1_fio::FioJob;
use qd1_fio::types::{Pattern, PatternPart, Range, Verify};
use qd1_jobs::data::Filler;
use qd1_jobs::verify::{Verifier, header_bytes};

const SIZE: usize = 256 << 10;
const BLOCK: usize = 4096;

/// HACKING.md, "Tests": neither green nor red.
fn skip(name: &str, why: &str) {
    println!("SKIPPED: {why}");
    if let Some(log) = std::env::var_os("QD1_SKIP_LOG") {
        let mut log = std::fs::OpenOptions::new().append(true).create(true).open(log).expect("QD1_SKIP_LOG opens");
        Write::write_all(&mut log, format!("{name}: {why}\n").as_bytes()).expect("QD1_SKIP_LOG takes a line");
    }
}

/// Whether there is a fio of the third series.
fn has_fio(test: &str) -> bool {
    let version = Command::new("fio").arg("--version").output();
    let found = version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).starts_with("fio-3"));
    if !found {
        skip(test, "fio is not installed");
    }
    found
}

/// Runs fio on `file`, where its reports on wrong blocks go too.
fn fio(file: &Path, args: &[&str]) -> Output {
    let directory = file.parent().unwrap();
    let mut command = Command::new("fio");
    // For its disk utilisation it stats every block device, and complains of one that another test has just removed.
    command.current_dir(directory).args(["--name=v", "--ioengine=psync", "--minimal", "--disk_util=0"]);
    command.arg(format!("--filename={}", file.file_name().unwrap().to_str().unwrap()));
    command.arg(format!("--size={SIZE}")).args(args);
    command.output().expect("fio starts")
}

fn job(verify: Verify) -> FioJob {
    let mut job = FioJob::new("v");
    job.verify = verify;
    if verify == Verify::Pattern {
        job.verify_pattern = Arc::new(Pattern(vec![PatternPart::Bytes(vec![0xde, 0xad, 0xbe]), PatternPart::Offset]));
    }
    job
}

/// The same options for fio.
fn options(verify: Verify) -> Vec<String> {
    let mut options = vec![format!("--verify={}", verify.name())];
    if verify == Verify::Pattern {
        options.push("--verify_pattern=0xdeadbe%o".to_owned());
    }
    options
}

fn with<'a>(options: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    options.iter().map(String::as_str).chain(more.iter().copied()).collect()
}

fn kinds() -> impl Iterator<Item = Verify> {
    Verify::WORDS.iter().map(|(_, verify, _)| *verify).filter(|verify| *verify != Verify::None)
}

/// A file of ours, each block written once.
fn ours(job: &FioJob) -> Vec<u8> {
    let mut verifier = Verifier::new(job, 1, 7).unwrap();
    let mut content = vec![0; SIZE];
    for (number, block) in content.chunks_mut(BLOCK).enumerate() {
        verifier.fill(block, 0, (number * BLOCK) as u64);
    }
    content
}

/// Offsets of the wrong blocks, by our check alone.
fn wrong(job: &FioJob, content: &[u8], request: usize) -> Vec<u64> {
    let verifier = Verifier::new(job, 1, 1).unwrap();
    let requests = content.chunks(request).enumerate();
    let checked = requests.map(|(number, block)| verifier.check(block, (number * request) as u64, None));
    checked.filter_map(Result::err).map(|mismatch| mismatch.offset).collect()
}

#[test]
fn we_accept_every_block_that_fio_wrote() {
    if !has_fio("we_accept_every_block_that_fio_wrote") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for verify in kinds() {
        for order in ["--rw=write", "--rw=randwrite"] {
            let file = directory.path().join(format!("{}{order}", verify.name()));
            let output = fio(&file, &with(&options(verify), &[order, "--bs=4k", "--do_verify=0"]));
            assert!(output.status.success(), "{verify:?}: {}", String::from_utf8_lossy(&output.stderr));
            let mut content = std::fs::read(&file).unwrap();
            assert_eq!(wrong(&job(verify), &content, BLOCK), [0; 0], "{verify:?} {order}");
            // And not because nothing is looked at.
            let at = 9 * BLOCK + 17;
            content[at] ^= 4;
            let found = wrong(&job(verify), &content, BLOCK);
            assert_eq!(found.len(), usize::from(verify != Verify::Null), "{verify:?} {order}");
        }
    }
}

#[test]
fn we_accept_fios_blocks_of_several_sizes_with_a_pattern() {
    if !has_fio("we_accept_fios_blocks_of_several_sizes_with_a_pattern") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for (verify, pattern) in [("md5", false), ("crc64", true), ("sha256", true), ("sha512", false), ("crc7", true)] {
        let file = directory.path().join(verify);
        let kind = format!("--verify={verify}");
        let mut args = vec![kind.as_str(), "--rw=write", "--bsrange=2k-16k", "--do_verify=0"];
        if pattern {
            args.push("--verify_pattern=\"ab\"%o");
        }
        assert!(fio(&file, &args).status.success(), "{verify}");
        let mut job = job(Verify::parse(verify).unwrap());
        job.bsrange[1] = Some(Range { min: 2048, max: 16_384 });
        let content = std::fs::read(&file).unwrap();
        assert_eq!(wrong(&job, &content, SIZE), [0; 0], "{verify}");
    }
}

#[test]
fn fio_accepts_every_block_that_we_wrote() {
    if !has_fio("fio_accepts_every_block_that_we_wrote") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for verify in kinds() {
        let file = directory.path().join(verify.name());
        std::fs::write(&file, ours(&job(verify))).unwrap();
        for args in [&["--rw=read"][..], &["--rw=write", "--verify_only"]] {
            let output = fio(&file, &with(&options(verify), &[args, &["--bs=4k"]].concat()));
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && stderr.is_empty(), "{verify:?} {args:?}: {stderr}");
        }
    }
}

#[test]
fn fio_accepts_our_blocks_of_several_sizes() {
    if !has_fio("fio_accepts_our_blocks_of_several_sizes") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for verify in kinds().filter(|verify| header_bytes(*verify) > 0) {
        let mut job = job(verify);
        job.bsrange[1] = Some(Range { min: 2048, max: 16_384 });
        let mut verifier = Verifier::new(&job, 1, 7).unwrap();
        let mut content = vec![0; SIZE];
        let mut at = 0;
        for units in (1..=8).cycle() {
            let end = (at + units * 2048).min(SIZE);
            verifier.fill(&mut content[at..end], 0, at as u64);
            at = end;
            if at == SIZE {
                break;
            }
        }
        let file = directory.path().join(verify.name());
        std::fs::write(&file, &content).unwrap();
        let output = fio(&file, &with(&options(verify), &["--rw=read", "--bsrange=2k-16k"]));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stderr.is_empty(), "{verify:?}: {stderr}");
    }
}

/// The block that fio's first message is about: `at file NAME offset N`.
fn offset_of(message: &str) -> Option<u64> {
    let rest = message.split(" file ").nth(1)?.split("offset ").nth(1)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[test]
fn fio_and_we_name_the_same_block_when_one_bit_is_wrong() {
    if !has_fio("fio_and_we_name_the_same_block_when_one_bit_is_wrong") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for verify in kinds().filter(|verify| *verify != Verify::Null) {
        let file = directory.path().join(verify.name());
        let job = job(verify);
        let sound = ours(&job);
        // In the header, in the checksum, in the data; fio does not look at meta's data, nor at all of sha512's.
        let checksum = header_bytes(verify).saturating_sub(1);
        let places = match verify {
            Verify::Meta => vec![0, 18, checksum],
            Verify::Sha512 => vec![18, checksum, 4095],
            _ => vec![18, checksum, 2048, 4095],
        };
        for within in places {
            let mut content = sound.clone();
            let block = 13 * BLOCK;
            content[block + within] ^= 1;
            std::fs::write(&file, &content).unwrap();
            let output = fio(&file, &with(&options(verify), &["--rw=read", "--bs=4k", "--verify_fatal=1"]));
            let stderr = String::from_utf8_lossy(&output.stderr);
            let found = wrong(&job, &content, BLOCK);
            assert!(!output.status.success(), "fio accepts {verify:?} with byte {within} wrong");
            assert_eq!(found, [block as u64], "{verify:?} with byte {within} wrong");
            assert_eq!(offset_of(&stderr), Some(block as u64), "{verify:?}, byte {within}: {stderr}");
        }
    }
}

fn ratio(content: &[u8]) -> f64 {
    let packed = |block: &[u8]| {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(block).unwrap();
        encoder.finish().unwrap().len()
    };
    // Each block alone, since that is what storage compresses at the least.
    content.chunks(BLOCK).map(packed).sum::<usize>() as f64 / content.len() as f64
}

fn repeated(content: &[u8]) -> f64 {
    let blocks = content.chunks(BLOCK);
    let count = blocks.len() as f64;
    1.0 - blocks.collect::<HashSet<_>>().len() as f64 / count
}

/// What a job of ours writes in blocks of 4 KiB through two buffers.
fn data(job: &FioJob, size: usize) -> Vec<u8> {
    let mut filler = Filler::new(job, 3);
    let mut buffers = vec![vec![0; BLOCK]; 2];
    buffers.iter_mut().for_each(|buffer| filler.prime(buffer));
    let mut content = Vec::with_capacity(size);
    for write in 0..size / BLOCK {
        let buffer = &mut buffers[write % 2];
        filler.fill(buffer, (write * BLOCK) as u64, write as u64);
        content.extend_from_slice(buffer);
    }
    content
}

#[test]
fn data_compresses_as_asked() {
    for percent in [0, 25, 50, 75, 90] {
        let mut job = FioJob::new("d");
        job.buffer_compress_percentage = percent;
        let ratio = ratio(&data(&job, 1 << 20));
        // zlib spends up to three points on telling of the runs.
        assert!((ratio - (1.0 - f64::from(percent) / 100.0)).abs() < 0.035, "{percent} %: {ratio:.3}");
    }
}

#[test]
fn fios_own_files_compress_and_repeat_like_ours() {
    if !has_fio("fios_own_files_compress_and_repeat_like_ours") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let size = 8 << 20;
    for (compress, dedupe) in [(30, 0), (50, 0), (80, 0), (0, 20), (0, 50), (0, 80), (50, 50)] {
        let mut job = FioJob::new("d");
        job.buffer_compress_percentage = compress;
        job.dedupe_percentage = dedupe;
        let file = directory.path().join(format!("{compress}-{dedupe}"));
        let options = [
            format!("--size={size}"),
            format!("--buffer_compress_percentage={compress}"),
            format!("--dedupe_percentage={dedupe}"),
        ];
        assert!(fio(&file, &with(&options, &["--rw=write", "--bs=4k"])).status.success());
        let (theirs, ours) = (std::fs::read(&file).unwrap(), data(&job, size));
        // Compressing all of it takes a debug build a minute.
        let sample = 512 << 10;
        let figures = (ratio(&ours[..sample]), ratio(&theirs[..sample]), repeated(&ours), repeated(&theirs));
        println!("compress {compress} %, dedupe {dedupe} %: {figures:.3?} (ratio ours, fio's; repeated ours, fio's)");
        assert!((figures.0 - figures.1).abs() < 0.03, "{figures:?}");
        // 2,048 draws each: four standard deviations of the difference.
        assert!((figures.2 - figures.3).abs() < 0.063, "{figures:?}");
    }
}
