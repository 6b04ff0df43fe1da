//! What a drive has counted.

use block::Divider;

use super::Drive;
use crate::stats::{Stats, Wear};

impl Drive {
    /// Everything counted so far.
    pub fn stats(&self) -> Stats {
        let (buffer, apps, read_unwritten) = self.front.stats();
        let (busy_link, busy_fw, busy_dram, dropped) = self.side.busy();
        let mut nand = self.ftl.nand().stats();
        nand.gaps_dropped += dropped;
        Stats {
            host: self.host,
            read_unwritten,
            write_slots: self.write_slots,
            slot_bytes: u64::from(self.p.geometry.slot_bytes),
            apps: apps.to_vec(),
            buffer,
            gc: self.ftl.gc_stats(),
            map: self.ftl.map_stats(),
            merges: self.ftl.merge_stats(),
            recovery: self.ftl.recovery(),
            nand,
            busy_link,
            busy_fw,
            busy_dram,
            booked_until: self.ftl.nand().sched().booked_until().max(self.side.booked_until()),
            wear: self.wear(),
            bad_blocks: self.ftl.bad_blocks(),
            free_blocks: self.ftl.free_blocks(),
            valid_units: self.ftl.valid_slots(),
            logical_units: u64::from(self.ftl.slots()),
            data_units: self.ftl.data_slots(),
            effective_units: self.ftl.effective_slots(),
            event_hash: self.ftl.nand().event_hash(),
        }
    }

    fn wear(&self) -> Wear {
        let table = self.ftl.nand().wear();
        let Some((min, max)) = table.range() else {
            return Wear { histogram: vec![0], ..Wear::default() };
        };
        let mut wear = Wear { min, max, ..Wear::default() };
        let steps = (max - min + 1).min(16);
        let width = Divider::new((max - min + 1).div_ceil(steps));
        wear.histogram = vec![0; steps as usize];
        for (erases, blocks) in table.iter() {
            wear.sum += u64::from(erases) * blocks;
            wear.blocks += blocks;
            let step = if max == min { 0 } else { width.div(erases - min) };
            wear.histogram[step as usize] += blocks;
        }
        wear
    }
}
