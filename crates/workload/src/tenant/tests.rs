use block::{AppId, Bytes, Rng, Span, Time};

use super::model::{self, App, Row, Rows, by_ratio, record};
use super::*;
use crate::TraceOp::{Discard, Flush, Read, Write};
use crate::{Record, TraceOp};

fn drain(source: &mut dyn Source) -> Result<Vec<Record>, SourceError> {
    let (mut all, mut block) = (Vec::new(), Vec::new());
    loop {
        source.fill(&mut block)?;
        if block.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&block);
    }
}

fn tenant(name: &str, app: &App) -> Tenant {
    let mut tenant = Tenant::new(name)
        .stretch(Factor::new(app.stretch.0, app.stretch.1).unwrap())
        .rounds(app.rounds, app.discard)
        .window(Time::from_ps(app.window.0), app.window.1.map(Time::from_ps))
        .extent(Bytes(u64::MAX));
    for rows in &app.files {
        let rows = rows.clone();
        tenant = tenant.file(move || Ok(Box::new(Rows::new(rows.clone()))));
    }
    tenant.scan_extent().unwrap()
}

fn random_rows(rng: &mut Rng) -> Vec<Row> {
    let mut at = 0;
    let count = rng.between(1, 40);
    let row = |_| {
        // Steps of 0 make ties, which the order of tenants must settle.
        at += *rng.pick(&[0, 0, 1, 100_000, 300_000, 1_000_000]);
        let offset = rng.below(3 << 20);
        let op = *rng.pick(&[Read, Write, Write, Flush, Discard]);
        let (offset, len) = if op == Flush { (0, 0) } else { (offset, rng.between(1, 20_000)) };
        (at, op, offset, len)
    };
    (0..count).map(row).collect()
}

fn random_app(rng: &mut Rng) -> App {
    let mut files: Vec<Vec<Row>> = (0..rng.between(1, 3)).map(|_| random_rows(rng)).collect();
    // Something inside any window, so that no tenant is empty.
    files[0][0] = (0, Write, 0, 4096);
    let end = rng.ratio(1, 3).then(|| rng.between(1, 20_000_000));
    App {
        files,
        rounds: rng.between(1, 3),
        discard: rng.ratio(1, 2),
        stretch: *rng.pick(&[(1, 1), (10, 1), (3, 2), (1, 4)]),
        window: (0, end),
    }
}

fn flat(records: &[Record]) -> Vec<(usize, Row)> {
    let row = |r: &Record| (usize::from(r.app.0), (r.at.as_ps(), r.op, r.offset.0, r.len.0));
    records.iter().map(row).collect()
}

#[test]
fn clock_merges_equal_the_brute_force_model() {
    let mut rng = Rng::new(5);
    for _ in 0..400 {
        let apps: Vec<App> = (0..rng.between(1, 4)).map(|_| random_app(&mut rng)).collect();
        let tenants =
            || apps.iter().enumerate().map(|(i, a)| tenant(&format!("a{i}"), a)).collect();
        let ends = [(End::Shortest, None), (End::Longest, Some(99)), (End::First(0), Some(0))];
        for (end, model_end) in ends {
            let config = MergeConfig { end, ..MergeConfig::default() };
            let mut merge = Merge::new(tenants(), config).unwrap();
            let got = drain(&mut merge).unwrap();
            assert_eq!(flat(&got), model::merge(&apps, model_end), "{end:?} {apps:?}");
            let handed: u64 = merge.stats().iter().map(|s| s.records).sum();
            assert_eq!(handed, got.len() as u64);
        }
    }
}

#[test]
fn windows_that_start_late_equal_the_model() {
    let mut rng = Rng::new(6);
    let mut kept = 0;
    for _ in 0..300 {
        let mut app = random_app(&mut rng);
        let last = model::timeline(&App { rounds: 1, stretch: (1, 1), ..app.clone() });
        app.window = (rng.below(last.last().unwrap().0 + 1), None);
        let got = drain(&mut Merge::new(vec![tenant("a", &app)], MergeConfig::default()).unwrap());
        assert_eq!(flat(&got.unwrap()), model::merge(std::slice::from_ref(&app), None), "{app:?}");
        kept += 1;
    }
    assert_eq!(kept, 300);
}

#[test]
fn ratio_merges_equal_the_brute_force_model() {
    let mut rng = Rng::new(8);
    for _ in 0..400 {
        let mut apps = [random_app(&mut rng), random_app(&mut rng)];
        apps[0].stretch = (1, 1);
        let (leader, shares) = (rng.below(2) as usize, (rng.between(1, 4), rng.between(1, 60)));
        let share = Share {
            leader,
            follower: 1 - leader,
            leader_share: shares.0,
            follower_share: shares.1,
        };
        let config = MergeConfig {
            map: AddressMap::Identity,
            order: Order::Ratio(share),
            end: End::Shortest,
        };
        let tenants = vec![tenant("a", &apps[0]), tenant("b", &apps[1])];
        let got = drain(&mut Merge::new(tenants, config).unwrap()).unwrap();
        assert_eq!(flat(&got), by_ratio(&apps, leader, shares));
        // The other ends only add to what the shortest yields.
        for end in [End::Longest, End::First(0), End::First(1)] {
            let tenants = vec![tenant("a", &apps[0]), tenant("b", &apps[1])];
            let more =
                drain(&mut Merge::new(tenants, MergeConfig { end, ..config }).unwrap()).unwrap();
            let count = |app| more.iter().filter(|r| usize::from(r.app.0) == app).count();
            assert_eq!(flat(&more[..got.len()]), flat(&got));
            assert!(more.windows(2).all(|w| w[0].at <= w[1].at));
            for (app, model) in apps.iter().enumerate() {
                let whole = end == End::Longest || end == End::First(app);
                assert!(!whole || count(app) == model::timeline(model).len(), "{end:?}");
            }
        }
    }
}

#[test]
fn merging_is_associative_for_disjoint_apps() {
    let mut rng = Rng::new(9);
    for _ in 0..100 {
        let apps: Vec<App> = (0..3).map(|_| random_app(&mut rng)).collect();
        let config = MergeConfig { end: End::Longest, ..MergeConfig::default() };
        let all = apps.iter().map(|a| tenant("x", a)).collect();
        let flat_merge = drain(&mut Merge::new(all, config).unwrap()).unwrap();
        let first = vec![tenant("a", &apps[0]), tenant("b", &apps[1])];
        let mut inner = Merge::new(first, config).unwrap();
        let capacity = inner.capacity().unwrap();
        let rows: Vec<Record> = drain(&mut inner).unwrap();
        let rows: Vec<Row> =
            rows.iter().map(|r| (r.at.as_ps(), r.op, r.offset.0, r.len.0)).collect();
        let outer =
            Tenant::new("ab").file(move || Ok(Box::new(Rows::new(rows.clone())))).extent(capacity);
        let nested = drain(&mut Merge::new(vec![outer, tenant("c", &apps[2])], config).unwrap());
        let bare = |records: &[Record]| flat(records).into_iter().map(|r| r.1).collect::<Vec<_>>();
        assert_eq!(bare(&nested.unwrap()), bare(&flat_merge));
    }
}

fn fixed(name: &str, rows: &[Row]) -> Tenant {
    let rows = rows.to_vec();
    Tenant::new(name).file(move || Ok(Box::new(Rows::new(rows.clone()))))
}

#[test]
fn modulo_wraps_counts_and_keeps_every_byte() {
    let rows = [
        (0, Write, 4096, 4096),
        (1, Write, 12 << 10, 12 << 10),
        (2, Flush, 0, 0),
        (3, Discard, 0, 64 << 10),
        (4, Read, 33 << 10, 1 << 10),
    ];
    let config = MergeConfig { map: AddressMap::Modulo(Bytes(16 << 10)), ..MergeConfig::default() };
    let mut merge = Merge::new(vec![fixed("a", &rows).scan_extent().unwrap()], config).unwrap();
    let got: Vec<Row> = flat(&drain(&mut merge).unwrap()).into_iter().map(|r| r.1).collect();
    let expected = [
        (0, Write, 4096, 4096),
        (1, Write, 12 << 10, 4 << 10),
        (1, Write, 0, 8 << 10),
        (2, Flush, 0, 0),
        (3, Discard, 0, 16 << 10),
        (4, Read, 1 << 10, 1 << 10),
    ];
    assert_eq!(got, expected);
    assert_eq!(merge.stats()[0].wrapped, 3);
    assert_eq!(merge.stats()[0].records, 5);
    assert_eq!(merge.capacity(), Some(Bytes(16 << 10)));
}

fn message(result: Result<Vec<Record>, SourceError>) -> String {
    result.unwrap_err().to_string()
}

fn run(tenant: Tenant, map: AddressMap) -> Result<Vec<Record>, SourceError> {
    drain(&mut Merge::new(vec![tenant], MergeConfig { map, ..MergeConfig::default() })?)
}

#[test]
fn what_is_wrong_is_named() {
    let ok = [(0, Write, 0, 4096), (5, Write, 8192, 4096)];
    let falls = [(5, Write, 0, 4096), (0, Write, 0, 4096)];
    let identity = AddressMap::Identity;
    let cases = [
        (run(fixed("a", &ok), AddressMap::Partition), "app a: this address map needs its extent"),
        (run(fixed("a", &falls), identity), "app a: file 1: the request at 0 ns lies before"),
        (run(fixed("a", &[]), identity), "app a: it has no record"),
        (run(Tenant::new("a"), identity), "app a: it has no file"),
        (run(fixed("a", &[(0, Read, 4096, 0)]), identity), "app a: a Read of length 0"),
        (run(fixed("a", &ok).shift(-4096), identity), "app a: byte 0 shifted by -4096 lies"),
        (
            run(fixed("a", &ok).extent(Bytes(4096)), identity),
            "app a: 4096 bytes at byte 8192 reach",
        ),
        (run(fixed("a", &ok).rounds(2, true), identity), "app a: the discard between rounds"),
        (run(fixed("a", &ok), AddressMap::Modulo(Bytes(1000))), "modulo 1000: expected a multiple"),
    ];
    for (got, expected) in cases {
        let got = message(got);
        assert!(got.starts_with(expected), "{got}\n{expected}");
    }
    let far = fixed("a", &[(Time::LIMIT.as_ps(), Write, 0, 512)]);
    let far = far.stretch(Factor::new(3, 2).unwrap());
    assert!(message(run(far, identity)).contains("end of virtual time"));
}

struct TwoVolumes(u16);

impl Source for TwoVolumes {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        block.clear();
        while self.0 < 6 {
            let row = (u64::from(self.0), TraceOp::Write, u64::from(self.0) << 12, 4096);
            block.push(Record { app: AppId(self.0 % 2), ..record(row) });
            self.0 += 1;
        }
        Ok(())
    }
}

#[test]
fn volumes_are_never_laid_over_each_other_unasked() {
    let two = || Tenant::new("v").file(|| Ok(Box::new(TwoVolumes(0))));
    let identity = AddressMap::Identity;
    assert!(message(run(two(), identity)).contains("volumes 0 and 1: choose one"));
    assert_eq!(run(two().volumes(Volumes::Shared), identity).unwrap().len(), 6);
    let config = MergeConfig { map: identity, ..MergeConfig::default() };
    let tenants = vec![two().volumes(Volumes::Only(AppId(1)))];
    let mut merge = Merge::new(tenants, config).unwrap();
    let got = drain(&mut merge).unwrap();
    assert_eq!(got.iter().map(|r| r.offset.0 >> 12).collect::<Vec<_>>(), [1, 3, 5]);
    assert_eq!(merge.stats()[0].other_volumes, 3);
}

#[test]
fn dropped_flushes_do_not_move_the_clock() {
    let rows = [(0, Write, 0, 4096), (TRACE_TICK.as_ps() * 9, Flush, 0, 0)];
    let two = || fixed("a", &rows).file(move || Ok(Box::new(Rows::new(rows.to_vec()))));
    let identity = AddressMap::Identity;
    let times = |t| run(t, identity).unwrap().iter().map(|r| r.at).collect::<Vec<_>>();
    let tick = |n| Time::ZERO + TRACE_TICK.times(n);
    assert_eq!(times(two().drop_flushes()), [tick(0), tick(1)]);
    assert_eq!(times(two()), [tick(0), tick(9), tick(10), tick(19)]);
    assert_eq!(Span::from_ns(100), TRACE_TICK);
}

#[test]
fn texts_are_parsed_exactly() {
    let names = ["A", "B"];
    assert_eq!(parse_map("partition").unwrap(), AddressMap::Partition);
    assert_eq!(parse_map("modulo:8 GiB").unwrap(), AddressMap::Modulo(Bytes(8 << 30)));
    assert_eq!(parse_map("modulo 4096").unwrap(), AddressMap::Modulo(Bytes(4096)));
    assert_eq!(parse_end("first:B", &names).unwrap(), End::First(1));
    let share = Share { leader: 0, follower: 1, leader_share: 1, follower_share: 60 };
    assert_eq!(parse_share("A:B=1:60", &names).unwrap(), share);
    assert_eq!("0.25".parse::<Factor>().unwrap(), Factor::new(1, 4).unwrap());
    assert_eq!("10".parse::<Factor>().unwrap().to_string(), "10");
    assert_eq!("6/4".parse::<Factor>().unwrap().inverse().to_string(), "2/3");
    for bad in ["modulo", "modulo8G", "part", "modulo:x"] {
        assert!(parse_map(bad).is_err(), "{bad}");
    }
    for bad in ["first:C", "A", ""] {
        assert!(parse_end(bad, &names).is_err(), "{bad}");
    }
    for bad in ["A:B=0:1", "A:A=1:1", "A:C=1:1", "A:B=1", "A=1:1", "A:B=1.5:2"] {
        assert!(parse_share(bad, &names).is_err(), "{bad}");
    }
    for bad in ["0", "-1", "1/0", "", ".", "1e3", "0.0000000001"] {
        assert!(bad.parse::<Factor>().is_err(), "{bad}");
    }
}
