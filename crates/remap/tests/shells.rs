//! Two shells, one log: the same requests through the modelled shell and through the live one leave the
//! same blocks on the medium, after every request.

mod common;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use block::{BlockDevice, Data, DeviceError, Medium, Op, Request, Rng, Sectors, Time};
use common::{lba, sectors};
use varve_remap::live::{Around, Turns};
use varve_remap::{Ack, HostLog, LiveLog, LogOptions, Occasion};

const BLOCK: usize = 4096;

/// Memory that counts what is written to it. Nothing takes time.
#[derive(Clone, Debug)]
struct Memory(Arc<Mutex<Held>>);

#[derive(Debug)]
struct Held {
    bytes: Vec<u8>,
    written: u64,
    /// Blocks written or discarded since the last comparison: all that it has to look at.
    touched: Vec<usize>,
}

impl Held {
    fn touch(&mut self, at: u64, len: usize) -> &mut [u8] {
        let at = at as usize;
        self.touched.extend(at / BLOCK..(at + len).div_ceil(BLOCK));
        &mut self.bytes[at..][..len]
    }
}

impl Memory {
    fn new(blocks: usize) -> Memory {
        Memory(Arc::new(Mutex::new(Held {
            bytes: vec![0; blocks * BLOCK],
            written: 0,
            touched: Vec::new(),
        })))
    }
    fn holds(&self, other: &Memory) -> Result<(), String> {
        let (mut here, mut there) = (self.0.lock().unwrap(), other.0.lock().unwrap());
        if here.written != there.written {
            return Err(format!("{} and {} blocks written", here.written, there.written));
        }
        let mut touched = std::mem::take(&mut here.touched);
        touched.append(&mut there.touched);
        touched.sort_unstable();
        touched.dedup();
        for block in touched {
            let (a, b) =
                (&here.bytes[block * BLOCK..][..BLOCK], &there.bytes[block * BLOCK..][..BLOCK]);
            if a != b {
                let byte = (0..BLOCK).position(|i| a[i] != b[i]).unwrap_or(0);
                let part = |bytes: &[u8]| bytes[byte & !7..][..8].to_vec();
                return Err(format!(
                    "byte {byte} of block {block}: {:02x?}, {:02x?}",
                    part(a),
                    part(b)
                ));
            }
        }
        Ok(())
    }
}

impl Medium for Memory {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        out.copy_from_slice(&self.0.lock().unwrap().bytes[at as usize..][..out.len()]);
        Ok(())
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut memory = self.0.lock().unwrap();
        memory.touch(at, bytes.len()).copy_from_slice(bytes);
        memory.written += (bytes.len() / BLOCK) as u64;
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().bytes.len() as u64)
    }
    fn discard(&self, at: u64, bytes: u64) -> io::Result<()> {
        self.0.lock().unwrap().touch(at, bytes as usize).fill(0);
        Ok(())
    }
    fn discard_is_fast(&self) -> bool {
        true
    }
}

impl BlockDevice for Memory {
    fn capacity(&self) -> Sectors {
        Sectors(self.size().unwrap() / 512)
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let (from, bytes) = (request.lba.0 * 512, request.sectors.0 * 512);
        let done = match (request.op, request.data) {
            (Op::Read, Data::Read(out)) => Medium::read(self, from, out),
            (Op::Write, Data::Write(bytes)) => Medium::write(self, from, bytes),
            (Op::Discard, _) => self.discard(from, bytes),
            (Op::Flush, _) => Ok(()),
            _ => return Err(DeviceError::Unsupported("bytes")),
        };
        done.map(|()| at).map_err(|error| DeviceError::Io(error.to_string()))
    }
}

/// One thread does everything: who waits keeps house.
#[derive(Debug, Default)]
struct Alone {
    now: AtomicU64,
    log: OnceLock<Weak<LiveLog>>,
}

impl Turns for Alone {
    fn pass(&self, _: bool) {
        let log = self.log.get().and_then(Weak::upgrade).expect("waits while it is opened");
        log.keep_quiet(Occasion::Pause);
    }
    fn call(&self) {}
    fn now(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }
}

struct Live {
    log: Arc<LiveLog>,
    turns: Arc<Alone>,
}

impl Live {
    fn start(
        turns: Arc<Alone>,
        make: impl FnOnce(Around) -> Result<LiveLog, varve_remap::LogError>,
    ) -> Live {
        let around = Around { say: |what| panic!("{what}"), turns: Some(turns.clone() as _) };
        let log = Arc::new(make(around).unwrap());
        turns.log.set(Arc::downgrade(&log)).unwrap();
        Live { log, turns }
    }

    /// A request comes after a pause, as the modelled shell sees it.
    fn enter(&self, at: Time) {
        self.log.keep_quiet(Occasion::Pause);
        self.turns.now.store(at.as_ns(), Ordering::SeqCst);
        self.log.keep_quiet(Occasion::Request);
    }
}

fn options(rng: &mut Rng) -> LogOptions {
    let mut options = LogOptions::default();
    let mut set = |name: &str, values: &[&str], rng: &mut Rng| {
        options.set(name, rng.pick::<&str>(values)).unwrap();
    };
    set("segment", &["64 KiB", "64 KiB", "128 KiB"], rng);
    set("gc.batch", &["1", "3", "16", "32"], rng);
    set("gc.order", &["pba", "lba"], rng);
    set("gc.victim", &["greedy", "cost-benefit", "age-threshold", "fifo", "random"], rng);
    set("gc.start", &["0", "0", "4", "100"], rng);
    set("reserve", &["5", "10", "30", "80"], rng);
    set("placement", &["two", "two", "sepbit", "auto"], rng);
    set("seal_after", &["1 ns", "10 us", "1 s"], rng);
    set("self_flush", &["64 KiB", "1 MiB", "64 MiB"], rng);
    set("verify", &["clean", "read"], rng);
    set("ack", &["device", "buffer"], rng);
    set("buffer", &["4 KiB", "64 KiB", "256 KiB"], rng);
    set("atomic_max", &["32 KiB"], rng);
    options
}

/// Runs a drawn workload through both. Says how many segments were cleaned; counts comparisons, of logs
/// without and with a buffer.
fn run(seed: u64, compared: &mut [u64; 2]) -> u64 {
    let mut rng = Rng::stream(seed, "shells");
    let options = options(&mut rng);
    let buffered = options.ack == Ack::Buffer;
    let blocks = (options.segment.0 / BLOCK as u64 * rng.between(18, 50)) as usize;
    let (there, here) = (Memory::new(blocks), Memory::new(blocks));
    let mut modelled = HostLog::format(there.clone(), &options).unwrap();
    let medium: Arc<dyn Medium> = Arc::new(here.clone());
    let mut live =
        Live::start(Arc::default(), |around| LiveLog::format(medium.clone(), &options, around));
    let mut cleaned = 0;
    for step in 0..rng.between(200, 1_500) {
        // Each pause is long enough for all that is due.
        let at = modelled.now().max(Time::from_us(step)) + block::Span::from_us(1);
        live.enter(at);
        modelled.submit(at, Request::read(lba(0), sectors(0))).unwrap();
        let pages = u64::from(modelled.engine().geometry().logical);
        let hot = if rng.ratio(3, 4) { pages / 4 + 1 } else { pages };
        let first = rng.below(hot);
        let count = rng.between(1, 8).min(pages - first);
        let (from, bytes) = (first * BLOCK as u64, count * BLOCK as u64);
        let mut kept = true;
        let answers = match rng.below(16) {
            0 => {
                // The modelled shell keeps no house behind a flush, but in the pause after it.
                kept = false;
                modelled.submit(at, Request::flush()).unwrap();
                live.log.flush().unwrap();
                (Ok(()), Ok(()))
            }
            1 => {
                let request = Request::discard(lba(first as u32), sectors(count as u32));
                (modelled.submit(at, request).map(|_| ()), live.log.trim(from, bytes))
            }
            2 if rng.ratio(1, 8) => {
                // A clean stop, or the end of a process; then both are opened again.
                // One whose process ends may have sent less of what left the buffer.
                let clean = rng.ratio(1, 2) || buffered;
                if clean {
                    modelled.close(at).unwrap();
                    live.log.close().unwrap();
                }
                cleaned += live.log.with_engine(|engine| engine.counters().cleaned);
                there.holds(&here).unwrap_or_else(|what| panic!("{seed}, {step}, end: {what}"));
                modelled = HostLog::open(there.clone(), at, &options).unwrap();
                let medium = medium.clone();
                let turns = Alone { now: AtomicU64::new(at.as_ns()), ..Alone::default() };
                live =
                    Live::start(Arc::new(turns), |around| LiveLog::open(medium, &options, around));
                (Ok(()), Ok(()))
            }
            _ => {
                let mut data = vec![0; bytes as usize];
                data.chunks_mut(8).for_each(|word| {
                    word.copy_from_slice(&rng.next_u64().to_le_bytes());
                });
                let write = Request::write(lba(first as u32), sectors(count as u32));
                let answer = modelled.submit(at, write.with(Data::Write(&data)));
                (answer.map(|_| ()), live.log.write(from, &data))
            }
        };
        assert_eq!(answers.0.is_ok(), answers.1.is_ok(), "{seed}, {step}: {answers:?}");
        if kept {
            live.log.keep_quiet(Occasion::Request);
        }
        // The modelled one uses the pause when it hears of its end: at the next request, a read of nothing.
        let end = modelled.now().max(at) + block::Span::from_us(1);
        modelled.submit(end, Request::read(lba(0), sectors(0))).unwrap();
        live.enter(end);
        let counters = live.log.with_engine(|engine| *engine.counters());
        assert_eq!(*modelled.counters(), counters, "seed {seed}, step {step}");
        // What has left the buffer goes out when a shell likes.
        let unsent = live.log.unsent().expect("nothing is on its way");
        assert!(buffered || unsent == modelled.unsent(), "seed {seed}, step {step}");
        if unsent == modelled.unsent() {
            compared[usize::from(buffered)] += 1;
            there.holds(&here).unwrap_or_else(|what| panic!("seed {seed}, step {step}: {what}"));
        }
    }
    cleaned + modelled.counters().cleaned
}

#[test]
fn the_same_requests_leave_the_same_blocks() {
    let mut compared = [0; 2];
    let cleaned: u64 = (0..200).map(|seed| run(seed, &mut compared)).sum();
    assert!(cleaned > 20_000, "{cleaned} segments were cleaned");
    assert!(compared.iter().all(|steps| *steps > 10_000), "{compared:?} steps were compared");
}

/// What a range consists of, by a model that knows which blocks are stored.
fn described(stored: &[bool], from: usize, len: usize, most: usize) -> Vec<(u64, bool)> {
    let mut found: Vec<(u64, bool)> = Vec::new();
    let mut at = from;
    while at < from + len {
        let stop = ((at / BLOCK + 1) * BLOCK).min(from + len);
        let hole = !stored[at / BLOCK];
        match found.last_mut().filter(|last| last.1 == hole) {
            Some(last) => last.0 += (stop - at) as u64,
            None => found.push(((stop - at) as u64, hole)),
        }
        at = stop;
    }
    found.truncate(most);
    found
}

#[test]
fn writes_are_admitted_together_where_the_map_is_in_memory_and_no_buffer_joins_them() {
    let joined = |set: &[(&str, &str)]| {
        let mut options = LogOptions::default();
        for (name, value) in [("segment", "64 KiB")].iter().chain(set) {
            options.set(name, value).unwrap();
        }
        let around = Around { say: |what| panic!("{what}"), turns: None };
        let log = LiveLog::format(Arc::new(Memory::new(3_000)), &options, around).unwrap();
        assert_eq!(log.atomic_blocks(), options.atomic_blocks());
        log.joined_blocks()
    };
    assert_eq!(joined(&[]), LogOptions::default().atomic_blocks().min(8));
    assert_eq!(joined(&[("ack", "buffer")]), 0);
    assert_eq!(joined(&[("map_memory", "64 KiB")]), 0);
}

#[test]
fn a_live_log_is_read_written_and_described_by_bytes() {
    for (seed, map_memory) in [(1, "0"), (2, "64 KiB")] {
        let (mut rng, mut options) = (Rng::stream(seed, "bytes"), LogOptions::default());
        for (name, value) in [("segment", "64 KiB"), ("map_memory", map_memory)] {
            options.set(name, value).unwrap();
        }
        let medium: Arc<dyn Medium> = Arc::new(Memory::new(3_000));
        let around = || Around { say: |what| panic!("{what}"), turns: None };
        let mut log = LiveLog::format(medium.clone(), &options, around()).unwrap();
        let size = log.blocks() as usize * BLOCK;
        let (mut bytes, mut stored, mut cleaned) = (vec![0; size], vec![false; size / BLOCK], 0);
        for step in 0..1_500 {
            let mut place = |most: usize| {
                let grain = *rng.pick(&[1, 512, BLOCK]);
                let from = rng.below((size - 1) as u64) as usize / grain * grain;
                let len = (rng.between(1, most as u64) as usize).next_multiple_of(grain);
                from..(from + len).min(size)
            };
            let (range, looked) = (place(60_000), place(60_000));
            let (from, len) = (range.start as u64, range.len() as u64);
            let touched = range.start / BLOCK..range.end.div_ceil(BLOCK);
            let first = range.start.div_ceil(BLOCK);
            let whole = first..(range.end / BLOCK).max(first);
            match rng.below(8) {
                0 => {
                    log.trim(from, len).unwrap();
                    bytes[whole.start * BLOCK..whole.end * BLOCK].fill(0);
                    stored[whole].fill(false);
                }
                1 => {
                    let keep = rng.ratio(1, 2);
                    log.zero(from, len, keep).unwrap();
                    bytes[range].fill(0);
                    stored[touched].fill(true);
                    if !keep {
                        stored[whole].fill(false);
                    }
                }
                2 => log.flush().unwrap(),
                3 if rng.ratio(1, 10) => {
                    cleaned += log.with_engine(|engine| engine.counters().cleaned);
                    log.close().unwrap();
                    log = LiveLog::open(medium.clone(), &options, around()).unwrap();
                    assert!(log.summary().clean);
                }
                _ => {
                    let fill: Vec<u8> = (0..len).map(|i| (i * 7 + step) as u8 | 1).collect();
                    log.write(from, &fill).unwrap();
                    bytes[range].copy_from_slice(&fill);
                    stored[touched].fill(true);
                }
            }
            let mut out = vec![0xEE; looked.len()];
            log.read(looked.start as u64, &mut out).unwrap();
            assert!(out == bytes[looked.clone()], "seed {seed}, step {step}: {looked:?}");
            let most = rng.between(1, 6) as usize;
            let found = log.extents(looked.start as u64, looked.len() as u64, most).unwrap();
            let found: Vec<(u64, bool)> = found.iter().map(|e| (e.bytes, e.hole)).collect();
            let wanted = described(&stored, looked.start, looked.len(), most);
            assert_eq!(found, wanted, "seed {seed}, step {step}: {looked:?}");
        }
        log.check().unwrap();
        cleaned += log.with_engine(|engine| engine.counters().cleaned);
        assert!(cleaned > 20, "{cleaned} segments were cleaned");
        log.close().unwrap();
    }
}
