//! What the kernel asks for, one answer each.
//!
//! Invariants: nothing here is "not implemented" by mistake, because the kernel would then stop
//! asking; a request that changes something is answered after the file system did it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use lfs::fs::Attributes;

use super::attributes::{FOR_GOOD, NOTHING, attributes, generation, kind, nid, number};
use super::cleaner::Cleaner;
use super::data::{self, Change};
use super::end::END;
use super::stats::{STATS, document};
use super::syncs::Syncs;
use super::takers::Takers;
use super::volume::Volume;
use super::{holes, names, xattrs};
use crate::kernel::{self, LARGEST, finish, refused};
use stack::live::Stack;

/// The requests of one mount.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) volume: Arc<Volume>,
    pub(super) syncs: Syncs,
    pub(super) takers: Takers,
    /// It ends with the mount.
    pub(super) _cleaner: Cleaner,
    /// The kernel gathers writes.
    pub(super) writeback: bool,
    /// The kernel needs no answer to `open`.
    pub(super) opens_itself: bool,
    /// What the file system lies on.
    pub(super) below: Stack,
}

fn entry(found: Result<Attributes, Errno>, reply: ReplyEntry) {
    match found {
        Ok(of) => reply.entry(&FOR_GOOD, &attributes(&of), generation(&of)),
        Err(error) => reply.error(error),
    }
}

fn attr(found: Result<Attributes, Errno>, reply: ReplyAttr) {
    match found {
        Ok(of) => reply.attr(&FOR_GOOD, &attributes(&of)),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        kernel::limit(config)?;
        if let Err(most) = config.set_max_readahead(LARGEST) {
            // As much as there is.
            let _ = config.set_max_readahead(most);
        }
        // Better where the kernel has them, and no worse without.
        let better = [
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            InitFlags::FUSE_CACHE_SYMLINKS,
        ];
        for flag in better {
            let _ = config.add_capabilities(flag);
        }
        if self.writeback {
            let writeback = config.add_capabilities(InitFlags::FUSE_WRITEBACK_CACHE);
            writeback.map_err(|_| refused("to gather writes (writeback)"))?;
        }
        self.opens_itself = config.capabilities().contains(InitFlags::FUSE_NO_OPEN_SUPPORT);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _turn = self.takers.take();
        match names::lookup(&self.volume, parent, name) {
            Ok(None) => reply.entry(&FOR_GOOD, &NOTHING, Generation(0)),
            Ok(Some(of)) => entry(Ok(of), reply),
            Err(error) => entry(Err(error), reply),
        }
    }

    fn forget(&self, _: &Request, ino: INodeNo, nlookup: u64) {
        let _turn = self.takers.take();
        if let Ok(ino) = nid(ino) {
            self.volume.forget(ino, nlookup);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let _turn = self.takers.take();
        attr(data::attributes(&self.volume, ino), reply);
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        changed: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let _turn = self.takers.take();
        let want = Change { mode, owner: (uid, gid), size, accessed, modified, changed };
        attr(data::change(&self.volume, req, ino, want), reply);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let _turn = self.takers.take();
        match data::target(&self.volume, ino) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let _turn = self.takers.take();
        entry(names::make(&self.volume, req, parent, name, mode, rdev), reply);
    }

    fn mkdir(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let _turn = self.takers.take();
        entry(names::mkdir(&self.volume, req, parent, name, mode), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.takers.take();
        finish(names::unlink(&self.volume, parent, name), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.takers.take();
        finish(names::rmdir(&self.volume, parent, name), reply);
    }

    fn symlink(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let _turn = self.takers.take();
        entry(names::symlink(&self.volume, req, parent, name, target.as_os_str()), reply);
    }

    fn rename(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let _turn = self.takers.take();
        let (from, to) = ((parent, name), (newparent, newname));
        finish(names::rename(&self.volume, req, from, to, flags), reply);
    }

    fn link(
        &self,
        _: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let _turn = self.takers.take();
        entry(names::link(&self.volume, ino, newparent, newname), reply);
    }

    /// Where the kernel can, it is told once that nothing needs to be opened.
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let _turn = self.takers.take();
        if self.opens_itself {
            reply.error(Errno::ENOSYS);
        } else {
            reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
        }
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let _turn = self.takers.take();
        match names::make(&self.volume, req, parent, name, mode, 0) {
            Ok(of) => reply.created(
                &FOR_GOOD,
                &attributes(&of),
                generation(&of),
                FileHandle(0),
                FopenFlags::FOPEN_KEEP_CACHE,
            ),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let _turn = self.takers.take();
        data::read(&self.volume, ino, offset, size, reply);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let _turn = self.takers.take();
        let done = data::write(&self.volume, ino, offset, data, write_flags);
        let (bytes, ino) = match done.and_then(|bytes| Ok((bytes, nid(ino)?))) {
            Ok(written) => written,
            Err(error) => return reply.error(error),
        };
        if !kernel::durable(flags) {
            return reply.written(bytes);
        }
        self.syncs.ask(ino, move |done| match done {
            Ok(()) => reply.written(bytes),
            Err(error) => reply.error(error),
        });
    }

    /// `close` says nothing about what is durable: the kernel need not ask.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        let _turn = self.takers.take();
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let _turn = self.takers.take();
        match nid(ino) {
            Ok(ino) => self.syncs.ask(ino, |done| finish(done, reply)),
            Err(error) => reply.error(error),
        }
    }

    fn fsyncdir(
        &self,
        by: &Request,
        ino: INodeNo,
        file: FileHandle,
        data: bool,
        reply: ReplyEmpty,
    ) {
        self.fsync(by, ino, file, data, reply);
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let _turn = self.takers.take();
        let listed = nid(ino).and_then(|dir| {
            self.volume.names(dir, offset, |next, of| {
                reply.add(number(of.ino), next, kind(of.kind), OsStr::from_bytes(&of.name))
            })
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let _turn = self.takers.take();
        let listed = nid(ino).and_then(|dir| {
            self.volume.list(dir, offset, |next, name, of| {
                let name = OsStr::from_bytes(name);
                // The kernel does not count the dots as told.
                let told = name != "." && name != "..";
                let (file, generation) = (attributes(of), generation(of));
                (reply.add(file.ino, next, name, &FOR_GOOD, &file, generation), told)
            })
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let _turn = self.takers.take();
        match self.volume.with(|fs, now| fs.usage(now)) {
            Ok(of) => {
                let free = of.blocks.saturating_sub(of.used_blocks);
                // A file needs a number, and a block for its inode.
                let available = of.available_blocks;
                let files = of.nodes.saturating_sub(of.used_nodes).min(available);
                reply.statfs(of.blocks, free, available, of.inodes + files, files, 4096, 255, 4096);
            }
            Err(error) => reply.error(error),
        }
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let _turn = self.takers.take();
        if (name == STATS || name == END) && ino == INodeNo::ROOT {
            return reply.error(Errno::EPERM);
        }
        finish(xattrs::set(&self.volume, ino, name, value, flags), reply);
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let _turn = self.takers.take();
        let found = if name == STATS && ino == INodeNo::ROOT {
            document(&self.volume, &self.below)
        } else if name == END && ino == INodeNo::ROOT {
            Ok(self.volume.end().as_os_str().as_bytes().to_vec())
        } else {
            xattrs::get(&self.volume, ino, name)
        };
        xattrs::answer(found, size, reply);
    }

    fn listxattr(&self, req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let _turn = self.takers.take();
        xattrs::answer(xattrs::list(&self.volume, ino, req.uid() == 0), size, reply);
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.takers.take();
        finish(xattrs::remove(&self.volume, ino, name), reply);
    }

    /// The kernel checks permissions itself (`default_permissions`).
    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        let _turn = self.takers.take();
        reply.ok();
    }

    fn ioctl(
        &self,
        _: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        _cmd: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        let _turn = self.takers.take();
        reply.error(Errno::ENOTTY);
    }

    fn fallocate(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let _turn = self.takers.take();
        finish(data::allocate(&self.volume, req, ino, (offset, length), mode), reply);
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
        let _turn = self.takers.take();
        // What the kernel has gathered and not written yet would be taken for a hole: so it is told
        // that nobody knows, and takes all for data.
        if self.writeback {
            return reply.error(Errno::ENOSYS);
        }
        match kernel::sought(offset, whence) {
            Ok(asked) => holes::answer(&self.volume, ino, asked, reply),
            Err(error) => reply.error(error),
        }
    }

    fn copy_file_range(
        &self,
        req: &Request,
        ino_in: INodeNo,
        _fh_in: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        _fh_out: FileHandle,
        offset_out: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let _turn = self.takers.take();
        let (from, to) = ((ino_in, offset_in), (ino_out, offset_out));
        match data::copy(&self.volume, req, from, to, len) {
            Ok(bytes) => reply.written(bytes),
            Err(error) => reply.error(error),
        }
    }
}
