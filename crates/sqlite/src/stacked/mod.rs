//! SQLite's files in a volume on a stack, in this process: no kernel, no mount.
//!
//! The stack is what its text says, in virtual time or live; the file system is its `lfs(..)`, or the
//! usual one where nothing is said, as `varve mount` has it.
//!
//! Invariants: a call that SQLite waits for ends when the volume has answered; a volume is reached by
//! its name for as long as its [`Volume`] lives.

mod file;
mod locks;
mod vfs;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use block::{BlockDevice, Bytes, Forward, Time};
use lab::LabError;
use lfs::fs::{Cleaning, Scj};
use lfs::{Fs, FsError, FsOptions, MkfsOptions, Now, Stamp, mkfs};
use rusqlite::{Connection, OpenFlags};
use stack::disk::DiskDevice;
use stack::live::Stack;
use stack::modelled::Start;
use stack::rules::{Top, World, check};
use stack::{Base, Description, Device, Layer, Modelled, StackError, drive_params};
use varve_sqlite_vfs::{RegisterError, register};

use crate::files::api;
use locks::Locks;

const VFS: &str = "varve-stack";

/// The highest layer of blocks, in either world.
struct Below(Box<dyn BlockDevice + Send>);

impl Forward for Below {
    type To = dyn BlockDevice + Send;
    fn look<R>(&self, look: impl FnOnce(&Self::To) -> R) -> R {
        look(&*self.0)
    }
    fn ask<R>(&mut self, ask: impl FnOnce(&mut Self::To) -> R) -> R {
        ask(&mut *self.0)
    }
}

/// A mounted volume, and what SQLite holds of it.
struct State {
    /// None once it is unmounted.
    fs: Option<Fs<Below>>,
    locks: Locks,
    /// For temporary files, and handles.
    number: u64,
    /// Why the last call failed.
    reason: Option<String>,
}

impl State {
    /// Asks the volume for something, at the time when all before it was answered.
    fn ask<R>(
        &mut self,
        ask: impl FnOnce(&mut Fs<Below>, Now) -> Result<R, FsError>,
    ) -> Result<R, FsError> {
        let fs = self.fs.as_mut().ok_or(FsError::ReadOnly("as it was unmounted"))?;
        let now = Now { at: fs.ready().max(fs.fetched()), wall: Stamp::default() };
        let done = ask(fs, now);
        if let Err(error) = &done {
            self.reason = Some(error.to_string());
        }
        done
    }
}

type Shared = Arc<Mutex<State>>;

fn lock(volume: &Mutex<State>) -> MutexGuard<'_, State> {
    volume.lock().unwrap_or_else(PoisonError::into_inner)
}

static VOLUMES: Mutex<BTreeMap<String, Shared>> = Mutex::new(BTreeMap::new());

fn volumes() -> MutexGuard<'static, BTreeMap<String, Shared>> {
    VOLUMES.lock().unwrap_or_else(PoisonError::into_inner)
}

static REGISTERED: LazyLock<Result<(), RegisterError>> =
    LazyLock::new(|| register(&api(), VFS, false, |_| Box::new(vfs::Volumes)));

/// What a volume on a stack has cost.
#[derive(Clone, Debug)]
pub struct Cost {
    /// Bytes that the file system wrote to the highest layer of blocks.
    pub asked: u64,
    /// Bytes programmed on flash, where a modelled drive in virtual time is at the bottom.
    pub programmed: Option<u64>,
    /// Virtual time; none for a live stack.
    pub time: Option<Time>,
}

/// A volume on a stack, under a name of this process, until it is dropped.
pub struct Volume {
    name: String,
    shared: Shared,
    modelled: Option<Arc<Mutex<Modelled>>>,
    live: Option<Stack>,
}

fn failed(error: impl std::fmt::Display) -> LabError {
    LabError::Failed(error.to_string())
}

fn refused(error: StackError) -> LabError {
    match error {
        StackError::Io { path, error } => LabError::Io { path, source: error },
        other => LabError::Input(other.to_string()),
    }
}

/// Splits a stack into its blocks and how the file system on them is mounted.
fn files(stack: &Description) -> Result<(Description, FsOptions), StackError> {
    let mut blocks = stack.clone();
    let cleaning = Cleaning::Scj(Scj::default());
    let usual = FsOptions { cleaning, ..FsOptions::default() };
    match blocks.layers.pop() {
        Some(Layer::Lfs(keys)) => Ok((blocks, keys.lfs(usual)?)),
        other => {
            blocks.layers.extend(other);
            Ok((blocks, usual))
        }
    }
}

/// A stack in virtual time by two: the volume's, and whoever looks at what it costs.
struct Handle(Arc<Mutex<Modelled>>);

impl Forward for Handle {
    type To = Modelled;
    fn look<R>(&self, look: impl FnOnce(&Modelled) -> R) -> R {
        look(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
    fn ask<R>(&mut self, ask: impl FnOnce(&mut Modelled) -> R) -> R {
        ask(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Volume {
    /// A new volume on a stack in virtual time, under `name`, which must be nobody else's.
    ///
    /// # Errors
    /// The stack is none in virtual time, or has no room for a volume.
    pub fn modelled(name: &str, stack: &Description) -> Result<Volume, LabError> {
        check(stack, World::Modelled, Top::Files).map_err(refused)?;
        let (blocks, options) = files(stack).map_err(refused)?;
        let ground = match &blocks.base {
            Base::Ram(size) => Modelled::ram(*size),
            Base::Drive { preset, keys } => {
                Modelled::drive(&drive_params(preset, keys).map_err(refused)?).map_err(refused)?
            }
            other => return Err(LabError::Input(format!("{other}: not in virtual time"))),
        };
        let device = ground.start(&blocks.layers, name, Start::New).map_err(refused)?;
        let at = device.now();
        let device = Arc::new(Mutex::new(device));
        let fs = fresh(Below(Box::new(Handle(Arc::clone(&device)))), options, at)?;
        Volume::serve(name, fs, Some(device), None)
    }

    /// The volume on a live stack, made where there is none.
    ///
    /// # Errors
    /// The stack does not start, or holds something else.
    pub fn live(name: &str, stack: &Description) -> Result<Volume, LabError> {
        check(stack, World::Live, Top::Files).map_err(refused)?;
        let (blocks, options) = files(stack).map_err(refused)?;
        let stack = Stack::start(&blocks).map_err(refused)?;
        let device = || Below(Box::new(DiskDevice(Arc::clone(&stack.disk))));
        let read_only = stack.disk.capabilities().read_only;
        let options = FsOptions { read_only: read_only || options.read_only, ..options };
        let fs = match Fs::mount(device(), options, Now::default()) {
            Ok(fs) => fs,
            // Nothing that may be somebody's is overwritten.
            Err(FsError::NotAVolume(0)) => fresh(device(), options, Time::ZERO)?,
            Err(error) => return Err(LabError::Input(format!("no volume: {error}"))),
        };
        Volume::serve(name, fs, None, Some(stack))
    }

    fn serve(
        name: &str,
        fs: Fs<Below>,
        modelled: Option<Arc<Mutex<Modelled>>>,
        live: Option<Stack>,
    ) -> Result<Volume, LabError> {
        REGISTERED.as_ref().map_err(failed)?;
        let state = State { fs: Some(fs), locks: Locks::default(), number: 0, reason: None };
        let (name, shared) = (format!("/volume/{name}/"), Arc::new(Mutex::new(state)));
        if volumes().insert(name.clone(), Arc::clone(&shared)).is_some() {
            return Err(LabError::Failed(format!("{name}: there is one of that name")));
        }
        Ok(Volume { name, shared, modelled, live })
    }

    /// Opens the database of a file name.
    ///
    /// # Errors
    /// SQLite's.
    pub fn open(&self, file: &str) -> Result<Connection, LabError> {
        let path = format!("{}{file}", self.name);
        Connection::open_with_flags_and_vfs(path, OpenFlags::default(), VFS)
            .map_err(|error| LabError::Input(format!("{file}: {error}")))
    }

    /// What it has cost since it was made.
    pub fn cost(&self) -> Cost {
        if let Some(stack) = &self.live {
            return Cost { asked: stack.meter.written(), programmed: None, time: None };
        }
        let modelled = self.modelled.as_ref().expect("one of the two");
        let device = modelled.lock().unwrap_or_else(PoisonError::into_inner);
        let stats = device.stats();
        let programmed = stats.programmed_bytes();
        Cost {
            asked: stats.of(block::Op::Write).bytes,
            programmed: (programmed > 0).then_some(programmed),
            time: Some(device.now()),
        }
    }

    /// Unmounts the volume and stops the stack.
    ///
    /// # Errors
    /// What could not be made durable.
    pub fn stop(self) -> Result<(), LabError> {
        let fs = lock(&self.shared).fs.take();
        if let Some(fs) = fs {
            let now = Now { at: fs.ready().max(fs.fetched()), wall: Stamp::default() };
            fs.unmount(now).map_err(failed)?;
        }
        match &self.live {
            Some(stack) => stack.stop().map_err(refused),
            None => Ok(()),
        }
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        volumes().remove(&self.name);
    }
}

/// A new volume, with segments as small as a small device needs.
fn fresh(device: Below, options: FsOptions, at: Time) -> Result<Fs<Below>, LabError> {
    let now = |at| Now { at, wall: Stamp::default() };
    let small = device.capacity().bytes() < Bytes(128 << 20);
    let mut new = MkfsOptions::new([0x5a; 16], 1);
    if small {
        (new.log_blocks_per_seg, new.gap) = (4, 256);
    }
    let wrong = |error: FsError| LabError::Input(format!("no volume: {error}"));
    let (device, done) = mkfs(device, &new, now(at)).map_err(wrong)?;
    Fs::mount(device, options, now(done)).map_err(wrong)
}
