//! Assertions of the code under test are broken promises too.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::failure::{Contract, Failure};

thread_local! {
    /// While a run is under proof: where its last panic was. None outside of runs.
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}
static HOOK: Once = Once::new();

/// Runs `body`; a panic in it becomes a failure that says where it was. Nothing is printed: a
/// search meets the same assertion thousands of times while it shrinks a plan.
pub(crate) fn panics(body: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let quiet = LAST.with_borrow_mut(|last| {
                last.as_mut().map(|text| *text = info.to_string().replace('\n', " "))
            });
            if quiet.is_none() {
                before(info);
            }
        }));
    });
    let outer = LAST.replace(Some(String::new()));
    // What the body leaves behind is thrown away with the run, whole or not.
    let result = panic::catch_unwind(AssertUnwindSafe(body));
    let text = LAST.replace(outer).unwrap_or_default();
    result.unwrap_or_else(|_| Err(Failure::new(Contract::Panic, text)))
}
