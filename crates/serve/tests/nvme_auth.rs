//! Who a host is, and who the controller is: both sides against each other, and whatever else may be said.

mod actor;
mod controller;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use actor::{Actor, KINDS, ONE, auth, connected, demanding, knowing, random, secrets};
use controller::{DRIVE, NQN, Running, run};
use varve_serve::nbd::Address;
use varve_serve::nvme::codec::{Sqe, admin, fabrics, io};
use varve_serve::nvme::initiator::authenticate::receive;
use varve_serve::nvme::initiator::{Line, Wish, blocks, connect_command};
use varve_serve::nvme::pdu::{Digests, u16_at};
use varve_serve::nvme::{Initiator, InitiatorError, Options, Status};
use wire::nvme::auth::{Group, Hash, HostError, Message, Negotiate, Reply, Why};

fn why(connected: Result<Initiator, InitiatorError>) -> String {
    connected.expect_err("it may not connect").to_string()
}

#[test]
fn who_knows_the_secret_is_let_in_and_nobody_else() {
    for (kind, own) in KINDS.iter().zip(KINDS.iter().rev()) {
        let running = run(&[DRIVE], demanding(&format!("{kind}\ncontroller {own}")));
        for digests in [Digests::both(false), Digests::both(true)] {
            for both in [kind.to_string(), format!("{kind}\ncontroller {own}")] {
                let wish = Wish { digests, queues: 2, ..knowing(&both) };
                let (mut host, of) = running.host(&wish);
                host.write(of, 3, &[7; 4096], true).expect("written");
                assert_eq!(host.read(of, 3, 1).expect("read"), [7; 4096]);
            }
        }
        running.until("all are counted", |running| running.count("authenticated") == 12);
        assert_eq!(running.count("unauthenticated"), 0);
        let connect = |wish: &Wish| Initiator::connect(&running.address(), NQN, wish);
        assert!(why(connect(&Wish::default())).contains("asks for a secret, and none was given"));
        assert!(why(connect(&knowing(own))).contains("another secret, or another name"));
        // The controller has another one than this host believes, and would not be told of by a host that knows neither.
        let other = KINDS.iter().find(|one| *one != kind && *one != own).expect("four");
        let wrong = knowing(&format!("{kind}\ncontroller {other}"));
        assert!(why(connect(&wrong)).contains("the controller does not know its secret"));
        running.until("all are gone", |running| running.count("hosts_now") == 0);
        assert_eq!(running.count("unauthenticated"), 2, "one said nothing at all");
    }
}

#[test]
fn a_secret_of_one_host_is_no_other_hosts() {
    let me = Wish::default().host;
    let other = me.replace("0001", "0009");
    let text = format!("{me} {ONE}\n{other} {}", KINDS[1]);
    let running = run(&["ram(4MiB)"], demanding(&text));
    let connect = |text: &str| Initiator::connect(&running.address(), NQN, &knowing(text));
    connect(&format!("{me} {ONE}")).expect("let in");
    connect(&format!("{other} {}", KINDS[1])).expect("let in");
    assert!(why(connect(&format!("{other} {ONE}"))).contains("another secret"));
    assert!(why(connect(&format!("{me} {}", KINDS[1]))).contains("another secret"));
    let nobody = me.replace("0001", "0008");
    let refused = connect(&format!("{nobody} {ONE}"));
    let Err(InitiatorError::Failed { status, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(status, Status::CONNECT_HOST);
}

#[test]
fn a_controller_that_is_to_prove_itself_does_or_is_left() {
    let both = format!("{ONE}\ncontroller {}", KINDS[1]);
    // One that asks for nothing, as any impostor would.
    let open = run(&["ram(4MiB)"], Options::default());
    let connect = |running: &Running| Initiator::connect(&running.address(), NQN, &knowing(&both));
    assert!(why(connect(&open)).contains("was to prove itself, and asks for no authentication"));
    // A host that does not want it proven is content.
    Initiator::connect(&open.address(), NQN, &knowing(ONE)).expect("let in");
    // One that has no secret of its own.
    let mute = run(&["ram(4MiB)"], demanding(ONE));
    assert!(why(connect(&mute)).contains("another secret, or another name"));
}

#[test]
fn every_hash_and_group_is_understood() {
    let me = Wish::default().host;
    for text in [ONE.to_string(), format!("{ONE}\ncontroller {}", KINDS[3])] {
        let known = secrets(&text);
        let running = run(&["ram(4MiB)"], demanding(&text));
        for (hash, group) in Hash::ALL.into_iter().flat_map(|hash| Group::ALL.map(|g| (hash, g))) {
            let mut actor = Actor::new(connected(&running, 0, u16::MAX), &known, &me);
            (actor.host.hashes, actor.host.groups) = (vec![hash], vec![group]);
            let negotiate = actor.host.negotiate();
            actor.say(&negotiate);
            let asked = receive(&mut actor.line).expect("a challenge");
            let Ok((_, Message::Challenge(challenge), _)) = Message::decode(&asked) else {
                panic!("{asked:02x?}")
            };
            assert_eq!((challenge.hash, challenge.group), (hash, group));
            let reply = actor.host.reply(&asked, &mut random).expect("answered");
            actor.say(&reply);
            let success = receive(&mut actor.line).expect("a success");
            let last = actor.host.success(&success).expect("believed");
            assert_eq!(last.is_some(), known.controller().is_some());
            // Until the host has said so too, nothing else is done.
            let identify = Sqe::new(admin::GET_LOG, u32::MAX).word(10, 0x7f_00_02);
            if let Some(last) = last {
                let early = actor.line.ask(identify, &[], 512).expect("answered");
                assert_eq!(early.cqe.status, Status::AUTHENTICATION);
                actor.say(&last);
            }
            // That the controller is not enabled is another matter.
            let now = actor.line.ask(identify, &[], 512).expect("answered");
            assert_eq!(now.cqe.status, Status::SEQUENCE);
            // It is asked once.
            let again = actor.line.ask(auth(fabrics::AUTH_SEND, 72), &negotiate, 0);
            assert_eq!(again.expect("answered").cqe.status, Status::SEQUENCE);
        }
    }
}

type Story = (&'static str, Why, fn(&mut Actor<'_>));

fn propose(channel: u8, chap: Option<(Vec<u8>, Vec<u8>)>) -> Vec<u8> {
    Message::Negotiate(Negotiate { channel, chap }).encode(1)
}

fn changed(actor: &mut Actor<'_>, change: impl FnOnce(&mut Vec<u8>)) {
    let mut reply = actor.reply();
    change(&mut reply);
    actor.say(&reply);
}

fn answered(actor: &mut Actor<'_>) {
    let reply = actor.reply();
    actor.say(&reply);
}

const STORIES: [Story; 28] = [
    ("a secure channel", Why::Channel, |a| a.say(&propose(1, Some((vec![1], vec![0]))))),
    ("no protocol", Why::Protocol, |a| a.say(&propose(0, None))),
    ("no hash", Why::Hash, |a| a.say(&propose(0, Some((vec![], vec![0]))))),
    ("an unknown hash", Why::Hash, |a| a.say(&propose(0, Some((vec![0, 4, 255], vec![0]))))),
    ("an unknown group", Why::Group, |a| a.say(&propose(0, Some((vec![1], vec![2, 5, 9]))))),
    ("half a proposal", Why::Payload, |a| {
        let all = a.host.negotiate();
        a.say(&all[..71]);
    }),
    ("more than a proposal", Why::Payload, |a| {
        let mut all = a.host.negotiate();
        all.push(0);
        a.say(&all);
    }),
    ("a list longer than it can be", Why::Payload, |a| {
        let mut all = a.host.negotiate();
        all[10] = 31;
        a.say(&all);
    }),
    ("255 protocols, of which one is there", Why::Payload, |a| {
        let mut all = a.host.negotiate();
        all[7] = 255;
        a.say(&all);
    }),
    ("nothing of a message", Why::Payload, |a| a.say(&[0; 7])),
    ("a message of no kind", Why::Message, |a| a.say(&[9; 64])),
    ("nothing was said", Why::Message, |_| {}),
    ("two proposals", Why::Message, |a| {
        let negotiate = a.host.negotiate();
        a.say(&negotiate);
        a.say(&negotiate);
    }),
    ("a reply to nothing", Why::Message, |a| {
        let reply = Reply { response: vec![0; 32], challenge: None, public: vec![] };
        a.say(&Message::Reply(reply).encode(0x4711));
    }),
    ("a success before it is one", Why::Message, |a| a.say(&Message::Success2.encode(0x4711))),
    ("a success in the place of a reply", Why::Message, |a| {
        a.reply();
        a.say(&Message::Success2.encode(0x4711));
    }),
    ("a failure in the place of a reply", Why::Message, |a| {
        a.reply();
        a.say(&Message::Failure2(Why::Failed).encode(0x4711));
    }),
    ("a challenge that is asked for twice", Why::Message, |a| {
        a.reply();
    }),
    ("another response", Why::Failed, |a| changed(a, |reply| reply[16] ^= 1)),
    ("no response", Why::Payload, |a| changed(a, |reply| reply[6] = 0)),
    ("a response of another hash", Why::Payload, |a| {
        a.reply();
        let reply = Reply { response: vec![0; 48], challenge: None, public: vec![2; 256] };
        a.say(&Message::Reply(reply).encode(0x4711));
    }),
    ("half a reply", Why::Payload, |a| changed(a, |reply| reply.truncate(100))),
    ("more than a reply", Why::Payload, |a| changed(a, |reply| reply.push(0))),
    ("another conversation", Why::Payload, |a| changed(a, |reply| reply[4] ^= 1)),
    ("another key", Why::Failed, |a| {
        changed(a, |reply| *reply.last_mut().expect("a key") ^= 1);
    }),
    ("a key that gives itself away", Why::Payload, |a| {
        changed(a, |reply| {
            let from = reply.len() - 256;
            reply[from..].fill(0);
            reply[from + 255] = 1;
        });
    }),
    ("a question to a controller that has no secret", Why::Failed, |a| {
        changed(a, |reply| (reply[8], reply[12]) = (1, 1));
    }),
    ("a second reply", Why::Message, |a| {
        answered(a);
        let reply = Reply { response: vec![0; 32], challenge: None, public: vec![] };
        a.say(&Message::Reply(reply).encode(0x4711));
    }),
];

/// Each on the admin queue and on an I/O queue.
#[test]
fn what_is_not_the_next_message_ends_it_with_the_reason() {
    let (me, known) = (Wish::default().host, secrets(ONE));
    let running = run(&["ram(4MiB)"], demanding(ONE));
    let (mut good, of) = running.host(&knowing(ONE));
    let cntlid = u16_at(&good.controller, 78);
    for (qid, cntlid) in [(0, u16::MAX), (2, cntlid)] {
        for (case, expected, tell) in STORIES {
            let mut actor = Actor::new(connected(&running, qid, cntlid), &known, &me);
            tell(&mut actor);
            assert_eq!(actor.refused(case), expected, "{case} on queue {qid}");
        }
    }
    good.write(of, 0, &[1; 4096], true).expect("a good host is served");
    running.until("all are gone", |running| running.count("connections_now") == 2);
    assert_eq!(running.count("unauthenticated"), 2 * STORIES.len() as u64);
    assert_eq!(running.count("hosts_now"), 1);
}

/// What one connection was told and answered is of no use on another.
#[test]
fn a_reply_that_was_right_before_is_wrong() {
    let (me, known) = (Wish::default().host, secrets(ONE));
    let running = run(&["ram(4MiB)"], demanding(ONE));
    for groups in [vec![Group::Null], vec![Group::Ffdhe2048]] {
        let actor = || {
            let mut actor = Actor::new(connected(&running, 0, u16::MAX), &known, &me);
            actor.host.groups = groups.clone();
            actor
        };
        let mut first = actor();
        let reply = first.reply();
        first.say(&reply);
        let success = receive(&mut first.line).expect("let in");
        assert!(matches!(Message::decode(&success), Ok((_, Message::Success1(32, None), 16))));
        let mut second = actor();
        second.reply();
        second.say(&reply);
        assert_eq!(second.refused("replayed"), Why::Failed);
    }
}

#[test]
fn a_host_that_does_not_believe_the_controller_ends_it() {
    let me = Wish::default().host;
    let text = format!("{ONE}\ncontroller {}", KINDS[1]);
    let (known, running) = (secrets(&text), run(&["ram(4MiB)"], demanding(&text)));
    let proven = || {
        let mut actor = Actor::new(connected(&running, 0, u16::MAX), &known, &me);
        answered(&mut actor);
        let success = receive(&mut actor.line).expect("a success");
        (actor, success)
    };
    let (mut actor, success) = proven();
    // What is not the controller's response is not believed.
    let mut other = success.clone();
    other[16] ^= 1;
    assert!(matches!(actor.host.success(&other), Err(HostError::Refuses(Why::Failed))));
    let mut bare = success.clone();
    bare[8] = 0;
    assert!(matches!(actor.host.success(&bare), Err(HostError::Refuses(Why::Payload))));
    assert!(actor.host.success(&success).expect("believed").is_some());
    actor.say(&actor.host.failure(Why::Failed));
    let after = receive(&mut actor.line);
    assert!(matches!(after, Err(InitiatorError::Io(_))), "{after:?}");
    // Another number, or half of it.
    let (mut actor, _) = proven();
    actor.say(&Message::Success2.encode(1));
    assert_eq!(actor.refused("another conversation"), Why::Payload);
    let (mut actor, _) = proven();
    actor.say(&Message::Success2.encode(0x4711)[..15]);
    assert_eq!(actor.refused("half a success"), Why::Payload);
    let (actor, _) = proven();
    assert_eq!(actor.refused("no success"), Why::Message);
}

/// Commands of authentication that are wrong in themselves fail, and nothing has happened; one that has no room for what
/// is to be told ends it.
#[test]
fn a_command_that_does_not_fit_is_refused() {
    let (me, known) = (Wish::default().host, secrets(ONE));
    let running = run(&["ram(4MiB)"], demanding(ONE));
    let mut actor = Actor::new(connected(&running, 0, u16::MAX), &known, &me);
    let negotiate = actor.host.negotiate();
    let length = negotiate.len() as u32;
    for wrong in [
        auth(fabrics::AUTH_SEND, length).word(10, 0xe8_01_01_00),
        auth(fabrics::AUTH_SEND, length).word(10, 0xe9_01_02_00),
        auth(fabrics::AUTH_SEND, length).word(10, 0xe9_02_01_00),
        auth(fabrics::AUTH_SEND, length - 1),
        auth(fabrics::AUTH_SEND, u32::MAX),
    ] {
        let done = actor.line.ask(wrong, &negotiate, 0).expect("answered");
        assert_eq!(done.cqe.status, Status::INVALID_FIELD, "{wrong:?}");
    }
    let large = actor.line.ask(auth(fabrics::AUTH_SEND, 4097), &[0; 4097], 0).expect("answered");
    assert_eq!(large.cqe.status, Status::INVALID_FIELD);
    // What is larger than a capsule is not even asked for.
    let huge = actor.line.ask(auth(fabrics::AUTH_SEND, 65536), &[0; 65536], 0).expect("answered");
    assert_eq!(huge.cqe.status, Status::AUTHENTICATION);
    answered(&mut actor);
    receive(&mut actor.line).expect("let in");
    // No room for a challenge, and none for anything.
    let room = |bytes: u32| {
        let mut actor = Actor::new(connected(&running, 0, u16::MAX), &known, &me);
        actor.say(&negotiate);
        actor.line.ask(auth(fabrics::AUTH_RECEIVE, bytes), &[], bytes as usize).expect("answered")
    };
    let told = room(303);
    assert_eq!(told.data[..2], [0, 0xf1]);
    assert_eq!(told.data[7], Why::Payload as u8);
    assert_eq!(room(304).data[..2], [1, 1]);
    assert_eq!(room(7).cqe.status, Status::INVALID_FIELD);
}

/// Every opcode on both kinds of queues, and writes that come together.
#[test]
fn nothing_is_done_for_who_has_not_shown_who_it_is() {
    let running = run(&["ram(16MiB)+log"], demanding(ONE));
    let (mut good, of) = running.host(&knowing(ONE));
    let cntlid = u16_at(&good.controller, 78);
    let page = vec![3; 1 << of.shift];
    good.write(of, 0, &page, true).expect("written");
    for (qid, cntlid) in [(0, u16::MAX), (3, cntlid)] {
        let mut line = connected(&running, qid, cntlid);
        for opcode in (0..=255).filter(|opcode| *opcode != admin::FABRICS) {
            let sqe = blocks(opcode, of, 0, 1);
            let out = if opcode & 3 == 1 { &page[..] } else { &[] };
            let done = line.ask(sqe, out, page.len()).expect("answered");
            assert_eq!(done.cqe.status, Status::AUTHENTICATION, "{opcode:02x}h on {qid}");
            assert!(done.data.is_empty());
        }
        for kind in (0..=255).filter(|kind| ![1, 5, 6].contains(kind)) {
            let mut sqe = Sqe::new(admin::FABRICS, 0).word(11, 0x14).word(12, 0x0046_0001);
            sqe.0[4] = kind;
            let out = if kind & 3 == 1 { &page[..] } else { &[] };
            let done = line.ask(sqe, out, 0).expect("answered");
            assert_eq!(done.cqe.status, Status::AUTHENTICATION, "fabrics {kind:02x}h on {qid}");
        }
        let (sqe, data) = connect_command(NQN, &Wish::default(), qid, 31, cntlid);
        let twice = line.ask(sqe, &data, 0).expect("answered");
        assert_eq!(twice.cqe.status, Status::SEQUENCE);
        let together = [1, 2].map(|first| {
            let sqe = blocks(io::WRITE, of, first, 1);
            line.send(sqe, &page, 0).expect("sent")
        });
        for cid in together {
            let done = line.receive().expect("answered");
            assert_eq!((done.cqe.cid, done.cqe.status), (cid, Status::AUTHENTICATION));
        }
    }
    let there = good.read(of, 0, 3).expect("read");
    assert_eq!(there[..page.len()], page);
    assert!(there[page.len()..].iter().all(|byte| *byte == 0), "nothing else was written");
    assert_eq!(running.count("writes"), 1);
}

/// A stranger who says that a queue is a host's takes no number from it, and its silence or end is not the host's.
#[test]
fn a_queue_of_a_stranger_is_not_the_hosts() {
    let (me, known) = (Wish::default().host, secrets(ONE));
    let running = run(&["ram(4MiB)"], demanding(ONE));
    let (good, _) = running.host(&knowing(ONE));
    let cntlid = u16_at(&good.controller, 78);
    let stranger = connected(&running, 2, cntlid);
    let mut own = Actor::new(connected(&running, 2, cntlid), &known, &me);
    // And one that is later than the host.
    let mut late = Actor::new(connected(&running, 2, cntlid), &known, &me);
    answered(&mut own);
    receive(&mut own.line).expect("let in");
    answered(&mut late);
    assert_eq!(late.refused("it is there already"), Why::Message);
    drop(stranger);
    running.until("it is gone", |running| running.count("connections_now") == 3);
    // The number is the host's still.
    let mut line = Line::open(&Address::Tcp(running.at), Digests::both(false)).expect("open");
    let (sqe, data) = connect_command(NQN, &Wish::default(), 2, 31, cntlid);
    let taken = line.ask(sqe, &data, 0).expect("answered");
    assert_eq!((taken.cqe.status, taken.cqe.result), (Status::CONNECT_INVALID, 42));
    own.line.done(Sqe::new(io::FLUSH, 1), &[], 0).expect("the host's queue lives");
    drop(good);
    running.until("and ends with it", |running| running.count("connections_now") == 1);
}

/// Says something on a connection until that is closed, and begins a new one, as long as the test lasts.
struct Talker {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Talker {
    fn start(open: impl Fn() -> Result<Line, InitiatorError> + Send + 'static) -> Talker {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut line = None;
            while !ends.load(Ordering::Relaxed) {
                line = line.or_else(|| open().ok());
                let alive = Sqe::new(admin::KEEP_ALIVE, 0);
                if line.as_mut().is_some_and(|line| line.ask(alive, &[], 0).is_err()) {
                    line = None;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Talker { over, thread: Some(thread) }
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the talker failed");
        }
    }
}

fn opened(at: Address, qid: u16, cntlid: u16) -> Result<Line, InitiatorError> {
    let mut line = Line::open(&at, Digests::both(false))?;
    let (sqe, data) = connect_command(NQN, &Wish::default(), qid, 31, cntlid);
    line.done(sqe, &data, 0).map(|_| line)
}

/// What a stranger says on what it calls a queue of a host shows nobody that this host lives.
#[test]
fn a_stranger_keeps_no_host_alive() {
    let running = run(&["ram(4MiB)"], demanding(ONE));
    let (good, _) = running.host(&Wish { alive: 1000, ..knowing(ONE) });
    let (at, cntlid) = (running.address(), u16_at(&good.controller, 78));
    let _talks = Talker::start(move || opened(at.clone(), 2, cntlid));
    running.until("the silent host is gone", |running| running.count("hosts_now") == 0);
}

/// Who shows nothing is gone when the time for a handshake is over, whatever else it says.
#[test]
fn who_shows_nothing_is_gone() {
    let running = run(&["ram(4MiB)"], demanding(ONE));
    let at = running.address();
    let once = AtomicBool::new(false);
    let _talks = Talker::start(move || match once.swap(true, Ordering::Relaxed) {
        false => opened(at.clone(), 0, u16::MAX),
        true => Err(InitiatorError::Authentication("it was closed")),
    });
    running.until("it is there", |running| running.count("hosts_now") == 1);
    running.until("it is gone", |running| running.count("hosts_now") == 0);
}

#[test]
fn who_there_is_may_be_asked_by_strangers() {
    let running = run(&["ram(4MiB)"], demanding(ONE));
    let told = varve_serve::nvme::initiator::discover(&running.address(), &Wish::default());
    assert_eq!(told.expect("told")[0].nqn, NQN);
}
