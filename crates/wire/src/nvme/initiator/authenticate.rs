//! A queue that was just connected shows who is there, if it was asked.

use super::{DISCOVERY, InitiatorError, Line, Wish, fabric};
use crate::nvme::auth::{CHANNEL, Host, HostError, MOST, Names, REQUIRED, Why};
use crate::nvme::codec::fabrics;
use crate::random;

/// Both commands, by the one security protocol that there is: NVMe's.
fn security(kind: u8, bytes: usize) -> crate::nvme::codec::Sqe {
    fabric(kind).word(10, 0xe9_01_01_00).word(11, bytes as u32)
}

/// Brings a message.
///
/// # Errors
/// [`InitiatorError`].
pub fn send(line: &mut Line, message: &[u8]) -> Result<(), InitiatorError> {
    line.done(security(fabrics::AUTH_SEND, message.len()), message, 0).map(drop)
}

/// Asks for one.
///
/// # Errors
/// [`InitiatorError`].
pub fn receive(line: &mut Line) -> Result<Vec<u8>, InitiatorError> {
    Ok(line.done(security(fabrics::AUTH_RECEIVE, MOST), &[], MOST)?.data)
}

/// What the controller asked for in its answer to Connect.
pub(super) fn authenticate(
    line: &mut Line,
    nqn: &str,
    wish: &Wish,
    answer: u64,
) -> Result<(), InitiatorError> {
    let fail = |why: &'static str| Err(InitiatorError::Authentication(why));
    if answer & CHANNEL != 0 {
        return fail("the controller asks for a secure channel, which is not offered here");
    }
    let secrets = wish.secrets.as_deref();
    if answer & REQUIRED == 0 {
        return match secrets.and_then(|secrets| secrets.controller()) {
            // Nothing is told there that a stranger may not know.
            Some(_) if nqn != DISCOVERY => {
                fail("the controller was to prove itself, and asks for no authentication")
            }
            _ => Ok(()),
        };
    }
    let Some(secrets) = secrets else {
        return fail("the controller asks for a secret, and none was given");
    };
    let secret = secrets.of_host(&wish.host);
    let Some(secret) = secret else { return fail("there is no secret for this host's name") };
    let mut tid = [0; 2];
    random::fill(&mut tid)?;
    let names = Names { host: &wish.host, subsystem: nqn };
    let mut host = Host::new(names, secret, secrets.controller(), u16::from_le_bytes(tid));
    let done = converse(line, &mut host);
    match done {
        Ok(()) => Ok(()),
        Err(Ended::Line(error)) => Err(error),
        Err(Ended::Host(HostError::Random(error))) => Err(error.into()),
        Err(Ended::Host(HostError::Refused(why))) => fail(why.text()),
        Err(Ended::Host(HostError::Refuses(why))) => {
            // Whatever becomes of that: nothing more is said to this controller.
            let _ = send(line, &host.failure(why));
            fail(match why {
                Why::Failed => "the controller does not know its secret",
                other => other.text(),
            })
        }
    }
}

enum Ended {
    Line(InitiatorError),
    Host(HostError),
}

impl From<InitiatorError> for Ended {
    fn from(error: InitiatorError) -> Ended {
        Ended::Line(error)
    }
}

impl From<HostError> for Ended {
    fn from(error: HostError) -> Ended {
        Ended::Host(error)
    }
}

fn converse(line: &mut Line, host: &mut Host<'_>) -> Result<(), Ended> {
    send(line, &host.negotiate())?;
    let challenge = receive(line)?;
    let reply = host.reply(&challenge, &mut random::fill)?;
    send(line, &reply)?;
    let success = receive(line)?;
    if let Some(message) = host.success(&success)? {
        send(line, &message)?;
    }
    Ok(())
}
