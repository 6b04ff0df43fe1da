//! A device that loses its power at a chosen operation.
//!
//! Plain writes and discards since the last flush are in a cache: a power cut keeps a part of them, drawn from a
//! seed. Transactions are those of the device below, whose committed bytes outlive it.

#![allow(dead_code)] // Each test uses its part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use block::{
    BlockDevice, Data, DeviceError, Lba, Lpn, Op, RamDevice, Remap, Request, Rng, Sectors, Time,
    Transactional, TxError, TxId, TxLimits,
};
use varve_sqlite_vfs::Device;

/// The switch of one device.
#[derive(Default, Debug)]
pub struct Power {
    /// Mutating operations so far.
    pub operations: u64,
    /// At this one the device fails; 0: never.
    pub cut_at: u64,
    /// Only that operation fails, and the device goes on.
    pub once: bool,
    /// It fails because there is no room; a sync then does not.
    pub full: bool,
    pub off: bool,
}

/// What outlives a power cut. Another device can be put under the harness by this trait: its
/// operations are whatever it counts as mutating.
pub trait Medium {
    type Image: Clone;
    /// Blank.
    fn blank() -> Self;
    /// The power goes, and comes back: a new device over what the old one left.
    fn power_on(&mut self) -> Box<dyn Device>;
    /// The switch of the device made last.
    fn power(&self) -> Arc<Mutex<Power>>;
    /// What is on it when the power is off.
    fn image(&mut self) -> Self::Image;
    /// Pages the next device keeps for open transactions, where that is free.
    fn hold(&mut self, pages: u32);
    /// Makes it what it was.
    fn restore(&mut self, image: &Self::Image);
}

const SECTORS: Sectors = Sectors(8 * 2_048);

/// Pages that were written plainly and no flush has followed; `None`: discarded.
type Cache = BTreeMap<u64, Option<Vec<u8>>>;

/// RAM below a cache that a power cut loses.
pub struct Ram {
    inner: Arc<Mutex<RamDevice>>,
    cache: Arc<Mutex<Cache>>,
    power: Arc<Mutex<Power>>,
    touched: Arc<Mutex<BTreeSet<u64>>>,
    seed: u64,
    pages: u32,
}

impl Ram {
    /// As `power_on`, with the switch of another device: both go off together.
    pub fn power_on_with(&mut self, power: Arc<Mutex<Power>>) -> Box<dyn Device> {
        let image = self.image();
        self.restore(&image);
        self.power = power;
        self.made()
    }

    fn made(&self) -> Box<dyn Device> {
        Box::new(CutDevice {
            inner: Arc::clone(&self.inner),
            power: Arc::clone(&self.power),
            cache: Arc::clone(&self.cache),
            touched: Arc::clone(&self.touched),
            seed: self.seed,
        })
    }

    fn device(&self) -> RamDevice {
        let limits = TxLimits { max_open: 64, pages: self.pages, span: 16_384, next: TxId(1) };
        RamDevice::new(SECTORS).with_limits(limits)
    }
}

impl Medium for Ram {
    /// Pages that were ever written.
    type Image = BTreeMap<u64, Vec<u8>>;

    fn blank() -> Ram {
        Ram {
            inner: Arc::new(Mutex::new(RamDevice::new(SECTORS))),
            cache: Arc::default(),
            power: Arc::default(),
            touched: Arc::default(),
            seed: 1,
            pages: 10_000,
        }
    }

    fn power_on(&mut self) -> Box<dyn Device> {
        let image = self.image();
        self.restore(&image);
        self.seed += 1;
        self.made()
    }

    fn power(&self) -> Arc<Mutex<Power>> {
        Arc::clone(&self.power)
    }

    fn image(&mut self) -> BTreeMap<u64, Vec<u8>> {
        self.power.lock().unwrap().off = true;
        lose(&mut *self.inner.lock().unwrap(), &mut self.cache.lock().unwrap(), self.seed);
        let mut inner = self.inner.lock().unwrap();
        let page = |page: &u64| {
            let mut bytes = vec![0u8; 4_096];
            let read = Request::read(Lba(page * 8), Sectors(8)).with(Data::Read(&mut bytes));
            inner.submit(Time::ZERO, read).unwrap();
            (*page, bytes)
        };
        self.touched.lock().unwrap().iter().map(page).collect()
    }

    fn hold(&mut self, pages: u32) {
        self.pages = pages;
    }

    fn restore(&mut self, image: &BTreeMap<u64, Vec<u8>>) {
        self.power.lock().unwrap().off = true;
        let mut device = self.device();
        for (page, bytes) in image {
            write_through(&mut device, *page, Some(bytes));
        }
        self.touched = Arc::new(Mutex::new(image.keys().copied().collect()));
        self.inner = Arc::new(Mutex::new(device));
        self.cache = Arc::default();
        self.power = Arc::default();
    }
}

pub struct CutDevice<D> {
    inner: Arc<Mutex<D>>,
    power: Arc<Mutex<Power>>,
    cache: Arc<Mutex<Cache>>,
    touched: Arc<Mutex<BTreeSet<u64>>>,
    seed: u64,
}

/// The power goes: each page of the cache is kept or not.
fn lose<D: BlockDevice>(device: &mut D, cache: &mut Cache, seed: u64) {
    let mut rng = Rng::new(seed);
    for (page, bytes) in std::mem::take(cache) {
        if rng.ratio(1, 2) {
            write_through(device, page, bytes.as_deref());
        }
    }
}

fn write_through<D: BlockDevice>(device: &mut D, page: u64, bytes: Option<&[u8]>) {
    let (lba, sectors) = (Lba(page * 8), Sectors(8));
    let request = match bytes {
        Some(bytes) => Request::write(lba, sectors).with(Data::Write(bytes)),
        None => Request::discard(lba, sectors),
    };
    device.submit(Time::ZERO, request).unwrap();
}

impl<D: Transactional + Remap> CutDevice<D> {
    fn mutate(&self) -> Result<MutexGuard<'_, D>, DeviceError> {
        let mut power = self.power.lock().unwrap();
        if !power.off {
            power.operations += 1;
            if power.operations == power.cut_at {
                if power.once {
                    return Err(DeviceError::Io("one error".to_string()));
                }
                power.off = true;
                let mut inner = self.inner.lock().unwrap();
                lose(&mut *inner, &mut self.cache.lock().unwrap(), self.seed);
            }
        }
        if power.off { Err(DeviceError::PowerOff) } else { Ok(self.inner.lock().unwrap()) }
    }

    fn alive(&self) -> Result<MutexGuard<'_, D>, DeviceError> {
        if self.power.lock().unwrap().off {
            return Err(DeviceError::PowerOff);
        }
        Ok(self.inner.lock().unwrap())
    }

    /// A page that goes into a transaction leaves the cache: its plain version is the older one.
    fn cache_out(&self, inner: &mut D, page: Lpn) {
        if let Some(bytes) = self.cache.lock().unwrap().remove(&u64::from(page.0)) {
            write_through(inner, u64::from(page.0), bytes.as_deref());
        }
    }
}

impl<D: Transactional + Remap> BlockDevice for CutDevice<D> {
    fn capacity(&self) -> Sectors {
        self.inner.lock().unwrap().capacity()
    }

    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let page = request.lba.0 / 8;
        match (request.op, request.data) {
            (Op::Write, Data::Write(bytes)) => {
                let inner = self.mutate()?;
                assert_eq!(bytes.len(), 4_096);
                self.touched.lock().unwrap().insert(page);
                self.cache.lock().unwrap().insert(page, Some(bytes.to_vec()));
                drop(inner);
            }
            (Op::Flush, _) => {
                let mut inner = self.mutate()?;
                for (page, bytes) in std::mem::take(&mut *self.cache.lock().unwrap()) {
                    write_through(&mut *inner, page, bytes.as_deref());
                }
            }
            (Op::Discard, _) => {
                let inner = self.mutate()?;
                let pages = page..page + request.sectors.0 / 8;
                let (mut cache, touched) = (self.cache.lock().unwrap(), &self.touched);
                // What was never written reads as zeroes with and without it.
                let there = touched.lock().unwrap();
                cache.extend(there.range(pages).map(|page| (*page, None)));
                drop(inner);
            }
            (_, Data::Read(out)) => {
                let mut inner = self.alive()?;
                if let Some(bytes) = self.cache.lock().unwrap().get(&page) {
                    match bytes {
                        Some(bytes) => out.copy_from_slice(bytes),
                        None => out.fill(0),
                    }
                    return Ok(at);
                }
                let read = Request::read(request.lba, request.sectors).with(Data::Read(out));
                inner.submit(at, read)?;
            }
            _ => return Err(DeviceError::Unsupported("not in this harness")),
        }
        Ok(at)
    }
}

impl<D: Transactional + Remap> Transactional for CutDevice<D> {
    fn tx_limits(&self) -> TxLimits {
        self.inner.lock().unwrap().tx_limits()
    }
    fn tx_begin(&mut self) -> Result<TxId, TxError> {
        self.alive()?.tx_begin()
    }
    fn tx_write(
        &mut self,
        at: Time,
        tid: TxId,
        page: Lpn,
        data: Data<'_>,
    ) -> Result<Time, TxError> {
        let mut inner = self.mutate()?;
        self.touched.lock().unwrap().insert(u64::from(page.0));
        self.cache_out(&mut *inner, page);
        inner.tx_write(at, tid, page, data)
    }
    fn tx_trim(&mut self, at: Time, tid: TxId, first: Lpn, count: u32) -> Result<Time, TxError> {
        self.mutate()?.tx_trim(at, tid, first, count)
    }
    fn tx_read(&mut self, at: Time, tid: TxId, page: Lpn, data: Data<'_>) -> Result<Time, TxError> {
        self.alive()?.tx_read(at, tid, page, data)
    }
    fn tx_commit(&mut self, at: Time, tids: &[TxId]) -> Result<Time, TxError> {
        self.mutate()?.tx_commit(at, tids)
    }
    fn tx_abort(&mut self, at: Time, tid: TxId) -> Result<Time, TxError> {
        self.mutate()?.tx_abort(at, tid)
    }
}

impl<D: Transactional + Remap> Remap for CutDevice<D> {
    fn remap(&mut self, at: Time, pairs: &[(Lpn, Lpn)]) -> Result<Time, TxError> {
        let mut inner = self.mutate()?;
        for (to, from) in pairs {
            self.touched.lock().unwrap().extend([u64::from(to.0), u64::from(from.0)]);
            self.cache_out(&mut *inner, *from);
            self.cache.lock().unwrap().remove(&u64::from(to.0));
        }
        inner.remap(at, pairs)
    }
}
