//! Stores behind the name of a file: the one place that knows which backings there are.

use std::path::Path;

use block::Bytes;
use live::{ImageDrive, LiveError, PowerCut};
use wire::nvme::DriveError;

use super::space::EXTENT;
use super::table::GROWING_SLOTS;
use super::{Store, StoreError, StoreOptions};

/// Bytes a new image holds at first, if it may grow: a table and one extent.
pub const FIRST_CAPACITY: Bytes = Bytes((2 + GROWING_SLOTS as u64 + EXTENT) * LOG_PAGE);
/// Bytes that one may hold some day unless `?limit=` says otherwise.
pub const USUAL_LIMIT: Bytes = Bytes(4 << 30);
/// Bytes of a page of the log, and what a new image has of it unless `?log=` says otherwise: as much as it holds in
/// whole MiB, within these. The longer a log is, the more commits share a page that is written once.
pub(super) const LOG_PAGE: u64 = 4096;
const LEAST_LOG: u64 = 1 << 20;
const MOST_LOG: u64 = 16 << 20;

/// Bytes of the log of an image that holds so many bytes.
pub(super) fn usual_log(capacity: Bytes) -> u64 {
    (capacity.0 / LEAST_LOG * LEAST_LOG).clamp(LEAST_LOG, MOST_LOG)
}

/// The same where it takes room of what the device holds: a quarter of that at most.
pub(super) fn log_within(capacity: Bytes) -> u64 {
    usual_log(Bytes(capacity.0 / 4))
}

/// Why a name cannot be opened as a store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The image cannot be opened or made.
    #[error(transparent)]
    Image(#[from] LiveError),
    /// The namespace behind a wire cannot be had.
    #[error(transparent)]
    Far(#[from] DriveError),
    /// The image holds no store, or its device fails.
    #[error("{path}: {error}")]
    Store {
        /// The image.
        path: String,
        /// Why.
        error: StoreError,
    },
}

impl OpenError {
    /// Whether another process has the store.
    pub fn is_busy(&self) -> bool {
        match self {
            OpenError::Image(LiveError::InUse { .. } | LiveError::Restless { .. }) => true,
            OpenError::Far(error) => matches!(error, DriveError::InUse { .. }),
            _ => false,
        }
    }
}

impl Store {
    /// Opens the store in an image file; what it acknowledges is on the file. One process at a
    /// time. Stores in memory are made by [`Store::format`] and given a name by
    /// [`super::Stores::add`].
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(path: &Path, options: StoreOptions) -> Result<Store, OpenError> {
        Store::open_until(path, options, None)
    }

    /// The same, and the power of the machine goes at `cut`: the file is left as after that.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_until(
        path: &Path,
        options: StoreOptions,
        cut: Option<PowerCut>,
    ) -> Result<Store, OpenError> {
        let device = ImageDrive::open_until(path, cut)?;
        Store::mount_image(device, options)
            .map_err(|error| OpenError::Store { path: path.display().to_string(), error })
    }

    /// Makes an image file for `capacity` bytes, and an empty store in it. The file takes about
    /// a third more, one for less than 48 MiB up to three times as much, and its log: the capacity, from 1 MiB to 16 MiB,
    /// unless the options say otherwise. It grows on demand until it holds what the options say. The fuller a store, the more its cleaning writes: see the
    /// README.
    ///
    /// # Errors
    /// [`OpenError`]; nothing is left behind.
    pub fn create(path: &Path, capacity: Bytes, options: StoreOptions) -> Result<Store, OpenError> {
        let limit = options.limit.unwrap_or(capacity);
        let usual = if options.delta { usual_log(capacity) } else { 0 };
        let log = options.log_pages.map_or(usual, |pages| u64::from(pages) * LOG_PAGE);
        let mut device = ImageDrive::create_to_grow(path, capacity, Bytes(log), limit)?;
        let unmake = device.unmaking();
        Store::format_image(device, options).map_err(|error| {
            unmake();
            OpenError::Store { path: path.display().to_string(), error }
        })
    }
}
