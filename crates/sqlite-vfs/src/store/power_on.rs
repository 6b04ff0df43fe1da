//! A store is made, or found on its device.
//!
//! Invariant: nothing is written by finding it; the header is written last by making it.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};

use block::{Bytes, DeviceError, Lba, Request, Time, TxError};
use live::Annex;

use super::behind::Behind;
use super::core::{Core, Done, Id, PAGE_BYTES, read_plain};
use super::device::Device;
use super::objects::{Group, Object};
use super::queue::Queue;
use super::record::{Grain, Packer};
use super::ring::{Ring, with_log};
use super::space::Space;
use super::table::{Header, Layout, LogPlace, PAGE, Part, decode};
use super::{Stats, StoreError, StoreOptions};

fn pages_of(device: &dyn Device) -> u32 {
    let pages = device.capacity().0 / (PAGE_BYTES / block::SECTOR_BYTES);
    u32::try_from(pages).unwrap_or(u32::MAX)
}

impl Core {
    /// Reads a store's table. `None`: the device holds no store.
    pub(super) fn mount(
        mut device: Box<dyn Device>,
        annex: Option<Annex>,
        options: StoreOptions,
    ) -> Result<Option<Core>, StoreError> {
        let mut page = vec![0u8; PAGE];
        let now = read_plain(device.as_mut(), Time::ZERO, 0, &mut page)?;
        let Some(mut header) = Layout::decode(&page) else { return Ok(None) };
        // Since it was written the device may have grown.
        header.layout.pages = header.layout.pages.max(pages_of(device.as_ref()));
        let layout = header.layout;
        let mut core = Core::empty(device, annex, now, layout, options);
        core.next_id = core.next_id.max(header.next);
        core.ring = core.find_ring(&header)?;
        let mut parts: BTreeMap<Id, Vec<(u32, Part)>> = BTreeMap::new();
        for slot in 0..layout.slots {
            core.read_lpn(layout.slot(slot), &mut page)?;
            if let Some(part) = decode(&page) {
                parts.entry(part.id).or_default().push((slot, part));
            }
        }
        for (id, mut found) in parts {
            found.sort_by_key(|(_, part)| part.part);
            let wanted = found.first().map_or(0, |(_, first)| first.parts);
            let whole = found.len() == wanted
                && found.iter().enumerate().all(|(i, (_, part))| part.part == i);
            if !whole {
                let wrong = DeviceError::Unsupported("the object table is damaged");
                return Err(TxError::from(wrong).into());
            }
            let mut object = Object { name: found[0].1.name.clone(), ..Object::default() };
            object.meta.size = found[0].1.size;
            for (slot, part) in found {
                core.space.slots.remove(&slot);
                object.meta.slots.push(slot);
                for extent in part.extents {
                    if !core.space.claim(extent, core.behind.is_some()) {
                        let wrong =
                            "the object table names an extent twice, or one that is not there";
                        return Err(TxError::from(DeviceError::Unsupported(wrong)).into());
                    }
                    object.meta.extents.push(extent);
                }
            }
            core.next_id = core.next_id.max(id + 1);
            core.names.insert(object.name.clone(), id);
            core.objects.insert(id, object);
        }
        if !header.sealed {
            core.replay()?;
        }
        core.space.was_found();
        if let Err(error) = core.load_durable_journals() {
            return Err(core.damage.take().map_or(error.into(), StoreError::Damaged));
        }
        Ok(Some(core))
    }

    /// Makes an empty store. What the device held is gone.
    pub(super) fn format(
        mut device: Box<dyn Device>,
        annex: Option<Annex>,
        options: StoreOptions,
    ) -> Done<Core> {
        let pages = pages_of(device.as_ref());
        let grows = device
            .growth()
            .is_some_and(|growth| growth.most() > Bytes(u64::from(pages) * PAGE_BYTES));
        let log = match (device.commit_log().is_some(), options.log_pages.unwrap_or(0)) {
            (true, _) => LogPlace::Device,
            (false, 0) => LogPlace::None,
            (false, pages) => LogPlace::Pages(pages),
        };
        let layout = if grows { Layout::that_grows(pages, log) } else { Layout::of(pages, log) };
        if layout.extents() == 0 {
            return Err(DeviceError::NoSpace("the device is too small for a store").into());
        }
        let all = Request::discard(Lba(0), device.capacity());
        let now = device.submit(Time::ZERO, all)?;
        let mut core = Core::empty(device, annex, now, layout, options);
        // A device's own log may hold commits of a store of before; pages were just discarded.
        let store = if log == LogPlace::Device { RandomState::new().hash_one(1) } else { 1 };
        let header = Header { layout, next: core.next_id, store, epoch: 1, sealed: false };
        core.ring = core.find_ring(&header)?;
        let page = core.header_now();
        core.write_lpn(0, &page)?;
        core.flush_device()?;
        Ok(core)
    }

    fn empty(
        device: Box<dyn Device>,
        annex: Option<Annex>,
        now: Time,
        layout: Layout,
        options: StoreOptions,
    ) -> Core {
        let space = Space::new(layout.extents(), layout.slots);
        Core {
            device,
            behind: annex.map(|annex| Behind::new(annex, layout)),
            now,
            layout,
            ring: None,
            packer: Packer::default(),
            tail: None,
            beside: None,
            queue: Queue::default(),
            owed: None,
            sleepers: BTreeMap::new(),
            space,
            objects: BTreeMap::new(),
            names: BTreeMap::new(),
            journals: BTreeMap::new(),
            left: BTreeSet::new(),
            spare: Vec::new(),
            open: BTreeMap::new(),
            group: Group::default(),
            options,
            stats: Stats::default(),
            bug: options.bug,
            unflushed: false,
            next_file: 1,
            next_id: 1,
            error: None,
            path: String::new(),
            was_called: None,
            known: BTreeSet::new(),
            in_image: false,
            named: None,
            broken: None,
            why: None,
            damage: None,
            no_growth: None,
            wants_growth: false,
            stray: BTreeMap::new(),
            unsynced_copy: false,
            journal_fault: None,
        }
    }

    /// Its log as the header has it.
    pub(super) fn find_ring(&mut self, header: &Header) -> Done<Option<Ring>> {
        let (layout, wanted) = (header.layout, self.options.log_grain);
        if layout.log == LogPlace::None {
            return Ok(None);
        }
        let (bytes, least, sink) =
            with_log(self.device.as_mut(), layout.log, layout.log_page(), |log| {
                Ok((log.log_bytes(), log.log_grain(), log.log_sink()))
            })?;
        self.queue.set_sink(sink);
        let grain = match wanted {
            512 if least <= 512 => Grain::Sector,
            4096 => Grain::Page,
            _ => {
                let what = "log_grain: expected 4096, or 512 where what the store lies on writes as little";
                return Err(DeviceError::Unsupported(what).into());
            }
        };
        Ok(Some(Ring::found(header.store, header.epoch, bytes, grain)))
    }
}

#[cfg(test)]
mod tests {
    use block::Bytes;
    use live::{ImageDrive, PowerCut};

    use super::super::Bug;
    use super::super::space::EXTENT;
    use super::*;

    /// Bytes of an object whose record is in one page, to the last.
    const MOST: u64 = 900 * EXTENT * PAGE_BYTES;

    /// An object begins a second part of its record, or gives it up, and the power goes at a write or sync: what a
    /// mount says then, or `None` if all was done before.
    fn cut_at(
        path: &std::path::Path,
        cut: PowerCut,
        (from, to): (u64, u64),
        bug: Option<Bug>,
    ) -> Option<Result<(), String>> {
        let _ = std::fs::remove_file(path);
        let drive = ImageDrive::create(path, Bytes(1 << 30)).unwrap();
        let mut core = Core::format(Box::new(drive), None, StoreOptions::default()).unwrap();
        let id = core.make("main");
        let grown = core.write_plain(id, &[1; PAGE], from - PAGE_BYTES);
        grown.and_then(|()| core.sync_plain()).unwrap();
        drop(core);
        let drive = ImageDrive::open_until(path, Some(cut)).unwrap();
        let mut core =
            Core::mount(Box::new(drive), None, StoreOptions::default()).unwrap().expect("a store");
        if let Some(bug) = bug {
            core.bug = bug.into();
        }
        let changed = match to > from {
            true => core.write_plain(id, &[2; PAGE], to - PAGE_BYTES),
            false => core.truncate_plain(id, to),
        };
        let done = changed.and_then(|()| core.sync_plain());
        drop(core);
        let drive = ImageDrive::open(path).unwrap();
        let found = Core::mount(Box::new(drive), None, StoreOptions::default());
        let judged = found.map_err(|error| error.to_string()).map(|core| {
            let size = core.expect("a store").size_of(None, id);
            assert!([from, to].contains(&size), "{size}");
        });
        if done.is_ok() {
            judged.map_or_else(|wrong| Some(Err(wrong)), |()| None)
        } else {
            Some(judged)
        }
    }

    /// The first that is wrong, of cuts at all operations.
    fn wrong(name: &str, seeds: u64, bug: Option<Bug>) -> Option<String> {
        let path = std::env::temp_dir().join(format!("varve-parts-{name}-{}", std::process::id()));
        let sizes = [(MOST, MOST + PAGE_BYTES), (MOST + PAGE_BYTES, MOST)];
        let draws = (0..seeds).flat_map(|seed| sizes.map(|sizes| (seed, sizes)));
        let mut cuts = draws.flat_map(|(seed, sizes)| {
            let path = &path;
            (1..).map_while(move |at| cut_at(path, PowerCut { at, seed }, sizes, bug))
        });
        let wrong = cuts.find_map(Result::err);
        let _ = std::fs::remove_file(&path);
        wrong
    }

    #[test]
    fn a_record_of_two_parts_is_the_old_one_or_the_new_one() {
        assert_eq!(wrong("whole", 1, None), None);
        let found = wrong("apart", 20, Some(Bug::PartsApart));
        assert!(found.is_some_and(|wrong| wrong.contains("table is damaged")));
    }
}
