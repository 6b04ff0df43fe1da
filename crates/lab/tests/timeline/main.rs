//! The files that an explained run leaves: its log of requests, and its timeline, which a reader of
//! protobuf written here alone takes apart.

mod apart;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use apart::{Drawn, read};
use serde_json::Value;
use varve_lab::explain::{Drawing, Spent, TimelineWanted, Wanted, Window};
use varve_lab::replay::Watch;
use varve_lab::scenario::Scenario;
use varve_lab::{Experiment, LabError};

const SMALL: &str = "[drive]\ngeometry.channels = 2\ngeometry.dies = 2\ngeometry.pages = 32\n\
    geometry.page = \"4 KiB\"\ncapacity = \"32 MiB\"\nop = \"20 %\"\nbuffer.policy = \"lru\"\n\
    buffer.size = \"1 MiB\"\n[workload]\ngen = \"zipf,size=32MiB,read=40,count=20k\"\n\
    [replay]\nmode = \"closed\"\nqd = 8\nprecondition = \"seq\"\nflush-every = 100\n";

/// A folder of a test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("varve-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(text: &str, wanted: Wanted) -> Result<Value, LabError> {
    let scenario = Scenario::from_text("test", text, PathBuf::new()).unwrap();
    let (stop, nobody) = (AtomicBool::new(false), |_| ());
    let watch = Watch { stop: &stop, progress: &nobody };
    let mut experiment = Experiment::new(&scenario)?;
    experiment.explain(wanted)?;
    let value = experiment.run(1, "test", watch)?.value();
    experiment.unwritten().pop().map_or(Ok(value), Err)
}

fn log(path: &Path) -> Wanted {
    Wanted { requests: Some(path.to_path_buf()), ..Wanted::default() }
}

fn timeline(window: &str, path: &Path, most: usize) -> Wanted {
    let window: Window = window.parse().unwrap();
    let timeline = Some(TimelineWanted { window, path: path.to_path_buf(), most });
    Wanted { causes: true, timeline, ..Wanted::default() }
}

#[test]
fn the_log_has_a_line_for_each_request_whose_times_sum_to_its_latency() {
    let folder = Folder::new("log");
    let plain = folder.file("requests.csv");
    let value = run(SMALL, Wanted { causes: true, ..log(&plain) }).unwrap();
    let one = &value["results"][0];
    let text = std::fs::read_to_string(&plain).unwrap();
    let mut lines = text.lines();
    let heading: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at = |name: &str| heading.iter().position(|column| *column == name).unwrap();
    let (op, latency, gc) = (at("op"), at("latency_ns"), at("wait_gc_ns"));
    let first = at("wait_queue_ns");
    assert_eq!((at("other_ns"), first), (heading.len() - 1, latency + 1));
    let (mut count, mut of_gc, mut reads) = (0u64, 0u64, 0u64);
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        count += 1;
        assert_eq!(cells[0], count.to_string(), "requests are numbered");
        let number = |at: usize| cells[at].parse::<u64>().unwrap();
        assert_eq!((first..cells.len()).map(number).sum::<u64>(), number(latency), "{line}");
        if cells[op] == "read" {
            reads += 1;
            of_gc += number(gc);
        }
    }
    // The last flush is the laboratory's.
    assert_eq!(count, one["host"]["submitted"].as_u64().unwrap() - 1);
    let all = &one["latency_ns"]["read"]["by_cause"]["all"];
    assert_eq!(all["requests"].as_u64(), Some(reads));
    let mean = all["causes"]["gc"].as_f64().unwrap();
    assert!(mean > 0.0, "there is cleaning");
    assert!((of_gc as f64 / reads as f64 - mean).abs() < 2.0, "{mean} ns");

    let packed = folder.file("requests.csv.zst");
    run(SMALL, log(&packed)).unwrap();
    let mut unpacked = String::new();
    let file = std::fs::File::open(&packed).unwrap();
    zstd::stream::read::Decoder::new(file).unwrap().read_to_string(&mut unpacked).unwrap();
    assert!(unpacked == text, "the same lines");
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 2, "no part is left");
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_runs() {
    let folder = Folder::new("refused");
    let error = run(SMALL, log(&folder.file("requests.parquet"))).unwrap_err();
    assert!(error.to_string().contains("ends in .csv or .csv.zst"), "{error}");
    let many = format!("{SMALL}[sweep]\nbuffer.size = [\"1 MiB\", \"2 MiB\"]\n");
    let error = run(&many, log(&folder.file("requests.csv"))).unwrap_err();
    assert!(error.to_string().contains("of one run, and this is 2"), "{error}");
    let error = run(SMALL, log(&folder.file("no/such/folder/requests.csv"))).unwrap_err();
    assert_eq!(error.exit_code(), LabError::io("x", std::io::Error::other("x")).exit_code());
    let error = run(SMALL, timeline("0s..1ms", &folder.file("no/such.pftrace"), 9)).unwrap_err();
    assert_eq!(error.exit_code(), 1, "{error}");
    let twice = folder.file("both.csv");
    let error = Wanted { timeline: timeline("0s..1ms", &twice, 9).timeline, ..log(&twice) };
    let error = run(SMALL, error).unwrap_err().to_string();
    assert!(error.contains("expected two names"), "{error}");
    let error = run(SMALL, timeline("0s..1ms", &folder.file("x.pftrace"), 0)).unwrap_err();
    assert!(error.to_string().contains("at least one slice"), "{error}");
    for text in ["5s", "5s..5s", "2s..1s", "1..2", "a..b"] {
        assert!(text.parse::<Window>().unwrap_err().contains("expected two times"), "{text}");
    }
    let path = folder.file("small.pftrace");
    let error = run(SMALL, timeline("0s..1000s", &path, 1_000)).unwrap_err();
    assert!(error.to_string().contains("more than 1000 slices"), "{error}");
    let beyond = folder.file("beyond.pftrace");
    let error = run(SMALL, timeline("1000s..1001s", &beyond, 1000)).unwrap_err().to_string();
    assert!(error.contains("nothing happens from 1000 s to 1001 s"), "{error}");
    assert!(!beyond.exists());
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0, "no file");
}

/// Only the end of a run tells that nothing happened in a window, or that there was no room for a log: by
/// then the run is measured, and it is the same as without either.
#[test]
fn a_run_whose_files_cannot_be_written_has_its_results() {
    let folder = Folder::new("late");
    let plain = run(SMALL, Wanted { causes: true, ..Wanted::default() }).unwrap();
    let scenario = Scenario::from_text("test", SMALL, PathBuf::new()).unwrap();
    let mut experiment = Experiment::new(&scenario).unwrap();
    let beyond = folder.file("beyond.pftrace");
    // A name that takes a file before the run, and none after it.
    let place = folder.file("gone");
    std::fs::create_dir(&place).unwrap();
    let wanted =
        Wanted { requests: Some(place.join("requests.csv")), ..timeline("900s..901s", &beyond, 9) };
    experiment.explain(wanted).unwrap();
    std::fs::remove_dir(&place).unwrap();
    let (stop, nobody) = (AtomicBool::new(false), |_| ());
    let watch = Watch { stop: &stop, progress: &nobody };
    let document = experiment.run(1, "test", watch).unwrap();
    assert_eq!(document.value(), plain);
    let told: Vec<String> = experiment.unwritten().iter().map(LabError::to_string).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("requests.csv: ") && told[1].contains("nothing happens"), "{told:?}");
    assert!(experiment.unwritten().is_empty() && !beyond.exists());
}

#[test]
fn a_timeline_of_the_whole_run_is_what_dies_were_busy_with() {
    let folder = Folder::new("whole");
    let path = folder.file("run.pftrace");
    // Flushes that the replay adds would come on top of what is in flight.
    let plain = SMALL.replace("flush-every = 100\n", "");
    for sched in ["in-order", "read-first", "read-first(suspend)"] {
        let text = plain.replace("[workload]", &format!("sched = \"{sched}\"\n[workload]"));
        whole_run(&path, &text);
    }
}

/// Runs a scenario of four dies and eight requests in flight, and compares what is drawn of it.
fn whole_run(path: &Path, text: &str) {
    let value = run(text, timeline("0s..1000s", path, 1_000_000)).unwrap();
    let one = &value["results"][0];
    let drawn = read(&std::fs::read(path).unwrap());
    let drained = one["drained_ns"].as_f64().unwrap();
    let dies: Vec<_> = drawn.of("die ").collect();
    assert_eq!(dies.len(), 4);
    for ((name, slices), busy) in dies.iter().zip(one["busy"]["die"].as_array().unwrap()) {
        let sum: u64 = slices.iter().map(|slice| slice.end - slice.start).sum();
        let busy = busy.as_f64().unwrap() * drained;
        // Six decimals of the share, and less than a nanosecond a slice.
        let least = 0.5e-6 * drained + slices.len() as f64;
        assert!((sum as f64 - busy).abs() <= least, "{name}: {sum} ns drawn, {busy} ns busy");
    }
    let all = || dies.iter().flat_map(|(_, slices)| slices.iter());
    let pages = |name: &str| -> u64 {
        // What was interrupted is in parts.
        let of = |slice: &Drawn| ["request", "block", "page", "pages"].map(|key| slice.notes[key]);
        let named = all().filter(|slice| slice.name == name);
        named.map(of).collect::<BTreeSet<_>>().into_iter().map(|[.., pages]| pages).sum()
    };
    assert_eq!(Some(pages("gc program")), one["nand"]["programs"]["gc"].as_u64());
    assert_eq!(Some(pages("host program")), one["nand"]["programs"]["host"].as_u64());
    assert_eq!(Some(pages("erase")), one["erases"].as_u64());
    let requests: Vec<&Drawn> = drawn.of("slot ").flat_map(|(_, slices)| slices).collect();
    assert_eq!(requests.len() as u64, one["host"]["submitted"].as_u64().unwrap() - 1);
    assert_eq!(drawn.of("slot ").count(), 8, "as many as are in flight");
    for request in &requests {
        let waited: u64 = request
            .notes
            .iter()
            .filter(|(name, _)| name.starts_with("waited_for."))
            .map(|(_, ns)| ns)
            .sum();
        assert_eq!(waited, request.notes["latency_ns"], "{request:?}");
    }
    assert!(drawn.counts.values().all(|n| *n > 1), "free blocks and dirty pages change");
    assert_eq!(drawn.counts.len(), 2);
}

#[test]
fn arrows_lead_from_requests_and_victims_to_operations() {
    let folder = Folder::new("arrows");
    let path = folder.file("run.pftrace");
    let value = run(SMALL, timeline("100ms..400ms", &path, 1_000_000)).unwrap();
    let drawn = read(&std::fs::read(&path).unwrap());
    let operations: BTreeMap<u64, &Drawn> = drawn
        .of("die ")
        .flat_map(|(_, slices)| slices)
        .flat_map(|slice| slice.flows.iter().map(move |flow| (*flow, slice)))
        .collect();
    let mut met = BTreeSet::new();
    let mut gc = 0;
    for request in drawn.of("slot ").flat_map(|(_, slices)| slices) {
        for flow in &request.flows {
            let operation = operations.get(flow).expect("both ends are drawn");
            assert!(met.insert(*flow), "an arrow has two ends");
            assert!(operation.start < request.end, "what was waited for began before the end");
            gc += u64::from(operation.name.starts_with("gc"));
        }
        if request.notes.contains_key("waited_for.wait_gc_ns") && request.start > 150_000_000 {
            assert!(!request.flows.is_empty(), "{request:?}");
        }
    }
    assert!(gc > 0, "requests stand behind cleaning");
    let victims: Vec<&Drawn> = drawn.of("cleaning").flat_map(|(_, slices)| slices).collect();
    assert!(victims.len() > 1, "lines are collected");
    for flow in victims.iter().flat_map(|victim| &victim.flows) {
        assert!(operations[flow].name.starts_with("gc"), "{:?}", operations[flow]);
        assert!(met.insert(*flow), "an arrow has two ends");
    }
    assert_eq!(met.len(), operations.len(), "no arrow comes from nowhere");
    // The window is a part of the run: what lies outside is not drawn.
    let time = value["results"][0]["time_ns"].as_f64().unwrap();
    assert!(time > 400e6, "{time}");
    let (first, last) = (drawn.of("die ").flat_map(|(_, s)| s))
        .fold((u64::MAX, 0), |(a, b), s| (a.min(s.end), b.max(s.start)));
    assert!(last - first < 310_000_000, "{first} {last}");
}

#[test]
fn what_was_written_is_read_back() {
    let folder = Folder::new("back");
    let path = folder.file("run.pftrace");
    run(SMALL, timeline("100ms..400ms", &path, 1_000_000)).unwrap();
    let (apart, drawing) = (read(&std::fs::read(&path).unwrap()), Drawing::load(&path, 1_000_000));
    let drawing = drawing.unwrap();
    let slices = |part| -> Vec<&Drawn> { apart.of(part).flat_map(|(_, slices)| slices).collect() };
    let (drawn, dies, victims) = (slices("slot "), slices("die "), slices("cleaning"));
    assert!(drawn.len() > 100 && dies.len() > 1_000 && victims.len() > 1);
    assert_eq!(drawing.requests.len(), drawn.len());
    assert_eq!(drawing.operations.len(), dies.len());
    assert_eq!(drawing.victims.len(), victims.len());
    assert_eq!((drawing.slots.len(), drawing.dies.len()), (apart.of("slot ").count(), 4));
    for (one, slice) in drawing.operations.iter().zip(&dies) {
        assert_eq!((one.start_ns, one.end_ns, &one.name), (slice.start, slice.end, &slice.name));
        let said = [("request", one.request), ("block", one.block), ("page", one.page)];
        said.into_iter().for_each(|(name, value)| assert_eq!(slice.notes[name], value, "{name}"));
        assert_eq!(slice.notes["pages"], one.pages);
        assert!(Spent::NAMES.contains(&one.cause.as_str()), "{}", one.cause);
    }
    let flows = |slice: &Drawn| -> Vec<(u64, u64)> {
        let of = |flow: &u64| dies.iter().find(|die| die.flows.contains(flow));
        slice.flows.iter().filter_map(of).map(|die| (die.start, die.end)).collect()
    };
    let places = |list: &[usize]| -> Vec<(u64, u64)> {
        let of = |at: &usize| (drawing.operations[*at].start_ns, drawing.operations[*at].end_ns);
        list.iter().map(of).collect()
    };
    for (one, slice) in drawing.requests.iter().zip(&drawn).step_by(7) {
        assert_eq!((one.start_ns, one.end_ns, &one.op), (slice.start, slice.end, &slice.name));
        let said = [("request", one.number), ("offset", one.offset), ("bytes", one.bytes)];
        said.into_iter().for_each(|(name, value)| assert_eq!(slice.notes[name], value, "{name}"));
        assert_eq!(slice.notes["latency_ns"], one.latency_ns);
        assert_eq!(one.causes.iter().sum::<u64>(), one.latency_ns);
        let gc = slice.notes.get("waited_for.wait_gc_ns").copied().unwrap_or(0);
        assert_eq!(one.causes[Spent::Gc as usize], gc);
        assert_eq!(places(&one.operations), flows(slice));
    }
    for (one, slice) in drawing.victims.iter().zip(&victims) {
        assert_eq!((one.line, one.valid), (slice.notes["line"], slice.notes["valid"]));
        assert_eq!(places(&one.operations), flows(slice));
    }
    let levels: Vec<(&str, usize)> =
        drawing.levels.iter().map(|level| (level.name.as_str(), level.values.len())).collect();
    let counted: Vec<usize> = apart.counts.values().copied().collect();
    assert_eq!(levels, [("free blocks", counted[0]), ("dirty pages in the buffer", counted[1])]);
    let error = Drawing::load(&path, 500).unwrap_err().to_string();
    assert!(error.contains("at most 500 slices: draw a shorter window"), "{error}");
}

#[test]
fn times_and_numbers_count_from_the_measured_part() {
    let folder = Folder::new("warm");
    let path = folder.file("run.pftrace");
    let text = SMALL.replace("[replay]\n", "[replay]\nmeasure-after = 10000\n");
    run(&text, timeline("100ms..300ms", &path, 1_000_000)).unwrap();
    let drawing = Drawing::load(&path, 1_000_000).unwrap();
    let (from, to) = drawing.span_ns().unwrap();
    assert!(from < 110_000_000 && (290_000_000..400_000_000).contains(&to), "{from} {to}");
    let numbers: BTreeMap<u64, &str> =
        drawing.requests.iter().map(|one| (one.number, one.op.as_str())).collect();
    // The reads that dies do for the host are those of reads of that number.
    let (mut of_reads, mut others) = (0, 0);
    for one in drawing.operations.iter().filter(|one| one.name == "host read") {
        match numbers.get(&one.request) {
            Some(op) if *op == "read" => of_reads += 1,
            _ => others += 1,
        }
    }
    assert!(of_reads > 100 && others * 50 < of_reads, "{of_reads} of reads, {others} of others");
}

#[test]
fn what_is_no_timeline_is_refused_with_its_place() {
    let folder = Folder::new("foreign");
    let (path, wrong) = (folder.file("run.pftrace"), folder.file("wrong.pftrace"));
    run(SMALL, timeline("100ms..120ms", &path, 1_000_000)).unwrap();
    let file = std::fs::read(&path).unwrap();
    let refused = |bytes: &[u8]| -> Option<String> {
        std::fs::write(&wrong, bytes).unwrap();
        let error = Drawing::load(&wrong, 1_000_000).err()?;
        assert_eq!(error.exit_code(), LabError::Input(String::new()).exit_code());
        Some(error.to_string())
    };
    // A packet of another program: its clocks, its process statistics; compressed packets.
    let packet = |field: u8| [&[0x0A, 3, field << 3 | 2, 1, 0][..]].concat();
    let cases: [(&[u8], &str); 8] = [
        (b"", "byte 0: the end, and no track before it: expected a timeline that --timeline-out"),
        (b"{\"traceEvents\": []}", "expected the key of a protobuf field"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00", "byte 0: "),
        (&packet(6), "byte 2: a packet with field 6: expected a timeline"),
        (&packet(9), "byte 2: a packet with field 9: expected a timeline"),
        (&[0x12, 1, 0], "byte 0: field 2: expected a timeline"),
        (&[0x0A, 9, 0], "byte 2: 1 bytes are left: expected 9 bytes"),
        (&[0x08, 1], "byte 0: the number 1: expected bytes: a packet"),
    ];
    for (bytes, said) in cases {
        let error = refused(bytes).expect("refused");
        assert!(error.contains("wrong.pftrace: ") && error.contains(said), "{error}");
    }
    // Cut anywhere, it is refused, or it is a shorter file that ends between two packets.
    let mut rng = block::Rng::new(7);
    let (mut whole, cuts) = (0, 400);
    for _ in 0..cuts {
        let cut = rng.below(file.len() as u64) as usize;
        match refused(&file[..cut]) {
            Some(error) => {
                assert!(error.contains("byte ") && error.contains("expected"), "{error}")
            }
            None => whole += 1,
        }
    }
    assert!(whole * 4 < cuts, "{whole} of {cuts} cuts are nowhere");
    // Drawn bytes in its midst: whatever comes of it, nobody panics.
    let mut told = 0;
    for _ in 0..2_000 {
        let mut bytes = file.clone();
        for _ in 0..=rng.below(3) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.below(256) as u8;
        }
        told += u64::from(refused(&bytes).is_some());
    }
    assert!(told > 500, "{told}");
}
