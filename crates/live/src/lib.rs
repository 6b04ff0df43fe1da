//! A drive whose flash is an image file.
//!
//! The FTL is the modelled one, without time; its array keeps every page in the file as well. A
//! write is durable when a flush, a write with FUA or a commit has returned: then it is on the
//! file, and `fdatasync` has returned too.
//!
//! Invariants:
//! * what is in the file is what the array held some operations ago, whatever subset of the
//!   sectors written since the last `fdatasync` a power cut leaves;
//! * a log of commits beside the flash, if the image has one, is written in place: what was appended is
//!   durable when that returns, and it is whoever appends that knows what of it counts;
//! * a drive that grows is as it was, or has grown, whatever a power cut leaves;
//! * after an error of the file nothing is written any more: the next power-on starts from what
//!   was durable;
//! * what was durable and is damaged is an error that names the place: an image of which something
//!   is missing that nobody can name is not opened, and a damaged page is not read.

mod annex;
mod beside;
mod cut;
mod damage;
mod direct;
mod drive;
mod error;
mod file;
mod grow;
mod header;
mod image;
mod layout;
mod load;
mod log;
mod medium;
mod named;
mod planted;
mod pointer;
mod power;
mod ranges;
mod record;
mod region;
mod run;
mod served;
mod superblock;

pub use annex::Annex;
pub use beside::{Moment, patiently};
pub use cut::{CutMedium, Left};
pub use damage::Damage;
pub use drive::{ImageDrive, PowerCut};
pub use error::LiveError;
pub use file::FileStats;
pub use image::is_image;
pub use medium::FileMedium;
pub use named::Named;
#[doc(hidden)]
pub use planted::Planted;
