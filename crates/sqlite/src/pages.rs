//! The independent counter: 4 KiB pages of files that a host's page cache sends down.
//!
//! A page that was written counts once between two syncs of its file, whatever was written to it;
//! what is cut off or deleted before a sync never reaches a device. It knows nothing of any drive,
//! so that the model can be held against it.

use std::collections::{BTreeMap, BTreeSet};

use varve_sqlite_vfs::event::{Call, Event};
use varve_sqlite_vfs::vfs::Kind;

use crate::files::Tap;

const PAGE: u64 = 4096;

/// Pages that reached a device, by what they belong to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Pages {
    /// Of databases.
    pub database: u64,
    /// Of write-ahead logs.
    pub log: u64,
    /// Of rollback journals, super-journals among them.
    pub journal: u64,
    /// Page images written to logs: pages of a log that stores images aligned, frame headers
    /// apart.
    pub images: u64,
    /// Of databases, when whole transactions are gathered until a number of page writes.
    pub grouped: u64,
}

/// Counts pages between syncs.
#[derive(Debug)]
pub struct PageCounter {
    /// Written and not synced, by name.
    dirty: BTreeMap<String, (Kind, BTreeSet<u64>)>,
    pages: Pages,
    group: u64,
    gathered: BTreeSet<(String, u64)>,
    writes: u64,
}

impl PageCounter {
    /// A counter for groups of `group` page writes.
    pub fn new(group: u64) -> PageCounter {
        PageCounter {
            dirty: BTreeMap::new(),
            pages: Pages::default(),
            group,
            gathered: BTreeSet::new(),
            writes: 0,
        }
    }

    /// Starts again, as if all had been synced.
    pub fn reset(&mut self) {
        *self = PageCounter::new(self.group);
    }

    /// What has reached the device when all is synced.
    pub fn finish(&mut self) -> Pages {
        for (kind, pages) in std::mem::take(&mut self.dirty).into_values() {
            self.count(kind, pages.len() as u64);
        }
        self.end_group();
        self.pages
    }

    fn count(&mut self, kind: Kind, count: u64) {
        match kind {
            Kind::Database => self.pages.database += count,
            Kind::Wal => self.pages.log += count,
            Kind::Journal | Kind::Super => self.pages.journal += count,
            Kind::Temp => {}
        }
    }

    fn write(&mut self, event: &Event<'_>, at: u64, bytes: u64) {
        let pages = at / PAGE..=(at + bytes - 1) / PAGE;
        if event.kind == Kind::Database {
            self.gathered.extend(pages.clone().map(|page| (event.name.to_string(), page)));
            self.writes += pages.clone().count() as u64;
        }
        self.pages.images += u64::from(event.kind == Kind::Wal && bytes == PAGE);
        match self.dirty.get_mut(event.name) {
            Some((_, dirty)) => dirty.extend(pages),
            None => {
                let dirty = (event.kind, pages.collect());
                self.dirty.insert(event.name.to_string(), dirty);
            }
        }
    }

    fn end_group(&mut self) {
        self.pages.grouped += self.gathered.len() as u64;
        self.gathered.clear();
        self.writes = 0;
    }
}

impl Tap for PageCounter {
    fn event(&mut self, event: &Event<'_>) {
        match event.call {
            Call::Write { at, data } if !data.is_empty() => {
                self.write(event, at, data.len() as u64);
            }
            Call::Truncate(size) => {
                if let Some((_, dirty)) = self.dirty.get_mut(event.name) {
                    dirty.split_off(&size.div_ceil(PAGE));
                }
            }
            Call::Delete(_) => {
                self.dirty.remove(event.name);
            }
            Call::Sync => {
                if let Some((kind, pages)) = self.dirty.remove(event.name) {
                    self.count(kind, pages.len() as u64);
                }
            }
            Call::Commit if self.writes >= self.group => self.end_group(),
            _ => {}
        }
    }
}
