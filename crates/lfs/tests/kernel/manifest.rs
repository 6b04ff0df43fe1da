//! A tree as text, one line for each path, the same from a kernel's mount as from an `Fs`.

use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use block::{BlockDevice, Bytes};
use varve_lfs::format::FileType;
use varve_lfs::fs::Attributes;
use varve_lfs::{Fs, FsError, Nid, Now};

/// Contents are looked at in pieces of so many bytes.
const PIECE: usize = 1 << 20;

fn letter(mode: u16) -> char {
    match FileType::of_mode(mode) {
        FileType::File => '-',
        FileType::Directory => 'd',
        FileType::Character => 'c',
        FileType::Block => 'b',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
        FileType::Symlink => 'l',
        FileType::Unknown => '?',
    }
}

/// Name space, name, value.
type Xattr = (u8, Vec<u8>, Vec<u8>);

/// What a line says beside the path.
struct Line {
    mode: u16,
    owner: (u32, u32),
    links: u32,
    size: u64,
    time: (u64, u32),
    device: (u32, u32),
    crc: u32,
    xattrs: Vec<Xattr>,
}

impl Line {
    fn text(mut self, path: &str) -> String {
        let kind = letter(self.mode);
        self.xattrs.sort();
        let xattrs = self.xattrs.iter().map(|(index, name, value)| {
            let (name, crc) = (String::from_utf8_lossy(name), block::crc32c(0, value));
            format!(" {index}.{name}:{}:{crc:08x}", value.len())
        });
        // The size of a directory is the file system's own affair.
        let size = if kind == 'd' { 0 } else { self.size };
        format!(
            "{path} {kind}{:o} {}:{} {} {size} {}.{} {}:{} {:08x}{}",
            self.mode & 0o7777,
            self.owner.0,
            self.owner.1,
            self.links,
            self.time.0,
            self.time.1,
            self.device.0,
            self.device.1,
            self.crc,
            xattrs.collect::<String>()
        )
    }
}

fn show(name: &[u8]) -> String {
    String::from_utf8_lossy(name).replace(' ', "_")
}

/// Zeroes at the end of a piece cost nothing: a piece of zeroes alone is not summed up.
fn add(crc: u32, at: u64, piece: &[u8]) -> u32 {
    if piece.iter().all(|byte| *byte == 0) {
        return crc;
    }
    block::crc32c(block::crc32c(crc, &at.to_le_bytes()), piece)
}

// --- From a mounted folder

fn xattrs_of(path: &Path, meta: &Metadata) -> std::io::Result<Vec<Xattr>> {
    let mut names = vec![0; 65_536];
    let n = rustix::fs::llistxattr(path, &mut names[..])?;
    let mut found = Vec::new();
    for name in names[..n].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let known = [(1, "user."), (4, "trusted."), (6, "security.")];
        let own = |(index, prefix): (u8, &str)| {
            Some((index, name.strip_prefix(prefix.as_bytes())?.to_vec()))
        };
        let Some((index, short)) = known.into_iter().find_map(own) else { continue };
        let mut value = vec![0; 65_536];
        let n = match rustix::fs::lgetxattr(path, name, &mut value[..]) {
            // The kernel lists attributes of users that it lets nobody read.
            Err(rustix::io::Errno::NODATA) if !meta.is_file() && !meta.is_dir() => continue,
            other => other?,
        };
        value.truncate(n);
        found.push((index, short, value));
    }
    Ok(found)
}

fn contents_of(path: &Path, meta: &Metadata) -> std::io::Result<u32> {
    if meta.is_symlink() {
        return Ok(add(0, 0, std::fs::read_link(path)?.as_os_str().as_bytes()));
    }
    if !meta.is_file() {
        return Ok(0);
    }
    let file = std::fs::File::open(path)?;
    let (mut crc, mut at, mut piece) = (0, 0_u64, vec![0; PIECE]);
    while at < meta.len() {
        // Holes are jumped over, to the piece that data begins in.
        match rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) {
            Ok(data) => at = data / PIECE as u64 * PIECE as u64,
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        }
        let n = (meta.len() - at).min(PIECE as u64) as usize;
        file.read_exact_at(&mut piece[..n], at)?;
        crc = add(crc, at, &piece[..n]);
        at += n as u64;
    }
    Ok(crc)
}

/// Everything below a folder, sorted.
pub fn of_folder(root: &Path) -> std::io::Result<Vec<String>> {
    let (mut lines, mut open) = (Vec::new(), vec![(root.to_path_buf(), String::from("."))]);
    while let Some((path, name)) = open.pop() {
        let meta = std::fs::symlink_metadata(&path)?;
        if meta.is_dir() {
            for entry in std::fs::read_dir(&path)? {
                let entry = entry?;
                let below = format!("{name}/{}", show(entry.file_name().as_bytes()));
                open.push((entry.path(), below));
            }
        }
        let line = Line {
            mode: meta.mode() as u16,
            owner: (meta.uid(), meta.gid()),
            links: meta.nlink() as u32,
            size: meta.len(),
            time: (meta.mtime() as u64, meta.mtime_nsec() as u32),
            device: (rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev())),
            crc: contents_of(&path, &meta)?,
            xattrs: xattrs_of(&path, &meta)?,
        };
        lines.push(line.text(&name));
    }
    lines.sort();
    Ok(lines)
}

// --- From an `Fs`

fn contents<D: BlockDevice>(
    fs: &mut Fs<D>,
    now: Now,
    of: &Attributes,
    piece: &mut [u8],
) -> Result<u32, FsError> {
    if ![FileType::File, FileType::Symlink].contains(&of.kind) {
        return Ok(0);
    }
    let (mut crc, mut at) = (0, 0);
    while at < of.size.0 {
        let Some(data) = fs.seek(now, of.ino, Bytes(at), false)? else { break };
        at = data.0 / PIECE as u64 * PIECE as u64;
        let n = fs.read(now, of.ino, Bytes(at), piece)?;
        crc = add(crc, at, &piece[..n]);
        at += n as u64;
    }
    Ok(crc)
}

/// Everything on a volume, sorted.
pub fn of_volume<D: BlockDevice>(fs: &mut Fs<D>, now: Now) -> Result<Vec<String>, FsError> {
    let (mut lines, mut open) = (Vec::new(), vec![(Nid::ROOT, String::from("."))]);
    let mut piece = vec![0; PIECE];
    while let Some((ino, name)) = open.pop() {
        let of = fs.attributes(now, ino)?;
        if of.kind == FileType::Directory {
            for entry in fs.readdir(now, ino)? {
                if entry.name != b"." && entry.name != b".." {
                    open.push((entry.ino, format!("{name}/{}", show(&entry.name))));
                }
            }
        }
        let xattrs = fs.xattrs(now, ino)?;
        let line = Line {
            mode: of.mode,
            owner: (of.uid, of.gid),
            links: of.links,
            size: of.size.0,
            time: (of.modified.seconds, of.modified.nanos),
            device: of.device,
            crc: contents(fs, now, &of, &mut piece)?,
            xattrs: xattrs.into_iter().map(|attr| (attr.index, attr.name, attr.value)).collect(),
        };
        lines.push(line.text(&name));
    }
    lines.sort();
    Ok(lines)
}

/// The first few differences; empty if there is none.
pub fn differences(found: &[String], wanted: &[String]) -> Vec<String> {
    let only = |of: &[String], other: &[String], sign: char| -> Vec<String> {
        let missing = of.iter().filter(|line| other.binary_search(line).is_err());
        missing.take(5).map(|line| format!("{sign} {line}")).collect()
    };
    let mut all = only(wanted, found, '-');
    all.extend(only(found, wanted, '+'));
    all
}
