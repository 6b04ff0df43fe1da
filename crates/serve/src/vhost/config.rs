//! What the device tells of itself (VIRTIO 1.2, 5.2.3 and 5.2.4).

use stack::disk::Capabilities;

/// Bytes of a sector, whatever the block size is.
pub const SECTOR: u64 = 512;
/// Descriptors of data in one chain.
pub const SEG_MAX: u32 = 126;
/// Ranges of one DISCARD or WRITE ZEROES.
pub const RANGES: u32 = 64;
/// Sectors of one such range.
const RANGE_SECTORS: u32 = 1 << 22;
/// Bytes of the configuration space.
pub const CONFIG_BYTES: usize = 60;
/// Where the byte that turns the write cache on lies.
pub const WRITEBACK_AT: usize = 32;

/// Feature bits.
pub mod feature {
    /// `seg_max` is there.
    pub const SEG_MAX: u64 = 1 << 2;
    /// Whatever would change the disk is refused.
    pub const RO: u64 = 1 << 5;
    /// `blk_size` is there.
    pub const BLK_SIZE: u64 = 1 << 6;
    /// FLUSH is understood.
    pub const FLUSH: u64 = 1 << 9;
    /// `topology` is there.
    pub const TOPOLOGY: u64 = 1 << 10;
    /// The driver may turn the write cache on and off.
    pub const CONFIG_WCE: u64 = 1 << 11;
    /// There are several queues.
    pub const MQ: u64 = 1 << 12;
    /// DISCARD is understood.
    pub const DISCARD: u64 = 1 << 13;
    /// WRITE ZEROES is understood.
    pub const WRITE_ZEROES: u64 = 1 << 14;
    /// Descriptors may lie in a table of their own.
    pub const INDIRECT_DESC: u64 = 1 << 28;
    /// Kicks and calls are left out where nobody waits for them.
    pub const EVENT_IDX: u64 = 1 << 29;
    /// Of vhost-user: there are protocol features.
    pub const PROTOCOL_FEATURES: u64 = 1 << 30;
    /// Not a device of before 1.0.
    pub const VERSION_1: u64 = 1 << 32;
}

/// What is offered for a disk.
pub fn features(disk: &Capabilities, queues: u16) -> u64 {
    use feature::*;
    let mut all = SEG_MAX | BLK_SIZE | TOPOLOGY | FLUSH | CONFIG_WCE;
    all |= INDIRECT_DESC | EVENT_IDX | PROTOCOL_FEATURES | VERSION_1;
    all |= if queues > 1 { MQ } else { 0 };
    match (disk.read_only, disk.trim) {
        (true, _) => all | RO,
        (false, true) => all | DISCARD | WRITE_ZEROES,
        (false, false) => all | WRITE_ZEROES,
    }
}

/// The configuration space. `block`: bytes of the driver's logical block.
pub fn space(disk: &Capabilities, block: u32, queues: u16, writeback: bool) -> [u8; CONFIG_BYTES] {
    let mut out = [0; CONFIG_BYTES];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    let sectors = |bytes: u32| (u64::from(bytes) / SECTOR) as u32;
    // A block that is not whole belongs to nobody.
    put(0, &(disk.size / u64::from(block) * (u64::from(block) / SECTOR)).to_le_bytes());
    put(12, &SEG_MAX.to_le_bytes());
    put(20, &block.to_le_bytes());
    let physical = disk.block.max(block);
    put(24, &[(physical / block).ilog2() as u8]);
    put(26, &((physical / block) as u16).to_le_bytes());
    put(WRITEBACK_AT, &[u8::from(writeback)]);
    put(34, &queues.to_le_bytes());
    if !disk.read_only {
        if disk.trim {
            put(36, &RANGE_SECTORS.to_le_bytes());
            put(40, &RANGES.to_le_bytes());
            put(44, &sectors(physical).to_le_bytes());
        }
        put(48, &RANGE_SECTORS.to_le_bytes());
        put(52, &RANGES.to_le_bytes());
        put(56, &[u8::from(disk.trim)]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: Capabilities = Capabilities {
        size: (1 << 30) + 4096 + 512,
        block: 16384,
        atomic: 4096,
        volatile: true,
        trim: true,
        read_only: false,
    };

    #[test]
    fn the_space_says_what_the_disk_is() {
        let word =
            |space: &[u8], at: usize| u32::from_le_bytes(space[at..at + 4].try_into().unwrap());
        let four = space(&DISK, 4096, 3, true);
        assert_eq!(four[..8], ((1u64 << 21) + 8).to_le_bytes());
        assert_eq!((word(&four, 12), word(&four, 20)), (126, 4096));
        assert_eq!((four[24], four[26], four[WRITEBACK_AT], four[34], four[56]), (2, 4, 1, 3, 1));
        assert_eq!((word(&four, 36), word(&four, 44)), (1 << 22, 32));
        let fine = space(&DISK, 512, 1, false);
        assert_eq!(fine[..8], ((1u64 << 21) + 9).to_le_bytes());
        assert_eq!((fine[24], fine[WRITEBACK_AT]), (5, 0));
        let read_only = Capabilities { read_only: true, ..DISK };
        assert_eq!(space(&read_only, 512, 1, true)[36..], [0; 24]);
        assert_eq!(features(&read_only, 1) & feature::DISCARD, 0);
        assert_ne!(features(&read_only, 1) & feature::RO, 0);
        let no_trim = features(&Capabilities { trim: false, ..DISK }, 2);
        assert_eq!(no_trim & (feature::DISCARD | feature::WRITE_ZEROES), feature::WRITE_ZEROES);
        assert_ne!(no_trim & feature::MQ, 0);
    }
}
