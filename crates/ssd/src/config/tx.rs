//! Keys of transactions in the FTL.

use super::params::{FtlKind, LockMode, OobMode, Params, TxParams};
use super::{Config, ConfigError};

/// Keys without effect while `tx.mode = off`.
const KEYS: &[&str] =
    &["tx.commit", "tx.lock", "tx.losers", "tx.max_open", "tx.pages", "tx.pairs", "tx.span"];
/// Pages of open transactions unless asked for: the paper's table.
const PAGES: u32 = 10_000;

fn clash(keys: &str, reason: impl Into<String>) -> ConfigError {
    ConfigError::Contradiction { keys: keys.to_string(), reason: reason.into() }
}

/// The parameters of transactions; `p` has all others.
pub(super) fn params(c: &Config, p: &Params) -> Result<Option<TxParams>, ConfigError> {
    if c.text("tx.mode") == "off" {
        let asked: Vec<&str> = KEYS.iter().copied().filter(|key| c.is_asked(key)).collect();
        return match asked.is_empty() {
            true => Ok(None),
            false => Err(clash(&asked.join(", "), "without effect while tx.mode = off")),
        };
    }
    check(p)?;
    let tx = TxParams {
        paper: c.text("tx.mode") == "paper",
        counted: c.text("tx.commit") == "counted",
        lock: match c.text("tx.lock") {
            "hard" => LockMode::Hard,
            "ignore" => LockMode::Ignore,
            _ => LockMode::Prefer,
        },
        pages: c.count("tx.pages") as u32,
        max_open: c.count("tx.max_open") as u32,
        span: c.count("tx.span"),
        losers: c.count("tx.losers") as u32,
        pairs: c.count("tx.pairs") as u32,
    };
    if tx.max_open > tx.losers {
        return Err(clash(
            "tx.max_open, tx.losers",
            "a power cut may leave every open transaction as a loser: allow as many",
        ));
    }
    if tx.pages > 0 {
        return Ok(Some(tx));
    }
    // As many as fit, up to half of the spare pages.
    let slots = p.geometry.slots();
    let most = (slots.saturating_sub(p.logical_pages) / 2).min(PAGES);
    let fits = |pages: u32| {
        let with = Params { tx: Some(TxParams { pages, ..tx.clone() }), ..p.clone() };
        crate::ftl::lines_fit(&with)
    };
    let (mut low, mut high) = (0, most + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    if low == 0 {
        return Err(clash(
            "tx.mode, tx.pages, op, geometry",
            "no spare space is left for pages of open transactions; give more over-provisioning",
        ));
    }
    Ok(Some(TxParams { pages: low, ..tx }))
}

fn check(p: &Params) -> Result<(), ConfigError> {
    if p.ftl != FtlKind::Page {
        return Err(clash("tx.mode, ftl", "transactions need ftl = page"));
    }
    if p.oob != OobMode::Full {
        return Err(clash("tx.mode, nand.oob", "transactions need whole records: nand.oob = full"));
    }
    if p.unit_pages != 1 {
        return Err(clash("tx.mode, unit", "transactions need a mapping unit of 4 KiB"));
    }
    if p.checkpoint.interval_slots.is_some() {
        return Err(clash(
            "tx.mode, ckpt.mode",
            "checkpoints do not hold the state of transactions; set ckpt.mode = none",
        ));
    }
    if p.map.cache.is_some() {
        return Err(clash(
            "tx.mode, map.mode",
            "a commit changes many map entries at once; set map.mode = full",
        ));
    }
    Ok(())
}
