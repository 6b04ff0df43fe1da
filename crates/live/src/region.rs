//! A part of a medium, from a byte to its end: where an image lies that is not at the beginning of its file.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use block::Medium;

#[derive(Debug)]
pub(crate) struct Region {
    inner: Arc<dyn Medium>,
    base: u64,
}

impl Region {
    /// The part from `base` on; the whole medium is itself.
    pub fn of(inner: Arc<dyn Medium>, base: u64) -> Arc<dyn Medium> {
        if base == 0 { inner } else { Arc::new(Region { inner, base }) }
    }
}

impl Medium for Region {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(self.base + at, out)
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner.write(self.base + at, bytes)
    }
    fn write_parts(&self, at: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.inner.write_parts(self.base + at, parts)
    }
    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
    fn write_durable(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_durable(self.base + at, bytes)
    }
    fn grain(&self) -> u32 {
        self.inner.grain()
    }
    fn size(&self) -> io::Result<u64> {
        Ok(self.inner.size()?.saturating_sub(self.base))
    }
    fn discard(&self, at: u64, bytes: u64) -> io::Result<()> {
        self.inner.discard(self.base + at, bytes)
    }
    fn reserve(&self, at: u64, bytes: u64) -> io::Result<()> {
        self.inner.reserve(self.base + at, bytes)
    }
    fn cut(&self, at: u64) -> io::Result<()> {
        self.inner.cut(self.base + at)
    }
    fn discard_is_fast(&self) -> bool {
        self.inner.discard_is_fast()
    }
    fn data_from(&self, at: u64) -> io::Result<Option<Range<u64>>> {
        let found = self.inner.data_from(self.base + at)?;
        let here = |end: u64| if end == u64::MAX { end } else { end - self.base };
        Ok(found.map(|run| run.start - self.base..here(run.end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileMedium;

    /// Where data are is said in bytes of the part, and a medium that cannot tell is no shorter in it.
    #[test]
    fn data_lie_where_the_part_has_them() {
        const BASE: u64 = 1 << 20;
        let path = std::env::temp_dir().join(format!("varve-region-{}", std::process::id()));
        let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.expect("a file");
        std::fs::remove_file(&path).expect("it is there");
        file.set_len(8 * BASE).expect("room");
        let part = Region::of(Arc::new(FileMedium(file)), BASE);
        part.write(2 * BASE, &[7; 65_536]).expect("written");
        let run = part.data_from(0).expect("told").expect("there are some");
        assert!(run.contains(&(2 * BASE)) && run.contains(&(2 * BASE + 65_535)), "{run:?}");
        assert!(run.end <= 7 * BASE, "{run:?} of {} bytes", 7 * BASE);

        let memory = Arc::new(Untold);
        let run = Region::of(memory, BASE).data_from(5).expect("told").expect("anywhere");
        assert_eq!(run, 5..u64::MAX);
    }

    #[derive(Debug)]
    struct Untold;

    impl Medium for Untold {
        fn read(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
            Ok(())
        }
        fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Ok(())
        }
        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
    }
}
