//! Names of blocks of an ext4 drive, as `debugfs` knows them.
//!
//! A block of the journal stands for what is to be written where: `logdump` says which block of the file
//! system each is for. What cannot be named is not guessed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::stage::search_path;

/// Bytes of a block of the file system.
const BLOCK: u64 = 4096;
/// The inode of the journal.
const JOURNAL: u64 = 8;
/// Names that are told.
const TOLD: usize = 12;

fn debugfs(image: &Path, ask: &str) -> String {
    let mut command = Command::new("debugfs");
    command.args(["-R", ask]).arg(image).env("PATH", search_path()).stdin(Stdio::null());
    let out = command.output().map(|out| out.stdout).unwrap_or_default();
    String::from_utf8_lossy(&out).into_owned()
}

/// Pairs of a table of two columns with a heading.
fn pairs(text: &str) -> impl Iterator<Item = (u64, &str)> {
    text.lines().filter_map(|line| {
        let (first, second) = line.trim().split_once(char::is_whitespace)?;
        Some((first.parse().ok()?, second.trim()))
    })
}

/// The inode of each block that has one.
fn inodes(image: &Path, blocks: &[u64]) -> BTreeMap<u64, u64> {
    let list: Vec<String> = blocks.iter().map(u64::to_string).collect();
    let said = debugfs(image, &format!("icheck {}", list.join(" ")));
    pairs(&said).filter_map(|(block, inode)| Some((block, inode.parse().ok()?))).collect()
}

fn paths(image: &Path, inodes: &[u64]) -> BTreeMap<u64, String> {
    let list: Vec<String> = inodes.iter().map(u64::to_string).collect();
    let said = debugfs(image, &format!("ncheck {}", list.join(" ")));
    pairs(&said).map(|(inode, path)| (inode, seen(path))).collect()
}

/// A path of the drive as the program knows it: below its folder.
fn seen(path: &str) -> String {
    match path.trim_start_matches('/').strip_prefix("w") {
        Some("") => "/".to_string(),
        Some(rest) if rest.starts_with('/') => rest.to_string(),
        _ => format!("{path} (outside the program's folder)"),
    }
}

/// Of each block of the journal the block of the file system that it holds, by the place in the journal.
fn logged(image: &Path) -> BTreeMap<u64, u64> {
    let said = debugfs(image, "logdump -a");
    let number = |text: &str, before: &str| -> Option<u64> {
        let rest = text.split_once(before)?.1.trim_start();
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    said.lines()
        .filter(|line| line.contains("FS block"))
        .filter_map(|line| Some((number(line, "journal block")?, number(line, "FS block")?)))
        .collect()
}

/// Blocks of the drive where the journal lies, in its order.
fn journal(image: &Path) -> Vec<u64> {
    let said = debugfs(image, &format!("blocks <{JOURNAL}>"));
    said.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// What lost blocks are, in words, each once.
pub fn names(image: &Path, lost: &[u64], atomic: u64) -> Vec<String> {
    let mut blocks: Vec<u64> = lost.iter().map(|block| block * atomic / BLOCK).collect();
    blocks.dedup();
    let of = inodes(image, &blocks);
    let places: BTreeMap<u64, u64> = match of.values().any(|inode| *inode == JOURNAL) {
        true => {
            journal(image).into_iter().enumerate().map(|(i, block)| (block, i as u64)).collect()
        }
        false => BTreeMap::new(),
    };
    let logged = if places.is_empty() { BTreeMap::new() } else { logged(image) };
    // What a block of the journal is for has an inode, too.
    let held = |block: &u64| places.get(block).and_then(|place| logged.get(place)).copied();
    let targets: Vec<u64> = blocks.iter().filter_map(held).collect();
    let of_target = if targets.is_empty() { BTreeMap::new() } else { inodes(image, &targets) };
    let mut all: Vec<u64> = of.values().chain(of_target.values()).copied().collect();
    all.sort_unstable();
    all.dedup();
    all.retain(|inode| *inode != JOURNAL);
    let paths = if all.is_empty() { BTreeMap::new() } else { paths(image, &all) };
    let called = |inode: u64| match paths.get(&inode) {
        Some(path) => path.clone(),
        None => format!("inode {inode}"),
    };
    let mut told: Vec<String> = Vec::new();
    for block in &blocks {
        let name = match (of.get(block), held(block)) {
            (Some(&JOURNAL), Some(target)) => match of_target.get(&target) {
                Some(inode) => format!("the journal: a block of {}", called(*inode)),
                None => format!("the journal: metadata (block {target})"),
            },
            (Some(&JOURNAL), None) => "the journal: its own head or commit".to_string(),
            (Some(inode), _) => format!("a block of {}", called(*inode)),
            (None, _) => format!("metadata (block {block})"),
        };
        if !told.contains(&name) {
            told.push(name);
        }
    }
    if told.len() > TOLD {
        let more = told.len() - TOLD;
        told.truncate(TOLD);
        told.push(format!("and {more} more"));
    }
    told
}
