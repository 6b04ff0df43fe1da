//! The device: a drive over an image file.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::{BlockDevice, Bytes, DeviceError, Medium, Plant, Request};
use ssd::Drive;

use crate::annex::Annex;
use crate::beside::{BesideMedium, Moment, patiently};
use crate::cut::CutMedium;
use crate::damage::Damage;
use crate::direct::DirectMedium;
use crate::error::LiveError;
use crate::file::{FileStats, ImageFile};
use crate::image::{locked, long_enough, made_for};
use crate::layout::{Layout, Version};
use crate::medium::FileMedium;
use crate::named::{Making, Named};
use crate::planted::Planted;
use crate::pointer::Pointer;
use crate::power::{Powered, form, start};

/// A power cut to come, for whoever wants to see what it leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PowerCut {
    /// The write to the file, or sync of it, that no longer happens, counted from 1.
    pub at: u64,
    /// Draws what is left of what was not synced.
    pub seed: u64,
}

/// A drive whose flash is an image file.
#[derive(Debug)]
pub struct ImageDrive {
    pub(crate) drive: Drive,
    pub(crate) file: Arc<ImageFile>,
    annex: Annex,
    pub(crate) version: Version,
    /// What is damaged and there a second time.
    survived: Vec<Damage>,
    /// Holds the lock on the image.
    lock: Option<File>,
    /// The file that the name meant.
    named: Option<Named>,
    /// Where it was made.
    making: Option<Making>,
    /// When it was read, beside its writer.
    moment: Option<Moment>,
    /// Whose it is: a child of fork inherits the memory, and may not write what its parent writes.
    pub(crate) process: u32,
    pub(crate) path: PathBuf,
    /// The whole file, and what stands before the image in it.
    pub(crate) below: Arc<dyn Medium>,
    pub(crate) pointer: Option<Pointer>,
    /// What was written before the drive grew.
    pub(crate) written: FileStats,
}

impl ImageDrive {
    /// Makes an image for `capacity` bytes of data at `path`, which must not exist, or be empty. The file
    /// system keeps room for all of it, so that later writes need no new space; what is not written yet takes no writing.
    ///
    /// # Errors
    /// [`LiveError`]; nothing is left behind.
    pub fn create(path: &Path, capacity: Bytes) -> Result<ImageDrive, LiveError> {
        ImageDrive::create_with_log(path, capacity, Bytes(0))
    }

    /// The same with a log of commits of `log` bytes beside the flash: a multiple of 4096, at most 1 GiB.
    ///
    /// # Errors
    /// [`LiveError`]; nothing is left behind.
    pub fn create_with_log(
        path: &Path,
        capacity: Bytes,
        log: Bytes,
    ) -> Result<ImageDrive, LiveError> {
        ImageDrive::create_to_grow(path, capacity, log, capacity)
    }

    /// The same, and it may grow ([`ImageDrive::grow`]) until it holds `limit`.
    ///
    /// # Errors
    /// [`LiveError`]; nothing is left behind.
    pub fn create_to_grow(
        path: &Path,
        capacity: Bytes,
        log: Bytes,
        limit: Bytes,
    ) -> Result<ImageDrive, LiveError> {
        let io = |error| LiveError::Io { path: path.to_path_buf(), error };
        // What no drive can be made for leaves no file.
        made_for(capacity)?;
        let making = Making::new(path)?;
        let file = making.file.try_clone().map_err(io)?;
        // Several processes may be here at once: the one that has the lock, and finds nothing, makes it.
        let lock = locked(path, &file)?;
        if file.metadata().map_err(io)?.len() > 0 {
            return Err(io(ErrorKind::AlreadyExists.into()));
        }
        let named = Named::new(path, &file).map_err(io)?;
        let whole = file.try_clone().map_err(io)?;
        let made = form(path, Arc::new(FileMedium(file)), capacity, log, limit);
        let made = made.and_then(|()| {
            ImageDrive::power_on(path, Arc::new(DirectMedium::new(whole)), None, Plant::default())
        });
        let mut drive = made.inspect_err(|_| making.undo())?;
        (drive.lock, drive.named, drive.making) = (Some(lock), Some(named), Some(making));
        Ok(drive)
    }

    /// How what was made here is unmade, if what comes behind it fails.
    pub fn unmaking(&mut self) -> impl FnOnce() + use<> {
        let making = self.making.take();
        move || {
            if let Some(making) = making {
                making.undo();
            }
        }
    }

    /// The file that had the image's name when it was opened, if it has one.
    pub fn named(&self) -> Option<Named> {
        self.named.clone()
    }

    /// Powers on the drive of an image.
    ///
    /// # Errors
    /// [`LiveError`]; the image is as it was.
    pub fn open(path: &Path) -> Result<ImageDrive, LiveError> {
        ImageDrive::open_until(path, None)
    }

    /// The same, and the power of the machine goes at `cut`: the file is left as after that, and
    /// the drive fails.
    ///
    /// # Errors
    /// [`LiveError`]; the image is as it was.
    pub fn open_until(path: &Path, cut: Option<PowerCut>) -> Result<ImageDrive, LiveError> {
        let io = |error| LiveError::Io { path: path.to_path_buf(), error };
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(io)?;
        let lock = locked(path, &file)?;
        let named = Named::new(path, &file).map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        long_enough(path, length, 0)?;
        let mut medium: Arc<dyn Medium> = Arc::new(DirectMedium::new(file));
        if let Some(cut) = cut {
            let fickle = CutMedium::new(medium, cut.seed);
            fickle.cut_after(cut.at);
            medium = Arc::new(fickle);
        }
        let mut drive = ImageDrive::power_on(path, medium, Some(length), Plant::default())?;
        (drive.lock, drive.named) = (Some(lock), Some(named));
        Ok(drive)
    }

    /// The drive of an image that another process may be writing, as it was at one moment: no lock is taken, and
    /// nothing reaches the file.
    ///
    /// # Errors
    /// [`LiveError`]; [`LiveError::Restless`] if no such moment was found.
    pub fn open_beside(path: &Path) -> Result<ImageDrive, LiveError> {
        let mut last: Option<String> = None;
        let attempt = || {
            let (done, unchanged) = ImageDrive::beside(path);
            match done {
                Ok(drive) => unchanged.then_some(Ok(drive)),
                // What the writer did meanwhile may look like damage once: not the same twice.
                Err(error) => {
                    let text = error.to_string();
                    let again = unchanged && last.as_ref() == Some(&text);
                    last = Some(text);
                    again.then_some(Err(error))
                }
            }
        };
        patiently(attempt).unwrap_or_else(|| Err(LiveError::Restless { path: path.to_path_buf() }))
    }

    /// One attempt; and whether what was read was there at one moment.
    fn beside(path: &Path) -> (Result<ImageDrive, LiveError>, bool) {
        let io = |error| LiveError::Io { path: path.to_path_buf(), error };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) => return (Err(io(error)), true),
        };
        let length = file.metadata().map(|found| found.len());
        let named = Named::new(path, &file).ok();
        let medium = Arc::new(BesideMedium::new(file));
        let moment = Moment(Arc::clone(&medium));
        let done = length.map_err(io).and_then(|length| {
            long_enough(path, length, 0)?;
            let place = Pointer::find(path, &*medium)?;
            let (powered, pointer) =
                start(path, Arc::clone(&medium) as _, place, Some(length), Plant::default())?;
            let (log, start) = (powered.file.log().0, powered.file.base() + powered.file.log().1);
            medium.set_log(start..start + log);
            Ok(ImageDrive::of(path, powered, medium as _, pointer))
        });
        let unchanged = moment.is_unchanged();
        let done = done.map(|mut drive| {
            (drive.moment, drive.named) = (Some(moment), named);
            drive
        });
        (done, unchanged)
    }

    /// When it was read, if that was beside its writer.
    pub fn moment(&self) -> Option<Moment> {
        self.moment.clone()
    }

    /// Makes an image for `capacity` bytes on another medium.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn create_on(medium: Arc<dyn Medium>, capacity: Bytes) -> Result<ImageDrive, LiveError> {
        ImageDrive::create_on_with_log(medium, capacity, Bytes(0))
    }

    /// The same with a log of commits of `log` bytes.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn create_on_with_log(
        medium: Arc<dyn Medium>,
        capacity: Bytes,
        log: Bytes,
    ) -> Result<ImageDrive, LiveError> {
        ImageDrive::create_on_to_grow(medium, capacity, log, capacity)
    }

    /// The same, and it may grow until it holds `limit`.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn create_on_to_grow(
        medium: Arc<dyn Medium>,
        capacity: Bytes,
        log: Bytes,
        limit: Bytes,
    ) -> Result<ImageDrive, LiveError> {
        form(Path::new("image"), Arc::clone(&medium), capacity, log, limit)?;
        ImageDrive::open_on(medium)
    }

    /// Powers on the drive of an image on another medium.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn open_on(medium: Arc<dyn Medium>) -> Result<ImageDrive, LiveError> {
        ImageDrive::open_with(medium, Plant::default())
    }

    /// The same with a planted bug: for the crash test.
    ///
    /// # Errors
    /// [`LiveError`].
    #[doc(hidden)]
    pub fn open_with(
        medium: Arc<dyn Medium>,
        planted: Plant<Planted>,
    ) -> Result<ImageDrive, LiveError> {
        ImageDrive::power_on(Path::new("image"), medium, None, planted)
    }

    /// Bytes that an image for `capacity` bytes of data takes, without a log of commits.
    ///
    /// # Errors
    /// A capacity no drive can be made for.
    pub fn image_bytes(capacity: Bytes) -> Result<Bytes, LiveError> {
        let (_, params) = made_for(capacity)?;
        Ok(Bytes(Layout::with_log(&params.geometry, 0).bytes()))
    }

    /// Powers on the drive in a file of `length` bytes, if somebody knows that.
    fn power_on(
        path: &Path,
        below: Arc<dyn Medium>,
        length: Option<u64>,
        planted: Plant<Planted>,
    ) -> Result<ImageDrive, LiveError> {
        let place = Pointer::find(path, &*below)?;
        let behind = place.behind;
        let (powered, pointer) = start(path, Arc::clone(&below), place, length, planted)?;
        let drive = ImageDrive::of(path, powered, below, pointer);
        if let Some(copy) = behind {
            drive.mend_pointer(copy)?;
        }
        Ok(drive)
    }

    fn of(
        path: &Path,
        powered: Powered,
        below: Arc<dyn Medium>,
        pointer: Option<Pointer>,
    ) -> ImageDrive {
        let Powered { drive, file, survived } = powered;
        ImageDrive {
            version: file.layout().version,
            drive,
            annex: Annex::new(&file),
            file,
            survived,
            lock: None,
            named: None,
            making: None,
            moment: None,
            process: std::process::id(),
            path: path.to_path_buf(),
            below,
            pointer,
            written: FileStats::default(),
        }
    }

    /// The drive has grown: `powered` goes on where the one before was let go.
    pub(crate) fn go_on(&mut self, powered: Powered, pointer: Pointer) {
        self.written = self.file_stats();
        self.version = powered.file.layout().version;
        (self.drive, self.file) = (powered.drive, powered.file);
        self.annex.go_on(&self.file);
        self.pointer = Some(pointer);
    }

    /// Whether it is read beside its writer.
    pub(crate) fn is_beside(&self) -> bool {
        self.moment.is_some()
    }

    /// The drive inside: its counters and checks.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }
    /// The version of the image's format. One of version 1 has its superblock and headers once, and
    /// its records do not say what others there are: some damage of them cannot be seen.
    pub fn version(&self) -> u32 {
        self.version as u32
    }
    /// What was found damaged at power-on and was there a second time; the next write mends it.
    pub fn damage(&self) -> &[Damage] {
        &self.survived
    }
    /// The part of the file behind the drive.
    pub fn annex(&self) -> Annex {
        self.annex.clone()
    }
    /// What was written to the file since it was opened.
    pub fn file_stats(&self) -> FileStats {
        self.written.and(self.file.stats())
    }
    /// Makes everything durable and lets go of the file.
    ///
    /// # Errors
    /// As a flush.
    pub fn close(mut self) -> Result<(), DeviceError> {
        let at = self.drive.now();
        self.submit(at, Request::flush())?;
        self.file.let_go().map_err(DeviceError::Io)?;
        self.unlock();
        Ok(())
    }

    /// Lets others have the image. A child that was forked meanwhile holds the same lock, so closing
    /// the file would not be enough.
    fn unlock(&mut self) {
        if let Some(lock) = self.lock.take() {
            // What cannot be unlocked is unlocked by the end of this process and its children.
            let _ = lock.unlock();
        }
    }

    pub(crate) fn is_inherited(&self) -> bool {
        self.process != std::process::id()
    }
}

/// What nobody waits for may be lost here, as in any power cut: nobody was told that it is there.
impl Drop for ImageDrive {
    fn drop(&mut self) {
        if self.is_inherited() {
            return;
        }
        let _ = self.file.let_go();
        self.unlock();
    }
}
