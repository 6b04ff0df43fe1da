//! Stores behind the name of a file: the one place that knows which backings there are.

use std::path::Path;

use super::{Options, Store};

/// Why a name cannot be opened as a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There is no device that lies in a file: RAM would forget, and a name that sounds durable
    /// may not lead to it.
    #[error("{0}: this build has no device that lies in an image file, so nothing was opened")]
    NoFileDevice(String),
}

impl Store {
    /// Opens the store in an image file, for good durable. Stores in memory are made by
    /// [`Store::format`] and given a name by [`super::Stores::add`].
    ///
    /// # Errors
    /// [`OpenError`]; every name, until a device lies in a file.
    pub fn open(path: &Path, _options: Options) -> Result<Store, OpenError> {
        Err(OpenError::NoFileDevice(path.display().to_string()))
    }
}
