//! What a trace says of itself goes along wherever it is written anew: address spaces, times, files.

use super::*;

/// How far a workload reaches, and how often its requests hit: on a drive that holds any of these.
fn replayed(folder: &Folder, source: &str, more: &[&str]) -> (u64, Value) {
    let args =
        ["--set", "capacity=64 MiB", "--set", "op=28 %", "--buffer", "1M", "--mode", "closed"];
    let args = [&["sim", source, "--json", "--deterministic"], &args[..], more].concat();
    let output = folder.run(&args);
    assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let result = &document["results"][0];
    (document["workload"]["extent_bytes"].as_u64().unwrap(), result["hit_ratio"].clone())
}

fn ok(folder: &Folder, args: &[&str]) -> String {
    let output = folder.run(args);
    assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
    stdout(&output)
}

/// Four volumes of 8 MiB each, of which every second piece of 64 KiB is written.
fn volumes(folder: &Folder) {
    let row = |i: u64| {
        format!("{},s,{},Write,{},4096,9\n", 128166372 + i * 10, i % 4, (i / 4 * 37 % 64) * 131_072)
    };
    folder.file("v.csv", &(0..2000).map(row).collect::<String>());
}

/// Read back they were laid out a second time, one behind the other.
#[test]
fn applications_of_one_address_space_share_it_when_they_are_read_back() {
    let folder = Folder::new("shared");
    let recipe = "fio,rw=randwrite,jobs=4,size=4MiB,count=8192";
    ok(&folder, &["trace", "gen", recipe, "x.vtr"]);
    let made = replayed(&folder, &format!("gen:{recipe}"), &[]);
    assert_eq!(made.0, 16 << 20);
    assert_eq!(replayed(&folder, "x.vtr", &[]), made);
    ok(&folder, &["trace", "convert", "x.vtr", "again.vtr"]);
    assert_eq!(replayed(&folder, "again.vtr", &[]), made);
    // Also as one of several tenants, which are one address space each.
    ok(&folder, &["trace", "merge", "X=x.vtr", "-o", "one.vtr"]);
    assert_eq!(replayed(&folder, "one.vtr", &[]).0, made.0);
    let (a, b) = ("A=gen:uniform,size=8MiB,count=2k", "B=gen:uniform,size=8MiB,seed=2,count=2k");
    ok(&folder, &["trace", "merge", a, b, "--map", "identity", "--end", "longest", "-o", "i.vtr"]);
    assert_eq!(replayed(&folder, "i.vtr", &[]).0, 8 << 20);
    ok(&folder, &["trace", "merge", a, b, "--end", "longest", "-o", "p.vtr"]);
    assert_eq!(replayed(&folder, "p.vtr", &[]).0, 16 << 20);
    // Volumes of a trace are not; made compact they are.
    volumes(&folder);
    let apart = replayed(&folder, "v.csv", &[]);
    assert_eq!(apart.0, 32 << 20);
    ok(&folder, &["trace", "convert", "v.csv", "v.vtr"]);
    assert_eq!(replayed(&folder, "v.vtr", &[]), apart);
    let compact = replayed(&folder, "v.csv", &["--fit", "compact:64KiB"]);
    ok(&folder, &["trace", "convert", "v.csv", "c.vtr", "--fit", "compact:64KiB"]);
    let (reaches, hits) = replayed(&folder, "c.vtr", &[]);
    assert_eq!((reaches.next_multiple_of(64 << 10), hits), compact);
    assert_eq!(compact.0, 16 << 20);
}

/// All requests were at time 0.
#[test]
fn what_has_no_times_is_not_replayed_by_its_times() {
    let folder = Folder::new("untimed");
    folder.file("x.lis", "1 4 0 1\n9 2 0 2\n5 1 0 3\n");
    folder.file("t.csv", "1,1\n2,1\n3,1\n");
    folder.file("timed.csv", "1,1,1\n2,2,1\n3,3,1\n");
    ok(&folder, &["trace", "convert", "x.lis", "x.vtr", "--format", "arc"]);
    let table = ["--format", "csv", "--columns", "off=1:page,len=2:page"];
    let timed =
        ["--set", "tenant.T.format=csv", "--set", "tenant.T.columns=at=1:us,off=2:page,len=3:page"];
    let merged =
        [&["trace", "merge", "T=timed.csv", "X=x.vtr", "-o", "m.vtr"], &timed[..]].concat();
    ok(&folder, &merged);
    for (source, more) in
        [("x.lis", &["--format", "arc"][..]), ("x.vtr", &[]), ("t.csv", &table), ("m.vtr", &[])]
    {
        let output = folder.run(&sim(source, more));
        assert_eq!(code(&output), 3, "{source}");
        assert!(
            stderr(&output).contains("has no times: expected mode closed"),
            "{}",
            stderr(&output)
        );
        ok(&folder, &sim(source, &[more, &["--mode", "closed"]].concat()));
    }
    let tenants = |more: &str| {
        folder.file(
            "s.toml",
            &format!("[drive]\ncapacity = '32 MiB'\nop = '28 %'\n{more}[tenant.A]\ngen = 'uniform,size=1MiB,count=9'\n[tenant.B]\ntrace = 'x.vtr'\n"),
        );
        folder.run(&["run", "s.toml", "--json"])
    };
    let output = tenants("");
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("tenant B: its trace has no times"), "{}", stderr(&output));
    // Those that owe for a leader have its times.
    let output = tenants("[workload]\nratio = 'A:B=1:1'\n");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}

/// One event of blktrace: a write that is issued.
fn event(time: u64, sector: u64) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(0x6561_7407u32.to_le_bytes());
    out.extend([0; 4]);
    out.extend(time.to_le_bytes());
    out.extend(sector.to_le_bytes());
    out.extend(4096u32.to_le_bytes());
    out.extend((2u32 << 16 | 7).to_le_bytes());
    out.extend([0; 16]);
    out
}

/// Only the file that was named was looked at.
#[test]
fn a_trace_of_several_files_is_all_of_them() {
    let folder = Folder::new("cpus");
    let write = |name: &str, sectors: &[u64]| {
        let bytes: Vec<u8> = sectors.iter().flat_map(|n| event(n * 1000, n * 8)).collect();
        std::fs::write(folder.0.join(name), bytes).unwrap();
    };
    write("sda.blktrace.0", &[1, 3, 5]);
    write("sda.blktrace.1", &[2, 4, 6]);
    let drive = "[drive]\ncapacity = '32 MiB'\nop = '28 %'\n";
    folder.file("s.toml", &format!("{drive}[workload]\ntrace = 'sda.blktrace.0'\n"));
    let digest = || -> Value {
        let index: Value =
            serde_json::from_str(&ok(&folder, &["points", "s.toml", "--json"])).unwrap();
        assert_eq!(index["inputs"].as_array().unwrap().len(), 2);
        index["digest"].clone()
    };
    let before = digest();
    assert_eq!(digest(), before);
    write("sda.blktrace.1", &[2, 4, 7]);
    assert_ne!(digest(), before);
    // None of them is written over, and a digest of one is none of the trace.
    let other = std::fs::read(folder.0.join("sda.blktrace.1")).unwrap();
    let output = folder.run(&["run", "s.toml", "--csv", "sda.blktrace.1"]);
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("is the trace that is read"), "{}", stderr(&output));
    assert_eq!(std::fs::read(folder.0.join("sda.blktrace.1")).unwrap(), other);
    let mut keep = Command::new(env!("CARGO_BIN_EXE_varve"));
    keep.current_dir(&folder.0).env("VARVE_TRACES", folder.0.join("kept"));
    let output = keep.args(["trace", "keep", "sda.blktrace.0"]).output().unwrap();
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("one of 2 files of a trace"), "{}", stderr(&output));
    assert_eq!(std::fs::read_dir(folder.0.join("kept")).unwrap().count(), 0);
    ok(&folder, &["trace", "convert", "sda.blktrace.1", "b.vtr"]);
    let bytes = std::fs::read(folder.0.join("b.vtr")).unwrap();
    let length = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[12..12 + length]).unwrap();
    assert_eq!(header["source"], "sda.blktrace.1 sda.blktrace.0");
    let digests = header["source_sha256"].as_str().unwrap();
    assert_eq!(digests.split(' ').map(str::len).collect::<Vec<_>>(), [64, 64]);
}

/// The input of one was the part of the other, and was lost.
#[test]
fn a_conversion_has_a_part_of_its_own_and_reads_once() {
    let folder = Folder::new("once");
    ok(&folder, &["trace", "gen", "gen:uniform,size=1MiB,count=300", "x.vtr"]);
    std::fs::copy(folder.0.join("x.vtr"), folder.0.join("y.vtr.part")).unwrap();
    ok(&folder, &["trace", "convert", "y.vtr.part", "y.vtr"]);
    assert_eq!(
        std::fs::read(folder.0.join("y.vtr.part")).unwrap(),
        std::fs::read(folder.0.join("x.vtr")).unwrap()
    );
    // Names are known once all of standard input is read; it cannot be read twice.
    volumes(&folder);
    let mut convert = Command::new(env!("CARGO_BIN_EXE_varve"));
    convert.current_dir(&folder.0).args(["trace", "convert", "-", "p.vtr", "--format", "msr"]);
    let input = std::fs::File::open(folder.0.join("v.csv")).unwrap();
    let output = convert.stdin(input).output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let info: Value =
        serde_json::from_str(&ok(&folder, &["trace", "info", "p.vtr", "--json"])).unwrap();
    assert_eq!(info["results"]["requests"], 2000);
    assert_eq!(info["results"]["apps"][3]["name"], "s_3");
    // What lies behind the requests that are asked for is nobody's.
    let text = std::fs::read_to_string(folder.0.join("v.csv")).unwrap();
    let bad: String = text.lines().take(50).map(|line| format!("{line}\n")).collect();
    folder.file("bad.csv", &(bad + "no request\n"));
    ok(&folder, &["trace", "convert", "bad.csv", "b.vtr", "--limit", "50"]);
    assert_eq!(code(&folder.run(&["trace", "convert", "bad.csv", "b.vtr"])), 3);
}
