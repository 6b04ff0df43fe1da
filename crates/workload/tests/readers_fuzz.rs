//! Random and mutated input never panics; `.vtr` keeps every record to the bit.

use std::io::Cursor;
use std::path::Path;

use block::{AppId, Bytes, Span, Time};
use proptest::prelude::*;
use varve_workload::info::{InfoOptions, trace_info};
use varve_workload::read::{SizeUnit, TimeUnit, VtrHeader, VtrWriter, formats, open_reader};
use varve_workload::{Flags, ReadOptions, Record, Source, TraceOp};

fn options(format: Option<&str>, skip_bad: u64) -> ReadOptions {
    let counted = ["flashsim", "ids", "arc", "u32", "oracle-general"];
    ReadOptions {
        format: format.map(String::from),
        time_unit: (format == Some("ssdsim")).then_some(TimeUnit::Us),
        size_unit: format.filter(|name| counted.contains(name)).map(|_| SizeUnit::Page),
        columns: (format == Some("csv")).then(|| "at=1:us,off=2:byte,len=3:byte".into()),
        skip_bad,
        ..ReadOptions::default()
    }
}

/// Reads whatever comes; returns what did.
fn swallow(bytes: &[u8], options: &ReadOptions) -> Vec<Record> {
    let input = Box::new(Cursor::new(bytes.to_vec()));
    let Ok(mut trace) = open_reader(Path::new("fuzz"), input, options) else { return Vec::new() };
    let (mut all, mut block) = (Vec::new(), Vec::new());
    // A run of blocks may be long: enough is enough.
    while trace.fill(&mut block).is_ok() && !block.is_empty() && all.len() < 100_000 {
        all.extend_from_slice(&block);
    }
    all
}

fn samples() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files.iter().map(|f| std::fs::read(f).unwrap()).collect()
}

fn record() -> impl Strategy<Value = Record> {
    let op = prop_oneof![
        Just(TraceOp::Read),
        Just(TraceOp::Write),
        Just(TraceOp::Flush),
        Just(TraceOp::Discard),
        Just(TraceOp::Zero)
    ];
    let rest = (any::<u16>(), op, any::<u8>(), any::<u8>());
    let at = prop_oneof![0..1u64 << 40, any::<u64>(), (0..1u64 << 30).prop_map(|n| n * 1000)];
    let response = proptest::option::of(0..u64::MAX);
    (at, any::<u64>(), any::<u64>(), response, rest).prop_map(
        |(at, offset, len, response, (app, op, flags, hint))| Record {
            at: Time::from_ps(at),
            offset: Bytes(offset),
            len: Bytes(len),
            response: response.map(Span::from_ps),
            app: AppId(app),
            op,
            flags: Flags(flags),
            hint,
        },
    )
}

fn vtr(records: &[Record]) -> Vec<u8> {
    let mut w = VtrWriter::new(Vec::new(), &VtrHeader::default()).unwrap();
    records.iter().for_each(|r| w.push(r).unwrap());
    w.finish(&[]).unwrap().0
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
        swallow(&bytes, &options(None, 5));
        for format in formats() {
            swallow(&bytes, &options(Some(format.name), 5));
        }
    }

    #[test]
    fn random_text_never_panics(text in "[0-9a-zA-Z,;. \t\n*+/-]{0,400}") {
        for format in formats() {
            swallow(text.as_bytes(), &options(Some(format.name), 100));
        }
    }

    #[test]
    fn mutated_samples_never_panic(
        which in any::<prop::sample::Index>(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 1..8),
    ) {
        let all = samples();
        let mut bytes = all[which.index(all.len())].clone();
        for (at, byte, kind) in edits {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, b'0' + byte % 10),
                2 => {
                    bytes.remove(at);
                }
                _ => bytes.truncate(at),
            }
        }
        for skip in [0, 3] {
            let records = swallow(&bytes, &options(None, skip));
            prop_assert!(records.is_sorted_by_key(|r| r.at));
            for format in formats() {
                let records = swallow(&bytes, &options(Some(format.name), skip));
                let sane = |r: &Record| r.op == TraceOp::Flush || r.len.0 > 0;
                prop_assert!(records.iter().all(sane), "{}", format.name);
            }
        }
    }

    #[test]
    fn vtr_is_the_identity(records in proptest::collection::vec(record(), 1..300)) {
        let file = vtr(&records);
        let read = swallow(&file, &options(None, 0));
        prop_assert_eq!(&read, &records);
        prop_assert_eq!(vtr(&read), file);
    }

    #[test]
    fn mutated_vtr_never_panics(
        records in proptest::collection::vec(record(), 1..50),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut file = vtr(&records);
        let at = at.index(file.len());
        file[at] = byte;
        swallow(&file, &options(Some("vtr"), 0));
    }

    #[test]
    fn statistics_match_a_plain_count(
        list in proptest::collection::vec((0..40_000u64, 1..40_000u64, any::<bool>(), 0..3u16), 1..200)
    ) {
        let records: Vec<Record> = list
            .iter()
            .map(|(offset, len, write, app)| Record {
                at: Time::ZERO,
                offset: Bytes(*offset),
                len: Bytes(*len),
                response: None,
                app: AppId(*app),
                op: if *write { TraceOp::Write } else { TraceOp::Read },
                flags: Flags(0),
                hint: 0,
            })
            .collect();
        let file = vtr(&records);
        let input = Box::new(Cursor::new(file));
        let mut trace = open_reader(Path::new("x"), input, &options(None, 0)).unwrap();
        let info = trace_info(&mut trace, &InfoOptions::default()).unwrap();
        let (mut any, mut written) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
        let (mut writes, mut rewrites) = (0, 0);
        for r in &records {
            for page in r.offset.0 / 4096..=(r.offset.0 + r.len.0 - 1) / 4096 {
                any.insert((r.app.0, page));
                if r.op == TraceOp::Write {
                    writes += 1;
                    rewrites += u64::from(!written.insert((r.app.0, page)));
                }
            }
        }
        let c = info.total;
        prop_assert_eq!(c.footprint_pages, any.len() as u64);
        prop_assert_eq!(c.written_pages, written.len() as u64);
        prop_assert_eq!((c.page_writes, c.page_rewrites), (writes, rewrites));
        prop_assert_eq!(c.transfers().bytes, records.iter().map(|r| r.len.0).sum::<u64>());
        prop_assert_eq!(info.working_set.max_pages, c.footprint_pages);
    }
}

#[test]
fn vtr_blocks_are_the_identity_across_their_borders() {
    let record = |i: u64| Record {
        at: Time::from_ps(i * 1_000_003),
        offset: Bytes(i.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        len: Bytes(1 + i % 7),
        response: i.is_multiple_of(3).then(|| Span::from_ps(i)),
        app: AppId((i % 65_536) as u16),
        op: if i.is_multiple_of(2) { TraceOp::Read } else { TraceOp::Zero },
        flags: Flags(i as u8),
        hint: (i >> 3) as u8,
    };
    for n in [65_535, 65_536, 65_537, 200_000] {
        let records: Vec<Record> = (0..n).map(record).collect();
        let file = vtr(&records);
        let input = Box::new(Cursor::new(file));
        let mut trace = open_reader(Path::new("x"), input, &options(None, 0)).unwrap();
        let (mut all, mut block) = (Vec::new(), Vec::new());
        loop {
            trace.fill(&mut block).unwrap();
            if block.is_empty() {
                break;
            }
            all.extend_from_slice(&block);
        }
        assert!(all == records, "{n}");
    }
}
