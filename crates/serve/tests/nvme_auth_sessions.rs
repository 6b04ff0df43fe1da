//! Conversations and messages that are drawn: nobody is let in by chance (C11).

mod actor;
mod controller;
mod script;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use actor::{Actor, KINDS, ONE, auth, connected, demanding, random, secrets};
use block::Rng;
use controller::bytes::{begin, capsule, filled, judge, resident};
use controller::{NQN, run};
use script::{BEFORE, OTHERS, Script};
use varve_serve::nvme::codec::{Place, Sqe, admin, fabrics};
use varve_serve::nvme::initiator::Wish;
use varve_serve::nvme::initiator::authenticate::{receive, send};
use varve_serve::nvme::{InitiatorError, Namespace, Options, Status, Subsystem, serve};
use wire::nvme::auth::{Group, Message, Negotiate, Reply, Why};

/// Conversations that are drawn, of hosts that know the secret and of such that do not, with a byte changed here and a
/// message missing there: only who knows it is ever let in, and who knows it and does nothing wrong always is.
#[test]
fn a_drawn_conversation_lets_in_only_who_knows_the_secret() {
    let me = Wish::default().host;
    let own = format!("{ONE}\ncontroller {}", KINDS[1]);
    let running = run(&["ram(4MiB)"], demanding(&own));
    let known = [ONE.to_string(), own.clone(), KINDS[2].to_string()].map(|text| secrets(&text));
    let (mut let_in, mut refused) = (0, 0);
    for seed in 0..400 {
        let mut rng = Rng::stream(seed, "nvme/auth");
        let knows = rng.below(2) == 0;
        let mine = &known[if knows { rng.below(2) as usize } else { 2 }];
        let mut actor = Actor::new(connected(&running, 0, u16::MAX), mine, &me);
        // The group costs time and is drawn elsewhere.
        actor.host.groups =
            vec![*rng.pick(&[Group::Null, Group::Null, Group::Null, Group::Ffdhe2048])];
        let honest = rng.below(4) == 0;
        let passed = drawn(&mut actor, &mut rng, honest).is_ok();
        let asked = actor.line.ask(Sqe::new(admin::KEEP_ALIVE, 0), &[], 0);
        // It is through if what is wrong now is that the controller is not enabled.
        let through = asked.is_ok_and(|done| done.cqe.status == Status::SEQUENCE);
        assert!(!through || knows, "{seed}: let in by chance");
        assert!(!(knows && honest) || (through && passed), "{seed}: not let in");
        if through { let_in += 1 } else { refused += 1 }
    }
    assert!(let_in > 60 && refused > 200, "{let_in} {refused}");
    running.until("all are gone", |running| running.count("hosts_now") == 0);
}

/// One conversation; where it is not honest, a message may be changed, cut short, left out or said twice.
fn drawn(actor: &mut Actor<'_>, rng: &mut Rng, honest: bool) -> Result<(), InitiatorError> {
    let wrong = |why| InitiatorError::Protocol(format!("{why:?}"));
    let mut say = |actor: &mut Actor<'_>, mut message: Vec<u8>| {
        match if honest { 9 } else { rng.below(10) } {
            0 => {
                let at = rng.below(message.len() as u64) as usize;
                message[at] ^= 1 << rng.below(8);
            }
            1 => message.truncate(rng.below(message.len() as u64) as usize),
            2 => return Ok(()),
            3 => send(&mut actor.line, &message)?,
            _ => {}
        }
        if message.is_empty() { Ok(()) } else { send(&mut actor.line, &message) }
    };
    say(actor, actor.host.negotiate())?;
    let challenge = receive(&mut actor.line)?;
    let reply = actor.host.reply(&challenge, &mut random).map_err(wrong)?;
    say(actor, reply)?;
    let success = receive(&mut actor.line)?;
    if let Some(last) = actor.host.success(&success).map_err(wrong)? {
        say(actor, last)?;
    }
    Ok(())
}

/// Bytes of messages in any order, from memory: no panic, no memory, and nobody is let in.
#[test]
fn four_thousand_scripts_of_messages_and_no_panic() {
    let own = format!("{ONE}\ncontroller {}", KINDS[1]);
    let shared = Subsystem::new(
        NQN,
        vec![Namespace::new("disk", filled(BEFORE), &[])],
        Options { secrets: Some(secrets(&own)), ..Options::default() },
    );
    let (mut answers, before) = (0, resident());
    for seed in 0..4000 {
        let mut rng = Rng::stream(seed, "nvme/auth/scripts");
        let mut bytes = begin(0, u16::MAX, &Wish::default());
        for cid in 2..2 + rng.below(8) as u16 {
            bytes.extend(draw_message(&mut rng, cid));
        }
        if rng.below(10) == 0 {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
        }
        let mut script = Script::new(&bytes);
        script.step = *rng.pick(&[1 << 20, 4096, 1000, 72, 7]);
        let out = Arc::clone(&script.out);
        serve(&shared, script, None, &AtomicBool::new(false));
        answers += judge(&out.lock().expect("whole"), OTHERS)
            .unwrap_or_else(|why| panic!("{seed}: {why}"));
    }
    assert!(answers > 12_000, "{answers}: scripts get somewhere");
    assert_eq!(shared.hosts(), 0, "nobody stays");
    let stats = shared.stats.list();
    assert_eq!(
        stats.iter().find(|(name, _)| *name == "authenticated"),
        Some(&("authenticated", 0))
    );
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
}

fn draw_message(rng: &mut Rng, cid: u16) -> Vec<u8> {
    let tid = if rng.below(8) == 0 { rng.next_u64() as u16 } else { 7 };
    let bytes = *rng.pick(&[32usize, 32, 48, 64, 0, 255]);
    let mut message = match rng.below(6) {
        0..=2 => {
            let groups = if rng.below(4) == 0 { vec![1] } else { vec![0] };
            Message::Negotiate(Negotiate { channel: 0, chap: Some((vec![1, 2, 3], groups)) })
        }
        3 => Message::Reply(Reply {
            response: vec![rng.next_u64() as u8; bytes],
            challenge: (rng.below(2) == 0).then(|| (rng.next_u64() as u32, vec![1; bytes])),
            public: vec![rng.next_u64() as u8; if rng.below(2) == 0 { 0 } else { 256 }],
        }),
        4 => Message::Success2,
        _ => Message::Failure2(Why::Failed),
    }
    .encode(tid);
    if rng.below(5) == 0 {
        let at = rng.below(message.len() as u64) as usize;
        message[at] = rng.next_u64() as u8;
    }
    if rng.below(8) == 0 {
        message.truncate(rng.below(message.len() as u64 + 1) as usize);
    }
    let mut sqe = match rng.below(3) {
        0 => {
            let room = *rng.pick(&[4096u32, 4096, 400, 64, 8, 7, 0, u32::MAX]);
            auth(fabrics::AUTH_RECEIVE, room).moving(room, Place::Transport)
        }
        _ => auth(fabrics::AUTH_SEND, message.len() as u32),
    };
    for word in 10..12 {
        if rng.below(25) == 0 {
            sqe = sqe.word(word, rng.next_u64() as u32);
        }
    }
    let sends = sqe.0[4] == fabrics::AUTH_SEND;
    capsule(sqe.numbered(cid), if sends { &message } else { &[] })
}
