//! `fio`: jobs on files, as the micro-benchmarks of papers 1 and 2.

use std::sync::Arc;

use block::{AppId, Bytes, Rng, Span, Time, UNIT_BYTES};

use super::clock::{Arrival, ArrivalClock};
use super::dist::Pareto;
use super::fields::{Fields, percent_text, span_text};
use super::recipe::Asked;
use super::scatter::Scatter;
use super::simple::SCATTER;
use super::simple::arrival_text;
use super::writeback::Buffered;
use super::zipf::Zipf;
use super::{Generator, Source};
use crate::{BLOCK_RECORDS, Flags, Record, SourceError, TraceOp};

/// Writes of `prefill` are this large: whoever lays a file out does it with large writes.
const PREFILL_BYTES: u64 = 1 << 20;

/// Which block of its file a job takes next.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Order {
    /// One after the other, round and round.
    Sequential,
    /// Every block once for each pass, in a new random order each time (fio's random map).
    Once,
    /// Every block equally likely (`norandommap`).
    Uniform,
    /// Zipf ranks, scattered.
    Zipf(f64),
    /// The Pareto principle, scattered.
    Pareto(f64),
}

/// A run of jobs.
#[derive(Clone, Debug)]
pub(super) struct Fio {
    seed: u64,
    app: String,
    draws: String,
    pub(super) read_ppm: u64,
    order: Order,
    pub(super) bs: u64,
    pub(super) jobs: u64,
    /// Bytes of each job's file.
    pub(super) size: u64,
    iodepth: u64,
    /// A job flushes after this many writes; 0 = never.
    sync_every: u64,
    sync_name: &'static str,
    prefill: bool,
    /// RAM of the host whose page cache is in between, if any.
    pub(super) ram: Option<Bytes>,
    count: u64,
    arrival: Arrival,
    distribution: String,
}

fn order(fields: &mut Fields<'_>, random: bool) -> Result<(Order, String), SourceError> {
    let expected = "`random`, `zipf:THETA` (0.01 to 10) or `pareto:H` (0.001 to 0.999)";
    let text = fields.text("distribution").unwrap_or("random");
    let norandommap = fields.switch("norandommap", false)?;
    let number = |text: &str, low: f64, high: f64| {
        text.parse::<f64>().ok().filter(|x| (low..=high).contains(x))
    };
    let order = match text.split_once(':') {
        None if text == "random" && norandommap => Some(Order::Uniform),
        None if text == "random" => Some(Order::Once),
        Some(("zipf", theta)) => number(theta, 0.01, 10.0).map(Order::Zipf),
        Some(("pareto", h)) => number(h, 0.001, 0.999).map(Order::Pareto),
        _ => None,
    };
    let order = order.ok_or_else(|| fields.wrong("distribution", text, expected))?;
    if !random {
        return Ok((Order::Sequential, "sequential".to_string()));
    }
    Ok((order, text.to_string()))
}

pub(super) fn build(
    asked: &Asked<'_>,
    fields: &mut Fields<'_>,
) -> Result<Arc<dyn Generator>, SourceError> {
    let modes = "one of read, write, rw, randread, randwrite, randrw";
    let (random, mut read_ppm) = fields.take("rw", (true, 0), modes, |text| {
        let plain = text.strip_prefix("rand").unwrap_or(text);
        let read_ppm = match plain {
            "read" => 1_000_000,
            "write" => 0,
            "rw" => 500_000,
            _ => return None,
        };
        Some((plain.len() != text.len(), read_ppm))
    })?;
    let mix = fields.percent("rwmixread", read_ppm)?;
    if read_ppm == 500_000 {
        read_ppm = mix;
    } else if mix != read_ppm {
        return Err(fields.wrong("rwmixread", &percent_text(mix), "rw=rw or rw=randrw with it"));
    }
    let bs = fields.size("bs", 4096, 512, 512)?.0;
    let jobs = fields.take("jobs", 1, "a number from 1 to 65535", |text| {
        text.parse().ok().filter(|jobs| (1..=65_535).contains(jobs))
    })?;
    let size = fields.size("size", 1 << 30, bs.max(UNIT_BYTES), UNIT_BYTES)?.0;
    let (order, distribution) = order(fields, random)?;
    let (fsync, fdatasync) = (fields.count("fsync", 0, 0)?, fields.count("fdatasync", 0, 0)?);
    if fsync > 0 && fdatasync > 0 {
        return Err(fields.wrong("fdatasync", &fdatasync.to_string(), "only one of the two syncs"));
    }
    let buffered = fields.switch("buffered", false)?;
    let ram = fields.size("ram", 4 << 30, 1 << 20, UNIT_BYTES)?;
    // The page cache keeps one bit for each page of the files.
    let total = Bytes(size.saturating_mul(jobs));
    if total.0 > 1 << 42 {
        return Err(fields.wrong("size", &total.human(), "files of at most 4 TiB together"));
    }
    let count = fields.count("count", size / bs * jobs, 1)?;
    Ok(Arc::new(Fio {
        seed: asked.seed,
        app: asked.app.to_string(),
        draws: asked.draws.to_string(),
        read_ppm,
        order,
        bs,
        jobs,
        size,
        iodepth: fields.count("iodepth", 1, 1)?,
        sync_every: fsync.max(fdatasync),
        sync_name: if fdatasync > 0 { "fdatasync" } else { "fsync" },
        prefill: fields.switch("prefill", false)?,
        ram: buffered.then_some(ram),
        count,
        arrival: fields.arrival(Arrival::Fixed(Span::from_us(10)), count)?,
        distribution,
    }))
}

impl Generator for Fio {
    fn open(&self) -> Box<dyn Source + Send> {
        match self.ram {
            Some(ram) => Box::new(Buffered::new(self, ram)),
            None => Box::new(Direct { jobs: Jobs::new(self) }),
        }
    }

    fn describe(&self) -> Vec<(String, String)> {
        let switch = |on: bool| if on { "on" } else { "off" }.to_string();
        let mut out = vec![
            ("read", percent_text(self.read_ppm)),
            ("bs", Bytes(self.bs).human()),
            ("jobs", format!("{}, one application each", self.jobs)),
            ("size", format!("{} for each job", Bytes(self.size).human())),
            ("distribution", self.distribution.clone()),
            ("each block once", switch(self.order == Order::Once)),
            (self.sync_name, self.sync_every.to_string()),
            ("prefill", switch(self.prefill)),
            ("buffered", switch(self.ram.is_some())),
            ("count", self.count.to_string()),
            ("iat", span_text(self.arrival.mean())),
            ("arrival", arrival_text(self.arrival).to_string()),
        ];
        match self.ram {
            // What the host has in flight is then up to its write-back, not to the jobs.
            Some(ram) => out.extend([
                ("iodepth", "without effect (buffered)".to_string()),
                ("ram", ram.human()),
                ("write-back", super::writeback::RULE.to_string()),
            ]),
            None => out.push(("iodepth", format!("{} (closed loop for each job)", self.iodepth))),
        }
        out.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    fn extent(&self) -> Bytes {
        Bytes(self.size * self.jobs)
    }
}

/// What a job does next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub record: Record,
    /// The job flushes after it.
    pub sync: bool,
    /// It belongs to the prefill.
    pub prefill: bool,
}

/// The jobs of a run, which take turns.
pub(super) struct Jobs {
    fio: Fio,
    law: Law,
    jobs: Vec<Job>,
    clock: ArrivalClock,
    turn: usize,
    left: u64,
    /// Next byte of the prefill; past the end once it is done.
    prefill: u64,
}

enum Law {
    Plain(Order),
    Zipf(Zipf),
    Pareto(Pareto),
}

struct Job {
    addresses: Rng,
    operations: Rng,
    scatter: Scatter,
    /// Blocks taken in this pass.
    position: u64,
    /// Writes since the last flush.
    unsynced: u64,
}

impl Job {
    fn next(&mut self, law: &Law, blocks: u64) -> u64 {
        match law {
            Law::Plain(Order::Uniform) => self.addresses.below(blocks),
            Law::Zipf(zipf) => self.scatter.apply(zipf.draw(&mut self.addresses)),
            Law::Pareto(pareto) => self.scatter.apply(pareto.draw(&mut self.addresses)),
            Law::Plain(order) => {
                if self.position == blocks {
                    self.position = 0;
                    // A new order for each pass.
                    self.scatter = Scatter::new(blocks, &mut self.addresses);
                }
                self.position += 1;
                match order {
                    Order::Once => self.scatter.apply(self.position - 1),
                    _ => self.position - 1,
                }
            }
        }
    }
}

impl Jobs {
    pub(super) fn new(fio: &Fio) -> Jobs {
        let blocks = fio.size / fio.bs;
        let stream = |job: u64, purpose: &str| {
            // Where what is hot lies is no draw; the order in which all is visited once is.
            let lies = purpose == SCATTER && fio.order != Order::Once;
            let app = if lies { &fio.app } else { &fio.draws };
            Rng::stream(fio.seed, &format!("{app}/fio/job{job}/{purpose}"))
        };
        let job = |number| Job {
            addresses: stream(number, "address"),
            operations: stream(number, "operation"),
            scatter: Scatter::new(blocks, &mut stream(number, SCATTER)),
            position: 0,
            unsynced: 0,
        };
        let law = match fio.order {
            Order::Zipf(theta) => Law::Zipf(Zipf::new(blocks, theta)),
            Order::Pareto(h) => Law::Pareto(Pareto::new(blocks, h)),
            order => Law::Plain(order),
        };
        let arrivals = Rng::stream(fio.seed, &format!("{}/fio/arrival", fio.draws));
        Jobs {
            law,
            jobs: (0..fio.jobs).map(job).collect(),
            clock: ArrivalClock::new(fio.arrival, arrivals),
            turn: 0,
            left: fio.count,
            prefill: if fio.prefill { 0 } else { fio.size * fio.jobs },
            fio: fio.clone(),
        }
    }

    /// When the next step is due.
    pub(super) fn now(&self) -> Time {
        self.clock.peek()
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<Step> {
        if self.prefill < self.fio.size * self.fio.jobs {
            return Some(self.next_prefill());
        }
        self.left = self.left.checked_sub(1)?;
        let number = self.turn;
        self.turn = if number + 1 == self.jobs.len() { 0 } else { number + 1 };
        let job = &mut self.jobs[number];
        let block = job.next(&self.law, self.fio.size / self.fio.bs);
        let read = match self.fio.read_ppm {
            0 => false,
            1_000_000 => true,
            ppm => job.operations.below(1_000_000) < ppm,
        };
        job.unsynced += u64::from(!read);
        let sync = !read && job.unsynced == self.fio.sync_every;
        if sync {
            job.unsynced = 0;
        }
        let offset = number as u64 * self.fio.size + block * self.fio.bs;
        let op = if read { TraceOp::Read } else { TraceOp::Write };
        let record = self.record(op, number as u16, offset, self.fio.bs);
        Some(Step { record, sync, prefill: false })
    }

    /// Writes all files out, one after the other; each ends with a flush.
    fn next_prefill(&mut self) -> Step {
        let (offset, size) = (self.prefill, self.fio.size);
        let job = offset / size;
        let len = PREFILL_BYTES.min((job + 1) * size - offset);
        self.prefill += len;
        let record = self.record(TraceOp::Write, job as u16, offset, len);
        Step { record, sync: self.prefill.is_multiple_of(size), prefill: true }
    }

    fn record(&mut self, op: TraceOp, job: u16, offset: u64, len: u64) -> Record {
        Record {
            at: self.clock.tick(),
            offset: Bytes(offset),
            len: Bytes(len),
            response: None,
            app: AppId(job),
            op,
            flags: Flags::default(),
            hint: 0,
        }
    }
}

/// The flush that follows `record`.
fn flush(record: &Record) -> Record {
    Record { op: TraceOp::Flush, offset: Bytes(0), len: Bytes(0), ..*record }
}

/// Direct I/O: what the jobs do is what the drive sees.
struct Direct {
    jobs: Jobs,
}

impl Source for Direct {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        block.clear();
        while block.len() + 2 <= BLOCK_RECORDS {
            let Some(step) = self.jobs.next() else { break };
            block.push(step.record);
            if step.sync {
                block.push(flush(&step.record));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::parse_recipe;
    use crate::generate::tests::records;

    /// How often each block of job `job` is written.
    fn visits(all: &[Record], job: u16, size: u64) -> Vec<u64> {
        let mut visits = vec![0; (size / 4096) as usize];
        for record in all.iter().filter(|r| r.app.0 == job && r.op == TraceOp::Write) {
            visits[((record.offset.0 - u64::from(job) * size) / 4096) as usize] += 1;
        }
        visits
    }

    #[test]
    fn random_writes_visit_every_block_once_for_each_pass() {
        let size = 1000 * 4096;
        let all = records(&format!("fio,rw=randwrite,jobs=3,size={size},count=6000"));
        for job in 0..3 {
            let mine: Vec<Record> = all.iter().filter(|r| r.app.0 == job).copied().collect();
            assert!(visits(&mine[..1000], job, size).iter().all(|n| *n == 1));
            assert!(visits(&mine, job, size).iter().all(|n| *n == 2));
            let pass = |from: usize| -> Vec<Bytes> {
                mine[from..from + 1000].iter().map(|r| r.offset).collect()
            };
            assert_ne!(pass(0), pass(1000), "another order for each pass");
            let steps = pass(0).windows(2).filter(|w| w[1].0 == w[0].0 + 4096).count();
            assert!(steps < 10, "{steps} of 999 steps are sequential");
        }
        let loose = records(&format!("fio,rw=randwrite,size={size},norandommap"));
        assert!(visits(&loose, 0, size).contains(&0), "1000 uniform draws miss some block");
    }

    #[test]
    fn jobs_do_not_disturb_each_other() {
        let of = |text: &str, job: u16| -> Vec<u64> {
            records(text).iter().filter(|r| r.app.0 == job).map(|r| r.offset.0).take(100).collect()
        };
        let two = "fio,rw=randwrite,jobs=2,size=4MiB,count=200";
        let five = "fio,rw=randwrite,jobs=5,size=4MiB,count=500";
        assert_eq!(of(two, 1), of(five, 1));
        let first: Vec<u64> = of(two, 1).iter().map(|at| at - (4 << 20)).collect();
        assert_ne!(of(two, 0), first);
    }

    #[test]
    fn sequential_jobs_and_their_syncs() {
        let all = records("fio,rw=write,bs=32k,jobs=2,size=64k,fdatasync=2,count=8");
        let plain: Vec<_> = all.iter().map(|r| (r.app.0, r.op, r.offset.0 >> 10)).collect();
        use TraceOp::{Flush, Write};
        let round = [
            (0, Write, 0),
            (1, Write, 64),
            (0, Write, 32),
            (0, Flush, 0),
            (1, Write, 96),
            (1, Flush, 0),
        ];
        assert_eq!(plain, [round, round].concat());
    }

    #[test]
    fn prefill_lays_every_file_out_first() {
        let all = records("fio,rw=randwrite,bs=32k,jobs=2,size=2560k,prefill,count=5");
        let sizes: Vec<_> = all.iter().map(|r| (r.app.0, r.op, r.len.0 >> 10)).collect();
        use TraceOp::{Flush, Write};
        let file =
            |job| [(job, Write, 1024), (job, Write, 1024), (job, Write, 512), (job, Flush, 0)];
        assert_eq!(sizes[..8], [file(0), file(1)].concat());
        assert_eq!(all.len(), 8 + 5);
        assert!(all[8..].iter().all(|r| r.len.0 == 32 << 10));
    }

    #[test]
    fn mixes_and_skews_are_kept() {
        let all = records("fio,rw=randrw,rwmixread=70,size=4MiB,distribution=zipf:1.2,count=100k");
        let reads = all.iter().filter(|r| r.op == TraceOp::Read).count() as f64;
        assert!((reads / 1e5 - 0.7).abs() < 0.01, "{reads}");
        let mut counts = visits(&all, 0, 4 << 20);
        counts.sort_unstable();
        let total: u64 = counts.iter().sum();
        // Zipf 1.2 over 1024 ranks: the first has 1 / 4.3... of all.
        let sum: f64 = (1..=1024).map(|k| f64::from(k).powf(-1.2)).sum();
        assert!((counts[1023] as f64 / total as f64 * sum - 1.0).abs() < 0.05);
    }

    #[test]
    fn wrong_jobs_say_what_was_expected() {
        let cases = [
            ("fio,rw=trim", "recipe `fio`: rw=`trim`: expected one of read, write, rw"),
            ("fio,rw=write,rwmixread=10", "recipe `fio`: rwmixread=`10 %`: expected rw=rw"),
            ("fio,distribution=zipf:0", "recipe `fio`: distribution=`zipf:0`: expected `random`"),
            ("fio,fsync=1,fdatasync=1", "recipe `fio`: fdatasync=`1`: expected only one"),
            ("fio,jobs=0", "recipe `fio`: jobs=`0`: expected a number from 1"),
            ("fio,size=1k", "recipe `fio`: size=`1k`: expected a size"),
            (
                "fio,size=1TiB,jobs=100",
                "recipe `fio`: size=`100 TiB`: expected files of at most 4 TiB",
            ),
            ("fio,qd=3", "recipe `fio`: unknown key `qd`; it has seed, app, rw, rwmixread, bs"),
        ];
        for (text, expected) in cases {
            let Err(error) = parse_recipe(text, 1) else { panic!("`{text}` was taken") };
            assert!(error.to_string().starts_with(expected), "{error}\n{expected}");
        }
    }
}
