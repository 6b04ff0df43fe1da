//! Stacks: one grammar, one builder.
//!
//! `drive(970-pro, scale=1/64)+log(gc.victim=cost-benefit)` is a stack on the command line and in a
//! scenario. [`Description`] is what it says; [`rules`] say which there are; [`Modelled`] makes one in
//! virtual time and [`live::Stack`] one that serves real programs.
//!
//! | | |
//! | --- | --- |
//! | [`grammar`] | the text |
//! | [`description`] | what it means |
//! | [`rules`] | what goes where |
//! | [`modelled`] | devices in virtual time |
//! | [`disk`], [`power`] | live devices of bytes, and their switch |
//! | [`live`] | a live stack |
//! | [`datalog`] | everything that changed a disk, with its data |

pub mod datalog;
pub mod description;
pub mod disk;
mod drive;
mod error;
pub mod grammar;
pub mod live;
pub mod modelled;
pub mod notice;
pub mod power;
pub mod rules;

pub use description::{Base, Description, Keys, Layer};
pub use drive::{drive_config, drive_params};
pub use error::StackError;
pub use modelled::{Amplification, Device, LayerCounts, Modelled};
