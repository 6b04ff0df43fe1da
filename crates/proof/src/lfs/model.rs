//! The reference model of a file system that knows fsync: files by their paths, what each holds now,
//! and what of it is durable. It shares no code with any file system.
//!
//! Durable is the last state that all of was made durable (a *checkpoint*), and over it, in order, each
//! file that was synced since: what it is now, under the name it has now. After a cut the volume holds
//! that; of the operation that was cut all or nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::step::{FsAction, Path};

/// Number of an object, the model's own.
pub type Id = u32;
/// The root directory.
pub const ROOT: Id = 0;
/// Bytes of a symlink's target at most, and of an attribute's value.
pub const LONGEST: u32 = 3_800;

/// What an object is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// Names and what they name.
    Dir(BTreeMap<u8, Id>),
    /// Contents.
    File(Arc<Vec<u8>>),
    /// A target of so many bytes.
    Symlink(u32),
}

/// One object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// What it is.
    pub body: Body,
    /// Names that name it; of a directory two and its directories.
    pub links: u32,
    /// Permissions.
    pub mode: u32,
    /// By number: version and length of the value.
    pub xattrs: BTreeMap<u8, (u32, u32)>,
}

/// Why the model refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Refusal {
    NotFound,
    Exists,
    NotDirectory,
    IsDirectory,
    NotEmpty,
    Invalid,
}

/// All objects. Cheap to copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    nodes: BTreeMap<Id, Arc<Node>>,
    next: Id,
}

/// The byte at `at` of what write `version` wrote.
pub fn fill(version: u32, at: u64, out: &mut [u8]) {
    // A word for each 8 bytes of the file: place and version, so that no two writes look alike.
    let word = |n: u64| {
        let word = (u64::from(version) << 32 | n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (word | 0x0101_0101_0101_0101).to_le_bytes()
    };
    let (first, rest) =
        out.split_at_mut((at.next_multiple_of(8) - at).min(out.len() as u64) as usize);
    let skip = (at & 7) as usize;
    first.copy_from_slice(&word(at >> 3)[skip..skip + first.len()]);
    for (bytes, n) in rest.chunks_mut(8).zip(at.div_ceil(8)..) {
        bytes.copy_from_slice(&word(n)[..bytes.len()]);
    }
}

impl Default for Tree {
    /// An empty root.
    fn default() -> Tree {
        let body = Body::Dir(BTreeMap::new());
        let root = Node { body, links: 2, mode: 0o755, xattrs: BTreeMap::new() };
        Tree { nodes: BTreeMap::from([(ROOT, Arc::new(root))]), next: ROOT + 1 }
    }
}

impl Tree {
    /// An object.
    pub fn node(&self, id: Id) -> &Node {
        &self.nodes[&id]
    }

    fn edit(&mut self, id: Id) -> &mut Node {
        Arc::make_mut(self.nodes.get_mut(&id).expect("an object of the tree"))
    }

    fn names(&self, id: Id) -> Option<&BTreeMap<u8, Id>> {
        match &self.nodes[&id].body {
            Body::Dir(names) => Some(names),
            _ => None,
        }
    }

    fn names_mut(&mut self, id: Id) -> &mut BTreeMap<u8, Id> {
        match &mut self.edit(id).body {
            Body::Dir(names) => names,
            other => panic!("{other:?} is no directory"),
        }
    }

    /// What a path names.
    pub fn find(&self, path: Path) -> Result<Id, Refusal> {
        path.names().try_fold(ROOT, |dir, name| {
            let names = self.names(dir).ok_or(Refusal::NotDirectory)?;
            names.get(&name).copied().ok_or(Refusal::NotFound)
        })
    }

    /// The directory of a path, and the name in it.
    fn place(&self, path: Path) -> Result<(Id, u8), Refusal> {
        let (dir, name) = path.split().ok_or(Refusal::Invalid)?;
        let dir = self.find(dir)?;
        self.names(dir).ok_or(Refusal::NotDirectory)?;
        Ok((dir, name))
    }

    /// Where an object with one name has it.
    fn place_of(&self, id: Id) -> Option<(Id, u8)> {
        self.nodes.iter().find_map(|(dir, node)| {
            let Body::Dir(names) = &node.body else { return None };
            names.iter().find(|(_, named)| **named == id).map(|(name, _)| (*dir, *name))
        })
    }

    fn free_place(&self, path: Path) -> Result<(Id, u8), Refusal> {
        let (dir, name) = self.place(path)?;
        let taken = self.names(dir).is_some_and(|names| names.contains_key(&name));
        if taken { Err(Refusal::Exists) } else { Ok((dir, name)) }
    }

    pub(super) fn file(&self, path: Path) -> Result<(Id, &Arc<Vec<u8>>), Refusal> {
        let id = self.find(path)?;
        match &self.nodes[&id].body {
            Body::File(bytes) => Ok((id, bytes)),
            Body::Dir(_) => Err(Refusal::IsDirectory),
            Body::Symlink(_) => Err(Refusal::Invalid),
        }
    }

    fn contents(&mut self, id: Id) -> &mut Vec<u8> {
        match &mut self.edit(id).body {
            Body::File(bytes) => Arc::make_mut(bytes),
            other => panic!("{other:?} is no file"),
        }
    }

    fn is_dir(&self, id: Id) -> bool {
        self.names(id).is_some()
    }

    fn is_inside(&self, dir: Id, above: Id) -> bool {
        dir == above
            || self
                .names(above)
                .is_some_and(|names| names.values().any(|id| self.is_inside(dir, *id)))
    }

    /// Paths of all objects that a path leads to, directories (the root too) and others apart.
    pub fn paths(&self) -> (Vec<Path>, Vec<Path>) {
        let (mut dirs, mut others, mut open) = (Vec::new(), Vec::new(), vec![(Path::ROOT, ROOT)]);
        while let Some((path, id)) = open.pop() {
            match self.names(id) {
                Some(names) => {
                    dirs.push(path);
                    // Renames may have led deeper than paths do.
                    let names = names.iter().filter(|_| !path.is_full());
                    open.extend(names.map(|(name, id)| (path.join(*name), *id)));
                }
                None => others.push(path),
            }
        }
        (dirs, others)
    }

    /// Number of objects.
    pub fn objects(&self) -> usize {
        self.nodes.len()
    }

    /// Bytes of a file; none of anything else.
    pub fn size(&self, path: Path) -> Option<u64> {
        self.file(path).ok().map(|(_, bytes)| bytes.len() as u64)
    }

    fn add(&mut self, path: Path, body: Body) -> Result<(), Refusal> {
        let (dir, name) = self.free_place(path)?;
        let is_dir = matches!(body, Body::Dir(_));
        let links = if is_dir { 2 } else { 1 };
        let node = Node { body, links, mode: 0o640, xattrs: BTreeMap::new() };
        self.nodes.insert(self.next, Arc::new(node));
        let id = self.next;
        self.names_mut(dir).insert(name, id);
        self.next += 1;
        if is_dir {
            self.edit(dir).links += 1;
        }
        Ok(())
    }

    /// An object has lost a name.
    fn unname(&mut self, id: Id) {
        if self.is_dir(id) {
            self.nodes.remove(&id);
            return;
        }
        self.edit(id).links -= 1;
        if self.nodes[&id].links == 0 {
            self.nodes.remove(&id);
        }
    }

    fn remove(&mut self, path: Path, dir_wanted: bool) -> Result<(), Refusal> {
        let (dir, name) = self.place(path)?;
        let id = self.find(path)?;
        match (self.names(id), dir_wanted) {
            (None, true) => return Err(Refusal::NotDirectory),
            (Some(_), false) => return Err(Refusal::IsDirectory),
            (Some(names), true) if !names.is_empty() => return Err(Refusal::NotEmpty),
            _ => {}
        }
        self.names_mut(dir).remove(&name);
        if dir_wanted {
            self.edit(dir).links -= 1;
        }
        self.unname(id);
        Ok(())
    }

    fn rename(&mut self, from: Path, to: Path) -> Result<(), Refusal> {
        let ((from_dir, from_name), id) = (self.place(from)?, self.find(from)?);
        let (to_dir, to_name) = self.place(to)?;
        let old = self.names(to_dir).and_then(|names| names.get(&to_name)).copied();
        if old == Some(id) {
            return Ok(());
        }
        let is_dir = self.is_dir(id);
        if is_dir && self.is_inside(to_dir, id) {
            return Err(Refusal::Invalid);
        }
        if let Some(old) = old {
            match (is_dir, self.names(old)) {
                (true, None) => return Err(Refusal::NotDirectory),
                (false, Some(_)) => return Err(Refusal::IsDirectory),
                (true, Some(names)) if !names.is_empty() => return Err(Refusal::NotEmpty),
                _ => {}
            }
        }
        self.names_mut(from_dir).remove(&from_name);
        self.names_mut(to_dir).insert(to_name, id);
        if is_dir {
            self.edit(from_dir).links -= 1;
            self.edit(to_dir).links += u32::from(old.is_none());
        }
        if let Some(old) = old {
            self.unname(old);
        }
        Ok(())
    }

    fn exchange(&mut self, one: Path, other: Path) -> Result<(), Refusal> {
        let ((a_dir, a_name), a) = (self.place(one)?, self.find(one)?);
        let ((b_dir, b_name), b) = (self.place(other)?, self.find(other)?);
        for (id, to) in [(a, b_dir), (b, a_dir)] {
            if a != b && self.is_dir(id) && self.is_inside(to, id) {
                return Err(Refusal::Invalid);
            }
        }
        self.names_mut(a_dir).insert(a_name, b);
        self.names_mut(b_dir).insert(b_name, a);
        for (id, from, to) in [(a, a_dir, b_dir), (b, b_dir, a_dir)] {
            if self.is_dir(id) && a != b {
                self.edit(from).links -= 1;
                self.edit(to).links += 1;
            }
        }
        Ok(())
    }

    fn write(&mut self, path: Path, at: u64, len: u32, version: u32) -> Result<(), Refusal> {
        let id = self.file(path)?.0;
        let (from, to) = (at as usize, at as usize + len as usize);
        let bytes = self.contents(id);
        bytes.resize(bytes.len().max(to), 0);
        fill(version, at, &mut bytes[from..to]);
        Ok(())
    }

    /// Does an operation; `version` tells what it writes from what others write.
    ///
    /// # Errors
    /// Why it cannot be done.
    pub fn apply(&mut self, action: FsAction, version: u32) -> Result<(), Refusal> {
        match action {
            FsAction::Create(path) => self.add(path, Body::File(Arc::default())),
            FsAction::Mkdir(path) => self.add(path, Body::Dir(BTreeMap::new())),
            FsAction::Symlink(path, len) => self.add(path, Body::Symlink(len.clamp(1, LONGEST))),
            FsAction::Link(from, to) => {
                let id = self.find(from)?;
                let (dir, name) = self.free_place(to)?;
                if self.is_dir(id) {
                    return Err(Refusal::IsDirectory);
                }
                self.names_mut(dir).insert(name, id);
                self.edit(id).links += 1;
                Ok(())
            }
            FsAction::Unlink(path) => self.remove(path, false),
            FsAction::Rmdir(path) => self.remove(path, true),
            FsAction::Rename(from, to) => self.rename(from, to),
            FsAction::Exchange(one, other) => self.exchange(one, other),
            FsAction::Write(path, at, len) => self.write(path, u64::from(at), len, version),
            FsAction::Append(path, len) => {
                let at = self.file(path)?.1.len() as u64;
                self.write(path, at, len, version)
            }
            FsAction::Truncate(path, size) => {
                let id = self.file(path)?.0;
                self.contents(id).resize(size as usize, 0);
                Ok(())
            }
            FsAction::Punch(path, at, len) => {
                let id = self.file(path)?.0;
                let bytes = self.contents(id);
                let end = (at as usize + len as usize).min(bytes.len());
                if (at as usize) < end {
                    bytes[at as usize..end].fill(0);
                }
                Ok(())
            }
            FsAction::Allocate(path, at, len, keep) => {
                let (id, bytes) = self.file(path)?;
                let end = at as usize + len as usize;
                if !keep && end > bytes.len() {
                    self.contents(id).resize(end, 0);
                }
                Ok(())
            }
            FsAction::SetXattr(path, name, len) => {
                let id = self.find(path)?;
                self.edit(id).xattrs.insert(name, (version, len.min(LONGEST)));
                Ok(())
            }
            FsAction::DropXattr(path, name) => {
                let id = self.find(path)?;
                self.edit(id).xattrs.remove(&name).map(drop).ok_or(Refusal::NotFound)
            }
            FsAction::Chmod(path, mode) => {
                let id = self.find(path)?;
                self.edit(id).mode = mode & 0o777;
                Ok(())
            }
            FsAction::Fsync(path) => self.find(path).map(drop),
            FsAction::Sync
            | FsAction::Ask(_)
            | FsAction::Peek(_)
            | FsAction::Round
            | FsAction::Clean(_)
            | FsAction::Background(_)
            | FsAction::Remount
            | FsAction::Look => Ok(()),
        }
    }

    /// Whether a path leads to a regular file of one name: others are synced by a checkpoint.
    pub fn is_single_file(&self, path: Path) -> bool {
        self.find(path).is_ok_and(|id| self.is_single(id))
    }

    /// The same of an object, wherever it is.
    pub fn is_single(&self, id: Id) -> bool {
        let node = self.nodes.get(&id);
        node.is_some_and(|node| matches!(node.body, Body::File(_)) && node.links == 1)
    }

    /// Whether that file of `now` may be made durable beside this durable state alone: it is there,
    /// or the directory that it was made in is.
    pub fn can_sync(&self, now: &Tree, path: Path) -> bool {
        let known = |id: &Id| self.nodes.contains_key(id);
        let id = now.find(path).ok().filter(|_| now.is_single_file(path));
        let place = now.place(path).ok();
        id.is_some_and(|id| known(&id) || place.is_some_and(|(dir, _)| known(&dir)))
    }

    /// This durable state with one file of `now` as it is there, under the name it has there: what
    /// makes room for it under that name goes.
    pub fn with_synced(&self, now: &Tree, path: Path) -> Tree {
        match now.find(path) {
            Ok(id) => self.with_synced_id(now, id),
            Err(_) => Tree { next: now.next, ..self.clone() },
        }
    }

    /// Whether an object is there as it is in another state.
    pub fn has(&self, other: &Tree, id: Id) -> bool {
        self.nodes.get(&id).is_some_and(|node| Some(node) == other.nodes.get(&id))
    }

    /// The same with an object, wherever it is.
    pub fn with_synced_id(&self, now: &Tree, id: Id) -> Tree {
        let mut tree = Tree { next: now.next, ..self.clone() };
        let known = tree.nodes.insert(id, now.nodes[&id].clone()).is_some();
        if known {
            return tree;
        }
        let (dir, name) = now.place_of(id).expect("a file has a name");
        if let Some(old) = tree.names_mut(dir).insert(name, id) {
            tree.unname(old);
        }
        tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renames_may_lead_deeper_than_paths_do() {
        let path = |text: &str| text.parse::<Path>().expect("a path");
        let mut tree = Tree::default();
        let mut deep = Path::ROOT;
        while !deep.is_full() {
            deep = deep.join(1);
            tree.apply(FsAction::Mkdir(deep), 1).expect("a directory");
        }
        for dir in ["/b", "/b/c"] {
            tree.apply(FsAction::Mkdir(path(dir)), 1).expect("a directory");
        }
        let parent = deep.split().expect("not the root").0;
        tree.apply(FsAction::Rename(path("/b"), parent.join(2)), 1).expect("a name");
        let (dirs, _) = tree.paths();
        // That deepest directory holds one more, which no path leads to.
        assert_eq!((dirs.len(), tree.objects()), (17, 18));
    }
}
