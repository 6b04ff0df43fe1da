//! Stored tables and recovery (paper 1, sections III-E and III-F).

use block::{BlockDevice, DeviceError, Time};

use super::media::{self, BLOCK, LogBlock, PaperLayout, TABLE_PAIRS};
use super::options::PaperOptions;
use super::stats::PaperStats;
use super::table::Tables;
use super::{Kind, Open, PER_BLOCK, PaperLog};

impl<D: BlockDevice> PaperLog<D> {
    fn over(device: D, layout: PaperLayout, options: &PaperOptions) -> PaperLog<D> {
        // By place there are as many partitions as the data area has, by address as it offers.
        let blocks = layout.data_blocks;
        let tables = Tables::new(options.partition, layout.partition_blocks, layout.data, blocks);
        PaperLog {
            device,
            layout,
            options: *options,
            tables,
            cursor: layout.data,
            open: Open::default(),
            log_next: 0,
            clock: Time::ZERO,
            cleaned: Time::ZERO,
            stats: PaperStats::default(),
        }
    }

    /// Makes a new log on a device, whose contents are lost.
    ///
    /// # Errors
    /// If the options do not fit, or of the device.
    pub fn format(device: D, options: &PaperOptions) -> Result<PaperLog<D>, DeviceError> {
        PaperLog::format_at(device, Time::ZERO, options)
    }

    /// The same on a device that was asked for something until `at`.
    ///
    /// # Errors
    /// As [`PaperLog::format`].
    pub fn format_at(
        device: D,
        at: Time,
        options: &PaperOptions,
    ) -> Result<PaperLog<D>, DeviceError> {
        let layout = PaperLayout::plan(device.capacity().0 / PER_BLOCK, options)?;
        let mut log = PaperLog::over(device, layout, options);
        let (zero, mut done) = (vec![0; BLOCK], at);
        for block in layout.log..layout.tables {
            done = done.max(log.write_blocks(at, block, &zero, Kind::Log)?);
        }
        for part in 0..log.tables.partitions() {
            let region = log.region(part);
            done = done.max(log.write_blocks(at, region, &zero, Kind::Table)?);
        }
        done = done.max(log.write_blocks(at, 0, &layout.encode(), Kind::Super)?);
        log.clock = log.ask(done, block::Request::flush())?;
        Ok(log)
    }

    /// Opens a log: stored tables, then the transactions that have both marks. Then the log is
    /// removed and the tables are stored, in this order.
    ///
    /// # Errors
    /// If there is no log on the device, or of the device.
    pub fn open(device: D, options: &PaperOptions) -> Result<PaperLog<D>, DeviceError> {
        PaperLog::open_at(device, Time::ZERO, options)
    }

    /// The same on a device that was asked for something until `at`.
    ///
    /// # Errors
    /// As [`PaperLog::open`].
    pub fn open_at(
        device: D,
        at: Time,
        options: &PaperOptions,
    ) -> Result<PaperLog<D>, DeviceError> {
        let bad = DeviceError::Unsupported;
        if !options.payload {
            return Err(bad("a log without bytes cannot be opened"));
        }
        let mut block = vec![0; BLOCK];
        let mut device = device;
        let first = block::Request::read(block::Lba(0), block::Sectors(PER_BLOCK));
        device.submit(at, first.with(block::Data::Read(&mut block)))?;
        let layout = PaperLayout::decode(&block).ok_or(bad("no log of paper mode"))?;
        if u64::from(layout.end()) * PER_BLOCK > device.capacity().0 {
            return Err(bad("the device is smaller than its log says"));
        }
        let mut log = PaperLog::over(device, layout, options);
        for part in 0..log.tables.partitions() {
            for (orig, trans) in log.stored(at, part)? {
                log.apply(orig, trans);
            }
        }
        for n in 0..layout.log_blocks {
            log.read_blocks(at, layout.log + n, &mut block)?;
            match media::parse_transaction(&block) {
                LogBlock::None => break,
                LogBlock::Open => {}
                LogBlock::Whole(pairs) => pairs.iter().for_each(|(o, t)| log.apply(*o, *t)),
            }
        }
        log.tables.dig();
        log.cursor = log.tables.end();
        log.store_all(at)?;
        Ok(log)
    }

    /// The blocks of the log as they would be read now, up to the first without a transaction.
    ///
    /// # Errors
    /// Of the device below.
    pub fn log_blocks(&mut self, at: Time) -> Result<Vec<LogBlock>, DeviceError> {
        let (mut found, mut block) = (Vec::new(), vec![0; BLOCK]);
        for n in 0..self.layout.log_blocks {
            self.read_blocks(at, self.layout.log + n, &mut block)?;
            match media::parse_transaction(&block) {
                LogBlock::None => break,
                other => found.push(other),
            }
        }
        Ok(found)
    }

    /// A pair of the log or of a stored table; the partitions are in memory.
    fn apply(&mut self, orig: u32, trans: u32) {
        let data = self.layout.data..self.layout.end();
        if orig >= self.layout.blocks || !data.contains(&trans) {
            self.stats.wild_pairs += 1;
            return;
        }
        let old = self.tables.candidates(orig).into_iter().find_map(|p| self.tables.get(p, orig));
        if let Some(old) = old {
            self.tables.invalidate(orig, old);
        }
        self.tables.insert(orig, trans);
    }

    fn region(&self, part: usize) -> u32 {
        self.layout.tables + part as u32 * self.layout.region
    }

    /// Removes the log, then stores all tables.
    pub(super) fn store_all(&mut self, at: Time) -> Result<(), DeviceError> {
        self.write_blocks(at, self.layout.log, &[0; BLOCK], Kind::Log)?;
        self.log_next = 0;
        for part in 0..self.tables.partitions() {
            if !self.tables.is_stored(part) {
                self.store(at, part)?;
            }
        }
        Ok(())
    }

    fn store(&mut self, at: Time, part: usize) -> Result<(), DeviceError> {
        let pairs = self.tables.tree(part).iter().map(|(orig, trans)| (*orig, *trans));
        // After a recovery several addresses may share a place, and so be more than places.
        let most = ((self.layout.region - 1) * TABLE_PAIRS) as usize;
        let bytes = media::table(pairs.take(most));
        self.write_blocks(at, self.region(part), &bytes, Kind::Table)?;
        Ok(())
    }

    fn stored(&mut self, at: Time, part: usize) -> Result<Vec<(u32, u32)>, DeviceError> {
        let region = self.region(part);
        let mut head = vec![0; BLOCK];
        self.read_blocks(at, region, &mut head)?;
        let count = media::table_len(&head, (self.layout.region - 1) * TABLE_PAIRS);
        let blocks = count.div_ceil(TABLE_PAIRS);
        self.stats.load_blocks += u64::from(blocks) + 1;
        if blocks == 0 {
            return Ok(Vec::new());
        }
        let mut bytes = vec![0; blocks as usize * BLOCK];
        self.read_blocks(at, region + 1, &mut bytes)?;
        Ok(media::table_pairs(&bytes, count).collect())
    }

    /// Brings a partition back to memory. Whoever does, evicts when he is done with all he needs.
    pub(super) fn fetch(&mut self, at: Time, part: usize) -> Result<(), DeviceError> {
        if self.tables.is_stored(part) {
            let pairs = self.stored(at, part)?;
            self.tables.load(part, pairs.into_iter());
            self.stats.loads += 1;
        }
        Ok(())
    }

    /// Above the memory cap the tables updated longest ago are stored and dropped.
    pub(super) fn evict(&mut self, at: Time) -> Result<(), DeviceError> {
        let Some(cap) = self.options.memory else { return Ok(()) };
        while self.node_memory() > cap {
            let Some(part) = self.tables.oldest() else { break };
            self.store(at, part)?;
            self.tables.drop_tree(part);
            self.stats.evictions += 1;
        }
        Ok(())
    }
}
