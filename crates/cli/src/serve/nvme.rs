//! `varve serve nvme-tcp`: stacks as namespaces.

use std::path::Path;
use std::sync::Arc;

use lab::LabError;
use serve::nbd::Address;
use serve::nvme::{Digest, Namespace, Options, SecretError, Secrets, Server, Subsystem};
use stack::live::Stack;

use super::{close, say_timing, start, until_stopped, wrong};
use crate::args::{self, ServeNvme};
use crate::random::random;
use crate::{note, print};

/// One more namespace: `NAME=STACK`.
fn export(text: &str) -> Result<(String, Stack), LabError> {
    let (name, stack) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| LabError::Input(format!("--export {text}: expected NAME=STACK")))?;
    let stack = Stack::start(&stack.parse()?).map_err(wrong)?;
    Ok((name.to_string(), stack))
}

fn bytes(option: &str, size: block::Bytes) -> Result<u32, LabError> {
    u32::try_from(size.0)
        .map_err(|_| LabError::Input(format!("{option} {}: too much", size.human())))
}

/// A file of secrets.
pub fn secrets(path: &Path) -> Result<Secrets, LabError> {
    Secrets::read(path).map_err(|error| match error {
        SecretError::Io { path, error } => LabError::io(path, error),
        other => LabError::Input(other.to_string()),
    })
}

fn options(args: &ServeNvme) -> Result<Options, LabError> {
    Ok(Options {
        queues: args.queues,
        depth: args.depth,
        in_capsule: bytes("--in-capsule", args.in_capsule)?,
        transfer: bytes("--mdts", args.mdts)?,
        digest: match args.digest {
            args::Digest::Off => Digest::Off,
            args::Digest::Allow => Digest::Allow,
            args::Digest::Require => Digest::Require,
        },
        hosts: args.host_nqn.clone(),
        secrets: args.secret.as_deref().map(secrets).transpose()?.map(Arc::new),
        told: args.traddr,
        vanish: args.on_cut == args::OnCut::Vanish,
        connections: usize::from(args.max_connections),
        ..Options::default()
    })
}

/// The name that a subsystem has if it was given none.
fn own_name(of: &Namespace) -> String {
    let hex: String = of.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let uuid = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-");
    format!("nqn.2014-08.org.nvmexpress:uuid:{uuid}")
}

pub(super) fn serve_nvme(args: &ServeNvme) -> Result<(), LabError> {
    let address = Address::Tcp(args.listen);
    if !address.is_local() {
        if !args.listen_any {
            let what =
                format!("{}: other machines reach it; --listen-any allows that", args.listen);
            return Err(LabError::Input(what));
        }
        note(match args.secret {
            None => {
                "varve: whoever reaches this address and knows the name of a host that may connect can read and \
                 overwrite the namespaces: names are no secrets, and nothing is encrypted"
            }
            Some(_) => {
                "varve: hosts show that they know a secret when they connect; who sits on the way there can read all that \
                 comes after that, and change it: nothing is encrypted"
            }
        });
    }
    let options = options(args)?;
    let (stack, control, socket) = start(&args.stack)?;
    let life = random::<16>()?;
    let mut namespaces = vec![Namespace::new(&args.name, stack, &life)];
    for text in &args.export {
        let (name, stack) = export(text)?;
        if namespaces.iter().any(|namespace| namespace.name == name) {
            return Err(LabError::Input(format!("--export {text}: there is a namespace {name}")));
        }
        namespaces.push(Namespace::new(&name, stack, &life));
    }
    let stacks: Vec<Stack> = namespaces.iter().map(|one| one.stack.clone()).collect();
    let list: Vec<String> = (1..)
        .zip(&namespaces)
        .map(|(nsid, one)| format!("{nsid} {}\n  {}\n", one.list(), one.stack.name))
        .collect();
    let nqn = args.nqn.clone().unwrap_or_else(|| own_name(&namespaces[0]));
    let failed = |error| LabError::Failed(format!("nvme-tcp://{}: {error}", args.listen));
    let subsystem = Subsystem::new(&nqn, namespaces, options);
    let server = Server::bind(&address, Arc::clone(&subsystem)).map_err(failed)?;
    let Address::Tcp(found) = server.address().map_err(failed)? else {
        return Err(LabError::Failed("it listens elsewhere".to_string()));
    };
    let handle = server.handle();
    let counted = handle.clone();
    control.count(Box::new(move || counted.counters()));
    print(&format!("nvme-tcp://{found}/{nqn}\n{}", list.concat()))?;
    say_timing(&args.stack)?;
    let ended = until_stopped(&args.place, args.ready_fd, move || server.run(), || handle.stop());
    drop(socket);
    // Each of them, whatever becomes of another.
    let closed = stacks.iter().map(close).fold(Ok(()), Result::and);
    closed?;
    ended?.map_err(failed)
}
