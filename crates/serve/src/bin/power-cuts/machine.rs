//! What stands around the file system: the block device, its power, and the system's own tools.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use varve_serve::fuse::{self, LoopDevice};

use crate::content::BLOCK;
use crate::load::aligned;

/// How long something may stay busy, or a cut may be on its way.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A file system: how it is made and checked. All of them are the system's own programs.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Name, as `mount` has it.
    pub name: &'static str,
    make: &'static [&'static str],
    check: &'static [&'static str],
    /// Bytes that it writes over in place and takes for whole: a device that may tear them is none
    /// for it.
    pub atomic: usize,
    /// A file that was being written may show what its blocks' places held before.
    pub exposes: bool,
    /// A name that a renamed file had before may be there again beside the new one.
    pub stale: bool,
    /// Its `fsync` may say yes after an error that another thread met.
    pub late: bool,
    /// The checker ends with 0 also where it found something, and says this.
    complaint: Option<&'static str>,
}

/// Those that are known.
pub const KINDS: [Kind; 4] = [
    Kind {
        name: "ext4",
        make: &["mkfs.ext4", "-q", "-F"],
        check: &["e2fsck", "-f", "-n"],
        // Its superblock, whose checksum lies in the second half and is looked at before the journal.
        atomic: 1024,
        exposes: false,
        stale: false,
        late: false,
        complaint: None,
    },
    Kind {
        name: "xfs",
        make: &["mkfs.xfs", "-q", "-f"],
        check: &["xfs_repair", "-n"],
        // Replay leaves out a block whose head is new already, however torn the rest is.
        atomic: 4096,
        exposes: false,
        stale: false,
        late: false,
        complaint: None,
    },
    Kind {
        name: "btrfs",
        make: &["mkfs.btrfs", "-q", "-f"],
        check: &["btrfs", "check", "--readonly"],
        // Its superblock, of which the copies are written together.
        atomic: 4096,
        exposes: false,
        stale: true,
        late: false,
        complaint: None,
    },
    Kind {
        name: "f2fs",
        make: &["mkfs.f2fs", "-q", "-f"],
        check: &["fsck.f2fs", "-f", "--dry-run"],
        atomic: 512,
        // Its fsync writes data, then the node that names it, and flushes once, behind both (`fsync_mode=posix`).
        exposes: true,
        stale: false,
        // Once checkpoints are stopped, the sync of a folder that is on its way ends as if it had
        // been done.
        late: true,
        complaint: Some("[Fail]"),
    },
];

/// Where the device is.
#[derive(Debug)]
pub enum Place {
    /// A block device that is always there.
    Device(PathBuf),
    /// A file that a loop device is made of in each cycle, as a machine would find it anew.
    Loop(PathBuf),
}

/// The machine that the power of the device is cut under.
#[derive(Debug)]
pub struct Machine {
    /// The file system.
    pub kind: Kind,
    /// Where it is mounted.
    pub mount: PathBuf,
    place: Place,
    attached: Option<LoopDevice>,
    control: Control,
}

fn failed(what: impl std::fmt::Display, why: impl std::fmt::Display) -> String {
    format!("{what}: {why}")
}

impl Machine {
    /// Nothing is attached or mounted yet.
    ///
    /// # Errors
    /// The control cannot be opened.
    pub fn new(kind: Kind, mount: PathBuf, place: Place, control: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(&mount).map_err(|e| failed(mount.display(), e))?;
        let control = Control::open(control).map_err(|e| failed(control.display(), e))?;
        Ok(Machine { kind, mount, place, attached: None, control })
    }

    /// The block device.
    pub fn device(&self) -> &Path {
        match (&self.attached, &self.place) {
            (Some(device), _) => device.path(),
            (None, Place::Device(path) | Place::Loop(path)) => path,
        }
    }

    /// Plugs the device in.
    ///
    /// # Errors
    /// What `losetup` said.
    pub fn attach(&mut self) -> Result<(), String> {
        let Place::Loop(file) = &self.place else { return Ok(()) };
        // The file says what the disk wants to be written in.
        let told = std::fs::metadata(file).map_err(|e| failed(file.display(), e))?.blksize();
        let block = u32::try_from(told).map_err(|e| failed(file.display(), e))?;
        let device = LoopDevice::attach(file, block, false).map_err(|e| e.to_string())?;
        self.attached = Some(device);
        Ok(())
    }

    /// Pulls the device out, once nobody uses it.
    ///
    /// # Errors
    /// What `losetup` said, or it stays in use.
    pub fn detach(&mut self) -> Result<(), String> {
        let Some(device) = self.attached.take() else { return Ok(()) };
        device.detach().map_err(|e| e.to_string())?;
        let until = Instant::now() + PATIENCE;
        while device.attached() {
            if Instant::now() > until {
                return Err(format!("{} stays in use", device.path().display()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Pulls the device out, gives it power, and plugs it in again.
    ///
    /// # Errors
    /// The control's, and what the system said.
    pub fn power_on(&mut self) -> Result<(), String> {
        self.detach()?;
        self.say("power-on")?;
        self.attach()?;
        // A device that stays plugged in keeps an error of the time without power for the next one who
        // makes it durable, whoever that is: here, so that it is not the checker.
        let device = File::open(self.device()).map_err(|e| failed("open", e))?;
        let _told = device.sync_all();
        device.sync_all().map_err(|e| failed("sync with the power on", e))
    }

    /// Bytes that the device writes whole.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn sector(&self) -> Result<usize, String> {
        let name = self.device().file_name().unwrap_or_default();
        let told = Path::new("/sys/block").join(name).join("queue/logical_block_size");
        let text = std::fs::read_to_string(&told).map_err(|e| failed(told.display(), e))?;
        let bytes = text.trim().parse().map_err(|e| failed(told.display(), e))?;
        if (512..=BLOCK).contains(&bytes) && BLOCK.is_multiple_of(bytes) {
            return Ok(bytes);
        }
        Err(failed(told.display(), bytes))
    }

    /// Makes the file system.
    ///
    /// # Errors
    /// What the program said.
    pub fn make(&self) -> Result<(), String> {
        run(self.kind.make, self.device()).map(|_| ())
    }

    /// Mounts it.
    ///
    /// # Errors
    /// What the system said.
    pub fn mount(&self, discard: bool) -> Result<(), String> {
        let options = if discard { c"discard" } else { c"" };
        let flags = MountFlags::NOATIME | MountFlags::NODEV | MountFlags::NOSUID;
        rustix::mount::mount(self.device(), &self.mount, self.kind.name, flags, options)
            .map_err(|e| failed(format!("mount {}", self.kind.name), e))
    }

    /// Unmounts it; also one that met errors must come off.
    ///
    /// # Errors
    /// It stays in use, or what the system said.
    pub fn unmount(&self) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        loop {
            match rustix::mount::unmount(&self.mount, UnmountFlags::empty()) {
                Ok(()) => return Ok(()),
                Err(Errno::BUSY) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(e) => return Err(failed(format!("unmount {}", self.mount.display()), e)),
            }
        }
    }

    /// Makes everything that is mounted here durable.
    ///
    /// # Errors
    /// What the system said.
    pub fn sync(&self) -> Result<(), String> {
        let folder = File::open(&self.mount).map_err(|e| failed("sync", e))?;
        rustix::fs::syncfs(&folder).map_err(|e| failed("sync", e))
    }

    /// Whether the checker finds nothing; else what it said.
    ///
    /// # Errors
    /// The checker cannot be run, or complains.
    pub fn check(&self) -> Result<(), String> {
        let said = run(self.kind.check, self.device())?;
        match self.kind.complaint {
            Some(word) if said.contains(word) => Err(failed(self.kind.check[0], said)),
            _ => Ok(()),
        }
    }

    /// Sends a line to the control, and gives its answer.
    ///
    /// # Errors
    /// The control is gone, or refuses.
    pub fn say(&mut self, line: &str) -> Result<String, String> {
        self.control.say(line).map_err(|e| failed(format!("control: {line}"), e))
    }

    /// Whether the device answers: it does not while its power is off.
    pub fn answers(&self) -> bool {
        answers(self.device())
    }

    /// Does something with the bare device, past every cache, with a block that may be used for it.
    ///
    /// # Errors
    /// What the system said.
    pub fn raw<R>(&self, act: impl FnOnce(&File, &mut [u8]) -> io::Result<R>) -> io::Result<R> {
        let file = bare(self.device(), true)?;
        let (mut buffer, skip) = aligned(BLOCK);
        act(&file, &mut buffer[skip..skip + BLOCK])
    }
}

/// A bare device, past every cache; for reading it may be opened while it is mounted.
fn bare(device: &Path, write: bool) -> io::Result<File> {
    let direct = OFlags::DIRECT.bits() as i32;
    OpenOptions::new().read(true).write(write).custom_flags(direct).open(device)
}

/// Whether a device answers.
pub fn answers(device: &Path) -> bool {
    let read = bare(device, false).and_then(|file| {
        let (mut buffer, skip) = aligned(BLOCK);
        file.read_exact_at(&mut buffer[skip..skip + BLOCK], 0)
    });
    read.is_ok()
}

/// Runs a program on the device and gives what it printed.
fn run(program: &[&str], device: &Path) -> Result<String, String> {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let out = Command::new(program[0])
        .args(&program[1..])
        .arg(device)
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| failed(program[0], e))?;
    let text = [out.stdout, out.stderr].concat();
    let text = String::from_utf8_lossy(&text).trim().to_string();
    match out.status.success() {
        true => Ok(text),
        false => Err(failed(program.join(" "), format!("{text} ({})", out.status))),
    }
}

/// Where commands go: a unix socket, a serial line that leads to one, or the file `control` beside
/// the device.
#[derive(Debug)]
enum Control {
    Socket(PathBuf),
    File(PathBuf),
    /// Kept open: a line that is opened anew may lose what is under way.
    Line(BufReader<File>),
}

impl Control {
    fn open(path: &Path) -> io::Result<Control> {
        let kind = std::fs::metadata(path)?.file_type();
        if kind.is_socket() {
            return Ok(Control::Socket(path.to_path_buf()));
        }
        if !kind.is_char_device() {
            return Ok(Control::File(path.to_path_buf()));
        }
        let line = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Control::Line(BufReader::new(line)))
    }

    fn say(&mut self, line: &str) -> io::Result<String> {
        let mut reply = String::new();
        match self {
            Control::Socket(path) => {
                let mut stream = UnixStream::connect(path)?;
                stream.write_all(format!("{line}\n").as_bytes())?;
                BufReader::new(stream).read_line(&mut reply)?;
            }
            Control::File(path) => {
                let mut file = OpenOptions::new().read(true).write(true).open(path)?;
                let refused = file.write_all(format!("{line}\n").as_bytes()).err();
                file.read_to_string(&mut reply)?;
                if let Some(e) = refused {
                    return Err(io::Error::other(format!("{} ({e})", reply.trim())));
                }
            }
            Control::Line(both) => {
                both.get_mut().write_all(format!("{line}\n").as_bytes())?;
                both.read_line(&mut reply)?;
            }
        }
        let reply = reply.trim();
        // The file says so by an error of the write; lines by their first word.
        match reply.contains("\"ok\":false") {
            true => Err(io::Error::other(reply)),
            false => Ok(reply.to_string()),
        }
    }
}

/// The file of the device in a directory of ours, so that its control is beside it.
pub fn beside(file: &Path) -> PathBuf {
    file.with_file_name(fuse::CONTROL)
}
