//! Extended attributes as one byte string: a header, entries padded to 4 bytes, a zero word.

use super::{put, put_u16, put_u32, u16_at, u32_at};

const MAGIC: u32 = 0xF2F5_2011;
const HEADER: usize = 24;

/// One attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Xattr {
    /// Name space: 1 user, 2 and 3 POSIX ACLs, 4 trusted, 6 security.
    pub index: u8,
    /// Name without its prefix.
    pub name: Vec<u8>,
    /// Value.
    pub value: Vec<u8>,
}

fn padded(attr: &Xattr) -> usize {
    (4 + attr.name.len() + attr.value.len()).next_multiple_of(4)
}

/// The attributes of a string; none if it has no header. `None`: it is damaged.
pub fn read(bytes: &[u8]) -> Option<Vec<Xattr>> {
    let mut found = Vec::new();
    if bytes.len() < HEADER || u32_at(bytes, 0) != MAGIC {
        return Some(found);
    }
    let mut rest = &bytes[HEADER..];
    while rest.len() >= 4 && u32_at(rest, 0) != 0 {
        let (name, value) = (usize::from(rest[1]), usize::from(u16_at(rest, 2)));
        let body = rest.get(4..4 + name + value)?;
        let (index, name, value) = (rest[0], body[..name].to_vec(), body[name..].to_vec());
        found.push(Xattr { index, name, value });
        rest = rest.get(padded(found.last()?)..).unwrap_or(&[]);
    }
    Some(found)
}

/// The string of attributes; `None` if it is longer than `room` bytes.
pub fn write(attrs: &[Xattr], room: usize) -> Option<Vec<u8>> {
    let need = HEADER + attrs.iter().map(padded).sum::<usize>() + 4;
    if need > room {
        return None;
    }
    let mut bytes = vec![0; room];
    put_u32(&mut bytes, 0, MAGIC);
    put_u32(&mut bytes, 4, 1);
    let mut at = HEADER;
    for attr in attrs {
        (bytes[at], bytes[at + 1]) = (attr.index, attr.name.len() as u8);
        put_u16(&mut bytes, at + 2, attr.value.len() as u16);
        put(&mut bytes, at + 4, &attr.name);
        put(&mut bytes, at + 4 + attr.name.len(), &attr.value);
        at += padded(attr);
    }
    Some(bytes)
}
