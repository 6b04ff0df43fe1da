//! What a server counts.

use crate::stream::counters;

counters! {
    /// Connections accepted.
    connections,
    /// Connections closed at once because there were too many.
    refused,
    /// Handshakes that did not lead to an export.
    handshakes_failed,
    /// READ.
    reads,
    /// Bytes of data and holes in answers to READ.
    read_bytes,
    /// WRITE.
    writes,
    /// Bytes written.
    write_bytes,
    /// FLUSH.
    flushes,
    /// Commands other than FLUSH that were to be durable when answered.
    forced,
    /// Flushes of the disk that served FLUSH and FUA.
    disk_flushes,
    /// TRIM.
    trims,
    /// WRITE_ZEROES.
    zeroes,
    /// BLOCK_STATUS.
    statuses,
    /// Commands answered with an error.
    errors,
}
