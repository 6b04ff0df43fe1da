//! A stack as a namespace.

use block::{EventHash, Rng};
use stack::disk::{Ask, Capabilities, Told};
use stack::live::Stack;

/// Bytes of a page of a transaction.
pub const PAGE: u64 = block::UNIT_BYTES;

/// A stack, and how it is cut into logical blocks.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// The name of the export.
    pub name: String,
    /// What is served.
    pub stack: Stack,
    /// What it can do.
    pub capabilities: Capabilities,
    /// Bytes of a logical block are 2 to this.
    pub shift: u32,
    /// Logical blocks.
    pub blocks: u64,
    /// A name that is nobody else's: the same each time the same file is served under the same name.
    pub uuid: [u8; 16],
    /// The same, in the other form that hosts know.
    pub nguid: [u8; 16],
}

impl Namespace {
    /// A stack under a name. Its logical blocks are of 4 KiB; of 512 bytes where a power cut may leave
    /// parts of 4 KiB: a logical block is old or new. `life`: what tells this process from others, for what lies in
    /// memory: two of these must not be taken for two ways to one namespace.
    pub fn new(name: &str, stack: Stack, life: &[u8]) -> Namespace {
        let capabilities = stack.disk.capabilities();
        let shift = if u64::from(capabilities.atomic) >= PAGE { 12 } else { 9 };
        let mut hash = EventHash::default();
        let life = if stack.lasts { &[] } else { life };
        let text = stack.identity.bytes().chain([0]).chain(name.bytes()).chain([0]);
        text.chain(life.iter().copied()).for_each(|byte| hash.add(u64::from(byte)));
        let mut rng = Rng::stream(hash.value(), "serve/nvme/names");
        let mut draw = || {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&rng.next_u64().to_be_bytes());
            bytes[8..].copy_from_slice(&rng.next_u64().to_be_bytes());
            bytes
        };
        let (mut uuid, nguid) = (draw(), draw());
        // A UUID says how it was made: of its own kind (version 8).
        uuid[6] = uuid[6] & 0x0f | 0x80;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        let (name, blocks) = (name.to_string(), capabilities.size >> shift);
        Namespace { name, stack, capabilities, shift, blocks, uuid, nguid }
    }

    /// Bytes of a logical block.
    pub fn block(&self) -> u64 {
        1 << self.shift
    }

    /// Its transactions, as long as it has any; pages and logical blocks are the same there.
    pub fn transactions(&self) -> Option<block::TxLimits> {
        match self.stack.disk.transact(Ask::Limits) {
            Ok(Told::Limits(limits)) if self.block() == PAGE => Some(limits),
            _ => None,
        }
    }

    /// What it can do, in words.
    pub fn list(&self) -> String {
        let c = &self.capabilities;
        let names = [
            ("read-only", c.read_only),
            ("flush", c.volatile),
            ("fua", true),
            ("compare", true),
            ("write-zeroes", !c.read_only),
            ("deallocate", c.trim),
            ("transactions", self.transactions().is_some()),
        ];
        let named: Vec<&str> =
            names.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
        format!(
            "{}: {} blocks of {} bytes; {}; atomic: {} bytes",
            self.name,
            self.blocks,
            self.block(),
            named.join(", "),
            c.atomic,
        )
    }
}
