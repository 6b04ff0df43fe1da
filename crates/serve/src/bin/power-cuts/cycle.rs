//! The cycles.
//!
//! Invariant: an error of the file system before the power was asked to go is a failure of the
//! run; afterwards it is what is expected.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use block::Rng;

use crate::content::{BLOCK, Stamp};
use crate::ledger::{Came, Ledger};
use crate::load::{Ended, disturb, work};
use crate::machine::{Machine, PATIENCE, answers};

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Power cuts under load.
    pub cycles: u64,
    /// Of all that is drawn.
    pub seed: u64,
    /// Threads that wait for `fsync`.
    pub threads: u64,
    /// Milliseconds of load at most.
    pub longest: u64,
    /// Power cuts of the bare device before that.
    pub probes: u64,
    /// Only the sum at the end.
    pub quiet: bool,
}

/// What came of all cycles.
#[derive(Default, Debug)]
pub struct Total {
    /// Why nothing was done.
    pub skipped: Option<String>,
    /// Power cuts under load.
    pub cycles: u64,
    /// Operations that `fsync` acknowledged.
    pub acknowledged: u64,
    /// Files compared, in all cycles.
    pub files: u64,
    /// Promises broken.
    pub broken: u64,
    /// Operations under way that came out old, new, between.
    pub came: [u64; 3],
    /// Operations under way whose file shows blocks that lay there before.
    pub exposed: u64,
    /// Old names of renamed files that were there again beside the new ones.
    pub stale: u64,
    /// Operations that `fsync` acknowledged when the device had stopped answering, and that did not
    /// happen: not a promise of the device's.
    pub late: u64,
    /// Power cuts while the file system recovered.
    pub again: u64,
    /// Cycles after which the checker found nothing.
    pub clean: u64,
    /// Errors of the file system while the power was on.
    pub unexpected: u64,
    /// Blocks of the bare device written and not flushed before a cut, and those lost.
    pub unflushed: u64,
    /// Of them.
    pub unflushed_lost: u64,
    /// Blocks flushed before a cut, and those lost.
    pub flushed: u64,
    /// Of them.
    pub flushed_lost: u64,
}

/// Probes the bare device, makes the file system, and cuts.
///
/// # Errors
/// What keeps the run from going on; broken promises are counted, not errors.
pub fn run(machine: &mut Machine, plan: &Plan) -> Result<Total, String> {
    let mut total = Total::default();
    let mut rng = Rng::stream(plan.seed, machine.kind.name);
    for _ in 0..plan.probes {
        probe(machine, &mut rng, &mut total)?;
    }
    machine.attach()?;
    let atomic = machine.sector()?;
    if atomic < machine.kind.atomic {
        total.skipped = Some(format!(
            "it writes {} bytes in place and takes them for whole; the device may tear them at {atomic}",
            machine.kind.atomic
        ));
        return Ok(total);
    }
    let mut ledgers: Vec<Ledger> =
        (1..=plan.threads).map(|thread| Ledger::new(thread, atomic)).collect();
    machine.make()?;
    machine.mount(false)?;
    let folders = ledgers.iter().map(|l| l.folder.clone()).chain(["noise".to_string()]);
    for folder in folders {
        fs::create_dir(machine.mount.join(folder)).map_err(|e| e.to_string())?;
    }
    machine.sync()?;
    machine.unmount()?;
    for number in 1..=plan.cycles {
        let before = total.broken;
        cycle(machine, plan, &mut rng, &mut ledgers, &mut total)
            .map_err(|e| format!("cycle {number}: {e}"))?;
        total.cycles += 1;
        total.acknowledged = ledgers.iter().map(|ledger| ledger.acknowledged).sum();
        if !plan.quiet {
            let found = if total.broken == before { "nothing lost" } else { "BROKEN" };
            println!(
                "{} {number}: {} acknowledged, {found}",
                machine.kind.name, total.acknowledged
            );
        }
    }
    machine.detach()?;
    Ok(total)
}

/// Cuts the power under blocks of the bare device: half of them flushed before, half not.
fn probe(machine: &mut Machine, rng: &mut Rng, total: &mut Total) -> Result<(), String> {
    const BLOCKS: u64 = 16;
    let raw = |e: io::Error| format!("bare device: {e}");
    machine.attach()?;
    let version = rng.next_u64() >> 1;
    let stamp = |block: u64, version: u64| Stamp { file: 0, block, version };
    let wrote = machine.raw(|file, bytes| {
        for block in 0..2 * BLOCKS {
            stamp(block, version).fill(bytes);
            file.write_all_at(bytes, block * BLOCK as u64)?;
        }
        file.sync_all()?;
        // The upper half is written again and nobody asks for it to be durable.
        for block in BLOCKS..2 * BLOCKS {
            stamp(block, version + 1).fill(bytes);
            file.write_all_at(bytes, block * BLOCK as u64)?;
        }
        Ok(())
    });
    wrote.map_err(raw)?;
    power_off(machine)?;
    machine.power_on()?;
    let (mut flushed_lost, mut lost, mut garbage) = (0, 0, 0);
    let atomic = machine.sector()?;
    let read = machine.raw(|file, bytes| {
        let (mut old, mut new) = ([0; BLOCK], [0; BLOCK]);
        for block in 0..2 * BLOCKS {
            file.read_exact_at(bytes, block * BLOCK as u64)?;
            stamp(block, version).fill(&mut old);
            stamp(block, version + 1).fill(&mut new);
            if block < BLOCKS {
                flushed_lost += u64::from(bytes != old);
                continue;
            }
            lost += u64::from(bytes != new);
            let pieces = old.chunks(atomic).zip(new.chunks(atomic)).zip(bytes.chunks(atomic));
            garbage += u64::from(
                pieces.into_iter().any(|((old, new), piece)| piece != old && piece != new),
            );
        }
        Ok(())
    });
    read.map_err(raw)?;
    machine.detach()?;
    total.flushed += BLOCKS;
    total.flushed_lost += flushed_lost;
    total.unflushed += BLOCKS;
    total.unflushed_lost += lost;
    if garbage > 0 {
        println!("{garbage} blocks of the bare device are neither old nor new");
        total.broken += garbage;
    }
    Ok(())
}

/// Lets the power go now, and sees that it is gone.
fn power_off(machine: &mut Machine) -> Result<(), String> {
    if machine.answers() {
        machine.say("power-cut")?;
    }
    if machine.answers() { Err("the device answers without power".to_string()) } else { Ok(()) }
}

fn cycle(
    machine: &mut Machine,
    plan: &Plan,
    rng: &mut Rng,
    ledgers: &mut [Ledger],
    total: &mut Total,
) -> Result<(), String> {
    machine.mount(rng.ratio(1, 2))?;
    let (stop, going) = (AtomicBool::new(false), AtomicBool::new(false));
    let (mount, device) = (machine.mount.clone(), machine.device().to_path_buf());
    let mut seeds = Rng::new(rng.next_u64());
    let ended: Vec<Ended> = std::thread::scope(|scope| {
        let threads: Vec<_> = ledgers
            .iter_mut()
            .map(|ledger| {
                let mut rng = Rng::new(seeds.next_u64());
                let (mount, stop, going, device) = (&mount, &stop, &going, &device);
                let answers = move || answers(device);
                scope.spawn(move || work(ledger, mount, &mut rng, stop, going, answers))
            })
            .collect();
        let mut noise = Rng::new(seeds.next_u64());
        let (folder, until) = (&mount, &stop);
        scope.spawn(move || disturb(folder, &mut noise, until));
        let cut = cut_under_load(machine, plan, rng, &going);
        // They end by the error that they meet; who meets none ends here.
        std::thread::sleep(Duration::from_millis(20));
        stop.store(true, Ordering::SeqCst);
        let ended = threads.into_iter().map(|thread| thread.join());
        let ended: Result<Vec<_>, _> = ended.collect();
        cut.and(ended.map_err(|_| "a thread panicked".to_string()))
    })?;
    for one in ended.iter().filter(|one| !one.expected) {
        total.unexpected += 1;
        println!("an error while the power was on: {:?}", one.error);
    }
    machine.unmount()?;
    machine.power_on()?;
    if rng.ratio(1, 4) {
        cut_in_recovery(machine, rng, total)?;
    }
    machine.mount(false)?;
    for ledger in ledgers.iter_mut() {
        let verdict = ledger.verify(&machine.mount).map_err(|e| format!("compare: {e}"))?;
        total.files += verdict.files;
        total.broken += verdict.broken.len() as u64;
        for what in verdict.broken {
            println!("BROKEN: {what}");
        }
        total.stale += verdict.stale.len() as u64;
        for what in verdict.stale {
            println!("STALE: {what}");
        }
        if verdict.late {
            println!(
                "LATE: {}: fsync said yes without the device, and it did not happen",
                ledger.folder
            );
            total.late += 1;
        }
        match verdict.came {
            None => {}
            Some(Came::Old) => total.came[0] += 1,
            Some(Came::New) => total.came[1] += 1,
            Some(Came::Between) => total.came[2] += 1,
            Some(Came::Exposed(block, stamp)) => {
                println!("EXPOSED: {}: block {block} under way holds {stamp:?}", ledger.folder);
                total.came[2] += 1;
                total.exposed += 1;
            }
        }
    }
    machine.sync()?;
    machine.unmount()?;
    match machine.check() {
        Ok(()) => total.clean += 1,
        Err(e) => println!("CHECKER: {e}"),
    }
    Ok(())
}

/// The power goes after a while: now, at the next flush, or some operations later.
fn cut_under_load(
    machine: &mut Machine,
    plan: &Plan,
    rng: &mut Rng,
    going: &AtomicBool,
) -> Result<(), String> {
    std::thread::sleep(Duration::from_millis(rng.between(plan.longest / 8, plan.longest)));
    let how = rng.below(3);
    let operations = rng.between(1, 200);
    going.store(true, Ordering::SeqCst);
    match how {
        0 => machine.say("power-cut").map(|_| ())?,
        1 => machine.say("power-cut --at next-flush").map(|_| ())?,
        _ => later(machine, operations)?,
    }
    let until = Instant::now() + PATIENCE;
    while machine.answers() {
        if Instant::now() > until {
            // Nobody flushed, or all threads are done: then now.
            return power_off(machine);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Lets the power go some operations later. Work goes on meanwhile, so that the number may be over
/// before it is told; then a higher one, or now.
fn later(machine: &mut Machine, mut operations: u64) -> Result<(), String> {
    for _ in 0..4 {
        let report = machine.say("report")?;
        let now = number(&report, "operations");
        let now = now.ok_or_else(|| format!("no operations in: {report}"))?;
        match machine.say(&format!("power-cut --at op:{}", now + operations)) {
            Ok(_) => return Ok(()),
            Err(e) if e.contains("is over") => operations = operations * 2 + 32,
            Err(e) => return Err(e),
        }
    }
    machine.say("power-cut").map(|_| ())
}

/// The number behind a name in a line of JSON.
fn number(text: &str, name: &str) -> Option<u64> {
    let (_, rest) = text.split_once(&format!("\"{name}\""))?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

/// The power goes again while the file system replays its log.
fn cut_in_recovery(machine: &mut Machine, rng: &mut Rng, total: &mut Total) -> Result<(), String> {
    later(machine, rng.between(1, 40))?;
    // It may come up before the power goes, or not at all: both are fine.
    let mounted = machine.mount(false).is_ok();
    total.again += u64::from(!machine.answers());
    power_off(machine)?;
    if mounted {
        machine.unmount()?;
    }
    machine.power_on()
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_are_found_by_their_name() {
        let text = r#"{"on": true, "operations": 1234, "cuts":7}"#;
        assert_eq!(number(text, "operations"), Some(1234));
        assert_eq!(number(text, "cuts"), Some(7));
        assert_eq!(number(text, "on"), None);
        assert_eq!(number(text, "lost"), None);
    }
}
