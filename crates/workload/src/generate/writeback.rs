//! Buffered writes: the host's page cache between the jobs and the drive.
//! Without it "buffered random write" is not what a drive sees.

use block::{AppId, Bytes, Span, Time, UNIT_BYTES};

use super::fio::{Fio, Jobs, Step};
use super::pageset::PageSet;
use crate::{BLOCK_RECORDS, Flags, Record, Source, SourceError, TraceOp};

/// Largest merged write, 1,280 KiB: what the kernel of the captures in `data/` splits at.
const LARGEST_PAGES: u64 = 1_310_720 / UNIT_BYTES;
/// Dirty pages are written after this long at the latest.
const OLDEST: Span = Span::from_us(5_000_000);
/// Dirty pages may take up this share of the RAM, in percent.
const DIRTY_PERCENT: u64 = 20;
/// The rule in words, for the result.
pub(super) const RULE: &str = "dirty pages gathered to 20 % of the RAM or 5 s, sorted and merged \
                               for each file up to 1280 KiB; reads see only what is dirty";

/// Pages `next..end` are to be written out now; a flush of that job ends it, if there is one.
struct Drain {
    next: u64,
    end: u64,
    flush: Option<AppId>,
    at: Time,
}

/// Jobs that write into a page cache.
pub(super) struct Buffered {
    jobs: Jobs,
    dirty: PageSet,
    limit: u64,
    /// When the oldest dirty page became dirty.
    since: Time,
    /// Pages of one file.
    file: u64,
    files: u64,
    drain: Option<Drain>,
    /// When the first record came out: a stream's times count from there.
    origin: Option<Time>,
    ended: bool,
}

impl Buffered {
    pub(super) fn new(fio: &Fio, ram: Bytes) -> Buffered {
        let file = fio.size / UNIT_BYTES;
        Buffered {
            jobs: Jobs::new(fio),
            dirty: PageSet::new(file * fio.jobs),
            limit: (ram.0 / UNIT_BYTES * DIRTY_PERCENT / 100).max(1),
            since: Time::ZERO,
            file,
            files: fio.jobs,
            drain: None,
            origin: None,
            ended: false,
        }
    }

    /// The next write of the drain, or the flush that ends it, or nothing if it just ended.
    fn write_out(&mut self) -> Option<Record> {
        let drain = self.drain.as_mut()?;
        let record = |op, app, first, pages| Record {
            at: drain.at,
            offset: Bytes(first * UNIT_BYTES),
            len: Bytes(pages * UNIT_BYTES),
            response: None,
            app,
            op,
            flags: Flags::default(),
            hint: 0,
        };
        let found = self.dirty.next(drain.next).filter(|page| *page < drain.end);
        let Some(first) = found else {
            let flush = drain.flush.map(|app| record(TraceOp::Flush, app, 0, 0));
            self.drain = None;
            return flush;
        };
        // Files are written apart, even where one ends full and the next starts full.
        let job = first / self.file;
        let end = drain.end.min((job + 1) * self.file);
        let (first, pages) = self.dirty.take_run(first, end, LARGEST_PAGES)?;
        drain.next = first + pages;
        Some(record(TraceOp::Write, AppId(job as u16), first, pages))
    }

    /// Starts to write out one job's file and then flush, or all files.
    fn start(&mut self, flush: Option<AppId>, at: Time) {
        let (next, end) = match flush {
            Some(app) => (u64::from(app.0) * self.file, (u64::from(app.0) + 1) * self.file),
            None => (0, self.files * self.file),
        };
        self.drain = Some(Drain { next, end, flush, at });
    }

    /// Takes a step of the jobs into the cache; what passes through is returned.
    fn take(&mut self, step: Step) -> Option<Record> {
        let record = step.record;
        let first = record.offset.0 / UNIT_BYTES;
        let end = (record.offset.0 + record.len.0).div_ceil(UNIT_BYTES);
        if record.op == TraceOp::Read {
            let cached = (first..end).all(|page| self.dirty.contains(page));
            return (!cached).then_some(record);
        }
        if self.dirty.len() == 0 {
            self.since = record.at;
        }
        (first..end).for_each(|page| self.dirty.insert(page));
        let old = record.at.since(self.since) >= OLDEST;
        if step.sync {
            self.start(Some(record.app), record.at);
        } else if self.dirty.len() >= self.limit || old || step.prefill {
            self.start(None, record.at);
        }
        None
    }
}

impl Source for Buffered {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        block.clear();
        while block.len() < BLOCK_RECORDS {
            if self.drain.is_some() {
                block.extend(self.write_out());
                continue;
            }
            match self.jobs.next() {
                Some(step) => block.extend(self.take(step)),
                None if self.ended => break,
                None => {
                    // What is still dirty reaches the drive some time: now.
                    self.ended = true;
                    self.start(None, self.jobs.now());
                }
            }
        }
        if let Some(first) = block.first() {
            let origin = *self.origin.get_or_insert(first.at);
            for record in block {
                record.at = Time::ZERO + record.at.since(origin);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::tests::records;

    #[test]
    fn a_pass_of_random_writes_reaches_the_drive_sorted_and_merged() {
        // 4 MiB of dirty pages are allowed: 16 MiB come out in four or five sorted sweeps.
        let all = records("fio,rw=randwrite,size=16MiB,buffered,ram=20MiB,iat=1us");
        let pages: u64 = all.iter().map(|r| r.len.0 / 4096).sum();
        assert_eq!(pages, 4096, "every page once");
        let falls = all.windows(2).filter(|w| w[1].offset < w[0].offset).count();
        assert_eq!(falls, 3, "sweeps of 1024 pages");
        // A quarter of the pages is dirty: runs of 4/3 pages on average.
        let mean = 4096.0 / all.len() as f64;
        assert!((1.2..1.8).contains(&mean), "{mean}");
    }

    #[test]
    fn sequential_writes_merge_up_to_the_largest_and_never_across_files() {
        let all = records("fio,rw=write,size=2MiB,jobs=2,buffered,iat=1us");
        let sizes: Vec<_> = all.iter().map(|r| (r.app.0, r.len.0 >> 10)).collect();
        assert_eq!(sizes, [(0, 1280), (0, 768), (1, 1280), (1, 768)]);
    }

    #[test]
    fn old_pages_are_written_after_five_seconds() {
        let all = records("fio,rw=randwrite,size=64MiB,count=1200,buffered,iat=10ms");
        let mut times: Vec<u64> = all.iter().map(|r| r.at.as_ns() / 1_000_000).collect();
        times.dedup();
        assert_eq!(times, [0, 5_010, 7_000]);
    }

    #[test]
    fn a_sync_writes_its_own_file_and_flushes() {
        let all = records("fio,rw=randwrite,size=1MiB,jobs=2,fsync=4,count=16,buffered");
        let flushes: Vec<u16> =
            all.iter().filter(|r| r.op == TraceOp::Flush).map(|r| r.app.0).collect();
        assert_eq!(flushes, [0, 1, 0, 1]);
        let mut unflushed = [0u64; 2];
        for record in &all {
            let job = usize::from(record.app.0);
            unflushed[job] += record.len.0 / 4096;
            if record.op == TraceOp::Flush {
                assert_eq!(std::mem::take(&mut unflushed[job]), 4);
            }
        }
        assert_eq!(unflushed, [0, 0], "nothing is dirty after the last sync");
    }

    #[test]
    fn reads_of_dirty_pages_never_reach_the_drive() {
        let all = records("fio,rw=randrw,size=1MiB,count=2000,norandommap,buffered,iat=1us");
        let reads = all.iter().filter(|r| r.op == TraceOp::Read).count();
        // 256 pages, soon all dirty: few of about 1000 reads come through.
        assert!((50..600).contains(&reads), "{reads}");
    }
}
