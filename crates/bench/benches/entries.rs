//! `cargo bench`: varve-bench's measurements, each short, one after the other.
//!
//!   cargo bench -p varve-bench                 all of them: some minutes, most of them the release build
//!   cargo bench -p varve-bench -- drive lfs    only entries whose names hold one of these
//!   cargo bench -p varve-bench -- --list       what there is, with the commands
//!
//! An entry is a command of the program `varve-bench` with small arguments; what it prints is what the command
//! prints. To compare two commits, run both in the same minute, several times.

use std::process::{Command, ExitCode};

/// A trace is written before it is played.
const WRITTEN: &str = "trace/write";
const PLAYED: &str = "drive/trace";

/// Names, and the words behind `varve-bench`.
const ENTRIES: [(&str, &str); 12] = [
    ("drive/steady-writes", "drive --set geometry.blocks=32 --requests 500000"),
    ("memory/allocations", "memory --set capacity=16GiB --requests 200000"),
    ("lfs/operations", "lfs ops --size 512MiB --files 4000 --count 200000"),
    ("lfs/operations-scj", "lfs ops --size 512MiB --files 4000 --count 200000 --cleaning scj"),
    ("lfs/mount", "lfs mount --size 1GiB --files 2000"),
    ("remap/plan", "remap plan --mapped 4GiB --count 1000000"),
    ("remap/clean", "remap clean --fill 80 --segments 200"),
    ("remap/verify", "remap verify --size 128MiB --count 50000 --runs 1"),
    ("image/commits", "image --capacity 256MiB --commits 500"),
    ("sqlite/commits", "sqlite --data 4194304 --commits 50 --rounds 3"),
    (WRITTEN, "trace --out {trace} --requests 300000 --slots 60000 --bytes 4096"),
    (PLAYED, "drive --trace {trace} --format ssdsim --time-unit ns --fold"),
];

fn main() -> ExitCode {
    let folder = std::env::temp_dir().join(format!("varve-bench-{}", std::process::id()));
    if let Err(error) = std::fs::create_dir_all(&folder) {
        eprintln!("{}: {error}", folder.display());
        return ExitCode::FAILURE;
    }
    let done = run(&folder.join("trace").display().to_string());
    let _ = std::fs::remove_dir_all(&folder);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(trace: &str) -> Result<(), String> {
    // Cargo says `--bench` itself.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if words.iter().any(|word| word == "--list") {
        ENTRIES.iter().for_each(|(name, command)| println!("{name:<20} varve-bench {command}"));
        return Ok(());
    }
    if let Some(option) = words.iter().find(|word| word.starts_with('-')) {
        return Err(format!("`{option}`: expected --list or parts of the names that it shows"));
    }
    let wanted =
        |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    let needed = |name: &str| name == WRITTEN && wanted(PLAYED);
    let chosen: Vec<_> = ENTRIES.iter().filter(|(name, _)| wanted(name) || needed(name)).collect();
    if chosen.is_empty() {
        return Err(format!("no entry is called {}; --list shows them", words.join(" or ")));
    }
    for (name, command) in chosen {
        println!("{name}");
        let words = command.split(' ').map(|word| word.replace("{trace}", trace));
        let mut run = Command::new(env!("CARGO_BIN_EXE_varve-bench"));
        let ended = run.args(words).status().map_err(|error| format!("varve-bench: {error}"))?;
        if !ended.success() {
            return Err(format!("{name}: `varve-bench {command}`: {ended}"));
        }
    }
    Ok(())
}
