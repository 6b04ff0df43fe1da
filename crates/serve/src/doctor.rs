//! Which front-ends this machine can use, why not the others, and what earlier runs left over.
//!
//! Looks and changes nothing but a socket in the folder for temporary files, which it removes. What
//! was not tried is not called usable: of `/dev/kvm` only a guest that booted can tell.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::fuse::{self, PATIENCE, ask, served};

/// One thing that was looked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What.
    pub what: String,
    /// It can be used; of what is left over: it is in order.
    pub usable: bool,
    /// How, or why not.
    pub why: String,
}

fn finding(what: &str, result: Result<String, String>) -> Finding {
    let (usable, why) = match result {
        Ok(why) => (true, why),
        Err(why) => (false, why),
    };
    Finding { what: what.to_string(), usable, why }
}

/// Everything, in the order of the text for people.
pub fn findings() -> Vec<Finding> {
    let mut all = vec![
        finding("serve NBD on a unix socket", unix_socket()),
        finding("serve a file by FUSE", fuse_mount()),
        finding("a loop device over that file", loop_device()),
        finding("NBD client: QEMU", program("qemu-system-x86_64")),
        finding("NBD client: this kernel", kernel_nbd()),
        finding("file systems of this kernel", file_systems()),
        finding("guest kernel (scripts/guest)", guest_kernel()),
        finding("kvm for the guest", kvm()),
    ];
    all.extend(leftovers());
    all
}

fn open(path: &str) -> Result<(), String> {
    match OpenOptions::new().read(true).write(true).open(path) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(format!("no {path}")),
        Err(e) => Err(format!("{path}: {e}")),
    }
}

fn root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Where a program is, also one of those for root.
fn program(name: &str) -> Result<String, String> {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let found = path.split(':').map(|folder| Path::new(folder).join(name)).find(|p| p.is_file());
    found.map(|path| path.display().to_string()).ok_or(format!("no program {name}"))
}

fn unix_socket() -> Result<String, String> {
    let path = std::env::temp_dir().join(format!("varve-doctor-{}", std::process::id()));
    let bound = UnixListener::bind(&path).map_err(|e| format!("{}: {e}", path.display()));
    let _ = fs::remove_file(&path);
    bound.map(|_| "needs neither root nor a module".to_string())
}

fn fuse_mount() -> Result<String, String> {
    open("/dev/fuse")?;
    match (root(), program("fusermount3")) {
        (true, _) => Ok("/dev/fuse, mounted by root".to_string()),
        (false, Ok(path)) => Ok(format!("/dev/fuse, mounted by {path}")),
        (false, Err(no)) => Err(format!("{no}, and this user is not root")),
    }
}

fn loop_device() -> Result<String, String> {
    fuse_mount()?;
    if !root() {
        return Err("needs root".to_string());
    }
    open("/dev/loop-control")?;
    program("losetup")
}

fn release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_string()
}

/// Whether a module is there, built in, loaded or to be loaded.
fn module(name: &str) -> Result<String, String> {
    let release = release();
    let folder = Path::new("/lib/modules").join(&release);
    if Path::new("/sys/module").join(name).exists() {
        return Ok(format!("{name} is in the kernel"));
    }
    let lists =
        ["modules.dep", "modules.builtin"].map(|file| fs::read_to_string(folder.join(file)));
    if lists.iter().all(Result::is_err) {
        return Err(format!("{name} is not in the kernel, which has no modules ({release})"));
    }
    let wanted = format!("/{name}.ko");
    match lists.iter().flatten().any(|list| list.contains(&wanted)) {
        true => Ok(format!("module {name} can be loaded")),
        false => Err(format!("no module {name} for {release}")),
    }
}

fn kernel_nbd() -> Result<String, String> {
    let module = module("nbd")?;
    let client = program("nbd-client")?;
    if root() { Ok(format!("{module}, {client}")) } else { Err("needs root".to_string()) }
}

fn file_systems() -> Result<String, String> {
    let known = fs::read_to_string("/proc/filesystems").map_err(|e| e.to_string())?;
    let has =
        |name: &str| known.split_whitespace().any(|word| word == name) || module(name).is_ok();
    let (yes, no): (Vec<_>, Vec<_>) =
        ["ext4", "xfs", "btrfs", "f2fs"].into_iter().partition(|name| has(name));
    let missing = match no.is_empty() {
        true => String::new(),
        false => format!(" (not {}: through the guest)", no.join(", ")),
    };
    match yes.is_empty() {
        true => Err(format!("none{missing}")),
        false => Ok(format!("{}{missing}", yes.join(", "))),
    }
}

/// The folder that `scripts/guest` keeps its kernel in.
fn guest_cache() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let user = || set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    set("VARVE_GUEST_CACHE").or_else(|| user().map(|cache| cache.join("varve/guest")))
}

fn guest_kernel() -> Result<String, String> {
    for needed in ["qemu-system-x86_64", "busybox", "cpio", "depmod"] {
        program(needed)?;
    }
    let cache = guest_cache().ok_or("no cache folder: neither HOME nor VARVE_GUEST_CACHE")?;
    let modules = cache.join("kernel/lib/modules");
    let first = fs::read_dir(modules).ok().and_then(|mut folder| folder.next()?.ok());
    match first {
        Some(entry) => Ok(format!("Linux {}", entry.file_name().to_string_lossy())),
        None => program("apt-get").map(|_| "to be fetched by scripts/guest --fetch".to_string()),
    }
}

fn kvm() -> Result<String, String> {
    open("/dev/kvm")?;
    // The device may open and every guest hang in it: a nested host without the real thing.
    let known = guest_cache().map(|cache| cache.join(format!("accel.{}", release())));
    let told = known.and_then(|path| fs::read_to_string(path).ok());
    match told.as_deref().map(str::trim).and_then(|line| line.split_once(' ')) {
        Some(("kvm", why)) => Ok(why.to_string()),
        Some((_, why)) => Err(format!("{why}; guests are emulated")),
        None => Err("/dev/kvm opens, which says little: try scripts/guest --probe".to_string()),
    }
}

/// Mounts and loop devices of ours that are there now.
fn leftovers() -> Vec<Finding> {
    let mounts = fs::read("/proc/self/mounts").unwrap_or_default();
    let mut found: Vec<Finding> = served(&mounts).into_iter().map(|dir| state(&dir)).collect();
    let Ok(devices) = fs::read_dir("/sys/block") else { return found };
    for device in devices.flatten() {
        let Ok(file) = fs::read_to_string(device.path().join("loop/backing_file")) else {
            continue;
        };
        let file = file.trim();
        let shown = device.file_name().to_string_lossy().into_owned();
        let served = Path::new(file).file_name() == Some(OsStr::new(fuse::DISK));
        if served && !answers(Path::new(file)) {
            let why = format!("its file {file} does not answer: losetup --detach /dev/{shown}");
            found.push(finding(&format!("left over: loop device {shown}"), Err(why)));
        }
    }
    found
}

/// Whether a path answers within some time.
fn answers(path: &Path) -> bool {
    ask(path).is_some_and(|answer| answer.is_ok())
}

fn state(dir: &Path) -> Finding {
    let shown = dir.display();
    let gone = Errno::NOTCONN.raw_os_error();
    match ask(dir) {
        Some(Ok(())) => finding(&format!("mounted: {shown}"), Ok("is being served".to_string())),
        Some(Err(e)) if e.raw_os_error() == Some(gone) => {
            let why = format!("a dead mount is there, its server is gone: varve umount {shown}");
            finding(&format!("left over: mount {shown}"), Err(why))
        }
        Some(Err(e)) => finding(&format!("mounted: {shown}"), Err(e.to_string())),
        None => {
            let why = format!("its server does not answer within {} s", PATIENCE.as_secs());
            finding(&format!("mounted: {shown}"), Err(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_ours_are_found_in_the_table() {
        let table = b"proc /proc proc rw 0 0\n\
            varve /mnt/a\\040b fuse.varve rw,user_id=0 0 0\n\
            x /mnt/c fuse.sshfs rw 0 0\n\
            varve /mnt/c ext4 rw 0 0\n\
            varve /mnt/d\\134e\\04 fuse rw 0 0\n";
        let expected = [PathBuf::from("/mnt/a b"), PathBuf::from("/mnt/d\\e\\04")];
        assert_eq!(served(table), expected);
        assert!(served(b"").is_empty() && served(b"one\ntwo fields\n").is_empty());
    }

    #[test]
    fn every_finding_says_why() {
        let all = findings();
        assert!(all.len() >= 8);
        for one in &all {
            assert!(!one.why.is_empty(), "{one:?}");
        }
        // A socket in the folder for temporary files works wherever these tests do.
        assert!(all[0].usable, "{:?}", all[0]);
    }

    #[test]
    fn what_is_not_there_does_not_answer() {
        assert!(answers(Path::new("/")));
        assert!(!answers(Path::new("/no/such/folder")));
        assert!(program("no-such-program").is_err() && module("no_such_module").is_err());
    }
}
