use super::*;
use crate::fake::Fake;

fn judged(fake: &Fake) -> (Report, Result<(), TortureError>) {
    let (mut report, stop) = (empty(&fake.wanted), AtomicBool::new(false));
    let explored = explore(&fake.wanted, &fake.crew, &fake.cuts, &stop, &mut report);
    let verdict = report
        .in_spite_of(explored)
        .and_then(|_| judge(&fake.wanted, &fake.crew, &fake.history, &fake.cuts, &mut report));
    (report, verdict)
}

#[test]
fn a_worker_that_dies_does_not_take_failures_with_it() {
    let (report, verdict) = judged(&Fake::new(&["kept", "lost"]));
    verdict.unwrap();
    assert_eq!((report.verdict.clone(), report.checked.len()), (Verdict::Lost, 2));
    let notes = report.notes.join("\n");
    assert!(notes.contains("a worker of ours ended by itself"), "{notes}");
    assert!(notes.contains("2 states were not looked at"), "{notes}");
    // Where nothing had failed nothing can be said.
    let (report, verdict) = judged(&Fake::new(&["kept", "kept"]));
    assert!(matches!(verdict, Err(TortureError::Broken(_))), "{verdict:?}");
    assert_eq!(report.checked.len(), 2);
}

#[test]
fn what_does_not_mount_shows_nothing_where_it_does_not_count() {
    let mut fake = Fake::new(&["unmountable"; 4]);
    let (report, verdict) = judged(&fake);
    verdict.unwrap();
    assert_eq!(report.verdict, Verdict::Lost);
    fake.wanted.subject.atomic = 512;
    let (report, verdict) = judged(&fake);
    verdict.unwrap();
    let Verdict::NotMeasured(why) = &report.verdict else { panic!("{:?}", report.verdict) };
    assert!(why.contains("no state was mounted") && why.contains("it is unmountable"), "{why}");
    // One that was looked at is enough, and a file system that takes such drives has to come up.
    fake = Fake::new(&["unmountable", "unmountable", "kept", "unmountable"]);
    fake.wanted.subject.atomic = 512;
    assert_eq!(judged(&fake).0.verdict, Verdict::Kept);
    fake.wanted.subject.setup.kind = crate::stage::Kind::Lfs;
    assert_eq!(judged(&fake).0.verdict, Verdict::Lost);
}

#[test]
fn a_drive_that_had_nothing_to_lose_measures_nothing() {
    let mut fake = Fake::new(&["kept"; 4]);
    assert_eq!(judged(&fake).0.verdict, Verdict::Kept);
    assert!(fake.cuts.pending, "a write is, before its flush");
    fake.cuts.pending = false;
    let (mut report, stop) = (empty(&fake.wanted), AtomicBool::new(false));
    explore(&fake.wanted, &fake.crew, &fake.cuts, &stop, &mut report).unwrap();
    report.checked.iter_mut().for_each(|checked| checked.pending = 0);
    judge(&fake.wanted, &fake.crew, &fake.history, &fake.cuts, &mut report).unwrap();
    let Verdict::NotMeasured(why) = &report.verdict else { panic!("{:?}", report.verdict) };
    assert!(why.contains("nothing was ever pending"), "{why}");
}
