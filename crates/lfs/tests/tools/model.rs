//! A file system that is a map in memory, and random work done on it and on a real one alike.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{BlockDevice, Bytes, Rng};
use varve_lfs::format::FileType;
use varve_lfs::fs::{NewInode, SetAttributes};
use varve_lfs::{Fs, FsError, Nid, Now};

/// What one inode is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    Dir(BTreeMap<Vec<u8>, Nid>),
    /// Shared: a run keeps a tree for each step.
    File(Arc<Vec<u8>>),
    Link(Vec<u8>),
    Other(FileType, (u32, u32)),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    pub body: Body,
    pub links: u32,
    pub mode: u16,
    pub xattrs: BTreeMap<(u8, Vec<u8>), Vec<u8>>,
}

/// Everything, by the numbers that the real one gave out.
pub type Tree = BTreeMap<Nid, Node>;

/// One operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    Create(Nid, Vec<u8>, FileType),
    Mkdir(Nid, Vec<u8>),
    Symlink(Nid, Vec<u8>, Vec<u8>),
    Link(Nid, Nid, Vec<u8>),
    Unlink(Nid, Vec<u8>),
    Rmdir(Nid, Vec<u8>),
    Rename(Nid, Vec<u8>, Nid, Vec<u8>),
    Write(Nid, u64, Vec<u8>),
    Truncate(Nid, u64),
    Punch(Nid, u64, u64),
    Xattr(Nid, u8, Vec<u8>, Option<Vec<u8>>),
    Chmod(Nid, u16),
    Fsync(Nid),
    Sync,
    /// So many segments are cleaned at once.
    Clean(u32),
}

/// How often, of 100; the rest is divided among the others.
#[derive(Clone, Copy)]
pub struct Mix {
    pub write: u64,
    pub fsync: u64,
    pub sync: u64,
    pub clean: u64,
    /// Blocks of a file at most, about.
    pub blocks: u64,
    /// Names in use at most, about.
    pub names: usize,
}

pub const NEW: NewInode = NewInode { permissions: 0o640, uid: 3, gid: 4 };

pub fn fresh() -> Tree {
    let root =
        Node { body: Body::Dir(BTreeMap::new()), links: 2, mode: 0o755, xattrs: BTreeMap::new() };
    BTreeMap::from([(Nid::ROOT, root)])
}

pub fn entries(tree: &Tree, dir: Nid) -> &BTreeMap<Vec<u8>, Nid> {
    match &tree[&dir].body {
        Body::Dir(entries) => entries,
        other => panic!("{dir:?} is {other:?}"),
    }
}

fn entries_mut(tree: &mut Tree, dir: Nid) -> &mut BTreeMap<Vec<u8>, Nid> {
    match &mut tree.get_mut(&dir).unwrap().body {
        Body::Dir(entries) => entries,
        other => panic!("{dir:?} is {other:?}"),
    }
}

fn contents(tree: &mut Tree, ino: Nid) -> Option<&mut Vec<u8>> {
    match &mut tree.get_mut(&ino)?.body {
        Body::File(bytes) => Some(Arc::make_mut(bytes)),
        _ => None,
    }
}

fn dirs(tree: &Tree) -> Vec<Nid> {
    let is_dir = |(ino, node): (&Nid, &Node)| matches!(node.body, Body::Dir(_)).then_some(*ino);
    tree.iter().filter_map(is_dir).collect()
}

fn files(tree: &Tree) -> Vec<Nid> {
    let is_file = |(ino, node): (&Nid, &Node)| matches!(node.body, Body::File(_)).then_some(*ino);
    tree.iter().filter_map(is_file).collect()
}

fn name(rng: &mut Rng, wide: usize) -> Vec<u8> {
    let n = rng.below(wide as u64);
    match n % 7 {
        0 => format!("{n:0>200}").into_bytes(),
        1 => format!("ünï-{n}").into_bytes(),
        _ => format!("n{n}").into_bytes(),
    }
}

fn bytes(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len + 8);
    let word = rng.next_u64() | 1;
    let mut at = 0_u64;
    while out.len() < len {
        out.extend_from_slice(&word.wrapping_add(at).to_le_bytes());
        at += 0x0101_0101;
    }
    out.truncate(len);
    out
}

/// Something to do that makes sense most of the time.
pub fn draw(rng: &mut Rng, tree: &Tree, mix: Mix) -> Op {
    let (dirs, files) = (dirs(tree), files(tree));
    let dir = *rng.pick(&dirs);
    let draw = rng.below(100);
    if !files.is_empty() {
        let ino = *rng.pick(&files);
        let limit = mix.blocks * 4096;
        if draw < mix.write {
            let at = rng.below(limit);
            let at = if rng.ratio(1, 2) { at / 4096 * 4096 } else { at };
            let len = match rng.below(4) {
                0 => rng.below(300) + 1,
                1 => 4096,
                2 => rng.below(60_000) + 1,
                _ => 8 * 4096,
            };
            return Op::Write(ino, at, bytes(rng, len as usize));
        }
        if draw < mix.write + mix.fsync {
            return Op::Fsync(ino);
        }
    }
    if draw >= 100 - mix.sync {
        return Op::Sync;
    }
    if draw >= 100 - mix.sync - mix.clean {
        return Op::Clean(1 + rng.below(3) as u32);
    }
    let known = |rng: &mut Rng| {
        let dir = *rng.pick(&dirs);
        let names: Vec<_> = entries(tree, dir).iter().collect();
        (!names.is_empty()).then(|| {
            let (name, ino) = *rng.pick(&names);
            (dir, name.clone(), *ino)
        })
    };
    let room = tree.len() < mix.names;
    let wide = mix.names * 2;
    match rng.below(16) {
        0..=3 if room => {
            let kinds = [FileType::File, FileType::File, FileType::File, FileType::File];
            let odd = [FileType::Fifo, FileType::Block, FileType::Socket, FileType::Character];
            let odd_one = rng.ratio(1, 10);
            let kind = *rng.pick(if odd_one { &odd } else { &kinds });
            Op::Create(dir, name(rng, wide), kind)
        }
        4 if room => Op::Mkdir(dir, name(rng, wide)),
        5 if room => {
            let len = 1 + rng.below(300) as usize;
            Op::Symlink(dir, name(rng, wide), vec![b'x'; len])
        }
        6 if !files.is_empty() => Op::Link(*rng.pick(&files), dir, name(rng, wide)),
        7..=8 => match known(rng) {
            Some((dir, name, ino)) if matches!(tree[&ino].body, Body::Dir(_)) => {
                Op::Rmdir(dir, name)
            }
            Some((dir, name, _)) => Op::Unlink(dir, name),
            None => Op::Rmdir(dir, name(rng, wide)),
        },
        9..=10 => match known(rng) {
            Some((from, old, _)) => Op::Rename(from, old, dir, name(rng, wide)),
            None => Op::Unlink(dir, name(rng, wide)),
        },
        11 if !files.is_empty() => Op::Truncate(*rng.pick(&files), rng.below(mix.blocks * 4096)),
        12 if !files.is_empty() => {
            let at = rng.below(mix.blocks * 4096);
            Op::Punch(*rng.pick(&files), at, rng.below(40_000))
        }
        13 => {
            let all: Vec<Nid> = tree.keys().copied().collect();
            let len = rng.below(700) as usize;
            let value = (!rng.ratio(1, 4)).then(|| bytes(rng, len));
            Op::Xattr(*rng.pick(&all), 1, format!("a{}", rng.below(4)).into_bytes(), value)
        }
        _ => {
            let all: Vec<Nid> = tree.keys().copied().collect();
            Op::Chmod(*rng.pick(&all), rng.below(0o1000) as u16)
        }
    }
}

fn is_inside(tree: &Tree, dir: Nid, ancestor: Nid) -> bool {
    dir == ancestor
        || dirs(tree).iter().any(|up| {
            entries(tree, *up).values().any(|ino| *ino == dir) && is_inside(tree, *up, ancestor)
        })
}

fn gone(tree: &mut Tree, ino: Nid) {
    let node = tree.get_mut(&ino).unwrap();
    node.links -= 1;
    if node.links == 0 || matches!(node.body, Body::Dir(_)) {
        tree.remove(&ino);
    }
}

/// What the model says of an operation; `made` is the number that the real one gave out.
pub fn apply(tree: &mut Tree, op: &Op, made: Option<Nid>) -> Result<(), FsError> {
    let plain = |body, mode| Node { body, links: 1, mode, xattrs: BTreeMap::new() };
    let free = |tree: &Tree, dir: Nid, name: &Vec<u8>| {
        if entries(tree, dir).contains_key(name) { Err(FsError::Exists) } else { Ok(()) }
    };
    let find = |tree: &Tree, dir: Nid, name: &Vec<u8>| {
        entries(tree, dir).get(name).copied().ok_or(FsError::NotFound)
    };
    let is_dir = |tree: &Tree, ino: Nid| matches!(tree[&ino].body, Body::Dir(_));
    let empty = |tree: &Tree, ino: Nid| entries(tree, ino).is_empty();
    let add = |tree: &mut Tree, dir: Nid, name: &Vec<u8>, node: Node| {
        let ino = made.unwrap();
        assert!(tree.insert(ino, node).is_none(), "{ino:?} was in use");
        entries_mut(tree, dir).insert(name.clone(), ino);
    };
    match op {
        Op::Create(dir, name, kind) => {
            free(tree, *dir, name)?;
            let body = match kind {
                FileType::File => Body::File(Arc::default()),
                FileType::Block | FileType::Character => Body::Other(*kind, (300, 5)),
                _ => Body::Other(*kind, (0, 0)),
            };
            add(tree, *dir, name, plain(body, NEW.permissions));
        }
        Op::Mkdir(dir, name) => {
            free(tree, *dir, name)?;
            add(tree, *dir, name, plain(Body::Dir(BTreeMap::new()), NEW.permissions));
            tree.get_mut(&made.unwrap()).unwrap().links = 2;
            tree.get_mut(dir).unwrap().links += 1;
        }
        Op::Symlink(dir, name, target) => {
            free(tree, *dir, name)?;
            add(tree, *dir, name, plain(Body::Link(target.clone()), NEW.permissions));
        }
        Op::Link(ino, dir, name) => {
            free(tree, *dir, name)?;
            entries_mut(tree, *dir).insert(name.clone(), *ino);
            tree.get_mut(ino).unwrap().links += 1;
        }
        Op::Unlink(dir, name) => {
            let ino = find(tree, *dir, name)?;
            if is_dir(tree, ino) {
                return Err(FsError::IsDirectory);
            }
            entries_mut(tree, *dir).remove(name);
            gone(tree, ino);
        }
        Op::Rmdir(dir, name) => {
            let ino = find(tree, *dir, name)?;
            if !is_dir(tree, ino) {
                return Err(FsError::NotDirectory);
            }
            if !empty(tree, ino) {
                return Err(FsError::NotEmpty);
            }
            entries_mut(tree, *dir).remove(name);
            tree.get_mut(dir).unwrap().links -= 1;
            gone(tree, ino);
        }
        Op::Rename(from, old, to, new) => {
            let ino = find(tree, *from, old)?;
            let target = entries(tree, *to).get(new).copied();
            if target == Some(ino) {
                return Ok(());
            }
            let dir = is_dir(tree, ino);
            if dir && is_inside(tree, *to, ino) {
                return Err(FsError::Invalid("a directory cannot be moved into itself"));
            }
            if let Some(target) = target {
                match (dir, is_dir(tree, target)) {
                    (true, false) => return Err(FsError::NotDirectory),
                    (false, true) => return Err(FsError::IsDirectory),
                    (true, true) if !empty(tree, target) => return Err(FsError::NotEmpty),
                    _ => {}
                }
            }
            entries_mut(tree, *from).remove(old);
            entries_mut(tree, *to).insert(new.clone(), ino);
            if dir {
                tree.get_mut(from).unwrap().links -= 1;
                tree.get_mut(to).unwrap().links += 1;
            }
            if let Some(target) = target {
                if dir {
                    tree.get_mut(to).unwrap().links -= 1;
                }
                gone(tree, target);
            }
        }
        Op::Write(ino, at, data) => {
            let file = contents(tree, *ino).unwrap();
            let end = *at as usize + data.len();
            file.resize(file.len().max(end), 0);
            file[*at as usize..end].copy_from_slice(data);
        }
        Op::Truncate(ino, size) => contents(tree, *ino).unwrap().resize(*size as usize, 0),
        Op::Punch(ino, at, len) => {
            let file = contents(tree, *ino).unwrap();
            let end = ((at + len) as usize).min(file.len());
            if (*at as usize) < end {
                file[*at as usize..end].fill(0);
            }
        }
        Op::Xattr(ino, index, name, value) => {
            let key = (*index, name.clone());
            let xattrs = &mut tree.get_mut(ino).unwrap().xattrs;
            match value {
                Some(value) => drop(xattrs.insert(key, value.clone())),
                None => drop(xattrs.remove(&key).ok_or(FsError::NoAttribute)?),
            }
        }
        Op::Chmod(ino, mode) => tree.get_mut(ino).unwrap().mode = *mode,
        Op::Fsync(_) | Op::Sync | Op::Clean(_) => {}
    }
    Ok(())
}

/// Does an operation for real.
pub fn perform<D: BlockDevice>(fs: &mut Fs<D>, now: Now, op: &Op) -> Result<Option<Nid>, FsError> {
    match op {
        Op::Create(dir, name, kind) => {
            let device = match kind {
                FileType::Block | FileType::Character => (300, 5),
                _ => (0, 0),
            };
            return fs.create(now, *dir, name, *kind, NEW, device).map(Some);
        }
        Op::Mkdir(dir, name) => return fs.mkdir(now, *dir, name, NEW).map(Some),
        Op::Symlink(dir, name, target) => {
            return fs.symlink(now, *dir, name, target, NEW).map(Some);
        }
        Op::Link(ino, dir, name) => fs.link(now, *ino, *dir, name),
        Op::Unlink(dir, name) => fs.unlink(now, *dir, name),
        Op::Rmdir(dir, name) => fs.rmdir(now, *dir, name),
        Op::Rename(from, old, to, new) => fs.rename(now, (*from, old), (*to, new)),
        Op::Write(ino, at, data) => fs.write(now, *ino, Bytes(*at), data),
        Op::Truncate(ino, size) => fs.truncate(now, *ino, Bytes(*size)),
        Op::Punch(ino, at, len) => fs.punch(now, *ino, Bytes(*at), Bytes(*len)),
        Op::Xattr(ino, index, name, value) => {
            fs.set_xattr(now, *ino, *index, name, value.as_deref())
        }
        Op::Chmod(ino, mode) => {
            let set = SetAttributes { permissions: Some(*mode), ..SetAttributes::default() };
            fs.set_attributes(now, *ino, set)
        }
        Op::Fsync(ino) => fs.fsync(now, *ino),
        Op::Sync => fs.sync(now),
        Op::Clean(most) => fs.clean(now, *most).map(drop),
    }
    .map(|()| None)
}

/// What a volume holds, as the model would have it.
pub fn read_tree<D: BlockDevice>(fs: &mut Fs<D>, now: Now) -> Result<Tree, FsError> {
    let (mut tree, mut open) = (Tree::new(), vec![Nid::ROOT]);
    while let Some(ino) = open.pop() {
        if tree.contains_key(&ino) {
            continue;
        }
        let attributes = fs.attributes(now, ino)?;
        let body = match attributes.kind {
            FileType::Directory => {
                let mut entries = BTreeMap::new();
                for entry in fs.readdir(now, ino)? {
                    if entry.name != b"." && entry.name != b".." {
                        open.push(entry.ino);
                        assert!(entries.insert(entry.name, entry.ino).is_none(), "a name twice");
                    }
                }
                Body::Dir(entries)
            }
            FileType::File | FileType::Symlink => {
                let mut bytes = vec![0xEE; attributes.size.0 as usize + 1];
                let n = fs.read(now, ino, Bytes(0), &mut bytes)?;
                bytes.truncate(n);
                assert_eq!(n as u64, attributes.size.0);
                if attributes.kind == FileType::File {
                    Body::File(Arc::new(bytes))
                } else {
                    Body::Link(bytes)
                }
            }
            kind => Body::Other(kind, attributes.device),
        };
        let mut xattrs = BTreeMap::new();
        for attr in fs.xattrs(now, ino)? {
            xattrs.insert((attr.index, attr.name), attr.value);
        }
        let mode = attributes.mode & 0o7777;
        tree.insert(ino, Node { body, links: attributes.links, mode, xattrs });
    }
    Ok(tree)
}

/// The first difference, in few words.
pub fn difference(found: &Tree, wanted: &Tree) -> Option<String> {
    for ino in found.keys().chain(wanted.keys()) {
        let (a, b) = (found.get(ino), wanted.get(ino));
        if a != b {
            let text = |node: Option<&Node>| match node {
                Some(Node { body: Body::File(bytes), links, mode, xattrs }) => {
                    format!(
                        "file of {} bytes, {links} links, mode {mode:o}, {} xattrs, crc {:x}",
                        bytes.len(),
                        xattrs.len(),
                        block::crc32c(0, bytes)
                    )
                }
                other => format!("{other:?}"),
            };
            return Some(format!("{ino}: found {}, wanted {}", text(a), text(b)));
        }
    }
    None
}
