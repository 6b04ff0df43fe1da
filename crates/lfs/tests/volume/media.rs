//! What stands on the media, and what is told of it: entries of the table of nodes, the journal's state, what
//! an inode says of its parents, attributes by their names, inline data.

use crate::tools::now;
use block::{Bytes, RamDevice, Sectors};
use varve_lfs::format::{FileType, InlineFlags, NodeBlock};
use varve_lfs::fs::{Cleaning, Durable, NewInode, Scj};
use varve_lfs::{Fs, FsError, FsOptions, MkfsOptions, Nid, mkfs};

const NEW: NewInode = NewInode { permissions: 0o644, uid: 1, gid: 2 };
/// Bit of `i_advise`: the name of the inode's parent in it is not to be believed.
const PARENT_LOST: u8 = 2;

fn mounted(options: FsOptions) -> Fs<RamDevice> {
    let device = RamDevice::new(Sectors(64 << 11));
    let device = mkfs(device, &MkfsOptions::new([5; 16], 9), now(0)).unwrap().0;
    Fs::mount(device, options, now(1)).unwrap()
}

fn file(fs: &mut Fs<RamDevice>, name: &str) -> Nid {
    fs.create(now(2), Nid::ROOT, name.as_bytes(), FileType::File, NEW, (0, 0)).unwrap()
}

#[test]
fn the_table_of_nodes_leads_to_each_node() {
    let mut fs = mounted(FsOptions::default());
    let mut files = Vec::new();
    for n in 0..120 {
        let ino = file(&mut fs, &format!("file{n}"));
        fs.write(now(3), ino, Bytes(0), &[n as u8; 5_000]).unwrap();
        files.push(ino);
        if n % 50 == 49 {
            fs.sync(now(4)).unwrap();
        }
    }
    let gone = files.remove(7);
    fs.unlink(now(5), Nid::ROOT, b"file7").unwrap();
    let mut durable = Durable::open(fs.unmount(now(6)).unwrap()).unwrap();
    for ino in files {
        let entry = durable.nat(ino).unwrap().0;
        assert_eq!(entry.ino, ino);
        let (node, at) = durable.node(ino).unwrap();
        assert_eq!((node.nid(), node.ino(), at), (ino, ino, entry.addr));
    }
    assert_eq!(durable.node(gone).err(), Some(FsError::NotFound));
    assert_eq!(durable.nat(Nid(u32::MAX)).err(), Some(FsError::NotFound));
}

#[test]
fn a_volume_has_a_journal_as_long_as_it_is_live() {
    let cleaning = Cleaning::Scj(Scj::default());
    let mut fs = mounted(FsOptions { cleaning, ..FsOptions::default() });
    file(&mut fs, "a");
    fs.sync(now(3)).unwrap();
    let mut durable = Durable::open(fs.device().clone()).unwrap();
    assert!(durable.is_live());
    let journal = durable.journal().unwrap().expect("it is mounted with a journal");
    assert!(journal.state.slots > 0);
    let mut durable = Durable::open(fs.unmount(now(4)).unwrap()).unwrap();
    assert!(!durable.is_live());
    assert_eq!(durable.journal(), Ok(None));
}

#[test]
fn an_inode_of_several_names_says_that_its_parent_is_not_known() {
    let mut fs = mounted(FsOptions::default());
    let ino = file(&mut fs, "a");
    let lost = |fs: &mut Fs<RamDevice>| {
        fs.sync(now(9)).unwrap();
        let node = Durable::open(fs.device().clone()).unwrap().node(ino).unwrap().0;
        (node.links(), node.advise() & PARENT_LOST != 0)
    };
    assert_eq!(lost(&mut fs), (1, false));
    fs.rename(now(10), (Nid::ROOT, b"a"), (Nid::ROOT, b"b")).unwrap();
    assert_eq!(lost(&mut fs), (1, false), "it has another name, and that is known");
    fs.link(now(11), ino, Nid::ROOT, b"c").unwrap();
    assert_eq!(lost(&mut fs), (2, true));
    fs.unlink(now(12), Nid::ROOT, b"b").unwrap();
    fs.rename(now(13), (Nid::ROOT, b"c"), (Nid::ROOT, b"d")).unwrap();
    assert_eq!(lost(&mut fs), (1, false));
}

#[test]
fn an_attribute_is_found_by_its_kind_and_its_name() {
    let mut fs = mounted(FsOptions::default());
    let ino = file(&mut fs, "a");
    let all: [(u8, &[u8], &[u8]); 4] =
        [(1, b"first", b"1"), (1, b"second", b"22"), (4, b"first", b"333"), (6, b"label", b"4444")];
    for (index, name, value) in all {
        fs.set_xattr(now(3), ino, index, name, Some(value)).unwrap();
    }
    for (index, name, value) in all {
        assert_eq!(fs.xattr(now(4), ino, index, name).unwrap(), value);
    }
    for (index, name) in [(4, &b"second"[..]), (6, b"first"), (1, b"label"), (1, b"firs")] {
        assert_eq!(fs.xattr(now(4), ino, index, name), Err(FsError::NoAttribute));
    }
}

#[test]
fn inline_data_is_the_same_bytes_to_read_and_to_change() {
    for flags in
        [0, InlineFlags::XATTR, InlineFlags::EXTRA, InlineFlags::XATTR | InlineFlags::EXTRA]
    {
        let mut node = NodeBlock::new(Nid(9), Nid(9), 0, false);
        node.set_inline(flags | InlineFlags::DATA);
        let bytes: Vec<u8> = (0..node.inline_data().len()).map(|i| i as u8 | 1).collect();
        assert!(bytes.len() > 3_000 && bytes.len().is_multiple_of(4), "{}", bytes.len());
        assert_eq!(node.inline_data_mut().len(), bytes.len());
        node.inline_data_mut().copy_from_slice(&bytes);
        assert!(node.inline_data() == bytes);
        assert_eq!(node.nid(), Nid(9), "what stands behind is not touched");
        node.clear_inline(InlineFlags::DATA);
        assert!(!node.is_inline_data() && node.inline_data().iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_cached_extent_is_there_until_it_is_forgotten() {
    let mut node = NodeBlock::new(Nid(9), Nid(9), 0, false);
    assert!(!node.has_extent());
    for byte in [348, 353, 359] {
        node.0[byte] = 1;
        assert!(node.has_extent(), "byte {byte}");
        node.clear_extent();
        assert!(!node.has_extent());
    }
    (node.0[347], node.0[360]) = (1, 1);
    assert!(!node.has_extent(), "its neighbours are none of it");
}

/// Where the volume may not wait for the device, somebody else reads for it, and it knows that he does.
#[test]
fn it_is_known_whether_somebody_reads_for_the_volume() {
    let mut fs = mounted(FsOptions::default());
    let ino = file(&mut fs, "a");
    fs.write(now(3), ino, Bytes(0), &[7; 9_000]).unwrap();
    let device = fs.unmount(now(4)).unwrap();
    let mut fs = Fs::mount(device.clone(), FsOptions::default(), now(5)).unwrap();
    fs.read_outside(now(5), true);
    let mut rounds = 0;
    while let Err(error) = fs.attributes(now(6), ino) {
        assert_eq!(error, FsError::Again);
        assert!(!fs.is_reading());
        let mut fetch = fs.wants().unwrap().expect("what it waits for");
        assert!(fs.is_reading());
        fetch.read(now(6).at, &mut device.clone()).unwrap();
        fs.brought(fetch, true);
        assert!(!fs.is_reading() && fs.wants().unwrap().is_none());
        rounds += 1;
    }
    assert!((1..4).contains(&rounds), "{rounds} rounds: each brings something that was asked for");
}
