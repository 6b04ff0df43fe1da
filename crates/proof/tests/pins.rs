//! What fixed pieces of the searches do, to the operation. A search judges promises; what a layer does beyond them
//! (when it cleans, where it writes, what its recovery writes first) it lets pass, and so does every test of
//! contents. Here each drawn run, and all that its recoveries do after the power was cut, is one line: who changes
//! any of it on purpose changes `pins.txt` with it; a failing test prints the lines as they are now. All of them hold but
//! those of the papers' literal rules.

use varve_proof::{
    Density, Draw, LogKind, Plan, draw_lfs, draw_paper, draw_remap, draw_run, draw_stack, draw_tx,
    hunt,
};

const WANTED: &str = include_str!("pins.txt");

/// Of a short run every seventh operation is cut.
const SHORT: Density = Density { operations: 7, nested: 2, resume: 3, limit: 150 };
/// Of a long one a few are.
const LONG: Density = Density { operations: 60, nested: 2, resume: 3, limit: 60 };

/// Compares the lines of a kind, one for each seed.
fn pinned(kind: &str, seeds: std::ops::Range<u64>, density: Density, draw: impl Fn(u64) -> Plan) {
    let found = seeds.map(|seed| {
        let outcome = hunt(&draw(seed), density).expect("what was drawn can be built");
        let (tally, [did, recoveries]) = (outcome.tally, [outcome.hash, outcome.recoveries]);
        let verdict = outcome.broken.map_or("holds".to_string(), |broken| broken.failure.to_string());
        format!(
            "{kind} {seed}: {} steps, {} cuts, {} in recoveries, did {did:016x}, recoveries {recoveries:016x}, {verdict}",
            tally.steps, tally.cuts, tally.nested
        )
    });
    let found: Vec<String> = found.collect();
    let of_kind = |line: &&str| line.split_once(' ').is_some_and(|(first, _)| first == kind);
    let wanted: Vec<&str> = WANTED.lines().filter(of_kind).collect();
    let other = found.iter().zip(&wanted).filter(|(found, wanted)| found != *wanted).count();
    if other > 0 || found.len() != wanted.len() {
        let now = found.join("\n");
        panic!(
            "{kind}: {other} of {} runs do something else than pins.txt says; now:\n{now}",
            wanted.len()
        );
    }
}

#[test]
fn drives() {
    pinned("drive", 0..100, SHORT, |seed| draw_run(seed, &Draw::HEALTHY).0);
}

#[test]
fn drives_on_an_array_with_faults() {
    pinned("drive-faults", 100..160, SHORT, |seed| draw_run(seed, &Draw::FAULTY).0);
}

#[test]
fn drives_for_long() {
    let draw = Draw { steps: (400, 900), ..Draw::HEALTHY };
    pinned("drive-long", 200..220, LONG, |seed| draw_run(seed, &draw).0);
}

#[test]
fn transactions() {
    pinned("tx", 0..90, SHORT, |seed| draw_tx(seed, &Draw::HEALTHY).0);
}

#[test]
fn transactions_on_an_array_with_faults() {
    pinned("tx-faults", 100..130, SHORT, |seed| draw_tx(seed, &Draw::FAULTY).0);
}

#[test]
fn transactions_for_long() {
    let draw = Draw { steps: (300, 700), ..Draw::HEALTHY };
    pinned("tx-long", 200..216, LONG, |seed| draw_tx(seed, &draw).0);
}

#[test]
fn transactions_of_the_paper() {
    pinned("paper", 0..20, SHORT, |seed| draw_paper(seed, &Draw::HEALTHY).0);
}

#[test]
fn logs() {
    let draw = |seed| draw_remap(seed, LogKind::Log, &Draw::HEALTHY).0;
    pinned("log", 0..60, SHORT, draw);
}

#[test]
fn logs_of_the_paper() {
    let draw = |seed| draw_remap(seed, LogKind::PaperLog, &Draw::HEALTHY).0;
    pinned("paper-log", 0..20, SHORT, draw);
}

#[test]
fn logs_on_a_medium_with_faults() {
    let draw = |seed| draw_remap(seed, LogKind::Log, &Draw::FAULTY).0;
    pinned("log-faults", 100..125, SHORT, draw);
}

#[test]
fn logs_for_long() {
    let draw = Draw { steps: (300, 700), ..Draw::HEALTHY };
    pinned("log-long", 200..216, LONG, |seed| draw_remap(seed, LogKind::Log, &draw).0);
}

#[test]
fn files() {
    pinned("files", 0..45, SHORT, |seed| draw_lfs(seed, &Draw::HEALTHY).0);
}

#[test]
fn files_for_long() {
    let draw = Draw { steps: (150, 400), ..Draw::HEALTHY };
    pinned("files-long", 200..216, LONG, |seed| draw_lfs(seed, &draw).0);
}

/// A stack over a small drive.
fn stack_pinned(kind: &str, above: &str) {
    let drive = "drive(mqsim-default, geometry.blocks=0, capacity=8 MiB, geometry.pages=32, geometry.channels=1, \
                 geometry.dies=1, geometry.planes=1, line=plane, op=40 %, buffer.size=64 KiB)";
    let text = format!("{drive}+{above}");
    let draw = |seed| draw_stack(seed, &text, &Draw::HEALTHY).expect("a stack");
    pinned(kind, 0..8, SHORT, draw);
}

#[test]
fn stacks() {
    stack_pinned("stack", "log(segment=64KiB, gc.batch=4)");
}

#[test]
fn stacks_of_files() {
    stack_pinned("stack-files", "log(segment=64KiB)+lfs");
}
