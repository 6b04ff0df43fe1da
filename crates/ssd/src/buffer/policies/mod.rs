//! The registry: one file and one line per policy.

mod ad_lru;
mod aoi;
mod apart;
mod arc;
mod belady;
mod bplru;
mod ccf_lru;
mod cflru;
mod clock;
mod common;
mod fab;
mod fifo;
mod gate;
mod gated;
mod lirs;
mod lists;
mod lru;
mod lru_wsr;
mod none;
mod pt_lru;
mod s3_fifo;
mod sieve;
mod two_level_lru;
mod two_q;
mod vbbms;
mod w_tinylfu;

use std::sync::{PoisonError, RwLock};

use super::policy::PolicyInfo;
use super::spec::PolicyOption;
use crate::config::KeyKind::{Count, Flag, Share};

/// Those of programs that use this crate, in the order in which they came.
static ADDED: RwLock<Vec<&'static PolicyInfo>> = RwLock::new(Vec::new());

/// The buffer policies there are: those of this crate, then those that were added.
pub fn policies() -> Vec<&'static PolicyInfo> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    REGISTRY.iter().chain(added.iter().copied()).collect()
}

/// The policy of a name.
pub(super) fn find(name: &str) -> Option<&'static PolicyInfo> {
    policies().into_iter().find(|info| info.name == name || info.aliases.contains(&name))
}

/// Adds a policy: from now on its name stands wherever that of a policy does, in keys, scenarios and runs
/// of hit ratios.
///
/// # Errors
/// There is one of that name.
pub fn add_policy(info: &'static PolicyInfo) -> Result<(), String> {
    let names = std::iter::once(info.name).chain(info.aliases.iter().copied());
    if let Some(taken) = names.into_iter().find(|name| find(name).is_some()) {
        return Err(format!("a buffer policy is called `{taken}` already"));
    }
    ADDED.write().unwrap_or_else(PoisonError::into_inner).push(info);
    Ok(())
}

/// Adds a policy, in the place of one of its name that was added before: for programs in which a policy is
/// written while they run. What was read as the one before stays that one.
///
/// # Errors
/// A policy of this crate has its name.
pub fn replace_policy(info: &'static PolicyInfo) -> Result<(), String> {
    let own =
        |name: &str| REGISTRY.iter().any(|own| own.name == name || own.aliases.contains(&name));
    let names = std::iter::once(info.name).chain(info.aliases.iter().copied());
    if let Some(taken) = names.into_iter().find(|name| own(name)) {
        return Err(format!("a buffer policy of the drive is called `{taken}`"));
    }
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    added.retain(|old| old.name != info.name);
    added.push(info);
    Ok(())
}

/// All policies of this crate.
const REGISTRY: &[PolicyInfo] = &[
    PolicyInfo {
        name: "none",
        aliases: &[],
        doc: "no buffer: reads and writes go to flash",
        source: "-",
        options: &[],
        clairvoyant: false,
        make: |setup| setup.buffer(none::NoBuffer),
    },
    PolicyInfo {
        name: "fifo",
        aliases: &[],
        doc: "one queue, hits change nothing",
        source: "textbook",
        options: &[],
        clairvoyant: false,
        make: |setup| setup.buffer(fifo::Fifo::default()),
    },
    PolicyInfo {
        name: "lru",
        aliases: &[],
        doc: "one list, hits move to its front",
        source: "textbook",
        options: &[],
        clairvoyant: false,
        make: |setup| setup.buffer(lru::Lru::default()),
    },
    PolicyInfo {
        name: "clock",
        aliases: &[],
        doc: "a queue with a bit: what was hit goes round once more",
        source: "textbook; counts confirmed by a second program",
        options: &[],
        clairvoyant: false,
        make: |setup| setup.buffer(clock::Clock::default()),
    },
    PolicyInfo {
        name: "sieve",
        aliases: &[],
        doc: "a queue whose hand takes out what was not hit and leaves the rest in place",
        source: "Zhang, Yang, Yue, Vigfusson, Rashmi, NSDI 2024; counts confirmed by a second program",
        options: &[],
        clairvoyant: false,
        make: |setup| setup.buffer(sieve::Sieve::default()),
    },
    PolicyInfo {
        name: "2q",
        aliases: &[],
        doc: "a queue of new pages, ghosts of what left it, a list of what came back",
        source: "Johnson, Shasha, VLDB 1994 (the full version); shares and results as in open code",
        options: &[
            PolicyOption {
                name: "in",
                kind: Share,
                default: "25 %",
                doc: "share of the queue of new pages (A1in)",
            },
            PolicyOption {
                name: "out",
                kind: Share,
                default: "50 %",
                doc: "pages remembered after they left it (A1out), as a share of the entries",
            },
        ],
        clairvoyant: false,
        make: |setup| {
            let (new, out) = (setup.part_of_entries("in")?, setup.share_of_entries("out"));
            setup.buffer(two_q::TwoQ::new(new, out, setup.shape.pages))
        },
    },
    PolicyInfo {
        name: "arc",
        aliases: &[],
        doc: "pages seen once and seen again, in shares that ghosts adapt",
        source: "Megiddo, Modha, FAST 2003; target in 1/65536; ratios confirmed by a second program",
        options: &[],
        clairvoyant: false,
        make: |setup| setup.buffer(arc::Arc::new(setup.shape.entries, setup.shape.pages)),
    },
    PolicyInfo {
        name: "lirs",
        aliases: &[],
        doc: "pages with a short distance between uses stay, the rest pass through a small queue",
        source: "Jiang, Zhang, SIGMETRICS 2002; stack of at most 2 N pages as in open code; discards are our reading",
        options: &[PolicyOption {
            name: "hir",
            kind: Share,
            default: "1 %",
            doc: "share of the entries that may be other than low inter-reference, at least one",
        }],
        clairvoyant: false,
        make: |setup| {
            let hir = setup.part_of_entries("hir")?;
            setup.buffer(lirs::Lirs::new(setup.shape.entries, hir, setup.shape.pages))
        },
    },
    PolicyInfo {
        name: "s3-fifo",
        aliases: &[],
        doc: "a small queue, a main queue and a queue of ghosts",
        source: "Yang, Zhang, Qiu, Yue, Rashmi, SOSP 2023; rules as in open code since December 2024",
        options: &[
            PolicyOption {
                name: "small",
                kind: Share,
                default: "10 %",
                doc: "share of the small queue",
            },
            PolicyOption {
                name: "ghost",
                kind: Share,
                default: "90 %",
                doc: "pages remembered, as a share of the entries",
            },
            PolicyOption {
                name: "hits",
                kind: Count(1, 3),
                default: "2",
                doc: "hits that take an entry from the small queue to the main one",
            },
        ],
        clairvoyant: false,
        make: |setup| {
            let small = setup.part_of_entries("small")?.clamp(1, setup.shape.entries.max(1));
            let limits = s3_fifo::Limits {
                small,
                main: setup.shape.entries.saturating_sub(small),
                ghosts: setup.share_of_entries("ghost"),
                hits: setup.count("hits") as u8,
            };
            setup.buffer(s3_fifo::S3Fifo::new(limits, setup.shape.pages))
        },
    },
    PolicyInfo {
        name: "w-tinylfu",
        aliases: &[],
        doc: "a small LRU window before a segmented LRU that only the more frequent enter",
        source: "Einziger, Friedman, Manes, ACM TOS 2017; window as in open code, sketch and the rest our reading",
        options: &[PolicyOption {
            name: "window",
            kind: Share,
            default: "1 %",
            doc: "share of the window, at least one entry",
        }],
        clairvoyant: false,
        make: |setup| {
            let window = setup.part_of_entries("window")?;
            setup.buffer(w_tinylfu::WTinyLfu::new(setup.shape.entries, window))
        },
    },
    PolicyInfo {
        name: "belady",
        aliases: &[],
        doc: "what is used again last goes first: a bound on misses, not on programs",
        source: "Belady, IBM Systems Journal 1966; counts confirmed by a second program",
        options: &[PolicyOption {
            name: "clean",
            kind: Flag,
            default: "off",
            doc: "among entries never used again the clean ones go first (belady-clean)",
        }],
        clairvoyant: true,
        make: |setup| setup.buffer(belady::Belady::new(setup.shape.entries, setup.flag("clean"))),
    },
    PolicyInfo {
        name: "aoi",
        aliases: &["isolation"],
        doc: "append-only data kept apart by a table of chunks written large and written again",
        source: "Jeong et al., IEEE Access 2021 (paper 3), gaps filled as the options say",
        options: aoi::OPTIONS,
        clairvoyant: false,
        make: aoi::make,
    },
    two_level_lru::INFO,
    cflru::INFO,
    lru_wsr::INFO,
    ccf_lru::INFO,
    ad_lru::INFO,
    pt_lru::INFO,
    vbbms::INFO,
    bplru::INFO,
    fab::INFO,
];
