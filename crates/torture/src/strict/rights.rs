//! Who may do what with a node.
//!
//! Whoever runs `varve` has no number here: a log that another user follows gives that user the same files.

use serde_json::{Value, json};

/// A mode, and an owner and a group where they are another's than who runs `varve`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rights {
    /// The mode: permissions, and the three bits above them.
    pub mode: u32,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
}

/// What a `chmod` or a `chown` changes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Change {
    /// The mode.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<Option<u32>>,
    /// The group.
    pub gid: Option<Option<u32>>,
}

impl Rights {
    /// Of who runs `varve`.
    pub fn own(mode: u32) -> Rights {
        Rights { mode, uid: None, gid: None }
    }

    /// After a change.
    pub fn with(self, change: Change) -> Rights {
        Rights {
            mode: change.mode.unwrap_or(self.mode),
            uid: change.uid.unwrap_or(self.uid),
            gid: change.gid.unwrap_or(self.gid),
        }
    }

    /// As values: the mode, and the owners if one is another's.
    pub fn values(self) -> Vec<Value> {
        match (self.uid, self.gid) {
            (None, None) => vec![json!(self.mode)],
            (uid, gid) => vec![json!(self.mode), json!(uid), json!(gid)],
        }
    }

    /// Of such values; nothing if they are others.
    pub fn of(values: &[Value]) -> Option<Rights> {
        let number = |value: &Value| u32::try_from(value.as_u64()?).ok();
        let owner = |at: usize| match values.get(at) {
            None | Some(Value::Null) => Some(None),
            Some(value) => number(value).map(Some),
        };
        Some(Rights { mode: number(values.first()?)?, uid: owner(1)?, gid: owner(2)? })
    }
}
