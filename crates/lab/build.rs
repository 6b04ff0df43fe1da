//! A fingerprint of all that decides what a run comes to: the sources of this crate and of those
//! below it, and the versions of what they use. Results of another engine are never taken for this
//! one's, however its version is called. It tells programs apart; it is no defence. In a package the others' sources
//! are not at hand; there their version, of which a manifest allows no other, stands for them.

use std::path::{Path, PathBuf};

/// Crates whose code is in a result, from the folder of all crates.
const CRATES: [&str; 8] = ["block", "nand", "ssd", "remap", "lfs", "stack", "workload", "lab"];
/// What else is: drives, the writers of numbers, and the libraries.
const MORE: [&str; 4] =
    ["ssd/presets", "report/src/json.rs", "report/src/round.rs", "../Cargo.lock"];

fn main() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    // Only a package has it: beside one may lie anything, under any name.
    let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml.orig").is_file();
    let sources: Vec<(String, PathBuf)> = if packaged {
        vec![("lab/src".to_string(), Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))]
    } else {
        let names = CRATES.iter().map(|name| format!("{name}/src"));
        let names = names.chain(MORE.iter().map(|name| name.to_string()));
        names.map(|name| (name.clone(), crates.join(name))).collect()
    };
    for (name, path) in sources {
        println!("cargo::rerun-if-changed={}", path.display());
        list(&path, &name, &mut files);
    }
    files.sort();
    let mut hash = Hash(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
    if packaged {
        hash.add(concat!("package ", env!("CARGO_PKG_VERSION")).as_bytes());
    }
    for (name, path) in &files {
        let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        hash.add(name.as_bytes());
        hash.add(&(bytes.len() as u64).to_le_bytes());
        hash.add(&bytes);
    }
    println!("cargo::rustc-env=VARVE_ENGINE={:032x}", hash.0);
}

/// All files below a path, each with its name from the folder of all crates.
fn list(path: &Path, name: &str, into: &mut Vec<(String, PathBuf)>) {
    if !path.is_dir() {
        into.push((name.to_string(), path.to_path_buf()));
        return;
    }
    let entries = std::fs::read_dir(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    for entry in entries {
        let entry = entry.unwrap_or_else(|e| panic!("{}: {e}", path.display())).path();
        let file = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        list(&entry, &format!("{name}/{file}"), into);
    }
}

/// FNV-1a of 128 bits.
struct Hash(u128);

impl Hash {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
        }
    }
}
