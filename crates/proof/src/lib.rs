//! The crash-proof harness: power cuts everywhere, judged by a model that shares no code with
//! what it judges.
//!
//! Invariants of this crate:
//! * it makes every cut from a finished run (the image is taken back, the workload is not run
//!   again), and each image goes through the subject's own recovery;
//! * the oracle knows only requests and answers: it never looks inside a subject;
//! * whatever is drawn is drawn before execution and written down ([`Plan`]), so a failure is a
//!   file that replays.
//!
//! A layer joins by implementing [`Subject`] (and [`PageSubject`] if it is a block device); one
//! that promises more than a block device brings its own [`Oracle`].

mod atlas;
mod catch;
pub mod cleaning;
mod coverage;
mod cuts;
mod digest;
mod drive;
mod failure;
mod findings;
mod lfs;
mod model;
mod oracle;
mod plan;
mod planted;
mod prover;
mod remap;
mod replay;
mod shared;
mod shrink;
mod stack;
mod stamp;
mod step;
mod subject;
mod swarm;
pub mod twin;
mod tx;

pub use atlas::{Expect, name as fault_name, outcome, tolerance, worst};
pub use coverage::Tally;
pub use cuts::PowerCut;
pub use digest::RunsDigest;
pub use drive::{DriveSpec, DriveSubject, Shape};
pub use failure::{Contract, Failure};
pub use findings::Findings;
pub use lfs::{FsAction, FsOracle, FsSpec, FsSubject, Path, Refusal, Tree, draw_lfs, sequences};
pub use model::{Content, Model, Point, Seen, Tolerance, ZERO};
pub use oracle::{PageOracle, PageSubject};
pub use plan::{Plan, PlanError};
pub use planted::{WITHOUT as WITHOUT_BUGS, bug_names};
pub use prover::{Broken, DEPTH, Density, Prover};
pub use remap::{
    Clients, HostSubject, Ledger, LogKind, LogOracle, LogSubject, Promise, RemapMode, RemapSpec,
    draw_remap,
};
pub use replay::{HuntOutcome, ReplayOutcome, hunt, hunt_while, replay, replay_file, twice};
pub use shared::{Remains, disk_cut};
pub use shrink::shrink;
pub use stack::{Judge, StackSpec, StackSubject, draw_stack};
pub use stamp::{Found, decode, decode_sector, fill_sector, stamp};
pub use step::{Action, Class, Step};
pub use subject::{DurableKind, Oracle, Subject};
pub use swarm::{Draw, draw as draw_run};
pub use tx::{TxOracle, draw_paper, draw_tx};
