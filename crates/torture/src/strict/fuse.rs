//! The volume as the kernel asks for it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, SessionACL, TimeOrNow, WriteFlags,
};

use super::PAGE;
use super::volume::{File, Kind, Volume, Why};
use super::{Change, Rights};

/// How long the kernel believes what it was told: there is nobody else who changes anything, but links are counted.
const TTL: Duration = Duration::ZERO;

/// Of a mode: a folder hands its group down.
const SET_GROUP: u32 = 0o2000;

/// A mounted volume.
#[derive(Debug)]
pub struct Session {
    session: BackgroundSession,
    dir: std::path::PathBuf,
}

/// Mounts a volume.
///
/// # Errors
/// The system's.
pub fn mount(volume: Arc<Mutex<Volume>>, dir: &Path) -> io::Result<Session> {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("varve-strict".to_string()),
        MountOption::DefaultPermissions,
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoAtime,
    ];
    let root = rustix::process::geteuid().is_root();
    // Recipes start servers as another user.
    config.acl = if root { SessionACL::All } else { SessionACL::Owner };
    let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let files = Files { volume, owner, listed: Mutex::default() };
    let session = fuser::spawn_mount(files, dir, &config)?;
    Ok(Session { session, dir: dir.to_path_buf() })
}

impl Session {
    /// Unmounts it; false while somebody uses it.
    ///
    /// # Errors
    /// The system's.
    pub fn unmount(&self) -> io::Result<bool> {
        serve::fuse::unmount(&self.dir).map_err(io::Error::other)
    }

    /// Ends it, when it is unmounted.
    ///
    /// # Errors
    /// The system's.
    pub fn end(self) -> io::Result<()> {
        self.session.join()
    }
}

fn now() -> SystemTime {
    let wall = serve::mount::wall();
    SystemTime::UNIX_EPOCH + Duration::new(wall.seconds, wall.nanos)
}

/// Folders as they were when they were opened, by handle; the last handle.
type Listed = (u64, BTreeMap<u64, Vec<(u64, FileType, OsString)>>);

struct Files {
    volume: Arc<Mutex<Volume>>,
    owner: (u32, u32),
    listed: Mutex<Listed>,
}

fn errno(why: Why) -> Errno {
    Errno::from_i32(why.raw_os_error())
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

fn type_of(kind: &Kind) -> FileType {
    match kind {
        Kind::File(_) => FileType::RegularFile,
        Kind::Folder(_) => FileType::Directory,
        Kind::Link(_) => FileType::Symlink,
    }
}

impl Files {
    fn attributes(&self, volume: &Volume, ino: u64) -> Result<FileAttr, Why> {
        let node = volume.node(ino)?;
        let size = match &node.kind {
            Kind::File(file) => file.size,
            Kind::Folder(_) => PAGE,
            Kind::Link(to) => to.len() as u64,
        };
        Ok(FileAttr {
            ino: INodeNo(ino),
            size,
            blocks: size.div_ceil(512),
            atime: node.changed,
            mtime: node.changed,
            ctime: node.changed,
            crtime: node.changed,
            kind: type_of(&node.kind),
            perm: node.rights.mode as u16,
            nlink: node.links,
            uid: node.rights.uid.unwrap_or(self.owner.0),
            gid: node.rights.gid.unwrap_or(self.owner.1),
            rdev: 0,
            blksize: PAGE as u32,
            flags: 0,
        })
    }

    /// Whoever asks for it, if that is another than us.
    fn other(&self, uid: u32, gid: u32) -> (Option<u32>, Option<u32>) {
        (Some(uid).filter(|uid| *uid != self.owner.0), Some(gid).filter(|gid| *gid != self.owner.1))
    }

    fn made(
        &self,
        asked: &Request,
        (parent, name): (INodeNo, &OsStr),
        kind: Kind,
        mode: u32,
    ) -> Result<FileAttr, Why> {
        let mut volume = held(&self.volume);
        let (uid, mut gid) = self.other(asked.uid(), asked.gid());
        let (mut mode, above) = (mode & 0o7777, volume.node(parent.0)?.rights);
        // What is made in a folder with this bit has its group.
        if above.mode & SET_GROUP != 0 {
            gid = above.gid;
            mode |= if matches!(kind, Kind::Folder(_)) { SET_GROUP } else { 0 };
        }
        let node = volume.make((parent.0, name), kind, Rights { mode, uid, gid }, now())?;
        self.attributes(&volume, node)
    }

    fn done(&self, reply: ReplyEmpty, work: impl FnOnce(&mut Volume) -> Result<(), Why>) {
        match work(&mut held(&self.volume)) {
            Ok(()) => reply.ok(),
            Err(why) => reply.error(errno(why)),
        }
    }
}

fn entry(reply: ReplyEntry, found: Result<FileAttr, Why>) {
    match found {
        Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
        Err(why) => reply.error(errno(why)),
    }
}

impl Filesystem for Files {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let volume = held(&self.volume);
        let node = volume.names(parent.0).and_then(|n| n.get(name).copied().ok_or(Why::NOENT));
        entry(reply, node.and_then(|node| self.attributes(&volume, node)));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(&held(&self.volume), ino.0) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(why) => reply.error(errno(why)),
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
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut volume = held(&self.volume);
        let mut set = || -> Result<FileAttr, Why> {
            let change = Change {
                mode: mode.map(|mode| mode & 0o7777),
                uid: uid.map(|uid| self.other(uid, 0).0),
                gid: gid.map(|gid| self.other(0, gid).1),
            };
            if change != Change::default() {
                volume.allow(ino.0, change)?;
            }
            if let Some(size) = size {
                volume.resize(ino.0, size)?;
                volume.touch(ino.0, now())?;
            }
            match mtime {
                Some(TimeOrNow::SpecificTime(time)) => volume.touch(ino.0, time)?,
                Some(TimeOrNow::Now) => volume.touch(ino.0, now())?,
                None => {}
            }
            self.attributes(&volume, ino.0)
        };
        match set() {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(why) => reply.error(errno(why)),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match held(&self.volume).node(ino.0).map(|node| &node.kind) {
            Ok(Kind::Link(to)) => reply.data(to.as_bytes()),
            Ok(_) => reply.error(Errno::EINVAL),
            Err(why) => reply.error(errno(why)),
        }
    }

    fn mknod(
        &self,
        asked: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        // Sockets and pipes are no files that could be lost.
        if mode & 0o170_000 != 0o100_000 {
            return reply.error(Errno::EPERM);
        }
        let kind = Kind::File(File::default());
        entry(reply, self.made(asked, (parent, name), kind, mode & !umask));
    }

    fn mkdir(
        &self,
        asked: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let kind = Kind::Folder(BTreeMap::new());
        entry(reply, self.made(asked, (parent, name), kind, mode & !umask));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.done(reply, |volume| volume.remove(parent.0, name, false));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.done(reply, |volume| volume.remove(parent.0, name, true));
    }

    fn symlink(
        &self,
        asked: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        entry(reply, self.made(asked, (parent, name), Kind::Link(target.into()), 0o777));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.done(reply, |volume| {
            if flags.contains(RenameFlags::RENAME_NOREPLACE)
                && volume.names(newparent.0)?.contains_key(newname)
            {
                return Err(Why::EXIST);
            }
            if flags.contains(RenameFlags::RENAME_EXCHANGE) {
                return Err(Why::INVAL);
            }
            volume.rename((parent.0, name), (newparent.0, newname))
        });
    }

    fn link(
        &self,
        _: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let mut volume = held(&self.volume);
        let linked = volume.link(ino.0, newparent.0, newname);
        entry(reply, linked.and_then(|()| self.attributes(&volume, ino.0)));
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match held(&self.volume).read(ino.0, offset, u64::from(size)) {
            Ok(bytes) => reply.data(&bytes),
            Err(why) => reply.error(errno(why)),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut volume = held(&self.volume);
        let written = volume.write(ino.0, offset, data);
        match written.and_then(|()| volume.touch(ino.0, now())) {
            Ok(()) => reply.written(data.len() as u32),
            Err(why) => reply.error(errno(why)),
        }
    }

    /// `close`: says nothing about what is durable.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.done(reply, |volume| volume.sync(ino.0));
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.done(reply, |volume| volume.sync(ino.0));
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let volume = held(&self.volume);
        let names = match volume.names(ino.0) {
            Ok(names) => names,
            Err(why) => return reply.error(errno(why)),
        };
        let own = [".", ".."].map(|name| (ino.0, FileType::Directory, OsString::from(name)));
        let one = |(name, node): (&OsString, &u64)| {
            let kind = volume.node(*node).map_or(FileType::RegularFile, |node| type_of(&node.kind));
            (*node, kind, name.clone())
        };
        let all = own.into_iter().chain(names.iter().map(one)).collect();
        let mut listed = held(&self.listed);
        listed.0 += 1;
        let handle = listed.0;
        listed.1.insert(handle, all);
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = held(&self.listed);
        let all = listed.1.get(&fh.0).into_iter().flatten();
        for (i, (node, kind, name)) in all.enumerate().skip(offset as usize) {
            if reply.add(INodeNo(*node), i as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        held(&self.listed).1.remove(&fh.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let (all, used) = held(&self.volume).room();
        let free = all.saturating_sub(used);
        reply.statfs(all, free, free, 1 << 20, 1 << 19, PAGE as u32, 255, PAGE as u32);
    }

    fn create(
        &self,
        asked: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let kind = Kind::File(File::default());
        match self.made(asked, (parent, name), kind, mode & !umask) {
            Ok(attributes) => {
                reply.created(&TTL, &attributes, Generation(0), FileHandle(0), FopenFlags::empty())
            }
            Err(why) => reply.error(errno(why)),
        }
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
        if mode != 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        self.done(reply, |volume| {
            let end = offset.checked_add(length).ok_or(Why::FBIG)?;
            match &volume.node(ino.0)?.kind {
                Kind::File(file) if file.size < end => volume.resize(ino.0, end),
                Kind::File(_) => Ok(()),
                _ => Err(Why::INVAL),
            }
        });
    }
}
