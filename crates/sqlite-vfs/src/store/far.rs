//! Stores in a namespace behind a wire: how one is opened, and comes to be.
//!
//! Invariants:
//! * a namespace is made a store only if both of its ends are empty, and only for whoever may create one;
//! * it is claimed before anything of it is read: one process has it, readers too.

use block::{BlockDevice, Bytes, Data, Lba, Request, SECTOR_BYTES, Sectors, Time, TxError};
use wire::nvme::{Drive, Place};

use super::core::Core;
use super::device::Device;
use super::open::{LOG_PAGE, OpenError, log_within};
use super::super_journal::is_companion;
use super::table::PAGE;
use super::{Store, StoreError, StoreOptions};

/// Bytes at each end of a namespace in which others that may lie there have something of theirs.
const ENDS: u64 = 1 << 20;

/// The name under which the files of a namespace are opened: no file has such a one.
pub(super) fn name_of(place: &Place) -> String {
    let Place { nqn, nsid, .. } = place;
    let address = Place { nqn: None, nsid: 1, ..place.clone() };
    let at = address.to_string().replacen("//", "/", 1);
    format!("{at}/{}/{nsid}", nqn.as_deref().unwrap_or("-"))
}

/// Whether a name is one of those.
pub(super) fn is_far(name: &str) -> bool {
    name.starts_with("nvme-tcp:/")
}

/// Whether nothing was ever written to so many pages.
fn is_blank(device: &mut dyn Device, first: u64, count: u64) -> Result<bool, StoreError> {
    const AT_ONCE: u64 = 32;
    let sectors = PAGE as u64 / SECTOR_BYTES;
    for at in (first..first + count).step_by(AT_ONCE as usize) {
        let now = AT_ONCE.min(first + count - at);
        let mut bytes = vec![0; (now * PAGE as u64) as usize];
        let read = Request::read(Lba(at * sectors), Sectors(now * sectors));
        let read = device.submit(Time::ZERO, read.with(Data::Read(&mut bytes)));
        read.map_err(TxError::from)?;
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes a store of a namespace that has held nothing.
fn make(mut drive: Drive, mut options: StoreOptions) -> Result<Store, StoreError> {
    let size = Bytes(drive.capacity().0 * SECTOR_BYTES);
    let (pages, ends) = (size.0 / PAGE as u64, ENDS / PAGE as u64);
    let last = pages.saturating_sub(ends);
    if !is_blank(&mut drive, 0, ends.min(pages))? || !is_blank(&mut drive, last, pages - last)? {
        return Err(StoreError::Taken);
    }
    if options.delta && options.log_pages.is_none() {
        options.log_pages = Some((log_within(size) / LOG_PAGE) as u32);
    }
    // Before the header says whose they are: no page of a store of before comes back by a power cut.
    let all = Request::discard(Lba(0), drive.capacity());
    drive.submit(Time::ZERO, all).map_err(TxError::from)?;
    drive.submit(Time::ZERO, Request::flush()).map_err(TxError::from)?;
    Store::format(Box::new(drive), options)
}

impl Store {
    /// Opens the store in a namespace; `create`: one that is empty becomes a store. One process at a time.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_at(place: &Place, options: StoreOptions, create: bool) -> Result<Store, OpenError> {
        let mut drive = Drive::connect(place)?;
        let opened = match is_blank(&mut drive, 0, 1) {
            Ok(true) if create => make(drive, options),
            Ok(_) => Store::mount(Box::new(drive), options),
            Err(error) => Err(error),
        };
        opened.map_err(|error| OpenError::Store { path: place.to_string(), error })
    }
}

/// The object of a database that is named so, if it may be: journals name each other and their databases by full names,
/// which therefore must not depend on where one works.
pub(super) fn object_at(full: &str) -> Option<&str> {
    full.strip_prefix('/').filter(|name| !name.is_empty() && !name.contains('/'))
}

impl Core {
    /// The object of a file, or of one beside it, if there is such a database here or one was asked for.
    pub(super) fn known_of(&self, full: &str) -> Option<String> {
        let name = object_at(full)?;
        let mut beside = name.rmatch_indices('-').map(|(at, _)| at);
        let base = beside.find(|at| is_companion(&name[*at..])).map_or(name, |at| &name[..at]);
        let known = self.known.contains(base) || self.names.contains_key(base);
        known.then(|| name.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_a_name_that_is_no_files() {
        for (place, name) in [
            ("nvme-tcp://127.0.0.1", "nvme-tcp:/127.0.0.1:4420/-/1"),
            ("nvme-tcp://127.0.0.1:5/nqn.a:b?nsid=2", "nvme-tcp:/127.0.0.1:5/nqn.a:b/2"),
        ] {
            let place: Place = place.parse().unwrap();
            assert_eq!(name_of(&place), name);
            assert!(is_far(name));
        }
    }
}
