//! The host log under proof: its ledger, its oracle, its subjects and draws. What it is asked to
//! keep are the invariants I1 to I10 of `docs/contract.md`.

mod clients;
mod draw;
mod ledger;
pub(crate) mod live;
mod oracle;
mod spec;
mod subject;
mod turns;

pub use clients::Clients;
pub use draw::draw_remap;
pub(crate) use draw::work;
pub use ledger::Ledger;
pub use oracle::{LogOracle, LogSubject, Promise};
pub use spec::{LogKind, RemapMode, RemapSpec};
pub use subject::HostSubject;
