//! fio's random writes into one file, past the page cache: 32 KiB at a time, places by Zipf's law.

use block::{BlockDevice, Rng, Time};
use workload::generate::{Scatter, Zipf};

use super::{Done, File, Kind, Load, Volume};
use crate::LabError;

/// Blocks of a write.
const WRITE: u64 = 8;

/// The load.
pub struct RandomWrite {
    places: u64,
    law: Option<Zipf>,
    scatter: Scatter,
    file: Option<File>,
    rng: Rng,
}

impl RandomWrite {
    /// A file of so many blocks; exponent of the law, none for uniform.
    pub fn new(blocks: u64, theta: Option<f64>, seed: u64) -> RandomWrite {
        let places = (blocks / WRITE).max(1);
        let mut rng = Rng::stream(seed, "fio");
        let scatter = Scatter::new(places, &mut rng);
        let law = theta.map(|theta| Zipf::new(places, theta));
        RandomWrite { places, law, scatter, file: None, rng }
    }
}

impl<D: BlockDevice> Load<D> for RandomWrite {
    fn threads(&self) -> usize {
        1
    }

    fn fill(&mut self, volume: &mut Volume<D>) -> Result<(), LabError> {
        let dir = volume.mkdir(volume.ready(), "fio")?;
        let mut file = volume.create(volume.ready(), dir, "data")?;
        for place in 0..self.places {
            volume.write_direct(volume.ready(), &mut file, place * WRITE, WRITE)?;
        }
        self.file = Some(file);
        volume.sync(volume.ready())
    }

    fn step(&mut self, volume: &mut Volume<D>, _: usize, at: Time) -> Result<Done, LabError> {
        let rank = match &self.law {
            Some(law) => law.draw(&mut self.rng),
            None => self.rng.below(self.places),
        };
        let place = self.scatter.apply(rank);
        if let Some(file) = &mut self.file {
            volume.write_direct(at, file, place * WRITE, WRITE)?;
        }
        Ok(Done { kind: Kind::Update, at: volume.ready().max(at), sync: None })
    }
}
