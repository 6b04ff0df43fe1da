//! Scenarios that nobody would write: each is understood or refused with an error that says where, never a panic,
//! and never a drive that is made before it is known to make sense.
//!
//! Drawn from the seeds below: the bundled scenarios and a text with a key of every group, with a value, a key or a
//! few bytes replaced, lines lost or written twice.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use block::Rng;
use varve_lab::Experiment;
use varve_lab::scenario::Scenario;

/// Rounds of the text that names no trace; the others, whose traces are looked at each time, have a hundredth.
/// `VARVE_CUTS=all` has more.
const ROUNDS: u64 = 1000;
const VALUES: &[&str] = &[
    "0",
    "-1",
    "1",
    "18446744073709551615",
    "18446744073709551616",
    "1e309",
    "nan",
    "-0.0",
    "true",
    "''",
    "'\u{0}'",
    "'9999999 EiB'",
    "'1 B'",
    "'1 EiB'",
    "'1/0'",
    "'0/1'",
    "'1/1000000000'",
    "'100 %'",
    "'-5 %'",
    "'1e400 %'",
    "[]",
    "[[]]",
    "{}",
    "[0, 0]",
    "['lru', 'lru']",
    "'lru:'",
    "'a=b,c'",
    "'../../nowhere'",
    "1979-05-27",
    "'∞'",
    "'drive+drive+drive'",
    "'log+log+log(gc.victim=)'",
    "'ram(0)'",
    "'gen:uniform,size=0'",
    "'gen:zipf(nan),size=1'",
    "'gen:uniform,size=64KiB,count=18446744073709551615,read=101'",
];
const EVERYTHING: &str = "
title = 'everything'
seed = 1
[drive]
preset = 'paper-isolation'
capacity = '256 MiB'
line = 'channel'
op = '7 %'
buffer.size = '1 MiB'
buffer.policy = 'aoi'
gc.victim = 'cost-benefit'
[remap]
mode = 'log'
[workload]
drop-flushes = 'on'
[tenant.one]
trace = 'gen:uniform,size=64MiB,count=100'
[replay]
mode = 'closed'
qd = 4
[sweep]
buffer.policy = ['lru', 'aoi']
";

fn texts() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("scenarios")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    let bundled =
        files.iter().map(|file| (std::fs::read_to_string(file).expect("text"), folder.clone()));
    std::iter::once((EVERYTHING.to_string(), folder.clone())).chain(bundled).collect()
}

/// One change.
fn change(text: &str, rng: &mut Rng) -> String {
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    let at = rng.below(lines.len() as u64) as usize;
    match rng.below(6) {
        0..3 => {
            if let Some((key, _)) = lines[at].clone().split_once('=') {
                lines[at] = format!("{key}= {}", VALUES[rng.below(VALUES.len() as u64) as usize]);
            }
        }
        3 => drop(lines.remove(at)),
        4 => lines.insert(at, lines[rng.below(lines.len() as u64) as usize].clone()),
        _ => {
            let mut bytes = lines[at].clone().into_bytes();
            if !bytes.is_empty() {
                let place = rng.below(bytes.len() as u64) as usize;
                bytes[place] = b"\"'=[]{}.,#\0 9aZ\x7f"[rng.below(16) as usize];
            }
            lines[at] = String::from_utf8_lossy(&bytes).into_owned();
        }
    }
    lines.join("\n")
}

#[test]
fn a_hostile_scenario_is_understood_or_refused() {
    let rounds = if std::env::var("VARVE_CUTS").is_ok_and(|all| all == "all") {
        ROUNDS * 20
    } else {
        ROUNDS
    };
    let (mut understood, mut refused) = (0, 0);
    for (number, (text, folder)) in texts().iter().enumerate() {
        for seed in 0..if number == 0 { rounds } else { rounds / 100 } {
            let mut rng = Rng::stream(seed, "lab/hostile");
            let mut hostile = text.clone();
            for _ in 0..=rng.below(3) {
                hostile = change(&hostile, &mut rng);
            }
            let tried = catch_unwind(AssertUnwindSafe(|| {
                Scenario::from_text("hostile", &hostile, folder.clone()).and_then(|scenario| {
                    Experiment::new(&scenario).map(|experiment| experiment.points().len())
                })
            }));
            match tried {
                Ok(Ok(_)) => understood += 1,
                Ok(Err(error)) => {
                    assert!(!error.to_string().is_empty());
                    refused += 1;
                }
                Err(_) => panic!("text {number}, seed {seed}:\n{hostile}"),
            }
        }
    }
    // A test that only ever met one of them would look at nothing.
    assert!(
        understood > rounds / 10 && refused > rounds / 10,
        "{understood} understood, {refused} refused"
    );
}
