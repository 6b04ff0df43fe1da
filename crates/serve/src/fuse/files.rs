//! The three files as the kernel asks for them.
//!
//! Invariants: an answer other than an error leaves only after the disk gave it; an error of the
//! disk is never one that the kernel takes for "not implemented", because it would then stop
//! asking (and call every later `fsync` a success).

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, OFlags};

use super::command::{Command, Handles, line};
use super::{CONTROL, DISK, STATS};
use crate::disk::{Disk, DiskError, Done};

/// Bytes of one request at most; larger ones the kernel splits.
const LARGEST: u32 = 1 << 20;
/// Requests that the kernel may have with us at once beyond those that somebody waits in.
const BACKGROUND: u16 = 256;
/// Extents asked for at once while data or a hole is looked for.
const EXTENTS: usize = 1024;
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

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
    disk: Arc<dyn Disk>,
    stats: Arc<dyn Fn() -> String + Send + Sync>,
    command: Option<Arc<Command>>,
    handles: Handles,
    /// Requests that the disk refused although they were in order.
    errors: Arc<AtomicU64>,
    owner: (u32, u32),
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("disk", &self.disk).finish_non_exhaustive()
    }
}

thread_local! {
    /// What reads are read into, one for each thread of the session, never above [`LARGEST`].
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Files {
    /// The files of `disk`, owned by whoever runs this program.
    pub fn new(
        disk: Arc<dyn Disk>,
        stats: Arc<dyn Fn() -> String + Send + Sync>,
        command: Option<Arc<Command>>,
        errors: Arc<AtomicU64>,
    ) -> Files {
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Files { disk, stats, command, handles: Handles::default(), errors, owner }
    }

    fn attributes(&self, which: Node) -> FileAttr {
        let can = self.disk.capabilities();
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

    /// What a refusal of the disk is called here.
    fn refused(&self, error: &DiskError, beyond: Errno) -> Errno {
        match error {
            DiskError::Range { .. } => beyond,
            DiskError::ReadOnly => Errno::EROFS,
            DiskError::NoSpace(_) => self.counted(Errno::ENOSPC),
            DiskError::Io(e) if e.kind() == io::ErrorKind::StorageFull => {
                self.counted(Errno::ENOSPC)
            }
            DiskError::PowerOff
            | DiskError::Damaged(_)
            | DiskError::Stopped(_)
            | DiskError::Io(_) => self.counted(Errno::EIO),
        }
    }

    fn counted(&self, error: Errno) -> Errno {
        self.errors.fetch_add(1, Ordering::Relaxed);
        error
    }

    /// Waits until the answer of the disk may leave.
    fn answered(&self, answer: Result<Done, DiskError>, beyond: Errno) -> Result<(), Errno> {
        answer.map(Done::wait).map_err(|e| self.refused(&e, beyond))
    }

    /// Whether all of a range lies inside.
    fn inside(&self, at: u64, bytes: u64) -> bool {
        at.checked_add(bytes).is_some_and(|end| end <= self.disk.capabilities().size)
    }

    fn read_disk(&self, at: u64, bytes: u32, reply: ReplyData) {
        // A file ends where it ends: what lies beyond is not there, and that is no error.
        let left = self.disk.capabilities().size.saturating_sub(at);
        let bytes = u64::from(bytes.min(LARGEST)).min(left) as usize;
        if bytes == 0 {
            return reply.data(&[]);
        }
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < bytes {
                buffer.resize(bytes, 0);
            }
            match self.disk.read(at, &mut buffer[..bytes]) {
                Ok(done) => {
                    done.wait();
                    reply.data(&buffer[..bytes]);
                }
                Err(e) => reply.error(self.refused(&e, Errno::EIO)),
            }
        });
    }

    fn write_disk(&self, at: u64, data: &[u8], flags: OpenFlags) -> Result<u32, Errno> {
        let bytes = u32::try_from(data.len()).map_err(|_| Errno::EINVAL)?;
        if !self.inside(at, u64::from(bytes)) {
            return Err(Errno::ENOSPC);
        }
        // O_SYNC holds the bit of O_DSYNC; RWF_DSYNC sets it for one write.
        let durable = flags.0 as u32 & OFlags::DSYNC.bits() != 0;
        self.answered(self.disk.write(at, data, durable), Errno::ENOSPC).map(|()| bytes)
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

    fn allocate(&self, at: u64, bytes: u64, mode: i32) -> Result<(), Errno> {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let keep = match mode - FallocateFlags::KEEP_SIZE {
            FallocateFlags::PUNCH_HOLE => false,
            FallocateFlags::ZERO_RANGE => true,
            _ => return Err(Errno::EOPNOTSUPP),
        };
        if !self.inside(at, bytes) {
            return Err(Errno::ENOSPC);
        }
        self.answered(self.disk.zero(at, bytes, keep, false), Errno::ENOSPC)
    }

    /// The first byte from `at` on that is data, or is not.
    fn seek(&self, mut at: u64, want_hole: bool) -> Result<u64, Errno> {
        let size = self.disk.capabilities().size;
        if at >= size {
            return Err(Errno::ENXIO);
        }
        while at < size {
            let found = self.disk.extents(at, size - at, EXTENTS);
            let found = found.map_err(|e| self.refused(&e, Errno::ENXIO))?;
            let before = at;
            for extent in found {
                if extent.hole == want_hole && extent.bytes > 0 {
                    return Ok(at);
                }
                at = at.saturating_add(extent.bytes);
            }
            if at == before {
                // A disk that says nothing about what it was asked would keep us here for ever.
                return Err(Errno::EIO);
            }
        }
        // Behind the last byte every file has a hole.
        if want_hole { Ok(size) } else { Err(Errno::ENXIO) }
    }

    fn opened(&self, which: Node, mode: OpenAccMode) -> Result<(u64, FopenFlags), Errno> {
        let writes = mode != OpenAccMode::O_RDONLY;
        let direct = FopenFlags::FOPEN_DIRECT_IO;
        match which {
            Node::Root => Err(Errno::EISDIR),
            Node::Disk if writes && self.disk.capabilities().read_only => Err(Errno::EROFS),
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

/// Answers with nothing but success or the error.
fn finish(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(e),
    }
}

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Better where the kernel has it, and no worse without. Write-back caching is never asked for.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let refused = |what: &str| io::Error::other(format!("the kernel refuses {what}"));
        config.set_max_write(LARGEST).map_err(|_| refused("requests of 1 MiB"))?;
        config.set_max_background(BACKGROUND).map_err(|_| refused("256 requests at once"))?;
        Ok(())
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
            Ok(Node::Disk) => return self.read_disk(offset, size, reply),
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
            Ok(Node::Disk) => self.write_disk(offset, data, flags),
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
            Ok(Node::Disk) => self.answered(self.disk.flush(), Errno::EIO),
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
        let can = self.disk.capabilities();
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
            Ok(Node::Disk) => self.allocate(offset, length, mode),
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
        let found = match (node(ino), whence, u64::try_from(offset)) {
            (Ok(Node::Disk), SEEK_DATA, Ok(at)) => self.seek(at, false),
            (Ok(Node::Disk), SEEK_HOLE, Ok(at)) => self.seek(at, true),
            (Ok(Node::Disk), _, Err(_)) => Err(Errno::ENXIO),
            (Err(e), ..) => Err(e),
            _ => Err(Errno::EINVAL),
        };
        match found.and_then(|at| i64::try_from(at).map_err(|_| Errno::EOVERFLOW)) {
            Ok(at) => reply.offset(at),
            Err(e) => reply.error(e),
        }
    }
}
