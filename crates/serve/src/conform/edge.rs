//! Checks of what is not an everyday request.

use std::collections::BTreeMap;

use super::pipe::Pipe;
use super::stamp::{stamp, versions};
use super::{Check, Verdict, absent, host, must, pass};
use crate::nbd::wire::{Request, command, flag};

/// 10
pub fn bounds(c: &mut Check<'_>) -> Verdict {
    let mut link = c.link()?;
    let size = link.size();
    let (grain, read_only) = (link.grain(), link.can(flag::READ_ONLY));
    let last = size - grain;
    let before = link.read(last, grain as u32)?;
    let piece = grain as u32;
    let beyond = [(size, piece), (size - 1, 2), (last, 2 * piece), (u64::MAX - grain + 1, piece)];
    for (at, bytes) in beyond {
        must(link.read(at, bytes).is_err(), || format!("a read of {bytes} bytes at {at}"))?;
        if !read_only {
            let wrote = link.write(at, &vec![9; bytes as usize], false);
            must(wrote.is_err(), || format!("a write of {bytes} bytes at {at}"))?;
        }
        if link.can(flag::TRIM) {
            must(link.trim(at, bytes).is_err(), || format!("a trim of {bytes} bytes at {at}"))?;
        }
        if link.can(flag::WRITE_ZEROES) {
            let zeroed = link.zero(at, bytes, false);
            must(zeroed.is_err(), || format!("zeroes, {bytes} bytes at {at}"))?;
        }
    }
    must(link.read(last, piece)? == before, || "the last sector changed".to_string())?;
    must(link.size() == size && c.link()?.size() == size, || "the size changed".to_string())?;
    if let Some((of, told)) = link.host() {
        return host::bounds(of, told);
    }
    let Some(client) = link.client() else { return pass("beyond the end") };
    if client.can(flag::FLUSH) {
        let (at, bytes) = (u64::MAX - 5, u32::MAX);
        let reply = client.ask(command::FLUSH, 0, at, bytes, &[]).map_err(|e| e.to_string())?;
        must(reply.errno == 0, || format!("FLUSH looks at its address: error {}", reply.errno))?;
    }
    let reply = client.ask(command::READ, 0, 0, 0, &[]).map_err(|e| e.to_string())?;
    let empty = if reply.errno == 0 { "no length is nothing" } else { "no length is an error" };
    pass(format!("beyond the end; {empty}"))
}

/// 13
pub fn read_only(c: &mut Check<'_>) -> Verdict {
    let mut link = c.link()?;
    if !link.can(flag::READ_ONLY) {
        return absent("it may be written");
    }
    let before = link.read(0, 4096)?;
    if let Some((of, told)) = link.host() {
        host::read_only(of, told)?;
        must(link.read(0, 4096)? == before, || "something was written".to_string())?;
        return pass("Write, Dataset Management and Write Zeroes refused");
    }
    let Some(client) = link.client() else { return absent("a file") };
    for kind in [command::WRITE, command::TRIM, command::WRITE_ZEROES] {
        let payload = if kind == command::WRITE { &[7; 4096][..] } else { &[] };
        let reply = client.ask(kind, 0, 0, 4096, payload).map_err(|e| e.to_string())?;
        must(reply.errno != 0, || format!("command {kind} was taken"))?;
    }
    must(link.read(0, 4096)? == before, || "something was written".to_string())?;
    pass("WRITE, TRIM and WRITE_ZEROES refused")
}

/// 14
pub fn disconnect(c: &mut Check<'_>) -> Verdict {
    const BYTES: u64 = 1 << 20;
    let mut link = c.link()?;
    if link.can(flag::READ_ONLY) {
        return absent("it is read-only");
    }
    if link.host().is_some() {
        return host::disconnect(c, link);
    }
    if link.client().is_none() {
        return absent("not a connection");
    }
    let (mut torn, first) = (0, c.fresh());
    for _ in 0..20 {
        let (old, new) = (c.fresh(), c.fresh());
        link.write(0, &stamp(old, 0, BYTES), false)?;
        let mut other = c.link()?;
        let half = c.rng.below(BYTES) as usize;
        let client = other.client().ok_or("a connection")?;
        let request =
            Request { flags: 0, kind: command::WRITE, cookie: 1, at: 0, bytes: BYTES as u32 };
        let mut bytes = request.encode().to_vec();
        bytes.extend_from_slice(&stamp(new, 0, BYTES)[..half]);
        std::io::Write::write_all(client.stream(), &bytes).map_err(|e| e.to_string())?;
        drop(other);
        let found = versions(0, &link.read(0, BYTES as u32)?)?;
        for version in found {
            // What an earlier half announced may come late: nobody was told that it was over.
            must((first..=new).contains(&version), || format!("version {version} of {old}"))?;
            torn += u64::from(version == new);
        }
    }
    pass(format!("{torn} sectors of halves were written"))
}

/// 16
pub fn unknown(c: &mut Check<'_>) -> Verdict {
    let mut link = c.link()?;
    let before = link.read(0, 4096)?;
    if let Some((of, told)) = link.host() {
        let count = host::unknown(of, told)?;
        must(link.read(0, 4096)? == before, || "something was written".to_string())?;
        return pass(format!("{count} answered with errors"));
    }
    let Some(client) = link.client() else { return absent("not a connection") };
    let asks = [(99, 0), (command::READ, 1 << 13), (command::FLUSH, 1 << 14), (0x7fff, 0)];
    for (kind, flags) in asks {
        let reply = client.ask(kind, flags, 0, 4096, &[]).map_err(|e| e.to_string())?;
        let what = || format!("command {kind} with flags {flags:#x} was taken");
        must(reply.errno != 0, what)?;
    }
    let cache = client.can(flag::CACHE);
    let reply = client.ask(command::CACHE, 0, 0, 4096, &[]).map_err(|e| e.to_string())?;
    must(cache || reply.errno != 0, || "CACHE is served, and not told".to_string())?;
    must(link.read(0, 4096)? == before, || "something was written".to_string())?;
    pass(format!("{} answered with errors", asks.len()))
}

const DEPTH: usize = 32;
const PAGE: u64 = 4096;

/// One connection's part: pages of its own, 32 requests in flight, every read verified.
fn hammer(pipe: &mut dyn Pipe, base: u64, pages: u64, seed: u64) -> Result<u64, String> {
    let mut rng = block::Rng::stream(seed, "conform/parallel");
    let mut held: BTreeMap<u64, u64> = BTreeMap::new();
    // A page in flight is left alone: overlapping requests have no order.
    let mut busy: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let (mut version, mut asked, mut done) = (seed << 32, 0, 0);
    while done < 4000 {
        while busy.len() < DEPTH && asked < 4000 {
            let page = base + rng.below(pages) * PAGE;
            if busy.values().any(|(busy, _)| *busy == page) {
                continue;
            }
            version += 1;
            let write = rng.below(2) == 0;
            let number = match write {
                true => pipe.put(page, &stamp(version, page, PAGE))?,
                false => pipe.get(page, PAGE as u32)?,
            };
            busy.insert(number, (page, if write { version } else { 0 }));
            asked += 1;
        }
        let (number, data) = pipe.next()?;
        let Some((page, wrote)) = busy.remove(&number) else {
            return Err("a reply to something else".to_string());
        };
        if wrote > 0 {
            held.insert(page, wrote);
        } else if let Some(expected) = held.get(&page) {
            let found = versions(page, &data)?;
            must(found.iter().all(|v| v == expected), || format!("page {page}: {found:?}"))?;
        }
        done += 1;
    }
    Ok(done)
}

/// 17
pub fn parallel(c: &mut Check<'_>) -> Verdict {
    let (mut one, mut two) = (c.link()?, c.link()?);
    if one.can(flag::READ_ONLY) {
        return absent("it is read-only");
    }
    let half = (one.size() / 2).min(32 << 20) / PAGE * PAGE;
    let seeds = [c.fresh(), c.fresh()];
    let (Some(mut a), Some(mut b)) = (one.pipe(), two.pipe()) else {
        return absent("not a connection");
    };
    let results: [Result<u64, String>; 2] = std::thread::scope(|scope| {
        let first = scope.spawn(|| hammer(&mut *a, 0, half / PAGE, seeds[0]));
        let second = scope.spawn(|| hammer(&mut *b, half, half / PAGE, seeds[1]));
        [first, second].map(|t| t.join().unwrap_or_else(|_| Err("a thread failed".to_string())))
    });
    let [first, second] = results;
    pass(format!("{} requests", first? + second?))
}
