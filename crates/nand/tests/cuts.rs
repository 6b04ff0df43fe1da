//! What a power cut leaves of operations in flight.

use block::{BlockId, Ppn, Span, Time};
use varve_nand::{
    BlockHeader, Cause, Cut, Geometry, Instant, Kind, Left, Nand, Oob, Order, PageProgram,
    PageTypes, Payload, ReadCause, SlotRead, SlotWrite, Suspend, Timing, Torn,
};

fn nand(enabled: bool, cache_ops: bool) -> Nand {
    let timing = Timing {
        cell_bits: 1,
        page_types: PageTypes::Uniform,
        t_read: vec![Span::from_us(50)],
        t_read_4k: vec![],
        t_program: vec![Span::from_us(500)],
        t_erase: Span::from_us(2000),
        cmd: Span::ZERO,
        transfer: vec![Span::ZERO, Span::ZERO],
        transfer_oob: Span::ZERO,
        cache_ops,
        t_rcbsy: Span::ZERO,
        t_cbsy: Span::ZERO,
        independent_planes: false,
        one_shot: false,
        order: Order::InOrder,
        suspend: Suspend { program: true, erase: true, max_times: 4, ..Suspend::default() },
        enabled,
    };
    let geometry = Geometry::new(1, 1, 1, 4, 4, 4096, 64, 4096).unwrap();
    let mut nand = Nand::new(geometry, timing, true);
    nand.keep_journal();
    nand
}

fn program(nand: &mut Nand, at: Time, block: u32) {
    let oob = Oob { kind: Kind::Data, ..Oob::default() };
    let slots = [SlotWrite { oob, cause: Cause::Host, payload: Payload::Stamp(7) }];
    let page = PageProgram { block: BlockId(block), slots: &slots, header: BlockHeader::default() };
    nand.set_now(at);
    nand.program(at, &[page], false).unwrap();
}

fn cut(op: u64, instant: Instant) -> Cut {
    Cut { op, instant, torn: Torn::Garbage, pair: false, left: Left::Garbage }
}

fn first_slot(nand: &Nand, cut: &Cut, block: u32) -> String {
    let (image, _) = nand.image_at_cut(cut).unwrap();
    let after = Nand::from_image(nand.geometry().clone(), nand.timing().clone(), image);
    match after.slot(Ppn(block * 4)) {
        SlotRead::Blank => "blank",
        SlotRead::Good(..) => "good",
        _ => "torn",
    }
    .to_string()
}

#[test]
fn without_timing_what_came_before_is_done() {
    let mut nand = nand(false, false);
    program(&mut nand, Time::from_us(1), 0);
    program(&mut nand, Time::from_us(2), 1);
    assert_eq!(first_slot(&nand, &cut(1, Instant::Booked), 0), "good");
    assert_eq!(first_slot(&nand, &cut(1, Instant::Booked), 1), "blank");
    assert_eq!(first_slot(&nand, &cut(0, Instant::Booked), 0), "blank");
}

#[test]
fn an_interrupted_program_is_under_way_until_its_new_end() {
    let mut nand = nand(true, false);
    program(&mut nand, Time::ZERO, 0);
    let ends = |nand: &Nand| nand.journal().next().unwrap().end;
    assert_eq!(ends(&nand), Time::from_us(500));
    nand.set_now(Time::from_us(100));
    let read = nand.read(Time::from_us(100), &[(BlockId(2), 0)], &[1], 1, ReadCause::Host).unwrap();
    assert_eq!(read, Time::from_us(150), "the read interrupts the program");
    assert_eq!(ends(&nand), Time::from_us(550));
    program(&mut nand, Time::from_us(520), 1);
    assert_eq!(first_slot(&nand, &cut(1, Instant::Booked), 0), "torn", "at 520 us");
    assert_eq!(first_slot(&nand, &cut(1, Instant::Before), 0), "good", "at 550 us");
}

#[test]
fn with_cache_operations_an_interrupting_read_does_not_wait_for_what_it_interrupts() {
    let mut nand = nand(true, true);
    for block in 0..3 {
        nand.erase(Time::ZERO, BlockId(block), false).unwrap();
    }
    nand.set_now(Time::from_us(100));
    let read = nand.read(Time::from_us(100), &[(BlockId(3), 0)], &[1], 1, ReadCause::Host).unwrap();
    assert_eq!(read, Time::from_us(150));
    assert_eq!(nand.journal().last().unwrap().end, Time::from_us(6050));
}
