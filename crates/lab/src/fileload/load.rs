//! A load of files as text: `fileserver(threads=16, full=70 %)`.
//!
//! | | |
//! | --- | --- |
//! | `fileserver`, `varmail` | Filebench's, 50 and 16 threads; `varmail(together=on)`: threads that fsync wait for each other |
//! | `tpcc`, `ycsb-a` | pages of a database of that shape, 16 and 32 connections |
//! | `fio` | random writes of one thread, uniform or Zipf (`zipf=0.99`) |

use block::{Bytes, UNIT_BYTES};
use ssd::Params;
use stack::Modelled;
use stack::grammar::{Term, parse};

use super::json::files_json;
use super::{Database, Filebench, Flow, Load, Plan, RandomWrite, Shape, Sparse, measure_watched};
use crate::replay::Watch;
use crate::{LabError, StackConfig};
use report::json::Map;

/// A load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileLoad {
    /// Filebench's file server.
    Fileserver,
    /// Filebench's mail server.
    Varmail,
    /// The same; threads that fsync wait for each other, and share the flushes.
    VarmailTogether,
    /// Pages as TPC-C changes them.
    Tpcc,
    /// Pages as YCSB A changes them.
    Ycsb,
    /// Random writes; hundredths of Zipf's exponent.
    Fio(u32),
}

/// What a load takes of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Blocks that the fill takes.
    pub target: u64,
    /// Blocks of a database's buffer pool.
    pub pool: u64,
}

impl FileLoad {
    const NAMES: &str = "fileserver, varmail, tpcc, ycsb-a or fio";

    /// What it is called in a table.
    pub fn title(self) -> String {
        match self {
            FileLoad::Fileserver => "fileserver".to_string(),
            FileLoad::Varmail => "varmail".to_string(),
            FileLoad::VarmailTogether => "varmail, fsyncs together".to_string(),
            FileLoad::Tpcc => "tpcc-shaped pages".to_string(),
            FileLoad::Ycsb => "YCSB-A-shaped pages".to_string(),
            FileLoad::Fio(0) => "fio, uniform".to_string(),
            FileLoad::Fio(theta) => format!("fio, zipf {}.{:02}", theta / 100, theta % 100),
        }
    }

    /// Threads, if nobody says how many.
    fn usual(self) -> usize {
        match self {
            FileLoad::Fileserver => 50,
            FileLoad::Varmail | FileLoad::VarmailTogether | FileLoad::Tpcc => 16,
            FileLoad::Ycsb => 32,
            FileLoad::Fio(_) => 1,
        }
    }

    /// The load, ready to fill a volume; `threads` as usual if nobody says how many.
    pub fn make(
        self,
        threads: Option<usize>,
        room: Room,
        seed: u64,
    ) -> Box<dyn Load<Sparse<Modelled>>> {
        let (threads, target) = (threads.unwrap_or(self.usual()), room.target);
        match self {
            FileLoad::Fileserver => {
                Box::new(Filebench::new(Flow::Fileserver, threads, 128, target, seed))
            }
            FileLoad::Varmail => Box::new(Filebench::new(Flow::Varmail, threads, 32, target, seed)),
            FileLoad::VarmailTogether => {
                Box::new(Filebench::new(Flow::Varmail, threads, 32, target, seed).together())
            }
            FileLoad::Tpcc => {
                Box::new(Database::new(Shape::Tpcc, threads, target, room.pool, seed))
            }
            FileLoad::Ycsb => {
                Box::new(Database::new(Shape::YcsbA, threads, target, room.pool, seed))
            }
            FileLoad::Fio(0) => Box::new(RandomWrite::new(target, None, seed)),
            FileLoad::Fio(theta) => {
                Box::new(RandomWrite::new(target, Some(f64::from(theta) / 100.0), seed))
            }
        }
    }
}

/// A load of files in a scenario: what it is, and how much of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilesSpec {
    /// The load.
    pub load: FileLoad,
    /// Its threads, if not as usual.
    pub threads: Option<usize>,
    /// Per cent of the blocks that users may have which the fill takes.
    pub full: u64,
    /// Per cent of them that are written before anything is measured, and then.
    pub writes: (u64, u64),
    /// Per cent of the volume's blocks that the page cache holds.
    pub cache: u64,
    /// The text it was read from.
    pub text: String,
}

/// `80 %` or `80`.
fn percent(text: &str, most: u64) -> Result<u64, String> {
    let found = text.trim_end_matches('%').trim().parse().ok();
    found
        .filter(|n| (1..=most).contains(n))
        .ok_or_else(|| format!("found `{text}`, expected 1 to {most} per cent"))
}

impl FilesSpec {
    /// Keys, as help.
    pub const KEYS: &str = "threads, full, warm, measured, cache, zipf, together";

    /// Reads a load.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub fn read(text: &str) -> Result<FilesSpec, String> {
        let terms = parse(text).map_err(|e| e.to_string().replacen("stack", "load", 1))?;
        let [Term { name, values, keys, .. }] = &terms[..] else {
            return Err(format!("found {} loads, expected one", terms.len()));
        };
        if let Some(value) = values.first() {
            return Err(format!("found `{value}`, expected KEY=VALUE: {}", FilesSpec::KEYS));
        }
        let load = match &**name {
            "fileserver" => FileLoad::Fileserver,
            "varmail" => FileLoad::Varmail,
            "tpcc" => FileLoad::Tpcc,
            "ycsb-a" => FileLoad::Ycsb,
            "fio" => FileLoad::Fio(0),
            _ => return Err(format!("found the load `{name}`, expected {}", FileLoad::NAMES)),
        };
        let mut spec = FilesSpec {
            load,
            threads: None,
            full: 80,
            writes: (0, 50),
            cache: 50,
            text: text.trim().to_string(),
        };
        let mut warm = None;
        for (key, value) in keys {
            let wrong = |expected: &str| format!("{key}: found `{value}`, expected {expected}");
            match (&**key, load) {
                ("zipf", FileLoad::Fio(_)) => {
                    let theta = value.parse::<f64>().ok().filter(|t| (0.01..=2.0).contains(t));
                    let theta = theta.ok_or_else(|| wrong("0.01 to 2"))?;
                    spec.load = FileLoad::Fio((theta * 100.0).round() as u32);
                }
                ("together", FileLoad::Varmail | FileLoad::VarmailTogether) => {
                    spec.load = match &**value {
                        "on" => FileLoad::VarmailTogether,
                        "off" => FileLoad::Varmail,
                        _ => return Err(wrong("on or off")),
                    }
                }
                ("threads", FileLoad::Fio(_)) => return Err(wrong("nothing: fio has one thread")),
                ("threads", _) => {
                    let found = value.parse().ok().filter(|n| (1..=4096).contains(n));
                    spec.threads = Some(found.ok_or_else(|| wrong("1 to 4096"))?);
                }
                ("full", _) => spec.full = percent(value, 95)?,
                ("warm", _) => warm = Some(percent(value, 10_000)?),
                ("measured", _) => spec.writes.1 = percent(value, 10_000)?,
                ("cache", _) => spec.cache = percent(value, 100)?,
                _ => return Err(format!("found `{key}=`, expected {}", FilesSpec::KEYS)),
            }
        }
        // What is free is written once, and a little more: cleaning has begun.
        spec.writes.0 = warm.unwrap_or(115 - spec.full);
        Ok(spec)
    }
}

impl FilesSpec {
    /// Blocks of a volume on a device of so many bytes, and those of them that users may have.
    ///
    /// # Errors
    /// No volume is that small.
    pub fn blocks(&self, capacity: Bytes) -> Result<(u64, u64), LabError> {
        let blocks = capacity.0 / UNIT_BYTES;
        Ok((blocks, user_blocks(blocks)?))
    }

    /// Runs it on a volume of a whole stack: a member of `results`.
    ///
    /// # Errors
    /// As [`measure`].
    pub fn run(
        &self,
        params: Params,
        stack: &StackConfig,
        swept: &[(String, String)],
        seed: u64,
        watch: Watch<'_>,
    ) -> Result<Map, LabError> {
        let (blocks, user) = self.blocks(stack.capacity(&params)?)?;
        let plan = Plan {
            params,
            stack: stack.clone(),
            blocks,
            options: stack.lfs()?,
            // Of what the cache holds a tenth may be dirty, as Linux has it.
            cache: (blocks * self.cache / 100, blocks * self.cache / 1000),
            writes: (user * self.writes.0 / 100, user * self.writes.1 / 100),
        };
        // A database's pool is a sixteenth of the volume.
        let room = Room { target: user * self.full / 100, pool: blocks / 16 };
        let mut load = self.load.make(self.threads, room, seed);
        let measured = measure_watched(&plan, &mut *load, watch)?;
        Ok(files_json(&measured, swept, seed))
    }
}

/// Blocks that users may have of a volume of so many.
///
/// # Errors
/// No volume is that small.
pub fn user_blocks(blocks: u64) -> Result<u64, LabError> {
    let superblock = lfs::superblock(blocks, &lfs::MkfsOptions::new([0; 16], 1))
        .map_err(|e| LabError::Input(format!("a volume of {} bytes: {e}", blocks * UNIT_BYTES)))?;
    let main = superblock.segments[4];
    Ok(u64::from(main - lfs::provision(main).1) * 512)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_read_and_what_is_wrong_is_said() {
        let spec = FilesSpec::read("fileserver(threads=4, full=70 %, measured=20)").unwrap();
        assert_eq!((spec.threads, spec.full, spec.writes), (Some(4), 70, (45, 20)));
        let together = FilesSpec::read("varmail(together=on)").unwrap().load;
        assert_eq!(together, FileLoad::VarmailTogether);
        assert_eq!(FilesSpec::read("fio(zipf=0.99)").unwrap().load, FileLoad::Fio(99));
        let wrong = [
            ("", "load ``, character 1"),
            ("nfs", "found the load `nfs`"),
            ("varmail(9)", "found `9`, expected KEY=VALUE"),
            ("varmail(zipf=1)", "found `zipf=`, expected threads"),
            ("varmail(full=100 %)", "found `100 %`, expected 1 to 95"),
            ("fio(threads=2)", "threads: found `2`, expected nothing"),
            ("fio+fio", "found 2 loads"),
        ];
        for (text, begins) in wrong {
            let error = FilesSpec::read(text).unwrap_err();
            assert!(error.starts_with(begins), "{text}: {error}");
        }
    }
}
