//! Checks of what is read, without a cut.

use std::collections::BTreeSet;

use super::link::{Link, Trouble};
use super::stamp::{SECTOR, stamp, versions};
use super::{Check, Verdict, absent, must, pass};
use crate::nbd::wire::flag;

const MIB: u64 = 1 << 20;
/// Bytes of the device that are looked at.
const REGION: u64 = 64 * MIB;
/// One request of the largest size.
const LARGE: u64 = 32 * MIB;

fn region(link: &Link) -> u64 {
    link.size().min(REGION) / MIB * MIB
}

/// 1
pub fn fill(c: &mut Check<'_>) -> Verdict {
    let mut link = c.link()?;
    if link.can(flag::READ_ONLY) {
        return absent("it is read-only");
    }
    let (end, version) = (region(&link), c.fresh());
    must(end > 0, || "less than 1 MiB".to_string())?;
    for at in (0..end).step_by(MIB as usize) {
        link.write(at, &stamp(version, at, MIB), false)?;
    }
    for at in (0..end).step_by(MIB as usize) {
        let found = versions(at, &link.read(at, MIB as u32)?)?;
        must(found.iter().all(|v| *v == version), || format!("not all was kept at {at}"))?;
    }
    let grain = link.grain();
    for _ in 0..200 {
        let at = c.rng.below(end / grain - 64) * grain;
        let (bytes, version) = (c.rng.between(1, 64) * grain, c.fresh());
        link.write(at, &stamp(version, at, bytes), false)?;
        let found = versions(at, &link.read(at, bytes as u32)?)?;
        must(found.iter().all(|v| *v == version), || format!("{bytes} bytes at {at}"))?;
    }
    if link.host().is_some() {
        return pass(format!("{} MiB, by blocks of {grain} bytes", end / MIB));
    }
    for _ in 0..200 {
        let (at, bytes) = (c.rng.below(end - 10_000), c.rng.between(1, 9000));
        let data: Vec<u8> = (0..bytes).map(|i| (i * 13 + at) as u8).collect();
        let before = link.read(at - at.min(3), 3)?;
        match link.write(at, &data, false) {
            Err(Trouble::Refused(_)) => return pass("by sectors; it refuses single bytes"),
            other => other?,
        }
        must(link.read(at, bytes as u32)? == data, || format!("{bytes} bytes at {at}"))?;
        let after = link.read(at - at.min(3), 3)?;
        must(at < 3 || before == after, || format!("a write at {at} changed bytes before it"))?;
    }
    pass(format!("{} MiB, and single bytes", end / MIB))
}

/// 2
pub fn unmapped(c: &mut Check<'_>) -> Verdict {
    let mut link = c.link()?;
    if !link.can(flag::WRITE_ZEROES) {
        return absent("no WRITE_ZEROES");
    }
    let bytes = region(&link).min(4 * MIB) as u32;
    link.write(0, &stamp(c.fresh(), 0, u64::from(bytes)), false)?;
    link.zero(0, bytes, false)?;
    must(link.read(0, bytes)?.iter().all(|b| *b == 0), || "zeroes do not read as zero".into())?;
    // What a disk holds back until then may be told as data.
    if link.can(flag::FLUSH) {
        link.flush()?;
    }
    let Some(extents) = link.extents(0, bytes)? else { return absent("no block status") };
    match extents.iter().filter(|(_, zero)| *zero).map(|(bytes, _)| bytes).sum::<u64>() {
        0 => absent("nothing is ever told to be unmapped"),
        told => pass(format!("{told} bytes told as zeroes")),
    }
}

/// 7
pub fn trimmed(c: &mut Check<'_>) -> Verdict {
    let mut link = c.link()?;
    if !link.can(flag::TRIM) {
        return absent("no TRIM");
    }
    let bytes = region(&link).min(8 * MIB);
    let version = c.fresh();
    link.write(0, &stamp(version, 0, bytes), false)?;
    let (mut zeroed, grain) = (0, link.grain());
    for _ in 0..50 {
        let at = c.rng.below(bytes / grain) * grain;
        let length = (c.rng.between(1, 600 * SECTOR / grain) * grain).min(bytes - at);
        link.trim(at, length as u32)?;
    }
    link.flush()?;
    let first = link.read(0, bytes as u32)?;
    for found in versions(0, &first)? {
        must(found == 0 || found == version, || format!("version {found} after a trim"))?;
        zeroed += u64::from(found == 0);
    }
    must(link.read(0, bytes as u32)? == first, || "it changes from read to read".to_string())?;
    must(c.link()?.read(0, bytes as u32)? == first, || "another connection differs".to_string())?;
    pass(format!("{zeroed} sectors are zero"))
}

/// 8
pub fn zeroed(c: &mut Check<'_>) -> Verdict {
    let mut link = c.link()?;
    if !link.can(flag::WRITE_ZEROES) {
        return absent("no WRITE_ZEROES");
    }
    let bytes = region(&link).min(4 * MIB);
    let mut odd = link.host().is_none();
    for round in 0..60 {
        let mut held = stamp(c.fresh(), 0, bytes);
        link.write(0, &held, false)?;
        let grain = if odd { 1 } else { link.grain() };
        let at = c.rng.below(bytes / grain - 1) * grain;
        let length = (c.rng.between(1, 70_000).next_multiple_of(grain)).min(bytes - at);
        match link.zero(at, length as u32, round % 2 == 0) {
            Err(Trouble::Refused(_)) if odd => {
                odd = false;
                continue;
            }
            other => other?,
        }
        held[at as usize..(at + length) as usize].fill(0);
        must(link.read(0, bytes as u32)? == held, || format!("{length} zeroes at {at}"))?;
    }
    let fast = match link.can(flag::FAST_ZERO) {
        false => "no FAST_ZERO",
        true => {
            let mut held = stamp(c.fresh(), 0, bytes);
            link.write(0, &held, false)?;
            let done = link.zero_fast(0, bytes as u32)?;
            if done {
                held.fill(0);
            }
            let same = link.read(0, bytes as u32)? == held;
            must(same, || "FAST_ZERO did something else than it said".to_string())?;
            if done { "FAST_ZERO was fast" } else { "FAST_ZERO was refused" }
        }
    };
    pass(format!("{}; {fast}", if odd { "to the byte" } else { "to the block" }))
}

/// 9
pub fn status(c: &mut Check<'_>) -> Verdict {
    let mut link = c.link()?;
    if link.can(flag::READ_ONLY) {
        return absent("it is read-only");
    }
    let bytes = region(&link).min(16 * MIB);
    if link.can(flag::WRITE_ZEROES) {
        link.zero(0, bytes as u32, false)?;
    }
    let mut written = BTreeSet::new();
    for _ in 0..20 {
        let at = c.rng.below(bytes / 4096) * 4096;
        link.write(at, &stamp(c.fresh(), at, 4096), false)?;
        written.insert(at);
    }
    let (mut at, mut zeroes, mut count) = (0, 0, 0);
    while at < bytes {
        let Some(extents) = link.extents(at, (bytes - at) as u32)? else {
            return absent("no block status");
        };
        must(!extents.is_empty(), || "no extents".to_string())?;
        for (length, zero) in extents {
            must(length > 0, || format!("an extent of no length at {at}"))?;
            let length = length.min(bytes - at);
            if zero && length > 0 {
                let page = written.range((at + 1).saturating_sub(4096)..at + length).next();
                must(page.is_none(), || format!("what was written at {page:?} is told as zero"))?;
                let found = link.read(at, length as u32)?;
                let all = found.iter().all(|byte| *byte == 0);
                must(all, || format!("{length} bytes at {at} are said to be zero"))?;
                zeroes += length;
            }
            at += length;
            count += 1;
        }
    }
    pass(format!("{count} extents, {zeroes} bytes of zeroes"))
}

/// 11
pub fn large(c: &mut Check<'_>) -> Verdict {
    let mut link = c.link()?;
    if link.can(flag::READ_ONLY) {
        return absent("it is read-only");
    }
    if link.size() < LARGE {
        return absent("less than 32 MiB");
    }
    let sizes = link.client().and_then(|client| client.sizes);
    let most = match link.host() {
        Some((host, _)) => host.transfer(),
        None => sizes.map_or(LARGE, |sizes| u64::from(sizes[2])),
    };
    if most < LARGE {
        return absent(format!("at most {most} bytes in a request"));
    }
    let version = c.fresh();
    link.write(0, &stamp(version, 0, LARGE), false)?;
    let found = versions(0, &link.read(0, LARGE as u32)?)?;
    must(found.iter().all(|v| *v == version), || "not all of it is there".to_string())?;
    pass("written and read")
}

/// 15
pub fn reconnect(c: &mut Check<'_>) -> Verdict {
    let mut link = c.link()?;
    if link.can(flag::READ_ONLY) {
        return absent("it is read-only");
    }
    let (bytes, version) = (region(&link).min(8 * MIB), c.fresh());
    link.write(0, &stamp(version, 0, bytes), false)?;
    link.flush()?;
    drop(link);
    let found = versions(0, &c.link()?.read(0, bytes as u32)?)?;
    must(found.iter().all(|v| *v == version), || "not all of it is there".to_string())?;
    pass(format!("{} MiB", bytes / MIB))
}
