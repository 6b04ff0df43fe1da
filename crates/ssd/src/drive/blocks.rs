//! Every block of a drive, as it is now: what a map of it shows.

use block::BlockId;

use super::Drive;

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockNow {
    /// How often it was erased; `None`: it is bad.
    pub erases: Option<u32>,
    /// Its slots that hold current data; `None` where no bit says so (the hybrid FTL).
    pub valid: Option<u32>,
}

/// All of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlocksNow {
    /// Dies of the drive.
    pub dies: u32,
    /// Planes of the drive. Block `i` is in plane `i % planes`, and those of a die are neighbours.
    pub planes: u32,
    /// By number.
    pub blocks: Vec<BlockNow>,
}

impl Drive {
    /// How often each block was erased; `None` if they are more than `most`.
    pub fn erases(&self, most: u32) -> Option<Vec<u32>> {
        let nand = self.ftl.nand();
        let blocks = Some(nand.geometry().blocks()).filter(|blocks| *blocks <= most)?;
        Some((0..blocks).map(|block| nand.erases(BlockId(block))).collect())
    }

    /// Every block; `None` if they are more than `most`. It looks at each slot once.
    pub fn blocks(&self, most: u32) -> Option<BlocksNow> {
        let nand = self.ftl.nand();
        let geometry = nand.geometry();
        if geometry.blocks() > most {
            return None;
        }
        let now = |block| {
            let block = BlockId(block);
            let erases = (!nand.is_bad(block)).then(|| nand.erases(block));
            BlockNow { erases, valid: self.ftl.page().map(|ftl| ftl.valid_in(block)) }
        };
        let blocks = (0..geometry.blocks()).map(now).collect();
        Some(BlocksNow { dies: geometry.dies(), planes: geometry.planes(), blocks })
    }
}
