//! What both sides send, as bytes.
//!
//! ```text
//! byte 0   type: 0 for all protocols, 1 DH-HMAC-CHAP        4   number of the conversation (2)
//! byte 1   which message                                    6   of each its own
//! ```

use super::group::Group;
use super::hash::Hash;
use crate::nvme::pdu::{put, u16_at, u32_at};

/// Bytes of a message at most, of those that are offered here: a page.
pub const MOST: usize = 4096;
/// Bytes that all of them begin with.
const HEAD: usize = 6;
/// Bytes of the smallest, a failure.
const LEAST: usize = 8;
/// Bytes of a protocol that a host proposes.
const PROTOCOL: usize = 64;
/// Bytes before what is of no fixed length.
const FIXED: usize = 16;
/// Proposed hash functions or groups at most.
const LIST: usize = 30;

const COMMON: u8 = 0;
const CHAP: u8 = 1;

/// Which message: its type, and its number.
mod which {
    use super::{CHAP, COMMON};
    pub const NEGOTIATE: (u8, u8) = (COMMON, 0x00);
    pub const FAILURE2: (u8, u8) = (COMMON, 0xf0);
    pub const FAILURE1: (u8, u8) = (COMMON, 0xf1);
    pub const CHALLENGE: (u8, u8) = (CHAP, 0x01);
    pub const REPLY: (u8, u8) = (CHAP, 0x02);
    pub const SUCCESS1: (u8, u8) = (CHAP, 0x03);
    pub const SUCCESS2: (u8, u8) = (CHAP, 0x04);
}

/// Why an authentication fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Why {
    /// The response is not that of who knows the secret.
    Failed = 1,
    /// No protocol of those proposed.
    Protocol = 2,
    /// A secure channel is wanted, or is not.
    Channel = 3,
    /// No hash function of those proposed.
    Hash = 4,
    /// No group of those proposed.
    Group = 5,
    /// What a message holds.
    Payload = 6,
    /// It may not come now.
    Message = 7,
}

impl Why {
    const ALL: [Why; 7] = [
        Why::Failed,
        Why::Protocol,
        Why::Channel,
        Why::Hash,
        Why::Group,
        Why::Payload,
        Why::Message,
    ];

    /// The one of a number.
    pub fn of(number: u8) -> Option<Why> {
        Why::ALL.into_iter().find(|why| *why as u8 == number)
    }

    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Why::Failed => "authentication failed: another secret, or another name",
            Why::Protocol => "the authentication protocol is not usable",
            Why::Channel => "secure channel concatenation differs",
            Why::Hash => "no usable hash function",
            Why::Group => "no usable Diffie-Hellman group",
            Why::Payload => "incorrect payload",
            Why::Message => "incorrect protocol message",
        }
    }
}

/// What a host proposes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Negotiate {
    /// Whether a secure channel is to follow: 0 none.
    pub channel: u8,
    /// Hash functions and groups, if DH-HMAC-CHAP is among the protocols.
    pub chap: Option<(Vec<u8>, Vec<u8>)>,
}

/// What a controller asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Challenge {
    /// The hash function that it has chosen.
    pub hash: Hash,
    /// The group.
    pub group: Group,
    /// The number of the challenge; never 0.
    pub sequence: u32,
    /// As many bytes as the hash function gives.
    pub challenge: Vec<u8>,
    /// The controller's number of the group.
    pub public: Vec<u8>,
}

/// What a host answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// As many bytes as the hash function gives.
    pub response: Vec<u8>,
    /// What the host asks in turn, if it does, and its number, which is not 0.
    pub challenge: Option<(u32, Vec<u8>)>,
    /// The host's number of the group.
    pub public: Vec<u8>,
}

/// A message, but for the number of its conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// The host begins.
    Negotiate(Negotiate),
    /// The controller asks.
    Challenge(Challenge),
    /// The host answers.
    Reply(Reply),
    /// The controller believes the host; and what it answers, of a hash of this many bytes.
    Success1(usize, Option<Vec<u8>>),
    /// The host believes the controller.
    Success2,
    /// The controller does not go on.
    Failure1(Why),
    /// The host does not.
    Failure2(Why),
}

/// Bytes that may come, taken one part after the other.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Why> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Why::Payload)?;
        self.0 = rest;
        Ok(taken)
    }
}

impl Message {
    fn which(&self) -> (u8, u8) {
        match self {
            Message::Negotiate(_) => which::NEGOTIATE,
            Message::Challenge(_) => which::CHALLENGE,
            Message::Reply(_) => which::REPLY,
            Message::Success1(..) => which::SUCCESS1,
            Message::Success2 => which::SUCCESS2,
            Message::Failure1(_) => which::FAILURE1,
            Message::Failure2(_) => which::FAILURE2,
        }
    }

    /// As bytes.
    pub fn encode(&self, tid: u16) -> Vec<u8> {
        let mut all = vec![0; FIXED];
        (all[0], all[1]) = self.which();
        put(&mut all, 4, &tid.to_le_bytes());
        match self {
            Message::Negotiate(negotiate) => {
                all.truncate(HEAD);
                all.extend([negotiate.channel, u8::from(negotiate.chap.is_some())]);
                if let Some((hashes, groups)) = &negotiate.chap {
                    let mut protocol = [0; PROTOCOL];
                    let (h, g) = (hashes.len().min(LIST), groups.len().min(LIST));
                    put(&mut protocol, 0, &[CHAP, 0, h as u8, g as u8]);
                    put(&mut protocol, 4, &hashes[..h]);
                    put(&mut protocol, 4 + LIST, &groups[..g]);
                    all.extend(protocol);
                }
            }
            Message::Challenge(challenge) => {
                let bytes = challenge.hash.bytes() as u8;
                put(&mut all, 6, &[bytes, 0, challenge.hash.id(), challenge.group.id()]);
                put(&mut all, 10, &(challenge.public.len() as u16).to_le_bytes());
                put(&mut all, 12, &challenge.sequence.to_le_bytes());
                all.extend_from_slice(&challenge.challenge);
                all.extend_from_slice(&challenge.public);
            }
            Message::Reply(reply) => {
                let bytes = reply.response.len();
                put(&mut all, 6, &[bytes as u8, 0, u8::from(reply.challenge.is_some())]);
                put(&mut all, 10, &(reply.public.len() as u16).to_le_bytes());
                all.extend_from_slice(&reply.response);
                match &reply.challenge {
                    Some((sequence, challenge)) => {
                        put(&mut all, 12, &sequence.to_le_bytes());
                        all.extend_from_slice(challenge);
                    }
                    // Its place is there in any case.
                    None => all.extend(vec![0; bytes]),
                }
                all.extend_from_slice(&reply.public);
            }
            Message::Success1(bytes, response) => {
                put(&mut all, 6, &[*bytes as u8, 0, u8::from(response.is_some())]);
                all.extend_from_slice(response.as_deref().unwrap_or_default());
            }
            Message::Success2 => {}
            Message::Failure1(why) | Message::Failure2(why) => {
                all.truncate(HEAD);
                // The only reason there is, and what explains it.
                all.extend([1, *why as u8]);
            }
        }
        all
    }

    /// From bytes: the number of its conversation, the message, and how many bytes of them it is.
    ///
    /// # Errors
    /// Why it is none.
    pub fn decode(bytes: &[u8]) -> Result<(u16, Message, usize), Why> {
        if bytes.len() < LEAST {
            return Err(Why::Payload);
        }
        let tid = u16_at(bytes, 4);
        let mut rest = Rest(bytes);
        let message = match (bytes[0], bytes[1]) {
            which::NEGOTIATE => Message::Negotiate(negotiate(&mut rest)?),
            which::CHALLENGE => Message::Challenge(challenge(&mut rest)?),
            which::REPLY => Message::Reply(reply(&mut rest)?),
            which::SUCCESS1 => {
                let fixed = rest.take(FIXED)?;
                let (count, there) = (usize::from(fixed[6]), flag(fixed[8])?);
                let response = if there { Some(rest.take(count)?.to_vec()) } else { None };
                Message::Success1(count, response)
            }
            which::SUCCESS2 => {
                rest.take(FIXED)?;
                Message::Success2
            }
            which::FAILURE1 => Message::Failure1(failure(&mut rest)?),
            which::FAILURE2 => Message::Failure2(failure(&mut rest)?),
            _ => return Err(Why::Message),
        };
        Ok((tid, message, bytes.len() - rest.0.len()))
    }
}

fn flag(byte: u8) -> Result<bool, Why> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Why::Payload),
    }
}

fn failure(rest: &mut Rest<'_>) -> Result<Why, Why> {
    let fixed = rest.take(LEAST)?;
    Why::of(fixed[7]).filter(|_| fixed[6] == 1).ok_or(Why::Payload)
}

fn negotiate(rest: &mut Rest<'_>) -> Result<Negotiate, Why> {
    let fixed = rest.take(HEAD + 2)?;
    let (channel, protocols) = (fixed[6], fixed[7]);
    let mut chap = None;
    for _ in 0..protocols {
        let protocol = rest.take(PROTOCOL)?;
        if protocol[0] != CHAP || chap.is_some() {
            continue;
        }
        let (hashes, groups) = (usize::from(protocol[2]), usize::from(protocol[3]));
        if hashes > LIST || groups > LIST {
            return Err(Why::Payload);
        }
        chap = Some((protocol[4..][..hashes].to_vec(), protocol[4 + LIST..][..groups].to_vec()));
    }
    Ok(Negotiate { channel, chap })
}

fn challenge(rest: &mut Rest<'_>) -> Result<Challenge, Why> {
    let fixed = rest.take(FIXED)?;
    let hash = Hash::of_id(fixed[8]).ok_or(Why::Hash)?;
    let group = Group::of_id(fixed[9]).ok_or(Why::Group)?;
    let sequence = u32_at(fixed, 12);
    if usize::from(fixed[6]) != hash.bytes() || sequence == 0 {
        return Err(Why::Payload);
    }
    let challenge = rest.take(hash.bytes())?.to_vec();
    let public = rest.take(usize::from(u16_at(fixed, 10)))?.to_vec();
    Ok(Challenge { hash, group, sequence, challenge, public })
}

fn reply(rest: &mut Rest<'_>) -> Result<Reply, Why> {
    let fixed = rest.take(FIXED)?;
    let (bytes, asks, sequence) = (usize::from(fixed[6]), flag(fixed[8])?, u32_at(fixed, 12));
    if asks && sequence == 0 {
        return Err(Why::Payload);
    }
    let response = rest.take(bytes)?.to_vec();
    let challenge = rest.take(bytes)?.to_vec();
    let public = rest.take(usize::from(u16_at(fixed, 10)))?.to_vec();
    Ok(Reply { response, challenge: asks.then_some((sequence, challenge)), public })
}

#[cfg(test)]
mod tests {
    use block::Rng;

    use super::*;

    fn all() -> Vec<Message> {
        let (hash, group) = (Hash::Sha384, Group::Ffdhe2048);
        let challenge =
            |public| Challenge { hash, group, sequence: 7, challenge: vec![1; 48], public };
        let reply = |challenge| Reply { response: vec![2; 48], challenge, public: vec![3; 256] };
        vec![
            Message::Negotiate(Negotiate { channel: 0, chap: None }),
            Message::Negotiate(Negotiate { channel: 1, chap: Some((vec![1, 2, 3], vec![0, 1])) }),
            Message::Challenge(challenge(vec![4; 256])),
            Message::Challenge(Challenge { group: Group::Null, ..challenge(Vec::new()) }),
            Message::Reply(reply(None)),
            Message::Reply(reply(Some((9, vec![5; 48])))),
            Message::Success1(48, None),
            Message::Success1(48, Some(vec![6; 48])),
            Message::Success2,
            Message::Failure1(Why::Hash),
            Message::Failure2(Why::Failed),
        ]
    }

    /// Lengths and places by the tables of the specification.
    #[test]
    fn a_message_has_the_bytes_of_the_specification() {
        let lengths: Vec<usize> = all().iter().map(|message| message.encode(1).len()).collect();
        assert_eq!(lengths, [8, 72, 320, 64, 368, 368, 16, 64, 16, 8, 8]);
        let proposed = all()[1].encode(0x1234);
        assert_eq!(proposed[..12], [0, 0, 0, 0, 0x34, 0x12, 1, 1, 1, 0, 3, 2]);
        assert_eq!((&proposed[12..15], &proposed[42..44]), (&[1, 2, 3][..], &[0, 1][..]));
        let asked = all()[2].encode(0x1234);
        assert_eq!(asked[..16], [1, 1, 0, 0, 0x34, 0x12, 48, 0, 2, 1, 0, 1, 7, 0, 0, 0]);
        let answered = all()[5].encode(0x1234);
        assert_eq!(answered[..16], [1, 2, 0, 0, 0x34, 0x12, 48, 0, 1, 0, 0, 1, 9, 0, 0, 0]);
        assert_eq!(all()[9].encode(0x1234), [0, 0xf1, 0, 0, 0x34, 0x12, 1, 4]);
        assert_eq!(all()[10].encode(0x1234), [0, 0xf0, 0, 0, 0x34, 0x12, 1, 1]);
    }

    #[test]
    fn what_is_sent_is_read_and_no_less_of_it() {
        for message in all() {
            let mut bytes = message.encode(0xabcd);
            for count in 0..bytes.len() {
                let found = Message::decode(&bytes[..count]);
                assert_eq!(found, Err(Why::Payload), "{count} bytes of {message:?}");
            }
            let length = bytes.len();
            bytes.extend([0; 9]);
            assert_eq!(Message::decode(&bytes), Ok((0xabcd, message, length)));
        }
    }

    #[test]
    fn a_field_that_cannot_be_is_refused() {
        let wrong = |message: &Message, at: usize, byte: u8| {
            let mut bytes = message.encode(1);
            bytes[at] = byte;
            Message::decode(&bytes).map(|(_, message, _)| message)
        };
        let all = all();
        for (message, at, byte, why) in [
            (&all[1], 0, 2, Why::Message),
            (&all[1], 1, 5, Why::Message),
            (&all[1], 7, 2, Why::Payload),
            (&all[1], 10, 31, Why::Payload),
            (&all[1], 11, 31, Why::Payload),
            (&all[2], 6, 47, Why::Payload),
            (&all[2], 8, 4, Why::Hash),
            (&all[2], 9, 2, Why::Group),
            (&all[2], 12, 0, Why::Payload),
            (&all[2], 11, 2, Why::Payload),
            (&all[5], 6, 200, Why::Payload),
            (&all[5], 8, 2, Why::Payload),
            (&all[5], 12, 0, Why::Payload),
            (&all[7], 6, 49, Why::Payload),
            (&all[9], 6, 2, Why::Payload),
            (&all[9], 7, 0, Why::Payload),
            (&all[9], 7, 8, Why::Payload),
        ] {
            assert_eq!(wrong(message, at, byte), Err(why), "byte {at} of {message:?} is {byte}");
        }
        // Of two proposals of one protocol the first counts; other protocols are passed over.
        let mut two = all[1].encode(1);
        let mut other = two[8..].to_vec();
        other[2] = 1;
        two.extend(other);
        two[7] = 2;
        assert_eq!(Message::decode(&two).map(|found| found.1), Ok(all[1].clone()));
        two[8] = 3;
        let Ok((_, Message::Negotiate(found), _)) = Message::decode(&two) else {
            panic!("{two:?}")
        };
        assert_eq!(found.chap, Some((vec![1], vec![0, 1])));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut rng = Rng::new(3);
        for _ in 0..200_000 {
            let mut bytes = rng.pick(&all()).encode(1);
            for _ in 0..rng.between(1, 4) {
                let at = rng.below(bytes.len().min(16) as u64) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
            bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
            if let Ok((_, message, used)) = Message::decode(&bytes) {
                assert!(used <= bytes.len() && used <= MOST.max(bytes.len()), "{message:?}");
            }
        }
    }
}
