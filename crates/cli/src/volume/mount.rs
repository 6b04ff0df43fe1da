//! `varve mount` and `varve umount`.
//!
//! In the background the program is started anew with `--foreground`, and tells the first one when
//! the directory is there. Nobody waits for a mount to end but the one who unmounts it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lab::LabError;
use lfs::fs::Cleaning;
use lfs::{FsError, FsOptions};
use serve::control::{Control, ControlSocket};
use serve::fuse::cut_off;
use serve::mount::{DiskDevice, FsMount, MountError, MountOptions, mounted, take_report};
use stack::live::Stack;
use stack::rules::{Top, World, check};
use stack::{Description, Keys, Layer};

use super::device::{in_use, umount_device};
use super::mkfs::{is_blank, make};
use super::{LOOK, PATIENCE, is_device, now, started, volume_error, wrong};
use crate::args::{Mount, Umount};
use crate::serve::{description, fallible};
use crate::{background, note, print, stop};

/// What the program in the background says when all is well.
const READY: &str = "mounted";

/// What `mount(8)` calls this program with, under the name `mount.fuse.varve`, as our own words.
pub fn mount_arguments(given: &[OsString]) -> Vec<OsString> {
    let mut words = vec![OsString::from("varve"), OsString::from("mount")];
    // Who calls mount(8) hears of what fails, as of any file system.
    let mut quiet = true;
    let mut rest = given.iter();
    while let Some(word) = rest.next() {
        match word.to_str() {
            // Not to be written down, to be forgiven: nothing to us.
            Some("-n" | "-s") => {}
            Some("-v") => quiet = false,
            Some("-f") => words.push(OsString::from("--fake")),
            Some("-t" | "-N") => {
                let _ = rest.next();
            }
            _ => words.push(word.clone()),
        }
    }
    words.extend(quiet.then(|| OsString::from("--quiet")));
    words
}

/// `varve mount`.
pub fn mount(args: &Mount) -> Result<(), LabError> {
    match (args.fake, args.foreground) {
        (true, _) => Ok(()),
        (false, true) => serve(args),
        (false, false) => in_background(args),
    }
}

fn in_background(args: &Mount) -> Result<(), LabError> {
    // As `mount.fuse.varve` the words were others.
    let mut given: Vec<OsString> = crate::words().into_iter().skip(1).collect();
    given.extend(["--foreground", "--detached"].map(OsString::from));
    background::start(&given, args.log.as_deref(), READY, "the mount")
}

/// The stack below a volume, and the options of the file system that stand in its text.
fn below(args: &Mount, source: Option<&Path>) -> Result<(Description, Keys), LabError> {
    let mut stack = args.stack.with_source(source, source.is_some_and(is_device))?;
    let read = args.options.iter().any(|list| list.split(',').any(|word| word == "ro"));
    stack.read_only |= read;
    let mut described = description(&stack)?;
    check(&described, World::Live, Top::Files)?;
    let Some(Layer::Lfs(keys)) = described.layers.last().cloned() else {
        return Ok((described, Keys::default()));
    };
    described.layers.pop();
    Ok((described, keys))
}

fn serve(args: &Mount) -> Result<(), LabError> {
    let mut how = MountOptions::default();
    for list in &args.options {
        how.apply(list).map_err(LabError::Input)?;
    }
    if args.no_scj {
        how.fs.cleaning = Cleaning::Bl6;
    }
    let absolute = |path: &PathBuf| {
        std::path::absolute(path).map_err(|error| LabError::io(path.clone(), error))
    };
    let (source, dir) = match &args.paths[..] {
        [dir] => (None, absolute(dir)?),
        [source, dir, ..] => (Some(absolute(source)?), absolute(dir)?),
        [] => return Err(LabError::Input("expected a directory".to_string())),
    };
    let (described, keys) = below(args, source.as_deref())?;
    how.fs = keys.lfs(how.fs)?;
    // Who started it in the background reads its output, and its errors when it has ended.
    let say = |what: &str| match args.detached {
        true => drop(print(&format!("{what}\n"))),
        false => note(what),
    };
    let mut stack = started(&described, Path::new(""), say)?;
    let faults = fallible(&mut stack);
    how.read_only |= stack.disk.capabilities().read_only;
    let file = source.as_ref().or(args.stack.image.as_ref()).or(args.stack.device.as_ref());
    let name = match file {
        Some(path) => {
            let path = path.canonicalize().map_err(|error| LabError::io(path.clone(), error))?;
            path.display().to_string()
        }
        None => stack.name.replace(|c: char| !c.is_alphanumeric(), "-"),
    };
    if args.mkfs {
        prepare(&stack, Path::new(&name), args)?;
    }
    let failed = |error: MountError| match error {
        MountError::Volume(error) => volume_error(Path::new(&name), &error),
        other => LabError::Failed(other.to_string()),
    };
    let socket = args.stack.control.as_ref().map(absolute).transpose()?;
    let how_read_only = how.read_only;
    let mounted = FsMount::new(stack.clone(), &name, &dir, how).map_err(failed)?;
    let quit = || stop::flag().store(true, Ordering::Relaxed);
    let control = Control::new(mounted.stack(), Box::new(quit));
    control.fail_by(faults);
    control.count(mounted.counters());
    control.count_files(mounted.meter());
    let bound = socket.as_ref().map(|path| {
        ControlSocket::bind(path, Arc::clone(&control)).map_err(|error| LabError::io(path, error))
    });
    let bound = bound
        .transpose()
        .and_then(|socket| if args.detached { leave().map(|()| socket) } else { Ok(socket) });
    let relies = match args.quiet {
        true => String::new(),
        false => relies_on(&stack, &name, &dir, how_read_only),
    };
    let told = bound.and_then(|socket| print(&format!("{relies}{READY}\n")).map(|()| socket));
    if told.is_ok() {
        while !stop::flag().load(Ordering::Relaxed) && !mounted.ended() {
            std::thread::sleep(LOOK);
        }
    }
    let mut said = false;
    let stopped = mounted.stop(|what| {
        if !std::mem::replace(&mut said, true) {
            note(&format!("varve: {what}: waiting for it"));
        }
        true
    });
    let ended = stack.stop().map_err(|error| wrong(Path::new(&name), error));
    drop(told?);
    stopped.map_err(failed)?;
    ended
}

/// What a mount relies on, in a line; nothing of one that writes nothing.
fn relies_on(stack: &Stack, name: &str, dir: &Path, read_only: bool) -> String {
    if read_only {
        return String::new();
    }
    let unit = stack.disk.capabilities().atomic;
    let how = if unit < 4096 {
        "nodes that fsync writes carry a checksum"
    } else {
        "blocks are whole, and nodes carry no checksum"
    };
    let dir = dir.display();
    format!("{name} on {dir}: a power cut leaves pieces of {unit} bytes old or new; {how}\n")
}

/// A mount belongs to no terminal and keeps no directory in use.
fn leave() -> Result<(), LabError> {
    background::leave_terminal();
    std::env::set_current_dir("/").map_err(|error| LabError::io("/", error))
}

/// Makes a volume where none is.
fn prepare(stack: &Stack, name: &Path, args: &Mount) -> Result<(), LabError> {
    if is_blank(&stack.disk, name)? {
        return make(&stack.disk, name, &args.new);
    }
    let options = FsOptions { read_only: true, ..FsOptions::default() };
    match lfs::Fs::mount(DiskDevice(Arc::clone(&stack.disk)), options, now()) {
        Err(error @ FsError::NotAVolume(_)) => {
            let what = format!("{}: {error}, but something: `varve mkfs --force`", name.display());
            Err(LabError::Input(what))
        }
        // Whatever is wrong with it shows when it is mounted.
        _ => Ok(()),
    }
}

/// `varve umount`.
pub fn umount(args: &Umount) -> Result<(), LabError> {
    let target = &args.target;
    // A dead mount does not answer: its name must do.
    let given = std::path::absolute(target).map_err(|error| LabError::io(target, error))?;
    let path = target.canonicalize().unwrap_or(given);
    let table = mounted().map_err(|error| LabError::io("/proc/self/mountinfo", error))?;
    let is_it = |found: &&serve::mount::Mounted| {
        found.dir == path || found.file() == Some(&path) || Path::new(&found.source) == target
    };
    let Some(found) = table.iter().rev().find(is_it) else {
        if umount_device(target, args.force)? {
            return Ok(());
        }
        return Err(LabError::Input(format!("{}: no volume is mounted there", target.display())));
    };
    let until = Instant::now() + Duration::from_secs(args.wait);
    let report = found.report();
    loop {
        match found.unmount() {
            Ok(true) => break,
            Ok(false) if Instant::now() < until => std::thread::sleep(LOOK),
            Ok(false) if args.force => {
                cut_off(&found.dir).map_err(|error| LabError::Failed(error.to_string()))?;
                break;
            }
            Ok(false) => return Err(in_use(&found.dir)),
            Err(error) => return Err(LabError::Failed(error.to_string())),
        }
    }
    // Unmounted is what its last checkpoint is written of.
    let since = Instant::now();
    while found.in_use().map_err(|error| LabError::io(&found.source, error))? {
        if since.elapsed() > PATIENCE {
            let what = format!("{}: its mount does not end", found.source);
            return Err(LabError::Failed(what));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let Some(report) = report else { return Ok(()) };
    match take_report(&report).map_err(|error| LabError::io(&report, error))? {
        Some(what) => {
            Err(LabError::Failed(format!("{}: unmounted, but {what}", found.dir.display())))
        }
        None => Ok(()),
    }
}
