//! Whether a store holds what it promised, down to each page of its drive.

use std::path::Path;

use block::{BlockDevice, Bytes, Data, Lba, Request, Sectors};
use lab::LabError;
use live::{ImageDrive, LiveError, patiently};
use varve_sqlite_vfs::{Store, StoreOptions};

use super::refusal::not_mounted;
use super::served::{databases, is_cut_off};
use super::{Served, at_one_moment, unusable};
use crate::source::Source;

/// Pages that cannot be read which an error names.
const NAMED: usize = 20;

/// The drive of an image that is sound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SoundDrive {
    /// Pages of the drive that hold data, all read.
    pub pages: u64,
    /// Version of the image's format.
    pub version: u32,
}

/// What a store that is sound holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sound {
    /// Databases, by object, with their bytes.
    pub databases: Vec<(String, u64)>,
    /// A COMMIT over several of them was cut off, and is to be taken back or ended by who opens them for writing.
    pub cut_off: bool,
    /// Of an image, what was looked into below the store: of a namespace that is its server's.
    pub drive: Option<SoundDrive>,
    /// Bytes the store can hold, and those that it may hold one day.
    pub capacity: Bytes,
    /// See `capacity`.
    pub limit: Bytes,
}

impl Sound {
    /// How much it holds, for people.
    pub fn size(&self) -> String {
        match self.limit > self.capacity {
            true => format!("holds {}, grows to {}", self.capacity.human(), self.limit.human()),
            false => format!("holds {}", self.capacity.human()),
        }
    }

    /// What somebody has left to be done by whoever opens it.
    pub fn left(&self) -> Option<&'static str> {
        self.cut_off.then_some(
            "a COMMIT over several databases was cut off: whoever opens them for writing takes it back or ends it; they \
             were checked as they are then",
        )
    }

    /// What a check of an image of this version cannot see.
    pub fn blind(&self) -> Option<&'static str> {
        self.drive.is_some_and(|drive| drive.version < 2).then_some(
            "image version 1: zeroes over a block's header, and damage of the newest records of a block \
             that was not full when the image was last let go, cannot be told from pages never written; export and \
             import make an image of version 2, where they can",
        )
    }
}

/// Checks the drive of an image: its books, what is there twice, and every page that it holds.
///
/// # Errors
/// The first promise that does not hold.
pub fn check_drive(drive: &mut ImageDrive) -> Result<u64, LabError> {
    drive.drive().check().map_err(|broken| LabError::Check {
        contract: broken.contract.to_string(),
        what: broken.what,
    })?;
    if let Some(damage) = drive.damage().first() {
        let more = drive.damage().len() - 1;
        return Err(LabError::Check {
            contract: "C6".to_string(),
            what: format!(
                "{damage} ({more} more); nothing is lost yet: the next write to the image mends it"
            ),
        });
    }
    let (mut page, mut lost, mut first) = ([0; 4096], Vec::new(), String::new());
    for number in 0..drive.capacity().0 / 8 {
        let at = drive.drive().now();
        let read = Request::read(Lba(8 * number), Sectors(8)).with(Data::Read(&mut page));
        if let Err(error) = drive.submit(at, read) {
            if lost.is_empty() {
                first =
                    format!("page {number} of the drive: {error}; expected what was written there");
            }
            lost.push(number.to_string());
        }
    }
    if lost.is_empty() {
        return Ok(drive.drive().stats().valid_units);
    }
    let more = lost.len().saturating_sub(NAMED);
    let all =
        format!("{}{}", lost[..lost.len() - more].join(", "), if more > 0 { ", .." } else { "" });
    Err(LabError::Check {
        contract: "C6".to_string(),
        what: format!(
            "{first}; {} of its pages cannot be read ({all}); `varve sqlite export --salvage` saves the others",
            lost.len()
        ),
    })
}

/// Checks the databases of a store: integrity and foreign keys.
///
/// # Errors
/// The first that is damaged.
pub fn check_store(served: &Served) -> Result<Vec<(String, u64)>, LabError> {
    let mut found = Vec::new();
    for (name, bytes) in &databases(served.store()) {
        let db = served.open(name)?;
        let wrong = |error: rusqlite::Error| LabError::Check {
            contract: "served".to_string(),
            what: format!("object {name}: {error}"),
        };
        let said: String =
            db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(wrong)?;
        if said != "ok" {
            return Err(LabError::Check {
                contract: "served".to_string(),
                what: format!("object {name}: integrity check: {said}"),
            });
        }
        let mut keys = db.prepare("PRAGMA foreign_key_check").map_err(wrong)?;
        if let Some(row) = keys.query([]).map_err(wrong)?.next().map_err(wrong)? {
            let table: String = row.get(0).map_err(wrong)?;
            return Err(LabError::Check {
                contract: "served".to_string(),
                what: format!("object {name}: table {table} breaks a foreign key"),
            });
        }
        found.push((name.clone(), *bytes));
    }
    Ok(found)
}

/// Version, capacity and limit.
fn what(drive: &ImageDrive) -> (u32, Bytes, Bytes) {
    (drive.version(), drive.capacity().bytes(), drive.limit())
}

/// Checks a store. An image may be written by another process meanwhile, and nothing is written to it; a store in a
/// namespace is opened as any program opens it, which ends what a power cut has left.
///
/// # Errors
/// What holds no store; the first promise that does not hold.
pub fn check(source: impl Into<Source>) -> Result<Sound, LabError> {
    let source = source.into();
    match &source {
        Source::Image(image) => check_file(image),
        Source::Namespace(_) => source.with_store(|served| {
            let cut_off = is_cut_off(served.store());
            let databases = check_store(served)?;
            let capacity = served.store().with_device(|device| device.capacity().bytes());
            Ok(Sound { databases, cut_off, drive: None, capacity, limit: capacity })
        }),
    }
}

pub(super) fn check_file(image: &Path) -> Result<Sound, LabError> {
    let drive = || {
        let mut drive = match ImageDrive::open_beside(image).map_err(unusable) {
            Ok(drive) => drive,
            Err(error) => return Some(Err(error)),
        };
        let moment = drive.moment()?;
        moment.settle(None);
        match check_drive(&mut drive) {
            Err(_) if !moment.is_unchanged() => None,
            done => Some(done.map(|pages| (pages, what(&drive)))),
        }
    };
    let restless = || Err(unusable(LiveError::Restless { path: image.to_path_buf() }));
    let (pages, (version, capacity, limit)) = patiently(drive).unwrap_or_else(restless)?;
    let (cut_off, databases) = at_one_moment(image, |served| {
        let cut_off = is_cut_off(served.store());
        Ok((cut_off, check_store(served)?))
    })?;
    Ok(Sound { databases, cut_off, drive: Some(SoundDrive { pages, version }), capacity, limit })
}

/// Checks the image of a drive; `name` is what it is called.
///
/// # Errors
/// The first promise that does not hold.
pub fn check_image(mut drive: ImageDrive, name: &str) -> Result<Sound, LabError> {
    let (pages, (version, capacity, limit)) = (check_drive(&mut drive)?, what(&drive));
    let store = Store::mount_image(drive, StoreOptions::default())
        .map_err(|error| not_mounted(name, error))?;
    let cut_off = is_cut_off(&store);
    let databases = check_store(&Served::new(name, store)?)?;
    Ok(Sound { databases, cut_off, drive: Some(SoundDrive { pages, version }), capacity, limit })
}
