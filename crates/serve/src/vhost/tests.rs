//! Chains as a driver makes them, and as one does that has lost its mind.

use std::sync::Arc;

use block::Rng;
use stack::disk::{Capabilities, Disk, DiskError, Done, Extent, RamDisk};
use vhost_user_backend::VhostUserBackend;
use virtio_queue::desc::{RawDescriptor, split::Descriptor};
use virtio_queue::mock::MockSplitQueue;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};

use super::config::{WRITEBACK_AT, feature};
use super::device::Device;
use super::request::{Chain, Target, failed};
use super::server::Options;
use super::stats::Counts;

const MEMORY: u64 = 512 << 10;
const DISK: u64 = 1 << 20;
/// Where headers, data and statuses are put; the ring lies before.
const AREA: u64 = 64 << 10;
const RING: u16 = 256;
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// A part of a chain: address, bytes, whether the device writes.
type Part = (u64, u32, bool);

struct Driver {
    memory: GuestMemoryAtomic<GuestMemoryMmap>,
    disk: Arc<dyn Disk>,
    block: u32,
    forced: bool,
    counts: Counts,
    buffer: Vec<u8>,
}

impl Driver {
    fn new(disk: Arc<dyn Disk>) -> Driver {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY as usize)]).unwrap();
        let memory = GuestMemoryAtomic::new(memory);
        Driver {
            memory,
            disk,
            block: 512,
            forced: false,
            counts: Counts::default(),
            buffer: Vec::new(),
        }
    }

    /// The chains that these descriptors begin, one at each of the `heads`.
    fn chains(&self, all: &[RawDescriptor], heads: &[u16]) -> Vec<Chain> {
        let memory = self.memory.memory();
        let ring = MockSplitQueue::create(&*memory, GuestAddress(0), RING);
        for (i, one) in (0..).zip(all) {
            ring.desc_table().store(i, *one).unwrap();
        }
        for (i, head) in heads.iter().enumerate() {
            ring.avail().ring().ref_at(i).unwrap().store(head.to_le());
        }
        ring.avail().idx().store((heads.len() as u16).to_le());
        let mut queue: Queue = ring.create_queue().unwrap();
        queue.set_ready(true);
        // A ring that makes no sense is not walked at all.
        queue.iter(memory).map(Iterator::collect).unwrap_or_default()
    }

    /// Serves the chains: what each was given back with.
    fn serve(&mut self, all: &[RawDescriptor], heads: &[u16]) -> Vec<(u32, Done)> {
        let (memory, chains) = (self.memory.memory(), self.chains(all, heads));
        let target = Target { disk: &*self.disk, block: self.block, forced: self.forced };
        let mut served = Vec::new();
        for chain in &chains {
            served.push(target.serve(&memory, chain, &mut self.buffer, &mut self.counts));
        }
        served
    }

    /// One chain of these parts: its status, and the bytes that it says were written.
    fn ask(&mut self, parts: &[Part]) -> (u8, u32) {
        let last = parts.len() - 1;
        let one = |(i, (at, bytes, write)): (usize, &Part)| {
            let flags = if i < last { NEXT } else { 0 } | if *write { WRITE } else { 0 };
            RawDescriptor::from(Descriptor::new(*at, *bytes, flags, i as u16 + 1))
        };
        let all: Vec<_> = parts.iter().enumerate().map(one).collect();
        let served = self.serve(&all, &[0]);
        let (at, bytes, _) = parts[last];
        let status = GuestAddress(at + u64::from(bytes) - 1);
        (self.memory.memory().read_obj(status).unwrap(), served[0].0)
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.memory().write_slice(bytes, GuestAddress(at)).unwrap();
    }
    fn get(&self, at: u64, bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        self.memory.memory().read_slice(&mut out, GuestAddress(at)).unwrap();
        out
    }
    fn header(&self, kind: u32, sector: u64) -> Part {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[8..].copy_from_slice(&sector.to_le_bytes());
        self.put(AREA, &bytes);
        (AREA, 16, false)
    }
}

const STATUS: Part = (AREA + 32, 1, true);
const DATA: u64 = AREA + 4096;

fn ram() -> Arc<RamDisk> {
    Arc::new(RamDisk::new(DISK).unwrap())
}

fn contents(disk: &dyn Disk) -> Vec<u8> {
    let mut all = vec![0; DISK as usize];
    disk.read(0, &mut all).unwrap().wait().unwrap();
    all
}

#[test]
fn requests_are_done_and_answered() {
    let disk = ram();
    let mut driver = Driver::new(Arc::clone(&disk) as _);
    let bytes: Vec<u8> = (0..8192u32).map(|i| (i * 7) as u8).collect();
    driver.put(DATA, &bytes);
    // The data of one request in three parts, the header in two.
    let (at, _, _) = driver.header(1, 10);
    let parts = [
        (at, 9, false),
        (at + 9, 7, false),
        (DATA, 1000, false),
        (DATA + 1000, 7192, false),
        STATUS,
    ];
    assert_eq!(driver.ask(&parts), (0, 1));
    assert_eq!(contents(&*disk)[5120..13312], bytes);
    // Read back into parts, the last of which has the status behind data.
    driver.put(DATA, &[0; 8192]);
    let head = driver.header(0, 11);
    let parts = [head, (DATA, 300, true), (DATA + 300, 7380 + 1, true)];
    assert_eq!(driver.ask(&parts), (0, 7681));
    assert_eq!(driver.get(DATA, 7680), bytes[512..]);
    assert_eq!(driver.ask(&[driver.header(4, u64::MAX), STATUS]), (0, 1), "FLUSH has no address");
    let (status, _) = driver.ask(&[driver.header(8, 0), (DATA, 20, true), STATUS]);
    assert_eq!((status, &driver.get(DATA, 6)[..]), (0, &b"varve\0"[..]));
    // DISCARD and WRITE ZEROES: sector, sectors, flags.
    let range = |sector: u64, sectors: u32, flags: u32| {
        let mut bytes = sector.to_le_bytes().to_vec();
        bytes.extend(sectors.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes
    };
    driver.put(DATA, &[range(10, 1, 1), range(12, 2, 0)].concat());
    assert_eq!(driver.ask(&[driver.header(13, 0), (DATA, 32, false), STATUS]).0, 0);
    let now = contents(&*disk);
    assert!(now[5120..5632].iter().chain(&now[6144..7168]).all(|byte| *byte == 0));
    assert_eq!(now[5632..6144], bytes[512..1024]);
    driver.put(DATA, &range(0, 2048, 0));
    assert_eq!(driver.ask(&[driver.header(11, 0), (DATA, 16, false), STATUS]).0, 0);
    assert!(contents(&*disk).iter().all(|byte| *byte == 0));
    let Counts { reads, writes, flushes, trims, zeroes, errors, broken, .. } = driver.counts;
    assert_eq!([reads, writes, flushes, trims, zeroes, errors, broken], [1, 1, 1, 1, 2, 0, 0]);
}

#[test]
fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let disk = ram();
    disk.write(0, &vec![0xa5; DISK as usize], false).unwrap().wait().unwrap();
    let before = contents(&*disk);
    let mut driver = Driver::new(Arc::clone(&disk) as _);
    let end = DISK / 512;
    let data = |bytes| (DATA, bytes, false);
    for (what, kind, sector, part, status) in [
        ("behind the end", 1, end, data(512), 1),
        ("over the end", 1, end - 1, data(1024), 1),
        ("beyond all numbers", 1, u64::MAX, data(512), 1),
        ("a part of a sector", 1, 0, data(100), 1),
        ("an unknown request", 77, 0, data(512), 2),
        ("a read behind the end", 0, end, (DATA, 512, true), 1),
        ("a range that is none", 11, 0, data(15), 1),
        ("no range", 13, 0, data(0), 1),
    ] {
        let head = driver.header(kind, sector);
        let parts = if part.1 == 0 { vec![head, STATUS] } else { vec![head, part, STATUS] };
        assert_eq!(driver.ask(&parts), (status, 1), "{what}");
    }
    // The second range is behind the end, or has a flag that nobody knows: the first is not done either.
    for (sector, flags, status) in [(end, 0u32, 1), (8, 2, 2)] {
        let mut ranges = [0u8; 32];
        ranges[8] = 8;
        ranges[16..24].copy_from_slice(&sector.to_le_bytes());
        ranges[24] = 1;
        ranges[28..].copy_from_slice(&flags.to_le_bytes());
        driver.put(DATA, &ranges);
        assert_eq!(driver.ask(&[driver.header(13, 0), data(32), STATUS]).0, status);
    }
    driver.block = 4096;
    assert_eq!(driver.ask(&[driver.header(1, 1), data(4096), STATUS]).0, 1, "between two blocks");
    assert_eq!(driver.ask(&[driver.header(1, 8), data(512), STATUS]).0, 1, "a part of a block");
    assert_eq!(contents(&*disk), before);
    assert_eq!(driver.counts.errors, 12);
    // A chain without a place for its status is handed back as it is; one of which the rest is in no memory has one.
    let head = driver.header(1, 0);
    let word = |flags, at, bytes| RawDescriptor::from(Descriptor::new(at, bytes, flags, 1));
    let back = driver.serve(&[word(0, head.0, 16)], &[0]);
    assert!(matches!(&back[..], [(0, done)] if done.due().is_none()), "{back:?}");
    assert_eq!(driver.serve(&[word(NEXT, head.0, 16), word(WRITE, MEMORY, 1)], &[0])[0].0, 0);
    assert_eq!(driver.counts.broken, 2);
    assert_eq!(driver.ask(&[(MEMORY, 16, false), STATUS]), (1, 1));
    // A header that is too short has a status.
    assert_eq!(driver.ask(&[(head.0, 15, false), STATUS]), (1, 1));
}

/// The power went before its answer was due: nothing of it is to be believed.
#[test]
fn a_chain_that_was_served_is_made_one_that_failed() {
    let mut driver = Driver::new(ram());
    let (at, bytes, _) = driver.header(0, 0);
    let one = |at, bytes, flags, next| RawDescriptor::from(Descriptor::new(at, bytes, flags, next));
    let all =
        [one(at, bytes, NEXT, 1), one(DATA, 512, NEXT | WRITE, 2), one(STATUS.0, 1, WRITE, 0)];
    assert_eq!(driver.serve(&all, &[0])[0].0, 513);
    assert_eq!(driver.get(STATUS.0, 1), [0]);
    let chains = driver.chains(&all, &[0]);
    assert_eq!(failed(chains[0].memory(), &chains[0]), 1);
    assert_eq!(driver.get(STATUS.0, 1), [1]);
    // One without a place for its status has none.
    let none = driver.chains(&[one(at, bytes, 0, 0)], &[0]);
    assert_eq!(failed(none[0].memory(), &none[0]), 0);
}

/// Says how it was asked to write.
#[derive(Debug)]
struct Told(RamDisk, std::sync::Mutex<Vec<bool>>);

impl Disk for Told {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
    fn read(&self, at: u64, into: &mut [u8]) -> Result<Done, DiskError> {
        self.0.read(at, into)
    }
    fn write(&self, at: u64, from: &[u8], fua: bool) -> Result<Done, DiskError> {
        self.1.lock().unwrap().push(fua);
        self.0.write(at, from, fua)
    }
    fn flush(&self) -> Result<Done, DiskError> {
        Err(DiskError::PowerOff)
    }
    fn trim(&self, at: u64, bytes: u64, fua: bool) -> Result<Done, DiskError> {
        self.0.trim(at, bytes, fua)
    }
    fn zero(&self, at: u64, bytes: u64, keep: bool, fua: bool) -> Result<Done, DiskError> {
        self.1.lock().unwrap().push(fua);
        self.0.zero(at, bytes, keep, fua)
    }
    fn zero_is_fast(&self, at: u64, bytes: u64, keep: bool) -> bool {
        self.0.zero_is_fast(at, bytes, keep)
    }
    fn extents(&self, at: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DiskError> {
        self.0.extents(at, bytes, most)
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

#[test]
fn without_a_cache_what_changes_the_disk_is_forced() {
    let disk = Arc::new(Told(RamDisk::new(DISK).unwrap(), std::sync::Mutex::default()));
    let mut driver = Driver::new(Arc::clone(&disk) as _);
    for forced in [false, true] {
        driver.forced = forced;
        assert_eq!(driver.ask(&[driver.header(1, 0), (DATA, 512, false), STATUS]).0, 0);
        driver.put(DATA, &[0; 16]);
        driver.put(DATA + 8, &[1]);
        assert_eq!(driver.ask(&[driver.header(13, 0), (DATA, 16, false), STATUS]).0, 0);
    }
    assert_eq!(*disk.1.lock().unwrap(), [false, false, true, true]);
    assert_eq!(driver.counts.forced, 2);
    assert_eq!(driver.ask(&[driver.header(4, 0), STATUS]), (1, 1), "a flush that fails is told");
}

#[test]
fn the_cache_is_off_only_after_what_was_in_it_is_durable() {
    let disk = Arc::new(Told(RamDisk::new(DISK).unwrap(), std::sync::Mutex::default()));
    let device = |disk| Device::new(disk, Options::default(), Arc::default());
    // This one cannot flush: the driver is told so, and writes are forced from then on all the same.
    let of = device(Arc::clone(&disk) as _);
    assert!(of.forced(*of.writeback()), "a driver that has agreed on nothing knows of no FLUSH");
    of.acked_features(feature::FLUSH);
    assert!(!of.forced(*of.writeback()));
    assert!(of.set_config(WRITEBACK_AT as u32, &[0]).is_err());
    assert!(of.forced(*of.writeback()));
    assert_eq!(of.get_config(WRITEBACK_AT as u32, 1), [0]);
    of.reset_device();
    of.acked_features(feature::FLUSH);
    assert!(!of.forced(*of.writeback()));
    let of = device(ram() as _);
    of.acked_features(feature::FLUSH);
    for on in [0u8, 1] {
        of.set_config(WRITEBACK_AT as u32, &[on]).unwrap();
        assert_eq!(of.forced(*of.writeback()), on == 0);
    }
    // Nothing else is the driver's to change, and behind the space there is nothing.
    for (at, bytes) in [(0, &[1u8][..]), (WRITEBACK_AT as u32, &[0, 0]), (u32::MAX, &[0])] {
        assert!(of.set_config(at, bytes).is_err());
    }
    assert_eq!(of.get_config(56, 8)[4..], [0; 4]);
    assert!(of.get_config(60, 1).is_empty() && of.get_config(u32::MAX, 4).is_empty());
}

/// A million chains of drawn descriptors, most of them nearly sound: nothing panics, and where no table of
/// descriptors lies in the memory that they write, no byte changes that none of them lets the device write.
#[test]
fn drawn_rings_break_nothing() {
    let mut rng = Rng::new(5);
    let mut driver = Driver::new(ram());
    let (mut chains, mut done, mut refused) = (0u64, 0u64, 0u64);
    while chains < 1_000_000 {
        let mut all = Vec::new();
        let tables = rng.ratio(1, 2);
        let mut may = vec![false; MEMORY as usize];
        for i in 0..RING {
            let at = match rng.below(8) {
                0 => rng.next_u64(),
                1 => MEMORY - rng.below(64),
                2 => rng.below(AREA),
                _ => AREA + rng.below(256) * 512,
            };
            let bytes = match rng.below(8) {
                0 => rng.next_u64() as u32,
                1 => 0,
                2 => rng.below(64) as u32,
                3 | 4 => 16,
                _ => 512 * (1 + rng.below(8) as u32),
            };
            let flags = match rng.below(16) {
                0 => rng.below(8) as u16 & if tables { u16::MAX } else { !INDIRECT },
                1 if tables => INDIRECT,
                n => (NEXT * u16::from(n < 11)) | (WRITE * u16::from(n % 3 == 0)),
            };
            let next = if rng.ratio(1, 16) { rng.next_u64() as u16 } else { i + 1 };
            if flags & WRITE != 0 && at < MEMORY {
                let end = at.saturating_add(u64::from(bytes)).min(MEMORY);
                may[at as usize..end as usize].fill(true);
            }
            all.push(RawDescriptor::from(Descriptor::new(at, bytes, flags, next)));
        }
        for _ in 0..32 {
            let kind = [0, 0, 1, 1, 4, 8, 11, 13, rng.next_u64() as u32][rng.below(9) as usize];
            let mut head = [0; 16];
            head[..4].copy_from_slice(&kind.to_le_bytes());
            let sector = if rng.ratio(1, 8) { rng.next_u64() } else { rng.below(DISK / 512) };
            head[8..].copy_from_slice(&sector.to_le_bytes());
            driver.put(AREA + rng.below(256) * 512, &head);
        }
        let heads: Vec<u16> = (0..RING).map(|_| rng.below(300) as u16).collect();
        let before = driver.counts;
        driver.serve(&all, &[]);
        let memory = driver.get(0, MEMORY as usize);
        let served = driver.serve(&all, &heads);
        if !tables {
            let now = driver.get(0, MEMORY as usize);
            // The ring itself is laid out anew by the driver.
            let other =
                (AREA as usize..MEMORY as usize).find(|i| !may[*i] && memory[*i] != now[*i]);
            assert_eq!(other, None, "a byte that nobody may write");
        }
        chains += served.len() as u64;
        let failed = driver.counts.errors + driver.counts.broken - before.errors - before.broken;
        refused += failed;
        done += served.len() as u64 - failed;
    }
    assert!(done > 10_000 && refused > 10_000, "{done} done, {refused} refused");
}
