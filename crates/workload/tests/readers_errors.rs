//! What is wrong with a file is one clear error: never a panic, never a guess, never a loss.

use std::io::{Cursor, Read, Write};
use std::path::Path;

use block::{AppId, Bytes, Time};
use varve_workload::read::{Compression, VtrHeader, VtrWriter, formats, open_reader};
use varve_workload::{Flags, OpenTrace, ReadOptions, Record, Source, SourceError, TraceOp, open};

fn drain(trace: &mut OpenTrace) -> Result<Vec<Record>, SourceError> {
    let (mut all, mut block) = (Vec::new(), Vec::new());
    loop {
        trace.fill(&mut block)?;
        if block.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&block);
    }
}

fn read(bytes: &[u8], options: &ReadOptions) -> Result<(Vec<Record>, OpenTrace), SourceError> {
    let input = Box::new(Cursor::new(bytes.to_vec()));
    let mut trace = open_reader(Path::new("sample"), input, options)?;
    let records = drain(&mut trace)?;
    Ok((records, trace))
}

fn error(bytes: &[u8]) -> String {
    match read(bytes, &ReadOptions::default()) {
        Ok(_) => panic!("must be an error"),
        Err(e) => e.to_string(),
    }
}

/// `n` lines of MSR CSV.
fn msr(n: u64) -> Vec<u8> {
    let line = |i| format!("{},h,0,Write,{},4096,7\n", i * 10, i * 7919 % 1000 * 4096);
    (0..n).map(line).collect::<String>().into_bytes()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut e = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    e.write_all(bytes).unwrap();
    e.finish().unwrap()
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    liblzma::read::XzEncoder::new(bytes, 1).read_to_end(&mut out).unwrap();
    out
}

fn bz2(bytes: &[u8]) -> Vec<u8> {
    let mut e = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    e.write_all(bytes).unwrap();
    e.finish().unwrap()
}

/// A way to pack bytes.
type Packer = fn(&[u8]) -> Vec<u8>;

const PACKERS: [(Compression, Packer); 4] = [
    (Compression::Gzip, gzip),
    (Compression::Zstd, zst),
    (Compression::Xz, xz),
    (Compression::Bzip2, bz2),
];

#[test]
fn packed_files_read_as_the_plain_one_also_in_several_members() {
    let text = msr(30_000);
    let (plain, _) = read(&text, &ReadOptions::default()).unwrap();
    let cut = text.len() / 3; // in the middle of a line
    for (compression, pack) in PACKERS {
        let name = compression.name();
        let (whole, t) = read(&pack(&text), &ReadOptions::default()).unwrap();
        assert_eq!(t.compression(), compression);
        assert!(whole == plain, "{name}");
        let members = [pack(&text[..cut]), pack(&text[cut..])].concat();
        let (both, _) = read(&members, &ReadOptions::default()).unwrap();
        assert!(both == plain, "{name} of two members");
    }
    // A skippable frame before the first one, as parallel zstd tools write.
    let frame = [&[0x50, 0x2A, 0x4D, 0x18, 4, 0, 0, 0, 1, 2, 3, 4][..], &zst(&text)].concat();
    assert!(read(&frame, &ReadOptions::default()).unwrap().0 == plain);
}

#[test]
fn a_packed_file_that_was_cut_off_or_damaged_says_so() {
    let text = msr(30_000);
    for (compression, pack) in PACKERS {
        let packed = pack(&text);
        for keep in [packed.len() / 2, packed.len() - 3] {
            let e = error(&packed[..keep]);
            assert!(
                e.contains(&format!("the {} data are damaged or cut off", compression.name())),
                "{e}"
            );
        }
        let mut damaged = packed.clone();
        let middle = damaged.len() / 2;
        damaged[middle..middle + 64].iter_mut().for_each(|b| *b ^= 0x5A);
        assert!(read(&damaged, &ReadOptions::default()).is_err(), "{}", compression.name());
    }
}

#[test]
fn good_records_come_before_the_error_and_nothing_after_it() {
    let text = [&msr(5000)[..], b"rubbish\n", &msr(10)].concat();
    let input = Box::new(Cursor::new(text));
    let mut trace = open_reader(Path::new("t.csv"), input, &ReadOptions::default()).unwrap();
    let (mut block, mut n) = (Vec::new(), 0);
    let error = loop {
        match trace.fill(&mut block) {
            Ok(()) => n += block.len(),
            Err(e) => break e,
        }
        assert!(!block.is_empty());
    };
    assert_eq!(n, 5000);
    assert_eq!(error.to_string(), "t.csv:5001:1: found `rubbish`, expected a time in 100 ns");
    trace.fill(&mut block).unwrap();
    assert!(block.is_empty());
}

#[test]
fn columns_and_texts_are_named() {
    let ok = "1,h,0,Read,0,512,1\n1,h,0,Read,0,512,1\n1,h,0,Read,0,512,1\n";
    let cases = [
        ("1,h,0,Raed,0,512,1", "sample:4:7: found `Raed`, expected Read, Write"),
        ("1,h,0,Read,-5,512,1", "sample:4:12: found `-5`, expected an offset in bytes"),
        ("1,h,0,Read,0,512", "sample:4:17: found ``, expected a response time"),
        ("1,h,0,Read,0,0,1", "found `1,h,0,Read,0,0,1`, expected a length of at least one byte"),
        ("1,h,0,Read,99999999999999999999,512,1", "expected an offset in bytes"),
        ("1,h,0,Read,9223372036854775807,512,1", "inside 2^63 bytes"),
        ("1,h,0,Read,0,99999999999,1", "at most 64 GiB"),
        ("1,h,0,Read,0,512,18446744073709551615", "below 213 days"),
        ("1,h,0,Read,0,512,1,Q,c", "sample:4:20: found `Q`, expected flags out of"),
        ("1,h,0,Read,0,512,1,S", "expected the thread name in column 9"),
        ("1,h,0,Read,0,512,1,", "expected the thread name in column 9"),
    ];
    for (line, wanted) in cases {
        let e = error(format!("{ok}{line}\n").as_bytes());
        assert!(e.contains(wanted), "{e}");
    }
}

#[test]
fn bad_lines_are_tolerated_up_to_the_limit_and_counted() {
    let mut text = msr(100);
    text.extend_from_slice(b"x\n");
    text.extend(b"2000,h,0,Read,0,0,1\n1,h,0,Read,0,512,1\n3000,h,0,Read,0,512,1\n");
    let allow = |n| ReadOptions { skip_bad: n, ..ReadOptions::default() };
    let (records, t) = read(&text, &allow(3)).unwrap();
    assert_eq!((records.len(), t.summary().skipped), (101, 3));
    assert_eq!(t.summary().skipped_examples.len(), 3);
    assert!(t.summary().skipped_examples[2].contains("a time not before the line above's"));
    let e = read(&text, &allow(2)).err().unwrap().to_string();
    assert!(e.starts_with("sample:103:1"), "{e}");
}

#[test]
fn files_that_are_no_traces() {
    assert!(error(b"").contains("the file is empty"));
    assert!(error(&gzip(b"")).contains("the file is empty"));
    assert!(error(b"\n\n\n").contains("fit none of the formats"));
    assert!(error(b"Dear Sir,\nyours\n").contains("first line `Dear Sir,`"));
    assert!(error(&[0u8; 5000]).contains("fit none of the formats"));
    let garbage: Vec<u8> =
        (0..200_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 | 1).collect();
    assert!(error(&garbage).contains("fit none of the formats"));
    let mut tar = vec![b'a'; 600];
    tar[257..262].copy_from_slice(b"ustar");
    assert!(error(&tar).contains("tar archive"));
    let header_only = b"Timestamp,Response,IOType,LUN,Offset,Size\n";
    let systor = ReadOptions { format: Some("systor".into()), ..ReadOptions::default() };
    let e = read(header_only, &systor).err().unwrap().to_string();
    assert!(e.contains("no request found in 1 lines"), "{e}");
    let none = ReadOptions { format: Some("nope".into()), ..ReadOptions::default() };
    let e = read(b"1\n", &none).err().unwrap().to_string();
    assert!(e.contains("no format `nope`") && formats().iter().all(|f| e.contains(f.name)), "{e}");
    assert!(
        open(Path::new("/nonexistent/x"), &none)
            .unwrap_err()
            .to_string()
            .contains("/nonexistent/x")
    );
    assert!(open(Path::new("/"), &none).unwrap_err().to_string().contains("directory"));
}

/// A line that never ends.
struct Endless;

impl Read for Endless {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        buf.fill(b'7');
        Ok(buf.len())
    }
}

#[test]
fn a_line_without_end_takes_no_memory() {
    for format in ["msr", "ids", "spc", "csv"] {
        let options = ReadOptions {
            format: Some(format.into()),
            columns: (format == "csv").then(|| "off=1:byte,len=1:byte".into()),
            ..ReadOptions::default()
        };
        let mut trace = open_reader(Path::new("x"), Box::new(Endless), &options).unwrap();
        let e = trace.fill(&mut Vec::new()).unwrap_err().to_string();
        assert!(e.contains("there is no line end for 64 KiB"), "{e}");
    }
    let e = open_reader(Path::new("x"), Box::new(Endless), &ReadOptions::default());
    assert!(e.is_err());
}

fn vtr(n: u64) -> (Vec<Record>, Vec<u8>) {
    let (records, _) = read(&msr(n), &ReadOptions::default()).unwrap();
    let mut w = VtrWriter::new(Vec::new(), &VtrHeader::default()).unwrap();
    records.iter().for_each(|r| w.push(r).unwrap());
    let (file, totals) = w.finish(&["h_0".into()]).unwrap();
    assert_eq!((totals.records, totals.file_bytes), (n, file.len() as u64));
    (records, file)
}

#[test]
fn a_cut_vtr_reads_to_its_last_whole_block_and_names_the_byte() {
    let (records, file) = vtr(150_000);
    let (again, t) = read(&file, &ReadOptions::default()).unwrap();
    assert!(again == records);
    assert_eq!((t.format().name, t.apps()), ("vtr", &["h_0".to_string()][..]));
    for keep in [file.len() - 1, file.len() - 30, file.len() * 2 / 3, file.len() / 10, 40, 10, 9] {
        let opened = open_reader(
            Path::new("x.vtr"),
            Box::new(Cursor::new(file[..keep].to_vec())),
            &ReadOptions::default(),
        );
        let Ok(mut trace) = opened else { continue };
        let (mut block, mut n) = (Vec::new(), 0);
        let e = loop {
            match trace.fill(&mut block) {
                Ok(()) => {
                    assert!(!block.is_empty(), "a cut file has no clean end");
                    assert!(block[..] == records[n..n + block.len()]);
                    n += block.len();
                }
                Err(e) => break e.to_string(),
            }
        };
        assert!(n == 150_000 || n % 65_536 == 0, "{n}");
        assert!(e.starts_with("x.vtr:"), "{e}");
    }
}

#[test]
fn a_damaged_vtr_is_found_out_at_every_byte() {
    let (records, file) = vtr(300);
    for at in 0..file.len() {
        let mut bad = file.clone();
        bad[at] ^= 0x10;
        if let Ok((found, _)) =
            read(&bad, &ReadOptions { format: Some("vtr".into()), ..Default::default() })
        {
            // Only the free text of the header is not under a checksum.
            assert!(found == records && at < file.len() / 2, "byte {at}");
        }
    }
}

#[test]
fn a_vtr_says_where_it_comes_from_and_what_it_does_not_know() {
    let options = ReadOptions { format: Some("ids".into()), ..ReadOptions::default() };
    let input = Box::new(Cursor::new(b"5\n6\n5\n".to_vec()));
    let mut trace = open_reader(Path::new("keys"), input, &options).unwrap();
    let header = VtrHeader {
        source: "keys".into(),
        source_sha256: "00ff".into(),
        format: "ids".into(),
        commands: vec!["varve trace convert".into()],
        licence: "none stated".into(),
        carries: trace.carries(),
        ..VtrHeader::default()
    };
    let path = std::env::temp_dir().join(format!("varve-header-{}.vtr", std::process::id()));
    let mut w = VtrWriter::new(std::fs::File::create(&path).unwrap(), &header).unwrap();
    assert_eq!(w.copy(&mut trace, &path).unwrap(), 3);
    w.finish(trace.apps()).unwrap();
    let again = open(&path, &ReadOptions::default()).unwrap();
    assert_eq!(again.header(), Some(&header));
    assert!(!again.carries().op && !again.carries().time);
    // The footer's names are known before the first record of a file that can be read from behind.
    assert_eq!(again.apps(), ["ids"]);
    let wanted = ReadOptions { app: Some("ids".into()), ..ReadOptions::default() };
    assert_eq!(drain(&mut open(&path, &wanted).unwrap()).unwrap().len(), 3);
    let other = ReadOptions { app: Some("else".into()), ..ReadOptions::default() };
    let e = drain(&mut open(&path, &other).unwrap()).unwrap_err().to_string();
    assert!(e.contains("no app `else`; the file names: ids"), "{e}");
    let sum = varve_workload::read::file_sha256(&path).unwrap();
    assert_eq!(sum.len(), 64);
    std::fs::remove_file(&path).unwrap();
}

/// A number was taken for the place of an application, although another one is called so.
#[test]
fn a_number_is_a_place_only_where_there_are_no_names() {
    let write = |names: &[&str]| {
        let mut out = VtrWriter::new(Vec::new(), &VtrHeader::default()).unwrap();
        for app in [0, 1, 1] {
            let record = Record {
                at: Time::ZERO,
                offset: Bytes(0),
                len: Bytes(4096),
                response: None,
                app: AppId(app),
                op: TraceOp::Read,
                flags: Flags::default(),
                hint: 0,
            };
            out.push(&record).unwrap();
        }
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        out.finish(&names).unwrap().0
    };
    let folder = std::env::temp_dir().join(format!("varve-app-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let count = |bytes: &[u8], app: &str, as_file: bool| -> Result<usize, String> {
        let options = ReadOptions { app: Some(app.to_string()), ..ReadOptions::default() };
        let opened = match as_file {
            true => {
                let path = folder.join("x.vtr");
                std::fs::write(&path, bytes).unwrap();
                open(&path, &options)
            }
            false => {
                open_reader(Path::new("pipe"), Box::new(Cursor::new(bytes.to_vec())), &options)
            }
        };
        drain(&mut opened.unwrap()).map(|records| records.len()).map_err(|e| e.to_string())
    };
    let named = write(&["3", "9"]);
    assert_eq!(count(&named, "9", true), Ok(2));
    assert!(count(&named, "1", true).unwrap_err().contains("the file names: 3 9"));
    // In a pipe names come after all requests: what was chosen by a number is looked at there.
    let late = count(&named, "1", false).unwrap_err();
    assert!(late.contains("number 1 is `9`"), "{late}");
    assert!(count(&named, "x", false).unwrap_err().contains("expected a number"));
    let unnamed = write(&[]);
    assert_eq!(count(&unnamed, "1", true), Ok(2));
    assert_eq!(count(&unnamed, "1", false), Ok(2));
    std::fs::remove_dir_all(&folder).unwrap();
}
