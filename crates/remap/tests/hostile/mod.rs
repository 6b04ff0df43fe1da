//! Damaged images of the host log: any bytes are a log or a typed error.
//!
//! Damage that is not sealed again must be missed: of an image that was closed a block reads as it was
//! written, or is an error, or the log says that it is read-only and a block is one that was written there
//! at some time. Damage that is sealed with the right checksum is a forgery: there only panics and
//! memory count. The body of a root is sealed again by both headers of the root. Not drawn: forged map pages, whose
//! checksums stand in that body.

#[path = "../../../../fuzz/src/answers.rs"]
mod answers;
#[path = "../../../../fuzz/src/draws.rs"]
mod draws;

use answers::Answers;
use block::{BlockDevice, CutDevice, Data, DiskImage, Lba, Request, Rng, Sectors, Time, crc32c};
use draws::Draws;
use varve_remap::{HostLog, LogOptions};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 1200;

/// A sound image, and what it holds.
pub struct Sample {
    image: DiskImage,
    /// Blocks that are not zeroes.
    used: Vec<u64>,
    /// Those with a magic.
    headed: Vec<u64>,
    /// Pages of the map and of its CRCs, as the roots name them.
    maps: Vec<u64>,
    /// The version that each block of the client holds; 0: zeroes.
    versions: Vec<u64>,
    /// The log was closed: nothing of it may be taken for cut short.
    closed: bool,
}

/// What came of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Refused,
    ReadOnly,
    Worked,
}

fn options() -> LogOptions {
    let mut options = LogOptions::default();
    for (name, value) in [("segment", "64 KiB"), ("gc.batch", "5"), ("verify", "read")] {
        options.set(name, value).unwrap();
    }
    options
}

/// What version `version` of a block is: the block and the version in every word.
fn content(lpn: u64, version: u64) -> Vec<u8> {
    let mut rng = Rng::new(lpn << 32 | version);
    let mut bytes = [lpn.to_le_bytes(), version.to_le_bytes()].concat();
    bytes.extend((2..BLOCK / 8).flat_map(|_| rng.next_u64().to_le_bytes()));
    bytes
}

fn sample(closed: bool) -> Sample {
    let device = CutDevice::new(Sectors(BLOCKS * 8));
    let mut log = HostLog::format(device, &options()).unwrap();
    let blocks = log.capacity().0 / 8;
    let (mut rng, mut versions) = (Rng::new(5), vec![0; blocks as usize]);
    for version in 1..1500 {
        let lpn = if rng.ratio(1, 2) { rng.below(blocks / 8) } else { rng.below(blocks) };
        let (at, lba) = (log.now(), Lba(lpn * 8));
        if rng.ratio(1, 30) {
            log.submit(at, Request::discard(lba, Sectors(8))).unwrap();
            versions[lpn as usize] = 0;
        } else {
            let bytes = content(lpn, version);
            let write = Request::write(lba, Sectors(8)).with(Data::Write(&bytes));
            log.submit(at, write).unwrap();
            versions[lpn as usize] = version;
        }
    }
    let at = log.now();
    log.submit(at, Request::flush()).unwrap();
    let image = match closed {
        true => log.close(at).unwrap().0.image(),
        false => log.device().image(),
    };
    let is = |at: &u64, what: fn(&[u8; BLOCK]) -> bool| what(&block(&image, *at));
    let used: Vec<u64> = (0..BLOCKS).filter(|at| is(at, |b| *b != [0; BLOCK])).collect();
    let headed: Vec<u64> =
        used.iter().copied().filter(|at| is(at, |b| b.starts_with(b"varve"))).collect();
    // One page of each: a root's body begins with where they are.
    let roots = headed_roots(&image, &headed);
    let maps = roots.chunks_exact(2).flat_map(|header| {
        let body = block(&image, header[0] + 1);
        [word(&body, 0), word(&body, 8)]
    });
    let maps = maps.filter(|at| *at != 0).collect();
    let sample = Sample { used, headed, maps, versions, closed, image };
    // The seals are those of the log: sealing what is sound changes nothing.
    for at in &sample.used {
        let mut device = CutDevice::power_on(sample.image.clone());
        seal(&mut device, *at);
        seal_body(&mut device, &sample, *at);
        assert!(block(&device.image(), *at) == block(&sample.image, *at), "block {at}");
    }
    sample
}

/// A log that was closed, and one whose power went after a flush.
pub fn samples() -> Vec<Sample> {
    vec![sample(true), sample(false)]
}

fn block(image: &DiskImage, at: u64) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    image.read_at(Lba(at * 8), &mut bytes).unwrap();
    bytes
}

fn get(device: &mut CutDevice, at: u64) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    let read = Request::read(Lba(at * 8), Sectors(8)).with(Data::Read(&mut bytes));
    device.submit(Time::ZERO, read).unwrap();
    bytes
}

fn put(device: &mut CutDevice, at: u64, bytes: &[u8]) {
    let write = Request::write(Lba(at * 8), Sectors(8)).with(Data::Write(bytes));
    device.submit(Time::ZERO, write).unwrap();
    device.submit(Time::ZERO, Request::flush()).unwrap();
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()))
}

/// Gives a block the checksum that it should have, if it has one of its own.
fn seal(device: &mut CutDevice, at: u64) {
    let mut bytes = get(device, at);
    match &bytes[..8] {
        b"varvesup" | b"varveroo" => {
            let crc = crc32c(0, &bytes[..508]);
            bytes[508..512].copy_from_slice(&crc.to_le_bytes());
            put(device, at, &bytes);
        }
        b"varvelog" => {
            let crc = crc32c(crc32c(0, &bytes[..60]), &bytes[64..]);
            bytes[60..64].copy_from_slice(&crc.to_le_bytes());
            put(device, at, &bytes);
        }
        _ => {}
    }
}

/// The headers of roots, the two of one behind each other.
fn headed_roots(image: &DiskImage, headed: &[u64]) -> Vec<u64> {
    let is_root = |at: &&u64| block(image, **at).starts_with(b"varveroo");
    headed.iter().filter(is_root).copied().collect()
}

/// Gives the root around a block the checksum of its body, in both of its headers.
fn seal_body(device: &mut CutDevice, sample: &Sample, at: u64) {
    for header in headed_roots(&sample.image, &sample.headed).chunks_exact(2) {
        if header[0] < at && at < header[1] {
            let body: Vec<u8> = (header[0] + 1..header[1]).flat_map(|at| get(device, at)).collect();
            for copy in header {
                let mut bytes = get(device, *copy);
                bytes[44..48].copy_from_slice(&crc32c(0, &body).to_le_bytes());
                put(device, *copy, &bytes);
                seal(device, *copy);
            }
        }
    }
}

/// Damages a sample as the bytes say, and looks at what comes of it, and what was answered.
pub fn look(sample: &Sample, bytes: &[u8]) -> (Outcome, Answers) {
    let mut answers = Answers::default();
    let mut draws = Draws::new(bytes);
    let mut device = CutDevice::power_on(sample.image.clone());
    let forged = draws.half();
    for _ in 0..=draws.below(4) {
        let from = match draws.below(4) {
            0 => &sample.maps,
            1 => &sample.used,
            _ => &sample.headed,
        };
        // Super block and roots are few, and come first.
        let at = if draws.half() {
            from[draws.below(from.len().min(12))]
        } else {
            from[draws.below(from.len())]
        };
        let mut bytes = get(&mut device, at);
        // Fields stand at the beginning.
        let most = if draws.half() { 128 } else { BLOCK };
        draws.damage(&mut bytes[..most]);
        put(&mut device, at, &bytes);
        if forged {
            seal(&mut device, at);
            seal_body(&mut device, sample, at);
        }
    }
    let mut log = match HostLog::open(device, Time::ZERO, &options()) {
        Ok(log) => log,
        Err(error) => {
            answers.say(&error);
            return (Outcome::Refused, answers);
        }
    };
    answers.say(&log.read_only());
    let read_only = log.read_only().is_some();
    let exact = sample.closed && !forged && !read_only;
    let blocks = (log.capacity().0 / 8).min(2 * sample.versions.len() as u64);
    let mut out = [0; BLOCK];
    for lpn in 0..blocks {
        let at = log.now();
        let read = Request::read(Lba(lpn * 8), Sectors(8)).with(Data::Read(&mut out));
        let answer = log.submit(at, read);
        answers.say(&answer);
        answers.bytes(&out);
        if answer.is_err() || forged {
            continue;
        }
        let version = if out == [0; BLOCK] { 0 } else { word(&out, 8) };
        assert!(
            version == 0 || out[..] == content(lpn, version),
            "block {lpn} holds what was never there"
        );
        assert!(
            !exact || version == sample.versions[lpn as usize],
            "block {lpn}: version {version}"
        );
    }
    answers.say(&log.check_media());
    for lpn in [0, blocks / 2, blocks.saturating_sub(1)] {
        let (at, bytes) = (log.now(), content(lpn, 1 << 30));
        let write = Request::write(Lba(lpn * 8), Sectors(8)).with(Data::Write(&bytes));
        answers.say(&log.submit(at, write));
        let at = log.now();
        answers.say(&log.submit(at, Request::flush()));
    }
    let at = log.now();
    answers.say(&log.close(at).map(drop));
    (if read_only { Outcome::ReadOnly } else { Outcome::Worked }, answers)
}
