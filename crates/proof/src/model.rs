//! The reference model of a block device under power cuts. It shares no code with any device:
//! it knows what the host did and what it was told, and from that alone which contents a page
//! may have.
//!
//! Per 4 KiB page it keeps the versions submitted, oldest first, from the newest one that must
//! survive on. After a cut a page holds that one or any later one (C1, C2, C5); while the power
//! is on it holds the last.
//!
//! Where it is open what a page holds (a discard of part of a unit, a write that ended in an error), a
//! write of some of its sectors makes a version of each that is possible. These are one *group*, of one
//! request: one of them is there, certainly, and the next write starts from them alone.

use block::Time;

use crate::failure::{Contract, Failure};
use crate::stamp::{self, SECTORS};

/// The version each sector of a page was written by; 0 = zeroes.
pub type Content = [u32; SECTORS];
/// Zeroes.
pub const ZERO: Content = [0; SECTORS];

/// One version of a page.
#[derive(Clone, Copy, Debug)]
struct Version {
    content: Content,
    request: u32,
    /// Certainly took effect, this or another of its group. Not so: a discard of part of a unit, a write
    /// that ended in an error.
    firm: bool,
}

/// A cut, as the host sees it.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// When the power went.
    pub instant: Time,
    /// The last request submitted.
    pub request: u32,
    /// Everything that request asked of the device had been started, so that its
    /// acknowledgement counts if it came before the instant.
    pub complete: bool,
}

/// What planted media faults excuse.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tolerance {
    /// At most so many pages may answer with an error.
    pub unreadable: u32,
    /// After a mount, at most as many may hold an older version of themselves.
    pub older: bool,
    /// With the power on too: a program that missed its page left the older version there, and
    /// nothing in a record says which version the reader expects.
    pub stale: bool,
    /// The device may have become read-only.
    pub read_only: bool,
}

/// Makes something durable once it is acknowledged.
#[derive(Clone, Copy, Debug)]
struct Barrier {
    ack: Time,
    request: u32,
    /// A write with force unit access: its own pages. None: a flush, all pages.
    only: Option<(u32, u32)>,
}

/// What a read of a page gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// The device answered with an error.
    Unreadable,
    /// A whole page, stamped for this place.
    Page(Content),
    /// A stamp for another page or sector.
    Elsewhere {
        /// What it was written for.
        place: u32,
    },
    /// Not a payload anybody wrote.
    Garbage,
}

impl Seen {
    /// What a stamp found at `page` means.
    pub fn from_stamp(page: u32, found: u64) -> Seen {
        match stamp::decode(found) {
            stamp::Found::Zero => Seen::Page(ZERO),
            stamp::Found::Of { place, version } if place == page => Seen::Page([version; SECTORS]),
            stamp::Found::Of { place, .. } => Seen::Elsewhere { place },
            stamp::Found::Garbage => Seen::Garbage,
        }
    }

    /// What bytes found at `page` mean.
    pub fn from_bytes(page: u32, bytes: &[u8]) -> Seen {
        let mut content = ZERO;
        for (i, sector) in bytes.chunks_exact(stamp::SECTOR).enumerate() {
            let own = page * SECTORS as u32 + i as u32;
            match stamp::decode_sector(sector) {
                stamp::Found::Zero => {}
                stamp::Found::Of { place, version } if place == own => content[i] = version,
                stamp::Found::Of { place, .. } => {
                    return Seen::Elsewhere { place: place / SECTORS as u32 };
                }
                stamp::Found::Garbage => return Seen::Garbage,
            }
        }
        Seen::Page(content)
    }
}

/// What the host knows of a device.
#[derive(Clone, Debug)]
pub struct Model {
    pages: Vec<Vec<Version>>,
    barriers: Vec<Barrier>,
    versions: u32,
    /// Pages a discard takes whole.
    grain: u32,
}

impl Model {
    /// A device of `pages` pages of zeroes that discards in units of `grain` pages.
    pub fn new(pages: u32, grain: u32) -> Model {
        let blank = Version { content: ZERO, request: 0, firm: true };
        Model {
            pages: (0..pages).map(|_| vec![blank]).collect(),
            barriers: Vec::new(),
            versions: 0,
            grain,
        }
    }

    /// Pages.
    pub fn pages(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Request `request` writes whole pages: the version they get.
    pub fn write(&mut self, request: u32, page: u32, count: u32) -> u32 {
        self.versions += 1;
        let content = [self.versions; SECTORS];
        for versions in self.range(page, count) {
            versions.push(Version { content, request, firm: true });
        }
        self.versions
    }

    /// Request `request` writes sectors: the version they get.
    pub fn write_sectors(&mut self, request: u32, sector: u32, count: u32) -> u32 {
        self.versions += 1;
        let (fresh, per_page) = (self.versions, SECTORS as u32);
        let (first, last) = (sector / per_page, (sector + count - 1) / per_page);
        for page in first..=last {
            let versions = &mut self.pages[page as usize];
            // Where it is open which version the rest comes from, each is possible.
            let group = versions.len();
            for base in certain(versions, u32::MAX)..group {
                let mut content = versions[base].content;
                for (i, token) in content.iter_mut().enumerate() {
                    if (sector..sector + count).contains(&(page * per_page + i as u32)) {
                        *token = fresh;
                    }
                }
                if versions[group..].iter().all(|v| v.content != content) {
                    versions.push(Version { content, request, firm: true });
                }
            }
        }
        fresh
    }

    /// Request `request` discards pages. Parts of units may stay as they are.
    pub fn discard(&mut self, request: u32, page: u32, count: u32) {
        let whole = page.next_multiple_of(self.grain)..(page + count) / self.grain * self.grain;
        for at in page..page + count {
            let firm = whole.contains(&at);
            self.pages[at as usize].push(Version { content: ZERO, request, firm });
        }
    }

    /// Request `request` ended in an error: it may have taken effect or not.
    pub fn failed(&mut self, request: u32) {
        for versions in &mut self.pages {
            for version in versions.iter_mut().rev().take_while(|v| v.request == request) {
                version.firm = false;
            }
        }
    }

    /// A flush was acknowledged, or is going to be at `ack`.
    pub fn flushed(&mut self, request: u32, ack: Time) {
        self.barriers.push(Barrier { ack, request, only: None });
    }

    /// A write with force unit access was.
    pub fn forced(&mut self, request: u32, ack: Time, page: u32, count: u32) {
        self.barriers.push(Barrier { ack, request, only: Some((page, count)) });
    }

    /// No cut before `at` will be asked for: forgets what cannot be found any more.
    pub fn settle(&mut self, at: Time) {
        let mut i = 0;
        while i < self.barriers.len() {
            let barrier = self.barriers[i];
            if barrier.ack > at {
                i += 1;
                continue;
            }
            self.barriers.swap_remove(i);
            let (page, count) = barrier.only.unwrap_or((0, self.pages()));
            for versions in self.range(page, count) {
                let from = certain(versions, barrier.request);
                versions.drain(..from);
            }
        }
    }

    /// With the power on, a page reads as its last version.
    ///
    /// # Errors
    /// The promise broken.
    pub fn expect_last(&self, page: u32, seen: Seen) -> Result<(), Failure> {
        let from = certain(&self.pages[page as usize], u32::MAX);
        self.expect(page, seen, from, "with the power on")
    }

    /// After a cut, a page holds what the barriers acknowledged before it promise.
    ///
    /// # Errors
    /// The promise broken.
    pub fn expect_after(&self, page: u32, seen: Seen, point: &Point) -> Result<(), Failure> {
        let versions = &self.pages[page as usize];
        let mut from = 0;
        if versions.len() > 1 {
            for barrier in &self.barriers {
                let counts = if barrier.request == point.request {
                    point.complete && barrier.ack < point.instant
                } else {
                    barrier.ack <= point.instant
                };
                let here = barrier.only.is_none_or(|(p, n)| (p..p + n).contains(&page));
                if counts && here {
                    from = from.max(certain(versions, barrier.request));
                }
            }
        }
        self.expect(page, seen, from, "after the cut")
    }

    fn expect(&self, page: u32, seen: Seen, from: usize, when: &str) -> Result<(), Failure> {
        let versions = &self.pages[page as usize];
        if let Seen::Page(content) = seen
            && versions[from..].iter().any(|v| v.content == content)
        {
            return Ok(());
        }
        Err(self.broken(page, seen, from, when))
    }

    /// Which promise a page broke that does not hold any version it may hold.
    #[cold]
    fn broken(&self, page: u32, seen: Seen, from: usize, when: &str) -> Failure {
        let allowed = &self.pages[page as usize][from..];
        let contract = match seen {
            Seen::Unreadable => Contract::C6,
            Seen::Garbage => Contract::C2,
            Seen::Elsewhere { .. } if allowed.iter().any(|v| v.content == ZERO) => Contract::C5,
            Seen::Elsewhere { .. } => Contract::C6,
            Seen::Page(content) if self.is_mixed(page, &content) => Contract::C2,
            Seen::Page(content) if content.iter().any(|v| *v > self.versions) => Contract::C6,
            Seen::Page(_) if when != "after the cut" => Contract::C6,
            Seen::Page(_) if allowed[0].content == ZERO => Contract::C5,
            Seen::Page(_) => Contract::C1,
        };
        let may: Vec<String> = allowed.iter().map(|v| short(&v.content)).collect();
        let found = match seen {
            Seen::Page(content) => short(&content),
            other => format!("{other:?}"),
        };
        Failure::new(
            contract,
            format!("{when} page {page} holds {found}, may hold {}", may.join(" or ")),
        )
    }

    /// Sectors of which some are, some are not, of one version the page still may hold.
    fn is_mixed(&self, page: u32, content: &Content) -> bool {
        let uniform = content.iter().all(|v| *v == content[0]);
        !uniform && self.pages[page as usize].iter().all(|v| v.content != *content)
    }

    /// Whether a page's content was ever submitted for it, as far as version numbers tell.
    pub fn was_submitted(&self, seen: Seen) -> bool {
        matches!(seen, Seen::Page(content) if content.iter().all(|v| *v <= self.versions))
    }

    /// The host of `other` found this after a mount and starts over from it. Pages that could
    /// not be read stay open: each version they may have held is still possible.
    pub fn restart(&mut self, other: &Model, found: &[Seen]) {
        self.barriers.clear();
        self.versions = other.versions;
        self.grain = other.grain;
        self.pages.resize_with(other.pages.len(), Vec::new);
        for ((versions, old), seen) in self.pages.iter_mut().zip(&other.pages).zip(found) {
            versions.clear();
            match seen {
                Seen::Page(content) => {
                    versions.push(Version { content: *content, request: 0, firm: true });
                }
                _ => versions.extend(old.iter().map(|v| Version { request: 0, firm: true, ..*v })),
            }
        }
    }

    fn range(&mut self, page: u32, count: u32) -> &mut [Vec<Version>] {
        &mut self.pages[page as usize..(page + count) as usize]
    }
}

/// The first of the newest certain group submitted by `request` or before.
fn certain(versions: &[Version], request: u32) -> usize {
    let Some(last) = versions.iter().rposition(|v| v.firm && v.request <= request) else {
        return 0;
    };
    let request = versions[last].request;
    versions[..last].iter().rposition(|v| v.request != request).map_or(0, |before| before + 1)
}

fn short(content: &Content) -> String {
    if content.iter().all(|v| *v == content[0]) {
        if content[0] == 0 { "zeroes".to_string() } else { format!("v{}", content[0]) }
    } else {
        format!("v{content:?}")
    }
}

#[cfg(test)]
mod tests;
