//! The file system under proof: what it is asked to do, its reference model, its oracle, its subject
//! and draws. What it owes is C12 of `docs/contract.md`.

mod checkpoints;
mod draw;
mod look;
mod model;
mod oracle;
mod spec;
mod step;
mod subject;
mod syncs;
mod turns;
mod waiting;

pub(crate) use draw::work;
pub use draw::{draw_lfs, sequences};
pub use model::{Refusal, Tree};
pub use oracle::FsOracle;
pub use spec::FsSpec;
pub(crate) use step::parse_action;
pub use step::{FsAction, Path};
pub use subject::FsSubject;
