//! The model beside the captured traces.

use std::path::Path;

use crate::generate::parse_recipe;
use crate::{Record, Source, TraceOp};

#[derive(Default, Debug)]
struct Facts {
    count: [f64; 5],
    bytes: [f64; 5],
    /// Requests and bytes of writes, then reads, by class: <=4K <=8K <16K <64K <=128K <=256K
    /// <=512K <=1M larger.
    classes: [[(f64, f64); 9]; 2],
    seconds: f64,
    footprint: f64,
}

fn facts(source: &mut dyn Source) -> Facts {
    let (mut facts, mut block) = (Facts::default(), Vec::<Record>::new());
    let mut pages = std::collections::BTreeSet::new();
    loop {
        source.fill(&mut block).unwrap();
        if block.is_empty() {
            facts.footprint = pages.len() as f64 * 4096.0;
            return facts;
        }
        for r in &block {
            facts.count[r.op as usize] += 1.0;
            facts.bytes[r.op as usize] += r.len.0 as f64;
            facts.seconds = r.at.as_ns() as f64 / 1e9;
            if matches!(r.op, TraceOp::Read | TraceOp::Write) {
                pages.extend(r.offset.0 / 4096..(r.offset.0 + r.len.0).div_ceil(4096));
                let kib = r.len.0 as f64 / 1024.0;
                let limits = [4.0, 8.0, 15.9, 63.9, 128.0, 256.0, 512.0, 1024.0];
                let class = limits.iter().position(|limit| kib <= *limit).unwrap_or(8);
                let cell = &mut facts.classes[usize::from(r.op == TraceOp::Read)][class];
                cell.0 += 1.0;
                cell.1 += r.len.0 as f64;
            }
        }
    }
}

impl Facts {
    fn row(&self, name: &str) -> String {
        let [reads, writes, flushes, discards, _] = self.count;
        let [read, written, _, discarded, _] = self.bytes.map(|bytes| bytes / 1e6);
        let mut out = format!(
            "{name}: {reads} / {writes} / {flushes} / {discards} R / W / F / D, {read:.0} / \
             {written:.0} / {discarded:.0} MB, read {:.1} %, mean {:.0} KiB, write mean {:.0} KiB, \
             footprint {:.0} MB, {:.0} s\n",
            self.read_share(),
            self.mean_kib(),
            written * 1e6 / writes / 1024.0,
            self.footprint / 1e6,
            self.seconds,
        );
        for (what, classes) in ["write", "read"].iter().zip(&self.classes) {
            let sums = classes.iter().fold((0.0, 0.0), |s, c| (s.0 + c.0, s.1 + c.1));
            let cells = classes
                .iter()
                .map(|c| format!("{:.0}/{:.0}", 100.0 * c.0 / sums.0, 100.0 * c.1 / sums.1));
            out += &format!("  {what}: {}\n", cells.collect::<Vec<_>>().join(" "));
        }
        out
    }

    fn read_share(&self) -> f64 {
        100.0 * self.bytes[0] / (self.bytes[0] + self.bytes[1])
    }

    fn mean_kib(&self) -> f64 {
        (self.bytes[0] + self.bytes[1]) / (self.count[0] + self.count[1]) / 1024.0
    }

    /// Percent of the written bytes in requests of 128 KiB and more.
    fn large(&self) -> f64 {
        let large: f64 = self.classes[0][5..].iter().map(|c| c.1).sum();
        100.0 * large / self.bytes[1]
    }
}

fn model(recipe: &str) -> Facts {
    facts(&mut *parse_recipe(recipe, 1).unwrap().open())
}

fn captured(name: &str) -> Facts {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data").join(name);
    facts(&mut crate::open(&data, &crate::ReadOptions::default()).unwrap())
}

/// `a` is within `percent` of `b`.
fn near(a: f64, b: f64, percent: f64, what: &str) {
    assert!((a / b - 1.0).abs() * 100.0 <= percent, "{what}: {a} is not {b} within {percent} %");
}

#[test]
fn a_load_is_like_the_captured_one() {
    let real = captured("ycsb_load_rocksdb_ext4.csv.zst");
    let model = model("lsm,preset=rocksdb-small,phase=load");
    println!("{}{}", real.row("captured load"), model.row("lsm load"));
    assert!((model.read_share() - real.read_share()).abs() <= 5.0);
    near(model.bytes[1], 4.1 * 1.164e9, 20.0, "bytes written");
    near(model.bytes[1], real.bytes[1], 20.0, "bytes written");
    near(model.mean_kib(), real.mean_kib(), 25.0, "mean size");
    near(model.bytes[1] / model.count[1], real.bytes[1] / real.count[1], 25.0, "write size");
    assert!(model.large() >= 95.0 && real.large() >= 95.0);
    near(model.count[2], real.count[2], 25.0, "flushes");
    near(model.count[3], real.count[3], 25.0, "discards");
    // Classes of the table of sizes, percent of requests.
    let share = |facts: &Facts, op: usize, from: usize, to: usize| {
        let classes = &facts.classes[op];
        let part: f64 = classes[from..to].iter().map(|c| c.0).sum();
        100.0 * part / classes.iter().map(|c| c.0).sum::<f64>()
    };
    for (op, from, to) in [(0, 0, 4), (0, 4, 6), (0, 6, 9), (1, 0, 4), (1, 4, 6), (1, 6, 9)] {
        let (model, real) = (share(&model, op, from, to), share(&real, op, from, to));
        assert!((model - real).abs() <= 10.0, "{op} {from}..{to}: {model} {real}");
    }
}

#[test]
fn a_run_is_like_the_captured_one() {
    let real = captured("ycsb_a_rocksdb_ext4.csv.zst");
    let model = model("lsm,preset=rocksdb-small,phase=run,workload=A");
    println!("{}{}", real.row("captured run"), model.row("lsm run"));
    assert!((model.read_share() - real.read_share()).abs() <= 5.0);
    let eight = |facts: &Facts| 100.0 * facts.classes[1][1].0 / facts.count[0];
    assert!((eight(&model) - 85.0).abs() <= 5.0, "{}", eight(&model));
    // 200,000 operations are as many gets: point reads are those of at most 12 KiB.
    let point = |facts: &Facts| facts.classes[1][1..3].iter().map(|c| c.0).sum::<f64>() / 2e5;
    near(point(&model), 2.4, 20.0, "block reads of a get");
    near(point(&model), point(&real), 20.0, "block reads of a get");
    near(model.bytes[0], real.bytes[0], 25.0, "bytes read");
    // The weakest: the model leaves more to compact after the load.
    near(model.bytes[1], real.bytes[1], 40.0, "bytes written");
    near(model.mean_kib(), real.mean_kib(), 25.0, "mean size");
}

/// Nothing is read or discarded that is not there, and nothing live is written over but a file's
/// last page, the manifest and the journal.
#[test]
fn writes_go_to_free_space_and_reads_to_what_was_written() {
    for text in [
        "lsm,records=100k,phase=load+run,memtable=2MiB,file=2MiB,level1=8MiB,placement=random",
        "lsm,records=100k,phase=fillrandom,memtable=2MiB,file=2MiB,level1=8MiB,area=400MiB",
        "lsm,records=60k,phase=load+run,workload=F,memtable=1MiB,file=1MiB,level1=4MiB,count=40k,filter",
    ] {
        let recipe = parse_recipe(text, 3).unwrap();
        let (mut source, mut block) = (recipe.open(), Vec::new());
        let mut live = vec![false; (recipe.extent().0 / 4096) as usize];
        let mut counts = [0u64; 5];
        loop {
            source.fill(&mut block).unwrap();
            if block.is_empty() {
                break;
            }
            for r in block.iter().filter(|r| r.offset.0 >= super::META) {
                counts[r.op as usize] += 1;
                let pages = (r.offset.0 / 4096) as usize..((r.offset.0 + r.len.0) / 4096) as usize;
                let single = pages.len() == 1;
                for page in pages {
                    let was = live[page];
                    match r.op {
                        TraceOp::Write => assert!(!was || single, "{text}: {page} twice"),
                        TraceOp::Read => assert!(was, "{text}: {page} read before it was written"),
                        _ => {}
                    }
                    live[page] = r.op != TraceOp::Discard && (was || r.op == TraceOp::Write);
                }
            }
        }
        assert!(counts[0] > 100 && counts[1] > 500 && counts[3] > 20, "{text}: {counts:?}");
    }
}

#[test]
fn wrong_recipes_are_refused_and_a_full_area_is_an_error() {
    for bad in [
        "preset=x",
        "phase=x",
        "workload=E",
        "records=10",
        "iat=1s",
        "level1=1MiB",
        "threads=65",
        "trigger=9,slowdown=8",
        "growth=1001",
        "area=1MiB",
    ] {
        assert!(parse_recipe(&format!("lsm,{bad}"), 1).is_err(), "{bad}");
    }
    let mut source = parse_recipe("lsm,area=400MiB", 1).unwrap().open();
    let mut block = Vec::new();
    let error = loop {
        match source.fill(&mut block) {
            Ok(()) => assert!(!block.is_empty()),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("area=`400 MiB`: too small"), "{error}");
    source.fill(&mut block).unwrap();
    assert!(block.is_empty(), "after an error the source is at its end");
}
