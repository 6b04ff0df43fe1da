//! The volume of `--fs strict` and its states beside a naive twin that keeps whole files twice: as they are, and as they are durable.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use block::{Plant, Rng};
use stack::datalog::Log;
use stack::disk::{DataRecorded, Disk, RamDisk};

use varve_torture::history::History;
use varve_torture::overlay::StateDisk;
use varve_torture::states::{Cut, Left, States};
use varve_torture::strict::{Blocks, File, Kind, PAGE, Planted, ROOT, Volume, lay, told};

/// A file: its bytes now; its pages and size as they are durable.
#[derive(Clone, Default)]
struct Twin {
    now: Vec<u8>,
    pages: BTreeMap<usize, Vec<u8>>,
    size: usize,
}

impl Twin {
    fn sync(&mut self) {
        self.size = self.now.len();
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

fn found(root: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let entries = std::fs::read_dir(root).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).collect()
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
        match (rng.below(8), node) {
            (0..=2, None) => {
                let made =
                    volume.make((ROOT, &name), Kind::File(File::default()), 0o644, now).unwrap();
                names.now.insert(name, made);
                files.insert(made, Twin::default());
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
        let drive = StateDisk::new(Arc::clone(&history));
        drive.put(state.sectors);
        let root = folder.join(format!("{whole}"));
        std::fs::create_dir(&root).unwrap();
        lay(&drive, &Blocks::of(&history), &root).unwrap();
        let expected: BTreeMap<OsString, Vec<u8>> = names
            .iter()
            .map(|(name, node)| {
                let file = &files[node];
                (name.clone(), if whole { file.now.clone() } else { file.durable() })
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
    let node = volume.make((ROOT, OsStr::new("it")), kind, 0o600, now).unwrap();
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
    let drive = StateDisk::new(Arc::clone(&history));
    for (left, expected) in
        [(Left::Worst, vec![]), (Left::All, vec![("it".into(), b"kept".to_vec())])]
    {
        drive.put(states.at(&Cut { at, left: left.clone() }).state.sectors);
        let root = top.join(format!("{left:?}"));
        std::fs::create_dir(&root).unwrap();
        lay(&drive, &Blocks::of(&history), &root).unwrap();
        assert_eq!(found(&root), expected.into_iter().collect());
    }
    std::fs::remove_dir_all(&top).unwrap();
}
