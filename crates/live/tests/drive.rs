//! A drive over an image and a model of its pages: plain writes, transactions, discards and new names; what is
//! read, by everybody and by a transaction, and what is there when the image is opened again.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{
    BlockDevice, Bytes, Data, DeviceError, Lba, Lpn, Medium, Remap, Request, Rng, Sectors, Time,
    Transactional, TxError, TxId,
};
use common::Memory;
use varve_live::ImageDrive;

const PAGE: usize = 4096;
const PAGES: u64 = 300;

fn content(version: u64) -> Vec<u8> {
    let words = (0..PAGE as u64 / 8).flat_map(|i| (version << 12 | i).to_le_bytes());
    if version == 0 { vec![0; PAGE] } else { words.collect() }
}

/// Pages that a transaction has written: their versions, 0 for those it discarded.
type Own = BTreeMap<u32, u64>;

struct Host {
    medium: Arc<Memory>,
    drive: Option<ImageDrive>,
    rng: Rng,
    pages: Vec<u64>,
    open: Vec<(TxId, Own)>,
    version: u64,
}

impl Host {
    fn new(seed: u64) -> Host {
        let medium = Arc::new(Memory::default());
        let drive =
            ImageDrive::create_on(medium.clone() as Arc<dyn Medium>, Bytes(3 << 20)).unwrap();
        assert!(drive.capacity().0 / 8 >= PAGES);
        let (rng, pages) = (Rng::stream(seed, "drive"), vec![0; PAGES as usize]);
        Host { medium, drive: Some(drive), rng, pages, open: Vec::new(), version: 0 }
    }

    fn drive(&mut self) -> &mut ImageDrive {
        self.drive.as_mut().expect("it is open")
    }

    fn page(&mut self) -> u32 {
        self.rng.below(PAGES) as u32
    }

    fn owner(&self, page: u32) -> Option<usize> {
        self.open.iter().position(|(_, own)| own.contains_key(&page))
    }

    fn plain(&mut self) {
        let (page, discards, fua) = (self.page(), self.rng.ratio(1, 6), self.rng.ratio(1, 6));
        self.version += 1;
        let (lba, version) = (Lba(u64::from(page) * 8), self.version);
        let data = content(version);
        let request = match discards {
            true => Request::discard(lba, Sectors(8)),
            false => Request::write(lba, Sectors(8)).with(Data::Write(&data)),
        };
        let request = if fua && !discards { request.with_fua() } else { request };
        let done = self.drive().submit(Time::ZERO, request);
        match self.owner(page) {
            Some(_) => assert!(matches!(done, Err(DeviceError::InTransaction(_))), "{done:?}"),
            None => {
                done.unwrap();
                self.pages[page as usize] = if discards { 0 } else { version };
            }
        }
    }

    fn tagged(&mut self) {
        if self.open.len() < 3 && self.rng.ratio(1, 3) {
            let tid = self.drive().tx_begin().unwrap();
            self.open.push((tid, Own::new()));
        }
        if self.open.is_empty() {
            return;
        }
        let (at, page) = (self.rng.below(self.open.len() as u64) as usize, self.page());
        let (tid, trims) = (self.open[at].0, self.rng.ratio(1, 5));
        self.version += 1;
        let (version, data) = (self.version, content(self.version));
        let done = match trims {
            true => self.drive().tx_trim(Time::ZERO, tid, Lpn(page), 1),
            false => self.drive().tx_write(Time::ZERO, tid, Lpn(page), Data::Write(&data)),
        };
        match self.owner(page).filter(|owner| *owner != at) {
            Some(owner) => {
                let owner = self.open[owner].0;
                assert_eq!(done, Err(TxError::Conflict { page: Lpn(page), owner }));
            }
            None => {
                done.unwrap();
                self.open[at].1.insert(page, if trims { 0 } else { version });
            }
        }
    }

    fn end(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let at = self.rng.below(self.open.len() as u64) as usize;
        let mut ended = vec![self.open.swap_remove(at)];
        if self.rng.ratio(1, 4) {
            self.drive().tx_abort(Time::ZERO, ended[0].0).unwrap();
            return;
        }
        if self.rng.ratio(1, 3) {
            ended.extend(self.open.pop());
        }
        let tids: Vec<TxId> = ended.iter().map(|(tid, _)| *tid).collect();
        self.drive().tx_commit(Time::ZERO, &tids).unwrap();
        for (page, version) in ended.into_iter().flat_map(|(_, own)| own) {
            self.pages[page as usize] = version;
        }
    }

    /// Pages take the names of others.
    fn rename(&mut self) {
        let half = PAGES as u32 / 2;
        let count = self.rng.between(1, 4);
        let pairs: Vec<(u32, u32)> =
            (0..count).map(|_| (self.page() % half, half + self.page() % half)).collect();
        let asked: Vec<(Lpn, Lpn)> =
            pairs.iter().map(|(to, from)| (Lpn(*to), Lpn(*from))).collect();
        let done = self.drive().remap(Time::ZERO, &asked);
        if pairs.iter().any(|(to, from)| self.owner(*to).or(self.owner(*from)).is_some()) {
            assert!(matches!(done, Err(TxError::Conflict { .. })), "{done:?}");
            return;
        }
        done.unwrap();
        for (to, from) in pairs {
            self.pages[to as usize] = std::mem::take(&mut self.pages[from as usize]);
        }
    }

    fn look(&mut self) {
        let page = self.page();
        let mut found = vec![0xEE; PAGE];
        let read = Request::read(Lba(u64::from(page) * 8), Sectors(8));
        self.drive().submit(Time::ZERO, read.with(Data::Read(&mut found))).unwrap();
        assert!(found == content(self.pages[page as usize]), "page {page}");
        if let Some(at) = self.owner(page) {
            let (tid, own) = (self.open[at].0, self.open[at].1[&page]);
            found.fill(0xEE);
            self.drive().tx_read(Time::ZERO, tid, Lpn(page), Data::Read(&mut found)).unwrap();
            assert!(found == content(own), "page {page} of a transaction");
        }
    }

    /// The process ends, and another one opens the image. What was open never was.
    fn again(&mut self, clean: bool) {
        self.drive().submit(Time::ZERO, Request::flush()).unwrap();
        let drive = self.drive.take().expect("it is open");
        if clean {
            drive.close().unwrap();
        } else {
            drop(drive);
        }
        self.open.clear();
        let drive = ImageDrive::open_on(self.medium.clone() as Arc<dyn Medium>).unwrap();
        assert!(drive.damage().is_empty());
        drive.drive().check().unwrap();
        self.drive = Some(drive);
        for page in 0..PAGES as u32 {
            let mut found = vec![0xEE; PAGE];
            let read = Request::read(Lba(u64::from(page) * 8), Sectors(8));
            self.drive().submit(Time::ZERO, read.with(Data::Read(&mut found))).unwrap();
            assert!(found == content(self.pages[page as usize]), "page {page}, clean {clean}");
        }
    }

    fn work(&mut self, steps: u64) {
        for _ in 0..steps {
            match self.rng.below(16) {
                0..4 => self.plain(),
                4..9 => self.tagged(),
                9 | 10 => self.end(),
                11 if self.rng.ratio(1, 3) => self.rename(),
                12 if self.rng.ratio(1, 4) => {
                    self.drive().submit(Time::ZERO, Request::flush()).map(drop).unwrap();
                }
                _ => self.look(),
            }
        }
        self.drive().drive().check().unwrap();
    }
}

#[test]
fn an_image_holds_what_a_model_of_its_pages_holds() {
    for seed in 0..6 {
        let mut host = Host::new(seed);
        for round in 0..6 {
            host.work(700);
            host.again(round % 2 == 0);
        }
    }
}

/// What a fixed load costs the file: calls that write, bytes, syncs. A change of it is meant, or a mistake.
#[test]
fn a_fixed_load_costs_what_it_did() {
    let mut host = Host::new(77);
    host.work(2_000);
    let stats = host.drive().file_stats();
    assert_eq!((stats.writes, stats.bytes, stats.syncs), COST);
}

const COST: (u64, u64, u64) = (882, 3_575_808, 301);
