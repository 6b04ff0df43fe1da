//! The load that real F2FS is measured with (`scripts/f2fs-baseline`), on a mounted directory:
//!
//! ```text
//! fsload DIR fill|fileserver|varmail FILES KIB OPERATIONS SEED
//! ```
//!
//! The program is that of [`varve_lab::fileload::fsload`]; here are its calls, on real files. Prints what
//! it did.

use std::fs::{File, OpenOptions};
use std::io::{Error, Read, Write};
use std::path::PathBuf;

use varve_lab::fileload::FsloadMode;
use varve_lab::fileload::fsload::{BUFFER, Calls, Program, dir_name, place};

struct OnDirectory {
    dir: PathBuf,
    buffer: Vec<u8>,
    sink: Vec<u8>,
    written: u64,
    read: u64,
}

impl OnDirectory {
    fn path(&self, file: usize) -> PathBuf {
        let (dir, name) = place(file);
        self.dir.join(dir_name(dir)).join(name)
    }
}

impl Calls for OnDirectory {
    type Error = Error;

    fn byte(&mut self, at: usize, byte: u8) {
        self.buffer[at] = byte;
    }
    fn word(&mut self, at: usize, word: u64) {
        self.buffer[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    fn mkdir(&mut self, dir: usize) -> Result<(), Error> {
        std::fs::create_dir(self.dir.join(dir_name(dir)))
    }
    fn write(&mut self, file: usize, fresh: bool, kib: u64, sync: bool) -> Result<(), Error> {
        let path = self.path(file);
        let mut file = match fresh {
            true => File::create(path)?,
            false => OpenOptions::new().append(true).open(path)?,
        };
        let mut left = kib as usize * 1024;
        while left > 0 {
            let part = left.min(BUFFER);
            file.write_all(&self.buffer[..part])?;
            left -= part;
            self.written += part as u64;
        }
        if sync { file.sync_all() } else { Ok(()) }
    }
    fn read(&mut self, file: usize) -> Result<(), Error> {
        let mut file = File::open(self.path(file))?;
        loop {
            let count = file.read(&mut self.sink)?;
            if count == 0 {
                return Ok(());
            }
            self.read += count as u64;
        }
    }
    fn unlink(&mut self, file: usize) -> Result<(), Error> {
        std::fs::remove_file(self.path(file))
    }
    fn length(&mut self, file: usize) -> Result<u64, Error> {
        Ok(std::fs::metadata(self.path(file))?.len())
    }
}

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize| args.get(i).and_then(|text| text.parse::<u64>().ok());
    let (Some(files), Some(kib), Some(operations), Some(seed)) =
        (number(3), number(4), number(5), number(6))
    else {
        eprintln!("usage: fsload DIR fill|fileserver|varmail FILES KIB OPERATIONS SEED");
        std::process::exit(2);
    };
    let (dir, buffer, sink) = (PathBuf::from(&args[1]), vec![0; BUFFER], vec![0; BUFFER]);
    let mut calls = OnDirectory { dir, buffer, sink, written: 0, read: 0 };
    let program = |mode| Program::new(mode, files as usize, kib);
    let (mut program, fills) = match args[2].as_str() {
        "fill" => (program(FsloadMode::Fileserver), true),
        "fileserver" => (program(FsloadMode::Fileserver), false),
        "varmail" => (program(FsloadMode::Varmail), false),
        other => {
            eprintln!("fsload: found `{other}`, expected fill, fileserver or varmail");
            std::process::exit(2);
        }
    };
    match fills {
        true => program.fill(&mut calls, seed)?,
        false => program.run(&mut calls, operations, seed)?,
    }
    println!(
        "{} files={files} kib={kib} operations={operations} written_mib={:.1} read_mib={:.1} fsyncs={}",
        args[2],
        calls.written as f64 / 1_048_576.0,
        calls.read as f64 / 1_048_576.0,
        program.fsyncs
    );
    Ok(())
}
