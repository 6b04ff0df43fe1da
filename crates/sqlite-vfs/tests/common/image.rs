//! Images in files under the crash harness: the power goes at a write to the file, or a sync of it.

use std::io;
use std::sync::{Arc, Mutex};

use block::Bytes;
use block::Medium as Below;
use live::{CutMedium, ImageDrive};
use varve_sqlite_vfs::Device;

use super::cut::{Medium, Power};

/// What the drive of an image stands on here: a file in memory.
#[derive(Debug, Default)]
struct Memory(Mutex<Vec<u8>>);

impl Below for Memory {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let (bytes, at) = (self.0.lock().unwrap(), at as usize);
        let there = bytes.get(at..at + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(there);
        Ok(())
    }
    fn write(&self, at: u64, data: &[u8]) -> io::Result<()> {
        let (mut bytes, at) = (self.0.lock().unwrap(), at as usize);
        if bytes.len() < at + data.len() {
            bytes.resize(at + data.len(), 0);
        }
        bytes[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// What happens while a write to the log waits for its sync.
#[derive(Clone, Default)]
pub struct Meanwhile(Option<Arc<dyn Fn() + Send + Sync>>);

impl Meanwhile {
    pub fn new(body: impl Fn() + Send + Sync + 'static) -> Meanwhile {
        Meanwhile(Some(Arc::new(body)))
    }
}

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Meanwhile({})", self.0.is_some())
    }
}

/// Counts writes and syncs, and cuts the power below at the chosen one.
#[derive(Debug)]
struct Switch {
    below: CutMedium,
    power: Arc<Mutex<Power>>,
    meanwhile: Meanwhile,
}

impl Switch {
    /// Counts a call; the power below goes with the so-maniest of those that it leads to there.
    fn step(&self, write: bool, calls: u64) -> io::Result<()> {
        let mut power = self.power.lock().unwrap();
        if !power.off {
            power.operations += 1;
            if power.operations == power.cut_at {
                if power.once {
                    return match (power.full, write) {
                        (false, _) => Err(io::Error::other("one error")),
                        (true, true) => Err(io::ErrorKind::StorageFull.into()),
                        (true, false) => Ok(()),
                    };
                }
                power.off = true;
                self.below.cut_after(calls);
            }
        }
        Ok(())
    }
}

impl Below for Switch {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.below.read(at, out)
    }
    fn write(&self, at: u64, data: &[u8]) -> io::Result<()> {
        self.step(true, 1)?;
        self.below.write(at, data)
    }
    fn sync(&self) -> io::Result<()> {
        self.step(false, 1)?;
        self.below.sync()
    }
    fn write_durable(&self, at: u64, data: &[u8]) -> io::Result<()> {
        // Two calls, as below; what others write between them waits for a sync of their own.
        self.step(true, 1)?;
        let off = self.power.lock().unwrap().off;
        if let Some(body) = self.meanwhile.0.as_ref().filter(|_| !off) {
            body();
        }
        self.step(false, 2)?;
        self.below.write_durable(at, data)
    }
}

/// Its log of commits: small, so that it is soon used up.
const LOG: Bytes = Bytes(6 * 4096);

/// An image whose file loses what was not synced.
pub struct Image {
    file: Arc<Memory>,
    switch: Option<Arc<Switch>>,
    power: Arc<Mutex<Power>>,
    seed: u64,
    /// For the drives made from here on.
    pub meanwhile: Meanwhile,
}

impl Image {
    /// An empty one for so many bytes of data, with a log.
    pub fn sized(capacity: Bytes, log: Bytes) -> Image {
        Image::sized_to_grow(capacity, log, capacity)
    }

    /// The same, and it may grow.
    pub fn sized_to_grow(capacity: Bytes, log: Bytes, limit: Bytes) -> Image {
        let file = Arc::new(Memory::default());
        drop(ImageDrive::create_on_to_grow(Arc::clone(&file) as _, capacity, log, limit).unwrap());
        Image {
            file,
            switch: None,
            power: Arc::default(),
            seed: 0,
            meanwhile: Meanwhile::default(),
        }
    }

    /// The power goes now, unless it went before.
    fn off(&mut self) {
        let Some(switch) = self.switch.take() else { return };
        let was = std::mem::replace(&mut self.power.lock().unwrap().off, true);
        if !was {
            switch.below.cut_after(1);
            assert!(switch.below.sync().is_err(), "the power is off");
        }
    }

    /// Bytes of the file.
    pub fn drive_bytes(&self) -> usize {
        self.file.0.lock().unwrap().len()
    }

    /// The drive, when the power comes back.
    pub fn drive(&mut self) -> ImageDrive {
        self.off();
        self.seed += 1;
        self.power = Arc::default();
        let below = CutMedium::new(Arc::clone(&self.file) as _, self.seed);
        let meanwhile = self.meanwhile.clone();
        let switch = Arc::new(Switch { below, power: Arc::clone(&self.power), meanwhile });
        self.switch = Some(Arc::clone(&switch));
        ImageDrive::open_on(switch).expect("what a cut leaves can be opened")
    }
}

impl Medium for Image {
    type Image = Vec<u8>;

    fn blank() -> Image {
        Image::sized(Bytes(4 << 20), LOG)
    }

    fn power_on(&mut self) -> Box<dyn Device> {
        Box::new(self.drive())
    }

    fn power(&self) -> Arc<Mutex<Power>> {
        Arc::clone(&self.power)
    }

    fn image(&mut self) -> Vec<u8> {
        self.off();
        self.file.0.lock().unwrap().clone()
    }

    /// An image keeps what it keeps; other cuts are drawn.
    fn hold(&mut self, pages: u32) {
        self.seed = u64::from(pages) << 32;
    }

    fn restore(&mut self, image: &Vec<u8>) {
        self.off();
        self.file = Arc::new(Memory(Mutex::new(image.clone())));
    }
}
