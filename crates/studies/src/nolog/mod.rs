//! Paper 4: transactions in the drive beside write-ahead logging, with SQLite above.
//!
//! Pages first: what each system writes is counted by the model and by an independent counter,
//! which must agree. Then time, on flash without cleaning and on the FTL drive.

mod causes;
mod clairvoyant;
mod closed;
pub mod delta;
mod experiment;
mod locks;
mod overwrite;
mod paper;
pub mod records;
pub mod steady;
pub mod store;
mod text;
mod tpcc;
mod ycsb;

use crate::{Options, Scale};
use lab::LabError;
use report::study::{Rows, Study};

pub use experiment::{CPU, FULL, Loaded, NORMAL, Outcome, Variant, Windows, load};

/// The seed of all generators but those of the byte tables, which have their own.
const SEED: u64 = 4;

/// Runs the experiments.
///
/// # Errors
/// A drive that refuses, or SQLite.
pub fn run(options: &Options) -> Result<Study, LabError> {
    let mut study = Study {
        title: "Transactions in the drive instead of logging (paper 4)".to_string(),
        command: options.command.clone(),
        note: "SQLite itself, in process, in virtual time: 4 KiB pages, cache 4096 pages, \
               autocheckpoint 1000, 30 us of the host for each operation. The host's page cache \
               holds the files: pages go down when SQLite syncs, file-system metadata is left \
               out. Base-WAL: stock SQLite. SW-WAL: the log's page images aligned, its headers \
               apart, checkpoints by remapping. NoLgn: transactions of the drive, commit = \
               counted unless barrier is said, lock = prefer. FULL: durable at every commit. NORMAL: at checkpoints, \
               NoLgn in groups of 1000 page writes. The \
               drive: 16 GiB, blocks of 64 pages, cleaned by lines of a block of every \
               die (--quick: 256 MiB, 8 pages, an eighth or a quarter of the dies). Read the paper's figures as +-8 points: \
               they are ratios of means, and differ by as much among themselves."
            .to_string(),
        seed: SEED,
        conditions: paper::CONDITIONS.to_vec(),
        ..Study::default()
    };
    let (scale, threads) = (options.scale, options.threads);
    overwrite::run(scale, threads, &mut study)?;
    steady::run(scale, threads, &mut study)?;
    delta::run(scale, threads, &mut study)?;
    locks::run(scale, threads, &mut study)?;
    store::run(&mut study)?;
    // Where the paper's figures depend on the drive, without the one that only cleans otherwise.
    let drives = if scale == Scale::Quick { 1 } else { 2 };
    for condition in &paper::CONDITIONS[..drives] {
        ycsb::run(scale, threads, condition, &mut study)?;
        tpcc::run(scale, threads, condition, &mut study)?;
    }
    let left = if scale == Scale::Quick { Rows::Fewer } else { Rows::All };
    study.answer(paper::STATEMENTS, left)?;
    Ok(study)
}

#[cfg(test)]
mod tests {
    use super::{Scale, Study, locks};

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let text = |threads| {
            let mut study = Study::default();
            locks::run(Scale::Quick, threads, &mut study).expect("it runs");
            study.text()
        };
        assert_eq!(text(1), text(3));
    }
}
