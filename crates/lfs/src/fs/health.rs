//! Whether a volume takes changes.
//!
//! | what | promise |
//! | --- | --- |
//! | healthy | until it is closed, once: as it was mounted, or by an error |
//! | closed | for good: the next mount begins anew; the first error is the cause |

use crate::FsError;

/// See above.
#[derive(Default)]
pub(super) struct Health {
    /// Why nothing may be changed.
    closed: Option<&'static str>,
    /// The error since which nothing may be changed.
    cause: Option<FsError>,
}

impl Health {
    /// It takes no changes, as it was mounted.
    pub fn close(&mut self) {
        self.closed = Some("as it was mounted");
    }
    /// After such an error memory and media may have parted; others are answers.
    pub fn fail(&mut self, error: &FsError) {
        let why = match error {
            FsError::Device(_) => "since an error of the device",
            FsError::Corrupt(_) => "since it met what contradicts itself",
            _ => return,
        };
        self.closed = Some(why);
        self.cause = Some(error.clone());
    }
    /// A checkpoint ended in its middle, for there was no segment to go on in: what it had handed over by then is no
    /// state that anybody may go on from. The error that says so.
    pub fn end_for_room(&mut self) -> FsError {
        let why = "since a checkpoint found no free segment";
        self.closed = Some(why);
        self.cause = Some(FsError::NoSpace);
        FsError::ReadOnly(why)
    }
    /// Why it takes no changes, if it does not.
    pub fn closed(&self) -> Option<&'static str> {
        self.closed
    }
    pub fn cause(&self) -> Option<&FsError> {
        self.cause.as_ref()
    }
}
