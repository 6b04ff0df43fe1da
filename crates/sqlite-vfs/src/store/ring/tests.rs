//! What a scan finds of what was appended, and of what a power cut or damage left of that.

use block::Rng;

use super::*;
use crate::store::record::{Body, Packer};

const BYTES: usize = 64 << 10;

/// A commit with so many bytes of changes.
fn draft(seed: u64, bytes: usize, grain: Grain) -> Draft {
    let mut rng = Rng::new(seed);
    let mut body = Body::default();
    let old = vec![0; PAGE];
    for (page, left) in (0..bytes.div_ceil(1_000)).zip((0..=bytes).rev().step_by(1_000)) {
        let mut new = old.clone();
        new[7..7 + left.min(1_000)].fill_with(|| rng.below(255) as u8 + 1);
        body.page(3, page as u32, Some(&old), &new);
    }
    body.meta(3, &[seed as u8 + 1; 40]);
    body.finish(grain, &mut Packer::default())
}

/// A ring with commits in it: the bytes, and what it knows.
fn filled(grain: Grain, commits: &[(u64, usize)]) -> (Vec<u8>, Ring) {
    let (mut log, mut ring) = (vec![0; BYTES], Ring::found(77, 4, BYTES as u64, grain));
    ring.begin();
    for (seed, bytes) in commits {
        let settled = ring.records();
        let (at, bytes) = ring.append(draft(*seed, *bytes, grain), settled);
        log[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
    }
    (log, ring)
}

fn read(log: &[u8]) -> Result<Scan, Damage> {
    scan(log, 0, 77, 5, Blind::default())
}

const COMMITS: [(u64, usize); 4] = [(1, 30), (2, 9_000), (3, 500), (4, 2_000)];

#[test]
fn a_sealed_ring_is_of_the_next_epoch_and_holds_nothing() {
    let (log, mut ring) = filled(Grain::Page, &COMMITS);
    let epoch = ring.epoch;
    ring.seal();
    assert_eq!((ring.epoch, ring.records(), ring.used(), ring.is_open()), (epoch + 1, 0, 0, false));
    let voided = scan(&log, 0, 77, ring.epoch, Blind::default()).unwrap();
    assert!(voided.records.is_empty());
}

#[test]
fn what_was_appended_is_found() {
    for grain in [Grain::Sector, Grain::Page] {
        let (log, ring) = filled(grain, &COMMITS);
        let found = read(&log).unwrap();
        assert_eq!((found.records.len(), found.end, found.torn), (4, ring.used(), false));
        assert!(found.end.is_multiple_of(grain as u64));
        for ((record, start), (seed, _)) in found.records.iter().zip(&found.starts).zip(COMMITS) {
            let said = record.said(&log[*start..]).unwrap();
            let (changes, metas) = said.parts().unwrap();
            assert_eq!(metas, [(3, &[seed as u8 + 1; 40][..])]);
            assert!(changes.iter().all(|change| change.at == 7));
        }
        // None of them is of another store, or of another epoch.
        for (store, epoch) in [(76, 5), (77, 4), (77, 6)] {
            let other = scan(&log, 0, store, epoch, Blind::default()).unwrap();
            assert_eq!((other.records.len(), other.torn), (0, true));
        }
    }
}

/// Records of one write: any of them may be missing after a power cut, and only what was durable before it is
/// missed. With records that call each other durable, some of what a cut leaves would be damage.
#[test]
fn what_is_written_together_may_be_torn_anyhow() {
    for grain in [Grain::Sector, Grain::Page] {
        let mut damaged = [0, 0];
        for (own, damaged) in [false, true].into_iter().zip(&mut damaged) {
            let (log, mut ring) = filled(grain, &COMMITS[..1]);
            let settled = ring.records();
            let mut parts = Vec::new();
            for (seed, bytes) in &COMMITS[1..] {
                let settled = if own { ring.records() } else { settled };
                parts.push(ring.append(draft(*seed, *bytes, grain), settled));
            }
            for left in 0..1 << parts.len() {
                let mut log = log.clone();
                for (part, (at, bytes)) in parts.iter().enumerate() {
                    if left >> part & 1 == 1 {
                        log[*at as usize..*at as usize + bytes.len()].copy_from_slice(bytes);
                    }
                }
                match read(&log) {
                    Ok(found) => {
                        let whole = (left as u32).trailing_ones() as usize;
                        assert_eq!(found.records.len(), 1 + whole, "{left:b}");
                    }
                    Err(_) => *damaged += 1,
                }
            }
        }
        assert!(damaged[0] == 0 && damaged[1] >= 3, "{damaged:?}");
    }
}

/// Only the last commit can look cut short: nothing behind it says that it was durable.
#[test]
fn every_flipped_bit_is_seen() {
    let (log, ring) = filled(Grain::Sector, &COMMITS);
    let sound = read(&log).unwrap();
    let ends: Vec<u64> = sound
        .records
        .iter()
        .scan(0, |end, record| {
            *end += record.takes as u64;
            Some(*end)
        })
        .collect();
    let mut seen = 0;
    for bit in (0..8 * ring.used() as usize).step_by(3) {
        let mut hit = log.clone();
        hit[bit / 8] ^= 1 << (bit % 8);
        let record = ends.iter().position(|end| (bit as u64 / 8) < *end).unwrap();
        match read(&hit) {
            Err(damage) => {
                assert_eq!(damage.at, if record == 0 { 0 } else { ends[record - 1] });
                assert!(record < 3, "bit {bit}: {damage}");
                seen += 1;
            }
            // Padding says nothing; the last one looks cut short.
            Ok(found) if found.records.len() == 4 => assert_eq!(found.records, sound.records),
            Ok(found) => assert_eq!((record, found.records.len()), (3, 3), "bit {bit}"),
        }
    }
    assert!(seen > 1_000, "{seen}");
}

/// A power cut tears the last record, in any way: it is not there, and nothing else is missing.
#[test]
fn a_torn_tail_is_no_record() {
    let (log, ring) = filled(Grain::Page, &COMMITS);
    let (before, _) = filled(Grain::Page, &COMMITS[..3]);
    let last = filled(Grain::Page, &COMMITS[..3]).1.used() as usize;
    let sectors = (ring.used() as usize - last).div_ceil(512);
    let length = u32::from_le_bytes(log[last + 32..last + 36].try_into().unwrap()) as usize;
    let (mut whole, mut torn) = (0, 0);
    for left in 0..1u32 << sectors.min(8) {
        let mut hit = before.clone();
        for sector in (0..sectors).filter(|sector| left >> (sector % 8) & 1 == 1) {
            let part = last + 512 * sector..last + 512 * (sector + 1);
            hit[part.clone()].copy_from_slice(&log[part]);
        }
        let same = hit[last..last + length] == log[last..last + length];
        let found = read(&hit).unwrap();
        assert_eq!(found.records.len(), if same { 4 } else { 3 }, "{left:b}");
        whole += u32::from(same);
        torn += u32::from(!same);
    }
    assert!(whole > 0 && torn > 100, "{whole} {torn}");
}

/// A record of another life of the same epoch, at its place and whole: only the chain tells.
#[test]
fn a_record_of_another_life_does_not_fit_the_chain() {
    let (log, _) = filled(Grain::Page, &COMMITS);
    let (other, _) = filled(Grain::Page, &[(9, 40), (2, 9_000), (3, 500), (4, 2_000)]);
    let first = read(&log).unwrap().records[0].takes;
    let mut mixed = log.clone();
    mixed[..first].copy_from_slice(&other[..first]);
    assert!(read(&mixed).is_err(), "the records behind it say that another one was durable");
    let blind = Blind { chain: true, ..Blind::default() };
    assert_eq!(scan(&mixed, 0, 77, 5, blind).unwrap().records.len(), 4, "the planted bug");
}

#[test]
fn what_can_be_packed_takes_fewer_blocks() {
    let old = vec![0; PAGE];
    let mut body = Body::default();
    for page in 0..30 {
        body.page(1, page, Some(&old), &[page as u8 + 1; PAGE]);
    }
    let draft = body.finish(Grain::Page, &mut Packer::default());
    assert_eq!(draft.takes(), 4_096, "30 pages, each of one byte");
    let place = Place { store: 1, epoch: 1, number: 1, before: 0 };
    let (bytes, _) = draft.seal(place, 0);
    let record = Record::read(&bytes, false).unwrap();
    let said = record.said(&bytes).unwrap();
    let (changes, _) = said.parts().unwrap();
    assert_eq!(changes.len(), 30);
    assert!(changes.iter().enumerate().all(|(i, c)| c.bytes == [i as u8 + 1; PAGE]));
}

/// A commit of so many equal pages.
fn dense(pages: u32) -> Draft {
    let mut body = Body::default();
    for page in 0..pages {
        body.page(1, page, None, &[9; PAGE]);
    }
    body.finish(Grain::Sector, &mut Packer::default())
}

/// What packs well takes little room, and whoever opens the store of a program that was killed unpacks all of it.
#[test]
fn what_an_epoch_unpacks_to_is_bounded() {
    let (large, most) = (dense(4_000), MOST / (PAGE + 12));
    let mut ring = Ring::found(77, 4, 1 << 20, Grain::Sector);
    ring.begin();
    let mut held = 0;
    while ring.has_room(&large) {
        ring.reserve(&large);
        held += 1;
    }
    assert!(ring.reserved < ring.bytes / 2, "not for want of room: {held}");
    assert!(held * large.raw() <= 2 * MOST as u64, "{held}");
    ring.begin();
    assert!(ring.has_room(&large), "the next epoch has room");
    // One that nobody would read is none.
    let (last, over) = (dense(most as u32), dense(most as u32 + 1));
    assert!(ring.takes(&last) && !ring.takes(&over) && over.takes() < ring.bytes / 2);
    let place = Place { store: 77, epoch: 5, number: 1, before: 0 };
    for (draft, there) in [(last, true), (over, false)] {
        let (bytes, _) = draft.seal(place, 0);
        let record = Record::read(&bytes, false).expect("whole");
        assert_eq!(record.said(&bytes).is_some(), there);
    }
}

#[test]
fn any_bytes_are_a_record_or_none() {
    let mut rng = Rng::new(3);
    let (log, _) = filled(Grain::Sector, &COMMITS);
    for _ in 0..20_000 {
        let mut bytes = log[..rng.below(12_000) as usize].to_vec();
        for _ in 0..rng.below(4) {
            if let Some(place) = bytes.len().checked_sub(1) {
                let at = rng.below(place as u64 + 1).min(rng.below(200)) as usize;
                bytes[at] = rng.below(256) as u8;
            }
        }
        // Unchecked, so that what is forged with the right checksum is read as well.
        for unchecked in [false, true] {
            if let Some(record) = Record::read(&bytes, unchecked) {
                let said = record.said(&bytes);
                let parts = said.as_ref().and_then(|said| said.parts());
                let changes = parts.unwrap_or_default().0;
                assert!(changes.iter().all(|c| c.at + c.bytes.len() <= PAGE));
            }
        }
    }
}
