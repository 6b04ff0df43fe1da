//! The directory and its three files, as the kernel asks for them.
//!
//! Invariants: nothing can be made, renamed or removed here; every file answers what it is asked
//! by itself (`device` that of the disk).

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::command::{Command, Handles, line};
use super::device::DeviceFile;
use super::{CONTROL, DISK, STATS};
use crate::kernel::{self, finish};
use stack::disk::Disk;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Node {
    Root,
    Disk,
    Stats,
    Control,
}

const NODES: [(Node, u64, &str); 4] = [
    (Node::Root, 1, "."),
    (Node::Disk, 2, DISK),
    (Node::Stats, 3, STATS),
    (Node::Control, 4, CONTROL),
];

fn node(ino: INodeNo) -> Result<Node, Errno> {
    let found = NODES.iter().find(|(_, number, _)| *number == ino.0);
    found.map(|(node, ..)| *node).ok_or(Errno::ENOENT)
}

/// The directory.
pub struct Files {
    device: DeviceFile,
    stats: Arc<dyn Fn() -> String + Send + Sync>,
    command: Option<Arc<Command>>,
    handles: Handles,
    owner: (u32, u32),
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Files {
    /// The files of `disk`, owned by whoever runs this program; `errors` counts requests that the
    /// disk refused although they were in order.
    pub fn new(
        disk: Arc<dyn Disk>,
        stats: Arc<dyn Fn() -> String + Send + Sync>,
        command: Option<Arc<Command>>,
        errors: Arc<AtomicU64>,
    ) -> Files {
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let device = DeviceFile { disk, errors };
        Files { device, stats, command, handles: Handles::default(), owner }
    }

    fn attributes(&self, which: Node) -> FileAttr {
        let can = self.device.capabilities();
        let (kind, perm, size) = match which {
            Node::Root => (FileType::Directory, 0o500, 0),
            Node::Disk => {
                (FileType::RegularFile, if can.read_only { 0o400 } else { 0o600 }, can.size)
            }
            // Made when opened, as files of /proc: nobody knows the length before.
            Node::Stats => (FileType::RegularFile, 0o400, 0),
            Node::Control => (FileType::RegularFile, 0o600, 0),
        };
        let (_, ino, _) = NODES[which as usize];
        // Files here have no times.
        let never = SystemTime::UNIX_EPOCH;
        FileAttr {
            ino: INodeNo(ino),
            size,
            blocks: size.div_ceil(512),
            atime: never,
            mtime: never,
            ctime: never,
            crtime: never,
            kind,
            perm,
            nlink: if which == Node::Root { 2 } else { 1 },
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: can.block,
            flags: 0,
        }
    }

    /// Those that are there: `control` only if somebody listens.
    fn listed(&self) -> impl Iterator<Item = (Node, u64, &'static str)> {
        let controlled = self.command.is_some();
        NODES.into_iter().filter(move |(node, ..)| *node != Node::Control || controlled)
    }

    fn carry_out(&self, handle: FileHandle, data: &[u8]) -> Result<u32, Errno> {
        let command = self.command.as_ref().ok_or(Errno::EACCES)?;
        let line = line(data)?;
        let (text, result) = match command(line) {
            Ok(text) => (text, Ok(data.len() as u32)),
            Err(text) => (text, Err(Errno::EINVAL)),
        };
        let ended = if text.ends_with('\n') { text } else { text + "\n" };
        self.handles.replace(handle.0, ended)?;
        result
    }

    fn opened(&self, which: Node, mode: OpenAccMode) -> Result<(u64, FopenFlags), Errno> {
        let writes = mode != OpenAccMode::O_RDONLY;
        let direct = FopenFlags::FOPEN_DIRECT_IO;
        match which {
            Node::Root => Err(Errno::EISDIR),
            Node::Disk if writes && self.device.capabilities().read_only => Err(Errno::EROFS),
            Node::Disk => Ok((0, direct | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES)),
            Node::Stats if writes => Err(Errno::EACCES),
            Node::Stats => Ok((self.handles.open((self.stats)())?, direct)),
            // What is written and what is read are two things: no place in the file moves on.
            Node::Control => {
                let handle = self.handles.open(String::new())?;
                Ok((handle, direct | FopenFlags::FOPEN_STREAM | FopenFlags::FOPEN_NONSEEKABLE))
            }
        }
    }
}

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Better where the kernel has it, and no worse without. Write-back caching is never asked for.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        kernel::limit(config)
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.listed().find(|(node, _, known)| *node != Node::Root && name == *known);
        match found {
            Some((node, ..)) if parent == INodeNo::ROOT => {
                reply.entry(&Duration::ZERO, &self.attributes(node), Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match node(ino) {
            Ok(node) => reply.attr(&Duration::ZERO, &self.attributes(node)),
            Err(e) => reply.error(e),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let node = match node(ino) {
            Ok(node) => node,
            Err(e) => return reply.error(e),
        };
        let is = self.attributes(node);
        // `echo .. > control` truncates first, to the length that it has already.
        if size.is_some_and(|wanted| wanted != is.size)
            || mode.is_some_and(|wanted| wanted & 0o7777 != u32::from(is.perm))
            || uid.is_some_and(|wanted| wanted != is.uid)
            || gid.is_some_and(|wanted| wanted != is.gid)
        {
            return reply.error(Errno::EPERM);
        }
        reply.attr(&Duration::ZERO, &is);
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match node(ino).and_then(|node| self.opened(node, flags.acc_mode())) {
            Ok((handle, how)) => reply.opened(FileHandle(handle), how),
            Err(e) => reply.error(e),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let piece = match node(ino) {
            Ok(Node::Disk) => return self.device.read(offset, size, reply),
            Ok(Node::Stats) => self.handles.piece(fh.0, offset, size as usize),
            Ok(Node::Control) => self.handles.next(fh.0, size as usize),
            Ok(Node::Root) => Err(Errno::EISDIR),
            Err(e) => Err(e),
        };
        match piece {
            Ok(bytes) => reply.data(&bytes),
            Err(e) => reply.error(e),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = match node(ino) {
            Ok(Node::Disk) => self.device.write(offset, data, kernel::durable(flags)),
            Ok(Node::Control) => self.carry_out(fh, data),
            Ok(Node::Stats) => Err(Errno::EACCES),
            Ok(Node::Root) => Err(Errno::EISDIR),
            Err(e) => Err(e),
        };
        match written {
            Ok(bytes) => reply.written(bytes),
            Err(e) => reply.error(e),
        }
    }

    /// `close`: says nothing about what is durable.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.handles.close(fh.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let result = match node(ino) {
            Ok(Node::Disk) => self.device.flush(),
            Ok(_) => Ok(()),
            Err(e) => Err(e),
        };
        finish(result, reply);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if ino != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let up = [(Node::Root, 1, "..")];
        let all: Vec<_> = self.listed().chain(up).collect();
        let skip = usize::try_from(offset).unwrap_or(usize::MAX);
        for (i, (node, ino, name)) in all.into_iter().enumerate().skip(skip) {
            let kind = self.attributes(node).kind;
            if reply.add(INodeNo(ino), i as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let can = self.device.capabilities();
        let blocks = can.size / u64::from(can.block);
        reply.statfs(blocks, 0, 0, NODES.len() as u64, 0, can.block, 255, can.block);
    }

    fn create(
        &self,
        _: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        reply.error(Errno::EPERM);
    }

    fn mknod(
        &self,
        _: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        reply.error(Errno::EPERM);
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rmdir(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn symlink(&self, _: &Request, _: INodeNo, _: &OsStr, _: &Path, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn rename(
        &self,
        _: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _newparent: INodeNo,
        _newname: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EPERM);
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let result = match node(ino) {
            Ok(Node::Disk) => self.device.allocate(offset, length, mode),
            Ok(_) => Err(Errno::EOPNOTSUPP),
            Err(e) => Err(e),
        };
        finish(result, reply);
    }

    fn lseek(
        &self,
        _: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let found = match node(ino) {
            Ok(Node::Disk) => kernel::sought(offset, whence)
                .and_then(|(at, want_hole)| self.device.seek(at, want_hole)),
            Ok(_) => Err(Errno::EINVAL),
            Err(e) => Err(e),
        };
        kernel::answer_offset(found, reply);
    }
}
