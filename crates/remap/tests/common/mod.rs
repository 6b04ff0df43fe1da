//! A device that loses what is not flushed, and an oracle that knows what was submitted.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod both;

use block::{BlockDevice, Data, DeviceError, Lba, Op, Request, Rng, Sectors, Time};
use varve_remap::{HostLog, LogError, LogOptions, Placed, Planted};

pub const BLOCK: usize = 4096;
const SECTOR: usize = 512;

/// RAM with a volatile cache: at a cut each sector written since the last flush is any of its
/// versions.
#[derive(Clone)]
pub struct CutDevice {
    stable: Vec<u8>,
    pending: Vec<(usize, Vec<u8>)>,
    /// Writes and flushes that still work.
    pub left: Option<u64>,
    pub ops: u64,
}

impl CutDevice {
    pub fn new(blocks: u64) -> CutDevice {
        let stable = vec![0; blocks as usize * BLOCK];
        CutDevice { stable, pending: Vec::new(), left: None, ops: 0 }
    }

    fn step(&mut self) -> Result<(), DeviceError> {
        self.ops += 1;
        match &mut self.left {
            Some(0) => Err(DeviceError::PowerOff),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The power was off and is on again.
    pub fn power_cycle(mut self, seed: u64) -> CutDevice {
        let mut rng = Rng::stream(seed, "cut");
        let kind = rng.below(5);
        for (at, bytes) in std::mem::take(&mut self.pending) {
            let whole = rng.ratio(1, 2);
            for (i, sector) in bytes.chunks(SECTOR).enumerate() {
                let keep = match kind {
                    0 => false,
                    1 => true,
                    2 | 3 => whole,
                    _ => rng.ratio(1, 2),
                };
                if keep {
                    let at = at + i * SECTOR;
                    self.stable[at..at + sector.len()].copy_from_slice(sector);
                }
            }
        }
        self.left = None;
        self
    }

    /// Changes a block on the medium.
    pub fn damage(&mut self, block: u32) {
        assert!(self.pending.is_empty(), "damage what is flushed");
        self.stable[block as usize * BLOCK + 100] ^= 0x40;
    }
}

impl BlockDevice for CutDevice {
    fn capacity(&self) -> Sectors {
        Sectors((self.stable.len() / SECTOR) as u64)
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let start = request.lba.0 as usize * SECTOR;
        let len = request.sectors.0 as usize * SECTOR;
        assert!(start + len <= self.stable.len(), "beyond the device");
        match (request.op, request.data) {
            (Op::Write, Data::Write(bytes)) => {
                self.step()?;
                self.pending.push((start, bytes.to_vec()));
            }
            (Op::Write, Data::None) => self.step()?,
            (Op::Read, Data::Read(out)) => {
                out.copy_from_slice(&self.stable[start..start + len]);
                for (from, bytes) in &self.pending {
                    let (a, b) = (start.max(*from), (start + len).min(from + bytes.len()));
                    if a < b {
                        out[a - start..b - start].copy_from_slice(&bytes[a - from..b - from]);
                    }
                }
            }
            (Op::Read, Data::None) => {}
            (Op::Flush, _) => {
                self.step()?;
                for (at, bytes) in std::mem::take(&mut self.pending) {
                    self.stable[at..at + bytes.len()].copy_from_slice(&bytes);
                }
            }
            // A discard leaves what it likes: zeroes, later.
            (Op::Discard, _) => self.pending.push((start, vec![0; len])),
            _ => return Err(DeviceError::Unsupported("payload")),
        }
        Ok(at)
    }
}

/// What one request did.
#[derive(Clone, Debug)]
pub enum Done {
    Write { first: u32, count: u32, version: usize },
    Trim { first: u32, count: u32 },
}

/// All requests, in order, and how many are known to be durable.
#[derive(Clone, Default)]
pub struct Oracle {
    pub done: Vec<Done>,
    pub durable: usize,
    /// Versions never come twice: what was dropped must not come back unseen.
    pub versions: usize,
}

/// Contents of block `lpn` as request `version` (from 1) wrote it.
pub fn fill(lpn: u32, version: usize, out: &mut [u8]) {
    let mut rng = Rng::new(u64::from(lpn) << 32 | version as u64);
    out[..8].copy_from_slice(&(version as u64).to_le_bytes());
    out[8..12].copy_from_slice(&lpn.to_le_bytes());
    for chunk in out[12..].chunks_mut(8) {
        let word = rng.next_u64().to_le_bytes();
        let n = chunk.len();
        chunk.copy_from_slice(&word[..n]);
    }
}

/// The version a block holds; 0 for zeroes. Panics on anything that was never written there.
pub fn version(lpn: u32, block: &[u8]) -> usize {
    if block.iter().all(|b| *b == 0) {
        return 0;
    }
    let version = u64::from_le_bytes(block[..8].try_into().unwrap()) as usize;
    let mut expected = vec![0; BLOCK];
    assert!(version < 1 << 40, "block {lpn} holds garbage");
    fill(lpn, version, &mut expected);
    assert!(block == expected, "block {lpn} holds something else than version {version}");
    version
}

impl Done {
    fn parts(&self) -> (u32, u32, usize) {
        match self {
            Done::Write { first, count, version } => (*first, *count, *version),
            Done::Trim { first, count } => (*first, *count, 0),
        }
    }
}

impl Oracle {
    /// Versions of all blocks after the first `n` requests.
    pub fn state(&self, n: usize, blocks: u32) -> Vec<usize> {
        let mut state = vec![0; blocks as usize];
        for done in &self.done[..n] {
            let (first, count, version) = done.parts();
            state[first as usize..(first + count) as usize].fill(version);
        }
        state
    }

    /// How many requests the found state holds: it must be a prefix, and hold what is durable.
    pub fn prefix(&self, found: &[usize]) -> usize {
        let blocks = found.len() as u32;
        let mut state = self.state(self.durable, blocks);
        let mut differ = state.iter().zip(found).filter(|(a, b)| a != b).count();
        let mut n = self.durable;
        while differ > 0 {
            assert!(n < self.done.len(), "the state is no prefix of what was submitted");
            let (first, count, version) = self.done[n].parts();
            for lpn in first as usize..(first + count) as usize {
                differ -= usize::from(state[lpn] != found[lpn]);
                state[lpn] = version;
                differ += usize::from(state[lpn] != found[lpn]);
            }
            n += 1;
        }
        n
    }
}

/// Small segments, so that short runs meet everything.
pub fn small(pairs: &[(&str, &str)]) -> LogOptions {
    let mut options = LogOptions::default();
    for (name, value) in [("segment", "64 KiB"), ("gc.batch", "5"), ("atomic_max", "24 KiB")] {
        options.set(name, value).unwrap();
    }
    for (name, value) in pairs {
        options.set(name, value).unwrap();
    }
    options
}

pub fn lba(lpn: u32) -> Lba {
    Lba(u64::from(lpn) * 8)
}

pub fn sectors(blocks: u32) -> Sectors {
    Sectors(u64::from(blocks) * 8)
}

/// Reads all blocks and says which versions they hold.
pub fn read_all(device: &mut impl BlockDevice, at: Time) -> Vec<usize> {
    let blocks = (device.capacity().0 / 8) as u32;
    let mut out = vec![0; BLOCK];
    (0..blocks)
        .map(|lpn| {
            let request = Request::read(lba(lpn), sectors(1)).with(Data::Read(&mut out));
            device.submit(at, request).unwrap_or_else(|e| panic!("block {lpn}: {e}"));
            version(lpn, &out)
        })
        .collect()
}

/// One random request; books it before it is submitted, as a cut may keep it.
pub fn random_step(
    device: &mut impl BlockDevice,
    at: Time,
    oracle: &mut Oracle,
    rng: &mut Rng,
    hot: u32,
) -> Result<(), DeviceError> {
    let first =
        if rng.ratio(1, 2) { rng.below(u64::from(hot) / 4) } else { rng.below(u64::from(hot)) };
    let first = first as u32;
    match rng.below(20) {
        0 => {
            device.submit(at, Request::flush())?;
            oracle.durable = oracle.done.len();
        }
        1 => {
            let count = (1 + rng.below(9) as u32).min(hot - first);
            oracle.done.push(Done::Trim { first, count });
            device.submit(at, Request::discard(lba(first), sectors(count)))?;
        }
        n => {
            let count = (1 + rng.below(6) as u32).min(hot - first);
            oracle.versions += 1;
            let version = oracle.versions;
            let mut bytes = vec![0; count as usize * BLOCK];
            for (i, block) in bytes.chunks_mut(BLOCK).enumerate() {
                fill(first + i as u32, version, block);
            }
            oracle.done.push(Done::Write { first, count, version });
            let mut request = Request::write(lba(first), sectors(count));
            request.fua = n == 2;
            request.hint.stream = block::StreamId((first % 7) as u8);
            device.submit(at, request.with(Data::Write(&bytes)))?;
            if n == 2 {
                oracle.durable = oracle.done.len();
            }
        }
    }
    Ok(())
}

/// A device that is lent: it comes back when the log is gone.
pub struct Lent<'a>(pub &'a mut CutDevice);

impl BlockDevice for Lent<'_> {
    fn capacity(&self) -> Sectors {
        self.0.capacity()
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        self.0.submit(at, request)
    }
}

/// Cuts, one after the other, on one device.
pub struct Cuts {
    device: CutDevice,
    options: LogOptions,
    planted: Option<Planted>,
    oracle: Oracle,
    rng: Rng,
    placed: Option<Placed>,
}

impl Cuts {
    pub fn new(seed: u64, pairs: &[(&str, &str)], planted: Option<Planted>) -> Cuts {
        let (mut device, options) = (CutDevice::new(1000), small(pairs));
        HostLog::format_with(Lent(&mut device), &options, planted.into()).unwrap();
        Cuts {
            device,
            options,
            planted,
            oracle: Oracle::default(),
            rng: Rng::stream(seed, "crash"),
            placed: None,
        }
    }

    /// Whether the last log had the heads of a placement.
    pub fn separates(&self, placement: &str) -> bool {
        let mut asked = small(&[]);
        asked.set("placement", placement).unwrap();
        self.placed == Some(asked.placement)
    }

    /// The next logs place blocks so.
    pub fn place(&mut self, placement: &str) {
        self.options.set("placement", placement).unwrap();
    }

    fn power_cycle(&mut self) {
        let device = std::mem::replace(&mut self.device, CutDevice::new(1));
        self.device = device.power_cycle(self.rng.next_u64());
    }

    /// Opens, is cut `nested` times while opening, opens, checks; then works until the next cut.
    pub fn round(&mut self, nested: u64, steps: u64) {
        for _ in 0..nested {
            self.device.left = Some(self.rng.below(12));
            let lent = Lent(&mut self.device);
            drop(HostLog::open_with(lent, Time::ZERO, &self.options, self.planted.into()));
            self.power_cycle();
        }
        let lent = Lent(&mut self.device);
        let mut log =
            HostLog::open_with(lent, Time::ZERO, &self.options, self.planted.into()).unwrap();
        assert_eq!(log.read_only(), None, "{:?}", log.summary());
        log.check().unwrap();
        self.placed = Some(log.engine().placement().0);
        let at = log.now();
        let found = read_all(&mut log, at);
        let (n, blocks) = (self.oracle.prefix(&found), found.len() as u32);
        assert_eq!(found, self.oracle.state(n, blocks));
        // What was dropped never happened, and what is here is here to stay.
        self.oracle.done.truncate(n);
        self.oracle.durable = n;
        log.device_mut().0.left = Some(self.rng.below(steps));
        loop {
            let at = log.now();
            if random_step(&mut log, at, &mut self.oracle, &mut self.rng, blocks).is_err() {
                break;
            }
            if self.rng.ratio(1, 60) {
                // The map in memory is the one that recovery would build (I7).
                match log.check_media() {
                    Ok(report) => assert_eq!(report.damaged, []),
                    Err(LogError::Device(_)) => break,
                    Err(error) => panic!("{error}"),
                }
                self.oracle.durable = self.oracle.done.len();
            }
        }
        let failed = log.check_counts();
        drop(log);
        failed.unwrap();
        self.power_cycle();
    }
}
