//! `varve man` and `varve completions`: what the command line accepts, for man(1) and for shells.

use clap::CommandFactory;
use lab::LabError;

use crate::args::{Args, Completions, Man};
use crate::print;

/// `varve man DIR`: a page of section 1 for the program and for each subcommand.
pub fn man(args: &Man) -> Result<(), LabError> {
    let dir = &args.dir;
    let failed = |error| LabError::io(dir, error);
    std::fs::create_dir_all(dir).map_err(failed)?;
    clap_mangen::generate_to(Args::command(), dir).map_err(failed)
}

/// `varve completions SHELL`.
pub fn completions(args: &Completions) -> Result<(), LabError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "varve", &mut script);
    print(&String::from_utf8_lossy(&script))
}
