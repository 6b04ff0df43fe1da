//! The files of a folder, as a program sees them: what a promise was made over, and what a state has of it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use serde_json::{Map, Value, json};

/// Files and folders of a tree at most.
const MOST: usize = 4096;
/// Bytes of contents at most.
const BYTES: u64 = 32 << 20;

/// A file or a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A folder.
    Folder,
    /// A file: its size and CRC32C.
    File(u64, u32),
    /// A symbolic link: where to.
    Link(String),
    /// Something else: a socket, a pipe, a device.
    Other,
}

/// All below a folder; names begin with `/`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Tree(pub BTreeMap<String, Entry>);

impl Tree {
    /// Looks at a folder.
    ///
    /// # Errors
    /// Why it is not looked at: a text for people.
    pub fn walk(root: &Path) -> Result<Tree, String> {
        let (mut tree, mut bytes) = (Tree::default(), 0);
        let mut folders = vec![String::new()];
        while let Some(name) = folders.pop() {
            let path = root.join(name.trim_start_matches('/'));
            let failed = |error: std::io::Error| format!("{name}/: {error}");
            for entry in fs::read_dir(&path).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let name = format!("{name}/{}", entry.file_name().to_string_lossy());
                let Ok(kind) = entry.file_type() else { continue };
                let found = if kind.is_dir() {
                    folders.push(name.clone());
                    Entry::Folder
                } else if kind.is_symlink() {
                    let to = fs::read_link(entry.path()).unwrap_or_default();
                    Entry::Link(to.to_string_lossy().into_owned())
                } else if kind.is_socket() || kind.is_fifo() || !kind.is_file() {
                    Entry::Other
                } else {
                    match content(&entry.path(), &mut bytes) {
                        Some(found) => found,
                        // Somebody took it away meanwhile.
                        None => continue,
                    }
                };
                tree.0.insert(name, found);
                if tree.0.len() > MOST || bytes > BYTES {
                    return Err(format!("more than {MOST} files or {BYTES} bytes"));
                }
            }
        }
        Ok(tree)
    }

    /// As a document.
    pub fn document(&self) -> Value {
        let entry = |entry: &Entry| match entry {
            Entry::Folder => json!("folder"),
            Entry::Other => json!("other"),
            Entry::Link(to) => json!({ "link": to }),
            Entry::File(size, sum) => json!([size, sum]),
        };
        Value::Object(self.0.iter().map(|(name, found)| (name.clone(), entry(found))).collect())
    }

    /// Of a document of ours.
    pub fn of(document: &Value) -> Option<Tree> {
        let entry = |value: &Value| match value {
            Value::String(kind) if kind == "folder" => Some(Entry::Folder),
            Value::String(_) => Some(Entry::Other),
            Value::Object(map) => Some(Entry::Link(map.get("link")?.as_str()?.to_string())),
            Value::Array(pair) => {
                let sum = u32::try_from(pair.get(1)?.as_u64()?).ok()?;
                Some(Entry::File(pair.first()?.as_u64()?, sum))
            }
            _ => None,
        };
        let map: &Map<String, Value> = document.as_object()?;
        map.iter()
            .map(|(name, value)| Some((name.clone(), entry(value)?)))
            .collect::<Option<_>>()
            .map(Tree)
    }
}

fn content(path: &Path, bytes: &mut u64) -> Option<Entry> {
    let mut file = fs::File::open(path).ok()?;
    let (mut size, mut sum, mut piece) = (0, 0, vec![0; 64 << 10]);
    loop {
        let count = file.read(&mut piece).ok()?;
        if count == 0 {
            return Some(Entry::File(size, sum));
        }
        sum = block::crc32c(sum, &piece[..count]);
        size += count as u64;
        *bytes += count as u64;
        if *bytes > BYTES {
            return Some(Entry::File(size, sum));
        }
    }
}

/// One thing that a state has not as it was promised.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Difference {
    /// A name that is not in its folder.
    Missing(String),
    /// A name that is in its folder, and should not be.
    Extra(String),
    /// A file whose content is another.
    Content(String),
}

impl Difference {
    /// In words.
    pub fn words(&self) -> String {
        match self {
            Difference::Missing(name) => format!("{name} is not there"),
            Difference::Extra(name) => format!("{name} is still there"),
            Difference::Content(name) => format!("{name} has other content"),
        }
    }

    /// What was not made durable: a folder for names, a file for content.
    fn object(&self) -> Object {
        match self {
            Difference::Missing(name) | Difference::Extra(name) => {
                let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
                Object::Folder(if folder.is_empty() { "/".to_string() } else { folder.to_string() })
            }
            Difference::Content(name) => Object::File(name.clone()),
        }
    }
}

/// What an fsync would have been for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Object {
    /// A folder.
    Folder(String),
    /// A file.
    File(String),
}

impl Object {
    /// In words.
    pub fn words(&self) -> String {
        match self {
            Object::Folder(name) => format!("the folder {name}"),
            Object::File(name) => format!("the file {name}"),
        }
    }
}

/// What a state has not as it was promised; what lies in a folder that is missing is not named as well.
pub fn differences(promised: &Tree, found: &Tree) -> Vec<Difference> {
    let mut all = Vec::new();
    let under = |names: &[String], name: &str| {
        names
            .iter()
            .any(|top| name.strip_prefix(top.as_str()).is_some_and(|rest| rest.starts_with('/')))
    };
    let (mut missing, mut extra) = (Vec::new(), Vec::new());
    for (name, entry) in &promised.0 {
        match found.0.get(name) {
            Some(other) if other == entry => {}
            Some(Entry::File(..)) if matches!(entry, Entry::File(..)) => {
                all.push(Difference::Content(name.clone()));
            }
            _ if under(&missing, name) => {}
            _ => {
                missing.push(name.clone());
                all.push(Difference::Missing(name.clone()));
            }
        }
    }
    for name in found.0.keys().filter(|name| !promised.0.contains_key(*name)) {
        if !under(&extra, name) {
            extra.push(name.clone());
            all.push(Difference::Extra(name.clone()));
        }
    }
    all
}

/// What was not made durable, if that is one folder or one file. A name that is one in a folder explains a
/// file of that name whose content is another: an old file may still be there under it.
pub fn guess(differences: &[Difference]) -> Option<Object> {
    let mut objects: Vec<Object> = differences.iter().map(Difference::object).collect();
    objects.sort();
    objects.dedup();
    match &objects[..] {
        [one] => Some(one.clone()),
        // Names of a folder, and files in it that were replaced.
        [Object::Folder(folder), rest @ ..] => {
            let inside = |object: &Object| match object {
                Object::File(name) => {
                    name.rsplit_once('/').is_some_and(|(of, _)| of == folder.trim_end_matches('/'))
                }
                Object::Folder(_) => false,
            };
            rest.iter().all(inside).then(|| Object::Folder(folder.clone()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(entries: &[(&str, Entry)]) -> Tree {
        Tree(entries.iter().map(|(name, entry)| (name.to_string(), entry.clone())).collect())
    }

    #[test]
    fn a_rename_that_was_lost_is_one_folder() {
        let promised = tree(&[("/d", Entry::Folder), ("/d/k", Entry::File(4, 9))]);
        let found = tree(&[("/d", Entry::Folder), ("/d/k.new", Entry::File(4, 9))]);
        let all = differences(&promised, &found);
        assert_eq!(all, [Difference::Missing("/d/k".into()), Difference::Extra("/d/k.new".into())]);
        assert_eq!(guess(&all), Some(Object::Folder("/d".into())));
        let replaced = tree(&[
            ("/d", Entry::Folder),
            ("/d/k", Entry::File(3, 1)),
            ("/d/k.new", Entry::File(4, 9)),
        ]);
        assert_eq!(guess(&differences(&promised, &replaced)), Some(Object::Folder("/d".into())));
    }

    #[test]
    fn a_file_alone_is_a_file_and_two_places_are_no_guess() {
        let promised = tree(&[("/a", Entry::File(4, 9)), ("/b/c", Entry::File(1, 1))]);
        let found = tree(&[("/a", Entry::File(0, 0)), ("/b/c", Entry::File(1, 1))]);
        assert_eq!(guess(&differences(&promised, &found)), Some(Object::File("/a".into())));
        let found = tree(&[("/a", Entry::File(0, 0))]);
        assert_eq!(guess(&differences(&promised, &found)), None);
        assert_eq!(guess(&[]), None);
    }

    #[test]
    fn a_folder_that_is_missing_stands_for_what_is_in_it() {
        let promised = tree(&[("/d", Entry::Folder), ("/d/k", Entry::File(4, 9))]);
        assert_eq!(differences(&promised, &Tree::default()), [Difference::Missing("/d".into())]);
        assert_eq!(Tree::of(&promised.document()), Some(promised));
    }
}
