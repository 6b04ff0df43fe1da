//! A mounted file system from mount to unmount, and through power cuts.
//!
//! Invariants: the volume is unmounted (its checkpoint written) after the kernel has let the
//! directory go, so that nothing comes behind it; one session at a time serves the directory.

use std::ffi::CString;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use lfs::{Fs, FsError};
use rustix::mount::{MountFlags, UnmountFlags};

use super::behind::Behind;
use super::cleaner::Cleaner;
use super::device::DiskDevice;
use super::end;
use super::files::Files;
use super::options::MountOptions;
use super::stats::counters;
use super::syncs::Syncs;
use super::table::KIND;
use super::takers::Takers;
use super::volume::Volume;
use crate::fuse::{FuseError, is_dead, unmount};
use stack::disk::{DiskError, Meter};
use stack::live::Stack;
use stack::power::{Power, PowerError, PowerState, When};

/// How long to wait before looking again whether something is still in use.
const AGAIN: Duration = Duration::from_millis(20);

/// Why a volume cannot be mounted, or let go.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The volume.
    #[error(transparent)]
    Volume(#[from] FsError),
    /// The directory, or the kernel.
    #[error(transparent)]
    Fuse(#[from] FuseError),
    /// It ended, and not all that was written is there.
    #[error("{0}")]
    NotDurable(String),
    /// A thread could not be started.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// What power cuts and unmounting have in common.
struct Shared {
    stack: Stack,
    dir: PathBuf,
    /// What the table of mounts says it is mounted from.
    source: String,
    options: MountOptions,
    volume: Arc<Volume>,
    /// None while power comes back, and after the end.
    session: Mutex<Option<BackgroundSession>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// A mounted file system.
#[derive(Debug)]
pub struct FsMount {
    shared: Arc<Shared>,
    committer: Option<(Arc<Stop>, JoinHandle<()>)>,
}

#[derive(Debug, Default)]
struct Stop {
    stopped: Mutex<bool>,
    told: Condvar,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn open(&self) -> Result<Fs<Behind>, MountError> {
        let read_only = self.options.read_only || self.stack.disk.capabilities().read_only;
        let options = lfs::FsOptions { read_only, ..self.options.fs };
        let device = DiskDevice(Arc::clone(&self.stack.disk));
        let device = Behind::new(device, self.options.strict)?;
        Ok(Fs::mount(device, options, self.volume.now())?)
    }

    fn config(&self) -> Config {
        let o = &self.options;
        let either = |on, yes, no| if on { yes } else { no };
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(self.source.clone()),
            MountOption::DefaultPermissions,
            either(o.read_only, MountOption::RO, MountOption::RW),
            either(o.suid, MountOption::Suid, MountOption::NoSuid),
            either(o.dev, MountOption::Dev, MountOption::NoDev),
            either(o.exec, MountOption::Exec, MountOption::NoExec),
        ];
        if o.subtype {
            config.mount_options.push(MountOption::Subtype("varve".to_string()));
        }
        config.acl = if o.allow_other { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some(o.threads.max(1));
        config.clone_fd = true;
        config
    }

    /// Mounts the directory. As root by the system call, because `fuser` leaves our name out of the
    /// type then, and programs look for file systems by their type.
    fn attach(&self, files: Files) -> std::io::Result<BackgroundSession> {
        let config = self.config();
        if !rustix::process::geteuid().is_root() {
            return fuser::spawn_mount(files, &self.dir, &config);
        }
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
        let o = &self.options;
        let mut flags = MountFlags::empty();
        for (set, flag) in [
            (o.read_only, MountFlags::RDONLY),
            (!o.suid, MountFlags::NOSUID),
            (!o.dev, MountFlags::NODEV),
            (!o.exec, MountFlags::NOEXEC),
        ] {
            flags.set(flag, set);
        }
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let data = format!(
            "fd={},rootmode=40000,user_id={},group_id={},default_permissions{}",
            device.as_raw_fd(),
            uid.as_raw(),
            gid.as_raw(),
            if o.allow_other { ",allow_other" } else { "" },
        );
        let data = CString::new(data)?;
        let kind = if o.subtype { KIND } else { "fuse" };
        rustix::mount::mount(&self.source, &self.dir, kind, flags, data.as_c_str())?;
        let started = Session::from_fd(files, device.into(), config.acl, config.clone())
            .and_then(Session::spawn);
        if started.is_err() {
            // There is nobody behind it; what is wrong has a better name already.
            let _ = rustix::mount::unmount(&self.dir, UnmountFlags::DETACH);
        }
        started
    }

    /// Puts the volume into the directory.
    fn serve(&self, session: &mut Option<BackgroundSession>) -> Result<(), MountError> {
        self.volume.put(self.open()?);
        let files = Files {
            volume: Arc::clone(&self.volume),
            syncs: Syncs::new(&self.volume)?,
            takers: Takers::new(self.options.threads.max(1)),
            _cleaner: Cleaner::new(&self.volume)?,
            writeback: self.options.writeback,
            opens_itself: false,
            below: self.stack.clone(),
        };
        match self.attach(files) {
            Ok(started) => {
                self.volume.kernel.serves(Some(started.notifier()));
                *session = Some(started);
                Ok(())
            }
            Err(source) => {
                self.close()?;
                Err(FuseError::Mount { dir: self.dir.clone(), source }.into())
            }
        }
    }

    /// Unmounts the volume. One that failed says so once more: not all that was written is there.
    fn close(&self) -> Result<(), MountError> {
        self.volume.kernel.serves(None);
        let Some(mut fs) = self.volume.take() else { return Ok(()) };
        if !self.stack.power.state().on {
            return Ok(());
        }
        if let Some(failure) = self.volume.failure() {
            return Err(MountError::NotDurable(failure));
        }
        // What the last checkpoint does not get to.
        let lost = end::lost(&mut fs, self.volume.now());
        let device = fs
            .unmount(self.volume.now())
            .map_err(|error| MountError::NotDurable(format!("{error}; {lost}")))?;
        // What nobody waited for, as what was given back.
        device.finish().map_err(|error| MountError::NotDurable(error.to_string()))
    }

    /// What a machine does whose power comes back: the old mount is gone, and a new one there.
    fn boot(&self) -> Result<(), PowerError> {
        let mut session = lock(&self.session);
        let failed = |error: String| PowerError::Disk(DiskError::Io(std::io::Error::other(error)));
        self.volume.kernel.serves(None);
        if let Some(old) = session.take() {
            // Forced: whoever has a file open there is told that it is lost.
            let flags = UnmountFlags::FORCE | UnmountFlags::DETACH;
            rustix::mount::unmount(&self.dir, flags)
                .map_err(|error| failed(format!("cannot end the old mount: {error}")))?;
            cut_off(old.join()).map_err(|error| failed(error.to_string()))?;
        }
        if let Some(fs) = self.volume.take() {
            // What was not written yet is lost with the power.
            fs.abandon().end();
        }
        self.stack.power.on()?;
        self.serve(&mut session).map_err(|error| failed(error.to_string()))
    }
}

/// The switch of a stack with a file system mounted on it.
#[derive(Debug)]
struct MountPower(Arc<Shared>);

impl Power for MountPower {
    fn cut(&self, when: When) -> Result<(), PowerError> {
        self.0.stack.power.cut(when)
    }
    fn on(&self) -> Result<(), PowerError> {
        if self.0.stack.power.state().on {
            return Err(PowerError::On);
        }
        self.0.boot()
    }
    fn state(&self) -> PowerState {
        self.0.stack.power.state()
    }
}

impl FsMount {
    /// Mounts the volume on a stack. `source` is what the table of mounts says.
    ///
    /// # Errors
    /// [`MountError`].
    pub fn new(
        stack: Stack,
        source: &str,
        dir: &Path,
        options: MountOptions,
    ) -> Result<FsMount, MountError> {
        let failed = |source| FuseError::Mount { dir: dir.to_path_buf(), source };
        if is_dead(dir) {
            return Err(FuseError::Dead { dir: dir.to_path_buf() }.into());
        }
        let dir = dir.canonicalize().map_err(failed)?;
        if !dir.is_dir() {
            return Err(failed(std::io::ErrorKind::NotADirectory.into()).into());
        }
        let volume = Arc::new(Volume::new(Arc::clone(&stack.power), options.atime, &dir));
        let source = source.to_string();
        let session = Mutex::new(None);
        let shared = Arc::new(Shared { stack, dir, source, options, volume, session });
        shared.serve(&mut lock(&shared.session))?;
        let committer = if shared.options.read_only { None } else { Some(committer(&shared)?) };
        Ok(FsMount { shared, committer })
    }

    /// Where it is mounted.
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// The stack, with a switch that mounts again when power comes back.
    pub fn stack(&self) -> Stack {
        let power = Arc::new(MountPower(Arc::clone(&self.shared)));
        Stack { power, ..self.shared.stack.clone() }
    }

    /// Counters of the file system, for a control socket.
    pub fn counters(&self) -> Box<crate::control::Counters> {
        let volume = Arc::clone(&self.shared.volume);
        Box::new(move || counters(&volume))
    }

    /// What programs ask of files, counted.
    pub fn meter(&self) -> Arc<Meter> {
        Arc::clone(self.shared.volume.meter())
    }

    /// Makes all that was written durable: a checkpoint.
    ///
    /// # Errors
    /// The file system's, in words.
    pub fn checkpoint(&self) -> Result<(), String> {
        let made = self.shared.volume.checkpoint();
        made.map_err(|error| std::io::Error::from_raw_os_error(error.code()).to_string())
    }

    /// Whether somebody unmounted the directory.
    pub fn ended(&self) -> bool {
        let session = lock(&self.shared.session);
        session.as_ref().is_some_and(|session| session.guard.is_finished())
    }

    /// Unmounts the directory and then the volume. While something there is in use `wait` is told,
    /// again and again, and says whether to go on waiting; if not, the mount is cut off: what its
    /// users have not flushed is lost, the volume itself is unmounted cleanly.
    ///
    /// # Errors
    /// [`MountError`].
    pub fn stop(mut self, mut wait: impl FnMut(&str) -> bool) -> Result<(), MountError> {
        if let Some((stop, thread)) = self.committer.take() {
            *lock(&stop.stopped) = true;
            stop.told.notify_all();
            // It does nothing that could matter any more.
            let _ = thread.join();
        }
        let what = format!("a file in {} is open", self.shared.dir.display());
        let mut session = lock(&self.shared.session);
        if let Some(session) = session.take() {
            let mut forced = false;
            while !session.guard.is_finished() && !unmount(&self.shared.dir)? {
                if !wait(&what) {
                    let flags = UnmountFlags::FORCE | UnmountFlags::DETACH;
                    rustix::mount::unmount(&self.shared.dir, flags)
                        .map_err(std::io::Error::from)?;
                    forced = true;
                    break;
                }
                std::thread::sleep(AGAIN);
            }
            let ended = session.join();
            let ended = if forced { cut_off(ended) } else { ended };
            ended.map_err(FuseError::Session)?;
        }
        let closed = self.shared.close();
        if let Err(error) = &closed {
            end::say(&self.shared.dir, &format!("unmounted, but {error}"));
            if let Err(error) = end::leave(self.shared.volume.end(), &error.to_string()) {
                let what = format!("{}: {error}", self.shared.volume.end().display());
                end::say(&self.shared.dir, &what);
            }
        }
        closed
    }
}

/// How a session ended whose directory was forced away: the kernel tells a thread that reads its next
/// request then that the connection was aborted, which is what we asked for.
fn cut_off(ended: std::io::Result<()>) -> std::io::Result<()> {
    match ended {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => Ok(()),
        other => other,
    }
}

/// Segments cleaned in the background in one go.
const CLEANED: u32 = 4;

/// Makes a checkpoint every so often, and cleans when nobody asked for anything meanwhile.
fn committer(shared: &Arc<Shared>) -> std::io::Result<(Arc<Stop>, JoinHandle<()>)> {
    let stop = Arc::new(Stop::default());
    let (told, volume, every) =
        (Arc::clone(&stop), Arc::clone(&shared.volume), shared.options.commit);
    let thread = std::thread::Builder::new().name("commit".to_string()).spawn(move || {
        let mut seen = volume.asked();
        let mut stopped = lock(&told.stopped);
        while !*stopped {
            let (guard, waited) =
                told.told.wait_timeout(stopped, every).unwrap_or_else(PoisonError::into_inner);
            stopped = guard;
            if waited.timed_out() && !*stopped {
                let quiet = volume.asked() == seen;
                // An error shows at the next request, and at the unmount.
                let _ = match quiet {
                    true => volume.with(|fs, now| fs.idle(now, CLEANED).map(|_| ())),
                    false => volume.checkpoint(),
                };
                seen = volume.asked();
            }
        }
    })?;
    Ok((stop, thread))
}
