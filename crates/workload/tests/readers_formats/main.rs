//! Every format, every trap of its table row: a tiny input and the exact result or error.

mod blk;

use std::io::Cursor;
use std::path::Path;

use block::{AppId, Bytes, Span, Time};
use varve_workload::read::{SizeUnit, TimeUnit, formats, open_reader};
use varve_workload::{Flags, OpenTrace, ReadOptions, Record, Source, SourceError, TraceOp, open};

fn options(format: &str) -> ReadOptions {
    let format = (!format.is_empty()).then(|| format.to_string());
    ReadOptions { format, ..ReadOptions::default() }
}

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

fn read(text: &[u8], options: &ReadOptions) -> Result<(Vec<Record>, OpenTrace), SourceError> {
    let input = Box::new(Cursor::new(text.to_vec()));
    let mut trace = open_reader(Path::new("sample"), input, options)?;
    let records = drain(&mut trace)?;
    Ok((records, trace))
}

fn good(text: &str, format: &str) -> (Vec<Record>, OpenTrace) {
    read(text.as_bytes(), &options(format)).unwrap_or_else(|e| panic!("{e}"))
}

fn bad(text: &str, format: &str) -> String {
    match read(text.as_bytes(), &options(format)) {
        Ok(_) => panic!("must be an error: {text}"),
        Err(e) => e.to_string(),
    }
}

fn ms(n: u64) -> Time {
    Time::from_us(n * 1000)
}

/// Operation, time in ms, offset, length.
fn brief(records: &[Record]) -> Vec<(TraceOp, u64, u64, u64)> {
    let one = |r: &Record| (r.op, r.at.as_ns() / 1_000_000, r.offset.0, r.len.0);
    records.iter().map(one).collect()
}

use TraceOp::{Discard, Flush, Read, Write, Zero};

#[test]
fn all_formats_of_one_trace_give_the_same_records() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let table = ReadOptions {
        columns: Some("at=1:s,op=2,off=3:sector,len=4:byte".into()),
        op_map: Some("R=0,W=1".into()),
        ..ReadOptions::default()
    };
    let ns = ReadOptions { time_unit: Some(TimeUnit::Ns), ..options("ssdsim") };
    let pages = ReadOptions { size_unit: Some(SizeUnit::Page), ..options("flashsim") };
    let any = ReadOptions::default();
    let files = [
        ("same.msr.csv", "msr", any.clone()),
        ("same.own.csv", "msr", any.clone()),
        ("same.blkparse", "blkparse", any.clone()),
        ("same.fio2", "fio2", any.clone()),
        ("same.fio3", "fio3", any.clone()),
        ("same.disksim", "disksim", options("disksim")),
        ("same.ssdsim", "ssdsim", ns),
        ("same.flashsim", "flashsim", pages),
        ("same.spc", "spc", any.clone()),
        ("same.fiu", "fiu", any.clone()),
        ("same.systor", "systor", any.clone()),
        ("same.tencent", "tencent", any.clone()),
        ("same.alibaba", "alibaba", any.clone()),
        ("same.cloudphysics", "cloudphysics", any.clone()),
        ("same.biotracer", "biotracer", any),
        ("same.table", "csv", table),
    ];
    for (file, format, options) in files {
        let mut trace = open(&folder.join(file), &options).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(trace.format().name, format, "{file}");
        let records = drain(&mut trace).unwrap_or_else(|e| panic!("{e}"));
        let carries = trace.format().carries;
        let times = if carries.time { [0, 1000, 3000] } else { [0; 3] };
        let wanted = [
            (Write, times[0], 1_048_576, 8192),
            (Read, times[1], 2_097_152, 4096),
            (Write, times[2], 1_048_576, 16384),
        ];
        assert_eq!(brief(&records), wanted, "{file}");
        assert!(records.iter().all(|r| r.app == AppId(0)), "{file}");
        if carries.response && format != "csv" {
            let took: Vec<_> = records.iter().map(|r| r.response).collect();
            let wanted = [50, 25, 75].map(|us| Some(Span::from_us(us)));
            assert_eq!(took, wanted, "{file}");
        }
        assert_eq!(trace.summary().records, 3);
        assert_eq!(trace.summary().skipped, 0);
        assert_eq!(trace.apps().len(), 1, "{file}");
    }
}

#[test]
fn msr_volumes_are_apps_and_our_two_columns_are_read() {
    let (r, t) = good("5,a,0,Read,0,512,1\n5,a,1,Write,512,512,1\r\n6,a,0,Read,0,512,1", "");
    assert_eq!(r.iter().map(|r| r.app.0).collect::<Vec<_>>(), [0, 1, 0]);
    assert_eq!(t.apps(), ["a_0", "a_1"]);
    assert_eq!(r[2].at, Time::from_ns(100));
    let text = "0,x,0,Flush,0,0,4,,k\n1,x,0,Discard,4096,8192,4,FPA,a,b\n2,x,0,Zero,0,4096,4,,\n";
    let (r, _) = good(text, "");
    assert_eq!(brief(&r), [(Flush, 0, 0, 0), (Discard, 0, 4096, 8192), (Zero, 0, 0, 4096)]);
    assert!(r[1].flags.has(Flags::FUA.and(Flags::PREFLUSH).and(Flags::AHEAD)));
    let by_comm = ReadOptions { app_is_comm: true, ..options("msr") };
    let (_, t) = read(text.as_bytes(), &by_comm).unwrap();
    assert_eq!(t.apps(), ["k", "a_b", ""]);
    // Without threads nobody issued anything: two volumes are not one.
    let error = read(b"5,a,0,Read,0,512,1\n", &by_comm).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("a thread name in column 9"), "{error}");
}

#[test]
fn a_mark_of_utf_8_before_the_text_is_no_part_of_it() {
    let text = b"\xEF\xBB\xBF5,a,0,Read,0,512,1\n6,a,0,Read,512,512,1\n";
    for format in [Some("msr".to_string()), None] {
        let options = ReadOptions { format, ..ReadOptions::default() };
        let (r, t) = read(text, &options).unwrap();
        assert_eq!(
            (t.format().name, brief(&r)),
            ("msr", vec![(Read, 0, 0, 512), (Read, 0, 512, 512)])
        );
    }
}

#[test]
fn an_option_of_another_format_is_refused() {
    let text = b"5,a,0,Read,0,512,1\n";
    let given = |o: ReadOptions| {
        read(text, &ReadOptions { format: Some("msr".into()), ..o }).map(|_| ()).unwrap_err()
    };
    let none = ReadOptions::default;
    for (o, what) in [
        (ReadOptions { time_unit: Some(TimeUnit::Ms), ..none() }, "--time-unit: of ssdsim"),
        (
            ReadOptions { size_unit: Some(SizeUnit::Page), ..none() },
            "--size-unit: of flashsim, ids",
        ),
        (ReadOptions { op_map: Some("R=0".into()), ..none() }, "--op: of csv"),
        (
            ReadOptions { columns: Some("off=1:byte,len=2:byte".into()), ..none() },
            "--columns: of csv",
        ),
    ] {
        let error = given(o).to_string();
        assert!(error.contains(what) && error.contains("found a trace in msr"), "{error}");
    }
    let csv = ReadOptions {
        columns: Some("off=1:byte,len=2:byte".into()),
        app_is_comm: true,
        ..ReadOptions::default()
    };
    let error = read(b"0,4096\n", &csv).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("--app-is-comm: of msr"), "{error}");
}

#[test]
fn a_time_that_falls_is_an_error_naming_the_line_unless_sorted() {
    let text = "10,a,0,Read,0,512,1\n12,a,0,Read,0,512,1\n11,a,0,Read,512,512,1\n";
    let error = bad(text, "");
    assert!(error.starts_with("sample:3:1: found `11,a,0"), "{error}");
    let sorting = ReadOptions { sort_window: Some(Span::from_us(1)), ..options("msr") };
    let (r, t) = read(text.as_bytes(), &sorting).unwrap();
    assert_eq!(r.iter().map(|r| r.at.as_ns()).collect::<Vec<_>>(), [0, 100, 200]);
    assert_eq!(t.summary().sorted, 1);
    let less = ReadOptions { sort_window: Some(Span::from_ps(99_999)), ..options("msr") };
    let text =
        "10,a,0,Read,0,512,1\n12,a,0,Read,0,512,1\n14,a,0,Read,0,512,1\n11,a,0,Read,0,512,1\n";
    let error = read(text.as_bytes(), &less).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("sample:4:1:") && error.contains("`--sort-window '300 ns'`"), "{error}");
}

#[test]
fn a_week_of_file_time_starts_at_zero_and_106_days_are_the_limit() {
    let week = 128_166_372_000_000_000u64 + 7 * 86_400 * 10_000_000;
    let text = format!("128166372000000000,a,0,Read,0,512,1\n{week},a,0,Read,0,512,1\n");
    assert_eq!(good(&text, "").0[1].at, ms(7 * 86_400_000));
    let year = 128_166_372_000_000_000u64 + 365 * 86_400 * 10_000_000;
    let text = format!("128166372000000000,a,0,Read,0,512,1\n{year},a,0,Read,0,512,1\n");
    assert!(bad(&text, "").contains("within 106 days"));
}

#[test]
fn fio_logs() {
    let text = "fio version 2 iolog\n/a add\n/a open\n/a read 0 4096\n/a wait 250 0\n/b write 4096 4096\n\
                /a sync 0 0\n/a datasync\n/a trim 0 8192\n/a close\n";
    let (r, t) = good(text, "");
    assert_eq!(t.format().name, "fio2");
    assert!(!t.format().carries.time);
    let ops: Vec<_> = r.iter().map(|r| (r.op, r.app.0, r.at.as_ns())).collect();
    let later = 250_000;
    let wanted = [
        (Read, 0, 0),
        (Write, 1, later),
        (Flush, 0, later),
        (Flush, 0, later),
        (Discard, 0, later),
    ];
    assert_eq!(ops, wanted);
    assert_eq!(
        (t.apps(), t.summary().not_requests),
        (&["/a".to_string(), "/b".to_string()][..], 5)
    );
    assert!(
        bad("fio version 3 iolog\n1 /a wait 5\n1 /a read 0 512\n", "")
            .contains("expected add, open")
    );
    let (r, _) = good("fio version 3 iolog\n7 /a read 0 512\n9 /a read 0 512\n", "");
    assert_eq!(r[1].at, Time::from_us(2), "version 3 counts microseconds");
    assert!(bad("1 /a read 0 512\n", "fio3").contains("`fio version 3 iolog`"));
}

#[test]
fn five_column_tables_are_never_guessed() {
    let text = "0.5 3 8 8 1\n1.5 4 8 8 0\n";
    let error = bad(text, "");
    assert!(error.contains("disksim, ssdsim, flashsim") && error.contains("--format"), "{error}");
    let (r, t) = good(text, "disksim");
    assert_eq!(brief(&r), [(Read, 0, 4096, 4096), (Write, 1, 4096, 4096)]);
    assert_eq!(t.apps(), ["3", "4"]);
    // DiskSim reads bit 0 only; the others know 0 and 1.
    assert_eq!(good("0 0 8 8 6\n", "disksim").0[0].op, Write);
    assert!(bad(text, "ssdsim").contains("--time-unit"));
    assert!(bad(text, "flashsim").contains("--size-unit"));
    let us = ReadOptions { time_unit: Some(TimeUnit::Us), ..options("ssdsim") };
    let (r, _) = read(b"5 0 8 8 1\n2005 0 8 8 0", &us).unwrap();
    assert_eq!(
        brief(&r),
        [(Read, 0, 4096, 4096), (Write, 2, 4096, 4096)],
        "no line end at the end"
    );
    assert!(read(b"5 0 8 8 6\n", &us).err().unwrap().to_string().contains("0 for a write or 1"));
    for (unit, len) in [(SizeUnit::Page, 8192), (SizeUnit::Sector, 1024)] {
        let o = ReadOptions { size_unit: Some(unit), ..options("flashsim") };
        assert_eq!(read(b"0 0 8 2 1\n", &o).unwrap().0[0].len, Bytes(len));
    }
}

#[test]
fn spc_units_are_address_spaces() {
    let (r, t) = good("0, 100 ,512, R ,0.10\n1,100,512,w,0.20\n", "");
    assert_eq!(brief(&r), [(Read, 0, 51_200, 512), (Write, 100, 51_200, 512)]);
    assert_eq!((r[0].app, r[1].app), (AppId(0), AppId(1)));
    assert_eq!(t.apps(), ["0", "1"]);
}

#[test]
fn fiu_names_hold_blanks_and_padding_ends_it() {
    let md5 = "d6c75ba46e82326fefa545b57a12e221";
    let text = format!("1000 7 a b  c 8 8 W 6 0 {md5}\n2000 7 d 16 8 R 6 1 {md5}\n\0\0\0\0\0\0");
    let (r, t) = good(&text, "");
    assert_eq!((t.format().name, t.summary().tail_lines), ("fiu", 1));
    assert_eq!(r[1].at, Time::from_ns(1000));
    assert_eq!(t.apps(), ["6,0", "6,1"]);
}

#[test]
fn systor_is_sorted_and_its_gaps_are_counted() {
    let text = "Timestamp,Response,IOType,LUN,Offset,Size\n100.5,0.1,R,1,0,512\n100.2,0.1,W,1,512,512\n\
                101.0,0.1,,1,0,512\n101.0,0.1,R,1,,\n120.0,,R,2,0,512\n";
    let (r, t) = good(text, "");
    assert_eq!(brief(&r)[..2], [(Write, 0, 512, 512), (Read, 300, 0, 512)]);
    let s = t.summary();
    assert_eq!((s.incomplete, s.sorted, s.records), (2, 1, 3));
    assert!(r.is_sorted_by_key(|r| r.at));
    assert_eq!(r[2].response, None);
}

#[test]
fn a_time_beyond_the_window_is_an_error_that_says_which_window_takes_it() {
    let window = |us| ReadOptions { sort_window: Some(Span::from_us(us)), ..options("") };
    let times = |r: Vec<Record>| r.iter().map(|r| r.at.as_ns() / 1_000_000_000).collect::<Vec<_>>();
    let row = |format: &str, second: u64| match format {
        "systor" => format!("{second}.0,0.1,R,1,0,512\n"),
        "tencent" => format!("{second},0,8,0,5\n"),
        _ => format!("8,0 0 1 {second}.0 9 D R 8 + 8 [a]\n"),
    };
    for (format, own) in [("systor", "10 s"), ("tencent", "4 s"), ("blkparse", "1 s")] {
        let text: String = [100, 150, 170, 101, 102, 200].map(|s| row(format, s)).concat();
        let error = bad(&text, "");
        assert!(error.starts_with("sample:4:1: found `"), "{error}");
        assert!(error.contains(&format!("at most {own} before")), "{error}");
        assert!(error.contains("(69 s before: `--sort-window '69 s'` takes"), "{error}");
        let (r, t) = read(text.as_bytes(), &window(70_000_000)).unwrap();
        assert_eq!(t.format().name, format);
        assert_eq!((times(r), t.summary().sorted), (vec![0, 1, 2, 50, 70, 100], 2));
        // What is asked for instead is as exact.
        assert!(read(text.as_bytes(), &window(1)).is_err());
    }
}

#[test]
fn tencent_seconds_are_spread_in_file_order() {
    let text = "100,0,8,0,5\n101,8,8,1,6\n100,16,8,0,5\n100,24,8,0,5\n100,32,8,0,7\n101,40,8,0,5\n";
    let (r, t) = good(text, "");
    let found: Vec<_> = r.iter().map(|r| (r.offset.0 / 4096, r.at.as_ns() / 1_000_000)).collect();
    assert_eq!(found, [(0, 0), (2, 250), (3, 500), (4, 750), (1, 1000), (5, 1500)]);
    assert_eq!((t.apps().len(), t.summary().sorted), (3, 3));
    let one = ReadOptions { app: Some("5".into()), ..options("") };
    let (r, t) = read(text.as_bytes(), &one).unwrap();
    assert_eq!((r.len(), t.summary().filtered), (4, 2));
}

#[test]
fn alibaba_is_cut_by_device() {
    let text =
        "3,W,0,4096,1577808000000000\n9,R,4096,4096,1577808000000500\n3,R,0,512,1577808000000900\n";
    let one = ReadOptions { app: Some("9".into()), ..options("") };
    let (r, t) = read(text.as_bytes(), &one).unwrap();
    assert_eq!((t.format().name, r.len(), r[0].at), ("alibaba", 1, Time::ZERO));
    let none = ReadOptions { app: Some("4".into()), ..options("") };
    let error = read(text.as_bytes(), &none).err().unwrap().to_string();
    assert!(error.contains("no request of `4`") && error.contains("3 9"), "{error}");
}

#[test]
fn cloudphysics_codes_and_shift() {
    let text = "version,time,op,size,lbn\n1,5,8,512,63\n1,5,a,512,71\n1,6,88,4096,63\n1,6,35,0,0\n";
    let (r, _) = good(text, "");
    assert_eq!(r.iter().map(|r| r.op).collect::<Vec<_>>(), [Read, Write, Read, Flush]);
    assert_eq!(r[0].offset, Bytes(63 * 512));
    let shift = ReadOptions { align_shift: 512, ..options("") };
    assert_eq!(read(text.as_bytes(), &shift).unwrap().0[2].offset, Bytes(32_768));
    let back = ReadOptions { align_shift: -(64 * 512), ..options("") };
    let error = read(text.as_bytes(), &back).err().unwrap().to_string();
    assert!(error.contains("sample:2:1") && error.contains("inside 2^63"), "{error}");
    assert!(
        bad("version,time,op,size,lbn\n1,5,12,512,63\n", "cloudphysics").contains("a SCSI read")
    );
}

#[test]
fn biotracer_drops_the_gap_of_an_unset_clock() {
    let line = |s: u32, t: &str| format!("{s}\t8\t4096\t4\t{t}\t{t}\t{t}\t{t}\n");
    let text = line(0, "100.0")
        + &line(8, "101.0")
        + &line(16, "1400000000.0")
        + &line(24, "1400000002.0");
    let (r, t) = good(&text, "");
    assert_eq!(t.format().name, "biotracer");
    assert_eq!(brief(&r).iter().map(|b| b.1).collect::<Vec<_>>(), [0, 1000, 1000, 3000]);
    assert_eq!(t.summary().clock_leaps, 1);
}

#[test]
fn block_lists_say_nothing_of_writes_or_times() {
    let (r, t) = good("5\n7\n*\n5\n", "");
    assert_eq!((t.format().name, t.summary().not_requests), ("ids", 1));
    assert_eq!(
        brief(&r),
        [(Read, 0, 20_480, 4096), (Read, 0, 28_672, 4096), (Read, 0, 20_480, 4096)]
    );
    assert_eq!(good("5\n7\n", "lirs").0.len(), 2);
    let (r, t) = good("10 3 0 1\n7 1 0 2\n", "");
    assert_eq!(t.format().name, "arc");
    assert_eq!(r.iter().map(|r| r.offset.0 / 4096).collect::<Vec<_>>(), [10, 11, 12, 7]);
    assert!(bad("10 0 0 1\n", "arc").contains("from 1 to 2^32"));
    // A long run is expanded a block at a time.
    let (r, _) = good("0 10000 0 1\n", "arc");
    assert_eq!((r.len(), r[9999].offset), (10_000, Bytes(9999 * 4096)));
    let (r, t) = good("18446744073709551615\n", "ids");
    assert_eq!((t.summary().folded_ids, r[0].offset.0 / 4096), (1, (1 << 50) - 1));
    let words: Vec<u8> = [1u32, 2, u32::MAX].iter().flat_map(|n| n.to_le_bytes()).collect();
    let (r, _) = read(&words, &options("u32")).unwrap();
    assert_eq!(
        r.iter().map(|r| r.offset.0 / 4096).collect::<Vec<_>>(),
        [1, 2, u64::from(u32::MAX)]
    );
    assert!(
        read(&words[..7], &options("u32"))
            .err()
            .unwrap()
            .to_string()
            .contains("a whole 4-byte word")
    );
    for name in ["ids", "arc", "u32", "oracle-general"] {
        let format = formats().iter().find(|f| f.name == name).unwrap();
        assert!(!format.carries.op);
    }
}

#[test]
fn oracle_general_shows_itself() {
    let record = |s: u32, id: u64, size: u32, next: i64| {
        [&s.to_le_bytes()[..], &id.to_le_bytes(), &size.to_le_bytes(), &next.to_le_bytes()].concat()
    };
    let file =
        [record(5, 3, 4096, 2), record(5, 9, 512, -1), record(7, 3, 4096, i64::MAX)].concat();
    let (r, t) = read(&file, &options("")).unwrap();
    assert_eq!(t.format().name, "oracle-general");
    assert_eq!(
        brief(&r),
        [(Read, 0, 12_288, 4096), (Read, 0, 36_864, 512), (Read, 2000, 12_288, 4096)]
    );
    assert_eq!(t.summary().wide_objects, 0);
    let (_, t) = read(&[file.clone(), record(8, 1, 4097, -1)].concat(), &options("")).unwrap();
    assert_eq!(t.summary().wide_objects, 1, "it lies over the page of id 2, too");
    let error = read(&file[..60], &options("oracleGeneral")).err().unwrap().to_string();
    assert!(error.contains("found `12 bytes`, expected a whole 24-byte record"), "{error}");
}

#[test]
fn any_table_by_its_columns() {
    let o = ReadOptions {
        columns: Some("at=2:ms,op=1,off=4:sector,len=3:byte,app=5,resp=6:us".into()),
        ..ReadOptions::default()
    };
    let text = "op,when,size,where,who,took\nread,1.5,4096,8,x,7\nW,2.5,512,16,y,8.5\n";
    let (r, t) = read(text.as_bytes(), &o).unwrap();
    assert_eq!(brief(&r), [(Read, 0, 4096, 4096), (Write, 1, 8192, 512)]);
    assert_eq!(r[1].response, Some(Span::from_ns(8500)));
    assert!(t.carries().time && t.carries().response);
    assert_eq!(t.apps(), ["x", "y"]);
    // A table without a heading may begin with a flush, which is nowhere.
    for place in ["-", ""] {
        let text = format!("F,1.5,{place},{place},x,7\nW,2.5,512,16,y,8\n");
        let o = ReadOptions { op_map: Some("F=F,W=W".into()), ..o.clone() };
        let (r, _) = read(text.as_bytes(), &o).unwrap();
        assert_eq!(brief(&r), [(Flush, 0, 0, 0), (Write, 1, 8192, 512)], "{place}");
    }
    for columns in [
        "off=1:byte",
        "at=1,off=2:byte,len=3:byte",
        "off=2,len=3:byte",
        "off=0:byte,len=1:byte",
        "",
    ] {
        let o = ReadOptions { columns: Some(columns.into()), ..ReadOptions::default() };
        assert!(read(text.as_bytes(), &o).is_err(), "{columns}");
    }
    assert!(bad(text, "csv").contains("--columns"));
}

#[test]
fn names_of_columns_are_no_request_of_msr() {
    let text = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n\
                128166372003061629,hm,0,Read,4096,4096,100\n";
    let (r, t) = good(text, "");
    assert_eq!((t.format().name, brief(&r)), ("msr", vec![(Read, 0, 4096, 4096)]));
    assert_eq!(t.summary().not_requests, 1);
}
