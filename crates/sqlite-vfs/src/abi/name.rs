//! A file name as SQLite hands it over.

use std::ffi::{CStr, CString, c_char};
use std::marker::PhantomData;

use super::Api;

/// The name of a file, for the length of one call. Absent for temporary files.
pub struct Name<'a> {
    pub(super) raw: *const c_char,
    text: Option<String>,
    /// Parameters of the URI may be asked for.
    api: Option<Api>,
    life: PhantomData<&'a ()>,
}

impl<'a> Name<'a> {
    /// # Safety
    /// `raw` is null or a NUL-ended text that lives for `'a`; with `api`, it is a name to which
    /// SQLite appends the parameters of the URI.
    pub(super) unsafe fn new(raw: *const c_char, api: Option<Api>) -> Name<'a> {
        let text = (!raw.is_null())
            // SAFETY: by the promise above.
            .then(|| unsafe { CStr::from_ptr(raw) }.to_string_lossy().into_owned());
        Name { raw, text, api, life: PhantomData }
    }

    /// The name; `None` for a temporary file.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The parameter `key` of the URI; only a main database, its journal and its WAL have any.
    pub fn parameter(&self, key: &str) -> Option<String> {
        let key = CString::new(key).ok()?;
        // SAFETY: `api` is there only if `raw` is a name that carries parameters.
        self.api.and_then(|api| unsafe { api.parameter(self.raw, &key) })
    }
}
