//! What a run costs the machine it runs on: CPU seconds, memory, allocations.
//!
//! Everything varve prints elsewhere is the same on every machine; this program's figures are
//! not, and no other part reads a process's clock or memory. `bench/peers.sh` runs it beside the
//! simulators it is compared with. Output is one `name value` pair a line.

mod args;
mod drive;
mod generate;
mod image;
mod lfs;
mod lru;
mod memory;
mod meter;
mod remap;
mod sqlite;
mod wire;

use std::process::ExitCode;

use args::Args;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let words: Vec<String> = words.collect();
    match command.as_str() {
        "lfs" => return ended(lfs::run(words)),
        "remap" => return ended(remap::run(words)),
        _ => {}
    }
    let args = Args::new(words);
    let done = match command.as_str() {
        "drive" => drive::run(args),
        "image" => image::run(args),
        "lru" => lru::run(args),
        "memory" => memory::run(args),
        "sqlite" => sqlite::run(args),
        "trace" => generate::run(args),
        "wire" => wire::run(args),
        "help" | "-h" | "--help" => {
            for help in [
                drive::HELP,
                image::HELP,
                lfs::HELP,
                lru::HELP,
                memory::HELP,
                remap::HELP,
                sqlite::HELP,
                generate::HELP,
                wire::HELP,
            ] {
                println!("{help}");
            }
            return ExitCode::SUCCESS;
        }
        other => Err(format!(
            "`{other}`: expected drive, image, lfs, lru, memory, remap, sqlite, trace, wire or help"
        )),
    };
    ended(done)
}

fn ended(done: Result<(), String>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("varve-bench: {reason}");
            ExitCode::FAILURE
        }
    }
}
