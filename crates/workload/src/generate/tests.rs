use block::{Bytes, EventHash, Time};

use super::*;
use crate::tenant::{Merge, MergeConfig, Order, parse_share};
use crate::{BLOCK_RECORDS, SourceError, TraceOp};

/// All records of a recipe.
pub(super) fn records(text: &str) -> Vec<Record> {
    of_pass(text, 0)
}

fn of_pass(text: &str, pass: u64) -> Vec<Record> {
    let recipe = parse_pass(text, 1, pass).unwrap();
    let (mut source, mut block, mut all) = (recipe.open(), Vec::new(), Vec::new());
    loop {
        source.fill(&mut block).unwrap();
        assert!(block.len() <= BLOCK_RECORDS);
        if block.is_empty() {
            break;
        }
        all.extend_from_slice(&block);
    }
    let extent = recipe.extent().0;
    assert!(all.iter().all(|r| r.offset.0 + r.len.0 <= extent), "{text}: beyond {extent}");
    assert!(all.windows(2).all(|w| w[0].at <= w[1].at), "{text}: times fall");
    assert_eq!(all[0].at, Time::ZERO, "{text}");
    all
}

fn hash(text: &str) -> u64 {
    let mut hash = EventHash::default();
    for record in records(text).iter().take(1_000_000) {
        fold(&mut hash, record);
    }
    hash.value()
}

/// Chi-square against equal cells, with the 0.1 % point for `cells - 1` degrees of freedom by
/// Wilson and Hilferty's approximation (good to a percent from 10 degrees on).
fn assert_uniform(counts: &[u64], what: &str) {
    let total: u64 = counts.iter().sum();
    let expected = total as f64 / counts.len() as f64;
    let chi: f64 = counts.iter().map(|c| (*c as f64 - expected).powi(2) / expected).sum();
    let k = counts.len() as f64 - 1.0;
    let limit = k * (1.0 - 2.0 / (9.0 * k) + 3.09 * (2.0 / (9.0 * k)).sqrt()).powi(3);
    assert!(chi < limit, "{what}: {chi} of {limit}");
}

#[test]
fn sequential_goes_round() {
    let all = records("sequential,size=40k,bs=8k,count=12,base=1MiB,iat=3us");
    let blocks: Vec<u64> = all.iter().map(|r| (r.offset.0 - (1 << 20)) / 8192).collect();
    assert_eq!(blocks, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]);
    assert!(all.iter().all(|r| r.op == TraceOp::Write && r.len == Bytes(8192)));
    assert_eq!(all[11].at, Time::from_us(33));
}

#[test]
fn uniform_is_uniform_and_its_mix_is_kept() {
    let all = records("uniform,size=1MiB,read=30,discard=5,count=400k");
    let mut cells = vec![0; 256];
    for record in &all {
        cells[(record.offset.0 / 4096) as usize] += 1;
    }
    assert_uniform(&cells, "blocks");
    let share = |op| all.iter().filter(|r| r.op == op).count() as f64 / all.len() as f64;
    for (op, wanted) in [(TraceOp::Read, 0.3), (TraceOp::Discard, 0.05), (TraceOp::Write, 0.65)] {
        // Five standard deviations of a share over 400,000 draws are below 0.004.
        assert!((share(op) - wanted).abs() < 0.004, "{op:?} {}", share(op));
    }
}

#[test]
fn zipf_has_its_skew_where_the_scatter_puts_it() {
    let counts = |text: &str| {
        let mut counts = vec![0u64; 1024];
        for record in records(text) {
            counts[(record.offset.0 / 4096) as usize] += 1;
        }
        counts
    };
    let plain = counts("zipf,size=4MiB,count=300k,theta=1.2,scatter=off");
    let mut scattered = counts("zipf,size=4MiB,count=300k,theta=1.2");
    assert!(plain[0] > plain[1] && plain[1] > plain[3] && plain[3] > plain[30]);
    let hottest = scattered.iter().enumerate().max_by_key(|c| c.1).unwrap().0;
    assert_ne!(hottest, 0, "the scatter moved nothing");
    // The same ranks, elsewhere: the sorted counts are equal, draw by draw.
    let mut sorted = plain;
    sorted.sort_unstable();
    scattered.sort_unstable();
    assert_eq!(sorted, scattered);
}

/// A drive that is brought into the steady state of a load must see other draws of the same load.
#[test]
fn passes_draw_anew_and_leave_what_is_hot_where_it_is() {
    let hottest = |all: &[Record]| {
        let mut counts = std::collections::BTreeMap::new();
        all.iter().for_each(|r| *counts.entry(r.offset).or_insert(0) += 1);
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(block, _)| block)
    };
    for text in [
        "zipf,size=4MiB,count=20k",
        "msr:HM_0,count=20k",
        "fio,size=4MiB,rw=randrw,count=20k,distribution=zipf:1.1",
    ] {
        let (first, second) = (of_pass(text, 0), of_pass(text, 1));
        assert_eq!(hottest(&first), hottest(&second), "{text}");
        let same = first.iter().zip(&second).filter(|(a, b)| a.offset == b.offset).count();
        assert!(same < first.len() / 2, "{text}: {same} of {}", first.len());
        assert_eq!(of_pass(text, 1), second, "{text}");
    }
    // Nothing lies anywhere in particular, so all is drawn.
    for text in
        ["uniform,size=4MiB,count=2k", "fio,size=4MiB,rw=randwrite", "ycsb:a,records=2k,count=2k"]
    {
        assert_ne!(of_pass(text, 0), of_pass(text, 1), "{text}");
    }
}

#[test]
fn hot_and_cold_get_their_shares() {
    let all = records("hotcold,size=4MiB,hot=10,hits=90,count=200k");
    let hot = all.iter().filter(|r| r.offset.0 / 4096 < 102).count() as f64;
    assert!((hot / 200_000.0 - 0.9).abs() < 0.004, "{hot}");
}

#[test]
fn latest_reads_what_was_written_last() {
    let all = records("latest,size=4MiB,read=50,count=20k");
    let (mut written, mut near, mut reads) = (0u64, 0, 0);
    for record in &all {
        let block = record.offset.0 / 4096;
        if record.op == TraceOp::Write {
            assert_eq!(block, written % 1024);
            written += 1;
        } else if written > 0 {
            let back = (written - 1) % 1024 + 1024 - block;
            reads += 1;
            near += u64::from(back % 1024 < 32);
        }
    }
    assert!(near * 2 > reads, "{near} of {reads}");
}

#[test]
fn flushes_follow_the_writes_and_are_not_counted() {
    let all = records("uniform,count=10k,read=50,flush=3");
    let writes = all.iter().filter(|r| r.op == TraceOp::Write).count();
    let flushes = all.iter().filter(|r| r.op == TraceOp::Flush).count();
    assert_eq!(flushes, writes / 3);
    assert_eq!(all.len() - flushes, 10_000);
    assert!(all.windows(2).all(|w| w[1].op != TraceOp::Flush || w[0].op == TraceOp::Write));
}

#[test]
fn arrivals_keep_their_mean() {
    let all = records("uniform,count=200k,iat=5us,arrival=exp");
    let mean = all.last().unwrap().at.as_ns() as f64 / 199_999.0;
    assert!((mean - 5000.0).abs() < 60.0, "{mean}");
}

#[test]
fn streams_are_named_so_apps_do_not_disturb_each_other() {
    let of = |text| records(text).iter().map(|r| r.offset.0).collect::<Vec<_>>();
    assert_eq!(of("uniform,count=100"), of("uniform,count=100,read=50"));
    assert_ne!(of("uniform,count=100"), of("uniform,count=100,app=B"));
    assert_ne!(of("uniform,count=100"), of("uniform,count=100,seed=2"));
    assert_eq!(of("uniform,count=100"), of("uniform,count=100,seed=1"));
}

#[test]
fn every_recipe_says_that_it_is_synthetic() {
    let info = list();
    assert!(info.iter().all(|i| !i.doc.is_empty() && !i.keys.is_empty()));
    let described = parse_recipe("zipf,theta=0.8,size=2GiB", 9).unwrap().describe();
    let has = |name: &str, value: &str| described.contains(&(name.to_string(), value.to_string()));
    assert_eq!(described[0], ("source".to_string(), "synthetic".to_string()));
    assert!(has("generator", "zipf") && has("theta", "0.8") && has("seed", "9"), "{described:?}");
    assert!(has("size", "2 GiB") && has("bs", "4 KiB") && has("iat", "10 us"), "{described:?}");
}

#[test]
fn the_list_names_every_key_and_its_default() {
    for info in list() {
        let argument = match info.name.split_once(':') {
            Some(("msr", _)) => "msr:HM_0".to_string(),
            Some(("ycsb", _)) => "ycsb:A".to_string(),
            _ => info.name.to_string(),
        };
        let keys: Vec<&str> = info.keys.split_whitespace().collect();
        let Err(error) = parse_recipe(&format!("{argument},nosuchkey"), 1) else { panic!() };
        let error = error.to_string();
        let mut known: Vec<&str> = error.split_once("it has ").unwrap().1.split(", ").collect();
        let mut listed: Vec<&str> = keys.iter().map(|k| k.split('=').next().unwrap()).collect();
        known.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, known, "{}", info.name);
        let plain = keys.iter().filter(|key| key.contains('=') && !key.contains('('));
        let written: String = plain.map(|key| format!(",{key}")).collect();
        let describe = |text: &str| {
            let mut all = parse_recipe(text, 1).unwrap().describe();
            all.retain(|(name, _)| name != "recipe");
            all
        };
        assert_eq!(describe(&argument), describe(&(argument.clone() + &written)));
    }
}

#[test]
fn recipes_merge_as_tenants() {
    let tenants = vec![
        parse_recipe("zipf,size=8MiB,read=50,count=1000", 1).unwrap().tenant("A"),
        parse_recipe("fio,rw=write,bs=64k,jobs=2,size=4100k", 1)
            .unwrap()
            .tenant("B")
            .rounds(9, true),
    ];
    let order = Order::Ratio(parse_share("A:B=1:2", &["A", "B"]).unwrap());
    let mut merge = Merge::new(tenants, MergeConfig { order, ..MergeConfig::default() }).unwrap();
    assert_eq!(merge.capacity(), Some(Bytes((8 + 9) << 20)));
    let (mut block, mut last) = (Vec::new(), Time::ZERO);
    loop {
        merge.fill(&mut block).unwrap();
        let Some(end) = block.last() else { break };
        last = end.at;
        assert!(block.iter().all(|r| (r.app.0 == 1) == (r.offset.0 >= 8 << 20)));
    }
    let stats = merge.stats();
    assert_eq!(last, Time::from_us(9_990), "the follower has the leader's times");
    // The last 64 KiB request may overshoot by 15 units.
    assert_eq!(stats[0].units, 1000);
    assert!((2000..2016).contains(&stats[1].units), "{stats:?}");
}

#[test]
fn wrong_recipes_say_what_was_expected() {
    let cases = [
        ("unifrom", "no generator `unifrom`: there are sequential, uniform,"),
        ("uniform,sise=1G", "recipe `uniform`: unknown key `sise`; it has seed, app,"),
        ("uniform,size=1G,size=2G", "recipe `uniform`: `size` is given twice"),
        (
            "uniform,bs=100",
            "recipe `uniform`: bs=`100`: expected a size such as `16KiB` of at least 512",
        ),
        ("uniform,size=2k", "recipe `uniform`: size=`2k`: expected a size"),
        ("uniform,read=120", "recipe `uniform`: read=`120`: expected percent from 0 to 100"),
        ("uniform,read=60,discard=50", "recipe `uniform`: read and discard=`110 %`"),
        ("uniform,count=0", "recipe `uniform`: count=`0`: expected a whole number"),
        ("uniform,iat=10", "recipe `uniform`: iat=`10`: expected a time"),
        ("uniform,iat=1s,count=1G", "recipe `uniform`: iat=`1 s`: expected a time"),
        (
            "uniform,arrival=poisson",
            "recipe `uniform`: arrival=`poisson`: expected `fixed` or `exp`",
        ),
        ("zipf,theta=0", "recipe `zipf`: theta=`0`: expected a number from 0.01 to 10"),
        ("zipf,theta=nan", "recipe `zipf`: theta=`nan`: expected"),
        ("zipf,scatter=yes", "recipe `zipf`: scatter=`yes`: expected `on` or `off`"),
        ("uniform:x", "`uniform:x`: expected `uniform`"),
        ("uniform,seed=x", "recipe `uniform`: seed=`x`: expected a whole number"),
        ("", "no generator ``"),
    ];
    for (text, expected) in cases {
        let Err(error) = parse_recipe(text, 1) else { panic!("`{text}` was taken") };
        assert!(matches!(error, SourceError::Recipe(_)));
        assert!(error.to_string().starts_with(expected), "{error}\n{expected}");
    }
}

/// Same seed, same bytes, on every platform and in every version.
#[test]
fn the_first_million_records_are_pinned() {
    let golden = include_str!("golden.txt");
    let hashed = |line: &str| match line.split_once(' ') {
        Some((_, recipe)) if !line.starts_with('#') => format!("{:016x} {recipe}\n", hash(recipe)),
        _ => format!("{line}\n"),
    };
    let now: String = golden.lines().map(hashed).collect();
    assert!(now == golden, "records changed; they are now\n{now}");
    for info in list() {
        let name = info.name.split(':').next().unwrap();
        assert!(golden.contains(&format!(" {name}")), "{name} has no golden hash");
    }
}
