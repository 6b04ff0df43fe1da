//! What a workload is made of, and its one-line text form.

use std::fmt;

use block::Span;

use crate::lfs::{FsAction, parse_action};

/// One thing the host does. Pages are 4 KiB, sectors 512 B.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Writes pages, each with a stamp.
    Write {
        /// First page.
        page: u32,
        /// Pages.
        count: u32,
        /// Durable before it is answered.
        fua: bool,
    },
    /// Writes sectors, with bytes.
    WriteBytes {
        /// First sector.
        sector: u32,
        /// Sectors.
        count: u32,
        /// Durable before it is answered.
        fua: bool,
    },
    /// Reads pages and compares.
    Read {
        /// First page.
        page: u32,
        /// Pages.
        count: u32,
    },
    /// Discards pages.
    Discard {
        /// First page.
        page: u32,
        /// Pages.
        count: u32,
    },
    /// Makes everything before durable.
    Flush,
    /// Nothing, for a while.
    Idle(Span),
    /// A clean stop; the last step of a list.
    Shutdown,
    /// Begins a transaction, which the host calls by a number of its own from 0 to 31. Nothing
    /// if that one is open.
    Begin {
        /// The host's number.
        tx: u8,
    },
    /// A transaction, begun by this if it is not open, writes pages.
    TxWrite {
        /// The host's number.
        tx: u8,
        /// First page.
        page: u32,
        /// Pages.
        count: u32,
    },
    /// A transaction discards pages.
    TxTrim {
        /// The host's number.
        tx: u8,
        /// First page.
        page: u32,
        /// Pages.
        count: u32,
    },
    /// An open transaction reads pages.
    TxRead {
        /// The host's number.
        tx: u8,
        /// First page.
        page: u32,
        /// Pages.
        count: u32,
    },
    /// Commits the open ones of these transactions together.
    Commit {
        /// Bit i: the host's number i.
        set: u32,
    },
    /// Ends an open transaction.
    Abort {
        /// The host's number.
        tx: u8,
    },
    /// Gives pages the names of others.
    Remap {
        /// First page of the destination.
        to: u32,
        /// First page of the source.
        from: u32,
        /// Pages.
        count: u32,
    },
    /// Asks something of a file system.
    File(FsAction),
}

/// One step of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// What.
    pub action: Action,
    /// Submitted at once, without waiting for what came before.
    pub overlap: bool,
    /// Application, and write hint.
    pub app: u8,
}

impl Step {
    /// A step that waits for all before it.
    pub fn new(action: Action) -> Step {
        Step { action, overlap: false, app: 0 }
    }

    /// The first page behind all that it touches.
    pub fn end(&self) -> u64 {
        let end = |start: u32, count: u32| u64::from(start) + u64::from(count);
        match self.action {
            Action::Write { page, count, .. }
            | Action::Read { page, count }
            | Action::Discard { page, count }
            | Action::TxWrite { page, count, .. }
            | Action::TxTrim { page, count, .. }
            | Action::TxRead { page, count, .. } => end(page, count),
            Action::WriteBytes { sector, count, .. } => end(sector, count).div_ceil(8),
            Action::Remap { to, from, count } => end(to, count).max(end(from, count)),
            Action::Flush
            | Action::Idle(_)
            | Action::Shutdown
            | Action::Begin { .. }
            | Action::Commit { .. }
            | Action::Abort { .. }
            | Action::File(_) => 0,
        }
    }

    /// The name of the kind of action, for coverage.
    pub fn class(&self) -> Class {
        match self.action {
            Action::Write { fua: false, .. } => Class::Write,
            Action::Write { fua: true, .. } => Class::Fua,
            Action::WriteBytes { .. } => Class::Bytes,
            Action::Read { .. } => Class::Read,
            Action::Discard { .. } => Class::Discard,
            Action::Flush => Class::Flush,
            Action::Idle(_) => Class::Idle,
            Action::Shutdown => Class::Shutdown,
            Action::Begin { .. } => Class::Begin,
            Action::TxWrite { .. } => Class::TxWrite,
            Action::TxTrim { .. } => Class::TxTrim,
            Action::TxRead { .. } => Class::TxRead,
            Action::Commit { set } if set.count_ones() > 1 => Class::CommitMany,
            Action::Commit { .. } => Class::Commit,
            Action::Abort { .. } => Class::Abort,
            Action::Remap { .. } => Class::Remap,
            Action::File(action) => action.class(),
        }
    }
}

/// Kinds of host operations, as coverage counts them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Class {
    /// A write of pages.
    Write,
    /// A write of pages with force unit access.
    Fua,
    /// A write of sectors.
    Bytes,
    /// A read.
    Read,
    /// A discard.
    Discard,
    /// A flush.
    Flush,
    /// An idle gap.
    Idle,
    /// A clean stop.
    Shutdown,
    /// A transaction begins.
    Begin,
    /// A write of a transaction.
    TxWrite,
    /// A discard of a transaction.
    TxTrim,
    /// A read of a transaction.
    TxRead,
    /// A commit.
    Commit,
    /// A commit of several.
    CommitMany,
    /// An abort.
    Abort,
    /// Pages change their names.
    Remap,
    /// Something is made in a file system.
    Make,
    /// It gets another name.
    Link,
    /// A name goes.
    Unlink,
    /// Names change.
    Rename,
    /// A file is written.
    FileWrite,
    /// It becomes shorter, longer, or gets holes.
    Resize,
    /// Permissions or extended attributes.
    Attribute,
    /// A file is made durable.
    Fsync,
    /// Everything is.
    Sync,
    /// A clean unmount and a mount.
    Remount,
    /// Power-on: recovery.
    Mount,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.overlap {
            f.write_str("&")?;
        }
        match self.action {
            Action::Write { page, count, fua } => {
                write!(f, "{} {page} {count}", if fua { "wf" } else { "w" })?;
            }
            Action::WriteBytes { sector, count, fua } => {
                write!(f, "{} {sector} {count}", if fua { "bf" } else { "b" })?;
            }
            Action::Read { page, count } => write!(f, "r {page} {count}")?,
            Action::Discard { page, count } => write!(f, "d {page} {count}")?,
            Action::Flush => f.write_str("f")?,
            Action::Idle(span) => write!(f, "i {}", span.as_ps())?,
            Action::Shutdown => f.write_str("s")?,
            Action::Begin { tx } => write!(f, "tb {tx}")?,
            Action::TxWrite { tx, page, count } => write!(f, "tw {tx} {page} {count}")?,
            Action::TxTrim { tx, page, count } => write!(f, "td {tx} {page} {count}")?,
            Action::TxRead { tx, page, count } => write!(f, "tr {tx} {page} {count}")?,
            Action::Commit { set } => write!(f, "tc {set}")?,
            Action::Abort { tx } => write!(f, "ta {tx}")?,
            Action::Remap { to, from, count } => write!(f, "tm {to} {from} {count}")?,
            Action::File(action) => write!(f, "{action}")?,
        }
        if self.app > 0 {
            write!(f, " @{}", self.app)?;
        }
        Ok(())
    }
}

impl std::str::FromStr for Step {
    type Err = String;

    /// `w PAGE COUNT`, `wf` (FUA), `b SECTOR COUNT`, `bf`, `r PAGE COUNT`, `d PAGE COUNT`, `f`,
    /// `i PICOSECONDS`, `s`; of transactions `tb TX`, `tw TX PAGE COUNT`, `td ..`, `tr ..`,
    /// `tc BITS`, `ta TX`, and `tm TO FROM COUNT`; `&` in front: without waiting; `@APP` behind. Of
    /// file systems as [`FsAction`] is written.
    fn from_str(text: &str) -> Result<Step, String> {
        if let Some(action) = parse_action(text) {
            return Ok(Step::new(Action::File(action)));
        }
        let bad =
            || format!("`{text}`: expected a step such as `w 3 2`, `wf 0 1 @1`, `d 8 4`, `f`");
        let (overlap, rest) = match text.trim().strip_prefix('&') {
            Some(rest) => (true, rest),
            None => (false, text.trim()),
        };
        let (body, app) = match rest.split_once('@') {
            Some((body, app)) => (body, app.trim().parse().map_err(|_| bad())?),
            None => (rest, 0),
        };
        let mut words = body.split_whitespace();
        let word = words.next().ok_or_else(bad)?;
        let numbers: Vec<u64> =
            words.map(str::parse).collect::<Result<_, _>>().map_err(|_| bad())?;
        let small = |n: u64| u32::try_from(n).map_err(|_| bad());
        let tx = |n: u64| u8::try_from(n).ok().filter(|n| *n < 32).ok_or_else(bad);
        let action = match (word, numbers.as_slice()) {
            ("w" | "wf", [page, count]) => {
                Action::Write { page: small(*page)?, count: small(*count)?, fua: word == "wf" }
            }
            ("b" | "bf", [sector, count]) => Action::WriteBytes {
                sector: small(*sector)?,
                count: small(*count)?,
                fua: word == "bf",
            },
            ("r", [page, count]) => Action::Read { page: small(*page)?, count: small(*count)? },
            ("d", [page, count]) => Action::Discard { page: small(*page)?, count: small(*count)? },
            ("f", []) => Action::Flush,
            ("i", [ps]) => Action::Idle(Span::from_ps(*ps)),
            ("s", []) => Action::Shutdown,
            ("tb", [t]) => Action::Begin { tx: tx(*t)? },
            ("ta", [t]) => Action::Abort { tx: tx(*t)? },
            ("tc", [set]) => Action::Commit { set: small(*set)? },
            ("tw", [t, page, count]) => {
                Action::TxWrite { tx: tx(*t)?, page: small(*page)?, count: small(*count)? }
            }
            ("td", [t, page, count]) => {
                Action::TxTrim { tx: tx(*t)?, page: small(*page)?, count: small(*count)? }
            }
            ("tr", [t, page, count]) => {
                Action::TxRead { tx: tx(*t)?, page: small(*page)?, count: small(*count)? }
            }
            ("tm", [to, from, count]) => {
                Action::Remap { to: small(*to)?, from: small(*from)?, count: small(*count)? }
            }
            _ => return Err(bad()),
        };
        Ok(Step { action, overlap, app })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_step_are_one() {
        for text in [
            "w 3 2",
            "wf 0 1 @2",
            "&w 9 1",
            "b 17 3",
            "bf 0 8",
            "r 0 64",
            "d 8 4",
            "f",
            "i 500",
            "s",
            "tb 0",
            "&tw 3 7 1",
            "td 31 0 9",
            "tr 1 2 3",
            "tc 5",
            "ta 2",
            "tm 0 8 4",
            "mk /a",
            "mkdir /d/n/o",
            "sym /b 30",
            "ln /a /d/b",
            "rm /a",
            "rmdir /d",
            "mv /a /b",
            "swap /a /d/c",
            "write /a 0 4096",
            "append /a 9",
            "cut /a 5",
            "punch /a 1 2",
            "grow /a 3 4",
            "keep /a 5 6",
            "attr / 1 40",
            "noattr /a 1",
            "mode /a 384",
            "fsync /",
            "sync",
            "clean 2",
            "idle 3",
            "remount",
            "look",
        ] {
            let step: Step = text.parse().unwrap();
            assert_eq!(step.to_string(), text);
        }
        for bad in [
            "tb 32",
            "tw 1 2",
            "",
            "w",
            "w 1",
            "w 1 2 3",
            "x 1 2",
            "w -1 2",
            "f 1",
            "w 1 99999999999",
            "w 1 2 @x",
            "mk a",
            "mk /p",
            "mk /aa",
            "mv /a",
            "sync 1",
        ] {
            assert!(bad.parse::<Step>().is_err(), "{bad}");
        }
    }
}
