//! The FUSE front-end, by system calls of a program like any other.

mod common;
mod runner;

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use block::Rng;
use common::Forgetful;
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use varve_serve::fuse::{self, FuseError, Handles, Mount, Options, Patience, Stopped};

const BLOCKS: usize = 2048;
const SIZE: u64 = BLOCKS as u64 * 4096;

/// A disk mounted in a folder of its own.
struct Served {
    disk: Arc<Forgetful>,
    mount: Option<Mount>,
    dir: PathBuf,
}

impl Served {
    fn new() -> Served {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!("varve-fuse-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let disk = Arc::new(Forgetful::new(BLOCKS));
        let commanded = disk.clone();
        let counted = disk.clone();
        let options = Options {
            threads: 4,
            stats: Arc::new(move || {
                format!("{{\"flushes\": {}}}", counted.seen.flushes.load(Ordering::SeqCst))
            }),
            command: Some(Arc::new(move |line: &str| commanded.command(line))),
        };
        let mount = Mount::new(disk.clone(), &dir, options).unwrap();
        Served { disk, mount: Some(mount), dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn open(&self) -> File {
        OpenOptions::new().read(true).write(true).open(self.path(fuse::DISK)).unwrap()
    }

    fn control(&self, line: &str) -> String {
        let path = self.path(fuse::CONTROL);
        let mut file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
        let mut reply = String::new();
        file.read_to_string(&mut reply).unwrap();
        reply
    }

    fn stop(mut self) {
        let mut looks = 0;
        let ended = self.mount.take().unwrap().stop(|_, _| {
            looks += 1;
            if looks < 200 { Patience::Wait } else { Patience::Leave }
        });
        assert_eq!(ended.unwrap(), Stopped::Clean);
        assert!(!self.dir.exists(), "the folder that was made for the mount is gone again");
    }
}

fn error(result: std::io::Result<impl std::fmt::Debug>) -> Errno {
    let e = result.expect_err("an error was expected");
    Errno::from_io_error(&e).unwrap_or_else(|| panic!("{e}"))
}

fn the_directory_has_three_files_and_stays_as_it_is() {
    let served = Served::new();
    let mut names: Vec<String> = std::fs::read_dir(&served.dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [fuse::CONTROL, fuse::DISK, fuse::STATS]);
    assert_eq!(std::fs::metadata(served.path(fuse::DISK)).unwrap().len(), SIZE);
    assert_eq!(error(File::open(served.path("other"))), Errno::NOENT);
    assert_eq!(error(File::create(served.path("new"))), Errno::PERM);
    assert_eq!(error(std::fs::create_dir(served.path("new"))), Errno::PERM);
    assert_eq!(error(std::fs::remove_file(served.path(fuse::DISK))), Errno::PERM);
    assert_eq!(error(std::fs::rename(served.path(fuse::DISK), served.path("x"))), Errno::PERM);
    // Readable and writable by root, too: root may open it, and is refused there.
    let stats = OpenOptions::new().write(true).open(served.path(fuse::STATS));
    assert_eq!(error(stats), Errno::ACCESS);
    served.stop();
}

fn bytes_at_any_offset_are_kept() {
    let served = Served::new();
    let file = served.open();
    let mut model = vec![0u8; SIZE as usize];
    let mut rng = Rng::new(7);
    for round in 0..400 {
        let at = rng.below(SIZE);
        // Now and then more than the kernel sends as one request.
        let longest = if round % 40 == 0 { 3 << 20 } else { 20_000 };
        let bytes = rng.between(1, longest).min(SIZE - at) as usize;
        let at = at as usize;
        if rng.ratio(1, 2) {
            let data: Vec<u8> = (0..bytes).map(|i| (i as u64 ^ round ^ at as u64) as u8).collect();
            file.write_all_at(&data, at as u64).unwrap();
            model[at..at + bytes].copy_from_slice(&data);
        } else {
            let mut data = vec![0xee; bytes];
            file.read_exact_at(&mut data, at as u64).unwrap();
            assert!(data == model[at..at + bytes], "{bytes} bytes at {at}");
        }
    }
    drop(file);
    served.stop();
}

fn threads_of_a_program_do_not_disturb_one_another() {
    let served = Served::new();
    let file = Arc::new(served.open());
    let share = SIZE / 8;
    let write = |thread: u64| {
        let file = file.clone();
        move || {
            let mut rng = Rng::new(thread);
            for n in 0..200u8 {
                let at = thread * share + rng.below(share / 512 - 16) * 512;
                let data = [n ^ thread as u8; 512 * 16];
                file.write_all_at(&data, at).unwrap();
                let mut back = [0; 512 * 16];
                file.read_exact_at(&mut back, at).unwrap();
                assert!(back == data);
            }
        }
    };
    let threads: Vec<_> = (0..8).map(|thread| std::thread::spawn(write(thread))).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    drop(file);
    served.stop();
}

fn nothing_happens_beyond_the_end() {
    let served = Served::new();
    let file = served.open();
    file.write_all_at(&[1; 4096], SIZE - 4096).unwrap();
    assert_eq!(error(file.write_at(&[2; 4096], SIZE)), Errno::NOSPC);
    assert_eq!(error(file.write_at(&[2; 4096], SIZE - 100)), Errno::NOSPC);
    assert_eq!(error(file.write_at(&[2; 1], (1 << 62) + 5)), Errno::NOSPC);
    let mut back = [9; 200];
    assert_eq!(file.read_at(&mut back, SIZE - 100).unwrap(), 100);
    assert_eq!(back[..100], [1; 100]);
    assert_eq!(file.read_at(&mut back, SIZE).unwrap(), 0);
    assert_eq!(file.read_at(&mut back, u64::MAX / 4).unwrap(), 0);
    assert_eq!(file.write_at(&[], SIZE - 1).unwrap(), 0);
    assert_eq!(error(file.set_len(SIZE + 1)), Errno::PERM);
    assert_eq!(error(file.set_len(0)), Errno::PERM);
    file.set_len(SIZE).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    assert_eq!(fallocate(&file, punch, SIZE - 4096, 8192), Err(Errno::NOSPC));
    assert_eq!(fallocate(&file, FallocateFlags::ZERO_RANGE, SIZE - 1, 2), Err(Errno::NOSPC));
    file.read_exact_at(&mut back, SIZE - 4096).unwrap();
    assert_eq!(back, [1; 200], "what was refused changed nothing");
    assert_eq!(std::fs::metadata(served.path(fuse::DISK)).unwrap().len(), SIZE);
    drop(file);
    served.stop();
}

fn fsync_is_a_flush_and_a_synchronous_write_is_forced() {
    let served = Served::new();
    let seen = |what: &AtomicU64| what.load(Ordering::SeqCst);
    let file = served.open();
    file.write_all_at(&[3; 5000], 77).unwrap();
    assert_eq!((seen(&served.disk.seen.flushes), seen(&served.disk.seen.forced)), (0, 0));
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    assert_eq!(seen(&served.disk.seen.flushes), 2);
    // Closing is no flush.
    drop(file);
    assert_eq!(seen(&served.disk.seen.flushes), 2);
    for flags in [OFlags::DSYNC, OFlags::SYNC] {
        let mut how = OpenOptions::new();
        how.write(true).custom_flags(flags.bits() as i32);
        let forced = how.open(served.path(fuse::DISK)).unwrap();
        forced.write_all_at(&[4; 100], 8000).unwrap();
    }
    let file = served.open();
    let piece = [std::io::IoSlice::new(&[5; 4096])];
    let how = rustix::io::ReadWriteFlags::DSYNC;
    assert_eq!(rustix::io::pwritev2(&file, &piece, 4096, how).unwrap(), 4096);
    assert_eq!(seen(&served.disk.seen.forced), 3);
    drop(file);
    served.stop();
}

fn holes_are_punched_zeroed_and_found() {
    let served = Served::new();
    let file = served.open();
    let ask = |from| seek(&file, from);
    assert_eq!(ask(SeekFrom::Data(0)), Err(Errno::NXIO), "an empty disk has no data");
    assert_eq!(ask(SeekFrom::Hole(5)), Ok(5));
    file.write_all_at(&[6; 5 * 4096], 8192).unwrap();
    assert_eq!(ask(SeekFrom::Data(0)), Ok(8192));
    assert_eq!(ask(SeekFrom::Hole(8192)), Ok(7 * 4096));
    // Exact to the byte, and nothing but zeroes inside.
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, punch, 12_000, 8000).unwrap();
    assert_eq!(served.disk.seen.zeroed.load(Ordering::SeqCst), 8000);
    let mut back = vec![9; 5 * 4096];
    file.read_exact_at(&mut back, 8192).unwrap();
    let expected = |i: usize| if (12_000..20_000).contains(&(i + 8192)) { 0 } else { 6 };
    assert!(back.iter().enumerate().all(|(i, byte)| *byte == expected(i)));
    assert_eq!(ask(SeekFrom::Hole(8192)), Ok(12_288), "the whole block inside is a hole");
    assert_eq!(ask(SeekFrom::Data(12_288)), Ok(16_384));
    // Zeroes that stay allocated.
    fallocate(&file, FallocateFlags::ZERO_RANGE, 16_384, 4096).unwrap();
    assert_eq!(served.disk.seen.kept.load(Ordering::SeqCst), 4096);
    assert_eq!(ask(SeekFrom::Data(16_384)), Ok(16_384));
    assert_eq!(ask(SeekFrom::Hole(16_384)), Ok(7 * 4096));
    // Near the end, and beyond it.
    assert_eq!(ask(SeekFrom::Data(7 * 4096)), Err(Errno::NXIO));
    assert_eq!(ask(SeekFrom::Hole(SIZE)), Err(Errno::NXIO));
    file.write_all_at(&[1], SIZE - 1).unwrap();
    assert_eq!(ask(SeekFrom::Hole(SIZE - 1)), Ok(SIZE));
    for other in [FallocateFlags::empty(), FallocateFlags::KEEP_SIZE] {
        assert_eq!(fallocate(&file, other, 0, 4096), Err(Errno::OPNOTSUPP));
    }
    drop(file);
    served.stop();
}

fn a_power_cut_takes_what_was_not_flushed_also_from_the_kernel() {
    let served = Served::new();
    let file = served.open();
    file.write_all_at(&[1; 8192], 0).unwrap();
    file.sync_data().unwrap();
    file.write_all_at(&[2; 4096], 0).unwrap();
    let mut back = [0; 8192];
    file.read_exact_at(&mut back, 0).unwrap();
    assert_eq!(back[..4096], [2; 4096], "before the cut the newest data is read");
    assert_eq!(served.control("power-cut\n"), "the power is off\n");
    assert_eq!(error(file.read_at(&mut back, 0)), Errno::IO);
    assert_eq!(error(file.write_at(&back, 0)), Errno::IO);
    assert_eq!(error(file.sync_all()), Errno::IO);
    assert_eq!(served.control("power-on\n"), "the power is on\n");
    file.read_exact_at(&mut back, 0).unwrap();
    assert_eq!(back, [1; 8192], "what was flushed, and nothing of what was not");
    let errors = served.mount.as_ref().unwrap().error_count();
    assert_eq!(errors.load(Ordering::SeqCst), 3);
    drop(file);
    served.stop();
}

fn an_error_is_told_each_time_again() {
    let served = Served::new();
    let file = served.open();
    served.disk.fails.store(true, Ordering::SeqCst);
    // A kernel that took the first error for "no such call" would not ask a second time.
    for asked in 1..=3 {
        assert_eq!(error(file.sync_all()), Errno::IO);
        assert_eq!(served.disk.seen.flushes.load(Ordering::SeqCst), asked);
        assert_eq!(fallocate(&file, FallocateFlags::ZERO_RANGE, 0, 1), Err(Errno::IO));
        assert_eq!(error(file.write_at(&[0; 10], 0)), Errno::IO);
        assert_eq!(seek(&file, SeekFrom::Data(0)), Err(Errno::IO));
    }
    served.disk.fails.store(false, Ordering::SeqCst);
    file.sync_all().unwrap();
    drop(file);
    served.stop();
}

fn counters_and_commands_are_files() {
    let served = Served::new();
    let read = || std::fs::read_to_string(served.path(fuse::STATS)).unwrap();
    assert_eq!(read(), "{\"flushes\": 0}");
    served.open().sync_all().unwrap();
    assert_eq!(read(), "{\"flushes\": 1}");
    let path = served.path(fuse::CONTROL);
    // As a shell does it, which truncates first.
    std::fs::write(&path, "power-cut\n").unwrap();
    std::fs::write(&path, "power-on\n").unwrap();
    let mut file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    assert_eq!(error(file.write_all(b"nonsense\n")), Errno::INVAL);
    let mut reply = String::new();
    file.read_to_string(&mut reply).unwrap();
    assert_eq!(reply, "nonsense: expected power-cut or power-on\n");
    assert_eq!(error(file.write_all(b"two\nlines\n")), Errno::INVAL);
    assert_eq!(error(file.write_all(&[b'x'; 10_000])), Errno::INVAL);
    // A reply may be long and is read in pieces; each command has its own.
    file.write_all(b"power-on\n").unwrap();
    let mut piece = [0; 4];
    file.read_exact(&mut piece).unwrap();
    assert_eq!(&piece, b"the ");
    drop(file);
    // Whoever opens too many is refused and disturbs nobody.
    let many: Vec<_> = (0..Handles::MOST).map(|_| File::open(&path).unwrap()).collect();
    assert_eq!(error(File::open(&path)), Errno::NFILE);
    served.open().sync_all().unwrap();
    drop(many);
    served.stop();
}

fn stopping_waits_for_who_has_it_open() {
    let mut served = Served::new();
    let file = served.open();
    let (told, waited) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
    let mut held = Some(file);
    let ended = served.mount.take().unwrap().stop(|what, _| {
        assert!(what.contains("is open"), "{what}");
        told.store(true, Ordering::SeqCst);
        if waited.fetch_add(1, Ordering::SeqCst) == 2 {
            // It still works while stopping waits.
            let file = held.take().unwrap();
            file.write_all_at(b"late", 4).unwrap();
            file.sync_all().unwrap();
        }
        Patience::Wait
    });
    assert_eq!(ended.unwrap(), Stopped::Clean);
    assert!(told.load(Ordering::SeqCst) && !served.dir.exists());
    assert_eq!(served.disk.seen.flushes.load(Ordering::SeqCst), 1);
}

/// Who is not waited for is named, and cut off: what he asks then is an error, and the directory is gone.
fn who_is_not_waited_for_is_named_and_cut_off() {
    let mut served = Served::new();
    let path = served.path(fuse::DISK);
    let mut reader = std::process::Command::new("sleep")
        .arg("1000")
        .stdin(File::open(&path).unwrap())
        .spawn()
        .unwrap();
    let file = served.open();
    let mut who = String::new();
    let ended = served.mount.take().unwrap().stop(|_, place| {
        who = fuse::who_holds(place);
        Patience::CutOff
    });
    assert_eq!(ended.unwrap(), Stopped::CutOff);
    let expected = format!("process {} (sleep): {}", reader.id(), path.display());
    assert!(who.contains(&expected), "{who}, expected {expected}");
    assert!(!served.dir.exists());
    assert!(file.sync_all().is_err());
    reader.kill().unwrap();
    reader.wait().unwrap();
}

fn a_place_that_cannot_be_mounted_on_is_an_error() {
    let file = std::env::temp_dir().join(format!("varve-fuse-file-{}", std::process::id()));
    std::fs::write(&file, "x").unwrap();
    let disk = Arc::new(Forgetful::new(1));
    let options = || Options { threads: 1, stats: Arc::new(String::new), command: None };
    let refused = Mount::new(disk.clone(), &file, options()).unwrap_err();
    assert!(refused.to_string().starts_with("cannot mount on"), "{refused}");
    assert!(Mount::new(disk, &file.join("below"), options()).is_err());
    std::fs::remove_file(file).unwrap();
}

fn a_loop_device_hands_everything_on() {
    let mut served = Served::new();
    let device = served.mount.as_mut().unwrap().attach_loop().unwrap().to_path_buf();
    let queue = Path::new("/sys/block").join(device.file_name().unwrap()).join("queue");
    let told = |key: &str| std::fs::read_to_string(queue.join(key)).unwrap().trim().to_string();
    assert_eq!(told("logical_block_size"), "4096");
    assert_eq!(told("write_cache"), "write back");
    assert_ne!(told("discard_max_bytes"), "0");
    let open = || OpenOptions::new().read(true).write(true).open(&device).unwrap();
    let file = open();
    file.write_all_at(&[7; 64 << 10], 1 << 20).unwrap();
    let before = served.disk.seen.flushes.load(Ordering::SeqCst);
    file.sync_all().unwrap();
    assert!(served.disk.seen.flushes.load(Ordering::SeqCst) > before, "fsync became a flush");
    let mut back = [0; 64 << 10];
    served.open().read_exact_at(&mut back, 1 << 20).unwrap();
    assert_eq!(back, [7; 64 << 10]);
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, punch, 1 << 20, 32 << 10).unwrap();
    assert_eq!(served.disk.seen.zeroed.load(Ordering::SeqCst), 32 << 10, "a discard arrives");
    // The device is detached first, and only when its last user is gone.
    let (mut held, mut looks) = (Some(file), 0);
    let ended = served.mount.take().unwrap().stop(|what, _| {
        looks += 1;
        assert!(looks > 3 || what.contains("is in use"), "{what}");
        if looks == 3 {
            held = None;
        }
        if looks < 200 { Patience::Wait } else { Patience::Leave }
    });
    assert_eq!(ended.unwrap(), Stopped::Clean);
    assert!(looks >= 3 && !served.dir.exists());
}

fn fuse_works() -> Result<(), String> {
    runner::device("/dev/fuse")?;
    let helper = std::process::Command::new("fusermount3").arg("-V").output().is_ok();
    if !rustix::process::geteuid().is_root() && !helper {
        return Err("neither root nor fusermount3".to_string());
    }
    // Containers have the device and forbid the mount.
    let dir = std::env::temp_dir().join(format!("varve-fuse-try-{}", std::process::id()));
    let options = Options { threads: 1, stats: Arc::new(String::new), command: None };
    let mount = Mount::new(Arc::new(Forgetful::new(1)), &dir, options);
    match mount {
        Ok(mount) => {
            assert_eq!(mount.stop(|_, _| Patience::Wait).unwrap(), Stopped::Clean);
            Ok(())
        }
        // All else is a fault of ours.
        Err(FuseError::Mount { source, .. })
            if [ErrorKind::PermissionDenied, ErrorKind::NotFound].contains(&source.kind()) =>
        {
            Err(format!("mounting: {source}"))
        }
        Err(e) => panic!("{e}"),
    }
}

fn loop_works() -> Result<(), String> {
    fuse_works()?;
    runner::root("loop devices")?;
    runner::device("/dev/loop-control")
}

fn main() -> ExitCode {
    let tests = runner::tests![
        the_directory_has_three_files_and_stays_as_it_is: fuse_works,
        bytes_at_any_offset_are_kept: fuse_works,
        threads_of_a_program_do_not_disturb_one_another: fuse_works,
        nothing_happens_beyond_the_end: fuse_works,
        fsync_is_a_flush_and_a_synchronous_write_is_forced: fuse_works,
        holes_are_punched_zeroed_and_found: fuse_works,
        a_power_cut_takes_what_was_not_flushed_also_from_the_kernel: fuse_works,
        an_error_is_told_each_time_again: fuse_works,
        counters_and_commands_are_files: fuse_works,
        stopping_waits_for_who_has_it_open: fuse_works,
        who_is_not_waited_for_is_named_and_cut_off: fuse_works,
        a_place_that_cannot_be_mounted_on_is_an_error: || Ok(()),
        a_loop_device_hands_everything_on: loop_works,
    ];
    runner::run("fuse", &tests)
}
