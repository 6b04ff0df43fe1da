//! What the tests put below an image.

use std::io;
use std::sync::Mutex;

use block::Medium;

/// Memory that keeps everything.
#[derive(Debug, Default)]
pub struct Memory(pub Mutex<Vec<u8>>);

impl Medium for Memory {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.lock().unwrap();
        let from = bytes.len().min(at as usize);
        let there = (bytes.len() - from).min(out.len());
        out[..there].copy_from_slice(&bytes[from..from + there]);
        out[there..].fill(0);
        Ok(())
    }
    fn write(&self, at: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.0.lock().unwrap();
        let end = at as usize + data.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[at as usize..end].copy_from_slice(data);
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }
    fn cut(&self, at: u64) -> io::Result<()> {
        self.0.lock().unwrap().truncate(at as usize);
        Ok(())
    }
}
