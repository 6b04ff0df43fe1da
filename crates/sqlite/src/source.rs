//! Where a store is: in an image file, or in a namespace behind a wire.
//!
//! Invariants: an image is read beside whoever writes it, and nothing is written to it; a namespace is claimed for as long as
//! a command works on it, and one that holds no store does not become one.

use std::fmt;
use std::path::{Path, PathBuf};

use lab::LabError;
use varve_sqlite_vfs::{OpenError, Store, StoreOptions};
pub use wire::nvme::Place;
use wire::nvme::place::SCHEME;

use crate::image::{Served, at_one_moment, refused};

/// See the module.
#[derive(Clone, Debug)]
pub enum Source {
    /// An image file.
    Image(PathBuf),
    /// A namespace.
    Namespace(Place),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Image(path) => path.display().fmt(f),
            Source::Namespace(place) => place.fmt(f),
        }
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Source {
    fn from(image: &P) -> Source {
        Source::Image(image.as_ref().to_path_buf())
    }
}

impl From<Place> for Source {
    fn from(place: Place) -> Source {
        Source::Namespace(place)
    }
}

/// Whether a name is that of a namespace.
pub fn is_namespace(name: &Path) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(SCHEME))
}

impl Source {
    /// Does something with the store, as it was at one moment: anew if the writer of an image has reused meanwhile what
    /// was read.
    pub(crate) fn with_store<T>(
        &self,
        mut body: impl FnMut(&Served) -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        match self {
            Source::Image(image) => at_one_moment(image, body),
            Source::Namespace(place) => {
                let store = Store::open_at(place, StoreOptions::default(), false);
                let store = store.map_err(|error| match error.is_busy() {
                    true => busy(&error),
                    false => refused(error),
                })?;
                body(&Served::new(&place.to_string(), store)?)
            }
        }
    }
}

fn busy(error: &OpenError) -> LabError {
    LabError::Failed(format!("{error}; a store serves one process at a time, readers too"))
}
