//! The laboratory: scenarios, runs, metrics, comparison, report.
//!
//! Here the layers meet: a workload (a trace, a recipe, tenants) is replayed on a drive in virtual
//! time, and what came of it becomes one result document. Promises kept here:
//! * the same scenario and seed give the same bytes, on any number of threads (contract C9);
//! * every request submitted is served and every program is accounted for (C8), or there is no
//!   result;
//! * what is not known is absent from a document, never 0.

pub mod bare;
mod chosen;
pub mod cite;
pub mod compare;
mod document;
mod error;
pub mod explain;
pub mod fileload;
pub mod files;
pub mod folder;
pub mod histogram;
pub mod hits;
pub mod input;
mod layers;
pub mod lockstep;
mod memory;
pub mod metric;
mod points;
pub mod replay;
pub mod report;
pub mod result;
mod run;
pub mod scenario;
pub mod selfcheck;
mod setting;
pub mod sim;
mod slowdown;
pub mod study;
pub mod trace;

pub use document::{Document, HostCost};
pub use error::LabError;
pub use layers::{RemapMode, StackConfig};
pub use points::{Impossible, Point};
pub use run::{Each, Experiment};
pub use stack::{Amplification, Device, LayerCounts, Modelled};
