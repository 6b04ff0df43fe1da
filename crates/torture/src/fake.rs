//! For tests: a worker that says what it is told to say, and a short log.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use stack::datalog::{Entry, Op, Writer};

use crate::crew::{Apart, Crew, Folder};
use crate::cuts::{Cuts, From, choose};
use crate::history::History;
use crate::run::Wanted;
use crate::stage::{Kind, Setup};
use crate::subject::Subject;

/// A folder, a crew whose workers are a script, and what it looks at.
pub(crate) struct Fake {
    pub crew: Crew,
    pub wanted: Wanted,
    pub history: History,
    pub cuts: Cuts,
    _folder: Folder,
}

impl Fake {
    /// Workers answer the first states like this, one after the other, and end.
    pub fn new(fates: &[&str]) -> Fake {
        let folder = Folder::new().unwrap();
        let log = folder.path().join("log.vlog");
        let mut writer = Writer::new(fs::File::create(&log).unwrap(), 1 << 20, "a test").unwrap();
        let mut push = |op, at, bytes, data: &[u8]| {
            writer.push(&Entry { op, fua: false, ours: false, ns: 0, at, bytes, data }).unwrap();
        };
        for i in 0..3 {
            push(Op::Write, i * 4096, 4096, &[i as u8 + 1; 4096]);
            push(Op::FlushBegin, 0, 0, &[]);
            push(Op::FlushEnd, i * 4 + 1, 0, &[]);
            push(Op::Mark, 0, 0, b"done");
        }
        writer.finish().unwrap();
        let history = History::load(&log).unwrap();
        let cuts = choose(&history, 4096, From::Init, true, 0, 1);
        let answers = fates.iter().zip(&cuts.hashes).map(|(fate, hash)| {
            format!(
                "read job; echo '{{\"fate\":\"{fate}\",\"reason\":\"it is {fate}\",\"hash\":\"{hash}\",\
                 \"promised\":1,\"pending\":1,\"us\":1}}'\n"
            )
        });
        let script = format!(
            "#!/bin/sh\nread orders; echo '{{\"ready\":true}}'\n{}",
            answers.collect::<String>()
        );
        let program = folder.path().join("worker");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let subject = Subject {
            setup: Setup { kind: Kind::Ext4, mkfs: String::new(), options: String::new() },
            atomic: 4096,
            program: vec!["true".into()],
            check: Some("true".to_string()),
            env: Vec::new(),
            run_limit: Duration::from_secs(1),
            limit: Duration::from_secs(1),
        };
        let wanted = Wanted {
            name: "a test".to_string(),
            subject: subject.clone(),
            size: 1 << 20,
            from: From::Init,
            worst: true,
            drawn: 0,
            seed: 1,
            workers: 1,
            budget: Duration::from_secs(60),
            keep_going: true,
            self_check: false,
            out: None,
            plans: None,
            log: None,
            recoveries: 0,
            live: None,
            stack: None,
            program: PathBuf::new(),
            version: "test".to_string(),
        };
        let path = folder.path().to_path_buf();
        let crew = Crew { program, apart: Apart::Not, subject, log, folder: path };
        Fake { crew, wanted, history, cuts, _folder: folder }
    }
}
