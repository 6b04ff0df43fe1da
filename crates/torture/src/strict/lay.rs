//! The files of a state, put into a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt, fchown, lchown, symlink};
use std::path::{Path, PathBuf};

use stack::datalog::{Op, SECTOR};
use stack::disk::{Disk, Done};

use super::names::{Object, names_of, rights_of, size_of};
use super::{PAGE, ROOT, Rights, What};
use crate::history::History;

/// What each block of a log is.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Blocks(BTreeMap<u64, What>);

impl Blocks {
    /// Of a log.
    pub fn of(history: &History) -> Blocks {
        let marks = history.records().iter().filter(|record| record.op == Op::Mark && record.ours);
        Blocks(marks.filter_map(|record| What::of(history.log().text(record))).collect())
    }

    /// What a block is.
    pub fn what(&self, block: u64) -> Option<What> {
        self.0.get(&block).copied()
    }
}

/// What blocks of a state are, in words: a page or the size of a file by its path, a change of names by the names.
pub fn told(history: &History, sectors: &[u32], blocks: &[u64]) -> Vec<String> {
    let all = Blocks::of(history);
    let bytes = |block: u64| -> Vec<u8> {
        let first = (block * PAGE / SECTOR) as usize;
        let sector =
            |source: &u32| history.sector(*source).map_or([0; 512].to_vec(), <[u8]>::to_vec);
        sectors[first..first + (PAGE / SECTOR) as usize].iter().flat_map(sector).collect()
    };
    let changes = |block: u64| names_of(&bytes(block)).unwrap_or_default();
    // The last name of each node, gone or not.
    let mut names: BTreeMap<u64, (u64, OsString)> = BTreeMap::new();
    for block in all.0.iter().filter(|(_, what)| **what == What::Names).map(|(block, _)| *block) {
        for change in changes(block) {
            if let Some(object) = change.object {
                names.insert(object.node(), (change.folder, change.name));
            }
        }
    }
    let path = |mut node: u64| {
        let mut path = String::new();
        while let Some((folder, name)) = names.get(&node).filter(|_| path.len() < 4096) {
            path = format!("/{}{path}", name.to_string_lossy());
            node = *folder;
        }
        path
    };
    let one = |block: &u64| match all.what(*block) {
        None => format!("block {block}"),
        Some(What::Page(node, page)) => format!("page {page} of {}", path(node)),
        Some(What::Size(node)) => format!("the size of {}", path(node)),
        Some(What::Rights(ROOT)) => "mode and owner of /".to_string(),
        Some(What::Rights(node)) => format!("mode and owner of {}", path(node)),
        Some(What::Names) => {
            let told = changes(*block).into_iter().map(|change| {
                let sign = if change.object.is_some() { '+' } else { '-' };
                format!("{sign}{}/{}", path(change.folder), change.name.to_string_lossy())
            });
            format!("names: {}", told.collect::<Vec<_>>().join(" "))
        }
    };
    blocks.iter().map(one).collect()
}

type Names = BTreeMap<u64, BTreeMap<OsString, Object>>;

/// What a drive holds.
struct Laying<'a> {
    disk: &'a dyn Disk,
    names: Names,
    sizes: BTreeMap<u64, (u64, Rights)>,
    rights: BTreeMap<u64, Rights>,
    pages: BTreeMap<u64, Vec<(u64, u64)>>,
    /// Files that have a name already.
    files: BTreeMap<u64, PathBuf>,
    folders: BTreeSet<u64>,
}

fn block(disk: &dyn Disk, number: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; PAGE as usize];
    disk.read(number * PAGE, &mut bytes).and_then(Done::wait).map_err(io::Error::other)?;
    Ok(bytes)
}

/// Puts the files of the drive into a folder, which is empty.
///
/// # Errors
/// The system's, or the drive's.
pub fn lay(disk: &dyn Disk, blocks: &Blocks, root: &Path) -> io::Result<()> {
    let mut laying = Laying {
        disk,
        names: Names::new(),
        sizes: BTreeMap::new(),
        rights: BTreeMap::new(),
        pages: BTreeMap::new(),
        files: BTreeMap::new(),
        folders: BTreeSet::new(),
    };
    // Changes of names in the order in which they were made: their blocks have it.
    for (number, what) in &blocks.0 {
        match what {
            What::Page(node, page) => {
                laying.pages.entry(*node).or_default().push((*page, *number));
            }
            What::Size(node) => {
                let size = size_of(&block(disk, *number)?);
                laying.sizes.extend(size.map(|size| (*node, size)));
            }
            What::Rights(node) => {
                let rights = rights_of(&block(disk, *number)?);
                laying.rights.extend(rights.map(|rights| (*node, rights)));
            }
            What::Names => {
                for change in names_of(&block(disk, *number)?).unwrap_or_default() {
                    let names = laying.names.entry(change.folder).or_default();
                    match change.object {
                        Some(object) => names.insert(change.name, object),
                        None => names.remove(&change.name),
                    };
                }
            }
        }
    }
    laying.folder(ROOT, root)?;
    match laying.rights.get(&ROOT) {
        Some(rights) => given(*rights, root),
        None => Ok(()),
    }
}

/// A folder belongs to whom it did.
fn given(rights: Rights, path: &Path) -> io::Result<()> {
    owned(rights, path, |uid, gid| lchown(path, uid, gid))?;
    fs::set_permissions(path, Permissions::from_mode(rights.mode))
}

/// Gives it to who is not us.
fn owned(
    rights: Rights,
    path: &Path,
    give: impl FnOnce(Option<u32>, Option<u32>) -> io::Result<()>,
) -> io::Result<()> {
    if (rights.uid, rights.gid) == (None, None) {
        return Ok(());
    }
    let number = |id: Option<u32>| id.map_or_else(String::new, |id| id.to_string());
    give(rights.uid, rights.gid).map_err(|error| {
        let (uid, gid) = (number(rights.uid), number(rights.gid));
        let what = format!("{}: chown {uid}:{gid}: {error}", path.display());
        io::Error::new(error.kind(), what)
    })
}

impl Laying<'_> {
    fn folder(&mut self, node: u64, place: &Path) -> io::Result<()> {
        // Lost halves of renames could give one folder two names; it has the first.
        if !self.folders.insert(node) {
            return Ok(());
        }
        for (name, object) in self.names.remove(&node).unwrap_or_default() {
            let path = place.join(name);
            match object {
                Object::File(node, made) => self.file(node, made, &path)?,
                Object::Link(node, made, to) => {
                    symlink(to, &path)?;
                    let rights = self.rights.get(&node).copied().unwrap_or(made);
                    owned(rights, &path, |uid, gid| lchown(&path, uid, gid))?;
                }
                Object::Folder(node, _) if self.folders.contains(&node) => {}
                Object::Folder(node, made) => {
                    fs::create_dir(&path)?;
                    self.folder(node, &path)?;
                    given(self.rights.get(&node).copied().unwrap_or(made), &path)?;
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, node: u64, made: Rights, path: &Path) -> io::Result<()> {
        if let Some(first) = self.files.get(&node) {
            return fs::hard_link(first, path);
        }
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let (size, rights) = self.sizes.get(&node).copied().unwrap_or((0, made));
        file.set_len(size)?;
        for (page, number) in self.pages.get(&node).into_iter().flatten() {
            let at = page * PAGE;
            if at < size {
                let bytes = block(self.disk, *number)?;
                if bytes.iter().any(|byte| *byte != 0) {
                    file.write_all_at(&bytes[..(size - at).min(PAGE) as usize], at)?;
                }
            }
        }
        // A mode after the owner: a change of that takes bits of it away.
        owned(rights, path, |uid, gid| fchown(&file, uid, gid))?;
        file.set_permissions(Permissions::from_mode(rights.mode))?;
        self.files.insert(node, path.to_path_buf());
        Ok(())
    }
}
