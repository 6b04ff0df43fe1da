//! The mounted file system, by system calls of a program like any other.
//!
//! `scripts/posix` lets programs of others judge the same mount.

mod cuts;
mod names;
#[path = "../runner/mod.rs"]
mod runner;

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, FallocateFlags, RenameFlags, SeekFrom, XattrFlags};
use rustix::io::Errno;
use stack::live::Stack;
use stack::power::When;
use varve_serve::fuse::FuseError;
use varve_serve::mount::{DiskDevice, FsMount, MountError, MountOptions, STATS, mounted};

fn now() -> lfs::Now {
    lfs::Now { at: block::Time::ZERO, wall: varve_serve::mount::wall() }
}

fn stack(cut_seed: Option<u64>) -> Stack {
    let cut = cut_seed.map_or(String::new(), |seed| format!("+cut({seed})"));
    let stack = Stack::start(&format!("ram(128MiB){cut}").parse().unwrap()).unwrap();
    let new = lfs::MkfsOptions::new([7; 16], 11);
    lfs::mkfs(DiskDevice(stack.disk.clone()), &new, now()).unwrap();
    stack
}

/// A volume mounted in a folder of its own.
struct Here {
    stack: Stack,
    dir: PathBuf,
    mount: Option<FsMount>,
}

fn folder() -> PathBuf {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    let name = format!("varve-mounted-{}-{number}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    fs::create_dir(&dir).unwrap();
    dir
}

impl Here {
    fn new(stack: Stack, options: &str) -> Here {
        let dir = folder();
        let mut here = Here { stack, dir, mount: None };
        here.up(options);
        here
    }

    fn up(&mut self, options: &str) {
        let mut chosen = MountOptions::default();
        chosen.apply(options).unwrap();
        // Whoever waits for the device with the volume's lock held panics, and the volume takes no changes.
        chosen.strict = true;
        let mount = FsMount::new(self.stack.clone(), "a test", &self.dir, chosen).unwrap();
        self.mount = Some(mount);
    }

    fn down(&mut self) {
        for asked in ["reads_with_the_lock", "writes_with_the_lock", "flushes_with_the_lock"] {
            assert_eq!(counter(self, asked), 0, "{asked}");
        }
        let mut looks = 0;
        let stopped = self.mount.take().unwrap().stop(|_| {
            looks += 1;
            looks < 500
        });
        stopped.unwrap();
        assert_eq!(fs::read_dir(&self.dir).unwrap().count(), 0, "nothing is mounted any more");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Unmounts it and checks the volume, and that it is plain F2FS again.
    fn end(mut self) {
        self.down();
        let options = lfs::FsOptions { read_only: true, ..lfs::FsOptions::default() };
        let durable = lfs::fs::Durable::open(DiskDevice(self.stack.disk.clone())).unwrap();
        assert!(!durable.is_live());
        let mut fs = lfs::Fs::mount(DiskDevice(self.stack.disk.clone()), options, now()).unwrap();
        fs.check(now()).unwrap();
        fs::remove_dir(&self.dir).unwrap();
    }
}

fn counter(here: &Here, name: &str) -> u64 {
    let all = here.mount.as_ref().unwrap().counters()();
    all.iter().find(|(found, _)| *found == name).unwrap_or_else(|| panic!("no counter {name}")).1
}

fn errno(result: std::io::Result<impl std::fmt::Debug>) -> Errno {
    let error = result.expect_err("an error was expected");
    Errno::from_io_error(&error).unwrap_or_else(|| panic!("{error}"))
}

fn what_was_made_is_there_after_a_remount() {
    let mut here = Here::new(stack(None), "");
    let big: Vec<u8> = (0..3_000_000_u32).map(|i| (i * 7 / 3) as u8).collect();
    fs::create_dir_all(here.path("a/b/c")).unwrap();
    fs::write(here.path("a/big"), &big).unwrap();
    fs::hard_link(here.path("a/big"), here.path("a/b/again")).unwrap();
    std::os::unix::fs::symlink("../big", here.path("a/b/link")).unwrap();
    fs::set_permissions(here.path("a/b"), fs::Permissions::from_mode(0o1750)).unwrap();
    let special = rustix::fs::FileType::CharacterDevice;
    let number = rustix::fs::makedev(259, 70_000);
    rustix::fs::mknodat(CWD, here.path("null"), special, 0o600.into(), number).unwrap();
    rustix::fs::setxattr(here.path("a"), "user.colour", b"red", XattrFlags::CREATE).unwrap();
    rustix::fs::setxattr(here.path("a"), "trusted.t", &[9; 900], XattrFlags::empty()).unwrap();
    let refused = rustix::fs::setxattr(here.path("a"), "user.colour", b"", XattrFlags::CREATE);
    assert_eq!(refused, Err(Errno::EXIST));
    let before = fs::metadata(here.path("a/big")).unwrap();
    here.down();
    here.up("ro");
    assert_eq!(fs::read(here.path("a/b/link")).unwrap(), big);
    let after = fs::metadata(here.path("a/b/again")).unwrap();
    let facts = |m: &fs::Metadata| {
        (m.ino(), m.nlink(), m.size(), m.blocks(), m.mtime(), m.mtime_nsec(), m.ctime_nsec())
    };
    assert_eq!(facts(&before), facts(&after));
    assert_eq!(after.nlink(), 2);
    assert_eq!(fs::metadata(here.path("a/b")).unwrap().mode() & 0o7777, 0o1750);
    assert_eq!(fs::metadata(here.path("a")).unwrap().nlink(), 3);
    let null = fs::metadata(here.path("null")).unwrap();
    assert!(null.file_type().is_char_device());
    assert_eq!(null.rdev(), number);
    let mut value = [0; 1000];
    assert_eq!(rustix::fs::getxattr(here.path("a"), "user.colour", &mut value), Ok(3));
    assert_eq!(rustix::fs::getxattr(here.path("a"), "trusted.t", &mut value), Ok(900));
    let mut names = [0; 64];
    let len = rustix::fs::listxattr(here.path("a"), &mut names).unwrap();
    assert_eq!(&names[..len], b"user.colour\0trusted.t\0");
    assert_eq!(errno(File::create(here.path("x"))), Errno::ROFS);
    here.end();
}

/// Whatever programs do, nobody waits for a read of the device while he holds the volume's lock: everything
/// is looked at and changed again behind a mount that knows nothing of it yet.
fn reads_do_not_hold_the_volume() {
    let mut here = Here::new(stack(None), "");
    let big: Vec<u8> = (0..9_000_000_u32).map(|i| (i * 7 / 3) as u8).collect();
    fs::create_dir_all(here.path("a/b/c")).unwrap();
    fs::write(here.path("a/big"), &big).unwrap();
    for n in 0..600 {
        fs::write(here.path(&format!("a/b/file{n}")), [n as u8; 5000]).unwrap();
    }
    rustix::fs::setxattr(here.path("a/big"), "user.long", &[9; 900], XattrFlags::CREATE).unwrap();
    for round in 0..3 {
        here.down();
        here.up("");
        match round {
            0 => {
                assert!(fs::read(here.path("a/big")).unwrap() == big);
                assert_eq!(fs::read_dir(here.path("a/b")).unwrap().count(), 601);
                let file = OpenOptions::new().write(true).open(here.path("a/big")).unwrap();
                file.write_all_at(b"in the middle of a block", 8_000_001).unwrap();
                file.sync_all().unwrap();
                rustix::fs::fallocate(
                    &file,
                    FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                    4_500_000,
                    1_000_000,
                )
                .unwrap();
            }
            1 => {
                let file = OpenOptions::new().write(true).open(here.path("a/big")).unwrap();
                file.set_len(5_000_100).unwrap();
                fs::rename(here.path("a/b/file7"), here.path("a/b/file8")).unwrap();
                fs::rename(here.path("a/b"), here.path("d")).unwrap();
                fs::hard_link(here.path("a/big"), here.path("d/again")).unwrap();
                fs::write(here.path("d/file9"), b"short").unwrap();
                rustix::fs::removexattr(here.path("a/big"), "user.long").unwrap();
            }
            _ => {
                fs::remove_file(here.path("a/big")).unwrap();
                fs::remove_file(here.path("d/again")).unwrap();
                for n in (0..600).filter(|n| *n != 7) {
                    fs::remove_file(here.path(&format!("d/file{n}"))).unwrap();
                }
                fs::remove_dir(here.path("d/c")).unwrap();
                fs::remove_dir(here.path("d")).unwrap();
            }
        }
        File::open(&here.dir).unwrap().sync_all().unwrap();
        assert_eq!(counter(&here, "reads_with_the_lock"), 0, "round {round}");
    }
    here.end();
}

/// However many threads take requests: programs that make, write, sync and read files at once get what is theirs,
/// from the device too, and the mount ends.
fn one_thread_does_and_many_rest() {
    for threads in [1, 2, 16] {
        let mut here = Here::new(stack(None), &format!("threads={threads}"));
        let content = |client: usize, n: usize| {
            let len = [100, 8192, 300_000][n % 3] + client;
            (0..len).map(|i| (i * 31 + n * 7 + client) as u8).collect::<Vec<u8>>()
        };
        let all = |here: &Here, body: &(dyn Fn(usize) + Sync)| {
            std::thread::scope(|scope| {
                (0..6).for_each(|client| drop(scope.spawn(move || body(client))));
            });
            assert_eq!(counter(here, "reads_with_the_lock"), 0);
        };
        all(&here, &|client| {
            let dir = here.path(&format!("c{client}"));
            fs::create_dir(&dir).unwrap();
            for n in 0..90 {
                let mut file = File::create(dir.join(format!("{n}"))).unwrap();
                file.write_all(&content(client, n)).unwrap();
                if n % 9 == client {
                    file.sync_all().unwrap();
                }
                if n % 2 == 1 {
                    fs::remove_file(dir.join(format!("{}", n - 1))).unwrap();
                }
            }
        });
        here.down();
        here.up(&format!("threads={threads}"));
        all(&here, &|client| {
            for n in (1..90).step_by(2) {
                let found = fs::read(here.path(&format!("c{client}/{n}"))).unwrap();
                assert!(found == content(client, n), "{threads} threads: file {n} of {client}");
            }
        });
        here.end();
    }
}

fn space_is_set_apart_and_holes_are_found() {
    let here = Here::new(stack(None), "");
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).open(here.path("a")).unwrap();
    let place = |how: SeekFrom| rustix::fs::seek(&file, how);
    rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 1 << 20).unwrap();
    let found = file.metadata().unwrap();
    assert!(found.size() == 0 && found.blocks() >= 2048);
    file.write_all_at(&[1; 8192], 65_536).unwrap();
    file.set_len(200_000).unwrap();
    assert_eq!(place(SeekFrom::Data(0)), Ok(65_536));
    assert_eq!(place(SeekFrom::Hole(65_536)), Ok(73_728));
    assert_eq!(place(SeekFrom::Data(73_728)), Err(Errno::NXIO));
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 65_000, 5000).unwrap();
    rustix::fs::fallocate(&file, FallocateFlags::ZERO_RANGE, 72_000, 300_000).unwrap();
    let mut all = vec![0; 372_000];
    file.read_exact_at(&mut all, 0).unwrap();
    assert!(all.iter().enumerate().all(|(i, b)| *b == u8::from((70_000..72_000).contains(&i))));
    let collapse = rustix::fs::fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096);
    assert_eq!(collapse, Err(Errno::OPNOTSUPP));
    assert_eq!(
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 1 << 40),
        Err(Errno::NOSPC)
    );
    // A copy within the file system.
    let copy = File::create(here.path("b")).unwrap();
    let (mut from, mut to) = (69_000, 100);
    let len = rustix::fs::copy_file_range(&file, Some(&mut from), &copy, Some(&mut to), 4000);
    assert_eq!(len, Ok(4000));
    assert_eq!(fs::read(here.path("b")).unwrap()[100..], all[69_000..73_000]);
    drop((file, copy));
    here.end();
}

fn large_directories_are_listed_and_removed() {
    let here = Here::new(stack(None), "");
    for i in 0..1500 {
        File::create(here.path(&format!("a-file-with-a-name-{i}"))).unwrap();
    }
    let mut names: Vec<_> =
        fs::read_dir(&here.dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 1500);
    // Removed while it is listed.
    for entry in fs::read_dir(&here.dir).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert_eq!(fs::read_dir(&here.dir).unwrap().count(), 0);
    here.end();
}

fn times_of_access_follow_the_option() {
    let mut here = Here::new(stack(None), "");
    let path = here.path("a");
    fs::write(&path, "text").unwrap();
    let old = rustix::fs::Timestamps {
        last_access: rustix::fs::Timespec { tv_sec: 1000, tv_nsec: 5 },
        last_modification: rustix::fs::Timespec { tv_sec: 2000, tv_nsec: 999_999_999 },
    };
    let set = || rustix::fs::utimensat(CWD, &path, &old, AtFlags::empty()).unwrap();
    let times = || {
        let found = fs::metadata(&path).unwrap();
        (found.atime(), found.mtime(), found.mtime_nsec())
    };
    set();
    assert_eq!(times(), (1000, 2000, 999_999_999));
    here.down();
    here.up("noatime");
    fs::read(&path).unwrap();
    assert_eq!(times().0, 1000);
    here.down();
    here.up("relatime");
    fs::read(&path).unwrap();
    let once = times().0;
    assert!(once > 1_000_000_000);
    assert_eq!(times().1, 2000);
    here.end();
}

fn writes_that_the_kernel_gathers_arrive() {
    let mut here = Here::new(stack(None), "writeback");
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).open(here.path("a")).unwrap();
    for i in 0..5000_u64 {
        file.write_all_at(&i.to_le_bytes(), i * 100).unwrap();
    }
    // What the kernel still holds back is no hole.
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(0)), Ok(0));
    let written = fs::metadata(here.path("a")).unwrap();
    drop(file);
    here.down();
    here.up("");
    let found = fs::metadata(here.path("a")).unwrap();
    assert_eq!((found.size(), found.mtime_nsec()), (499_908, written.mtime_nsec()));
    let all = fs::read(here.path("a")).unwrap();
    for i in 0..5000_usize {
        assert_eq!(all[i * 100..i * 100 + 8], (i as u64).to_le_bytes());
    }
    here.end();
}

/// What is written into a mapping is nowhere but in the kernel's pages, and is data all the same.
fn pages_of_a_mapping_are_no_holes() {
    let here = Here::new(stack(None), "threads=1");
    let code = "import mmap, os, sys\n\
        pages = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 0)\n\
        pages[70000:70010], pages[500000:500010] = b'x' * 10, b'y' * 10\n\
        print('done', flush=True)\n\
        sys.stdin.read()";
    let path = here.path("a");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let mut maps = Command::new("python3");
    maps.args(["-c", code]).arg(&path).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut maps = maps.spawn().unwrap();
    maps.stdout.as_mut().unwrap().read_exact(&mut [0; 4]).unwrap();
    let file = File::open(&path).unwrap();
    let place = |how: SeekFrom| rustix::fs::seek(&file, how);
    assert_eq!(place(SeekFrom::Hole(70_000)), Ok(73_728));
    assert_eq!(place(SeekFrom::Data(0)), Ok(69_632));
    assert_eq!(place(SeekFrom::Data(73_728)), Ok(499_712));
    assert_eq!(place(SeekFrom::Data(503_808)), Err(Errno::NXIO));
    assert_eq!(place(SeekFrom::Hole(1 << 20)), Err(Errno::NXIO));
    drop(maps.stdin.take());
    assert!(maps.wait().unwrap().success());
    drop(file);
    here.end();
}

/// The kernel looks at errors only when it writes its pages, not at how much was written.
fn pages_without_room_are_an_error_of_the_sync() {
    let here = Here::new(stack(None), "writeback");
    let left = || rustix::fs::statvfs(&here.dir).unwrap().f_bavail;
    let filler = File::create(here.path("filler")).unwrap();
    let apart = (left() - left() / 1000 - 100) * 4096;
    rustix::fs::fallocate(&filler, FallocateFlags::KEEP_SIZE, 0, apart).unwrap();
    assert!((60..128).contains(&left()), "{} blocks are left", left());
    let file = File::create(here.path("a")).unwrap();
    file.write_all_at(&[1; 512 << 10], 0).unwrap();
    let refused = file.sync_all().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StorageFull, "{refused}");
    drop((filler, file));
    here.end();
}

/// More nodes than may be dirty: the request comes again behind each checkpoint, and goes on where it was.
fn large_ranges_are_zeroed_and_punched() {
    let here = Here::new(stack(None), "dirty=16");
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).open(here.path("a")).unwrap();
    let zeroes = FallocateFlags::ZERO_RANGE;
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for n in 0..200 {
        file.write_all_at(&[1; 4096], n << 23).unwrap();
    }
    rustix::fs::fallocate(&file, zeroes, 100, 60 << 20).unwrap();
    let room = rustix::fs::fallocate(&file, zeroes, 0, 1 << 30);
    assert_eq!(room, Err(Errno::NOSPC));
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(4096)), Ok(64 << 20), "nothing else went");
    rustix::fs::fallocate(&file, punch, 0, 1 << 40).unwrap();
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(0)), Err(Errno::NXIO));
    drop(file);
    here.end();
}

fn counters_are_an_attribute_of_the_root() {
    let here = Here::new(stack(None), "");
    fs::write(here.path("a"), [1; 4096]).unwrap();
    let mut text = vec![0; 64 << 10];
    let len = rustix::fs::getxattr(&here.dir, STATS, &mut text).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&text[..len]).unwrap();
    assert_eq!(document["schema"], "varve.mount/1");
    assert_eq!(document["results"]["written_data_blocks"], 1);
    assert_eq!(rustix::fs::listxattr(&here.dir, &mut text), Ok(0), "it is not listed");
    let set = rustix::fs::setxattr(&here.dir, STATS, b"", XattrFlags::empty());
    assert_eq!(set, Err(Errno::PERM));
    let ours = mounted().unwrap();
    assert!(ours.iter().any(|found| found.dir == here.dir && found.source == "a test"));
    here.end();
}

fn an_image_is_mounted_once() {
    let path = std::env::temp_dir().join(format!("varve-mounted-{}.img", std::process::id()));
    let start = |above: &str| {
        let stack = format!("image(\"{}\", size=64MiB){above}", path.display());
        Stack::start(&stack.parse().unwrap())
    };
    let stack = start("").unwrap();
    let not_yet = FsMount::new(stack.clone(), "x", Path::new("/"), MountOptions::default());
    assert!(matches!(not_yet, Err(MountError::Volume(lfs::FsError::NotAVolume(0)))));
    lfs::mkfs(DiskDevice(stack.disk.clone()), &lfs::MkfsOptions::new([7; 16], 11), now()).unwrap();
    let here = Here::new(stack, "");
    for above in ["", "+read-only"] {
        let second = start(above).unwrap_err();
        assert!(second.to_string().contains("in use"), "{second}");
    }
    here.end();
    fs::remove_file(path).unwrap();
}

fn mounting_works() -> Result<(), String> {
    runner::root("device files and forced unmounts")?;
    runner::device("/dev/fuse")?;
    let stack = stack(None);
    let dir = folder();
    let mount = FsMount::new(stack, "a test", &dir, MountOptions::default());
    let answer = match mount {
        Ok(mount) => {
            mount.stop(|_| true).unwrap();
            Ok(())
        }
        Err(MountError::Fuse(FuseError::Mount { source, .. }))
            if [ErrorKind::PermissionDenied, ErrorKind::NotFound].contains(&source.kind()) =>
        {
            Err(format!("mounting: {source}"))
        }
        Err(error) => panic!("{error}"),
    };
    fs::remove_dir(dir).unwrap();
    answer
}

fn main() -> ExitCode {
    use cuts::*;
    use names::*;
    let tests = runner::tests![
        what_was_made_is_there_after_a_remount: mounting_works,
        reads_do_not_hold_the_volume: mounting_works,
        what_is_open_outlives_its_name: mounting_works,
        names_change_places: mounting_works,
        names_that_were_missed_are_found_once_they_are_there: mounting_works,
        one_thread_does_and_many_rest: mounting_works,
        space_is_set_apart_and_holes_are_found: mounting_works,
        large_directories_are_listed_and_removed: mounting_works,
        times_of_access_follow_the_option: mounting_works,
        writes_that_the_kernel_gathers_arrive: mounting_works,
        pages_of_a_mapping_are_no_holes: mounting_works,
        pages_without_room_are_an_error_of_the_sync: mounting_works,
        large_ranges_are_zeroed_and_punched: mounting_works,
        counters_are_an_attribute_of_the_root: mounting_works,
        after_a_power_cut_what_was_synced_is_there: mounting_works,
        cuts_that_tear_blocks_lose_nothing_that_was_synced: mounting_works,
        cuts_of_a_crowded_volume_lose_nothing_that_was_synced: mounting_works,
        an_image_is_mounted_once: mounting_works,
    ];
    runner::run("mounted", &tests)
}
