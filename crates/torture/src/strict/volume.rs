//! The volume that a program sees while it is recorded: files in memory, and every change told as a block.
//!
//! Invariants: what the program sees is always the newest; a block is allotted once and is one thing for ever,
//! and the log says which before the block is written; a block is pending from its write to the `fsync` that is its own.

mod durable;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use block::Plant;
use stack::disk::{Disk, Done};

use super::names::{Change, Object, What, names_block, rights_block, size_block};
use super::{PAGE, ROOT, Rights, rights};

/// Bugs that the self-test plants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// `fsync` of a file makes its name durable, as real file systems do.
    NameWithFile,
    /// `fsync` of a file forgets its size.
    SizeForgotten,
    /// `fsync` of a folder is only for the last change.
    LastName,
    /// What was behind the end of a file comes back when it grows again.
    TailComesBack,
    /// A rename makes mode and owner durable.
    RightsWithName,
}

impl Planted {
    /// All of them.
    pub const ALL: [Planted; 5] = [
        Planted::NameWithFile,
        Planted::SizeForgotten,
        Planted::LastName,
        Planted::TailComesBack,
        Planted::RightsWithName,
    ];
}

/// Why it cannot be done: a number of the system.
pub type Why = rustix::io::Errno;

/// Writes a mark of ours into the log.
pub type Note = dyn Fn(&str) -> Result<(), String> + Send + Sync;

/// A page of a file.
type Page = Box<[u8; PAGE as usize]>;

/// What a node is.
#[derive(Debug)]
pub enum Kind {
    /// A file.
    File(File),
    /// A folder: its names.
    Folder(BTreeMap<OsString, u64>),
    /// A symbolic link.
    Link(OsString),
}

/// A file.
#[derive(Debug, Default)]
pub struct File {
    /// Its bytes.
    pub size: u64,
    pages: BTreeMap<u64, Page>,
    /// Pages that were written since they were durable.
    dirty: BTreeSet<u64>,
    resized: bool,
}

/// What a number stands for.
#[derive(Debug)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Its mode and owner.
    pub rights: Rights,
    /// Those that it was made with: they are as durable as its names.
    made: Rights,
    /// Its names, and those inside that point at it.
    pub links: u32,
    /// When it was changed.
    pub changed: SystemTime,
}

/// The volume.
pub struct Volume {
    disk: Arc<dyn Disk>,
    note: Arc<Note>,
    nodes: BTreeMap<u64, Node>,
    blocks: BTreeMap<What, u64>,
    next_block: u64,
    /// Changes of names that are not durable: their block, the folders whose `fsync` makes them so, their bytes.
    pending: BTreeMap<u64, (Vec<u64>, Vec<u8>)>,
    /// Folders and links whose mode or owner is not durable.
    unowned: BTreeSet<u64>,
    bug: Plant<Planted>,
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume").field("nodes", &self.nodes.len()).finish_non_exhaustive()
    }
}

impl Volume {
    /// An empty one, told as blocks of `disk`; `note` hears what each block is.
    pub fn new(disk: Arc<dyn Disk>, note: Arc<Note>) -> Volume {
        Volume::with(disk, note, Plant::default())
    }

    #[doc(hidden)]
    pub fn with(disk: Arc<dyn Disk>, note: Arc<Note>, bug: Plant<Planted>) -> Volume {
        let root = Node {
            kind: Kind::Folder(BTreeMap::new()),
            rights: Rights::own(0o755),
            made: Rights::own(0o755),
            links: 2,
            changed: SystemTime::UNIX_EPOCH,
        };
        let nodes = BTreeMap::from([(ROOT, root)]);
        let (blocks, pending) = (BTreeMap::new(), BTreeMap::new());
        let unowned = BTreeSet::new();
        Volume { disk, note, nodes, blocks, next_block: 0, pending, unowned, bug }
    }

    /// Blocks of the drive, and those that were allotted.
    pub fn room(&self) -> (u64, u64) {
        (self.disk.capabilities().size / PAGE, self.next_block)
    }

    /// A node.
    ///
    /// # Errors
    /// The system's number.
    pub fn node(&self, node: u64) -> Result<&Node, Why> {
        self.nodes.get(&node).ok_or(Why::NOENT)
    }

    fn node_mut(&mut self, node: u64) -> Result<&mut Node, Why> {
        self.nodes.get_mut(&node).ok_or(Why::NOENT)
    }

    /// The names in a folder.
    ///
    /// # Errors
    /// The system's number.
    pub fn names(&self, folder: u64) -> Result<&BTreeMap<OsString, u64>, Why> {
        match &self.node(folder)?.kind {
            Kind::Folder(names) => Ok(names),
            _ => Err(Why::NOTDIR),
        }
    }

    fn file(&self, node: u64) -> Result<&File, Why> {
        match &self.node(node)?.kind {
            Kind::File(file) => Ok(file),
            Kind::Folder(_) => Err(Why::ISDIR),
            Kind::Link(_) => Err(Why::INVAL),
        }
    }

    fn file_mut(&mut self, node: u64) -> Result<&mut File, Why> {
        match &mut self.node_mut(node)?.kind {
            Kind::File(file) => Ok(file),
            Kind::Folder(_) => Err(Why::ISDIR),
            Kind::Link(_) => Err(Why::INVAL),
        }
    }

    /// The block of a thing, which is allotted now if it has none.
    fn allot(&mut self, what: What) -> Result<u64, Why> {
        if let Some(block) = self.blocks.get(&what) {
            return Ok(*block);
        }
        if self.next_block >= self.room().0 {
            return Err(Why::NOSPC);
        }
        let block = self.next_block;
        (self.note)(&what.text(block)).map_err(|_| Why::IO)?;
        self.next_block += 1;
        // Every change of names has one of its own.
        if what != What::Names {
            self.blocks.insert(what, block);
        }
        Ok(block)
    }

    fn put(&self, block: u64, bytes: &[u8], forced: bool) -> Result<(), Why> {
        let done = self.disk.write(block * PAGE, bytes, forced);
        done.and_then(Done::wait).map_err(|_| Why::IO)
    }

    fn put_page(&mut self, node: u64, page: u64, forced: bool) -> Result<(), Why> {
        let block = self.allot(What::Page(node, page))?;
        let file = self.file(node)?;
        match file.pages.get(&page) {
            Some(bytes) => self.put(block, &bytes[..], forced),
            None => self.put(block, &[0; PAGE as usize], forced),
        }
    }

    fn put_size(&mut self, node: u64, forced: bool) -> Result<(), Why> {
        let block = self.allot(What::Size(node))?;
        let (size, rights) = (self.file(node)?.size, self.node(node)?.rights);
        self.put(block, &size_block(size, rights), forced)
    }

    fn put_rights(&mut self, node: u64, forced: bool) -> Result<(), Why> {
        let block = self.allot(What::Rights(node))?;
        self.put(block, &rights_block(self.node(node)?.rights), forced)
    }

    /// Names change, all of them or none.
    fn change(&mut self, changes: Vec<Change>) -> Result<(), Why> {
        let bytes = names_block(&changes).ok_or(Why::NAMETOOLONG)?;
        let block = self.allot(What::Names)?;
        self.put(block, &bytes, false)?;
        let folders = changes.iter().map(|change| change.folder).collect();
        self.pending.insert(block, (folders, bytes));
        for Change { folder, name, object } in changes {
            let node = object.map(|object| object.node());
            let Kind::Folder(names) = &mut self.node_mut(folder)?.kind else {
                return Err(Why::NOTDIR);
            };
            match node {
                Some(node) => names.insert(name, node),
                None => names.remove(&name),
            };
        }
        Ok(())
    }

    fn object(&self, node: u64) -> Result<Object, Why> {
        let Node { kind, made, rights, .. } = self.node(node)?;
        let made = if self.bug.has(Planted::RightsWithName) { *rights } else { *made };
        Ok(match kind {
            Kind::File(_) => Object::File(node, made),
            Kind::Folder(_) => Object::Folder(node, made),
            Kind::Link(to) => Object::Link(node, made, to.clone()),
        })
    }

    /// Makes a file, a folder or a link: its node.
    ///
    /// # Errors
    /// The system's number.
    pub fn make(
        &mut self,
        (folder, name): (u64, &OsStr),
        kind: Kind,
        made: Rights,
        now: SystemTime,
    ) -> Result<u64, Why> {
        if self.names(folder)?.contains_key(name) {
            return Err(Why::EXIST);
        }
        let node = self.nodes.last_key_value().map_or(ROOT, |(last, _)| *last) + 1;
        let links = if matches!(kind, Kind::Folder(_)) { 2 } else { 1 };
        self.nodes.insert(node, Node { kind, rights: made, made, links, changed: now });
        let object = Some(self.object(node)?);
        self.change(vec![Change { folder, name: name.to_os_string(), object }])?;
        self.touch(folder, now)?;
        Ok(node)
    }

    /// Sets when it was changed.
    ///
    /// # Errors
    /// The system's number.
    pub fn touch(&mut self, node: u64, now: SystemTime) -> Result<(), Why> {
        self.node_mut(node)?.changed = now;
        Ok(())
    }

    /// A second name.
    ///
    /// # Errors
    /// The system's number.
    pub fn link(&mut self, node: u64, folder: u64, name: &OsStr) -> Result<(), Why> {
        if self.names(folder)?.contains_key(name) {
            return Err(Why::EXIST);
        }
        let object = match self.object(node)? {
            Object::Folder(..) => return Err(Why::PERM),
            object => Some(object),
        };
        self.change(vec![Change { folder, name: name.to_os_string(), object }])?;
        self.node_mut(node)?.links += 1;
        Ok(())
    }

    fn looked_up(&self, folder: u64, name: &OsStr) -> Result<u64, Why> {
        self.names(folder)?.get(name).copied().ok_or(Why::NOENT)
    }

    /// A name goes; `of_folder` says which kind it has to be.
    ///
    /// # Errors
    /// The system's number.
    pub fn remove(&mut self, folder: u64, name: &OsStr, of_folder: bool) -> Result<(), Why> {
        let node = self.looked_up(folder, name)?;
        match (&self.node(node)?.kind, of_folder) {
            (Kind::Folder(names), true) if !names.is_empty() => return Err(Why::NOTEMPTY),
            (Kind::Folder(_), true) => {}
            (Kind::Folder(_), false) => return Err(Why::ISDIR),
            (_, true) => return Err(Why::NOTDIR),
            (_, false) => {}
        }
        self.change(vec![Change { folder, name: name.to_os_string(), object: None }])?;
        let links = &mut self.node_mut(node)?.links;
        *links = links.saturating_sub(1);
        Ok(())
    }

    /// A name becomes another, over what has that.
    ///
    /// # Errors
    /// The system's number.
    pub fn rename(
        &mut self,
        (folder, name): (u64, &OsStr),
        (to, new): (u64, &OsStr),
    ) -> Result<(), Why> {
        let node = self.looked_up(folder, name)?;
        let over = self.names(to)?.get(new).copied();
        if over == Some(node) {
            return Ok(());
        }
        if let Some(over) = over {
            match (&self.node(node)?.kind, &self.node(over)?.kind) {
                (Kind::Folder(_), Kind::Folder(names)) if !names.is_empty() => {
                    return Err(Why::NOTEMPTY);
                }
                (Kind::Folder(_), Kind::Folder(_)) => {}
                (Kind::Folder(_), _) => return Err(Why::NOTDIR),
                (_, Kind::Folder(_)) => return Err(Why::ISDIR),
                _ => {}
            }
        }
        let gone = Change { folder, name: name.to_os_string(), object: None };
        let object = Some(self.object(node)?);
        let there = Change { folder: to, name: new.to_os_string(), object };
        self.change(vec![gone, there])?;
        if let Some(over) = over {
            let links = &mut self.node_mut(over)?.links;
            *links = links.saturating_sub(1);
        }
        Ok(())
    }

    /// Reads of a file.
    ///
    /// # Errors
    /// The system's number.
    pub fn read(&self, node: u64, at: u64, bytes: u64) -> Result<Vec<u8>, Why> {
        let file = self.file(node)?;
        let end = at.saturating_add(bytes).min(file.size);
        let mut out = Vec::with_capacity(end.saturating_sub(at) as usize);
        let mut place = at;
        while place < end {
            let inner = (place % PAGE) as usize;
            let count = (PAGE as usize - inner).min((end - place) as usize);
            match file.pages.get(&(place / PAGE)) {
                Some(page) => out.extend_from_slice(&page[inner..inner + count]),
                None => out.resize(out.len() + count, 0),
            }
            place += count as u64;
        }
        Ok(out)
    }

    /// Writes to a file.
    ///
    /// # Errors
    /// The system's number.
    pub fn write(&mut self, node: u64, at: u64, data: &[u8]) -> Result<(), Why> {
        let end = at.checked_add(data.len() as u64).ok_or(Why::FBIG)?;
        let mut place = at;
        while place < end {
            let (page, inner) = (place / PAGE, (place % PAGE) as usize);
            let count = (PAGE as usize - inner).min((end - place) as usize);
            self.allot(What::Page(node, page))?;
            let file = self.file_mut(node)?;
            let bytes = file.pages.entry(page).or_insert_with(|| Box::new([0; PAGE as usize]));
            let from = (place - at) as usize;
            bytes[inner..inner + count].copy_from_slice(&data[from..from + count]);
            file.dirty.insert(page);
            self.put_page(node, page, false)?;
            place += count as u64;
        }
        if end > self.file(node)?.size {
            self.sized(node, end)?;
        }
        Ok(())
    }

    fn sized(&mut self, node: u64, size: u64) -> Result<(), Why> {
        let file = self.file_mut(node)?;
        (file.size, file.resized) = (size, true);
        self.put_size(node, false)
    }

    /// Sets the size of a file: what is behind it is zeroes if the file grows again.
    ///
    /// # Errors
    /// The system's number.
    pub fn resize(&mut self, node: u64, size: u64) -> Result<(), Why> {
        let comes_back = self.bug.has(Planted::TailComesBack);
        let file = self.file_mut(node)?;
        if file.size == size {
            return Ok(());
        }
        let (first, inner) = (size / PAGE, (size % PAGE) as usize);
        let behind: Vec<u64> = file.pages.range(first..).map(|(page, _)| *page).collect();
        if size < file.size && !comes_back {
            for page in &behind {
                match file.pages.get_mut(page) {
                    Some(bytes) if *page == first && inner > 0 => bytes[inner..].fill(0),
                    _ => drop(file.pages.remove(page)),
                }
                file.dirty.insert(*page);
            }
            for page in behind {
                self.put_page(node, page, false)?;
            }
        }
        self.sized(node, size)
    }

    /// Changes mode or owner.
    ///
    /// # Errors
    /// The system's number.
    pub fn allow(&mut self, node: u64, change: rights::Change) -> Result<(), Why> {
        let found = self.node_mut(node)?;
        found.rights = found.rights.with(change);
        if let Kind::File(file) = &mut found.kind {
            file.resized = true;
            return self.put_size(node, false);
        }
        self.unowned.insert(node);
        self.put_rights(node, false)
    }
}
