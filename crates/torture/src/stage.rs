//! A file system on a drive, for a program or a checker.
//!
//! Below a file system of this kernel the drive is a file in a FUSE directory of ours, with a loop device
//! over it; `lfs` is mounted by FUSE from the drive itself. The loop device stays from state to state. The kernel
//! forgets what it read of a device when the last who has it open is gone: not only mounts, in any namespace, but
//! anybody who looks what is on it. Another state is put in when no mount is left, and [`Stage::fresh`]
//! makes the kernel forget then, whoever looks.

use std::fmt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::mount::{MountFlags, UnmountFlags};
use serve::fuse::{Mount, Options, Patience, who_holds};
use serve::mount::{DiskDevice, FsMount, MountError, MountOptions};
use stack::disk::{Disk, Meter};
use stack::live::Stack;
use stack::power::{NoSwitch, Power};

use crate::error::TortureError;
pub use crate::kind::{Kind, search_path};
use crate::strict::{self, Blocks, Session, Volume};

/// How long what is still in use is waited for.
const LINGER: Duration = Duration::from_secs(5);
/// Threads that serve the drive.
const THREADS: usize = 4;
/// The folder of the program on the drive.
const FOLDER: &str = "w";

/// How a stage is set up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    /// The file system.
    pub kind: Kind,
    /// More words for its maker.
    pub mkfs: String,
    /// Options of the mount, separated by commas.
    pub options: String,
}

/// Carries out one line; an error is a text for people.
pub type Heard = dyn Fn(&str) -> Result<String, String> + Send + Sync;

enum Mounted {
    Kernel,
    Lfs(Box<FsMount>),
    /// A program writes to it.
    Strict(Session),
    /// The files of a state, in a folder.
    Laid,
}

/// A drive, and the file system on it.
pub struct Stage {
    setup: Setup,
    scratch: PathBuf,
    disk: Arc<dyn Disk>,
    /// The drive as a file, and whoever hears marks.
    served: Option<Mount>,
    device: PathBuf,
    mounted: Option<Mounted>,
    strict: Strict,
    /// The drive's switch.
    power: Arc<dyn Power>,
}

/// What the strict file system is told as.
#[derive(Clone, Debug, Default)]
pub enum Strict {
    /// It is another one.
    #[default]
    Not,
    /// A program writes to it.
    Volume(Arc<Mutex<Volume>>),
    /// States of a log.
    States(Arc<Blocks>),
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").field("scratch", &self.scratch).finish_non_exhaustive()
    }
}

/// Why a state has no file system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unmountable(pub String);

impl Stage {
    /// Sets a drive up in a folder that is ours; `heard` is told what is written to [`Stage::ears`].
    ///
    /// # Errors
    /// What the machine does not allow.
    pub fn new(
        disk: Arc<dyn Disk>,
        scratch: &Path,
        setup: &Setup,
        heard: Option<Arc<Heard>>,
    ) -> Result<Stage, TortureError> {
        let fs = scratch.join("fs");
        std::fs::create_dir_all(&fs).map_err(TortureError::io(&fs))?;
        let failed = |error: serve::fuse::FuseError| TortureError::Machine(error.to_string());
        let kernel = setup.kind.maker().is_some();
        let (mut served, mut device) = (None, PathBuf::new());
        if kernel || heard.is_some() {
            let options = Options {
                threads: THREADS,
                stats: Arc::new(|| "{}\n".to_string()),
                command: heard,
            };
            let dir = scratch.join("drive");
            let mut mount = Mount::new(Arc::clone(&disk), &dir, options).map_err(failed)?;
            if kernel {
                let attached = mount.attach_loop().map(Path::to_path_buf);
                match attached {
                    Ok(path) => device = path,
                    Err(error) => {
                        let _ = mount.stop(|_, _| Patience::CutOff);
                        return Err(failed(error));
                    }
                }
            }
            served = Some(mount);
        }
        let (setup, scratch) = (setup.clone(), scratch.to_path_buf());
        let strict = Strict::Not;
        let power = Arc::new(NoSwitch("it is a state"));
        Ok(Stage { setup, scratch, disk, served, device, mounted: None, strict, power })
    }

    /// The power of the drive can go: whoever lets a file system go asks whether it has.
    pub fn switched_by(&mut self, power: Arc<dyn Power>) {
        self.power = power;
    }

    /// What a strict file system is told as.
    pub fn told_as(&mut self, strict: Strict) {
        self.strict = strict;
    }

    /// The folder of the program.
    pub fn folder(&self) -> PathBuf {
        self.root().join(FOLDER)
    }

    /// The root of the file system.
    pub fn root(&self) -> PathBuf {
        self.scratch.join("fs")
    }

    /// The file that hears marks.
    pub fn ears(&self) -> PathBuf {
        self.scratch.join("drive").join(serve::fuse::CONTROL)
    }

    /// The drive for programs that read one: the loop device, or its file.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// Makes the file system and the program's folder, and makes them durable; it is mounted then.
    ///
    /// # Errors
    /// What the maker said.
    pub fn make(&mut self) -> Result<(), TortureError> {
        match self.setup.kind.maker() {
            Some(words) => {
                let more = self.setup.mkfs.split_whitespace();
                let words: Vec<&str> = words.iter().copied().chain(more).collect();
                program(&words, &self.device).map_err(TortureError::Machine)?;
            }
            None if self.setup.kind == Kind::Strict => {}
            None => {
                let options = lfs::MkfsOptions::new(*b"varve torture \0\0", 1);
                let now = lfs::Now { at: block::Time::ZERO, wall: serve::mount::wall() };
                let made = lfs::mkfs(DiskDevice(Arc::clone(&self.disk)), &options, now);
                made.map_err(|error| TortureError::Machine(format!("lfs: {error}")))?;
            }
        }
        self.mount().map_err(|why| TortureError::Machine(why.0))?;
        let folder = self.folder();
        std::fs::create_dir(&folder).map_err(TortureError::io(&folder))?;
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&folder, all).map_err(TortureError::io(&folder))?;
        self.sync()
    }

    /// Mounts what is on the drive: recovery.
    ///
    /// # Errors
    /// It does not come up.
    pub fn mount(&mut self) -> Result<(), Unmountable> {
        let root = self.root();
        self.mounted = Some(match self.setup.kind {
            Kind::Strict => {
                self.strictly(&root).map_err(|e| Unmountable(format!("strict: {e}")))?
            }
            Kind::Lfs => {
                let mut options = MountOptions { threads: 2, ..MountOptions::default() };
                options.apply(&format!("noatime,{}", self.setup.options)).map_err(Unmountable)?;
                let stack = Stack {
                    name: "a state".to_string(),
                    identity: "a state".to_string(),
                    lasts: false,
                    disk: Arc::clone(&self.disk),
                    power: Arc::clone(&self.power),
                    meter: Arc::new(Meter::default()),
                    blocks: None,
                    recorders: Vec::new(),
                };
                let mounted = FsMount::new(stack, "varve-torture", &root, options);
                Mounted::Lfs(Box::new(mounted.map_err(|error| Unmountable(error.to_string()))?))
            }
            kind => {
                let (always, own) = (kind.always(), self.setup.options.as_str());
                let comma = if always.is_empty() || own.is_empty() { "" } else { "," };
                let data = std::ffi::CString::new(format!("{always}{comma}{own}"))
                    .map_err(|error| Unmountable(error.to_string()))?;
                let flags = MountFlags::NOATIME | MountFlags::NOSUID | MountFlags::NODEV;
                rustix::mount::mount(&self.device, &root, kind.name(), flags, data.as_c_str())
                    .map_err(|error| Unmountable(format!("{kind}: mount: {error}")))?;
                Mounted::Kernel
            }
        });
        Ok(())
    }

    fn strictly(&self, root: &Path) -> std::io::Result<Mounted> {
        match &self.strict {
            Strict::Not => Err(std::io::Error::other("nobody said what it is told as")),
            Strict::Volume(volume) => strict::mount(Arc::clone(volume), root).map(Mounted::Strict),
            Strict::States(blocks) => {
                strict::lay(&*self.disk, blocks, root).map(|()| Mounted::Laid)
            }
        }
    }

    /// What was written is durable.
    ///
    /// # Errors
    /// What the system said.
    pub fn sync(&self) -> Result<(), TortureError> {
        let root = self.root();
        match &self.mounted {
            Some(Mounted::Lfs(mount)) => {
                mount.checkpoint().map_err(|error| TortureError::Broken(format!("lfs: {error}")))
            }
            Some(Mounted::Strict(_)) => match &self.strict {
                Strict::Volume(volume) => {
                    let mut volume = volume.lock().unwrap_or_else(PoisonError::into_inner);
                    let synced = volume.sync_all();
                    synced.map_err(|error| TortureError::io(&root)(error.into()))
                }
                _ => Ok(()),
            },
            Some(Mounted::Laid) => Ok(()),
            Some(Mounted::Kernel) => {
                let folder = std::fs::File::open(&root).map_err(TortureError::io(&root))?;
                let synced = rustix::fs::syncfs(&folder);
                synced.map_err(|error| TortureError::io(&root)(error.into()))
            }
            None => Ok(()),
        }
    }

    /// Lets the file system go.
    ///
    /// # Errors
    /// Somebody still uses it, and who; what a drive that failed has not taken.
    pub fn unmount(&mut self) -> Result<(), TortureError> {
        let (since, root) = (Instant::now(), self.root());
        match self.mounted.take() {
            None => Ok(()),
            Some(Mounted::Lfs(mount)) => {
                let stopped = mount.stop(|_| since.elapsed() < LINGER);
                stopped.map_err(|error| match error {
                    MountError::Volume(_) | MountError::NotDurable(_) => {
                        TortureError::NotDurable(error.to_string())
                    }
                    error => TortureError::Broken(format!("unmount: {error}")),
                })
            }
            Some(Mounted::Laid) => {
                let cleared = std::fs::remove_dir_all(&root);
                let again = cleared.and_then(|()| std::fs::create_dir(&root));
                again.map_err(TortureError::io(&root))
            }
            Some(Mounted::Strict(session)) => loop {
                match session.unmount().map_err(TortureError::io(&root))? {
                    true => return session.end().map_err(TortureError::io(&root)),
                    false if since.elapsed() < LINGER => {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    false => {
                        let what = format!("unmount: in use: {}", who_holds(&root));
                        let _ = rustix::mount::unmount(&root, UnmountFlags::DETACH);
                        return Err(TortureError::Broken(what));
                    }
                }
            },
            Some(Mounted::Kernel) => loop {
                match rustix::mount::unmount(&root, UnmountFlags::empty()) {
                    Ok(()) => return self.forgotten(since),
                    Err(rustix::io::Errno::BUSY) if since.elapsed() < LINGER => {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    Err(error) => {
                        let what = format!("unmount: {error}: {}", who_holds(&root));
                        let _ = rustix::mount::unmount(&root, UnmountFlags::DETACH);
                        return Err(TortureError::Broken(what));
                    }
                }
            },
        }
    }

    /// Waits until the kernel has let the file system go. The namespace of a checker that was killed has the
    /// mount too and goes later; until then another state would be seen through what is known of this one.
    /// Whoever opens a block device exclusively is refused as long as a file system has it.
    fn forgotten(&self, since: Instant) -> Result<(), TortureError> {
        let mut exclusively = std::fs::OpenOptions::new();
        exclusively.read(true).custom_flags(OFlags::EXCL.bits().cast_signed());
        loop {
            match exclusively.open(&self.device) {
                Ok(_) => return Ok(()),
                Err(_) if since.elapsed() < LINGER => std::thread::sleep(Duration::from_millis(2)),
                Err(error) => {
                    let device = self.device.display();
                    return Err(TortureError::Broken(format!(
                        "{device} is still mounted: {error}"
                    )));
                }
            }
        }
    }

    /// Another state was put in: makes the kernel forget what it knew of the one before. It does so by itself
    /// only if nobody has the device open, and anybody may: whoever names file systems for a desktop, another
    /// `losetup` that finds this one taken.
    ///
    /// # Errors
    /// Somebody has mounted it.
    pub fn fresh(&self) -> Result<(), TortureError> {
        if !self.setup.kind.is_of_kernel() {
            return Ok(());
        }
        let failed = |error: std::io::Error| {
            let device = self.device.display();
            TortureError::Broken(format!("{device}: its state cannot be changed: {error}"))
        };
        let mut exclusively = std::fs::OpenOptions::new();
        exclusively.read(true).custom_flags(OFlags::EXCL.bits().cast_signed());
        let device = exclusively.open(&self.device).map_err(failed)?;
        let all = rustix::fs::fadvise(&device, 0, None, rustix::fs::Advice::DontNeed);
        all.map_err(|error| failed(error.into()))
    }

    /// What the checker of the file system says of what is on the drive, which is not mounted; nothing if
    /// it is content. `image` is a file that it may use.
    ///
    /// # Errors
    /// The checker cannot be run.
    pub fn complaint(&self, image: &Path) -> Result<Option<String>, TortureError> {
        let words = self.setup.kind.checker();
        if words.is_empty() {
            return Ok(None);
        }
        if self.setup.kind != Kind::Lfs {
            return Ok(program(words, &self.device).err());
        }
        crate::image::write(&*self.disk, image)?;
        let this = std::env::current_exe().map_err(TortureError::io("this program"))?;
        let this = this.to_string_lossy().into_owned();
        let said = program(&[&this, words[0]], image).err();
        let _ = std::fs::remove_file(image);
        Ok(said)
    }

    /// Undoes all.
    ///
    /// # Errors
    /// What is left over.
    pub fn end(mut self) -> Result<(), TortureError> {
        let unmounted = self.unmount();
        if let Some(served) = self.served.take() {
            let since = Instant::now();
            let wait = |_: &str, _: &Path| match since.elapsed() < LINGER {
                true => Patience::Wait,
                false => Patience::CutOff,
            };
            let stopped = served.stop(wait);
            stopped.map_err(|error| TortureError::Broken(error.to_string()))?;
        }
        unmounted
    }
}

/// Runs a program of the system on the drive.
fn program(words: &[&str], on: &Path) -> Result<(), String> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(on).env("PATH", search_path()).stdin(Stdio::null());
    let out = command.output().map_err(|error| format!("{}: {error}", words[0]))?;
    if out.status.success() {
        return Ok(());
    }
    let said = [out.stderr, out.stdout].concat();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let from = lines.len().saturating_sub(3);
    Err(format!("{}: {} ({})", words[0], lines[from..].join("; "), out.status))
}
