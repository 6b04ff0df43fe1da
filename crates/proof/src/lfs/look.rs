//! Everything that a mounted volume shows, and whether it is what the model has.

use std::collections::{BTreeMap, BTreeSet};

use block::{BlockDevice, Bytes};
use lfs::format::FileType;
use lfs::{Fs, FsError, Nid, Now};

use super::model::{Body, Id, Node, ROOT, Tree, fill};
use super::step::name_bytes;

/// One object as it is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    kind: FileType,
    /// Of a directory.
    entries: Vec<(Vec<u8>, Nid)>,
    /// Of a file or symlink.
    bytes: Vec<u8>,
    links: u32,
    mode: u32,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// All objects that have a name.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Found(BTreeMap<Nid, Seen>);

impl Found {
    /// Reads everything.
    pub(super) fn read<D: BlockDevice>(fs: &mut Fs<D>, now: Now) -> Result<Found, FsError> {
        let (mut found, mut open) = (BTreeMap::new(), vec![Nid::ROOT]);
        while let Some(ino) = open.pop() {
            if found.contains_key(&ino) {
                continue;
            }
            let seen = read_one(fs, now, ino)?;
            open.extend(seen.entries.iter().map(|(_, ino)| *ino));
            found.insert(ino, seen);
        }
        Ok(Found(found))
    }

    /// A number that tells what was found.
    pub(super) fn digest(&self) -> u64 {
        let mut hash = block::EventHash::default();
        for (ino, seen) in &self.0 {
            hash.add(u64::from(ino.0) << 32 | u64::from(seen.mode) << 8 | u64::from(seen.links));
            let named = seen.entries.iter().map(|(name, ino)| (name, u64::from(ino.0)));
            let valued =
                seen.xattrs.iter().map(|(name, value)| (name, u64::from(block::crc32c(0, value))));
            for (name, number) in named.chain(valued) {
                hash.add(u64::from(block::crc32c(0, name)) << 32 ^ number);
            }
            hash.add((seen.bytes.len() as u64) << 32 | u64::from(block::crc32c(0, &seen.bytes)));
        }
        hash.value()
    }

    /// The first difference to a tree of the model; none: they are equal. `deep`: contents too.
    pub(super) fn difference(&self, tree: &Tree) -> Option<String> {
        let (mut ids, mut inos): (BTreeMap<Nid, Id>, BTreeSet<Id>) = Default::default();
        let mut open = vec![(Nid::ROOT, ROOT, String::new())];
        while let Some((ino, id, path)) = open.pop() {
            match ids.insert(ino, id) {
                Some(other) if other == id => continue,
                Some(_) => return Some(format!("{path} is another name's file")),
                None if !inos.insert(id) => {
                    return Some(format!("{path} is not the file that it was linked to"));
                }
                None => {}
            }
            let (seen, node) = (&self.0[&ino], tree.node(id));
            if let Some(text) = seen.difference(node) {
                return Some(format!("{}: {text}", if path.is_empty() { "/" } else { &path }));
            }
            let Body::Dir(names) = &node.body else { continue };
            if seen.entries.len() != names.len() {
                return Some(format!(
                    "{path}/ has {} names, not {}",
                    seen.entries.len(),
                    names.len()
                ));
            }
            for (name, id) in names {
                let bytes = name_bytes(*name);
                let path = format!("{path}/{}", char::from(b'`' + name));
                match seen.entries.iter().find(|(found, _)| *found == bytes) {
                    Some((_, ino)) => open.push((*ino, *id, path)),
                    None => return Some(format!("{path} is not there")),
                }
            }
        }
        None
    }
}

fn read_one<D: BlockDevice>(fs: &mut Fs<D>, now: Now, ino: Nid) -> Result<Seen, FsError> {
    let attributes = fs.attributes(now, ino)?;
    let mut seen = Seen {
        kind: attributes.kind,
        entries: Vec::new(),
        bytes: Vec::new(),
        links: attributes.links,
        mode: u32::from(attributes.mode) & 0o777,
        xattrs: Vec::new(),
    };
    match attributes.kind {
        FileType::Directory => {
            let entries = fs.readdir(now, ino)?.into_iter();
            let named = entries.filter(|entry| entry.name != b"." && entry.name != b"..");
            seen.entries = named.map(|entry| (entry.name, entry.ino)).collect();
        }
        FileType::File | FileType::Symlink => {
            // One more than there are.
            seen.bytes = vec![0xEE; attributes.size.0 as usize + 1];
            let there = fs.read(now, ino, Bytes(0), &mut seen.bytes)?;
            seen.bytes.truncate(there);
        }
        _ => {}
    }
    let xattrs = fs.xattrs(now, ino)?.into_iter();
    seen.xattrs = xattrs.map(|xattr| (xattr.name, xattr.value)).collect();
    seen.xattrs.sort();
    Ok(seen)
}

/// The name of an attribute.
pub(super) fn xattr_name(name: u8) -> Vec<u8> {
    vec![b'a' + name % 26]
}

/// The value of an attribute.
pub(super) fn xattr_value(version: u32, len: u32) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    fill(version, 0, &mut bytes);
    bytes
}

impl Seen {
    fn difference(&self, node: &Node) -> Option<String> {
        let kind = match &node.body {
            Body::Dir(_) => FileType::Directory,
            Body::File(_) => FileType::File,
            Body::Symlink(_) => FileType::Symlink,
        };
        if self.kind != kind {
            return Some(format!("a {:?}, not a {kind:?}", self.kind));
        }
        if (self.links, self.mode) != (node.links, node.mode) {
            let (links, mode) = (self.links, self.mode);
            let (wanted, other) = (node.links, node.mode);
            return Some(format!(
                "{links} links, mode {mode:o}, not {wanted} links, mode {other:o}"
            ));
        }
        let known = |(name, value): &(Vec<u8>, Vec<u8>)| {
            node.xattrs.iter().any(|(number, (version, len))| {
                xattr_name(*number) == *name
                    && value.len() as u32 == *len
                    && xattr_value(*version, *len) == *value
            })
        };
        if self.xattrs.len() != node.xattrs.len() || !self.xattrs.iter().all(known) {
            return Some(format!(
                "{} attributes, not the {}",
                self.xattrs.len(),
                node.xattrs.len()
            ));
        }
        match &node.body {
            Body::File(bytes) if self.bytes != **bytes => Some(differs(&self.bytes, bytes)),
            Body::Symlink(len) if self.bytes != vec![b'x'; *len as usize] => {
                Some("another target".to_string())
            }
            _ => None,
        }
    }
}

fn differs(found: &[u8], wanted: &[u8]) -> String {
    if found.len() != wanted.len() {
        return format!("{} bytes, not {}", found.len(), wanted.len());
    }
    let at = found.iter().zip(wanted).position(|(a, b)| a != b).unwrap_or(0);
    let zero = if found[at] == 0 { "zeroes" } else { "other bytes" };
    format!("{zero} from byte {at} of {} on", wanted.len())
}
