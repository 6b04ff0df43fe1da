//! Transactions under proof: their reference model, their oracle, their draws.

mod draw;
mod look;
mod model;
mod oracle;

pub use draw::{draw_paper, draw_tx};
pub use oracle::TxOracle;
