//! PRAGMAs that a store answers or refuses.

use super::Store;
use crate::vfs::Reply;

/// SQLite asks the file of the schema that a PRAGMA names, and of `main` where it names none: of a store that is attached
/// to something else it is not refused then. (A store cannot tell OFF from MEMORY by what is written.)
fn refused(name: &str, value: Option<&str>) -> Option<Reply> {
    let off = value.is_some_and(|value| value.eq_ignore_ascii_case("off"));
    (off && name.eq_ignore_ascii_case("journal_mode")).then(|| {
        Reply::Refused(
            "varve refuses journal_mode=OFF: ROLLBACK is undefined there, and wrong sums need \
                 no crash. journal_mode=MEMORY writes no more to the store."
                .to_string(),
        )
    })
}

/// The same while another process has the image, for the reason `error`; `None`: only the store can answer.
pub(super) fn without_store(name: &str, value: Option<&str>, error: &str) -> Option<Reply> {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        "varve_error" => Some(Reply::Text(error.to_string())),
        name if name.starts_with("varve_") => None,
        name => Some(refused(name, value).unwrap_or(Reply::NotFound)),
    }
}

/// Answers a PRAGMA of the store, or one it refuses.
pub(super) fn answer(store: &Store, name: &str, value: Option<&str>) -> Reply {
    let is = |wanted: &str| name.eq_ignore_ascii_case(wanted);
    let mut core = match store.core() {
        Ok(core) => core,
        Err(inherited) if is("varve_error") => return Reply::Text(inherited.to_string()),
        Err(inherited) => return Reply::Refused(inherited.to_string()),
    };
    if let Some(refused) = refused(name, value) {
        return refused;
    }
    if is("synchronous") && value.is_some() {
        core.journals_unasked();
    }
    if is("varve_group") {
        if let Some(value) = value {
            let Ok(pages) = value.parse() else {
                return Reply::Refused(format!("varve_group: {value} is no number of pages"));
            };
            if let Err(error) = core.flush_group() {
                return Reply::Refused(format!("varve_group: {error}"));
            }
            core.options.group = pages;
        }
        return Reply::Text(core.options.group.to_string());
    }
    if is("varve_flush") {
        let done = core.flush_group().and_then(|()| core.sync_plain());
        return match done {
            Ok(()) => Reply::Text("ok".to_string()),
            Err(error) => Reply::Refused(format!("varve_flush: {error}")),
        };
    }
    if is("varve_stats") {
        return Reply::Text(format!("{:?}", core.stats));
    }
    if is("varve_error") {
        return Reply::Text(core.error.clone().unwrap_or_default());
    }
    Reply::NotFound
}
