//! A database in an image that another process has: open, and empty until the image can be had.
//!
//! Invariants:
//! * SQLite asks its busy handler only where it takes a lock, so that is where the image is taken: each attempt of
//!   its first shared lock is one;
//! * nothing of the image is read or written before; what SQLite reads when it opens a file it reads again under that
//!   lock;
//! * from then on every call is the store's file's.

use std::ffi::c_int;
use std::sync::Arc;

use super::asked::Asked;
use super::file::{StoreFile, forget_missed};
use super::home::Inherited;
use super::images::Images;
use super::pragma;
use crate::vfs::{Answer, Caller, Code, Control, File, Level, Raw, Region, Reply, flag};

pub(super) struct Waiting {
    images: Arc<Images>,
    vfs: String,
    asked: Asked,
    process: u32,
    /// Once the image was had.
    file: Option<StoreFile>,
    /// Why it was not, and whether SQLite's log is to hear that: it tries many times.
    error: String,
    told: bool,
    reason: Option<String>,
    /// See [`Images::by_uri`].
    _by_uri: Option<Arc<()>>,
}

impl Waiting {
    /// For an image that was in use just now, as the reason of `images` says.
    pub(super) fn new(images: Arc<Images>, vfs: &str, asked: Asked) -> Waiting {
        let error = images.last_error().unwrap_or_default();
        Waiting {
            _by_uri: images.by_uri(&asked),
            images,
            vfs: vfs.to_string(),
            asked,
            process: std::process::id(),
            file: None,
            error,
            told: false,
            reason: None,
        }
    }

    /// Takes the image, if it can be had now.
    fn take(&mut self) -> Answer<&mut StoreFile> {
        if self.file.is_none() {
            let here = std::process::id();
            if here != self.process {
                let inherited = Inherited { owner: self.process, here };
                self.refused(inherited.to_string(), false);
                return Err(inherited.into());
            }
            match self.open() {
                Ok(file) => self.file = Some(file),
                Err(code) => {
                    let reason = self.images.last_error().unwrap_or_default();
                    self.refused(reason, code == Code::BUSY);
                    return Err(code);
                }
            }
        }
        self.file.as_mut().ok_or(Code::IOERR)
    }

    fn open(&self) -> Answer<StoreFile> {
        let store = self.images.open(&self.asked)?;
        self.images.file(&self.vfs, &store, &self.asked)
    }

    fn refused(&mut self, reason: String, again: bool) {
        let new = self.error != reason || !(self.told && again);
        self.error = reason;
        self.reason = new.then(|| self.error.clone());
        self.told = true;
    }
}

impl File for Waiting {
    fn read(&mut self, caller: Caller, out: &mut [u8], at: u64) -> Answer<usize> {
        self.file.as_mut().map_or(Ok(0), |file| file.read(caller, out, at))
    }
    fn write(&mut self, caller: Caller, data: &[u8], at: u64) -> Answer<()> {
        self.file.as_mut().ok_or(Code::IOERR_WRITE)?.write(caller, data, at)
    }
    fn truncate(&mut self, caller: Caller, size: u64) -> Answer<()> {
        self.file.as_mut().ok_or(Code::IOERR_TRUNCATE)?.truncate(caller, size)
    }
    fn sync(&mut self, caller: Caller, flags: c_int) -> Answer<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.sync(caller, flags))
    }
    fn size(&mut self, caller: Caller) -> Answer<u64> {
        self.file.as_mut().map_or(Ok(0), |file| file.size(caller))
    }
    fn lock(&mut self, caller: Caller, level: Level) -> Answer<()> {
        match self.take() {
            Ok(file) => file.lock(caller, level),
            Err(code) => {
                // SQLite sleeps next, and no store here wakes it.
                forget_missed();
                Err(code)
            }
        }
    }
    fn unlock(&mut self, caller: Caller, level: Level) -> Answer<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.unlock(caller, level))
    }
    fn check_reserved(&mut self) -> Answer<bool> {
        self.file.as_mut().map_or(Ok(false), StoreFile::check_reserved)
    }
    fn control(&mut self, caller: Caller, control: Control<'_>, raw: Raw) -> Answer<Reply> {
        if let Some(file) = &mut self.file {
            return file.control(caller, control, raw);
        }
        match control {
            Control::VfsName => Ok(Reply::Text(self.vfs.clone())),
            Control::Pragma(name, value) => match pragma::without_store(name, value, &self.error) {
                Some(reply) => Ok(reply),
                None => match self.take() {
                    Ok(file) => file.control(caller, control, raw),
                    Err(_) => Ok(Reply::Refused(self.error.clone())),
                },
            },
            Control::HasMoved | Control::MmapSize => Ok(Reply::Number(0)),
            Control::SizeHint(_) => Ok(Reply::Done),
            _ => Ok(Reply::NotFound),
        }
    }
    fn reason(&mut self) -> Option<String> {
        self.reason.take().or_else(|| self.file.as_mut()?.reason())
    }
    fn sector_size(&mut self) -> c_int {
        4096
    }
    fn characteristics(&mut self) -> c_int {
        flag::POWERSAFE_OVERWRITE | if self.asked.batch { flag::BATCH_ATOMIC } else { 0 }
    }
    fn close(&mut self, caller: Caller) -> Answer<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.close(caller))
    }
    fn has_shm(&self) -> bool {
        true
    }
    fn shm_map(&mut self, region: usize, bytes: usize, extend: bool) -> Answer<Region> {
        self.file.as_mut().ok_or(Code::IOERR_SHMOPEN)?.shm_map(region, bytes, extend)
    }
    fn shm_lock(&mut self, first: usize, count: usize, flags: c_int) -> Answer<()> {
        self.file.as_mut().ok_or(Code::IOERR_SHMOPEN)?.shm_lock(first, count, flags)
    }
    fn shm_barrier(&mut self) {
        if let Some(file) = &mut self.file {
            file.shm_barrier();
        }
    }
    fn shm_unmap(&mut self, delete: bool) -> Answer<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.shm_unmap(delete))
    }
}
