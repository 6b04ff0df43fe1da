//! What a block is, and the changes of names, sizes and rights as the bytes of a block.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde_json::{Value, json};

use super::PAGE;
use super::rights::Rights;

/// What a block is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum What {
    /// A page of a file.
    Page(u64, u64),
    /// The size and the rights of a file.
    Size(u64),
    /// The rights of a folder or a link.
    Rights(u64),
    /// A change of names.
    Names,
}

impl What {
    /// A block and what it is, as a mark.
    pub fn text(self, block: u64) -> String {
        match self {
            What::Page(node, page) => format!("block {block} page {node} {page}"),
            What::Size(node) => format!("block {block} size {node}"),
            What::Rights(node) => format!("block {block} rights {node}"),
            What::Names => format!("block {block} names"),
        }
    }

    /// Of a mark; nothing if it is another.
    pub fn of(text: &str) -> Option<(u64, What)> {
        let words: Vec<&str> = text.split(' ').collect();
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        let what = match (words.first(), words.get(2), words.len()) {
            (Some(&"block"), Some(&"page"), 5) => What::Page(number(3)?, number(4)?),
            (Some(&"block"), Some(&"size"), 4) => What::Size(number(3)?),
            (Some(&"block"), Some(&"rights"), 4) => What::Rights(number(3)?),
            (Some(&"block"), Some(&"names"), 3) => What::Names,
            _ => return None,
        };
        Some((number(1)?, what))
    }
}

/// What a name stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Object {
    /// A file, with the rights that it was made with.
    File(u64, Rights),
    /// A folder, with those.
    Folder(u64, Rights),
    /// A symbolic link, with those, and where to.
    Link(u64, Rights, OsString),
}

impl Object {
    /// Its node.
    pub fn node(&self) -> u64 {
        match self {
            Object::File(node, _) | Object::Folder(node, _) | Object::Link(node, _, _) => *node,
        }
    }
}

/// One name that changes: of which folder, and what it stands for then; nothing: it is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The folder.
    pub folder: u64,
    /// The name in it.
    pub name: OsString,
    /// What it stands for.
    pub object: Option<Object>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(value: &Value) -> Option<OsString> {
    let text = value.as_str()?;
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(byte).collect();
    bytes.map(OsString::from_vec)
}

fn block_of(value: &Value) -> Option<Vec<u8>> {
    let mut bytes = value.to_string().into_bytes();
    (bytes.len() as u64 <= PAGE).then(|| bytes.resize(PAGE as usize, 0))?;
    Some(bytes)
}

fn value_of(block: &[u8]) -> Option<Value> {
    let end = block.iter().position(|byte| *byte == 0).unwrap_or(block.len());
    serde_json::from_slice(&block[..end]).ok()
}

impl Change {
    fn document(&self) -> Value {
        let object = self.object.as_ref().map(|object| {
            let (mut object, rights) = match object {
                Object::File(node, rights) => (json!({ "file": node }), rights),
                Object::Folder(node, rights) => (json!({ "folder": node }), rights),
                Object::Link(node, rights, to) => {
                    (json!({ "link": node, "to": hex(to.as_bytes()) }), rights)
                }
            };
            for (name, value) in ["mode", "uid", "gid"].into_iter().zip(rights.values()) {
                object[name] = value;
            }
            object
        });
        json!({ "in": self.folder, "name": hex(self.name.as_bytes()), "is": object })
    }

    fn of(document: &Value) -> Option<Change> {
        let is = &document["is"];
        let rights = || Rights::of(&["mode", "uid", "gid"].map(|name| is[name].clone()));
        let object = match (is["file"].as_u64(), is["folder"].as_u64(), is["link"].as_u64()) {
            (Some(node), _, _) => Some(Object::File(node, rights()?)),
            (_, Some(node), _) => Some(Object::Folder(node, rights()?)),
            (_, _, Some(node)) => Some(Object::Link(node, rights()?, unhex(&is["to"])?)),
            _ => None,
        };
        Some(Change { folder: document["in"].as_u64()?, name: unhex(&document["name"])?, object })
    }
}

/// Changes of names as a block; nothing if they are too long for one.
pub fn names_block(changes: &[Change]) -> Option<Vec<u8>> {
    block_of(&Value::Array(changes.iter().map(Change::document).collect()))
}

/// Changes of names of a block; nothing if it was never written.
pub fn names_of(block: &[u8]) -> Option<Vec<Change>> {
    value_of(block)?.as_array()?.iter().map(Change::of).collect()
}

/// A size and rights as a block.
pub fn size_block(size: u64, rights: Rights) -> Vec<u8> {
    let size = std::iter::once(json!(size));
    block_of(&Value::Array(size.chain(rights.values()).collect())).unwrap_or_default()
}

/// A size and rights of a block; nothing if it was never written.
pub fn size_of(block: &[u8]) -> Option<(u64, Rights)> {
    let value = value_of(block)?;
    let (size, rights) = value.as_array()?.split_first()?;
    Some((size.as_u64()?, Rights::of(rights)?))
}

/// Rights as a block.
pub fn rights_block(rights: Rights) -> Vec<u8> {
    block_of(&Value::Array(rights.values())).unwrap_or_default()
}

/// Rights of a block; nothing if it was never written.
pub fn rights_of(block: &[u8]) -> Option<Rights> {
    Rights::of(value_of(block)?.as_array()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let all =
            [(3, What::Page(7, 9)), (0, What::Size(2)), (4, What::Rights(2)), (5, What::Names)];
        for (block, what) in all {
            assert_eq!(What::of(&what.text(block)), Some((block, what)));
        }
        for wrong in ["started", "block", "block 1 page 2", "block x names", "block 1 size 2 3"] {
            assert_eq!(What::of(wrong), None, "{wrong}");
        }
        let name = OsString::from_vec(vec![b'a', 0xFF, b' ']);
        let change = |object| Change { folder: 1, name: name.clone(), object };
        let changes = vec![
            change(None),
            change(Some(Object::File(3, Rights::own(0o644)))),
            change(Some(Object::Folder(4, Rights { gid: Some(9), ..Rights::own(0o755) }))),
            change(Some(Object::Link(5, Rights::own(0o777), "to/../it".into()))),
        ];
        let block = names_block(&changes).unwrap();
        assert_eq!((block.len() as u64, names_of(&block)), (PAGE, Some(changes)));
        let (own, other) = (Rights::own(0o600), Rights { uid: Some(7), ..Rights::own(0o640) });
        for rights in [own, other, Rights { gid: Some(0), ..other }] {
            assert_eq!(size_of(&size_block(12, rights)), Some((12, rights)));
            assert_eq!(rights_of(&rights_block(rights)), Some(rights));
        }
        assert_eq!((rights_of(&[0; 4096]), rights_of(b"[]")), (None, None));
        assert_eq!((names_of(&[0; 4096]), size_of(&[0; 4096])), (None, None));
        assert_eq!(
            names_block(&[change(Some(Object::Link(5, own, "x".repeat(4000).into())))]),
            None
        );
    }
}
