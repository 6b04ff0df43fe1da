//! Damaged volumes: any bytes are a volume or a typed error, and end in time.
//!
//! `damage.rs` draws damage as it comes; here half of it is sealed again, so that what stands behind the checksums of
//! checkpoints, of the journal's state and of its records is reached. F2FS has no checksum of data, tables and (unless
//! a device tears blocks) nodes, so what is read is not judged: panics, memory and time are.

#[path = "../../../../fuzz/src/answers.rs"]
mod answers;
#[path = "../../../../fuzz/src/draws.rs"]
mod draws;
#[path = "../tools/mod.rs"]
mod tools;

use answers::Answers;
use block::{BlockDevice, CutDevice, Data, DiskImage, Lba, Request, Rng, Sectors, Time, crc32c};
use draws::Draws;
use tools::crash::{Plan, volume, work};
use tools::model::{Mix, Tree, draw, fresh, perform};
use tools::now;
use varve_lfs::fs::{Cleaning, Scj};
use varve_lfs::scj::{FIRST_SLOT, STATE_AT, STATE_COPY_AT, State};
use varve_lfs::{Fs, FsOptions};

const BLOCK: usize = 4096;
const MIX: Mix = Mix { write: 40, fsync: 10, clean: 2, sync: 2, blocks: 30, names: 30 };

/// A volume as a cut left it, and what was in it.
pub struct Sample {
    image: DiskImage,
    plan: Plan,
    used: Vec<u64>,
    /// Blocks with a checksum: checkpoints, and the journal's state and records.
    sealed: Vec<u64>,
    tree: Tree,
    journal: Option<State>,
}

/// What came of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Refused,
    Worked,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn sample(options: FsOptions) -> Sample {
    let plan = Plan {
        seed: 1,
        per_seg: 4,
        blocks: 2_000,
        options,
        mix: MIX,
        steps: 120,
        torn: false,
        slow: 0,
    };
    let (mut tree, mut clock, mut rng) = (fresh(), 1, Rng::new(1));
    let image = work(plan, volume(&plan), &mut tree, &mut clock, &mut rng).device.image();
    let mut device = CutDevice::power_on(image.clone());
    let used: Vec<u64> =
        (0..plan.blocks).filter(|at| get(&mut device, *at) != [0; BLOCK]).collect();
    let journal = State::decode(&get(&mut device, u64::from(STATE_AT.0)));
    let mut sample = Sample { image, plan, used, sealed: Vec::new(), tree, journal };
    // What sealing does not change is sound; it is sealed if damage shows.
    let sealed = sample.used.iter().copied().filter(|at| {
        let before = get(&mut device, *at);
        let mut damaged = before;
        damaged[9] ^= 1;
        put(&mut device, *at, &damaged);
        seal(&sample, &mut device, *at);
        let changed = get(&mut device, *at) != damaged;
        put(&mut device, *at, &before);
        seal(&sample, &mut device, *at);
        changed && get(&mut device, *at) == before
    });
    let sealed: Vec<u64> = sealed.collect();
    assert!(sealed.len() >= 2, "a pack has two checkpoint blocks: {sealed:?}");
    assert!(sample.journal.is_none() || sealed.contains(&u64::from(STATE_AT.0)));
    sample.sealed = sealed;
    sample
}

/// Volumes with the baseline's cleaning and with a journal.
pub fn samples() -> Vec<Sample> {
    let scj = FsOptions {
        cleaning: Cleaning::Scj(Scj { slots: 24, ..Scj::default() }),
        ..FsOptions::default()
    };
    vec![sample(FsOptions::default()), sample(scj)]
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
}

/// Gives a block the checksum that it should have, if it is one that has one.
fn seal(sample: &Sample, device: &mut CutDevice, at: u64) {
    let mut bytes = get(device, at);
    let journal = sample.journal.filter(|journal| {
        (u64::from(FIRST_SLOT)..u64::from(FIRST_SLOT + 2 * journal.slots)).contains(&at)
    });
    let state = [STATE_AT, STATE_COPY_AT].iter().any(|state| u64::from(state.0) == at);
    let crc = match journal {
        Some(journal) => {
            let slot = (at as u32 - FIRST_SLOT) / 2;
            let (record, summary) = (get(device, at & !1), get(device, at | 1));
            let version = u64::from(word(&record, 4088) & 0x0FFF_FFFF);
            let parts: [&[u8]; 5] = [
                &journal.uuid,
                &version.to_le_bytes(),
                &slot.to_le_bytes(),
                &record[..4092],
                &summary,
            ];
            let crc = parts.into_iter().fold(0, crc32c);
            if at % 2 == 1 {
                // A summary's seal is in the record before it.
                let mut record = record;
                record[4092..].copy_from_slice(&crc.to_le_bytes());
                return put(device, at & !1, &record);
            }
            crc
        }
        None if state => crc32c(0, &bytes[..4092]),
        None => match varve_lfs::format::Checkpoint::checksum(&bytes) {
            Some(crc) => crc,
            None => return,
        },
    };
    bytes[4092..].copy_from_slice(&crc.to_le_bytes());
    put(device, at, &bytes);
}

/// Damages a sample as the bytes say, and looks at what comes of it, and what was answered.
pub fn look(sample: &Sample, bytes: &[u8]) -> (Outcome, Answers) {
    let mut answers = Answers::default();
    let mut draws = Draws::new(bytes);
    let mut device = CutDevice::power_on(sample.image.clone());
    let forged = draws.half();
    for _ in 0..=draws.below(4) {
        let from = if draws.half() { &sample.sealed } else { &sample.used };
        let at = from[draws.below(from.len())];
        let mut bytes = get(&mut device, at);
        // Fields stand at the beginning.
        let most = if draws.half() { 200 } else { BLOCK };
        draws.damage(&mut bytes[..most]);
        put(&mut device, at, &bytes);
        if forged {
            seal(sample, &mut device, at);
        }
    }
    let late = now(1 << 20);
    let mut fs = match Fs::mount(device, sample.plan.options, late) {
        Ok(fs) => fs,
        Err(error) => {
            answers.say(&error);
            return (Outcome::Refused, answers);
        }
    };
    let mut bytes = vec![0; 70_000];
    for ino in sample.tree.keys() {
        answers.say(&fs.attributes(late, *ino));
        answers.say(&fs.readdir(late, *ino));
        answers.say(&fs.read(late, *ino, block::Bytes(5), &mut bytes));
        answers.bytes(&bytes);
        answers.say(&fs.xattrs(late, *ino));
    }
    answers.say(&fs.check(late));
    let mut rng = Rng::new(u64::from(draws.byte()));
    for _ in 0..20 {
        let op = draw(&mut rng, &sample.tree, MIX);
        answers.say(&perform(&mut fs, late, &op));
    }
    answers.say(&fs.unmount(late).map(drop));
    (Outcome::Worked, answers)
}
