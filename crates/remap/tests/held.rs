//! A reader who stands still holds one segment, and nobody else is kept from anything by that. Nor does anybody wait for
//! a keeper who is gone.
//!
//! What it shows: the segment that was overwritten while it was read counted as one that a flush would free. So house-keeping
//! flushed after each block that it moved, each had a record of its own, cleaning gained nothing, and the log ended when
//! the reserve of free segments ran out.

mod common;

use std::io;
use std::sync::{Arc, Condvar, Mutex};

use block::{Medium, Rng};
use common::{BLOCK, small};
use varve_remap::LiveLog;
use varve_remap::live::Around;

/// Where a reader stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reader {
    Away,
    /// The next read waits.
    Expected,
    Waits,
    May,
    /// Cleaning panics instead.
    Broken,
}

/// Memory, one read of which waits until it may go on.
#[derive(Debug)]
struct Gate {
    bytes: Mutex<Vec<u8>>,
    reader: Mutex<Reader>,
    turn: Condvar,
    syncs: Mutex<u64>,
}

impl Gate {
    fn new() -> Arc<Gate> {
        Arc::new(Gate {
            bytes: Mutex::new(vec![0; 600 * BLOCK]),
            reader: Mutex::new(Reader::Away),
            turn: Condvar::new(),
            syncs: Mutex::default(),
        })
    }
    fn wait_for(&self, wanted: Reader) {
        let held = self.reader.lock().unwrap();
        drop(self.turn.wait_while(held, |reader| *reader != wanted).unwrap());
    }
    fn set(&self, reader: Reader) {
        *self.reader.lock().unwrap() = reader;
        self.turn.notify_all();
    }
}

impl Medium for Gate {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        // Cleaning reads, too.
        let keeper = std::thread::current().name() == Some("host-log");
        assert!(!keeper || *self.reader.lock().unwrap() != Reader::Broken, "as planned");
        if !keeper && *self.reader.lock().unwrap() == Reader::Expected {
            self.set(Reader::Waits);
            self.wait_for(Reader::May);
        }
        out.copy_from_slice(&self.bytes.lock().unwrap()[at as usize..][..out.len()]);
        Ok(())
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.bytes.lock().unwrap()[at as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        *self.syncs.lock().unwrap() += 1;
        Ok(())
    }
    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }
}

fn content(block: u64, version: u64) -> Vec<u8> {
    (block << 32 | version).to_le_bytes().repeat(BLOCK / 8)
}

#[test]
fn a_reader_who_stands_still_holds_one_segment_and_nobody_up() {
    for (ack, seed) in [("device", 1), ("device", 2), ("buffer", 3)] {
        let gate = Gate::new();
        let options = small(&[("ack", ack), ("gc.batch", "1")]);
        let around = Around { say: |what| panic!("{what}"), turns: None };
        let log = LiveLog::format(Arc::clone(&gate) as _, &options, around).unwrap();
        let blocks = u64::from(log.blocks());
        let write = |block, version| {
            log.write(block * BLOCK as u64, &content(block, version))
                .unwrap_or_else(|error| panic!("{ack}, version {version}: {error}"));
        };
        (0..blocks).for_each(|block| write(block, 0));
        log.flush().unwrap();
        let mut versions = vec![0; blocks as usize];
        let (read, syncs) = std::thread::scope(|scope| {
            gate.set(Reader::Expected);
            let reader = scope.spawn(|| {
                let mut out = vec![0; BLOCK];
                log.read(0, &mut out).unwrap();
                out
            });
            gate.wait_for(Reader::Waits);
            let before = *gate.syncs.lock().unwrap();
            let mut rng = Rng::stream(seed, "held");
            for version in 1..=20 * blocks {
                let block = rng.below(blocks);
                write(block, version);
                versions[block as usize] = version;
            }
            let syncs = *gate.syncs.lock().unwrap() - before;
            gate.set(Reader::May);
            (reader.join().unwrap(), syncs)
        });
        // What it had begun to read when it came is what it gets.
        assert_eq!(read, content(0, 0), "{ack}");
        assert!(syncs < 10 * blocks, "{ack}: {syncs} flushes of {} writes", 20 * blocks);
        for (block, version) in (0..).zip(&versions) {
            let mut out = vec![0; BLOCK];
            log.read(block * BLOCK as u64, &mut out).unwrap();
            assert_eq!(out, content(block, *version), "{ack}: block {block}");
        }
        log.check().unwrap();
        log.close().unwrap();
    }
}

#[test]
fn when_its_keeper_is_gone_the_log_stops_and_nobody_waits() {
    let gate = Gate::new();
    let around = Around { say: |_| {}, turns: None };
    let log = LiveLog::format(Arc::clone(&gate) as _, &small(&[]), around).unwrap();
    let blocks = u64::from(log.blocks());
    let write = |block, version| {
        log.write(block * BLOCK as u64, &content(block, version)).map_err(|e| e.to_string())
    };
    (0..blocks).for_each(|block| write(block, 0).unwrap());
    log.flush().unwrap();
    gate.set(Reader::Broken);
    let mut rng = Rng::stream(1, "gone");
    let stopped =
        (1..20 * blocks).find_map(|version| write(1 + rng.below(blocks - 1), version).err());
    assert!(stopped.is_some_and(|why| why.contains("keeps house panicked")));
    // What is durable is read.
    let mut out = vec![0; BLOCK];
    log.read(0, &mut out).unwrap();
    assert_eq!(out, content(0, 0));
}
