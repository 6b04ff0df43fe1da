//! The directory from mount to unmount.
//!
//! Order of stopping: the loop device is detached, then the directory is unmounted, then the
//! threads are joined. Nothing is forced unasked: a device or a file that is still in use is waited for,
//! because cutting it off loses what its user has not yet flushed. The caller may stop waiting: then the
//! mount is left over, and `varve doctor` says so; or its users are cut off, if that is what he wants.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use rustix::mm::MlockAllFlags;
use rustix::mount::UnmountFlags;

use super::command::Command;
use super::files::Files;
use super::left::{cut_off, is_dead};
use super::loop_device::{LoopDevice, program};
use super::{DISK, FuseError, SOURCE};
use stack::disk::{Capabilities, Disk};

/// How long to wait before looking again whether something is still in use.
const AGAIN: Duration = Duration::from_millis(50);

/// What a mount is made of beside the disk.
pub struct Options {
    /// Threads that serve requests.
    pub threads: usize,
    /// What `stats.json` says, made anew at each open.
    pub stats: Arc<dyn Fn() -> String + Send + Sync>,
    /// Who carries out what is written to `control`; without it there is no such file.
    pub command: Option<Arc<Command>>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// What to do about something that is still in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// Wait on.
    Wait,
    /// Leave the mount as it is.
    Leave,
    /// Cut off whoever uses it.
    CutOff,
}

/// How stopping ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stopped {
    /// Nothing is left over.
    Clean,
    /// The caller did not want to wait for what is in use: it is left over.
    GaveUp,
    /// Who still used it was cut off.
    CutOff,
}

/// A mounted directory, and the loop device over its file.
#[derive(Debug)]
pub struct Mount {
    session: BackgroundSession,
    dir: PathBuf,
    /// The directory was made by us.
    made: bool,
    disk: Capabilities,
    errors: Arc<AtomicU64>,
    device: Option<LoopDevice>,
}

/// Keeps this process from waiting for itself when the host's kernel writes to a device that this
/// process serves: its own file writes are not held back for that device's sake, and its pages
/// stay in memory. Gives the reasons why a part of it is not possible here.
pub fn shield_from_own_writeback() -> Vec<String> {
    let mut not = Vec::new();
    // New threads inherit it, so this comes before they are made.
    if let Err(e) = rustix::process::configure_io_flusher_behavior(true) {
        not.push(format!("not exempt from write throttling: {e}"));
    }
    let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if let Err(e) = rustix::mm::mlockall(all) {
        not.push(format!("memory not locked: {e}"));
    }
    not
}

/// What the file can do, in words.
pub fn advertised(can: &Capabilities) -> String {
    let access = if can.read_only { "read-only" } else { "read and write at any byte" };
    let cache = if can.volatile { "write back (fsync flushes, O_DSYNC forces)" } else { "none" };
    let holes = if can.trim { "punched and found" } else { "none" };
    format!(
        "{} bytes; {access}; write cache: {cache}; holes: {holes}; blocks of {} bytes; atomic: {} \
         bytes",
        can.size, can.block, can.atomic,
    )
}

impl Mount {
    /// Mounts `disk` on a directory, which is made if there is none.
    ///
    /// # Errors
    /// [`FuseError::Mount`].
    pub fn new(disk: Arc<dyn Disk>, dir: &Path, options: Options) -> Result<Mount, FuseError> {
        let failed = |source| FuseError::Mount { dir: dir.to_path_buf(), source };
        if is_dead(dir) {
            return Err(FuseError::Dead { dir: dir.to_path_buf() });
        }
        let made = match fs::create_dir(dir) {
            Ok(()) => true,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => false,
            Err(e) => return Err(failed(e)),
        };
        let mounted = Mount::over(disk, dir, options);
        if mounted.is_err() && made {
            let _ = fs::remove_dir(dir);
        }
        mounted.map(|mount| Mount { made, ..mount }).map_err(failed)
    }

    fn over(disk: Arc<dyn Disk>, dir: &Path, options: Options) -> io::Result<Mount> {
        let dir = dir.canonicalize()?;
        // The kernel would take a file, too.
        if !dir.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let capabilities = disk.capabilities();
        let errors = Arc::new(AtomicU64::new(0));
        let files = Files::new(disk, options.stats, options.command, errors.clone());
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(SOURCE.to_string()),
            MountOption::Subtype("varve".to_string()),
            MountOption::DefaultPermissions,
            MountOption::NoSuid,
            MountOption::NoDev,
            MountOption::NoExec,
            MountOption::NoAtime,
        ];
        config.acl = SessionACL::Owner;
        config.n_threads = Some(options.threads.max(1));
        config.clone_fd = true;
        let session = fuser::spawn_mount(files, &dir, &config)?;
        Ok(Mount { session, dir, made: false, disk: capabilities, errors, device: None })
    }

    /// The device's file.
    pub fn file(&self) -> PathBuf {
        self.dir.join(DISK)
    }

    /// Counts the requests in order that the disk refused.
    pub fn error_count(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.errors)
    }

    /// Makes a block device of the file.
    ///
    /// # Errors
    /// [`FuseError::Program`].
    pub fn attach_loop(&mut self) -> Result<&Path, FuseError> {
        let device = LoopDevice::attach(&self.file(), self.disk.block, self.disk.read_only)?;
        Ok(self.device.insert(device).path())
    }

    /// Whether somebody else unmounted the directory.
    pub fn ended(&self) -> bool {
        self.session.guard.is_finished()
    }

    /// Detaches, unmounts and ends the threads. While something is in use, `wait` is told what and where,
    /// again and again, and says what to do.
    ///
    /// # Errors
    /// [`FuseError`]; what is not undone then is left over.
    pub fn stop(self, mut wait: impl FnMut(&str, &Path) -> Patience) -> Result<Stopped, FuseError> {
        if let Some(device) = &self.device {
            device.detach()?;
            let what = format!("{} is in use", device.path().display());
            while device.attached() {
                match wait(&what, device.path()) {
                    Patience::Wait => std::thread::sleep(AGAIN),
                    Patience::Leave => return Ok(self.leave()),
                    // The kernel lets the device go when its last user does.
                    Patience::CutOff => return self.cut_off(),
                }
            }
        }
        let what = format!("a file in {} is open", self.dir.display());
        while !self.unmounted()? {
            match wait(&what, &self.dir) {
                Patience::Wait => std::thread::sleep(AGAIN),
                Patience::Leave => return Ok(self.leave()),
                Patience::CutOff => return self.cut_off(),
            }
        }
        let (dir, made) = (self.dir, self.made);
        self.session.join().map_err(FuseError::Session)?;
        if made {
            fs::remove_dir(&dir).map_err(|source| FuseError::Unmount { dir, source })?;
        }
        Ok(Stopped::Clean)
    }

    /// Takes the mount from whoever uses it. A thread of the session may be in a request that never ends:
    /// none is waited for.
    fn cut_off(self) -> Result<Stopped, FuseError> {
        cut_off(&self.dir)?;
        if self.made {
            // If something else is mounted there, it stays.
            let _ = fs::remove_dir(&self.dir);
        }
        std::mem::forget(self.session);
        Ok(Stopped::CutOff)
    }

    /// Leaves the mount as it is, for a process that ends now: dropping it would unmount it
    /// lazily, and then nobody could see any more that something is left over.
    fn leave(self) -> Stopped {
        std::mem::forget(self.session);
        Stopped::GaveUp
    }

    /// Tries to unmount; false while something has a file there open.
    fn unmounted(&self) -> Result<bool, FuseError> {
        if self.ended() { Ok(true) } else { unmount(&self.dir) }
    }
}

/// Tries to unmount a directory; false while something has a file there open.
///
/// # Errors
/// [`FuseError`].
pub fn unmount(dir: &Path) -> Result<bool, FuseError> {
    let failed = |e: rustix::io::Errno| FuseError::Unmount {
        dir: dir.to_path_buf(),
        source: io::Error::from_raw_os_error(e.raw_os_error()),
    };
    match rustix::mount::unmount(dir, UnmountFlags::empty()) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::BUSY) => Ok(false),
        // Somebody else was faster.
        Err(rustix::io::Errno::INVAL) => Ok(true),
        Err(rustix::io::Errno::PERM) => {
            match program("fusermount3", &["-u".as_ref(), dir.as_os_str()]) {
                Ok(_) => Ok(true),
                Err(FuseError::Program { what, .. }) if what.contains("busy") => Ok(false),
                Err(e) => Err(e),
            }
        }
        Err(e) => Err(failed(e)),
    }
}
