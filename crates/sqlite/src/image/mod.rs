//! Databases into image files and out of them, and out of other stores.
//!
//! Invariants: an image appears under its name only when its store was closed, opened again and
//! found to hold what was read; nothing that exists is overwritten; a store is opened only for as
//! long as a command works on it.

mod moved;
mod refusal;
mod salvage;
mod served;
mod sound;

pub use moved::{Copied, Imported, Resized, backup, export, export_named, import, resize};
pub use refusal::{refused, unusable};
pub use salvage::{Saved, salvage};
pub use served::Served;
pub(crate) use served::at_one_moment;
pub use sound::{Sound, SoundDrive, check, check_drive, check_image, check_store};
