//! What holds in whatever order dies serve, on drawn operations: programs and erases of a die keep
//! their order and do not overlap, ends that were told do not move, a die was busy with what it did,
//! and a page is read after it was programmed.

use std::collections::BTreeMap;

use block::{BlockId, Ppn, Rng, Span, Time};
use varve_nand::{
    BlockHeader, Cause, Geometry, Kind, Nand, Oob, Order, PageProgram, PageTypes, Payload, Piece,
    ReadCause, SlotWrite, Suspend, Ticket, Timing, Work,
};

const BLOCKS: u32 = 6;
const PAGES: u32 = 8;

fn us(n: u64) -> Span {
    Span::from_us(n)
}

fn timing(order: Order, suspend: Suspend) -> Timing {
    Timing {
        cell_bits: 1,
        page_types: PageTypes::Uniform,
        t_read: vec![us(50)],
        t_read_4k: vec![],
        t_program: vec![us(500)],
        t_erase: us(2000),
        cmd: Span::from_ns(200),
        transfer: vec![Span::ZERO, us(10)],
        transfer_oob: Span::ZERO,
        cache_ops: false,
        t_rcbsy: Span::ZERO,
        t_cbsy: Span::ZERO,
        independent_planes: false,
        one_shot: false,
        order,
        suspend,
        enabled: true,
    }
}

fn both() -> Suspend {
    Suspend {
        program: true,
        erase: true,
        min_remaining: us(20),
        max_times: 2,
        to_suspend: us(7),
        to_resume: us(3),
    }
}

fn array(timing: Timing) -> Nand {
    let geometry = Geometry::new(2, 2, 1, BLOCKS, PAGES, 4096, 64, 4096).unwrap();
    let mut nand = Nand::new(geometry, timing, true);
    nand.keep_journal();
    nand.keep_trail();
    nand.trail_mut().unwrap().keep_window(Time::ZERO, Time::LIMIT, 1_000_000);
    nand
}

fn program(nand: &mut Nand, at: Time, block: BlockId) -> Ticket {
    let oob = Oob { kind: Kind::Data, ..Oob::default() };
    let slots = [SlotWrite { oob, cause: Cause::Host, payload: Payload::Stamp(7) }];
    let page = PageProgram { block, slots: &slots, header: BlockHeader::default() };
    nand.program(at, &[page], false).unwrap().ticket
}

/// What a drawn run left.
struct Ran {
    nand: Nand,
    pieces: Vec<Piece>,
    /// When each page that was read had left the bus, and which it was.
    reads: Vec<(Time, BlockId, u32)>,
}

fn run(timing: Timing, seed: u64) -> Ran {
    let (mut nand, mut rng) = (array(timing), Rng::new(seed));
    let (mut now, mut told) = (Time::ZERO, Vec::new());
    let (mut tickets, mut reads) = (Vec::new(), Vec::new());
    for number in 1..=600 {
        now += us(rng.below(150));
        // Some operations wait for data that comes later.
        let at = if rng.below(4) == 0 { now + us(rng.below(800)) } else { now };
        nand.set_now(now);
        nand.trail_mut().unwrap().begin(number, now);
        let block = BlockId(rng.below(u64::from(4 * BLOCKS)) as u32);
        let next = nand.next_page(block);
        match rng.below(10) {
            0..=4 if next > 0 => {
                let page = rng.below(u64::from(next)) as u32;
                let end = nand.read(at, &[(block, page)], &[1], 1, ReadCause::Host).unwrap();
                assert!(end >= at + us(60), "a read takes its time");
                reads.push((end, block, page));
            }
            5 if next == PAGES => tickets.push(nand.erase(at, block, false).unwrap().ticket),
            6 if !tickets.is_empty() => {
                let ticket = tickets.swap_remove(rng.below(tickets.len() as u64) as usize);
                let end = nand.sched_mut().tell(ticket);
                assert!(end >= ticket.end, "nothing moves forward");
                told.push((ticket, end));
            }
            7 if rng.below(30) == 0 => {
                nand.sched_mut().tell_programs();
            }
            _ if next < PAGES => tickets.push(program(&mut nand, at, block)),
            _ => {}
        }
        for (ticket, end) in &told {
            let peek = nand.sched().peek(*ticket);
            // What has ended is forgotten, and then only what was booked is known.
            assert!(peek == *end || *end <= now, "seed {seed}: a told end moved");
        }
    }
    let pieces = nand.trail().unwrap().window().pieces;
    Ran { nand, pieces, reads }
}

fn orders() -> Vec<Timing> {
    let plain = |order| timing(order, Suspend::default());
    let erase = Suspend { program: false, ..both() };
    let mut cached = plain(Order::ReadFirst);
    (cached.cmd, cached.t_cbsy) = (Span::ZERO, us(4));
    vec![
        plain(Order::InOrder),
        plain(Order::ReadFirst),
        timing(Order::ReadFirst, both()),
        timing(Order::ReadFirst, erase),
        cached,
    ]
}

fn of_die(pieces: &[Piece], die: u32) -> impl Iterator<Item = &Piece> {
    pieces.iter().filter(move |piece| piece.die == die)
}

#[test]
fn a_die_does_one_thing_at_a_time_and_was_busy_with_that() {
    for (kind, timing) in orders().into_iter().enumerate() {
        for seed in 0..20 {
            let ran = run(timing.clone(), seed);
            let busy = ran.nand.stats().die_busy;
            for die in 0..4 {
                let (mut last, mut took) = (Time::ZERO, Span::ZERO);
                for piece in of_die(&ran.pieces, die) {
                    assert!(piece.start >= last, "kind {kind}, seed {seed}: {piece:?} overlaps");
                    last = piece.end;
                    took += piece.end - piece.start;
                }
                assert_eq!(took, busy[die as usize], "kind {kind}, seed {seed}, die {die}");
            }
        }
    }
}

/// Begin, end and time taken of each operation, by its number.
fn whole(pieces: &[Piece]) -> BTreeMap<u64, (Piece, Time, Span)> {
    let mut all: BTreeMap<u64, (Piece, Time, Span)> = BTreeMap::new();
    for piece in pieces {
        let one = all.entry(piece.operation).or_insert((*piece, piece.end, Span::ZERO));
        one.1 = one.1.max(piece.end);
        one.2 += piece.end - piece.start;
    }
    all
}

#[test]
fn programs_and_erases_keep_their_order_and_take_their_time() {
    for timing in orders() {
        let mut parts = 0;
        for seed in 0..20 {
            let ran = run(timing.clone(), seed);
            let all = whole(&ran.pieces);
            parts += ran.pieces.len() - all.len();
            let mut last = [Time::ZERO; 4];
            for (piece, end, took) in all.values().filter(|one| !is_read(&one.0)) {
                assert!(piece.start >= last[piece.die as usize], "seed {seed}: {piece:?}");
                last[piece.die as usize] = *end;
                let own = if piece.work == Work::Erase { us(2000) } else { us(510) };
                assert!(*took >= own, "seed {seed}: {piece:?} took {took:?}");
            }
            // The journal knows the same ends.
            for record in ran.nand.journal() {
                let same = all.values().any(|(piece, end, _)| {
                    !is_read(piece) && piece.block == record.block && *end == record.end
                });
                assert!(same, "seed {seed}: {record:?}");
            }
        }
        assert_eq!(parts > 0, timing.suspend.program || timing.suspend.erase);
    }
}

fn is_read(piece: &Piece) -> bool {
    matches!(piece.work, Work::Read(_))
}

#[test]
fn a_page_is_read_after_it_was_programmed() {
    for timing in orders() {
        for seed in 0..20 {
            let ran = run(timing.clone(), seed);
            let all = whole(&ran.pieces);
            for (end, block, page) in &ran.reads {
                let mut of_page = all.values().filter(|(piece, ..)| {
                    piece.block == *block && piece.page == *page && !is_read(piece)
                });
                let before = of_page
                    .any(|(piece, until, _)| piece.work != Work::Erase && *until + us(60) <= *end);
                assert!(before, "seed {seed}: page {page} of {block} at {end:?}");
            }
        }
    }
}

/// Another block of the die of block 0.
fn other(nand: &Nand) -> BlockId {
    let die = nand.die_of(BlockId(0));
    (1..4 * BLOCKS).map(BlockId).find(|block| nand.die_of(*block) == die).unwrap()
}

#[test]
fn a_read_goes_first_and_takes_no_more_than_it_needs() {
    let mut nand =
        array(Timing { cmd: Span::ZERO, ..timing(Order::ReadFirst, Suspend::default()) });
    let at = Time::from_us;
    let read = |nand: &mut Nand, n: u64| {
        nand.set_now(at(n));
        nand.read(at(n), &[(other(nand), 0)], &[1], 1, ReadCause::Host).unwrap()
    };
    // Three programs: one that begins, one behind it, one whose data comes 40 us after that.
    let tickets = [at(0), at(0), at(1060)].map(|when| program(&mut nand, when, BlockId(0)));
    let ends = |nand: &Nand| tickets.map(|ticket| nand.sched().peek(ticket));
    assert_eq!(ends(&nand), [at(510), at(1020), at(1570)]);
    // It waits for the first alone; the pause takes 40 of its 60 us up.
    assert_eq!(read(&mut nand, 100), at(570));
    assert_eq!(ends(&nand), [at(510), at(1080), at(1590)]);
    // The next stands behind the read, and the last program moves by as much.
    assert_eq!(read(&mut nand, 200), at(630));
    assert_eq!(ends(&nand), [at(510), at(1140), at(1650)]);
    // What somebody was told stays where it is, with all before it.
    assert_eq!(nand.sched_mut().tell(tickets[1]), at(1140));
    assert_eq!(read(&mut nand, 300), at(1200));
    assert_eq!(ends(&nand), [at(510), at(1140), at(1710)]);
    // The page of the last program is read behind it.
    nand.set_now(at(1300));
    let own = nand.read(at(1300), &[(BlockId(0), 2)], &[1], 1, ReadCause::Host).unwrap();
    assert_eq!(own, at(1770));
    assert!(nand.slot(Ppn(2)) != varve_nand::SlotRead::Blank);
}

#[test]
fn reads_share_an_interruption() {
    let mut nand = array(Timing { cmd: Span::ZERO, ..timing(Order::ReadFirst, both()) });
    let at = Time::from_us;
    let ticket = program(&mut nand, at(0), BlockId(0));
    let read = |nand: &mut Nand, n: u64| {
        nand.set_now(at(n));
        nand.read(at(n), &[(other(nand), 0)], &[1], 1, ReadCause::Host).unwrap()
    };
    // 7 us until it stands still, 60 for the read, 3 until it goes on.
    assert_eq!(read(&mut nand, 100), at(167));
    assert_eq!(nand.sched().peek(ticket), at(580));
    // Another while it stands still: only its own time.
    assert_eq!(read(&mut nand, 120), at(227));
    assert_eq!(nand.sched().peek(ticket), at(640));
    assert_eq!(nand.stats().suspends, 1);
    assert_eq!(read(&mut nand, 300), at(367));
    assert_eq!(nand.sched().peek(ticket), at(710));
    // Twice is as often as it may be; a third waits.
    assert_eq!(read(&mut nand, 400), at(770));
    assert_eq!(nand.stats().suspends, 2);
}
