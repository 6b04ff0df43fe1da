//! Who connects, and how.

use std::sync::Arc;

use crate::nvme::auth::Secrets;
use crate::nvme::pdu::Digests;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wish {
    /// The host's qualified name.
    pub host: String,
    /// Its number.
    pub id: [u8; 16],
    /// What it knows, if a controller asks; with a secret of the controller in it that is to prove itself.
    pub secrets: Option<Arc<Secrets>>,
    /// Digests.
    pub digests: Digests,
    /// I/O queues.
    pub queues: u16,
    /// Commands of an I/O queue.
    pub depth: u16,
    /// Milliseconds for which it may be silent; 0: for ever.
    pub alive: u32,
    /// Bytes that a command brings with it at most; `None`: as many as it may.
    pub capsule: Option<usize>,
}

impl Default for Wish {
    fn default() -> Wish {
        Wish {
            host: "nqn.2014-08.org.nvmexpress:uuid:76617276-6500-8000-8000-000000000001"
                .to_string(),
            id: *b"varve initiator\0",
            secrets: None,
            digests: Digests::default(),
            queues: 1,
            depth: 128,
            alive: 0,
            capsule: None,
        }
    }
}

impl Wish {
    /// The same of a host that knows secrets, under the name that they say it has.
    #[must_use]
    pub fn knowing(mut self, secrets: &Arc<Secrets>) -> Wish {
        if let Ok((Some(name), _)) = secrets.own() {
            self.host = name.to_string();
        }
        self.secrets = Some(Arc::clone(secrets));
        self
    }
}
