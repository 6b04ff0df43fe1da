//! `varve fsck`: is a volume what it says? With `--recover`, after a crash too.

use std::process::ExitCode;
use std::sync::Arc;

use block::{BlockDevice, Overlay};
use lab::LabError;
use lfs::format::Flags;
use lfs::fs::{Durable, Trigger};
use lfs::{Fs, FsError, FsOptions};
use serde_json::json;
use serve::mount::DiskDevice;
use stack::disk::Disk;

use super::{now, open, volume_error};
use crate::args::Fsck;
use crate::{note, print};

/// Exit codes of checkers of file systems.
const CORRECTED: u8 = 1;
const LEFT: u8 = 4;
const NOT_CHECKED: u8 = 8;

/// What was found.
struct Verdict {
    state: &'static str,
    what: String,
    code: u8,
}

/// `varve fsck`; its exit codes are those of checkers, not those of the other commands.
pub fn fsck(args: &Fsck) -> ExitCode {
    let verdict = match checked(args) {
        Ok(verdict) => verdict,
        Err(error @ LabError::Check { .. }) => {
            Verdict { state: "damaged", what: error.to_string(), code: LEFT }
        }
        Err(error) => Verdict { state: "not checked", what: error.to_string(), code: NOT_CHECKED },
    };
    let path = args.source.source.display();
    let told = if args.json {
        let document = json!({
            "schema": "varve.fsck/1",
            "version": crate::VERSION,
            "config": { "source": path.to_string(), "recover": args.recover },
            "results": { "state": verdict.state, "what": verdict.what, "exit": verdict.code },
        });
        print(&format!("{document:#}\n"))
    } else if verdict.code >= LEFT {
        note(&format!("varve: {}", verdict.what));
        Ok(())
    } else {
        print(&format!("{path}: {}\n", verdict.what))
    };
    match told {
        Ok(()) => ExitCode::from(verdict.code),
        Err(error) => {
            note(&format!("varve: {error}"));
            ExitCode::from(NOT_CHECKED)
        }
    }
}

fn device(disk: &Arc<dyn Disk>) -> DiskDevice {
    DiskDevice(Arc::clone(disk))
}

/// Mounts a volume, looks at all of it and unmounts it: whether there was something to recover, and what
/// it holds.
fn judge<D: BlockDevice>(device: D, options: FsOptions) -> Result<(bool, String), FsError> {
    let mut fs = Fs::mount(device, options, now())?;
    let rolled = fs.checkpoints().contains_key(&Trigger::Recovery);
    fs.check(now())?;
    let usage = fs.usage(now())?;
    fs.unmount(now())?;
    let (used, blocks) = (usage.used_blocks, usage.blocks);
    Ok((rolled, format!("{} inodes, {used} of {blocks} blocks in use", usage.inodes)))
}

fn checked(args: &Fsck) -> Result<Verdict, LabError> {
    let path = &args.source.source;
    let failed = |error: FsError| volume_error(path, &error);
    let stack = open(&args.source, None, !args.recover)?;
    let mut found = Durable::open(device(&stack.disk)).map_err(failed)?;
    let headless = found.has_lost_its_head();
    let unclean = headless || found.is_live() || !found.checkpoint().flags.any(Flags::UMOUNT);
    let (pack, begun) = (found.pack_at().0, found.begun());
    drop(found);
    let read_only = !(unclean && args.recover);
    // Without a journal of its own: what is recovered is plain afterwards.
    let options = FsOptions { read_only, ..FsOptions::default() };
    let (rolled, held) = match unclean && read_only {
        // Judged as recovery would leave it: that is done, and what it writes goes nowhere.
        true => {
            let written = FsOptions { read_only: false, ..options };
            match judge(Overlay::new(device(&stack.disk)), written) {
                // It may only be read, and recovery of that writes nothing either.
                Err(FsError::Unsupported(_)) => judge(device(&stack.disk), options),
                judged => judged,
            }
        }
        false => judge(device(&stack.disk), options),
    }
    .map_err(failed)?;
    if !read_only {
        stack.disk.close().map_err(|error| LabError::Failed(error.to_string()))?;
    }
    Ok(match (unclean, args.recover) {
        (false, _) => Verdict { state: "clean", what: format!("clean; {held}"), code: 0 },
        (true, true) => {
            let how = if rolled { "recovered" } else { "marked as unmounted" };
            Verdict {
                state: "recovered",
                what: format!("{how}, clean now; {held}"),
                code: CORRECTED,
            }
        }
        (true, false) if headless => Verdict {
            state: "damaged",
            what: format!(
                "{}: block {pack}, the first one of the newest checkpoint pack, is damaged; the last one, which says the \
                 same, serves ({held}); --recover writes it anew; a kernel would take the state before",
                path.display()
            ),
            code: LEFT,
        },
        (true, false) => Verdict {
            state: "not unmounted",
            what: format!(
                "{}: was not unmounted{}; what recovery would make of it is sound ({held}); --recover \
                 does it",
                path.display(),
                begun.map_or(String::new(), |at| format!(
                    " (the checkpoint that begins at block {} has no end: a cut left it so, or it is damaged; the one before serves)", at.0
                ))
            ),
            code: LEFT,
        },
    })
}
