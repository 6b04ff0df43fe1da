//! States beside a naive twin that keeps bytes and looks at every record for every state; with each planted
//! bug the two must differ.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{Plant, Rng};
use stack::datalog::{Entry, Log, Op, Writer};
use stack::disk::Disk;
use varve_torture::cuts::{From, choose};
use varve_torture::history::History;
use varve_torture::overlay::StateDisk;
use varve_torture::states::{Builder, Cut, Left, Planted, States};

const SIZE: u64 = 64 << 10;
const SECTORS: usize = (SIZE / 512) as usize;

/// A change, as the twin knows it.
#[derive(Clone, Debug)]
enum Did {
    Change { fua: bool, first: usize, values: Vec<u8> },
    Begin,
    End(usize),
    Promise(String),
}

fn draw(seed: u64) -> (History, Vec<Did>) {
    let mut rng = Rng::stream(seed, "states");
    let mut writer = Writer::new(Vec::new(), SIZE, "drawn").unwrap();
    let (mut all, mut open): (Vec<Did>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut entry = |op, fua, at, bytes, data: &[u8]| {
        writer.push(&Entry { op, fua, ours: false, ns: 0, at, bytes, data }).unwrap();
    };
    for number in 0..rng.between(10, 60) {
        match rng.below(10) {
            0..=4 => {
                let (first, count) = (rng.below(120), rng.between(1, 8));
                let value = (number % 250) as u8 + 1;
                let fua = rng.ratio(1, 5);
                let data = vec![value; count as usize * 512];
                entry(Op::Write, fua, first * 512, count * 512, &data);
                all.push(Did::Change {
                    fua,
                    first: first as usize,
                    values: vec![value; count as usize],
                });
            }
            5 => {
                let (first, count) = (rng.below(15) * 8, 8);
                let fua = rng.ratio(1, 5);
                let op = if rng.ratio(2, 3) { Op::Trim } else { Op::Zero };
                entry(op, fua, first * 512, count * 512, &[]);
                all.push(Did::Change {
                    fua,
                    first: first as usize,
                    values: vec![0; count as usize],
                });
            }
            6 => {
                entry(Op::FlushBegin, false, 0, 0, &[]);
                open.push(all.len());
                all.push(Did::Begin);
            }
            7 | 8 if !open.is_empty() => {
                let began = open.swap_remove(rng.below(open.len() as u64) as usize);
                entry(Op::FlushEnd, false, began as u64, 0, &[]);
                all.push(Did::End(began));
            }
            _ => {
                entry(Op::Mark, false, 0, 0, format!("p{number}").as_bytes());
                all.push(Did::Promise(format!("p{number}")));
            }
        }
    }
    let log = Log::read(writer.finish().unwrap()).unwrap();
    (History::new(log).unwrap(), all)
}

type Drive = [u8; SECTORS];
/// What a pending change of a block wrote: sector and value.
type Versions = BTreeMap<u64, Vec<Vec<(usize, u8)>>>;

fn twin(all: &[Did], at: usize, atomic: usize) -> (Drive, Versions, Vec<String>) {
    let durable = |number: usize, fua: bool| {
        fua || all[..at].iter().any(|did| matches!(did, Did::End(began) if *began > number))
    };
    let (mut drive, mut newest) = ([0; SECTORS], [None; SECTORS]);
    let mut promised = Vec::new();
    for (number, did) in all[..at].iter().enumerate() {
        match did {
            Did::Change { fua, first, values } if durable(number, *fua) => {
                for (i, value) in values.iter().enumerate() {
                    (drive[first + i], newest[first + i]) = (*value, Some(number));
                }
            }
            Did::Promise(what) => promised.push(what.clone()),
            _ => {}
        }
    }
    let mut versions = Versions::new();
    for (number, did) in all[..=at.min(all.len() - 1)].iter().enumerate() {
        let Did::Change { fua, first, values } = did else { continue };
        // What comes next may have been begun: what is forced is in parts then.
        let begun = number == at;
        if begun && !fua || !begun && durable(number, *fua) {
            continue;
        }
        let mut blocks: BTreeMap<u64, Vec<(usize, u8)>> = BTreeMap::new();
        for (i, value) in values.iter().enumerate() {
            if newest[first + i].is_none_or(|newest| newest < number) {
                let block = ((first + i) * 512 / atomic) as u64;
                blocks.entry(block).or_default().push((first + i, *value));
            }
        }
        if begun && blocks.len() < 2 {
            continue;
        }
        for (block, wrote) in blocks {
            versions.entry(block).or_default().push(wrote);
        }
    }
    (drive, versions, promised)
}

fn drive_of(history: &History, sectors: &[u32]) -> Drive {
    std::array::from_fn(|i| history.sector(sectors[i]).map_or(0, |bytes| bytes[7]))
}

/// The first thing in which a builder and the twin differ.
fn differs(seed: u64, bug: Plant<Planted>) -> Option<String> {
    let (history, all) = draw(seed);
    for atomic in [512, 4096] {
        let mut builder = Builder::with(&history, atomic, bug);
        for at in 0..=all.len() {
            builder.forward(at);
            let (drive, versions, promised) = twin(&all, at, atomic as usize);
            if builder.promised() != promised {
                return Some(format!("{seed}: {at}: promises"));
            }
            if drive_of(&history, &builder.state(&Left::Worst).sectors) != drive {
                return Some(format!("{seed}: {at}: what is durable"));
            }
            let pending: BTreeMap<u64, u32> = builder.pending().collect();
            let expected: BTreeMap<u64, u32> =
                versions.iter().map(|(block, all)| (*block, all.len() as u32)).collect();
            if pending != expected {
                return Some(format!("{seed}: {at}: what is pending"));
            }
            let mut rng = Rng::stream(seed, "keep");
            let keep: Vec<(u64, u32)> =
                pending.iter().map(|(b, n)| (*b, rng.between(0, u64::from(*n)) as u32)).collect();
            let mut kept = drive;
            for (block, count) in &keep {
                for (sector, value) in versions[block][..*count as usize].iter().flatten() {
                    kept[*sector] = *value;
                }
            }
            if drive_of(&history, &builder.state(&Left::Keep(keep)).sectors) != kept {
                return Some(format!("{seed}: {at}: what survives"));
            }
        }
    }
    None
}

#[test]
fn a_state_is_what_the_naive_twin_says() {
    for seed in 0..150 {
        assert_eq!(differs(seed, Plant::default()), None);
    }
}

#[test]
fn every_planted_bug_is_caught() {
    for bug in Planted::ALL {
        let caught = (0..150).find_map(|seed| differs(seed, bug.into()));
        assert!(caught.is_some(), "{bug:?}: not caught");
    }
}

#[test]
fn a_hash_is_that_of_the_bytes_however_they_came() {
    let mut seen: BTreeMap<u128, Drive> = BTreeMap::new();
    let (history, all) = draw(3);
    let mut states = States::new(&history, 512);
    for at in (0..=all.len()).chain((0..=all.len()).rev().step_by(3)) {
        for left in [Left::Worst, Left::All, Left::Seed(at as u64), Left::Lying(at / 2)] {
            let state = states.at(&Cut { at, left }).state;
            let drive = drive_of(&history, &state.sectors);
            let known = *seen.entry(state.hash.0).or_insert(drive);
            assert!(known == drive, "one hash of two drives");
        }
    }
    let drives: std::collections::BTreeSet<&Drive> = seen.values().collect();
    assert_eq!(drives.len(), seen.len(), "two hashes of one drive");
    assert!(seen.len() > 10);
}

#[test]
fn the_worst_cases_are_all_there_are() {
    for seed in 0..60 {
        let (history, all) = draw(seed);
        let cuts = choose(&history, 4096, From::Init, true, 0, 1);
        let mut states = States::new(&history, 4096);
        let chosen: Vec<(u128, usize)> = cuts
            .worst
            .iter()
            .map(|cut| {
                let moment = states.at(cut);
                (moment.state.hash.0, moment.promised.len())
            })
            .collect();
        for at in 0..=all.len() {
            let moment = states.at(&Cut { at, left: Left::Worst });
            let covered = chosen.iter().any(|(hash, promised)| {
                *hash == moment.state.hash.0 && *promised >= moment.promised.len()
            });
            assert!(covered, "{seed}: a cut before {at} leaves what no worst case has");
        }
    }
}

/// A drive of one forced write of so many blocks, before which nothing happened.
fn forced(blocks: usize) -> History {
    let mut writer = Writer::new(Vec::new(), SIZE, "forced").unwrap();
    let data = vec![7; blocks * 4096];
    let (bytes, fua, ours, ns, at) = (data.len() as u64, true, false, 0, 4096);
    writer.push(&Entry { op: Op::Write, fua, ours, ns, at, bytes, data: &data }).unwrap();
    History::new(Log::read(writer.finish().unwrap()).unwrap()).unwrap()
}

#[test]
fn a_forced_write_of_several_blocks_is_cut_within() {
    let kept = |history: &History, left: Left| -> Vec<bool> {
        let drive =
            drive_of(history, &States::new(history, 4096).at(&Cut { at: 0, left }).state.sectors);
        (1..5).map(|block| drive[block * 8] == 7).collect()
    };
    let history = forced(4);
    let found: std::collections::BTreeSet<Vec<bool>> =
        (0..200).map(|seed| kept(&history, Left::Seed(seed))).collect();
    assert_eq!(found.len(), 16, "each block by itself");
    // The worst cases: nothing, every other block, all.
    let cuts = choose(&history, 4096, From::Init, true, 0, 1);
    let mut states = States::new(&history, 4096);
    let worst: Vec<Vec<bool>> = cuts
        .worst
        .iter()
        .map(|cut| {
            let drive = drive_of(&history, &states.at(cut).state.sectors);
            (1..5).map(|block| drive[block * 8] == 7).collect()
        })
        .collect();
    let (on, off) = (true, false);
    assert_eq!(worst, [[off; 4], [on, off, on, off], [off, on, off, on], [on; 4]]);
    assert!(cuts.pending);
    // One block is there or not.
    let one = forced(1);
    let cuts = choose(&one, 4096, From::Init, true, 100, 1);
    assert_eq!((cuts.worst.len(), cuts.drawn.len(), cuts.pending), (2, 0, false));
}

#[test]
fn without_worst_cases_what_equals_one_is_drawn() {
    let history = forced(1);
    let drawn = choose(&history, 4096, From::Init, false, 50, 1);
    assert_eq!((drawn.worst.len(), drawn.drawn.len()), (0, 2));
}

#[test]
fn choosing_twice_is_choosing_the_same() {
    let (history, _) = draw(5);
    let one = choose(&history, 512, From::Init, true, 50, 7);
    assert_eq!(one, choose(&history, 512, From::Init, true, 50, 7));
    assert_ne!(one.drawn, choose(&history, 512, From::Init, true, 50, 8).drawn);
    let mut states = States::new(&history, 512);
    for (cut, hash) in one.all().zip(&one.hashes) {
        assert_eq!(states.at(cut).state.hash, *hash);
    }
}

#[test]
fn the_drive_of_a_state_keeps_what_is_written_apart() {
    let (history, all) = draw(9);
    let history = Arc::new(history);
    let disk = StateDisk::new(Arc::clone(&history), 4096);
    let mut states = States::new(&history, 4096);
    let mut read = vec![0; SIZE as usize];
    for at in [all.len(), all.len() / 2] {
        let state = states.at(&Cut { at, left: Left::All }).state;
        disk.put(state.sectors.clone());
        disk.read(0, &mut read).unwrap().wait().unwrap();
        let before = drive_of(&history, &state.sectors);
        assert!((0..SECTORS).all(|i| read[i * 512 + 7] == before[i]));
        disk.write(1000, &[0xEE; 9000], false).unwrap().wait().unwrap();
        disk.zero(1100, 50, false, false).unwrap().wait().unwrap();
        disk.trim(4000, 5000, false).unwrap().wait().unwrap();
        let mut expected = read.clone();
        expected[1000..10_000].fill(0xEE);
        expected[1100..1150].fill(0);
        expected[4096..8192].fill(0);
        disk.read(0, &mut read).unwrap().wait().unwrap();
        assert!(read == expected);
        assert!(disk.write(SIZE - 1, &[1; 2], false).is_err());
        disk.put(state.sectors.clone());
        disk.read(0, &mut read).unwrap().wait().unwrap();
        assert!((0..SECTORS).all(|i| read[i * 512 + 7] == before[i]), "what was written is gone");
    }
}
