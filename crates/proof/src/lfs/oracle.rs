//! The oracle of the file system: its model, and what of it a cut may leave.

use block::{BlockDevice, Bytes};
use lfs::format::FileType;
use lfs::fs::{NewInode, SetAttributes};
use lfs::{Fs, FsError, Nid, Now};

use super::checkpoints::{Checkpoints, Made};
use super::look::{Found, xattr_name, xattr_value};
use super::model::{LONGEST, Tree, fill};
use super::spec::FsSpec;
use super::step::{FsAction, Path, name_bytes};
use super::subject::FsSubject;
use super::turns::{Parked, Peeked};
use super::waiting::{Asked, Written};
use crate::failure::{Contract, Failure};
use crate::model::Point;
use crate::step::{Action, Class, Step};
use crate::subject::{Oracle, Subject};

/// Judges a volume by what is in it.
pub struct FsOracle {
    pub(super) now: Tree,
    pub(super) durable: Tree,
    /// What the checkpoint has that is frozen: a cut leaves that, or the other.
    pub(super) frozen: Option<Tree>,
    /// Checkpoints that were heard of, and how many of them ended.
    pub(super) seen: Checkpoints,
    pub(super) ended: u64,
    /// Files whose nodes were written and not heard of, in the order of the chain, as they were then: a cut
    /// leaves a beginning of it.
    pub(super) written: Vec<Written>,
    /// Files that somebody waits for.
    pub(super) asks: Vec<Asked>,
    /// What a cut within the last step may leave.
    pub(super) allowed: Vec<Tree>,
    /// The operation of a client that waits for a read.
    pub(super) parked: Option<Parked>,
    /// What somebody reads.
    pub(super) peeked: Option<Peeked>,
    request: u32,
    pub(super) versions: u32,
    /// The volume is checked after one in so many steps.
    check_every: u32,
    found: Found,
    again: Found,
    /// The state of the model that was found.
    matched: Tree,
}

/// What of new files is chosen.
const NEW: NewInode = NewInode { permissions: 0o640, uid: 3, gid: 4 };

/// What a path names, as the volume has it.
pub(super) fn resolve<D: BlockDevice>(
    fs: &mut Fs<D>,
    now: Now,
    path: Path,
) -> Result<Nid, FsError> {
    path.names().try_fold(Nid::ROOT, |dir, name| fs.lookup(now, dir, &name_bytes(name)))
}

fn place<D: BlockDevice>(fs: &mut Fs<D>, now: Now, path: Path) -> Result<(Nid, Vec<u8>), FsError> {
    let (dir, name) = path.split().ok_or(FsError::Invalid("the root has no name"))?;
    Ok((resolve(fs, now, dir)?, name_bytes(name)))
}

/// A regular file, as a system would ask for one to be opened.
fn file<D: BlockDevice>(fs: &mut Fs<D>, now: Now, path: Path) -> Result<(Nid, u64), FsError> {
    let ino = resolve(fs, now, path)?;
    let attributes = fs.attributes(now, ino)?;
    match attributes.kind {
        FileType::File => Ok((ino, attributes.size.0)),
        FileType::Directory => Err(FsError::IsDirectory),
        _ => Err(FsError::Invalid("no regular file")),
    }
}

fn write<D: BlockDevice>(
    fs: &mut Fs<D>,
    now: Now,
    (ino, at): (Nid, u64),
    len: u32,
    version: u32,
) -> Result<(), FsError> {
    let mut data = vec![0; len as usize];
    fill(version, at, &mut data);
    fs.write(now, ino, Bytes(at), &data)
}

/// Does an operation on a volume.
pub(super) fn perform<D: BlockDevice>(
    fs: &mut Fs<D>,
    now: Now,
    action: FsAction,
    version: u32,
) -> Result<(), FsError> {
    let bytes = |n: u32| Bytes(u64::from(n));
    match action {
        FsAction::Create(path) => {
            let (dir, name) = place(fs, now, path)?;
            fs.create(now, dir, &name, FileType::File, NEW, (0, 0)).map(drop)
        }
        FsAction::Mkdir(path) => {
            let (dir, name) = place(fs, now, path)?;
            fs.mkdir(now, dir, &name, NEW).map(drop)
        }
        FsAction::Symlink(path, len) => {
            let (dir, name) = place(fs, now, path)?;
            let target = vec![b'x'; len.clamp(1, LONGEST) as usize];
            fs.symlink(now, dir, &name, &target, NEW).map(drop)
        }
        FsAction::Link(from, to) => {
            let ino = resolve(fs, now, from)?;
            let (dir, name) = place(fs, now, to)?;
            fs.link(now, ino, dir, &name)
        }
        FsAction::Unlink(path) => {
            let (dir, name) = place(fs, now, path)?;
            fs.unlink(now, dir, &name)
        }
        FsAction::Rmdir(path) => {
            let (dir, name) = place(fs, now, path)?;
            fs.rmdir(now, dir, &name)
        }
        FsAction::Rename(from, to) => {
            let (from, to) = (place(fs, now, from)?, place(fs, now, to)?);
            fs.rename(now, (from.0, &from.1), (to.0, &to.1))
        }
        FsAction::Exchange(one, other) => {
            let (one, other) = (place(fs, now, one)?, place(fs, now, other)?);
            fs.exchange(now, (one.0, &one.1), (other.0, &other.1))
        }
        FsAction::Write(path, at, len) => {
            let (ino, _) = file(fs, now, path)?;
            write(fs, now, (ino, u64::from(at)), len, version)
        }
        FsAction::Append(path, len) => {
            let to = file(fs, now, path)?;
            write(fs, now, to, len, version)
        }
        FsAction::Truncate(path, size) => {
            let (ino, _) = file(fs, now, path)?;
            fs.truncate(now, ino, bytes(size))
        }
        FsAction::Punch(path, at, len) => {
            let (ino, _) = file(fs, now, path)?;
            fs.punch(now, ino, bytes(at), bytes(len))
        }
        FsAction::Allocate(path, at, len, keep) => {
            let (ino, _) = file(fs, now, path)?;
            fs.allocate(now, ino, bytes(at), bytes(len), keep)
        }
        FsAction::SetXattr(path, name, len) => {
            let (ino, value) = (resolve(fs, now, path)?, xattr_value(version, len.min(LONGEST)));
            fs.set_xattr(now, ino, 1, &xattr_name(name), Some(&value))
        }
        FsAction::DropXattr(path, name) => {
            let ino = resolve(fs, now, path)?;
            fs.set_xattr(now, ino, 1, &xattr_name(name), None)
        }
        FsAction::Chmod(path, mode) => {
            let ino = resolve(fs, now, path)?;
            let permissions = Some((mode & 0o777) as u16);
            fs.set_attributes(now, ino, SetAttributes { permissions, ..Default::default() })
        }
        FsAction::Fsync(path) => {
            let ino = resolve(fs, now, path)?;
            fs.fsync(now, ino)
        }
        FsAction::Sync => fs.sync(now),
        FsAction::Clean(most) => fs.clean(now, most).map(drop),
        FsAction::Background(most) => fs.idle(now, most).map(drop),
        FsAction::Ask(_)
        | FsAction::Peek(_)
        | FsAction::Round
        | FsAction::Remount
        | FsAction::Look => Ok(()),
    }
}

pub(super) fn no_answer(what: &Step, error: &FsError) -> Failure {
    Failure::new(Contract::C10, format!("`{what}` was refused: {error}"))
}

impl FsOracle {
    /// What the volume holds is what the model has, with the power on.
    fn compare(&mut self, subject: &mut FsSubject, what: &Step) -> Result<(), Failure> {
        let found = subject.look().map_err(|error| no_answer(what, &error))?;
        match found.difference(&self.now) {
            None => Ok(()),
            Some(text) => Err(Failure::new(Contract::C6, format!("with the power on, {text}"))),
        }
    }

    fn remount(&mut self, subject: &mut FsSubject, what: &Step) -> Result<(), Failure> {
        self.allowed.extend(self.beginnings());
        self.allowed.push(self.now.clone());
        self.forget_asks();
        subject.remount().map_err(|error| no_answer(what, &error))?;
        self.durable = self.now.clone();
        (self.frozen, self.seen) = (None, subject.checkpoints());
        self.compare(subject, what)
    }

    /// What an operation that was answered made durable; `was` is the state before it.
    fn settle(&mut self, action: FsAction, now: Checkpoints, was: &Tree) {
        self.checkpointed(now, was);
        match action {
            FsAction::Sync => {
                self.written.clear();
                self.durable = self.now.clone();
            }
            FsAction::Fsync(path) => {
                if self.now.is_single_file(path) {
                    let id = self.now.find(path).ok();
                    if id.is_some_and(|id| !self.durable.has(&self.now, id)) {
                        // Its flush covers what was written to the chain before it.
                        for one in std::mem::take(&mut self.written) {
                            self.durable = self.durable.with_synced_id(&one.was, one.id);
                        }
                    }
                    self.written.retain(|one| Some(one.id) != id);
                    self.durable = self.durable.with_synced(&self.now, path);
                } else {
                    self.durable = self.now.clone();
                }
            }
            _ => {}
        }
    }

    fn step(&mut self, subject: &mut FsSubject, step: &Step) -> Result<(), Failure> {
        let Action::File(action) = step.action else {
            let what = format!("`{step}` is not for a file system");
            return Err(Failure::new(Contract::C10, what));
        };
        if matches!(action, FsAction::Look | FsAction::Remount) {
            self.allowed = self.beginnings();
            self.finish_turns(subject)?;
        }
        match action {
            FsAction::Peek(path) => return self.peek(subject, step, path),
            FsAction::Look => {
                self.allowed.extend(self.beginnings());
                return self.compare(subject, step);
            }
            FsAction::Remount => return self.remount(subject, step),
            FsAction::Ask(path) => return self.ask(subject, step, path),
            FsAction::Round => return self.round(subject, step),
            _ => {}
        }
        self.in_turn(subject, step, action)
    }

    /// One attempt at an operation, or all that it takes.
    pub(super) fn operate(
        &mut self,
        subject: &mut FsSubject,
        step: &Step,
        (action, version): (FsAction, u32),
        first: bool,
    ) -> Result<(), Failure> {
        let parks = self.parks(subject, action, first);
        let real = subject.patiently(parks, |fs, now| perform(fs, now, action, version));
        if matches!(real, Err(FsError::Again)) && parks {
            self.park(subject, step, version);
            return Ok(());
        }
        let made = Made::between(self.seen, subject.checkpoints());
        let was = (self.durable.clone(), self.now.clone());
        self.allowed = self.beginnings();
        self.answer(step, (action, version), real, subject.checkpoints())?;
        self.allowed.extend(self.frozen.clone());
        if let FsAction::Fsync(path) = action
            && was.0.can_sync(&self.now, path)
        {
            let with = self.allowed.iter().map(|tree| tree.with_synced(&self.now, path));
            self.allowed.extend(with.collect::<Vec<_>>());
        }
        if made != Made::None || matches!(action, FsAction::Fsync(_)) {
            self.allowed.push(self.durable.clone());
        }
        if let (Made::After, FsAction::Fsync(path)) = (made, action)
            && was.0.can_sync(&self.now, path)
        {
            // Durable by its nodes first, and then the checkpoint came.
            self.allowed.push(was.0.with_synced(&self.now, path));
        }
        if made != Made::None {
            self.allowed.extend([was.1, self.now.clone()]);
        }
        if matches!(action, FsAction::Allocate(..)) && made == Made::After {
            // It is several operations, and which of them it came after is not known.
            let synced = subject.patiently(false, |fs, now| fs.sync(now));
            synced.map_err(|error| no_answer(step, &error))?;
            self.catch_up(subject);
            self.durable = self.now.clone();
        }
        if made != Made::None && matches!(action, FsAction::Sync) {
            subject.check_counts()?;
        }
        if self.request.is_multiple_of(self.check_every) {
            subject.check_volume()?;
        }
        Ok(())
    }

    /// The answer of the volume beside that of the model.
    fn answer(
        &mut self,
        step: &Step,
        (action, version): (FsAction, u32),
        real: Result<(), FsError>,
        checkpoints: Checkpoints,
    ) -> Result<(), Failure> {
        let was = self.now.clone();
        match real {
            // There may be no room; nothing is changed then.
            Err(FsError::NoSpace) => {
                self.checkpointed(checkpoints, &was);
                Ok(())
            }
            Err(error @ (FsError::Device(_) | FsError::Corrupt(_) | FsError::ReadOnly(_))) => {
                Err(no_answer(step, &error))
            }
            real => match (real, self.now.apply(action, version)) {
                (Ok(()), Ok(())) => {
                    self.settle(action, checkpoints, &was);
                    Ok(())
                }
                (Err(_), Err(_)) => {
                    self.checkpointed(checkpoints, &was);
                    Ok(())
                }
                (Err(error), Ok(())) => Err(no_answer(step, &error)),
                (Ok(()), Err(why)) => {
                    let what = format!("`{step}` was done, but {why:?}");
                    Err(Failure::new(Contract::C6, what))
                }
            },
        }
    }

    /// Reads everything and finds the state of the model that it is.
    fn judge(&mut self, subject: &mut FsSubject, point: &Point) -> Result<(), Failure> {
        let lost = |error: FsError| Failure::new(Contract::C12, format!("after the cut: {error}"));
        self.found = subject.look().map_err(lost)?;
        let last = self.beginnings();
        let end = point.request == u32::MAX;
        let allowed = if end { &last[..] } else { &self.allowed[..] };
        let mut wrong = Vec::new();
        for tree in allowed {
            match self.found.difference(tree) {
                None => {
                    self.matched = tree.clone();
                    subject.check_volume()?;
                    return subject.check_counts();
                }
                Some(text) => wrong.push(text),
            }
        }
        wrong.dedup();
        Err(Failure::new(Contract::C12, format!("after the cut {}", wrong.join("; or "))))
    }
}

impl Oracle<FsSubject> for FsOracle {
    type Step = Step;

    fn new(spec: &FsSpec, subject: &FsSubject) -> FsOracle {
        let start = spec.start().clone();
        FsOracle {
            now: start.clone(),
            durable: start.clone(),
            frozen: None,
            seen: subject.checkpoints(),
            ended: 0,
            written: Vec::new(),
            asks: Vec::new(),
            allowed: vec![start.clone()],
            parked: None,
            peeked: None,
            request: 0,
            // What was there before the run was written with smaller ones.
            versions: 1_000,
            check_every: spec.check_every,
            found: Found::default(),
            again: Found::default(),
            matched: start,
        }
    }

    fn apply(&mut self, subject: &mut FsSubject, step: &Step) -> Result<Class, Failure> {
        self.request += 1;
        let now = subject.tick();
        subject.forget(now.at);
        self.catch_up(subject);
        if let Action::Shutdown = step.action {
            self.shutdown(subject)?;
        } else {
            let allowed = self.let_clean(subject, step)?;
            self.step(subject, step)?;
            self.allowed.extend(allowed);
        }
        Ok(step.class())
    }

    fn shutdown(&mut self, subject: &mut FsSubject) -> Result<(), Failure> {
        let stop = Step::new(Action::Shutdown);
        self.allowed = self.beginnings();
        self.finish_turns(subject)?;
        self.compare(subject, &stop)?;
        self.allowed.extend(self.beginnings());
        self.allowed.push(self.now.clone());
        self.forget_asks();
        subject.stop().map_err(|error| no_answer(&stop, &error))?;
        self.durable = self.now.clone();
        (self.frozen, self.seen) = (None, subject.checkpoints());
        Ok(())
    }

    fn request(&self) -> u32 {
        self.request
    }

    fn recovered(&mut self, subject: &mut FsSubject, point: &Point) -> Result<(), Failure> {
        self.judge(subject, point)
    }

    /// A recovery that was cut is repeated, and finds the same.
    fn recovered_again(&mut self, subject: &mut FsSubject, point: &Point) -> Result<(), Failure> {
        std::mem::swap(&mut self.found, &mut self.again);
        let before = self.matched.clone();
        self.judge(subject, point)?;
        match self.found.difference(&before) {
            None => Ok(()),
            Some(text) => {
                let what = format!("after a cut in recovery {text} as it was before it");
                Err(Failure::new(Contract::C3, what))
            }
        }
    }

    fn digest(&self) -> u64 {
        self.found.digest()
    }

    fn restart(&mut self, other: &FsOracle, subject: &FsSubject) {
        self.now = other.matched.clone();
        self.durable = other.matched.clone();
        self.forget_asks();
        (self.parked, self.peeked) = (None, None);
        (self.frozen, self.seen) = (None, subject.checkpoints());
        self.allowed = vec![other.matched.clone()];
        self.versions = other.versions;
        self.check_every = other.check_every;
        self.request = 0;
    }
}
