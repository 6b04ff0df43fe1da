//! Every stack that can be said serves bytes, and one with a switch keeps what was flushed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use varve_stack::disk::{Disk, Done};
use varve_stack::live::Stack;
use varve_stack::power::When;

const DRIVE: &str = "drive(mqsim-default, geometry.blocks=0, capacity=48 MiB, geometry.channels=2, \
                     geometry.dies=1, line=plane, op=80 %)";

/// A folder that goes with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!("varve-stack-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).expect("a folder");
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn start(text: &str) -> Stack {
    let described = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    Stack::start(&described).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn bytes(at: u64, version: u8) -> Vec<u8> {
    let mut bytes = vec![version; 4096];
    bytes[..8].copy_from_slice(&at.to_le_bytes());
    bytes
}

fn write(stack: &Stack, version: u8) {
    for at in (0..40).map(|i| i * 7 * 4096) {
        stack.disk.write(at, &bytes(at, version), false).and_then(Done::wait).expect("written");
    }
}

/// The version of each sector of the block at `at`, which holds nothing else.
fn versions(stack: &Stack, at: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    stack.disk.read(at, &mut bytes).and_then(Done::wait).expect("read");
    assert_eq!(bytes[..8], at.to_le_bytes(), "another block, or none");
    let sectors: Vec<u8> = bytes.chunks(512).map(|sector| sector[100]).collect();
    for (sector, version) in bytes.chunks(512).zip(&sectors) {
        let rest = if sector == &bytes[..512] { &sector[8..] } else { sector };
        assert!(rest.iter().all(|byte| byte == version), "at {at}: a sector in pieces");
    }
    sectors
}

fn version(stack: &Stack, at: u64) -> u8 {
    let found = versions(stack, at);
    assert!(found.iter().all(|version| *version == found[0]), "at {at}: {found:?}");
    found[0]
}

#[test]
fn what_was_flushed_is_there_after_a_cut_through_every_stack() {
    let folder = Folder::new();
    let image = folder.0.join("a, b (1).img").display().to_string();
    let stacks = [
        "ram(48MiB)+cut(1)".to_string(),
        "ram(48MiB)+cut(1)+log".to_string(),
        "ram(48MiB)+log+cut(1)".to_string(),
        "ram(64MiB)+cut(1)+log(segment=64KiB)+log(segment=64KiB)".to_string(),
        format!("image(\"{image}\", size=48MiB)+cut(2)+log(gc.victim=cost-benefit)"),
        DRIVE.to_string(),
        format!("{DRIVE}+cut(3)+log(segment=128KiB)"),
        format!("{DRIVE}+log(segment=128KiB)"),
        format!("{DRIVE}+log(segment=128KiB)+cut(5)"),
    ];
    for text in &stacks {
        let stack = start(text);
        for round in 1..4 {
            write(&stack, 2 * round);
            stack.disk.flush().and_then(Done::wait).expect("flushed");
            write(&stack, 2 * round + 1);
            stack.power.cut(When::Now).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert!(!stack.power.state().on, "{text}");
            assert!(stack.disk.read(0, &mut [0; 512]).is_err(), "{text}");
            stack.power.on().unwrap_or_else(|e| panic!("{text}: {e}"));
            for at in (0..40).map(|i| i * 7 * 4096) {
                // A device keeps pieces of its atomic unit whole, and no more.
                let whole = stack.disk.capabilities().atomic >= 4096;
                let found = if whole { vec![version(&stack, at)] } else { versions(&stack, at) };
                let may_be = [2 * round, 2 * round + 1];
                assert!(found.iter().all(|v| may_be.contains(v)), "{text}: {found:?} at {at}");
            }
            assert_eq!(stack.power.state().cuts, u64::from(round), "{text}");
        }
        stack.stop().unwrap_or_else(|e| panic!("{text}: {e}"));
    }
}

#[test]
fn what_has_no_switch_serves_too_and_says_that_it_has_none() {
    let folder = Folder::new();
    let path = |name: &str| folder.0.join(name).display().to_string();
    let stacks = [
        "ram(48MiB)".to_string(),
        "ram(48MiB)+paper-log".to_string(),
        format!("drive-image({}, size=48MiB)+log(segment=64KiB)", path("d.img")),
        format!("ram(48MiB)+record({})+log+record({})", path("below.vtr"), path("above.vtr")),
    ];
    for text in &stacks {
        let stack = start(text);
        write(&stack, 9);
        assert_eq!(version(&stack, 7 * 4096), 9, "{text}");
        assert!(stack.power.cut(When::Now).is_err(), "{text}");
        stack.stop().unwrap_or_else(|e| panic!("{text}: {e}"));
    }
    let (below, above) = (path("below.vtr"), path("above.vtr"));
    let bytes = |path: &str| std::fs::metadata(path).expect("a trace").len();
    assert!(bytes(&below) > 0 && bytes(&above) > 0);
}

#[test]
fn what_is_read_only_is_not_written() {
    let folder = Folder::new();
    let image = folder.0.join("image").display().to_string();
    let stack = start(&format!("image({image}, size=8MiB)"));
    write(&stack, 5);
    stack.stop().expect("stopped");
    drop(stack);
    let stack = start(&format!("image({image})+read-only"));
    assert_eq!(version(&stack, 0), 5);
    assert!(stack.disk.write(0, &[0; 512], false).is_err());
    let second = Stack::start(&format!("image({image})").parse().unwrap()).map(drop);
    assert!(second.unwrap_err().to_string().contains("in use"));
}

/// A size was passed over where the file was there: 16 MiB were asked for, and 8 served.
#[test]
fn a_size_is_of_what_is_made() {
    let folder = Folder::new();
    for name in ["image", "drive-image"] {
        let path = folder.0.join(name).display().to_string();
        for above in ["", "+cut(1)"] {
            for size in ["8MiB", "8388608"] {
                start(&format!("{name}({path}, size={size}){above}")).stop().expect("it ends");
            }
            start(&format!("{name}({path}){above}")).stop().expect("it ends");
            for unlike in ["16MiB", "4MiB"] {
                let text = format!("{name}({path}, size={unlike}){above}").parse();
                let refused = Stack::start(&text.expect("a stack")).expect_err("another size");
                let told = format!("{path}: there, with 8388608 bytes; expected a size of as many");
                assert!(refused.to_string().starts_with(&told), "{refused}");
            }
            start(&format!("{name}({path}, size=8MiB){above}")).stop().expect("as it was");
        }
    }
}

/// Threads that write, trim, force and flush, and a power that goes under them: whoever watches from above finds
/// everything durable when it is back.
#[test]
fn a_witness_finds_what_was_durable() {
    for text in watched_stacks(&Folder::new()) {
        let lost = watched(&text);
        assert!(lost.is_empty(), "{text}: {}", lost.join("; "));
    }
    // The paper's log answers a flush before it is one.
    let lost = watched("ram(24MiB)+cut(4, witness=on)+paper-log");
    assert!(lost.iter().any(|what| what.contains("are not what was durable")), "{lost:?}");
}

fn watched_stacks(folder: &Folder) -> [String; 6] {
    let file = |name: &str| folder.0.join(name).display().to_string();
    [
        format!("{DRIVE}+cut(3, witness=on)"),
        format!("{DRIVE}+cut(3, witness=on)+log(segment=64KiB)"),
        "ram(8MiB)+cut(4, witness=on)".to_string(),
        "ram(24MiB)+cut(4, witness=on)+log(segment=64KiB)".to_string(),
        format!("drive-image({}, size=8MiB)+cut(5, witness=on)", file("drive")),
        format!("image({}, size=8MiB)+log(segment=64KiB)+cut(6, witness=on)", file("image")),
    ]
}

/// What power-on said in some cuts.
fn watched(text: &str) -> Vec<String> {
    let (stack, mut lost) = (start(text), Vec::new());
    let blocks = stack.disk.capabilities().size / 4096;
    for cut in 0..12 {
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let disk = &stack.disk;
                scope.spawn(move || changes(&**disk, cut * 3 + thread, blocks.min(64)));
            }
            std::thread::sleep(std::time::Duration::from_millis(3));
            stack.power.cut(When::Now).expect("it goes");
        });
        lost.extend(stack.power.on().err().map(|error| error.to_string()));
    }
    let known = stack.disk.counters().into_iter().find(|(name, _)| *name == "witnessed_blocks");
    assert!(known.is_some_and(|(_, blocks)| blocks > 30), "{text}: {known:?}");
    stack.stop().expect("it ends");
    lost
}

/// Until the power goes.
fn changes(disk: &dyn Disk, seed: u64, blocks: u64) {
    let mut rng = block::Rng::new(seed);
    for number in 0..400 {
        let (at, version) = (rng.below(blocks) * 4096, seed as u8);
        let did = match rng.below(12) {
            0 => disk.flush(),
            1 => disk.trim(at, 4096, false),
            2 => disk.write(at, &bytes(number, version), true),
            3 => disk.write(at + 512, &[version; 512], false),
            _ => disk.write(at, &bytes(number, version), false),
        };
        if did.and_then(Done::wait).is_err() {
            break;
        }
    }
}
