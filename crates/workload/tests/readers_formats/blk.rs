//! What blktrace writes, and blkparse of it.

use block::Span;
use varve_workload::{Flags, ReadOptions, open};

use super::TraceOp::{Discard, Flush, Read, Write, Zero};
use super::{bad, brief, drain, good, options, read};

#[test]
fn blkparse_takes_issues_once_and_stops_at_the_statistics() {
    let text = "8,0 0 1 0.000000000 9 Q R 8 + 8 [a]\n8,0 0 2 0.000001000 9 D R 8 + 8 [a]\n\
                8,0 0 3 0.000002000 9 m N cfq9 slice\n8,0 0 4 0.000101000 9 C R 8 + 8 [0]\n\
                8,0 0 5 0.000200000 9 C R 999 + 8 [0]\n\
                CPU0 (8,0):\n Reads Queued: 1, 4KiB\n8,0 0 9 9.0 9 D R 8 + 8 [a]\n";
    let (r, t) = good(text, "");
    assert_eq!(brief(&r), [(Read, 0, 4096, 4096)]);
    assert_eq!(r[0].response, Some(Span::from_us(100)));
    let s = t.summary();
    assert_eq!((s.other_events, s.tail_lines, s.orphan_completions), (2, 3, 1));
    assert_eq!(t.apps(), ["8,0"]);
}

/// Only the issue was moved, and completions of what was left out were counted as those of nobody.
#[test]
fn blkparse_pairs_what_is_moved_or_left_out() {
    let text = "8,0 0 1 0.000001000 9 D R 16 + 8 [a]\n8,16 0 2 0.000002000 9 D R 8 + 8 [a]\n\
                8,16 0 3 0.000050000 9 C R 8 + 8 [0]\n8,0 0 4 0.000101000 9 C R 16 + 8 [0]\n";
    let moved = ReadOptions { align_shift: -4096, app: Some("8,0".into()), ..options("") };
    let (r, t) = read(text.as_bytes(), &moved).unwrap();
    assert_eq!(brief(&r), [(Read, 0, 4096, 4096)]);
    assert_eq!(r[0].response, Some(Span::from_us(100)));
    assert_eq!((t.summary().filtered, t.summary().orphan_completions), (1, 0));
}

#[test]
fn blkparse_rwbs() {
    let line =
        |n: u32, rwbs: &str, place: &str| format!("8,0 0 {n} 0.{n:09} 9 D {rwbs} {place}[a]\n");
    let at = "8 + 8 ";
    let kinds = [
        ("R", at, Read, Flags(0)),
        ("RA", at, Read, Flags::AHEAD),
        ("WS", at, Write, Flags::SYNC),
        ("FWFSM", at, Write, Flags::PREFLUSH.and(Flags::FUA).and(Flags::SYNC).and(Flags::META)),
        ("WFS", at, Write, Flags::FUA.and(Flags::SYNC)),
        ("D", at, Discard, Flags(0)),
        ("DS", at, Discard, Flags::SYNC),
        ("FN", "", Flush, Flags(0)),
        ("F", "", Flush, Flags(0)),
        ("FF", "0 + 0 ", Flush, Flags(0)),
        ("FWS", "", Flush, Flags::PREFLUSH.and(Flags::SYNC)),
        ("WZ", at, Zero, Flags(0)),
    ];
    let text: String = kinds.iter().zip(1..).map(|((k, p, ..), n)| line(n, k, p)).collect();
    let (r, _) = good(&text, "blkparse");
    assert_eq!(r.len(), kinds.len());
    for (r, (kind, _, op, flags)) in r.iter().zip(kinds) {
        assert_eq!((r.op, r.flags), (op, flags), "{kind}");
    }
    assert!(bad(&line(1, "X", at), "blkparse").contains("expected rwbs"));
    let (r, t) = good(&(line(1, "N", at) + &line(2, "R", at)), "blkparse");
    assert_eq!((r.len(), t.summary().other_events), (1, 1));
}

#[test]
fn blkparse_flush_completes_nowhere_and_a_wild_clock_is_refused() {
    let text = "8,0 0 1 0.1 9 D FN [a]\n8,0 0 2 0.2 9 C FN 18446744073709551615 [0]\n";
    let (r, _) = good(text, "blkparse");
    assert_eq!((r[0].op, r[0].response), (Flush, Some(Span::from_us(100_000))));
    let text = "8,0 0 1 0.1 9 D R 8 + 8 [a]\n8,0 0 2 1270000000.5 9 D R 16 + 8 [a]\n\
                8,0 0 3 0.3 9 D R 24 + 8 [a]\n";
    assert!(bad(text, "").contains("sample:2:1"), "{}", bad(text, ""));
    let (r, t) = read(text.as_bytes(), &ReadOptions { skip_bad: 1, ..options("") }).unwrap();
    assert_eq!((r.len(), t.summary().skipped), (2, 1));
    assert!(t.summary().skipped_examples[0].contains("within 10 days"));
}

#[test]
fn blkparse_lines_of_several_cpus_are_sorted() {
    let text = "8,0 0 1 1.00 9 D R 8 + 8 [a]\n8,0 0 2 1.05 9 D R 16 + 8 [a]\n\
                8,0 1 1 1.01 9 D R 24 + 8 [a]\n";
    let (r, t) = good(text, "");
    assert_eq!(r.iter().map(|r| r.offset.0 / 4096).collect::<Vec<_>>(), [1, 3, 2]);
    assert_eq!(t.summary().sorted, 1);
}

fn blk(time: u64, sector: u64, bytes: u32, action: u32, pdu: &[u8], swap: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let w32 =
        |o: &mut Vec<u8>, n: u32| o.extend(if swap { n.to_be_bytes() } else { n.to_le_bytes() });
    let w64 =
        |o: &mut Vec<u8>, n: u64| o.extend(if swap { n.to_be_bytes() } else { n.to_le_bytes() });
    w32(&mut out, 0x6561_7407);
    w32(&mut out, 1);
    w64(&mut out, time);
    w64(&mut out, sector);
    for n in [bytes, action, 42, 8 << 20, 0] {
        w32(&mut out, n);
    }
    for n in [0, pdu.len() as u16] {
        out.extend(if swap { n.to_be_bytes() } else { n.to_le_bytes() });
    }
    out.extend_from_slice(pdu);
    out
}

#[test]
fn blktrace_in_both_byte_orders_with_cgroups_and_payloads() {
    const WRITE: u32 = 2 << 16;
    const READ: u32 = 1 << 16;
    for swap in [false, true] {
        let mut file = blk(0, 0, 0, 1 << 26 | 2, b"a message", swap); // notify: skipped
        file.extend(blk(1_000, 2048, 8192, WRITE | 1, &[], swap)); // queued: skipped
        file.extend(blk(2_000, 2048, 8192, WRITE | 1 << 19 | 7 | 0x100, &[1; 8], swap));
        file.extend(blk(3_000, 4096, 4096, READ | 7, &[], swap));
        file.extend(blk(3_500, 0, 0, WRITE | 1 << 18 | 7, &[], swap)); // empty write + flush
        file.extend(blk(4_000, 64, 65_536, WRITE | 1 << 29 | 7, &[], swap));
        file.extend(blk(52_000, 2048, 8192, WRITE | 8, &[], swap));
        let (r, t) = read(&file, &options("")).unwrap();
        assert_eq!(t.format().name, "blktrace");
        let found: Vec<_> = r.iter().map(|r| (r.op, r.at.as_ns(), r.offset.0, r.len.0)).collect();
        let wanted = [
            (Write, 0, 1_048_576, 8192),
            (Read, 1_000, 2_097_152, 4096),
            (Flush, 1_500, 0, 0),
            (Discard, 2_000, 32_768, 65_536),
        ];
        assert_eq!(found, wanted);
        assert_eq!(r[0].response, Some(Span::from_us(50)));
        assert!(r[0].flags.has(Flags::SYNC));
        assert_eq!((t.summary().other_events, t.apps()), (2, &["8,0".to_string()][..]));
        let cut = read(&file[..file.len() - 20], &options("")).err().unwrap().to_string();
        assert!(cut.contains("expected a whole record"), "{cut}");
        let tolerant = ReadOptions { skip_bad: 1, ..options("") };
        let (r, t) = read(&file[..file.len() - 20], &tolerant).unwrap();
        assert_eq!((r.len(), t.summary().skipped), (4, 1));
    }
}

#[test]
fn blktrace_files_of_all_cpus_are_merged_by_time() {
    let folder = std::env::temp_dir().join(format!("varve-blktrace-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let read_at = |time, sector| blk(time, sector, 512, 1 << 16 | 7, &[], false);
    std::fs::write(folder.join("x.blktrace.0"), [read_at(10, 1), read_at(30, 3)].concat()).unwrap();
    std::fs::write(folder.join("x.blktrace.1"), [read_at(20, 2), read_at(40, 4)].concat()).unwrap();
    std::fs::write(folder.join("y.blktrace.0"), read_at(1, 9)).unwrap();
    let mut trace = open(&folder.join("x.blktrace.1"), &options("")).unwrap();
    let records = drain(&mut trace).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(records.iter().map(|r| r.offset.0 / 512).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(trace.summary().files, 2);
}
