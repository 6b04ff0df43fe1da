//! What is asked of a file system, by paths, and its text form.

use std::fmt;

use crate::step::Class;

/// A path of up to 15 names, each one of 15. The root has none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Path(u64);

/// Number of names.
pub(crate) const NAMES: u8 = 15;

impl Path {
    /// The root.
    pub const ROOT: Path = Path(0);

    /// The path of name `name` (1 to 15) in this directory.
    ///
    /// # Panics
    /// If the name is none, or the path too long.
    pub fn join(self, name: u8) -> Path {
        assert!((1..=NAMES).contains(&name) && !self.is_full(), "{self} and name {name}");
        Path(self.0 << 4 | u64::from(name))
    }

    /// Whether it has as many names as there may be.
    pub fn is_full(self) -> bool {
        self.0 >> 56 != 0
    }

    /// The directory, and the name in it; none of the root.
    pub fn split(self) -> Option<(Path, u8)> {
        (self.0 != 0).then_some((Path(self.0 >> 4), (self.0 & 15) as u8))
    }

    /// Its names, first to last.
    pub fn names(self) -> impl Iterator<Item = u8> {
        (0..16).rev().map(move |i| (self.0 >> (4 * i) & 15) as u8).filter(|name| *name != 0)
    }
}

/// The bytes of a name: most are short, one is no ASCII, one is long.
pub(crate) fn name_bytes(name: u8) -> Vec<u8> {
    match name {
        14 => "ünï".as_bytes().to_vec(),
        15 => vec![b'o'; 200],
        _ => vec![b'`' + name],
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("/");
        }
        self.names().try_for_each(|name| write!(f, "/{}", char::from(b'`' + name)))
    }
}

impl std::str::FromStr for Path {
    type Err = ();
    fn from_str(text: &str) -> Result<Path, ()> {
        let names = text.strip_prefix('/').ok_or(())?;
        let mut path = Path::ROOT;
        for name in names.split('/').filter(|_| !names.is_empty()) {
            match name.as_bytes() {
                [letter @ b'a'..=b'o'] if !path.is_full() => path = path.join(letter - b'`'),
                _ => return Err(()),
            }
        }
        Ok(path)
    }
}

/// One thing asked of a file system. Numbers are bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum FsAction {
    Create(Path),
    Mkdir(Path),
    Symlink(Path, u32),
    Link(Path, Path),
    Unlink(Path),
    Rmdir(Path),
    Rename(Path, Path),
    Exchange(Path, Path),
    Write(Path, u32, u32),
    Append(Path, u32),
    Truncate(Path, u32),
    Punch(Path, u32, u32),
    /// The file grows, or with `true` keeps its size.
    Allocate(Path, u32, u32, bool),
    /// Number of the attribute, length of its value.
    SetXattr(Path, u8, u32),
    DropXattr(Path, u8),
    Chmod(Path, u32),
    Fsync(Path),
    /// Somebody begins to read a file; he ends behind the next steps.
    Peek(Path),
    /// Somebody waits from now on until a file is durable.
    Ask(Path),
    /// Those that wait are taken a step further: a flush for them begins, or is heard of.
    Round,
    Sync,
    /// So many segments are cleaned at most.
    Clean(u32),
    /// In the background.
    Background(u32),
    /// A clean unmount and a mount.
    Remount,
    /// Everything is read and compared.
    Look,
}

impl FsAction {
    /// The kind, for coverage.
    pub fn class(&self) -> Class {
        match self {
            FsAction::Create(_) | FsAction::Mkdir(_) | FsAction::Symlink(..) => Class::Make,
            FsAction::Link(..) => Class::Link,
            FsAction::Unlink(_) | FsAction::Rmdir(_) => Class::Unlink,
            FsAction::Rename(..) | FsAction::Exchange(..) => Class::Rename,
            FsAction::Write(..) | FsAction::Append(..) => Class::FileWrite,
            FsAction::Truncate(..) | FsAction::Punch(..) | FsAction::Allocate(..) => Class::Resize,
            FsAction::SetXattr(..) | FsAction::DropXattr(..) | FsAction::Chmod(..) => {
                Class::Attribute
            }
            FsAction::Fsync(_) | FsAction::Ask(_) | FsAction::Round => Class::Fsync,
            FsAction::Sync => Class::Sync,
            FsAction::Clean(_) | FsAction::Background(_) => Class::Idle,
            FsAction::Remount => Class::Remount,
            FsAction::Look | FsAction::Peek(_) => Class::Read,
        }
    }
}

impl fmt::Display for FsAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FsAction::Create(path) => write!(f, "mk {path}"),
            FsAction::Mkdir(path) => write!(f, "mkdir {path}"),
            FsAction::Symlink(path, len) => write!(f, "sym {path} {len}"),
            FsAction::Link(from, to) => write!(f, "ln {from} {to}"),
            FsAction::Unlink(path) => write!(f, "rm {path}"),
            FsAction::Rmdir(path) => write!(f, "rmdir {path}"),
            FsAction::Rename(from, to) => write!(f, "mv {from} {to}"),
            FsAction::Exchange(one, other) => write!(f, "swap {one} {other}"),
            FsAction::Write(path, at, len) => write!(f, "write {path} {at} {len}"),
            FsAction::Append(path, len) => write!(f, "append {path} {len}"),
            FsAction::Truncate(path, size) => write!(f, "cut {path} {size}"),
            FsAction::Punch(path, at, len) => write!(f, "punch {path} {at} {len}"),
            FsAction::Allocate(path, at, len, false) => write!(f, "grow {path} {at} {len}"),
            FsAction::Allocate(path, at, len, true) => write!(f, "keep {path} {at} {len}"),
            FsAction::SetXattr(path, name, len) => write!(f, "attr {path} {name} {len}"),
            FsAction::DropXattr(path, name) => write!(f, "noattr {path} {name}"),
            FsAction::Chmod(path, mode) => write!(f, "mode {path} {mode}"),
            FsAction::Fsync(path) => write!(f, "fsync {path}"),
            FsAction::Ask(path) => write!(f, "ask {path}"),
            FsAction::Peek(path) => write!(f, "peek {path}"),
            FsAction::Round => f.write_str("round"),
            FsAction::Sync => f.write_str("sync"),
            FsAction::Clean(most) => write!(f, "clean {most}"),
            FsAction::Background(most) => write!(f, "idle {most}"),
            FsAction::Remount => f.write_str("remount"),
            FsAction::Look => f.write_str("look"),
        }
    }
}

/// Reads one; none if it is none.
pub(crate) fn parse_action(text: &str) -> Option<FsAction> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let path = |i: usize| words[i].parse::<Path>().ok();
    let n = |i: usize| words[i].parse::<u32>().ok();
    let small = |i: usize| words[i].parse::<u8>().ok();
    Some(match (*words.first()?, words.len()) {
        ("mk", 2) => FsAction::Create(path(1)?),
        ("mkdir", 2) => FsAction::Mkdir(path(1)?),
        ("sym", 3) => FsAction::Symlink(path(1)?, n(2)?),
        ("ln", 3) => FsAction::Link(path(1)?, path(2)?),
        ("rm", 2) => FsAction::Unlink(path(1)?),
        ("rmdir", 2) => FsAction::Rmdir(path(1)?),
        ("mv", 3) => FsAction::Rename(path(1)?, path(2)?),
        ("swap", 3) => FsAction::Exchange(path(1)?, path(2)?),
        ("write", 4) => FsAction::Write(path(1)?, n(2)?, n(3)?),
        ("append", 3) => FsAction::Append(path(1)?, n(2)?),
        ("cut", 3) => FsAction::Truncate(path(1)?, n(2)?),
        ("punch", 4) => FsAction::Punch(path(1)?, n(2)?, n(3)?),
        ("grow", 4) => FsAction::Allocate(path(1)?, n(2)?, n(3)?, false),
        ("keep", 4) => FsAction::Allocate(path(1)?, n(2)?, n(3)?, true),
        ("attr", 4) => FsAction::SetXattr(path(1)?, small(2)?, n(3)?),
        ("noattr", 3) => FsAction::DropXattr(path(1)?, small(2)?),
        ("mode", 3) => FsAction::Chmod(path(1)?, n(2)?),
        ("fsync", 2) => FsAction::Fsync(path(1)?),
        ("ask", 2) => FsAction::Ask(path(1)?),
        ("peek", 2) => FsAction::Peek(path(1)?),
        ("round", 1) => FsAction::Round,
        ("sync", 1) => FsAction::Sync,
        ("clean", 2) => FsAction::Clean(n(1)?),
        ("idle", 2) => FsAction::Background(n(1)?),
        ("remount", 1) => FsAction::Remount,
        ("look", 1) => FsAction::Look,
        _ => return None,
    })
}
