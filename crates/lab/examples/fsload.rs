//! The load that real F2FS is measured with (`scripts/f2fs-baseline`), on a mounted directory:
//!
//! ```text
//! fsload DIR fill|fileserver|varmail FILES KIB OPERATIONS SEED
//! ```
//!
//! The same calls and draws as [`lab::fileload::Fsload`], which does them in process: a single
//! thread, whole files. The published figures of F2FS depend on it, so the order of the draws must
//! not change. Prints what it did.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::PathBuf;

const BUFFER: usize = 1 << 20;

struct Load {
    dir: PathBuf,
    kib: usize,
    state: u64,
    buffer: Vec<u8>,
    written: u64,
    read: u64,
    fsyncs: u64,
}

type Outcome = std::io::Result<()>;

impl Load {
    fn draw(&mut self) -> u64 {
        let mut s = self.state;
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        self.state = s;
        s
    }

    fn path(&self, i: u64) -> PathBuf {
        self.dir.join(format!("d{:02}", i % 20)).join(format!("f{i:06}"))
    }

    fn write(&mut self, mut file: File, kib: usize, sync: bool) -> Outcome {
        // Fresh contents: the place is drawn first.
        for _ in 0..8 {
            let at = (self.draw() % (BUFFER as u64 / 8)) as usize * 8;
            let word = self.draw().to_le_bytes();
            self.buffer[at..at + 8].copy_from_slice(&word);
        }
        let mut left = kib * 1024;
        while left > 0 {
            let part = left.min(BUFFER);
            file.write_all(&self.buffer[..part])?;
            left -= part;
            self.written += part as u64;
        }
        if sync {
            file.sync_all()?;
            self.fsyncs += 1;
        }
        Ok(())
    }

    fn create(&mut self, i: u64, sync: bool) -> Outcome {
        let file = File::create(self.path(i))?;
        self.write(file, self.kib, sync)
    }

    fn append(&mut self, i: u64, sync: bool) -> Outcome {
        let file = OpenOptions::new().append(true).open(self.path(i))?;
        self.write(file, 16, sync)
    }

    fn whole(&mut self, i: u64) -> Outcome {
        let mut file = File::open(self.path(i))?;
        let mut sink = vec![0; BUFFER];
        loop {
            let count = file.read(&mut sink)?;
            if count == 0 {
                return Ok(());
            }
            self.read += count as u64;
        }
    }

    fn grown(&self, i: u64) -> std::io::Result<bool> {
        Ok(std::fs::metadata(self.path(i))?.len() > self.kib as u64 * 1024 * 3 / 2)
    }

    fn fill(&mut self, files: u64) -> Outcome {
        for i in 0..20 {
            std::fs::create_dir(self.dir.join(format!("d{i:02}")))?;
        }
        (0..files).try_for_each(|i| self.create(i, false))
    }

    fn step(&mut self, mail: bool, files: u64) -> Outcome {
        let i = self.draw() % files;
        match self.draw() % 4 {
            0 => {
                std::fs::remove_file(self.path(i))?;
                self.create(i, mail)
            }
            1 if mail => {
                self.whole(i)?;
                if self.grown(i)? {
                    std::fs::remove_file(self.path(i))?;
                    self.create(i, true)
                } else {
                    self.append(i, true)
                }
            }
            1 if self.grown(i)? => self.create(i, false),
            1 => self.append(i, false),
            3 if !mail => std::fs::metadata(self.path(i)).map(|_| ()),
            _ => self.whole(i),
        }
    }
}

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize| args.get(i).and_then(|text| text.parse::<u64>().ok());
    let (Some(files), Some(kib), Some(operations), Some(seed)) =
        (number(3), number(4), number(5), number(6))
    else {
        eprintln!("usage: fsload DIR fill|fileserver|varmail FILES KIB OPERATIONS SEED");
        std::process::exit(2);
    };
    let state = seed.wrapping_mul(2_654_435_761).wrapping_add(88_172_645_463_325_252);
    let (dir, buffer) = (PathBuf::from(&args[1]), vec![0; BUFFER]);
    let mut load = Load { dir, kib: kib as usize, state, buffer, written: 0, read: 0, fsyncs: 0 };
    for i in 0..BUFFER {
        load.buffer[i] = load.draw() as u8;
    }
    match args[2].as_str() {
        "fill" => load.fill(files)?,
        "fileserver" => (0..operations).try_for_each(|_| load.step(false, files))?,
        "varmail" => (0..operations).try_for_each(|_| load.step(true, files))?,
        other => {
            eprintln!("fsload: found `{other}`, expected fill, fileserver or varmail");
            std::process::exit(2);
        }
    }
    println!(
        "{} files={files} kib={kib} operations={operations} written_mib={:.1} read_mib={:.1} fsyncs={}",
        args[2],
        load.written as f64 / 1_048_576.0,
        load.read as f64 / 1_048_576.0,
        load.fsyncs
    );
    Ok(())
}
