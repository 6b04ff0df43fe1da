//! A loop device over the device's file: a block device of the host's own kernel.
//!
//! The kernel turns a flush into `fsync` of the file, a forced write into a write and `fsync`, a
//! discard into a punched hole. Without direct I/O every page would be held twice, and with
//! sectors of 512 bytes every small write would be a read as well.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::FuseError;

/// A loop device that was set up and not yet detached.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    file: PathBuf,
}

/// Runs a program of the system and gives what it printed.
///
/// # Errors
/// [`FuseError::Program`] with what it said.
pub(super) fn program<S: AsRef<OsStr>>(name: &str, args: &[S]) -> Result<String, FuseError> {
    let mut shown = name.to_string();
    for arg in args {
        shown = format!("{shown} {}", arg.as_ref().to_string_lossy());
    }
    let failed = |what: String| FuseError::Program { program: shown.clone(), what };
    // The path of a user's shell often lacks the folders where such programs are.
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let out = Command::new(name)
        .args(args)
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| failed(e.to_string()))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr).trim().to_string();
        return Err(failed(format!("{said} ({})", out.status)));
    }
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_string())
}

impl LoopDevice {
    /// Makes a block device of `file`: direct I/O, sectors of `block` bytes as far as a kernel has
    /// such.
    ///
    /// # Errors
    /// [`FuseError::Program`]: no root, no loop devices, or no `losetup`.
    pub fn attach(file: &Path, block: u32, read_only: bool) -> Result<LoopDevice, FuseError> {
        // Kernels take no sector larger than a page.
        let sector = block.clamp(512, 4096).to_string();
        let mut args = vec!["--find", "--show", "--direct-io=on", "--sector-size", &sector];
        if read_only {
            args.push("--read-only");
        }
        let mut args: Vec<&OsStr> = args.into_iter().map(OsStr::new).collect();
        args.push(file.as_os_str());
        let path = PathBuf::from(program("losetup", &args)?);
        Ok(LoopDevice { path, file: file.to_path_buf() })
    }

    /// The block device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Asks the kernel to let the device go; it does when nobody has it open any more.
    ///
    /// # Errors
    /// [`FuseError::Program`].
    pub fn detach(&self) -> Result<(), FuseError> {
        if !self.attached() {
            return Ok(());
        }
        program("losetup", &[OsStr::new("--detach"), self.path.as_os_str()]).map(|_| ())
    }

    /// Whether the kernel still has our file behind it.
    pub fn attached(&self) -> bool {
        let Some(name) = self.path.file_name() else { return false };
        let told = Path::new("/sys/block").join(name).join("loop/backing_file");
        // The name a path ends in is kept also where the mount cannot be reached from here.
        fs::read_to_string(told).is_ok_and(|text| Path::new(text.trim()) == self.file)
    }
}
