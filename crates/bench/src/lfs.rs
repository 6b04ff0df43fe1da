//! The log-structured file system in process: operations per CPU second, mounts after a stop.

use std::time::Instant;

use ::lfs::format::FileType;
use ::lfs::fs::{Cleaning, NewInode, Scj};
use ::lfs::{Fs, FsOptions, MkfsOptions, Nid, Now, Stamp, mkfs};
use block::{BlockDevice, Bytes, Data, DeviceError, Op, Request, Rng, Sectors, Time, parse_size};

use crate::args::Args;
use crate::meter;

/// Text of the `lfs` command.
pub const HELP: &str = "\
varve-bench lfs ops [--size 1GiB] [--files 9000] [--count 1000000] [--cleaning bl6|scj|bl415]
    [--fsync 0] [--seed 1]
    Operations of 4 KiB on files that begin with 16 blocks, drawn at random. Of 64: 32 overwrite a
    random block, 16 read one, 15 append one (a file of 64 is cut to 32 instead), 1 deletes a file and
    creates it with one block; --fsync N: about one fsync for N operations. Prints operations for each
    CPU second, calls of the allocator for each, and blocks written for each block of the user.
varve-bench lfs mount [--size 16GiB] [--fill 8] [--files 20000]
    A volume that is filled to so many tenths and overwritten at random: seconds of a mount after a
    clean unmount, and after a stop in the middle, without and with a journal.";

const BLOCK: usize = 4096;
/// Blocks of memory that a device takes at once.
const CHUNK: usize = 256;

/// A sparse RAM disk: pieces that hold nothing but zeroes take no memory.
struct Sparse {
    blocks: u64,
    chunks: Vec<Option<Box<[u8]>>>,
}

impl Sparse {
    fn new(bytes: Bytes) -> Sparse {
        let blocks = bytes.0 / BLOCK as u64;
        let chunks = (0..blocks.div_ceil(CHUNK as u64)).map(|_| None).collect();
        Sparse { blocks, chunks }
    }

    /// Takes all the memory now, so that whoever is measured does not pay for it.
    fn touched(mut self) -> Sparse {
        for chunk in &mut self.chunks {
            let mut bytes = vec![0; CHUNK * BLOCK];
            bytes.iter_mut().step_by(BLOCK).for_each(|byte| *byte = 1);
            *chunk = Some(bytes.into());
        }
        self
    }

    fn piece(&mut self, block: u64) -> Option<&mut [u8]> {
        let at = block as usize % CHUNK * BLOCK;
        Some(&mut self.chunks[block as usize / CHUNK].as_mut()?[at..at + BLOCK])
    }
}

impl BlockDevice for Sparse {
    fn capacity(&self) -> Sectors {
        Sectors(self.blocks * 8)
    }
    fn atomic_unit(&self) -> block::Bytes {
        block::Bytes(block::UNIT_BYTES)
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let first = request.lba.0 / 8;
        match (request.op, request.data) {
            (Op::Read, Data::Read(out)) => {
                for (i, out) in (first..).zip(out.chunks_exact_mut(BLOCK)) {
                    match self.piece(i) {
                        Some(kept) => out.copy_from_slice(kept),
                        None => out.fill(0),
                    }
                }
            }
            (Op::Write, Data::Write(bytes)) => {
                for (i, block) in (first..).zip(bytes.chunks_exact(BLOCK)) {
                    let chunk = &mut self.chunks[i as usize / CHUNK];
                    if chunk.is_none() && block.iter().any(|byte| *byte != 0) {
                        *chunk = Some(vec![0; CHUNK * BLOCK].into());
                    }
                    if let Some(kept) = self.piece(i) {
                        kept.copy_from_slice(block);
                    }
                }
            }
            _ => {}
        }
        Ok(at)
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn now(n: u64) -> Now {
    Now { at: Time::from_us(n), wall: Stamp { seconds: 1_600_000_000 + n / 1_000_000, nanos: 0 } }
}

const NEW: NewInode = NewInode { permissions: 0o644, uid: 0, gid: 0 };

/// Files of a bench: their numbers and lengths in blocks.
struct Files {
    all: Vec<(Nid, u64)>,
    clock: u64,
}

fn dirs<D: BlockDevice>(fs: &mut Fs<D>, count: u64) -> Result<Vec<Nid>, String> {
    (0..count)
        .map(|n| fs.mkdir(now(1), Nid::ROOT, format!("dir{n}").as_bytes(), NEW).map_err(text))
        .collect()
}

fn name(n: usize) -> Vec<u8> {
    format!("file{n}").into_bytes()
}

fn fill<D: BlockDevice>(
    fs: &mut Fs<D>,
    dirs: &[Nid],
    files: usize,
    blocks: u64,
) -> Result<Files, String> {
    // Zeroes: a sparse device does not keep them.
    let data = vec![0; blocks as usize * BLOCK];
    let mut all = Vec::with_capacity(files);
    for n in 0..files {
        let at = now(2 + n as u64);
        let dir = dirs[n % dirs.len()];
        let ino = fs.create(at, dir, &name(n), FileType::File, NEW, (0, 0)).map_err(text)?;
        fs.write(at, ino, Bytes(0), &data).map_err(text)?;
        all.push((ino, blocks));
    }
    Ok(Files { all, clock: files as u64 + 2 })
}

fn cleaning(name: &str) -> Result<Cleaning, String> {
    match name {
        "bl6" => Ok(Cleaning::Bl6),
        "bl415" => Ok(Cleaning::Bl415),
        "scj" => Ok(Cleaning::Scj(Scj::default())),
        other => Err(format!("--cleaning {other}: expected bl6, scj or bl415")),
    }
}

/// One operation; returns blocks written by the user.
fn one<D: BlockDevice>(
    fs: &mut Fs<D>,
    files: &mut Files,
    dirs: &[Nid],
    rng: &mut Rng,
    buffer: &mut [u8; BLOCK],
) -> Result<u64, ::lfs::FsError> {
    files.clock += 1;
    let at = now(files.clock);
    let n = rng.below(files.all.len() as u64) as usize;
    let (ino, len) = files.all[n];
    let place = |block: u64| Bytes(block * BLOCK as u64);
    match rng.below(64) {
        0..=31 => {
            buffer[0] = buffer[0].wrapping_add(1);
            fs.write(at, ino, place(rng.below(len)), buffer)?;
            Ok(1)
        }
        32..=47 => {
            fs.read(at, ino, place(rng.below(len)), buffer)?;
            Ok(0)
        }
        48..=62 if len >= 64 => {
            fs.truncate(at, ino, place(32))?;
            files.all[n].1 = 32;
            Ok(0)
        }
        48..=62 => {
            fs.write(at, ino, place(len), buffer)?;
            files.all[n].1 += 1;
            Ok(1)
        }
        _ => {
            let (dir, name) = (dirs[n % dirs.len()], name(n));
            fs.unlink(at, dir, &name)?;
            let ino = fs.create(at, dir, &name, FileType::File, NEW, (0, 0))?;
            fs.write(at, ino, Bytes(0), buffer)?;
            files.all[n] = (ino, 1);
            Ok(1)
        }
    }
}

fn ops(mut args: Args) -> Result<(), String> {
    let size = args.value("size")?.unwrap_or_else(|| "1GiB".to_string());
    let size = parse_size(&size).map_err(text)?;
    let count = args.number("count", 1_000_000)?;
    let many = args.number("files", 9_000)? as usize;
    let fsync = args.number("fsync", 0)?;
    let seed = args.number("seed", 1)?;
    let cleaning = cleaning(&args.value("cleaning")?.unwrap_or_else(|| "bl6".to_string()))?;
    args.finish()?;
    let device = Sparse::new(size).touched();
    let (device, _) = mkfs(device, &MkfsOptions::new([1; 16], 7), now(0)).map_err(text)?;
    let options = FsOptions { cleaning, ..FsOptions::default() };
    let mut fs = Fs::mount(device, options, now(1)).map_err(text)?;
    let dirs = dirs(&mut fs, 40)?;
    let mut files = fill(&mut fs, &dirs, many, 16)?;
    let (mut rng, mut buffer, mut user) = (Rng::stream(seed, "bench/lfs"), [7; BLOCK], 0);
    let written = |fs: &Fs<Sparse>| ::lfs::Cause::ALL.iter().map(|c| fs.written(*c)).sum::<u64>();
    let (before, allocations, cpu) = (written(&fs), meter::allocations(), meter::cpu_seconds()?);
    for step in 0..count {
        let blocks = one(&mut fs, &mut files, &dirs, &mut rng, &mut buffer).map_err(text)?;
        user += blocks;
        if fsync > 0 && blocks > 0 && step % fsync == 0 {
            let ino = files.all[rng.below(files.all.len() as u64) as usize].0;
            fs.fsync(now(files.clock), ino).map_err(text)?;
        }
    }
    let seconds = meter::cpu_seconds()? - cpu;
    let allocations = meter::allocations() - allocations;
    let usage = fs.usage(now(files.clock)).map_err(text)?;
    println!("operations {count}");
    println!("ops_per_cpu_second {:.0}", count as f64 / seconds);
    println!("allocations_per_op {:.4}", allocations as f64 / count as f64);
    println!("blocks_per_user_block {:.3}", (written(&fs) - before) as f64 / user as f64);
    println!("used_share {:.3}", usage.used_blocks as f64 / usage.blocks as f64);
    println!("segments_cleaned {}", fs.cleaning().segments);
    println!("checkpoints {}", fs.checkpoints().values().sum::<u64>());
    println!("peak_rss_kib {}", meter::peak_rss_kib()?);
    fs.check(now(files.clock)).map_err(text)
}

fn mounted(
    device: Sparse,
    options: FsOptions,
    clock: u64,
) -> Result<(Fs<Sparse>, f64, f64), String> {
    let (start, cpu) = (Instant::now(), meter::cpu_seconds()?);
    let fs = Fs::mount(device, options, now(clock)).map_err(text)?;
    Ok((fs, start.elapsed().as_secs_f64(), meter::cpu_seconds()? - cpu))
}

fn mount(mut args: Args) -> Result<(), String> {
    let size = args.value("size")?.unwrap_or_else(|| "16GiB".to_string());
    let size = parse_size(&size).map_err(text)?;
    let tenths = args.number("fill", 8)?;
    let many = args.number("files", 20_000)?;
    args.finish()?;
    for (name, cleaning) in [("bl6", Cleaning::Bl6), ("scj", Cleaning::Scj(Scj::default()))] {
        let options = FsOptions { cleaning, ..FsOptions::default() };
        let (device, _) =
            mkfs(Sparse::new(size), &MkfsOptions::new([1; 16], 7), now(0)).map_err(text)?;
        let mut fs = Fs::mount(device, options, now(1)).map_err(text)?;
        let dirs = dirs(&mut fs, 100)?;
        let blocks = fs.usage(now(1)).map_err(text)?.blocks * tenths / 10 / many;
        let mut files = fill(&mut fs, &dirs, many as usize, blocks.max(1))?;
        let mut rng = Rng::stream(1, "bench/lfs/mount");
        let data = [0; BLOCK];
        // As many as make cleaning begin, and a few more.
        let usage = fs.usage(now(1)).map_err(text)?;
        for step in 0..(usage.blocks - usage.used_blocks) * 3 / 2 {
            files.clock += 1;
            let (ino, len) = *rng.pick(&files.all);
            let place = Bytes(rng.below(len) * BLOCK as u64);
            fs.write(now(files.clock), ino, place, &data).map_err(text)?;
            if step % 50 == 0 {
                fs.fsync(now(files.clock), ino).map_err(text)?;
            }
        }
        let (cleaned, records) = (fs.cleaning().segments, fs.cleaning().records);
        // The stop: what the device holds at this moment.
        let device = fs.abandon();
        let (mut fs, seconds, cpu) = mounted(device, options, files.clock)?;
        println!(
            "{name} dirty_mount_s {seconds:.3} cpu_s {cpu:.3} segments_cleaned {cleaned} records {records}"
        );
        fs.write(now(files.clock), files.all[0].0, Bytes(0), &data).map_err(text)?;
        let device = fs.unmount(now(files.clock)).map_err(text)?;
        let (fs, seconds, cpu) = mounted(device, options, files.clock)?;
        println!("{name} clean_mount_s {seconds:.3} cpu_s {cpu:.3}");
        drop(fs);
    }
    println!("peak_rss_kib {}", meter::peak_rss_kib()?);
    Ok(())
}

/// The `lfs` command.
///
/// # Errors
/// Bad arguments; the volume contradicts itself.
pub fn run(mut words: Vec<String>) -> Result<(), String> {
    let what = if words.is_empty() { String::new() } else { words.remove(0) };
    let args = Args::new(words);
    match what.as_str() {
        "ops" => ops(args),
        "mount" => mount(args),
        other => Err(format!("`{other}`: expected ops or mount")),
    }
}
