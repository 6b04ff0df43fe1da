//! The rules of transactions without logging as an abstract machine: no lines, no time, no
//! buffer, nothing of the drive. It says which rules are needed at all. Each rule set but the whole
//! ones drops or breaks one rule, and must fail; the whole ones must not.
//!
//! The power is cut at every program and erase of short random workloads, and twice more after each
//! mount.

mod machine;

use std::collections::{BTreeMap, BTreeSet};

use block::Rng;
use machine::Rule::*;
use machine::{Ftl, LPNS, Rule, Stop};

/// What the host may find: per page the values possible, the last one now.
type Truth = BTreeMap<u32, Vec<u64>>;

fn work(
    ftl: &mut Ftl,
    rng: &mut Rng,
    truth: &mut Truth,
    pending: &mut BTreeMap<u32, u64>,
) -> Result<(), Stop> {
    let mut txs: BTreeMap<u64, (Vec<u32>, BTreeMap<u32, u64>)> = BTreeMap::new();
    let settle = |truth: &mut Truth, pending: &mut BTreeMap<u32, u64>| {
        truth.extend(std::mem::take(pending).into_iter().map(|(l, v)| (l, vec![v])));
    };
    for _ in 0..80 {
        let a = rng.below(100);
        let used: BTreeSet<u32> = txs.values().flat_map(|t| t.0.iter().copied()).collect();
        let loose: Vec<u32> = (0..LPNS).filter(|l| !used.contains(l)).collect();
        let tids: Vec<u64> = txs.keys().copied().collect();
        let val = 1 + rng.below(1 << 40);
        match a {
            0..15 if txs.len() < 3 && loose.len() > 6 => {
                let first = rng.below(loose.len() as u64 - 1) as usize;
                txs.insert(ftl.begin(), (loose[first..first + 2].to_vec(), BTreeMap::new()));
            }
            0..60 if !txs.is_empty() => {
                let tid = *rng.pick(&tids);
                let (lpns, written) = txs.get_mut(&tid).expect("open");
                let (lpn, val) = (*rng.pick(lpns), if rng.ratio(9, 10) { val } else { 0 });
                ftl.write(tid, lpn, val, written.len() == 1)?;
                written.insert(lpn, val);
            }
            60..64 if txs.len() > 1 => {
                let both = [tids[0], tids[1]];
                both.iter().for_each(|t| pending.extend(txs.remove(t).expect("open").1));
                ftl.commit_many(&both)?;
                settle(truth, pending);
            }
            64..74 if !txs.is_empty() => {
                let tid = *rng.pick(&tids);
                let written = txs.remove(&tid).expect("open").1;
                if rng.ratio(1, 5) {
                    ftl.abort(tid);
                } else {
                    pending.extend(written);
                    ftl.commit(tid)?;
                    settle(truth, pending);
                }
            }
            74..92 if !loose.is_empty() => {
                let (lpn, val) = (*rng.pick(&loose), if rng.ratio(4, 5) { val } else { 0 });
                truth.entry(lpn).or_insert_with(|| vec![0]).push(val);
                ftl.plain(lpn, val)?;
            }
            92..95 => {
                ftl.wait(|_| true)?;
                truth.values_mut().for_each(|v| drop(v.drain(..v.len() - 1)));
            }
            _ if ftl.is_busy() => ftl.complete_one()?,
            _ => {}
        }
        let last = |l: &u32| truth.get(l).and_then(|v| v.last()).copied().unwrap_or(0);
        if (0..LPNS).any(|l| ftl.read(l) != last(&l)) {
            return Err(Stop::Wrong);
        }
    }
    ftl.wait(|_| true)?;
    truth.values_mut().for_each(|v| drop(v.drain(..v.len() - 1)));
    Ok(())
}

/// One workload cut at operation `cut` (0: never), then twice more; operations of the first.
fn trial(seed: u64, rule: Rule, cut: u64, blocks: usize) -> (Result<(), Stop>, u64) {
    let mut rng = Rng::new(seed);
    let mut ftl = Ftl::new(rule, seed + 1_000_003, blocks);
    let (mut truth, mut first) = (Truth::new(), 0);
    for n in 0..3 {
        ftl.ops = 0;
        ftl.cut_at = if n == 0 || cut == 0 { cut } else { 1 + rng.below(60) };
        let mut pending = BTreeMap::new();
        let result = work(&mut ftl, &mut rng, &mut truth, &mut pending);
        first = if n == 0 { ftl.ops } else { first };
        match result {
            Err(Stop::Cut) | Ok(()) => {}
            Err(stop) => return (Err(stop), first),
        }
        if cut == 0 {
            return (Ok(()), first);
        }
        ftl.power_cut();
        if pending.iter().all(|(l, v)| ftl.read(*l) == *v) {
            truth.extend(pending.into_iter().map(|(l, v)| (l, vec![v])));
        }
        for lpn in 0..LPNS {
            let seen = ftl.read(lpn);
            if !truth.get(&lpn).map_or(&[0][..], Vec::as_slice).contains(&seen) {
                return (Err(Stop::Wrong), first);
            }
            truth.insert(lpn, vec![seen]);
        }
    }
    (Ok(()), first)
}

/// Right, wrong and full of all cuts.
fn verdict(rule: Rule, workloads: u64, blocks: usize) -> (u64, u64, u64) {
    let (mut right, mut wrong, mut full) = (0, 0, 0);
    for seed in 0..workloads {
        let (_, ops) = trial(seed, rule, 0, blocks);
        for cut in 1..=ops {
            match trial(seed, rule, cut, blocks).0 {
                Ok(()) => right += 1,
                Err(Stop::NoSpace) => full += 1,
                Err(_) => wrong += 1,
            }
        }
    }
    (right, wrong, full)
}

#[test]
fn the_whole_rules_survive_every_cut() {
    for rule in [Whole, Counted, LocksIgnored] {
        for blocks in [20, 14] {
            let (right, wrong, full) = verdict(rule, 30, blocks);
            println!("{rule:?}, {blocks} blocks: {right} right, {wrong} wrong, {full} full");
            assert!(right > 700 && wrong == 0 && full == 0, "{rule:?}: {wrong}, {full}");
        }
    }
    let (right, wrong, full) = verdict(LocksHard, 30, 14);
    println!("LocksHard: {right} right, {wrong} wrong, {full} full");
    assert_eq!(wrong, 0, "locks cost space, never data");
}

#[test]
fn every_rule_is_needed() {
    for rule in [
        NoSeq,
        FreshSeq,
        EndEarly,
        NoBarrier,
        NoState,
        StateLate,
        NoLosers,
        FloorNext,
        TidRestart,
        EarlyReuse,
        EraseEarly,
        CountedWeak,
        CountedAny,
        ManyEarly,
        ManyApart,
    ] {
        let (mut right, mut wrong) = (0, 0);
        for blocks in [20, 14] {
            let (r, w, _) = verdict(rule, 30, blocks);
            (right, wrong) = (right + r, wrong + w);
        }
        println!("{rule:?}: {right} right, {wrong} wrong");
        assert!(wrong > 0, "{rule:?} is not missed");
    }
}
