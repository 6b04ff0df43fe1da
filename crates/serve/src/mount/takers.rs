//! Which threads take requests: no more than are needed.
//!
//! A request takes microseconds, most of them to wake a thread for it. One thread that takes one request after
//! the other is fastest then: of several each finds its memory cold, and what nobody waits for (that the
//! kernel forgets an inode) is done beside what somebody waits for, for the same lock. Where requests wait for
//! the device, or have much to copy, several are faster. So threads that are not needed rest.
//!
//! | a thread | does |
//! | --- | --- |
//! | takes | waits for a request, or does what one asks for |
//! | is away | the same, but waits for the device, or copies much: it may last |
//! | rests | nothing, at the end of a request that is answered; until it is called, or for [`REST`] |
//!
//! How many are wanted grows when threads that go away leave nobody behind who takes, again and again, and when
//! one that takes hardly ever waits for a request; it falls when for a while neither was so.
//!
//! Invariants:
//! * who goes away leaves somebody who takes, unless nobody rests;
//! * a thread rests only while another one takes;
//! * nobody rests longer than [`REST`]: so what was not foreseen to last keeps nobody waiting longer, nor does the
//!   end of a mount, which only those hear of who wait for a request.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The longest rest.
pub(super) const REST: Duration = Duration::from_millis(20);
/// Bytes of a request from which on copying them may last.
pub(super) const MUCH: usize = 32 << 10;
/// After fewer requests than these nobody taking any more is usual, and one more is wanted.
const OFTEN: u32 = 16;
/// After so many requests without that one fewer is wanted, or one more.
const QUIET: u32 = 1024;
/// Of the time since it was asked last, what a thread that hardly waits for requests works: three quarters.
const BUSY: (u128, u128) = (3, 4);

thread_local! {
    /// The threads that this one belongs to while it takes; none while it is away, and of any other thread.
    static HERE: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
    /// When this thread was asked last how long it had worked, and what it said.
    static ASKED: Cell<Option<(Instant, u64)>> = const { Cell::new(None) };
}

/// Nanoseconds that this thread had a processor; none where the system does not count them.
fn worked() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().filter(|since| *since > 0)
}

/// Whether this thread hardly waited for requests since it was asked last; where nobody knows, it may be so.
fn is_busy() -> bool {
    let now = Instant::now();
    let Some(worked) = worked() else { return true };
    let Some((then, before)) = ASKED.replace(Some((now, worked))) else { return false };
    let since = now.duration_since(then).as_nanos();
    u128::from(worked.saturating_sub(before)) * BUSY.1 >= since * BUSY.0
}

/// What a thread does after a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    Take,
    Rest,
    /// It takes the next one, and tells somebody who was called.
    Call,
}

#[derive(Debug)]
struct State {
    all: usize,
    taking: usize,
    resting: usize,
    /// Of those that rested, who were called and do not know it yet; they count as taking.
    called: usize,
    /// So many may take or be away before others rest.
    wanted: usize,
    /// Requests since nobody was taking, and since fewer were wanted.
    since: u32,
    quiet: u32,
}

impl State {
    /// Somebody who rests is called. Whether there is one.
    fn call(&mut self) -> bool {
        if self.resting == 0 {
            return false;
        }
        self.resting -= 1;
        self.taking += 1;
        self.called += 1;
        true
    }

    /// A thread goes away.
    fn leave(&mut self) -> bool {
        self.taking -= 1;
        if self.taking > 0 {
            return false;
        }
        if self.since < OFTEN {
            self.wanted = (self.wanted + 1).min(self.all);
        }
        (self.since, self.quiet) = (0, 0);
        self.call()
    }

    /// A request is done.
    fn done(&mut self, is_busy: impl FnOnce() -> bool) -> Then {
        self.since = self.since.saturating_add(1);
        self.quiet += 1;
        if self.quiet >= QUIET {
            self.quiet = 0;
            self.wanted = if is_busy() { self.wanted + 1 } else { self.wanted - 1 };
            self.wanted = self.wanted.clamp(1, self.all.max(1));
        }
        let active = self.all - self.resting;
        if self.taking > 1 && active > self.wanted {
            Then::Rest
        } else if active < self.wanted && self.call() {
            Then::Call
        } else {
            Then::Take
        }
    }
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    told: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rest(&self, mut state: MutexGuard<'_, State>) {
        state.taking -= 1;
        state.resting += 1;
        let waited = self.told.wait_timeout_while(state, REST, |state| state.called == 0);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        if state.called > 0 {
            state.called -= 1;
        } else {
            state.resting -= 1;
            state.taking += 1;
        }
    }
}

/// The threads that take the requests of one mount.
#[derive(Debug)]
pub(super) struct Takers(Arc<Shared>);

impl Takers {
    /// So many, all of them taking.
    pub(super) fn new(all: usize) -> Takers {
        let (resting, called, wanted, since, quiet) = (0, 0, 1, 0, 0);
        let state = State { all, taking: all, resting, called, wanted, since, quiet };
        Takers(Arc::new(Shared { state: Mutex::new(state), told: Condvar::new() }))
    }

    /// One of them does a request. When that is dropped the answer was given, and it may rest.
    pub(super) fn take(&self) -> Turn {
        HERE.set(Some(Arc::clone(&self.0)));
        Turn
    }
}

/// A request is being done.
pub(super) struct Turn;

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(shared) = HERE.take() else { return };
        let mut state = shared.lock();
        if std::thread::panicking() {
            // It takes no other.
            state.all -= 1;
            if state.leave() {
                shared.told.notify_one();
            }
            return;
        }
        match state.done(is_busy) {
            Then::Take => {}
            Then::Rest => shared.rest(state),
            Then::Call => shared.told.notify_one(),
        }
    }
}

/// A thread is away.
pub(super) struct Away(Option<Arc<Shared>>);

/// What comes may last. Nothing is to be done of it by threads that take no requests, or are away already.
pub(super) fn away() -> Away {
    let shared = HERE.take();
    if let Some(shared) = &shared
        && shared.lock().leave()
    {
        shared.told.notify_one();
    }
    Away(shared)
}

/// The same if somebody else takes requests then; if not, the thread is needed here.
pub(super) fn away_if_others_take() -> Option<Away> {
    let others = HERE.with_borrow(|shared| {
        let state = shared.as_ref()?.lock();
        Some(state.taking > 1 || state.resting > 0)
    });
    others.filter(|others| *others).map(|_| away())
}

/// The same if there are that many bytes to copy.
pub(super) fn away_with(bytes: usize) -> Away {
    if bytes < MUCH { Away(None) } else { away() }
}

impl Drop for Away {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.lock().taking += 1;
            HERE.set(Some(shared));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    fn counts(of: &Takers) -> (usize, usize, usize) {
        let state = of.0.lock();
        (state.taking, state.resting, state.wanted)
    }

    /// A thread that does requests as they are sent: `true` is one that lasts until the next.
    fn taker(of: &Arc<Takers>) -> (mpsc::Sender<bool>, std::thread::JoinHandle<()>) {
        let (ask, asked) = mpsc::channel::<bool>();
        let of = Arc::clone(of);
        let body = move || {
            while let Ok(lasts) = asked.recv() {
                let _turn = of.take();
                let gone = lasts.then(away);
                if lasts {
                    let _ = asked.recv();
                }
                drop(gone);
            }
        };
        (ask, std::thread::spawn(body))
    }

    fn until(what: &str, met: impl Fn() -> bool) {
        let since = Instant::now();
        while !met() {
            assert!(since.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn who_is_not_needed_rests_until_somebody_goes_away() {
        let all = Arc::new(Takers::new(2));
        // Whatever came before: no second one is wanted for what happens now and then.
        all.0.lock().since = OFTEN;
        let ((one, first), (other, second)) = (taker(&all), taker(&all));
        other.send(false).expect("sent");
        until("it rests", || counts(&all) == (1, 1, 1));
        one.send(true).expect("sent");
        until("it is called", || counts(&all) == (1, 0, 1));
        one.send(true).expect("sent");
        // Now one of the two rests, and comes back by itself.
        until("it rests again", || counts(&all).1 == 1 || counts(&all) == (2, 0, 1));
        until("all take", || counts(&all) == (2, 0, 1));
        drop((one, other));
        first.join().expect("no panic");
        second.join().expect("no panic");
        // A thread that takes no requests is not counted.
        drop(away());
        assert_eq!(counts(&all), (2, 0, 1));
    }

    #[test]
    fn as_many_are_wanted_as_go_away_at_once_and_fewer_when_it_is_quiet() {
        let all = Takers::new(3);
        let mut state = all.0.lock();
        for wanted in [2, 3, 3] {
            // All are away.
            while state.taking > 0 {
                state.leave();
            }
            assert_eq!(state.wanted, wanted);
            state.taking = 3;
        }
        let then: Vec<Then> = (0..2 * QUIET).map(|_| state.done(|| false)).collect();
        assert_eq!(state.wanted, 1);
        assert_eq!((then[0], then[2 * QUIET as usize - 1]), (Then::Take, Then::Rest));
        // The last one that takes never rests.
        (state.taking, state.resting) = (1, 0);
        assert_eq!(state.done(|| false), Then::Take);
        // One that has no time to wait for requests is helped.
        (state.taking, state.resting) = (1, 2);
        let helped = (0..QUIET).find(|_| state.done(|| true) == Then::Call);
        assert!(helped.is_some() && state.wanted == 2);
        assert_eq!((state.taking, state.resting, state.called), (2, 1, 1));
        (state.called, state.wanted) = (0, 1);
        // Now and then: no more than one is wanted, but who rests is called.
        (state.taking, state.resting, state.since) = (1, 2, OFTEN);
        assert!(state.leave());
        assert_eq!((state.taking, state.resting, state.called, state.wanted), (1, 1, 1, 1));
    }

    #[test]
    fn who_works_all_the_time_is_busy_and_who_waits_is_not() {
        if worked().is_none() {
            return;
        }
        is_busy();
        // However little of a processor there is to be had.
        std::thread::sleep(Duration::from_millis(200));
        assert!(!is_busy(), "it slept");
        let (since, before) = (Instant::now(), worked());
        let busy = (0..200).any(|_| {
            is_busy();
            let sum: u64 = (0..300_000_u64).map(std::hint::black_box).sum();
            assert!(sum > 0);
            is_busy()
        });
        assert!(busy, "{:?} of {:?}", worked().zip(before), since.elapsed());
    }

    #[test]
    fn nobody_is_lost_whatever_they_do() {
        let (all, turns) = (Arc::new(Takers::new(4)), Arc::new(AtomicU64::new(0)));
        let threads: Vec<_> = (0..4_u64)
            .map(|n| {
                let (all, turns) = (Arc::clone(&all), Arc::clone(&turns));
                std::thread::spawn(move || {
                    let mut rng = block::Rng::stream(n, "taker");
                    while turns.fetch_add(1, Ordering::Relaxed) < 100_000 {
                        let _turn = all.take();
                        let long = rng.below(10) < n;
                        let _away = long.then(away);
                        let _again = long.then(away);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        let state = all.0.lock();
        assert_eq!((state.taking, state.resting, state.called), (4, 0, 0));
        assert!((1..=4).contains(&state.wanted));
    }

    #[test]
    fn a_thread_that_panics_is_not_counted_on() {
        let all = Arc::new(Takers::new(2));
        all.0.lock().since = OFTEN;
        let resting = Arc::clone(&all);
        let rests = std::thread::spawn(move || drop(resting.take()));
        until("it rests", || counts(&all).1 == 1);
        let broken = Arc::clone(&all);
        let ended = std::thread::spawn(move || {
            let _turn = broken.take();
            panic!("a planted panic");
        });
        assert!(ended.join().is_err());
        rests.join().expect("no panic");
        let state = all.0.lock();
        assert_eq!((state.all, state.taking, state.resting), (1, 1, 0));
    }
}
