//! dev
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use varve_torture::*;
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words[0] == "torture" {
        worker::work(&mut std::io::stdin().lock(), &mut std::io::stdout()).unwrap();
        return;
    }
    if words[0] == "replay" {
        let exe = std::env::current_exe().unwrap();
        println!("{:?}", replay::replay(words[1].as_ref(), &replay::How::default(), &exe).unwrap());
        return;
    }
    let (r, row) = recipe::find(&words[0]).unwrap();
    let row = if words[0].ends_with(".toml") { words.get(4).and_then(|n| r.rows.iter().find(|r| r.name == *n).cloned()).or(row) } else { row };
    let kind: stage::Kind = words[1].parse().unwrap();
    let row = row.unwrap();
    let set = r.settings(Some(&row), &[]).unwrap();
    let wanted = Wanted {
        name: row.name.clone(),
        subject: subject::Subject {
            setup: stage::Setup { kind, mkfs: String::new(), options: String::new() },
            atomic: row.sector.unwrap_or(4096),
            program: ["sh", "-c", &r.program].map(Into::into).to_vec(),
            check: Some(r.check.clone()),
            env: set.into_iter().map(|(k, v)| (k, v.into())).collect(),
            run_limit: Duration::from_secs(r.limits.0.unwrap_or(120)),
            limit: Duration::from_secs(r.limits.1.unwrap_or(30)),
        },
        size: kind.size().max(r.size.unwrap_or(0)),
        from: if row.init { cuts::From::Init } else { cuts::From::Ready },
        worst: true,
        drawn: words.get(2).map_or(20, |w| w.parse().unwrap()),
        seed: 1,
        workers: words.get(3).map_or(1, |w| w.parse().unwrap()),
        budget: Duration::from_secs(600),
        keep_going: true,
        self_check: true,
        out: Some("/tmp/t/out".into()),
        log: None,
        program: std::env::current_exe().unwrap(),
        version: "dev".into(),
    };
    let report = run(&wanted, &AtomicBool::new(false), &|t| eprintln!("{t}")).unwrap();
    println!("{report}");
}
