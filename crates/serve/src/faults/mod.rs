//! A served disk that fails on command: rules that come and go while it serves.
//!
//! Without rules a request passes untouched. With some, the first that strikes decides what becomes of a
//! request; latencies add up. Rules strike what front-ends ask, above every layer of the stack: a drive's own
//! errors are asked for with its preset's keys and its power switch.

mod rule;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stack::disk::{Ask, Capabilities, Disk, DiskError, Done, Extent, Piece, Told, TransactError};

pub use rule::{Asked, EXPECTED, Kind, Rule};

/// Rules at most.
const MOST: usize = 64;

/// The rules of a disk.
#[derive(Debug, Default)]
pub struct Faults {
    any: AtomicBool,
    /// Bytes of the disk, once there is one.
    size: OnceLock<u64>,
    rules: Mutex<(u64, Vec<(u64, Rule)>)>,
}

/// What becomes of a request.
#[derive(Clone, Copy, Default, Debug)]
struct Fate {
    kind: Option<Kind>,
    later: Duration,
    drawn: u64,
}

impl Faults {
    fn with<R>(&self, work: impl FnOnce(&mut u64, &mut Vec<(u64, Rule)>) -> R) -> R {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, all) = &mut *rules;
        let result = work(last, all);
        self.any.store(!all.is_empty(), Ordering::SeqCst);
        result
    }

    /// Carries out `add RULE`, `clear [NUMBER]` or `list`: the rules there are then.
    ///
    /// # Errors
    /// A text for people.
    pub fn command(&self, line: &str) -> Result<Value, String> {
        let (verb, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        self.with(|last, all| {
            match (verb, rest.trim()) {
                ("add", rule) => {
                    let rule: Rule = rule.parse()?;
                    let (first, size) = (rule.first_byte(), self.size.get().copied());
                    if let Some(size) = size.filter(|size| first >= *size) {
                        return Err(format!(
                            "fault add {rule}: expected a range that begins below {size}, which are all bytes of the disk"
                        ));
                    }
                    if all.len() >= MOST {
                        return Err(format!("{MOST} rules at most"));
                    }
                    *last += 1;
                    all.push((*last, rule));
                }
                ("clear", "") => all.clear(),
                ("clear", number) => {
                    let place = all.iter().position(|(id, _)| id.to_string() == number);
                    drop(all.remove(place.ok_or_else(|| format!("there is no rule {number}"))?));
                }
                ("list", "") => {}
                _ => {
                    return Err(format!("fault {line}: expected add RULE, clear [NUMBER] or list"));
                }
            }
            let one = |(id, rule): &(u64, Rule)| {
                let (met, struck) = rule.counts();
                json!({ "number": id, "rule": rule.to_string(), "met": met, "struck": struck })
            };
            Ok(all.iter().map(one).collect())
        })
    }

    fn fate(&self, asked: Asked, at: u64, bytes: u64) -> Fate {
        let mut fate = Fate::default();
        if !self.any.load(Ordering::Relaxed) || (bytes == 0 && asked != Asked::Flush) {
            return fate;
        }
        self.with(|_, all| {
            for (_, rule) in all {
                match rule.strikes(asked, at, bytes) {
                    Some(Kind::Latency(time)) => fate.later += time,
                    Some(kind) => {
                        fate.drawn = rule.draw(bytes.max(1) * 8);
                        fate.kind = Some(kind);
                        return;
                    }
                    None => {}
                }
            }
        });
        fate
    }
}

/// A disk that fails on command.
#[derive(Debug)]
pub struct FaultyDisk {
    below: Arc<dyn Disk>,
    faults: Arc<Faults>,
}

impl FaultyDisk {
    /// Over `below`.
    pub fn new(below: Arc<dyn Disk>, faults: Arc<Faults>) -> FaultyDisk {
        faults.size.get_or_init(|| below.capabilities().size);
        FaultyDisk { below, faults }
    }

    fn asked(
        &self,
        asked: Asked,
        (at, bytes): (u64, u64),
        ask: impl FnOnce() -> Result<Done, DiskError>,
    ) -> Result<Done, DiskError> {
        let fate = self.faults.fate(asked, at, bytes);
        let done = match fate.kind {
            None | Some(Kind::Flip | Kind::Latency(_)) => ask()?,
            Some(Kind::Stale) => Done::NOW,
            Some(Kind::Eio) => return Err(io::Error::other("a fault that was asked for").into()),
            Some(Kind::Enospc) => {
                return Err(DiskError::NoSpace("a fault that was asked for".to_string()));
            }
        };
        Ok(match fate.later.is_zero() {
            true => done,
            false => done.and(Done::at(Instant::now() + fate.later)),
        })
    }
}

impl Disk for FaultyDisk {
    fn capabilities(&self) -> Capabilities {
        self.below.capabilities()
    }
    fn read(&self, at: u64, into: &mut [u8]) -> Result<Done, DiskError> {
        let bytes = into.len() as u64;
        let fate = self.faults.fate(Asked::Read, at, bytes);
        if fate.kind == Some(Kind::Eio) {
            return Err(io::Error::other("a fault that was asked for").into());
        }
        let done = self.below.read(at, into)?;
        if fate.kind == Some(Kind::Flip) {
            into[(fate.drawn / 8) as usize] ^= 1 << (fate.drawn % 8);
        }
        Ok(match fate.later.is_zero() {
            true => done,
            false => done.and(Done::at(Instant::now() + fate.later)),
        })
    }
    fn write(&self, at: u64, from: &[u8], fua: bool) -> Result<Done, DiskError> {
        self.asked(Asked::Write, (at, from.len() as u64), || self.below.write(at, from, fua))
    }
    fn joins_writes(&self) -> bool {
        self.below.joins_writes()
    }
    fn write_each(
        &self,
        pieces: &[Piece<'_>],
        ended: &mut dyn FnMut(usize, Result<Done, DiskError>),
    ) {
        if !self.faults.any.load(Ordering::Relaxed) {
            return self.below.write_each(pieces, ended);
        }
        for (i, piece) in pieces.iter().enumerate() {
            ended(i, self.write(piece.at, piece.bytes, false));
        }
    }
    fn flush(&self) -> Result<Done, DiskError> {
        self.asked(Asked::Flush, (0, 0), || self.below.flush())
    }
    fn trim(&self, at: u64, bytes: u64, fua: bool) -> Result<Done, DiskError> {
        self.asked(Asked::Trim, (at, bytes), || self.below.trim(at, bytes, fua))
    }
    fn zero(&self, at: u64, bytes: u64, keep: bool, fua: bool) -> Result<Done, DiskError> {
        self.asked(Asked::Write, (at, bytes), || self.below.zero(at, bytes, keep, fua))
    }
    fn zero_is_fast(&self, at: u64, bytes: u64, keep: bool) -> bool {
        self.below.zero_is_fast(at, bytes, keep)
    }
    fn extents(&self, at: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DiskError> {
        self.below.extents(at, bytes, most)
    }
    /// Rules are of plain requests: transactions pass.
    fn transact(&self, ask: Ask<'_>) -> Result<Told, TransactError> {
        self.below.transact(ask)
    }
    fn close(&self) -> Result<(), DiskError> {
        self.below.close()
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.below.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stack::disk::RamDisk;

    #[test]
    fn a_disk_fails_as_it_is_told_and_no_longer() {
        let faults = Arc::new(Faults::default());
        let ram = Arc::new(RamDisk::new(1 << 20).unwrap());
        let disk = FaultyDisk::new(ram, Arc::clone(&faults));
        let mut out = [0; 512];
        let add = |rule: &str| faults.command(&format!("add {rule}")).unwrap();
        add("eio ops=write nth=1");
        assert!(disk.write(0, &[1; 512], false).is_err());
        disk.write(0, &[1; 512], false).unwrap().wait().unwrap();
        add("stale ops=write range=0-512");
        disk.write(0, &[2; 512], false).unwrap().wait().unwrap();
        disk.read(0, &mut out).unwrap().wait().unwrap();
        assert_eq!(out, [1; 512], "stale");
        let rules = faults.command("list").unwrap();
        assert_eq!((&rules[0]["struck"], &rules[1]["struck"]), (&json!(1), &json!(1)));
        faults.command("clear 2").unwrap();
        disk.write(0, &[2; 512], false).unwrap().wait().unwrap();
        add("flip count=1");
        disk.read(0, &mut out).unwrap().wait().unwrap();
        let flipped: u32 = out.iter().map(|byte| (byte ^ 2).count_ones()).sum();
        assert_eq!(flipped, 1);
        add("enospc ops=trim");
        assert!(disk.trim(0, 4096, false).unwrap_err().is_full());
        add("latency ops=flush time=30");
        let since = Instant::now();
        disk.flush().unwrap().wait().unwrap();
        assert!(since.elapsed() >= Duration::from_millis(30));
        faults.command("clear").unwrap();
        disk.read(0, &mut out).unwrap().wait().unwrap();
        assert_eq!(out, [2; 512]);
        assert_eq!(faults.command("list").unwrap(), json!([]));
        assert!(faults.command("add eio range=1023KiB-2MiB").is_ok());
        let beyond = faults.command("add eio range=1MiB-2MiB").unwrap_err();
        assert!(beyond.contains("begins below 1048576"), "{beyond}");
        for wrong in ["", "add", "clear 9", "list all", "drop"] {
            assert!(faults.command(wrong).is_err(), "{wrong}");
        }
    }
}
