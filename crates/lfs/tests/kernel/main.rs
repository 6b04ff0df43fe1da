//! A Linux kernel in a guest and this crate on the same volumes, both ways: each reads what the
//! other wrote, changes it, and brings back what the other's crash left.
//!
//! Its own runner: this program runs inside the guest, too (`guest.rs`). `--rounds N` (`scripts/interop`, which
//! `scripts/nightly` runs): so many seeds, each with a second boot, in which the kernel judges what was changed here
//! after it. Without, nothing is booted unless `VARVE_GUESTS` is set: then once.

#[path = "../tools/mod.rs"]
mod tools;

mod cuts;
mod guest;
mod manifest;
mod ours;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use manifest::{differences, of_volume};
use tools::{Image, now};
use varve_lfs::format::{Block, Checkpoint, Flags, InlineFlags, MAGIC, NodeBlock, Superblock};
use varve_lfs::{Fs, FsOptions, Layout, SegNo};

/// When the host looks at what the guest did: after everything else.
const LATE: u64 = 3_000_000_000;
const SIZE: u64 = 100 << 20;

type Sections = BTreeMap<String, Vec<String>>;

/// First boot. Disks: a ours, b the kernel's own, c our crash, d an image that is filled, e without
/// inline anything and appended to only, f the one that the guest crashes on.
const FIRST: &str = r#"
on() { mount -t f2fs -o "$3" "/dev/vd$2" /mnt || exit 1; echo "== $1"; }
off() { umount /mnt || exit 1; }
list() { echo "== $1"; K manifest /mnt || exit 1; }
K() { /host/kernel guest "$@"; }
on ours a rw; list ours; K work "$1" 300 /mnt || exit 1; list ours-after; off
on theirs b rw; K work "$1" 500 /mnt || exit 1; list theirs; off
on crash c rw; list crash; off
on full d rw; K fill "$1" /mnt || exit 1; list full; off
on plain e noinline_data,noinline_dentry,noinline_xattr,mode=lfs; K work "$1" 300 /mnt || exit 1; list plain; off
on fsynced f rw; K work "$1" 100 /mnt || exit 1; list fsynced; K fsynced "$1" /mnt || exit 1
echo "== end"
sleep 0.2
echo b >/proc/sysrq-trigger
sleep 10
"#;

/// Second boot: what was changed here since; the crash of the first, as it was.
const SECOND: &str = r#"
K() { /host/kernel guest "$@"; }
for disk in a b c d e; do
  mount -t f2fs "/dev/vd$disk" /mnt || exit 1
  echo "== $disk"; K manifest /mnt || exit 1
  umount /mnt || exit 1
done
mount -t f2fs /dev/vdf /mnt || exit 1
echo "== f"; K manifest /mnt || exit 1
umount /mnt || exit 1
echo "== end"
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Why there is no guest here. Programs that `scripts/setup` installs must be there.
fn missing() -> Option<String> {
    let fetched = Command::new(root().join("scripts/guest")).arg("--fetch").output();
    let fetched = fetched.expect("scripts/guest runs");
    let said = String::from_utf8_lossy(&fetched.stderr).trim().to_string();
    assert!(!said.contains("not installed"), "{said}: run scripts/setup");
    (!fetched.status.success()).then(|| format!("no kernel for a guest: {said}"))
}

/// Runs a script in a guest; its output by section. The last section is `end`, or it failed. On a
/// busy machine the emulated hardware may look broken to the kernel before the script begins: then
/// nothing has happened, and it is tried again.
fn boot(script: &str, disks: &[&Image], args: &[String]) -> Sections {
    for _ in 0..3 {
        let (name, sections, said) = boot_once(script, disks, args);
        if name == "start" && sections.is_empty() {
            println!("the guest did not come up: {}", said.lines().next().unwrap_or_default());
            continue;
        }
        let last: Vec<&String> = sections.get(&name).into_iter().flatten().rev().take(3).collect();
        assert!(name == "end", "the guest ended in {name}: {last:?}\n{said}");
        return sections;
    }
    panic!("three guests did not come up");
}

fn boot_once(script: &str, disks: &[&Image], args: &[String]) -> (String, Sections, String) {
    let file = Image::new();
    std::fs::write(file.path(), script).unwrap();
    let mut command = Command::new(root().join("scripts/guest"));
    let this = std::env::current_exe().unwrap();
    command.args(["-t", "900", "-m", "f2fs loop", "-f"]);
    command.arg(format!("{}:/host/kernel", this.display()));
    for disk in disks {
        command.arg("-d").arg(disk.path());
    }
    let out = command.arg(file.path()).args(args).output().unwrap();
    let (mut sections, mut name) = (Sections::new(), String::from("start"));
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        match line.strip_prefix("== ") {
            Some(next) => name = next.to_string(),
            None => sections.entry(name.clone()).or_default().push(line.to_string()),
        }
    }
    (name, sections, String::from_utf8_lossy(&out.stderr).into_owned())
}

/// What the kernel wrote is read, found sound, changed, and found sound by `fsck.f2fs`.
fn judge(what: &str, image: &Image, wanted: &[String], seed: u64) -> (Image, Vec<String>) {
    let mut fs = Fs::mount(image.device(), FsOptions::default(), now(LATE))
        .unwrap_or_else(|error| panic!("{what}: mount: {error}"));
    fs.check(now(LATE)).unwrap_or_else(|error| panic!("{what}: check: {error}"));
    let found = of_volume(&mut fs, now(LATE)).unwrap();
    assert_eq!(differences(&found, wanted), [""; 0], "{what}");
    ours::change(&mut fs, seed);
    fs.check(now(LATE)).unwrap_or_else(|error| panic!("{what}, changed: {error}"));
    let after = of_volume(&mut fs, now(LATE)).unwrap();
    let changed = Image::of(&mut fs.unmount(now(LATE)).unwrap());
    assert_eq!(changed.complaints(), [""; 0], "{what}");
    println!(
        "{what}: {} paths equal, {} after changes here, checker content",
        found.len(),
        after.len()
    );
    (changed, after)
}

/// What of the format the kernel's images use that is never written here.
#[derive(Default, Debug)]
struct Seen {
    inline_data: u32,
    inline_entries: u32,
    inline_xattrs: u32,
    extents: u32,
    compact: u32,
    journals: u32,
    /// Logs that were writing into the holes of a segment.
    threaded: u32,
}

impl Seen {
    fn look(&mut self, image: &Image) {
        let bytes = std::fs::read(image.path()).unwrap();
        let block = |at: u32| -> Box<Block> {
            Box::new(bytes[at as usize * 4096..][..4096].try_into().unwrap())
        };
        let sb = Superblock::expect(&block(0), MAGIC).unwrap();
        let layout = Layout::of(&sb, bytes.len() as u64 / 4096).unwrap();
        let packs = [0, 1].map(|which| (layout.pack(which).0, block(layout.pack(which).0)));
        let packs = packs.into_iter().filter_map(|(at, b)| Some((at, Checkpoint::decode(&b)?)));
        let (at, cp) = packs.max_by_key(|(_, cp)| cp.version).unwrap();
        if cp.flags.any(Flags::COMPACT) {
            let first = block(at + cp.start_sum);
            self.compact += 1;
            let counts = [first[0], first[1], first[507], first[508]];
            self.journals += u32::from(counts.iter().any(|byte| *byte != 0));
        }
        self.threaded += cp.alloc_types.iter().filter(|kind| **kind == 1).count() as u32;
        for at in layout.block(SegNo(0), 0).0..bytes.len() as u32 / 4096 {
            let node = NodeBlock(block(at));
            let version = node.written_after() as u32;
            let known = cp.version as u32 - version.min(cp.version as u32) < 1 << 20;
            if !node.is_inode() || node.nid().0 < 3 || !known || node.links() == 0 {
                continue;
            }
            let has = |bit: u8| u32::from(node.inline() & bit != 0);
            self.inline_data += has(InlineFlags::DATA) & has(InlineFlags::EXISTS);
            self.inline_entries += has(InlineFlags::DENTRY);
            self.inline_xattrs += has(InlineFlags::XATTR);
            self.extents += u32::from(node.has_extent());
        }
    }

    fn all(&self) -> bool {
        let Seen {
            inline_data,
            inline_entries,
            inline_xattrs,
            extents,
            compact,
            journals,
            threaded,
        } = self;
        [inline_data, inline_entries, inline_xattrs, extents, compact, journals, threaded]
            .into_iter()
            .all(|count| *count > 0)
    }
}

/// After the guest's crash: what fsync acknowledged in it is there.
fn judge_crash(image: &Image, sections: &Sections, seed: u64) -> (Image, Vec<String>) {
    let mut fs = Fs::mount(image.device(), FsOptions::default(), now(LATE)).unwrap();
    fs.check(now(LATE)).unwrap();
    let found = of_volume(&mut fs, now(LATE)).unwrap();
    let lines = &sections["fsynced"];
    // Two lists: the tree before the checkpoint, and the folder of what was fsynced.
    let second = lines.iter().rposition(|line| line.starts_with(". ")).unwrap();
    let synced: Vec<String> = lines[second..]
        .iter()
        .filter(|line| !line.starts_with(". "))
        .map(|line| line.replacen("./", "./fsynced/", 1))
        .collect();
    let lost: Vec<&String> =
        synced.iter().filter(|line| found.binary_search(line).is_err()).collect();
    assert!(synced.len() >= 40 && lost.is_empty(), "{} synced, lost: {lost:#?}", synced.len());
    println!("the guest's crash: {} files that fsync acknowledged are there", synced.len());
    ours::change(&mut fs, seed);
    let changed = Image::of(&mut fs.unmount(now(LATE)).unwrap());
    assert_eq!(changed.complaints(), [""; 0]);
    (changed, found)
}

/// Lines without the times of directories: recovery that adds an entry changes them in the kernel.
fn timeless(lines: &[String]) -> Vec<String> {
    let mut all = lines.to_vec();
    for line in &mut all {
        let mut words: Vec<&str> = line.split(' ').collect();
        if words[1].starts_with('d') {
            words[5] = "-";
        }
        *line = words.join(" ");
    }
    all.sort();
    all
}

/// One seed: a boot, judged here; and with `twice` another, in which the kernel judges.
fn round(seed: u64, twice: bool) {
    let (ours, listed) = ours::volume(seed, SIZE);
    assert_eq!(ours.complaints(), [""; 0]);
    let (crash, recovered) = ours::crash(seed, SIZE);
    let made = |size, options: &[&str]| Image::made_by_f2fs_tools(size, options);
    let theirs = made(SIZE, &["-l", "kernel"]);
    let (full, plain, last) = (made(64 << 20, &[]), made(SIZE, &[]), made(SIZE, &[]));
    let disks = [&ours, &theirs, &crash, &full, &plain, &last];
    let said = boot(FIRST, &disks, &[seed.to_string()]);
    assert_eq!(differences(&said["ours"], &listed), [""; 0], "ours, in the kernel");
    println!("ours: {} paths equal in the kernel", listed.len());
    let (there, here) = (timeless(&said["crash"]), timeless(&recovered));
    assert_eq!(differences(&there, &here), [""; 0], "our crash, in the kernel");
    println!("our crash: {} paths equal in the kernel and here", recovered.len());
    let mut seen = Seen::default();
    [&theirs, &full, &plain, &last].into_iter().for_each(|image| seen.look(image));
    println!("the kernel wrote, {seen:?}");
    // A volume that is filled to the end (even seeds) was cleaned, and its logs are appended to.
    seen.threaded += u32::from(seed.is_multiple_of(2));
    assert!(seen.all());
    let images = [
        judge("ours, changed by the kernel", &ours, &said["ours-after"], seed),
        judge("the kernel's", &theirs, &said["theirs"], seed),
        judge("our crash, recovered by the kernel", &crash, &said["crash"], seed),
        judge("filled by the kernel", &full, &said["full"], seed),
        judge("appended to by the kernel", &plain, &said["plain"], seed),
    ];
    let (_, found) = judge_crash(&last, &said, seed);
    if twice {
        let mut disks: Vec<&Image> = images.iter().map(|(image, _)| image).collect();
        disks.push(&last);
        let said = boot(SECOND, &disks, &[seed.to_string()]);
        for (name, (_, wanted)) in ["a", "b", "c", "d", "e"].into_iter().zip(&images) {
            assert_eq!(differences(&said[name], wanted), [""; 0], "disk {name}, again");
        }
        let (theirs, ours) = (timeless(&said["f"]), timeless(&found));
        assert_eq!(differences(&theirs, &ours), [""; 0], "the guest's crash, in the kernel");
        println!("again in the kernel: all equal, its own crash recovered alike");
    }
}

/// Mounts what a number of cuts left, one image after the other of one disk.
const THIRD: &str = r#"
n=0
while [ $n -lt "$1" ]; do
  losetup -o $((n * $2)) /dev/loop0 /dev/vda || exit 1
  echo "== $n"
  if mount -t f2fs /dev/loop0 /mnt; then
    /host/kernel guest manifest /mnt || exit 1
    umount /mnt || exit 1
  else
    dmesg | tail -n 5
  fi
  losetup -d /dev/loop0
  n=$((n + 1))
done
echo "== end"
"#;

/// The kernel finds on each image what is to be there.
fn mount_all(cuts: &[cuts::Cut]) {
    let disk = cuts::disk(cuts);
    let args = [cuts.len().to_string(), cuts::STRIDE.to_string()];
    let said = boot(THIRD, &[&disk], &args);
    for (n, cut) in cuts.iter().enumerate() {
        let none = Vec::new();
        let found = said.get(&n.to_string()).unwrap_or(&none);
        let (there, here) = (timeless(&cuts::known(found)), timeless(&cuts::known(&cut.listed)));
        assert_eq!(differences(&there, &here), [""; 0], "{}, in the kernel", cut.what);
    }
}

/// Volumes that are crowded, cleaned all the time, and cut: `--cuts N` of them, in boots of `--batch N`.
fn cut_volumes(first: u64, count: u64, batch: u64) {
    let (mut sum, mut seed) = (cuts::Sum::default(), first);
    let guest = missing();
    while seed < first + count {
        let until = (seed + batch.max(1)).min(first + count);
        let made: Vec<_> = (seed..until).map(|seed| cuts::make(seed, &mut sum)).collect();
        match &guest {
            None => mount_all(&made),
            Some(reason) => println!("not in a kernel: {reason}"),
        }
        seed = until;
        println!("seeds {first} to {}: {sum:?}", seed - 1);
    }
    println!("test what_cuts_of_crowded_volumes_leave_is_what_a_kernel_finds ... ok");
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "guest") {
        if let Err(error) = guest::main(&words[1..]) {
            println!("{}: {error}", words.join(" "));
            std::process::exit(1);
        }
        return;
    }
    let number = |name: &str, or: u64| {
        let at = words.iter().position(|word| word == name);
        at.map_or(or, |at| words[at + 1].parse().expect("a number"))
    };
    let rounds = number("--rounds", 0);
    let first = number("--seed", 1);
    println!();
    if words.iter().any(|word| word == "--cuts") {
        return cut_volumes(first, number("--cuts", 0), number("--batch", 64));
    }
    if let Some(reason) = missing() {
        println!("test a_kernel_and_this_crate_understand_one_another ... skipped: {reason}");
        return;
    }
    if rounds == 0 && std::env::var_os("VARVE_GUESTS").is_none() {
        let reason = "a guest takes minutes: scripts/interop, or VARVE_GUESTS=1";
        println!("test a_kernel_and_this_crate_understand_one_another ... skipped: {reason}");
        return;
    }
    for seed in first..first + rounds.max(1) {
        round(seed, rounds > 0);
    }
    println!("test a_kernel_and_this_crate_understand_one_another ... ok");
}
