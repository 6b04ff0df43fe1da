//! The power below a medium: what is not synced is held back, and a cut leaves of each sector what it was, or
//! any version since; nothing works after that.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use block::{Medium, Rng};
use common::Memory;
use varve_live::CutMedium;

const SECTOR: usize = 512;
const SECTORS: usize = 64;

/// All that a sector may hold after a cut, the newest last, and what it holds now.
struct Model {
    versions: Vec<Vec<[u8; SECTOR]>>,
}

impl Model {
    fn bytes(&self) -> Vec<u8> {
        self.versions.iter().flat_map(|all| *all.last().unwrap()).collect()
    }
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let mut now = self.bytes();
        now[at..at + bytes.len()].copy_from_slice(bytes);
        for sector in at / SECTOR..(at + bytes.len()).div_ceil(SECTOR) {
            let version = now[sector * SECTOR..][..SECTOR].try_into().unwrap();
            self.versions[sector].push(version);
        }
    }
    /// What was written there is durable, and nothing else.
    fn settle(&mut self, at: usize, len: usize) {
        for all in &mut self.versions[at / SECTOR..(at + len).div_ceil(SECTOR)] {
            all.drain(..all.len() - 1);
        }
    }
    fn sync(&mut self) {
        self.versions.iter_mut().for_each(|all| drop(all.drain(..all.len() - 1)));
    }
}

#[test]
fn a_cut_leaves_of_each_sector_one_of_its_versions() {
    let (mut kinds, mut of_many) = (BTreeSet::new(), [0; 2]);
    for seed in 0..200 {
        let (below, mut rng) = (Arc::new(Memory::default()), Rng::stream(seed, "medium"));
        below.write(0, &[0; SECTORS * SECTOR]).unwrap();
        let medium = CutMedium::new(below.clone(), seed);
        let mut model = Model { versions: vec![vec![[0; SECTOR]]; SECTORS] };
        let (cut_at, at_sync) = (rng.between(1, 40), rng.ratio(1, 3));
        match at_sync {
            true => medium.cut_at_sync(),
            false => medium.cut_after(cut_at),
        }
        let mut calls = 0;
        let left = loop {
            calls += 1;
            let at = rng.below((SECTORS * SECTOR - 1) as u64) as usize;
            let len = (rng.between(1, 1_500) as usize).min(SECTORS * SECTOR - at);
            let kind = rng.below(14);
            let bytes = vec![if kind == 1 { 0 } else { rng.next_u64() as u8 | 1 }; len];
            let done = match kind {
                0 => medium.sync(),
                1 => medium.discard(at as u64, len as u64),
                2 | 3 => medium.write_durable(at as u64, &bytes),
                _ => medium.write(at as u64, &bytes),
            };
            // A durable write is two calls: the power may go with the second.
            let second = matches!(kind, 2 | 3) && medium.operations() > calls;
            calls += u64::from(second);
            if second && done.is_err() {
                model.write(at, &bytes);
            }
            if done.is_err() {
                break medium.left().expect("the power is off");
            }
            assert!(medium.left().is_none() && medium.operations() == calls);
            match kind {
                0 => model.sync(),
                _ => model.write(at, &bytes),
            }
            if second {
                model.settle(at, len);
            }
            let mut out = vec![0xEE; 700];
            let from = rng.below((SECTORS * SECTOR - 700) as u64) as usize;
            medium.read(from as u64, &mut out).unwrap();
            assert!(
                out == model.bytes()[from..from + 700],
                "seed {seed}: what was written is read"
            );
        };
        assert_eq!(medium.operations(), calls);
        assert!(at_sync || calls == cut_at, "seed {seed}: at the operation that was asked for");
        let mut found = vec![0; SECTORS * SECTOR];
        below.read(0, &mut found).unwrap();
        let (mut pending, mut lost) = (0, 0);
        for (sector, all) in found.chunks(SECTOR).zip(&model.versions) {
            assert!(all.iter().any(|version| version == sector), "seed {seed}: of no version");
            pending += u64::from(all.len() > 1);
            lost += u64::from(all.len() > 1 && sector == all[0]);
        }
        assert_eq!((left.operation, left.pending), (calls, pending), "seed {seed}");
        // Of two versions that are equal nobody can say which it is.
        assert!(left.lost <= lost, "seed {seed}: {} of {lost}", left.lost);
        kinds.insert((left.lost == 0, left.lost == pending));
        if pending > 8 {
            of_many[0] += u32::from(left.lost == pending);
            of_many[1] += u32::from(left.lost == 0);
        }
        // Off is off.
        assert!(medium.read(0, &mut [0; 8]).is_err() && medium.data_from(0).is_err());
        assert!(medium.write(0, &[1]).is_err() && medium.sync().is_err());
        assert!(medium.discard(0, 512).is_err());
        medium.cut_now().unwrap();
        assert_eq!((medium.operations(), medium.left()), (calls, Some(left)));
        let mut still = vec![0; SECTORS * SECTOR];
        below.read(0, &mut still).unwrap();
        assert!(still == found, "seed {seed}: what was left stays");
    }
    assert!(kinds.len() >= 3, "all, nothing and some of it: {kinds:?}");
    assert!(of_many.iter().all(|n| *n > 10), "nothing, or all, of many sectors: {of_many:?}");
}

#[test]
fn a_cut_now_is_an_operation_and_what_was_synced_stays() {
    let below = Arc::new(Memory::default());
    let medium = CutMedium::new(below.clone(), 3);
    medium.write(0, &[5; 1024]).unwrap();
    medium.sync().unwrap();
    medium.write(512, &[6; 512]).unwrap();
    medium.cut_now().unwrap();
    let left = medium.left().unwrap();
    assert_eq!((left.operation, left.pending), (4, 1));
    let mut out = [0; 1024];
    below.read(0, &mut out).unwrap();
    assert!(out[..512] == [5; 512] && (out[512..] == [5; 512] || out[512..] == [6; 512]));
}

/// What is beyond the memory it may take reaches the medium, as it would in any drive.
#[test]
fn what_is_held_back_is_bounded() {
    let below = Arc::new(Memory::default());
    let medium = CutMedium::bounded(below.clone(), 3, 10 * (SECTOR + 64));
    let there = |below: &Memory| below.0.lock().unwrap().iter().filter(|byte| **byte == 7).count();
    for sector in 0..10 {
        medium.write(sector * SECTOR as u64, &[7; SECTOR]).unwrap();
        assert_eq!(there(&below), 0, "{sector}");
    }
    medium.write(10 * SECTOR as u64, &[7; SECTOR]).unwrap();
    assert_eq!(there(&below), 11 * SECTOR);
    medium.write(0, &[8; SECTOR]).unwrap();
    assert_eq!(there(&below), 11 * SECTOR, "it begins anew");
    medium.cut_now().unwrap();
    assert_eq!(medium.left().unwrap().pending, 1);
}

/// A medium that holds something in one place.
#[derive(Debug)]
struct Sparse(std::ops::Range<u64>);

impl Medium for Sparse {
    fn read(&self, _: u64, out: &mut [u8]) -> std::io::Result<()> {
        out.fill(0);
        Ok(())
    }
    fn write(&self, _: u64, _: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
    fn sync(&self) -> std::io::Result<()> {
        Ok(())
    }
    fn size(&self) -> std::io::Result<u64> {
        Ok(1 << 20)
    }
    fn discard_is_fast(&self) -> bool {
        true
    }
    fn data_from(&self, at: u64) -> std::io::Result<Option<std::ops::Range<u64>>> {
        Ok((at < self.0.end).then(|| self.0.start.max(at)..self.0.end))
    }
}

/// Where there is data: what the medium has, or what is held back before or behind it.
#[test]
fn data_that_is_held_back_is_data() {
    let medium = CutMedium::new(Arc::new(Sparse(4_096..8_192)), 3);
    let from = |at: u64| medium.data_from(at).unwrap();
    assert_eq!((from(0), from(5_000), from(8_192)), (Some(4_096..8_192), Some(5_000..8_192), None));
    medium.write(600, &[1; 10]).unwrap();
    medium.write(20_000, &[1; 10]).unwrap();
    assert_eq!((from(0), from(700)), (Some(512..1_024), Some(700..1_024)));
    assert_eq!((from(1_024), from(8_192)), (Some(4_096..8_192), Some(19_968..20_480)));
    assert_eq!(from(20_480), None);
    medium.sync().unwrap();
    assert_eq!(from(0), Some(4_096..8_192), "the medium has it now");
    assert_eq!((medium.size().unwrap(), medium.discard_is_fast()), (1 << 20, true));
}

#[test]
fn a_durable_write_makes_nothing_else_durable() {
    let mut others = BTreeSet::new();
    for seed in 0..40 {
        let below = Arc::new(Memory::default());
        let medium = CutMedium::new(below.clone(), seed);
        medium.write(0, &[1; 4096]).unwrap();
        medium.sync().unwrap();
        medium.write(0, &[2; 512]).unwrap();
        medium.write(2048, &[2; 512]).unwrap();
        medium.write_durable(1000, &[3; 600]).unwrap();
        medium.cut_now().unwrap();
        let mut found = [0; 4096];
        below.read(0, &mut found).unwrap();
        assert!(found[1000..1600] == [3; 600] && found[1600..2048] == [1; 448], "{seed}");
        others.insert((found[0], found[2048]));
    }
    assert_eq!(others.len(), 4, "what was written before is drawn: {others:?}");
}

#[test]
fn a_long_discard_is_pending_as_any_write_is() {
    const BYTES: usize = 4 << 20;
    let (from, len) = (100, 3 << 20);
    let mut kinds = BTreeSet::new();
    for seed in 0..40 {
        let below = Arc::new(Memory::default());
        let medium = CutMedium::new(below.clone(), seed);
        medium.write(0, &vec![1; BYTES]).unwrap();
        medium.sync().unwrap();
        let there = || below.0.lock().unwrap().clone();
        let before = there();
        medium.write(8192, &[2; 512]).unwrap();
        medium.discard(from as u64, len as u64).unwrap();
        medium.write(16384, &[3; 512]).unwrap();
        medium.write(20_000, &[4; 8]).unwrap();
        assert!(there() == before, "nothing reaches the medium");
        let mut now = vec![0; BYTES];
        medium.read(0, &mut now).unwrap();
        let mut expected = vec![1; BYTES];
        expected[from..from + len].fill(0);
        expected[16384..16896].fill(3);
        expected[20_000..20_008].fill(4);
        assert!(now == expected, "what was discarded reads as zeroes");
        let mut tail = [9; 1024];
        medium.read((from + len - 512) as u64, &mut tail).unwrap();
        assert!(tail[..512] == [0; 512] && tail[512..] == [1; 512]);
        if seed == 0 {
            medium.write_durable(32_768, &[5; 512]).unwrap();
            assert_eq!(there()[32_768..33_280], [5; 512]);
            medium.sync().unwrap();
            expected[32_768..33_280].fill(5);
            assert!(there() == expected);
            continue;
        }
        medium.cut_now().unwrap();
        let left = medium.left().unwrap();
        assert_eq!(left.pending, ((from + len).div_ceil(SECTOR) - from / SECTOR) as u64);
        let found = there();
        for (number, sector) in found.chunks(SECTOR).enumerate() {
            let at = number * SECTOR;
            let is = |range: std::ops::Range<usize>| sector == &expected[range];
            let old = sector.iter().all(|byte| *byte == 1);
            let zero = sector.iter().all(|byte| *byte == 0);
            let two = at == 8192 && sector == [2; SECTOR];
            assert!(old || zero || two || is(at..at + SECTOR), "{seed}: at {at}");
        }
        let zeroes = found[4096 * 16..len].iter().filter(|byte| **byte == 0).count();
        kinds.insert((zeroes == 0, zeroes == len - 4096 * 16));
        assert!(left.lost < left.pending || found == before, "{seed}: all of it is lost");
    }
    assert_eq!(kinds.len(), 3, "all of it, nothing, and some: {kinds:?}");
}

/// Memory that counts the bytes that are written to it.
#[derive(Default, Debug)]
struct Counted(Memory, AtomicUsize);

impl Medium for Counted {
    fn read(&self, at: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read(at, out)
    }
    fn write(&self, at: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.1.fetch_add(bytes.len(), Ordering::Relaxed);
        self.0.write(at, bytes)
    }
    fn sync(&self) -> std::io::Result<()> {
        self.0.sync()
    }
    fn size(&self) -> std::io::Result<u64> {
        self.0.size()
    }
    fn discard(&self, at: u64, bytes: u64) -> std::io::Result<()> {
        self.0.discard(at, bytes)
    }
}

/// The medium has a hole afterwards, as it would have without the cut between.
#[test]
fn what_was_written_and_then_discarded_is_discarded_below() {
    const BYTES: usize = 4 << 20;
    let below = Arc::new(Counted::default());
    below.0.write(0, &vec![1; BYTES]).unwrap();
    let medium = CutMedium::new(below.clone(), 1);
    medium.write(0, &vec![2; BYTES]).unwrap();
    medium.discard(0, BYTES as u64).unwrap();
    medium.write(8192, &[3; 512]).unwrap();
    medium.sync().unwrap();
    assert_eq!(below.1.load(Ordering::Relaxed), 512, "one sector was written since");
    let mut found = vec![9; BYTES];
    below.read(0, &mut found).unwrap();
    assert!(
        found[8192..8704] == [3; 512] && found.iter().filter(|byte| **byte == 3).count() == 512
    );
    assert!(found.iter().all(|byte| [0, 3].contains(byte)));
}
