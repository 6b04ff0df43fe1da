//! `varve reproduce`: a paper's experiments, the paper's numbers beside ours; or all of them.

mod all;

use std::path::Path;

use lab::LabError;
use lab::fileload::FilesSpec;
use lab::files::write_whole;
use report::study::Study;
use studies::{Options, Scale, compose, isolation, nolog, remap, scj};

use crate::args::{Paper, Reproduce};
use crate::{VERSION, note, print, stop};

/// Where captured traces are unless `--data` names another folder.
const DATA: &str = "data";

/// `varve reproduce`.
pub fn reproduce(args: &Reproduce) -> Result<(), LabError> {
    if args.full && args.paper != Paper::Scj {
        return Err(LabError::Input("--full is for scj only".to_string()));
    }
    if args.paper != Paper::Scj && (args.claims || args.seeds.is_some() || args.keep.is_some()) {
        let what = "--claims, --seeds and --keep are for scj only";
        return Err(LabError::Input(what.to_string()));
    }
    if args.paper == Paper::All {
        return all::reproduce(args);
    }
    let study = stop::at_once(|| study(args, args.paper))?;
    show(args, &study)?;
    match study.checks.iter().filter(|check| !check.holds).count() {
        0 => Ok(()),
        n => {
            note(&format!("{n} statements about direction do not hold here; see above"));
            Ok(())
        }
    }
}

/// The studies, in the order in which they are told.
const STUDIES: [Paper; 5] =
    [Paper::Remap, Paper::Scj, Paper::Isolation, Paper::Nolog, Paper::Compose];

/// A study's name on the command line and of its file.
fn name(paper: Paper) -> &'static str {
    match paper {
        Paper::Remap => "remap",
        Paper::Scj => "scj",
        Paper::Isolation => "isolation",
        Paper::Nolog => "nolog",
        Paper::Compose => "compose",
        Paper::All => "all",
    }
}

/// Runs a study.
fn study(args: &Reproduce, paper: Paper) -> Result<Study, LabError> {
    let threads = args
        .threads
        .map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let command = command(args, paper);
    let scale = match (args.quick, args.full) {
        (true, _) => Scale::Quick,
        (_, true) => Scale::Full,
        _ => Scale::Default,
    };
    let (data, msr) = (args.data.clone(), args.msr.clone());
    let (kept, seeds, claims) = (args.keep.clone(), args.seeds, args.claims);
    let load = args.load.as_deref().map(FilesSpec::read).transpose().map_err(LabError::Input)?;
    let (units, load) = (args.units, load.map(|spec| spec.load));
    let options = Options { scale, data, msr, units, threads, kept, seeds, claims, load, command };
    match paper {
        Paper::Remap => remap::run(&options),
        Paper::Isolation => isolation::run(&options),
        Paper::Scj => scj::run(&options),
        Paper::Nolog => nolog::run(&options),
        Paper::Compose => compose::run(&options),
        Paper::All => Err(LabError::Failed("all studies are no study".to_string())),
    }
}

/// The command that gives the same bytes again.
fn command(args: &Reproduce, paper: Paper) -> String {
    let mut words = vec![format!("varve reproduce {}", name(paper))];
    if args.quick {
        words.push("--quick".to_string());
    }
    if args.full {
        words.push("--full".to_string());
    }
    if args.claims {
        words.push("--claims".to_string());
    }
    if let Some(load) = &args.load {
        words.push(format!("--load {load}"));
    }
    if let Some(seeds) = args.seeds {
        words.push(format!("--seeds {seeds}"));
    }
    let reads = matches!(paper, Paper::Remap | Paper::Isolation | Paper::Compose | Paper::All);
    if reads && args.data != Path::new(DATA) {
        words.push(format!("--data {}", args.data.display()));
    }
    if !matches!(paper, Paper::Isolation | Paper::All) {
        return words.join(" ");
    }
    if args.units != isolation::UNITS {
        words.push(format!("--units {}", args.units));
    }
    if let Some(folder) = &args.msr {
        words.push(format!("--msr {}", folder.display()));
    }
    words.join(" ")
}

fn show(args: &Reproduce, study: &Study) -> Result<(), LabError> {
    let json = study.json(VERSION).pretty();
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).map_err(|e| LabError::io(folder, e))?;
        write_whole(&folder.join("study.json"), json.as_bytes())?;
        write_whole(&folder.join("study.html"), study.html(VERSION).as_bytes())?;
    }
    if args.json { print(&json) } else { print(&study.text()) }
}
