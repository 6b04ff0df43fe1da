//! Damaged image files of the live drive: any bytes are an image or a typed error.
//!
//! Damage that is not sealed again must be missed: a page of an image that was let go reads as it was written, or
//! is an error. Damage that is sealed with the right checksum is a forgery: there only panics and
//! memory count. The image is read by what docs/formats.md says, not with the code under test.

#[path = "../../../../fuzz/src/answers.rs"]
mod answers;
#[path = "../../../../fuzz/src/draws.rs"]
mod draws;

use std::ops::Range;
use std::sync::{Arc, Mutex};

use answers::Answers;
use block::{
    BlockDevice, Bytes, Data, Lba, Lpn, Medium, Request, Rng, Sectors, Time, Transactional, crc32c,
};
use draws::Draws;
use varve_live::ImageDrive;

const PAGE: usize = 4096;
const CAPACITY: Bytes = Bytes(3 << 20);
const PAGES: u32 = 400;

/// Memory that keeps everything, but not more than some times the image.
#[derive(Debug)]
struct Memory(Mutex<Vec<u8>>);

impl Medium for Memory {
    fn read(&self, at: u64, out: &mut [u8]) -> std::io::Result<()> {
        let bytes = self.0.lock().unwrap();
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        let there = (bytes.len() - from).min(out.len());
        out[..there].copy_from_slice(&bytes[from..from + there]);
        out[there..].fill(0);
        Ok(())
    }
    fn write(&self, at: u64, data: &[u8]) -> std::io::Result<()> {
        let mut bytes = self.0.lock().unwrap();
        let full = || std::io::Error::other("the disk is full");
        let end = usize::try_from(at).ok().and_then(|at| at.checked_add(data.len()));
        let end = end.filter(|end| *end < 64 << 20).ok_or_else(full)?;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[end - data.len()..end].copy_from_slice(data);
        Ok(())
    }
    fn sync(&self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A sound image that was let go, and what it holds.
pub struct Sample {
    bytes: Vec<u8>,
    structures: Vec<Structure>,
    pages: Vec<Vec<u8>>,
}

/// A part of an image, by how it is sealed.
#[derive(Clone, Debug)]
enum Structure {
    /// A superblock.
    Super(Range<usize>),
    /// A header of a block.
    Header(Range<usize>),
    /// A record, and where its checksum begins.
    Record(Range<usize>, u32),
    /// A page: its record has its checksum.
    Payload(Range<usize>),
}

/// What came of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Refused,
    Errors,
    Worked,
}

fn content(page: u32, version: u64) -> Vec<u8> {
    let mut rng = Rng::new(u64::from(page) << 32 | version);
    (0..PAGE / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}

fn write(drive: &mut ImageDrive, page: u32, bytes: &[u8]) -> Result<Time, block::DeviceError> {
    let request = Request::write(Lba(u64::from(page) * 8), Sectors(8));
    drive.submit(Time::ZERO, request.with(Data::Write(bytes)))
}

fn read(drive: &mut ImageDrive, page: u32) -> Result<Vec<u8>, block::DeviceError> {
    let mut found = vec![0; PAGE];
    let request = Request::read(Lba(u64::from(page) * 8), Sectors(8));
    drive.submit(Time::ZERO, request.with(Data::Read(&mut found)))?;
    Ok(found)
}

fn memory(bytes: &[u8]) -> Arc<Memory> {
    Arc::new(Memory(Mutex::new(bytes.to_vec())))
}

fn sample() -> Sample {
    let below = memory(&[]);
    let mut drive = ImageDrive::create_on(Arc::clone(&below) as _, CAPACITY).unwrap();
    for page in 0..PAGES {
        write(&mut drive, page, &content(page, 0)).unwrap();
    }
    let mut rng = Rng::new(6);
    for version in 1..250 {
        let tid = drive.tx_begin().unwrap();
        for _ in 0..=rng.below(3) {
            let most = if rng.ratio(1, 4) { u64::from(PAGES) } else { 50 };
            let page = rng.below(most) as u32;
            let bytes = content(page, version);
            drive.tx_write(Time::ZERO, tid, Lpn(page), Data::Write(&bytes)).unwrap();
        }
        drive.tx_commit(Time::ZERO, &[tid]).unwrap();
    }
    drive.close().unwrap();
    let bytes = below.0.lock().unwrap().clone();
    let mut drive = ImageDrive::open_on(memory(&bytes)).unwrap();
    let pages = (0..PAGES).map(|page| read(&mut drive, page).unwrap()).collect();
    let structures = structures(&bytes);
    // The seals are those of the image: sealing what is sound changes nothing.
    for structure in &structures {
        let mut again = bytes.clone();
        seal(&mut again, structure);
        assert!(again == bytes, "{structure:?}");
    }
    let count = |is: fn(&&Structure) -> bool| structures.iter().filter(is).count();
    assert!(count(|s| matches!(s, Structure::Record(..))) > 300);
    Sample { bytes, structures, pages }
}

pub fn samples() -> Vec<Sample> {
    vec![sample()]
}

fn number(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// What the image is made of.
fn structures(bytes: &[u8]) -> Vec<Structure> {
    let (blocks, pages) = (number(bytes, 12), number(bytes, 16));
    let area = (pages * 64).next_multiple_of(PAGE);
    let stride = 2 * PAGE + pages * PAGE + 2 * area;
    let mut found = vec![Structure::Super(0..PAGE), Structure::Super(PAGE..2 * PAGE)];
    for block in 0..blocks {
        let first = 2 * PAGE + block * stride;
        for at in [first, first + stride - PAGE] {
            if bytes[at..at + 512] != [0; 512] {
                found.push(Structure::Header(at..at + 512));
            }
        }
        let header = &bytes[first..first + 512];
        let opening = [&(block as u32).to_le_bytes()[..], &header[8..12], &header[24..40]].concat();
        for (page, area_at) in (0..pages).flat_map(|page| [(page, 0), (page, area)]) {
            let salt = crc32c(crc32c(0, &opening), &(page as u32).to_le_bytes());
            let at = first + PAGE + pages * PAGE + area_at + 64 * page;
            if number(bytes, at + 60) == crc32c(salt, &bytes[at..at + 60]) as usize {
                found.push(Structure::Record(at..at + 64, salt));
                let at = first + PAGE + page * PAGE;
                found.push(Structure::Payload(at..at + PAGE));
            }
        }
    }
    found
}

/// Gives a structure the checksum that it should have.
fn seal(bytes: &mut [u8], structure: &Structure) {
    let mut put = |from: Range<usize>, salt| {
        let crc = crc32c(salt, &bytes[from.clone()]);
        bytes[from.end..from.end + 4].copy_from_slice(&crc.to_le_bytes());
    };
    match structure {
        Structure::Super(range) => {
            put(range.start..range.start + 508, 0);
            put(range.start + 512..range.start + 4092, 0);
        }
        Structure::Header(range) => put(range.start..range.start + 508, 0),
        Structure::Record(range, salt) => put(range.start..range.start + 60, *salt),
        // Its record would have to be forged: those are drawn by themselves.
        Structure::Payload(_) => {}
    }
}

/// Damages a sample as the bytes say, and looks at what comes of it, and what was answered.
pub fn look(sample: &Sample, bytes: &[u8]) -> (Outcome, Answers) {
    let mut answers = Answers::default();
    let mut draws = Draws::new(bytes);
    let mut image = sample.bytes.clone();
    let forged = draws.half();
    for _ in 0..=draws.below(4) {
        let structures = &sample.structures;
        // Superblocks and the first headers are few.
        let most = if draws.half() { structures.len() } else { structures.len().min(8) };
        let structure = &structures[draws.below(most)];
        let (Structure::Super(range)
        | Structure::Header(range)
        | Structure::Record(range, _)
        | Structure::Payload(range)) = structure;
        // Fields stand at the beginning.
        let end = if draws.half() { range.end } else { range.end.min(range.start + 64) };
        draws.damage(&mut image[range.start..end]);
        if forged {
            seal(&mut image, structure);
        }
    }
    let mut drive = match ImageDrive::open_on(memory(&image)) {
        Ok(drive) => drive,
        Err(error) => {
            answers.say(&error);
            return (Outcome::Refused, answers);
        }
    };
    let mut errors = 0;
    for (page, expected) in (0..).zip(&sample.pages) {
        match read(&mut drive, page) {
            Ok(found) => {
                assert!(forged || found == *expected, "page {page} has changed");
                answers.bytes(&found);
            }
            Err(error) => {
                answers.say(&error);
                errors += 1;
            }
        }
    }
    for page in [0, 1, PAGES / 2, PAGES - 1] {
        answers.say(&write(&mut drive, page, &content(page, 1 << 20)));
        answers.say(&drive.submit(Time::ZERO, Request::flush()));
    }
    answers.say(&drive.close());
    (if errors > 0 { Outcome::Errors } else { Outcome::Worked }, answers)
}
