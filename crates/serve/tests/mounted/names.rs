//! Names: of what is open, of what changes places, of what was not there before.

use super::*;

pub fn what_is_open_outlives_its_name() {
    let mut here = Here::new(stack(None), "");
    let free = || rustix::fs::statfs(&here.dir).unwrap().f_bfree;
    let before = free();
    let mut file =
        OpenOptions::new().read(true).write(true).create_new(true).open(here.path("a")).unwrap();
    file.write_all(&[5; 1 << 20]).unwrap();
    fs::remove_file(here.path("a")).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    file.write_all(&[6; 10]).unwrap();
    file.sync_all().unwrap();
    file.rewind().unwrap();
    let mut all = Vec::new();
    file.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), (1 << 20) + 10);
    assert!(free() < before - 200);
    drop(file);
    // The kernel forgets when it gets to it.
    let back = (0..6_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        free() == before
    });
    assert!(back, "{} blocks of {before} are free", free());
    // A name that is replaced while somebody has it open.
    fs::write(here.path("old"), "old").unwrap();
    fs::write(here.path("new"), "new").unwrap();
    let old = File::open(here.path("old")).unwrap();
    fs::rename(here.path("new"), here.path("old")).unwrap();
    let mut text = [0; 3];
    old.read_exact_at(&mut text, 0).unwrap();
    assert_eq!(&text, b"old");
    assert_eq!(fs::read(here.path("old")).unwrap(), b"new");
    // Unmounting with inodes that the kernel knows and nobody names.
    drop(old);
    here.down();
    here.up("");
    here.end();
}

pub fn names_change_places() {
    let here = Here::new(stack(None), "");
    fs::write(here.path("a"), "a").unwrap();
    fs::create_dir(here.path("d")).unwrap();
    fs::write(here.path("d/inner"), "inner").unwrap();
    let rename = |from: &str, to: &str, how| {
        rustix::fs::renameat_with(CWD, here.path(from), CWD, here.path(to), how)
    };
    assert_eq!(rename("a", "d", RenameFlags::NOREPLACE), Err(Errno::EXIST));
    rename("a", "d/inner", RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read(here.path("a")).unwrap(), b"inner");
    assert_eq!(fs::read(here.path("d/inner")).unwrap(), b"a");
    rename("a", "d", RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read(here.path("d")).unwrap(), b"inner");
    assert_eq!(fs::read(here.path("a/inner")).unwrap(), b"a");
    assert_eq!(rename("d", "free", RenameFlags::EXCHANGE), Err(Errno::NOENT));
    rename("d", "free", RenameFlags::WHITEOUT).unwrap();
    let cover = fs::metadata(here.path("d")).unwrap();
    assert!(cover.file_type().is_char_device() && cover.rdev() == 0);
    let long = "x".repeat(256);
    assert_eq!(errno(File::open(here.path(&long))), Errno::NAMETOOLONG);
    assert_eq!(errno(fs::create_dir(here.path(&long))), Errno::NAMETOOLONG);
    here.end();
}

/// The kernel keeps that a name names nothing: until somebody makes it, in whatever way.
pub fn names_that_were_missed_are_found_once_they_are_there() {
    let here = Here::new(stack(Some(3)), "");
    fs::create_dir(here.path("elsewhere")).unwrap();
    let dir = File::open(here.path("elsewhere")).unwrap();
    let missed = |name: &str| {
        (0..2).for_each(|_| assert_eq!(errno(fs::metadata(here.path(name))), Errno::NOENT));
    };
    let rename = |from: &str, to: &str, how| {
        rustix::fs::renameat_with(CWD, here.path(from), CWD, here.path(to), how).unwrap();
    };
    type Way<'a> = (&'a str, Box<dyn Fn() + 'a>);
    let at = || here.path("elsewhere/x");
    let ways: Vec<Way<'_>> = vec![
        ("file", Box::new(|| fs::write(at(), "x").unwrap())),
        ("new file", Box::new(|| drop(File::create_new(at()).unwrap()))),
        ("directory", Box::new(|| fs::create_dir(at()).unwrap())),
        ("symlink", Box::new(|| std::os::unix::fs::symlink("nowhere", at()).unwrap())),
        (
            "pipe",
            Box::new(|| {
                let kind = rustix::fs::FileType::Fifo;
                rustix::fs::mknodat(CWD, at(), kind, 0o600.into(), 0).unwrap();
            }),
        ),
        (
            "link",
            Box::new(|| {
                fs::write(here.path("other"), "x").unwrap();
                fs::hard_link(here.path("other"), at()).unwrap();
                fs::remove_file(here.path("other")).unwrap();
            }),
        ),
        (
            "rename",
            Box::new(|| {
                fs::write(here.path("other"), "x").unwrap();
                rename("other", "elsewhere/x", RenameFlags::NOREPLACE);
            }),
        ),
        (
            "whiteout",
            Box::new(|| {
                fs::write(at(), "x").unwrap();
                rename("elsewhere/x", "moved", RenameFlags::WHITEOUT);
                fs::remove_file(here.path("moved")).unwrap();
            }),
        ),
        (
            "by a handle of the directory, and another program",
            Box::new(|| {
                let path = format!("/proc/{}/fd/{}/x", std::process::id(), dir.as_raw_fd());
                let done = std::process::Command::new("touch").arg(path).status().unwrap();
                assert!(done.success());
            }),
        ),
    ];
    for (way, make) in ways {
        missed("elsewhere/x");
        make();
        let found = fs::symlink_metadata(at()).unwrap_or_else(|error| panic!("{way}: {error}"));
        assert!(found.ino() > 3, "{way}");
        let listed = fs::read_dir(here.path("elsewhere")).unwrap().count();
        assert_eq!(listed, 1, "{way}");
        match found.is_dir() {
            true => fs::remove_dir(at()).unwrap(),
            false => fs::remove_file(at()).unwrap(),
        }
    }
    // Names that were made while others looked for them.
    let looked = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for n in 0..300 {
                    let path = here.path(&format!("elsewhere/n{n}"));
                    while fs::metadata(&path).is_err() {
                        looked.fetch_add(1, Ordering::Relaxed);
                        std::thread::yield_now();
                    }
                }
            });
        }
        // They have begun: they look for the first one.
        while looked.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        for n in 0..300 {
            missed(&format!("elsewhere/n{n}"));
            fs::write(here.path(&format!("elsewhere/n{n}")), "n").unwrap();
        }
    });
    // A name that a power cut brings back.
    fs::write(here.path("back"), "back").unwrap();
    let root = File::open(&here.dir).unwrap();
    root.sync_all().unwrap();
    fs::remove_file(here.path("back")).unwrap();
    missed("back");
    drop((dir, root));
    let power = here.mount.as_ref().unwrap().stack().power;
    power.cut(When::Now).unwrap();
    power.on().unwrap();
    assert_eq!(fs::read(here.path("back")).unwrap(), b"back");
    here.end();
}
