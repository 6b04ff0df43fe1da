//! What a server counts.

use crate::stream::counters;

counters! {
    /// Virtual machines that came.
    connections,
    /// Reads.
    reads,
    /// Bytes read.
    read_bytes,
    /// Writes.
    writes,
    /// Bytes written.
    write_bytes,
    /// Writes, and ranges of zeroes, that were durable when they were answered.
    forced,
    /// FLUSH.
    flushes,
    /// Ranges of DISCARD.
    trims,
    /// Ranges of WRITE ZEROES.
    zeroes,
    /// Requests answered with an error.
    errors,
    /// Chains that have no place for a status, or whose memory is not the machine's.
    broken,
}
