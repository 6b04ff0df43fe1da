//! What fixed loads cost, to the page and the nanosecond. When a line is cleaned and which, where a page goes,
//! when a page group is programmed: none of that changes what is read, so no model of contents notices when it
//! becomes worse. The figures of the documents stand on it. Whoever changes a cost on purpose changes
//! `costs.txt` with it; a failing test prints the lines as they are now.

use block::{
    BlockDevice, BlockId, Data, DeviceError, Lba, Lpn, Remap, Request, Rng, Sectors, Span,
    StreamId, Time, Transactional, TxError, TxId,
};
use nand::{Fault, FaultPlan};
use varve_ssd::{Config, Drive};

const WANTED: &str = include_str!("costs.txt");

const SMALL: [&str; 8] = [
    "geometry.channels=2",
    "geometry.dies=1",
    "geometry.pages=8",
    "capacity=1 MiB",
    "op=80 %",
    "nand.oob=full",
    "buffer.policy=lru",
    "buffer.size=32 KiB",
];

/// Loads without transactions.
const PLAIN: &[&[&str]] = &[
    &[],
    &["buffer.policy=none", "buffer.size=0"],
    &["geometry.page=16 KiB", "capacity=2 MiB"],
    &["geometry.page=16 KiB", "unit=16 KiB", "capacity=2 MiB"],
    &["geometry.page=8 KiB", "unit=32 KiB", "capacity=2 MiB"],
    &["geometry.planes=2", "nand.one_shot=on", "geometry.cell_bits=2", "capacity=2 MiB"],
    &["geometry.cell_bits=2", "nand.page_types=lsb-msb", "op=150 %", "geometry.pages=16"],
    &["nand.cache_ops=on", "gc.pace=burst"],
    &["ckpt.mode=interval"],
    &["ckpt.mode=interval", "geometry.page=16 KiB", "capacity=4 MiB"],
    &["map.mode=paged", "map.cache=8 KiB", "op=150 %", "capacity=8 MiB"],
    &[
        "map.mode=paged",
        "map.cache=16 KiB",
        "map.evict=lru",
        "ckpt.mode=interval",
        "op=150 %",
        "geometry.page=8 KiB",
        "capacity=16 MiB",
    ],
    &["streams.policy=hotcold", "streams.count=2", "op=120 %"],
    &["gc.victim=fifo", "line=die"],
    &["gc.victim=cost-benefit", "wl.mode=dynamic+static", "wl.delta=2", "wl.period=10"],
    &["gc.victim=age-threshold(50)"],
    &["gc.victim=random"],
    &["gc.victim=dchoice(3)"],
    &["gc.victim=windowed(8)"],
    &["nand.suspend=both", "nand.t_suspend=5 us", "gc.background=on", "gc.idle=1 us"],
    &["placement=dynamic"],
    &["placement=static", "line=superblock"],
    &["bad.reserve=10 %", "bad.factory=3 %"],
    &["streams.policy=hotcold", "streams.count=2", "gc.per_stream=on", "op=150 %"],
    &["streams.policy=hint", "streams.count=3", "gc.per_stream=on", "op=150 %"],
    &["streams.policy=lifetime", "op=150 %"],
    &["geometry.pages=64", "capacity=8 MiB", "op=40 %", "gc.exact=on", "buffer.size=64 KiB"],
    &["geometry.pages=64", "capacity=8 MiB", "op=40 %", "gc.exact=off", "buffer.size=64 KiB"],
    &[
        "ckpt.mode=interval",
        "geometry.cell_bits=2",
        "nand.page_types=lsb-msb",
        "geometry.pages=16",
        "op=150 %",
    ],
    &["ckpt.mode=interval", "capacity=64 MiB"],
    &["map.mode=paged", "map.cache=16 KiB", "ckpt.mode=interval", "op=150 %", "capacity=64 MiB"],
    &["geometry.planes=2", "nand.multi_plane=on", "placement=dynamic", "capacity=2 MiB"],
    &["wl.mode=dynamic+static", "wl.delta=1", "wl.period=4", "op=30 %", "capacity=2 MiB"],
];

/// Loads whose array fails now and then, as [`failing`] says.
const FAILING: &[&[&str]] = &[
    &["bad.reserve=12 %", "op=100 %"],
    &["bad.reserve=12 %", "op=100 %", "line=superblock"],
    &["bad.reserve=12 %", "geometry.page=16 KiB", "capacity=2 MiB"],
    &["bad.reserve=12 %", "op=150 %", "ckpt.mode=interval"],
    &["bad.reserve=12 %", "map.mode=paged", "map.cache=8 KiB", "op=150 %", "capacity=8 MiB"],
    &["bad.reserve=12 %", "wl.mode=dynamic+static", "wl.delta=2", "wl.period=10", "op=60 %"],
];

/// Cleaning at once, with what must be moved whatever it gains; the last on an array that fails.
const BURSTS: &[&[&str]] = &[
    &["gc.pace=burst", "wl.mode=dynamic+static", "wl.delta=2", "wl.period=10", "op=60 %"],
    &["gc.pace=burst", "wl.mode=dynamic+static", "wl.delta=1", "wl.period=1", "op=30 %"],
    &["gc.pace=burst", "bad.reserve=12 %", "op=100 %"],
];

/// Loads of transactions.
const TRANSACTIONAL: &[&[&str]] = &[
    &["tx.mode=nolog"],
    &["tx.mode=nolog", "tx.commit=barrier"],
    &["tx.mode=nolog", "tx.lock=hard"],
    &["tx.mode=nolog", "tx.lock=ignore", "buffer.policy=none", "buffer.size=0"],
    &["tx.mode=nolog", "tx.pairs=3", "tx.losers=4", "tx.max_open=4", "tx.pages=60", "op=200 %"],
    &["tx.mode=nolog", "geometry.page=16 KiB", "capacity=2 MiB"],
    &["tx.mode=nolog", "wl.mode=dynamic+static", "wl.delta=2", "wl.period=10", "op=60 %"],
    &["tx.mode=nolog", "streams.policy=hotcold", "streams.count=2", "op=150 %"],
    &["tx.mode=nolog", "streams.policy=lifetime", "gc.victim=cost-benefit", "op=150 %"],
    &["tx.mode=nolog", "nand.one_shot=on", "geometry.cell_bits=2", "capacity=2 MiB", "op=100 %"],
];
/// The same on an array that fails now and then.
const FAILING_TRANSACTIONS: &[&[&str]] = &[
    &["tx.mode=nolog", "bad.reserve=30 %", "op=180 %"],
    &[
        "tx.mode=nolog",
        "bad.reserve=30 %",
        "op=180 %",
        "tx.pairs=3",
        "tx.losers=4",
        "tx.max_open=4",
        "geometry.page=8 KiB",
    ],
    &[
        "tx.mode=nolog",
        "bad.reserve=30 %",
        "op=200 %",
        "line=superblock",
        "buffer.policy=none",
        "buffer.size=0",
    ],
];
/// The paper's literal rules: a cut may break them, so there is none but behind a clean stop.
const PAPER: &[&str] = &["tx.mode=paper"];

struct Load {
    name: String,
    drive: Drive,
    at: Time,
    rng: Rng,
    /// Where half of the writes go.
    hot: u64,
    pages: u64,
    /// Transactions that are open.
    open: Vec<TxId>,
    paper: bool,
    failing: bool,
    /// What transactions saw of their own pages.
    seen: u64,
}

/// One more of a row of numbers.
fn fold(so_far: u64, number: u64) -> u64 {
    (so_far ^ number).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23)
}

/// Programs and erases that fail or do something else, reads that need more time; none of them takes data.
fn failing() -> FaultPlan {
    let mut faults = Vec::new();
    for n in 1..8 {
        faults.push(Fault::ProgramFail { at: 451 * n, always: n % 3 == 0 });
        faults.push(Fault::ReadRetry { read: 97 * n, steps: 1 + n as u32 % 3 });
        faults.push(Fault::StuckOp { at: 333 * n, span: Span::from_us(900) });
    }
    faults.push(Fault::EraseFail { at: 800 });
    faults.push(Fault::EraseFail { at: 2_100 });
    faults.push(Fault::BadBlock { block: BlockId(5) });
    FaultPlan { faults }
}

impl Load {
    fn new(pairs: &[&str], seed: u64) -> Load {
        let mut config = Config::default();
        for pair in SMALL.iter().chain(pairs) {
            config.set_pair(pair).unwrap();
        }
        let params = config.resolve().unwrap_or_else(|e| panic!("{pairs:?}: {e}"));
        let pages = params.logical_pages as u64;
        let name = if pairs.is_empty() { "as it comes".to_string() } else { pairs.join(", ") };
        let failing = FAILING.contains(&pairs)
            || FAILING_TRANSACTIONS.contains(&pairs)
            || BURSTS.last() == Some(&pairs);
        let faults = if failing { self::failing() } else { FaultPlan::none() };
        let drive = Drive::with_faults(&params, &faults).unwrap();
        let (rng, paper) = (Rng::new(seed), pairs == PAPER);
        let (at, open, seen) = (Time::ZERO, Vec::new(), 0);
        // Of a large drive a part is never written.
        let pages = if pages > 4_096 { pages / 8 } else { pages };
        Load { name, drive, at, rng, hot: pages / 8, pages, open, paper, failing, seen }
    }

    fn page(&mut self) -> u64 {
        let below = if self.rng.ratio(1, 2) { self.hot } else { self.pages };
        self.rng.below(below)
    }

    fn submit(&mut self, request: Request<'_>) {
        match self.drive.submit(self.at, request) {
            Ok(done) => self.at = self.at.max(done),
            Err(DeviceError::InTransaction(_)) => {}
            Err(error) => panic!("{}: {error}", self.name),
        }
    }

    /// A request that is no part of a transaction; now and then nothing for a while.
    fn plain(&mut self) {
        let page = self.page();
        let count = self.rng.between(1, 5.min(self.pages - page));
        let (lba, sectors) = (Lba(page * 8), Sectors(count * 8));
        match self.rng.below(24) {
            0 => self.submit(Request::flush()),
            1 => self.submit(Request::discard(lba, sectors)),
            2..6 => self.submit(Request::read(lba, sectors)),
            6 => self.at += Span::from_us(3_000),
            n => {
                let stamps = vec![self.rng.next_u64() | 1; count as usize];
                let mut write = Request::write(lba, sectors).with(Data::WriteStamps(&stamps));
                write.hint.stream = StreamId((page % 4) as u8);
                self.submit(if n == 7 { write.with_fua() } else { write });
            }
        }
    }

    /// Some pages together, or not at all, while others are open.
    fn transaction(&mut self) -> Result<(), TxError> {
        let tid = self.drive.tx_begin()?;
        for _ in 0..self.rng.between(1, 6) {
            let (page, stamp) = (Lpn(self.page() as u32), [self.rng.next_u64() | 1]);
            let done = match !self.paper && self.rng.ratio(1, 8) {
                true => self.drive.tx_trim(self.at, tid, page, 1),
                false => self.drive.tx_write(self.at, tid, page, Data::WriteStamps(&stamp)),
            };
            match done {
                Ok(done) => self.at = self.at.max(done),
                Err(TxError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        // What it has written, and perhaps what another has.
        for page in [self.page(), self.hot / 2] {
            let mut out = [0];
            let into = Data::ReadStamps(&mut out);
            match self.drive.tx_read(self.at, tid, Lpn(page as u32), into) {
                Ok(done) => self.at = self.at.max(done),
                Err(TxError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
            self.seen = fold(self.seen, out[0]);
        }
        self.open.push(tid);
        if self.open.len() < 3 {
            return Ok(());
        }
        let tid = self.open.remove(self.rng.below(3) as usize);
        let done = match self.rng.below(5) {
            0 => self.drive.tx_abort(self.at, tid)?,
            1 if !self.paper => {
                let other = self.open.remove(0);
                self.drive.tx_commit(self.at, &[tid, other])?
            }
            _ => self.drive.tx_commit(self.at, &[tid])?,
        };
        self.at = self.at.max(done);
        Ok(())
    }

    /// Some pages take the names of others.
    fn rename(&mut self) -> Result<(), TxError> {
        let half = (self.pages / 2) as u32;
        let pairs: Vec<(Lpn, Lpn)> = (0..self.rng.between(1, 5))
            .map(|_| self.rng.below(u64::from(half)) as u32)
            .map(|to| (Lpn(to), Lpn(half + to)))
            .collect();
        match self.drive.remap(self.at, &pairs) {
            Ok(done) => self.at = self.at.max(done),
            Err(TxError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// A cut, and a power-on.
    fn power_cycle(self) -> Load {
        let params = self.drive.params().clone();
        let (image, _) = self.drive.power_cut();
        let drive = Drive::mount(&params, image).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        Load { at: drive.now(), drive, open: Vec::new(), ..self }
    }

    /// What is in every page.
    fn contents(&self) -> u64 {
        let mut drive = self.drive.clone();
        (0..self.pages).fold(0, |so_far, page| {
            let mut out = [0];
            let read = Request::read(Lba(page * 8), Sectors(8)).with(Data::ReadStamps(&mut out));
            match drive.submit(self.at, read) {
                Ok(_) | Err(DeviceError::InTransaction(_)) => fold(so_far, out[0]),
                Err(DeviceError::Unreadable(_)) if self.paper => fold(so_far, u64::MAX),
                Err(error) => panic!("{}: page {page}: {error}", self.name),
            }
        })
    }

    /// What was done since the last power-on, and what that took.
    fn costs(&self) -> String {
        // By the paper's rules an old page may be another's by then.
        if !(self.paper && self.drive.stats().recovery.is_some()) {
            self.drive.check().unwrap_or_else(|e| panic!("{}: {e}", self.name));
        }
        let stats = self.drive.stats();
        let (nand, gc, map, wear) = (&stats.nand, &stats.gc, &stats.map, &stats.wear);
        let mut said = format!(
            "programs {:?} in {} pages, reads {:?}, erases {} ({} to {})",
            nand.programs, nand.page_programs, nand.reads, nand.erases, wear.min, wear.max
        );
        said += &format!(
            ", cleaned {} ({} idle, {} urgent), moved {} ({} for wear)",
            gc.victims, gc.background, gc.foreground, gc.pages, gc.wl_pages
        );
        if map.hits > 0 {
            said += &format!(", map {}/{}/{}", map.hits, map.misses, map.dirty_evictions);
        }
        if let Some(tx) = self.drive.tx_stats() {
            said += &format!(
                ", records {} ({} for erases, {} for commits), {} of names, held {}, passed over {}, lost {}",
                tx.records,
                tx.records_gc,
                tx.records_commit,
                tx.remap_records,
                tx.held_replaced,
                tx.skipped,
                tx.losers
            );
        }
        if let Some(recovery) = stats.recovery {
            let ns = recovery.time.as_ns();
            said += &format!(", power-on: {} pages in {ns} ns", recovery.pages_read);
        }
        if self.failing {
            said += &format!(", bad {}, retries {}", stats.bad_blocks, nand.retries);
        }
        if self.seen != 0 {
            said += &format!(", seen {:016x}", self.seen);
        }
        let (at, free, events) = (self.at.as_ns(), stats.effective_units, stats.event_hash);
        let contents = self.contents();
        said + &format!(
            ", effective {free}, at {at} ns, events {events:016x}, contents {contents:016x}"
        )
    }
}

/// Both parts of a load, with a cut between them and a clean stop at the end.
fn run(pairs: &[&str], seed: u64, step: fn(&mut Load)) -> Vec<String> {
    let mut load = Load::new(pairs, seed);
    (0..1_500).for_each(|_| step(&mut load));
    let mut found = vec![format!("{}: {}", load.name, load.costs())];
    let stop = |load: &mut Load| {
        load.at = load.drive.shutdown(load.at).unwrap_or_else(|e| panic!("{pairs:?}: {e}"));
    };
    match load.paper {
        false => {
            load = load.power_cycle();
            (0..1_000).for_each(|_| step(&mut load));
            stop(&mut load);
            found.push(format!("{}, after a cut: {}", load.name, load.costs()));
        }
        true => {
            for tid in std::mem::take(&mut load.open) {
                load.at = load.drive.tx_commit(load.at, &[tid]).unwrap();
            }
            stop(&mut load);
            load = load.power_cycle();
            found.push(format!("{}, after a stop: {}", load.name, load.costs()));
        }
    }
    found
}

fn transactional(load: &mut Load) {
    let done = match load.rng.below(12) {
        0..7 => load.transaction(),
        7 if !load.paper => load.rename(),
        _ => {
            load.plain();
            Ok(())
        }
    };
    done.unwrap_or_else(|e| panic!("{}: {e}", load.name));
}

#[test]
fn a_fixed_load_costs_what_it_did() {
    let plain = PLAIN.iter().chain(FAILING).chain(BURSTS);
    let plain = (1..).zip(plain).flat_map(|(seed, pairs)| run(pairs, seed, Load::plain));
    let all = TRANSACTIONAL.iter().chain(FAILING_TRANSACTIONS).chain(std::iter::once(&PAPER));
    let tagged = (100..).zip(all).flat_map(|(seed, pairs)| run(pairs, seed, transactional));
    let found: Vec<String> = plain.chain(tagged).collect();
    println!("{}", found.join("\n"));
    for (found, wanted) in found.iter().zip(WANTED.lines()) {
        assert_eq!(found, wanted);
    }
    assert_eq!(found.len(), WANTED.lines().count());
}
