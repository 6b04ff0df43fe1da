//! What a controller counts.

use crate::stream::counters;

counters! {
    /// Connections accepted.
    connections,
    /// Connections closed at once because there were too many.
    refused,
    /// Hosts that connected.
    associations,
    /// Queues whose hosts have shown who they are.
    authenticated,
    /// Connections that ended because it was not shown, to us or to the host.
    unauthenticated,
    /// Hosts that were not heard of in time.
    expired,
    /// Connections ended because of what came on them.
    terminated,
    /// Read.
    reads,
    /// Bytes of answers to reads.
    read_bytes,
    /// Write.
    writes,
    /// Bytes written.
    write_bytes,
    /// Flush.
    flushes,
    /// Commands other than Flush that were to be durable when answered.
    forced,
    /// Flushes of disks that served Flush and forced commands.
    disk_flushes,
    /// Compare.
    compares,
    /// Ranges deallocated.
    trims,
    /// Write Zeroes.
    zeroes,
    /// Transactions begun.
    transactions,
    /// Transactions committed.
    commits,
    /// Transactions aborted, by command or because their host was gone.
    aborts,
    /// Commands answered with an error.
    errors,
}
