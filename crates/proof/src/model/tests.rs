use super::*;

fn at(us: u64) -> Time {
    Time::from_us(us)
}
fn page(version: u32) -> Seen {
    Seen::Page([version; SECTORS])
}
fn point(us: u64, request: u32, complete: bool) -> Point {
    Point { instant: at(us), request, complete }
}
fn line(result: Result<(), Failure>) -> Contract {
    result.unwrap_err().contract
}

#[test]
fn a_flush_settles_what_was_submitted_before_it() {
    let mut model = Model::new(4, 1);
    let (a, b) = (model.write(1, 0, 1), model.write(2, 0, 1));
    model.flushed(3, at(50));
    let c = model.write(4, 0, 1);
    for v in [0, a, b, c] {
        assert!(model.expect_after(0, page(v), &point(10, 4, true)).is_ok(), "before the ack: {v}");
    }
    for v in [b, c] {
        assert!(model.expect_after(0, page(v), &point(50, 4, true)).is_ok(), "after it: {v}");
    }
    assert_eq!(line(model.expect_after(0, page(a), &point(50, 4, true))), Contract::C1);
    assert_eq!(line(model.expect_after(0, page(0), &point(60, 4, true))), Contract::C1);
    assert_eq!(line(model.expect_after(0, page(c + 1), &point(60, 4, true))), Contract::C6);
    model.settle(at(50));
    assert_eq!(line(model.expect_after(0, page(a), &point(55, 4, true))), Contract::C1);
    assert!(model.expect_last(0, page(c)).is_ok());
    assert_eq!(line(model.expect_last(0, page(b))), Contract::C6);
}

#[test]
fn the_last_request_counts_only_when_complete_and_answered() {
    let mut model = Model::new(2, 1);
    let a = model.write(1, 0, 2);
    model.forced(1, at(20), 0, 1);
    assert!(model.expect_after(0, page(0), &point(20, 1, true)).is_ok(), "the instant of the ack");
    assert!(model.expect_after(0, page(0), &point(30, 1, false)).is_ok(), "not all of it begun");
    assert_eq!(line(model.expect_after(0, page(0), &point(30, 1, true))), Contract::C1);
    assert_eq!(line(model.expect_after(0, page(0), &point(20, 2, true))), Contract::C1);
    assert!(model.expect_after(1, page(0), &point(30, 1, true)).is_ok(), "not its page");
    assert!(model.expect_after(0, page(a), &point(30, 1, true)).is_ok());
}

#[test]
fn discards_are_old_or_zero_and_durable_at_the_next_flush() {
    let mut model = Model::new(8, 4);
    let a = model.write(1, 0, 8);
    model.flushed(2, at(5));
    model.discard(3, 2, 6);
    for v in [0, a] {
        assert!(model.expect_last(2, page(v)).is_ok(), "a part of a unit may stay");
        assert!(model.expect_after(4, page(v), &point(9, 3, true)).is_ok());
    }
    assert_eq!(line(model.expect_last(4, page(a))), Contract::C6);
    model.flushed(4, at(20));
    assert_eq!(line(model.expect_after(4, page(a), &point(30, 5, true))), Contract::C5);
    assert!(model.expect_after(2, page(a), &point(30, 5, true)).is_ok());
    let other = Seen::from_stamp(4, stamp::stamp(5, a));
    assert_eq!(line(model.expect_after(4, other, &point(30, 5, true))), Contract::C5);
    let other = Seen::from_stamp(0, stamp::stamp(5, a));
    assert_eq!(line(model.expect_after(0, other, &point(30, 5, true))), Contract::C6);
    assert_eq!(line(model.expect_after(0, Seen::Garbage, &point(30, 5, true))), Contract::C2);
    assert_eq!(line(model.expect_after(0, Seen::Unreadable, &point(30, 5, true))), Contract::C6);
}

#[test]
fn sectors_of_two_versions_are_mixed_unless_written_so() {
    let mut model = Model::new(1, 1);
    let a = model.write_sectors(1, 0, 8);
    let b = model.write_sectors(2, 2, 3);
    let merged = Seen::Page([a, a, b, b, b, a, a, a]);
    assert!(model.expect_last(0, merged).is_ok());
    assert!(model.expect_after(0, page(a), &point(9, 2, true)).is_ok());
    let torn = Seen::Page([a, a, b, a, a, a, a, a]);
    assert_eq!(line(model.expect_after(0, torn, &point(9, 2, true))), Contract::C2);
    let mut bytes = vec![0; 4096];
    for (i, sector) in bytes.chunks_exact_mut(stamp::SECTOR).enumerate() {
        stamp::fill_sector(sector, i as u32, if (2..5).contains(&i) { b } else { a });
    }
    assert_eq!(Seen::from_bytes(0, &bytes), merged);
    bytes[700] ^= 1;
    assert_eq!(Seen::from_bytes(0, &bytes), Seen::Garbage);
}

#[test]
fn a_write_that_failed_may_or_may_not_have_happened() {
    let mut model = Model::new(1, 1);
    let a = model.write(1, 0, 1);
    let b = model.write(2, 0, 1);
    model.failed(2);
    model.flushed(3, at(1));
    for v in [a, b] {
        assert!(model.expect_last(0, page(v)).is_ok());
        assert!(model.expect_after(0, page(v), &point(2, 3, true)).is_ok());
    }
    assert_eq!(line(model.expect_after(0, page(0), &point(2, 3, true))), Contract::C1);
}

#[test]
fn after_a_restart_only_what_was_found_counts() {
    let mut model = Model::new(2, 1);
    let a = model.write(1, 0, 2);
    let b = model.write(2, 0, 2);
    let mut next = Model::new(2, 1);
    next.restart(&model, &[page(a), Seen::Unreadable]);
    let model = next;
    assert!(model.expect_after(0, page(a), &point(0, 0, true)).is_ok());
    assert_eq!(line(model.expect_after(0, page(b), &point(0, 0, true))), Contract::C1);
    assert!(model.expect_after(1, page(b), &point(0, 0, true)).is_ok());
}

/// What a page may hold when `sectors` of it were written over `base`.
fn over(base: u32, written: u32, sectors: std::ops::Range<usize>) -> Seen {
    let mut content = [base; SECTORS];
    content[sectors].fill(written);
    Seen::Page(content)
}

#[test]
fn a_write_over_what_is_open_is_certain_as_a_group() {
    let mut model = Model::new(4, 4);
    let a = model.write(1, 0, 1);
    model.discard(2, 0, 1);
    let b = model.write_sectors(3, 0, 2);
    for base in [a, 0] {
        assert!(model.expect_last(0, over(base, b, 0..2)).is_ok(), "over {base}");
        assert!(model.expect_last(0, page(base)).is_err(), "it was written: {base}");
        assert!(
            model.expect_after(0, page(base), &point(9, 3, true)).is_ok(),
            "before a flush: {base}"
        );
    }
    let c = model.write_sectors(4, 0, 4);
    for base in [a, 0] {
        assert!(model.expect_last(0, over(base, c, 0..4)).is_ok(), "over {base}");
        assert!(
            model.expect_last(0, over(base, b, 0..2)).is_err(),
            "the newer one covers it: {base}"
        );
    }
    model.flushed(5, at(10));
    for base in [a, 0] {
        assert!(model.expect_after(0, over(base, b, 0..2), &point(9, 5, true)).is_ok());
        let lost = model.expect_after(0, over(base, b, 0..2), &point(10, 5, true));
        assert!(lost.is_ok(), "its own answer, at the instant of the cut");
        assert!(model.expect_after(0, over(base, b, 0..2), &point(11, 5, true)).is_err(), "{base}");
        assert!(model.expect_after(0, over(base, c, 0..4), &point(11, 5, true)).is_ok(), "{base}");
    }
    model.settle(at(10));
    for base in [a, 0] {
        assert!(
            model.expect_last(0, over(base, c, 0..4)).is_ok(),
            "both of the group are kept: {base}"
        );
    }
}

#[test]
fn what_is_open_does_not_grow_with_each_write() {
    let mut model = Model::new(4, 4);
    model.write(1, 0, 1);
    model.discard(2, 0, 1);
    for request in 3..203 {
        model.write_sectors(request, 0, 1 + request % 7);
    }
    assert_eq!(model.pages[0].len(), 3 + 2 * 200, "two of each write");
    model.write_sectors(203, 0, SECTORS as u32);
    assert_eq!(model.pages[0].len(), 3 + 2 * 200 + 1, "one over nothing of what was open");
}

#[test]
fn a_page_that_cannot_be_read_stays_open_after_a_restart_and_closes_with_a_write() {
    let mut model = Model::new(1, 1);
    let a = model.write(1, 0, 1);
    let b = model.write_sectors(2, 0, 3);
    let mut next = Model::new(1, 1);
    next.restart(&model, &[Seen::Unreadable]);
    let possible = [page(0), page(a), over(a, b, 0..3)];
    for seen in possible {
        assert!(next.expect_last(0, seen).is_ok(), "{seen:?}");
    }
    next.flushed(1, at(1));
    for seen in possible {
        assert!(
            next.expect_after(0, seen, &point(2, 2, true)).is_ok(),
            "a flush says nothing of it: {seen:?}"
        );
    }
    let c = next.write_sectors(2, 2, 6);
    for seen in possible {
        let Seen::Page(mut content) = seen else { unreachable!() };
        assert!(next.expect_last(0, seen).is_err(), "{seen:?}");
        content[2..].fill(c);
        assert!(next.expect_last(0, Seen::Page(content)).is_ok(), "over {seen:?}");
    }
}
