//! The volume of `--fs strict` and its states beside a naive twin that keeps whole files twice: as they are, and as they are
//! durable. Owners are drawn where files may be given away: as root.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use block::{Plant, Rng};
use stack::datalog::Log;
use stack::disk::{DataRecorded, Disk, RamDisk};

use varve_torture::history::History;
use varve_torture::overlay::StateDisk;
use varve_torture::states::{Cut, Left, States};
use varve_torture::strict::{
    Blocks, Change, File, Kind, PAGE, Planted, ROOT, Rights, Volume, lay, told,
};

/// Mode, owner and group.
type Owned = (u32, u32, u32);

/// A file: its bytes and rights now; its pages, size and rights as they are durable.
#[derive(Clone, Default)]
struct Twin {
    rights: (Owned, Owned),
    now: Vec<u8>,
    pages: BTreeMap<usize, Vec<u8>>,
    size: usize,
}

impl Twin {
    fn sync(&mut self) {
        self.size = self.now.len();
        self.rights.1 = self.rights.0;
        let pages = self.now.chunks(PAGE as usize).map(|page| {
            let mut page = page.to_vec();
            page.resize(PAGE as usize, 0);
            page
        });
        self.pages = pages.enumerate().collect();
    }

    fn durable(&self) -> Vec<u8> {
        let mut all = vec![0; self.size];
        for (page, bytes) in &self.pages {
            let at = page * PAGE as usize;
            if at < self.size {
                let count = bytes.len().min(self.size - at);
                all[at..at + count].copy_from_slice(&bytes[..count]);
            }
        }
        all
    }
}

/// Names and what they stand for, now and as they are durable: `fsync` of the only folder is the only way.
#[derive(Default)]
struct Names {
    now: BTreeMap<OsString, u64>,
    durable: BTreeMap<OsString, u64>,
}

fn us() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

fn owned(path: &Path) -> Owned {
    let found = std::fs::symlink_metadata(path).unwrap();
    (found.mode() & 0o7777, found.uid(), found.gid())
}

fn found(root: &Path) -> BTreeMap<OsString, (Vec<u8>, Owned)> {
    let entries = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap());
    let one = |path: &Path| (std::fs::read(path).unwrap_or_default(), owned(path));
    entries.map(|entry| (entry.file_name(), one(&entry.path()))).collect()
}

/// A change of rights, and what comes of it.
fn drawn(rng: &mut Rng, (mode, uid, gid): Owned) -> (Change, Owned) {
    let new = *rng.pick(&[0o600, 0o4711, 0o444, 0o777]);
    if us().0 != 0 || rng.below(2) == 0 {
        return (Change { mode: Some(new), ..Change::default() }, (new, uid, gid));
    }
    match rng.below(3) {
        0 => (Change { uid: Some(Some(7)), ..Change::default() }, (mode, 7, gid)),
        1 => (Change { gid: Some(Some(9)), ..Change::default() }, (mode, uid, 9)),
        _ => (Change { uid: Some(None), gid: Some(None), mode: None }, (mode, us().0, us().1)),
    }
}

/// Draws a run, and compares what is left of it: what differs first.
fn differs(seed: u64, folder: &Path, bug: Plant<Planted>) -> Option<String> {
    let log = folder.join("log.vlog");
    let disk = Arc::new(
        DataRecorded::create(Arc::new(RamDisk::new(4 << 20).unwrap()), &log, "drawn").unwrap(),
    );
    let noted = Arc::clone(&disk);
    let below: Arc<dyn Disk> = Arc::clone(&disk) as _;
    let note = Arc::new(move |text: &str| noted.mark(text, true));
    let mut volume = Volume::with(below, note, bug);
    let mut rng = Rng::stream(seed, "strict");
    let (mut files, mut names): (BTreeMap<u64, Twin>, Names) = (BTreeMap::new(), Names::default());
    let now = SystemTime::UNIX_EPOCH;
    for step in 0..rng.between(10, 60) {
        let name = OsString::from(format!("f{}", rng.below(4)));
        let other = OsString::from(format!("f{}", rng.below(4)));
        let node = names.now.get(&name).copied();
        let of = |name: &OsString| (ROOT, AsRef::<OsStr>::as_ref(name).to_os_string());
        match (rng.below(9), node) {
            (0..=2, None) => {
                let kind = Kind::File(File::default());
                let made = volume.make((ROOT, &name), kind, Rights::own(0o644), now).unwrap();
                names.now.insert(name, made);
                let own = (0o644, us().0, us().1);
                files.insert(made, Twin { rights: (own, own), ..Twin::default() });
            }
            (0..=2, Some(node)) => {
                let (at, count) = (rng.below(9000), rng.between(1, 6000));
                let bytes = vec![step as u8 + 1; count as usize];
                volume.write(node, at, &bytes).unwrap();
                let file = &mut files.get_mut(&node).unwrap().now;
                file.resize(file.len().max((at + count) as usize), 0);
                file[at as usize..(at + count) as usize].copy_from_slice(&bytes);
            }
            (3, Some(node)) => {
                let size = rng.below(12_000);
                volume.resize(node, size).unwrap();
                files.get_mut(&node).unwrap().now.resize(size as usize, 0);
            }
            (4, Some(node)) => {
                volume.rename((ROOT, &name), (ROOT, &other)).unwrap();
                if name != other {
                    names.now.remove(&name);
                    names.now.insert(other, node);
                }
            }
            (5, Some(_)) => {
                volume.remove(ROOT, &name, false).unwrap();
                names.now.remove(&of(&name).1);
            }
            (6, Some(node)) => {
                volume.sync(node).unwrap();
                files.get_mut(&node).unwrap().sync();
            }
            (8, Some(node)) => {
                let rights = &mut files.get_mut(&node).unwrap().rights.0;
                let (change, after) = drawn(&mut rng, *rights);
                volume.allow(node, change).unwrap();
                *rights = after;
            }
            (7, _) => {
                volume.sync(ROOT).unwrap();
                names.durable = names.now.clone();
            }
            _ => {}
        }
        for (name, node) in &names.now {
            let read = volume.read(*node, 0, 1 << 20).unwrap();
            if read != files[node].now {
                return Some(format!("{seed}: {step}: {name:?} as the program sees it"));
            }
        }
    }
    disk.finish().unwrap();
    let history = Arc::new(History::new(Log::load(&log).unwrap()).unwrap());
    let mut states = States::new(&history, 4096);
    let at = history.records().len();
    for (left, names, whole) in
        [(Left::Worst, &names.durable, false), (Left::All, &names.now, true)]
    {
        let state = states.at(&Cut { at, left }).state;
        let drive = StateDisk::new(Arc::clone(&history), 4096);
        drive.put(state.sectors);
        let root = folder.join(format!("{whole}"));
        std::fs::create_dir(&root).unwrap();
        lay(&drive, &Blocks::of(&history), &root).unwrap();
        let expected: BTreeMap<OsString, (Vec<u8>, Owned)> = names
            .iter()
            .map(|(name, node)| {
                let file = &files[node];
                let (bytes, rights) = match whole {
                    true => (file.now.clone(), file.rights.0),
                    false => (file.durable(), file.rights.1),
                };
                (name.clone(), (bytes, rights))
            })
            .collect();
        if found(&root) != expected {
            return Some(format!("{seed}: whole: {whole}"));
        }
    }
    None
}

fn folder(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("varve-strict-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn nothing_is_durable_before_its_own_fsync_and_all_of_it_after() {
    let top = folder("twin");
    for seed in 0..60 {
        let place = top.join(seed.to_string());
        std::fs::create_dir(&place).unwrap();
        assert_eq!(differs(seed, &place, Plant::default()), None);
    }
    std::fs::remove_dir_all(&top).unwrap();
}

#[test]
fn every_planted_bug_is_caught() {
    let top = folder("bugs");
    for bug in Planted::ALL {
        let caught = (0..60).find_map(|seed| {
            let place = top.join(format!("{bug:?}-{seed}"));
            std::fs::create_dir(&place).unwrap();
            differs(seed, &place, bug.into())
        });
        assert!(caught.is_some(), "{bug:?}: not caught");
    }
    std::fs::remove_dir_all(&top).unwrap();
}

#[test]
fn a_file_that_was_synced_has_no_name_until_its_folder_is() {
    let top = folder("names");
    let log = top.join("log.vlog");
    let disk = Arc::new(
        DataRecorded::create(Arc::new(RamDisk::new(1 << 20).unwrap()), &log, "one").unwrap(),
    );
    let noted = Arc::clone(&disk);
    let below: Arc<dyn Disk> = Arc::clone(&disk) as _;
    let mut volume = Volume::new(below, Arc::new(move |text: &str| noted.mark(text, true)));
    let now = SystemTime::UNIX_EPOCH;
    let kind = Kind::File(File::default());
    let node = volume.make((ROOT, OsStr::new("it")), kind, Rights::own(0o600), now).unwrap();
    volume.write(node, 0, b"kept").unwrap();
    volume.sync(node).unwrap();
    disk.finish().unwrap();
    let history = Arc::new(History::new(Log::load(&log).unwrap()).unwrap());
    let at = history.records().len();
    let mut states = States::new(&history, 4096);
    let builder = states.builder(at);
    let pending: Vec<u64> = builder.pending().map(|(block, _)| block).collect();
    let all = states.at(&Cut { at, left: Left::All }).state;
    assert_eq!(told(&history, &all.sectors, &pending), ["names: +/it"]);
    let drive = StateDisk::new(Arc::clone(&history), 4096);
    let it = ("it".into(), (b"kept".to_vec(), (0o600, us().0, us().1)));
    for (left, expected) in [(Left::Worst, vec![]), (Left::All, vec![it])] {
        drive.put(states.at(&Cut { at, left: left.clone() }).state.sectors);
        let root = top.join(format!("{left:?}"));
        std::fs::create_dir(&root).unwrap();
        lay(&drive, &Blocks::of(&history), &root).unwrap();
        assert_eq!(found(&root), expected.into_iter().collect());
    }
    std::fs::remove_dir_all(&top).unwrap();
}

/// Of folders and links: each as it was made until the `fsync` that is its own.
#[test]
fn mode_and_owner_of_a_folder_go_with_it_and_those_of_a_link_with_its_folder() {
    let top = folder("owners");
    let log = top.join("log.vlog");
    let disk = Arc::new(
        DataRecorded::create(Arc::new(RamDisk::new(1 << 20).unwrap()), &log, "one").unwrap(),
    );
    let noted = Arc::clone(&disk);
    let below: Arc<dyn Disk> = Arc::clone(&disk) as _;
    let mut volume = Volume::new(below, Arc::new(move |text: &str| noted.mark(text, true)));
    let now = SystemTime::UNIX_EPOCH;
    let root = us().0 == 0;
    let other = root.then_some(7);
    let mut make = |name: &str, kind: Kind| {
        volume.make((ROOT, OsStr::new(name)), kind, Rights::own(0o750), now).unwrap()
    };
    let of_root = make("d", Kind::Folder(BTreeMap::new()));
    let link = make("l", Kind::Link("d".into()));
    volume.sync(ROOT).unwrap();
    for node in [of_root, link, ROOT] {
        let change = Change { mode: Some(0o711), uid: Some(other), gid: None };
        volume.allow(node, change).unwrap();
    }
    // A rename, durable, takes nothing of it along.
    volume.rename((ROOT, OsStr::new("d")), (ROOT, OsStr::new("e"))).unwrap();
    let cut = |disk: &DataRecorded| disk.mark("here", false).unwrap();
    cut(&disk);
    volume.sync(ROOT).unwrap();
    cut(&disk);
    volume.sync(of_root).unwrap();
    disk.finish().unwrap();
    let history = Arc::new(History::new(Log::load(&log).unwrap()).unwrap());
    let here =
        |record: &stack::datalog::Record| !record.ours && record.op == stack::datalog::Op::Mark;
    let mut cuts: Vec<usize> =
        (0..history.records().len()).filter(|at| here(&history.records()[*at])).collect();
    cuts.push(history.records().len());
    let (old, new) = ((0o750, us().0), (0o711, other.unwrap_or(us().0)));
    // A link has no mode of its own.
    let of_link = |rights: (u32, u32)| (0o777, rights.1);
    let mut states = States::new(&history, 4096);
    let drive = StateDisk::new(Arc::clone(&history), 4096);
    let pending: Vec<u64> = states.builder(cuts[0]).pending().map(|(block, _)| block).collect();
    let all = states.at(&Cut { at: cuts[0], left: Left::All }).state;
    let said = told(&history, &all.sectors, &pending);
    assert_eq!(said[0..3], ["mode and owner of /e", "mode and owner of /l", "mode and owner of /"]);
    assert_eq!(said[3], "names: -/d +/e");
    for (i, (at, name, folder, link)) in
        [(cuts[0], "d", old, old), (cuts[1], "e", old, new), (cuts[2], "e", new, new)]
            .into_iter()
            .enumerate()
    {
        drive.put(states.at(&Cut { at, left: Left::Worst }).state.sectors);
        let root = top.join(i.to_string());
        std::fs::create_dir(&root).unwrap();
        let before = owned(&root);
        lay(&drive, &Blocks::of(&history), &root).unwrap();
        let two = |path: &Path| (owned(path).0, owned(path).1);
        assert_eq!(two(&root.join(name)), folder, "{i}");
        assert_eq!(two(&root.join("l")), of_link(link), "{i}");
        // The root was not made by anybody.
        let expected = if i == 0 { (before.0, before.1) } else { new };
        assert_eq!(two(&root), expected, "{i}");
    }
    std::fs::remove_dir_all(&top).unwrap();
}
