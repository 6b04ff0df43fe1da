//! `-o ..`: what `mount` and `/etc/fstab` say about a mount.

use std::time::Duration;

use lfs::fs::{Cleaning, OPTIONS, Scj};

/// When times of access are set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Atime {
    /// If they are not newer than the last change, or older than a day.
    Relative,
    /// Never.
    Never,
}

/// How a file system is mounted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountOptions {
    /// Nothing is written, not even by recovery.
    pub read_only: bool,
    /// Times of access.
    pub atime: Atime,
    /// The kernel gathers writes in its pages.
    pub writeback: bool,
    /// Set-user and set-group bits count.
    pub suid: bool,
    /// Device files are devices.
    pub dev: bool,
    /// Files may be run.
    pub exec: bool,
    /// Other users may use it.
    pub allow_other: bool,
    /// The table of mounts says `fuse.varve`, and not just `fuse`, which some programs want.
    pub subtype: bool,
    /// A checkpoint is made so often, if there is anything to make durable.
    pub commit: Duration,
    /// What the file system does: how it cleans, and so on.
    pub fs: lfs::FsOptions,
    /// Threads that take requests.
    pub threads: usize,
    /// For tests: a request that waits for the device while it holds the volume's lock panics.
    pub strict: bool,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        MountOptions {
            read_only: false,
            atime: Atime::Relative,
            writeback: false,
            suid: true,
            dev: true,
            exec: true,
            allow_other: rustix::process::geteuid().is_root(),
            subtype: true,
            commit: Duration::from_secs(60),
            fs: lfs::FsOptions {
                cleaning: Cleaning::Scj(Scj::default()),
                ahead: AHEAD,
                ..lfs::FsOptions::default()
            },
            threads: 4,
            strict: false,
        }
    }
}

/// Victims of cleaning ahead of need that share a flush.
const AHEAD: u32 = 8;

/// What is said in `/etc/fstab` for others.
const FOR_OTHERS: [&str; 6] =
    ["defaults", "auto", "noauto", "nofail", "_netdev", "default_permissions"];

impl MountOptions {
    /// What is understood, for `--help`.
    pub const HELP: &'static str = "ro, rw, relatime, noatime, suid, nosuid, dev, nodev, exec, \
        noexec, allow_other, nosubtype (the type is plain `fuse`), writeback (the kernel gathers \
        writes), commit=SECONDS (60), discard, \
        threads=N (4; so many at most take requests), cleaning=scj|bl6|bl415, ahead=N (8; 0: requests \
        clean) and every other option of lfs (docs/stack.md)";

    /// Applies a list separated by commas.
    ///
    /// # Errors
    /// What is not understood, in words.
    pub fn apply(&mut self, list: &str) -> Result<(), String> {
        let words = || list.split(',').filter(|word| !word.is_empty());
        words().try_for_each(|word| self.one(word))?;
        // What it excludes switches the default off; who asks for both is told at the mount.
        let callers = self.fs.cleaning == Cleaning::Bl415 || self.fs.drain || self.fs.late;
        if callers && !words().any(|word| word.starts_with("ahead=")) {
            self.fs.ahead = 0;
        }
        Ok(())
    }

    fn one(&mut self, word: &str) -> Result<(), String> {
        let wrong = || format!("-o {word}: expected some of {}", MountOptions::HELP);
        let number = |text: &str, least: u64, most: u64| {
            let found = text.parse().ok().filter(|n| (least..=most).contains(n));
            found.ok_or_else(|| format!("-o {word}: expected a number from {least} to {most}"))
        };
        match word.split_once('=').unwrap_or((word, "")) {
            ("ro", "") => self.read_only = true,
            ("rw", "") => self.read_only = false,
            ("relatime" | "atime", "") => self.atime = Atime::Relative,
            ("noatime", "") => self.atime = Atime::Never,
            ("suid", "") => self.suid = true,
            ("nosuid", "") => self.suid = false,
            ("dev", "") => self.dev = true,
            ("nodev", "") => self.dev = false,
            ("exec", "") => self.exec = true,
            ("noexec", "") => self.exec = false,
            ("writeback", "") => self.writeback = true,
            ("allow_other", "") => self.allow_other = true,
            ("nosubtype", "") => self.subtype = false,
            ("discard", "") => self.fs.discard = true,
            ("nodiscard", "") => self.fs.discard = false,
            ("commit", text) => self.commit = Duration::from_secs(number(text, 1, 86_400)?),
            ("threads", text) => self.threads = number(text, 1, 256)? as usize,
            (name, text) if !text.is_empty() && OPTIONS.iter().any(|(known, _)| *known == name) => {
                self.fs.set(name, text).map_err(|error| format!("-o {word}: {error}"))?;
            }
            (word, "") if FOR_OTHERS.contains(&word) => {}
            _ => return Err(wrong()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts_and_nonsense_is_refused() {
        let mut options = MountOptions::default();
        options.apply("ro,noatime,commit=5,,rw,ahead=4,cleaning=bl415,defaults").unwrap();
        assert!(!options.read_only);
        assert_eq!((options.atime, options.commit), (Atime::Never, Duration::from_secs(5)));
        assert_eq!((options.fs.cleaning, options.fs.ahead), (Cleaning::Bl415, 4));
        options.apply("cleaning=bl415").unwrap();
        assert_eq!((options.fs.cleaning, options.fs.ahead), (Cleaning::Bl415, 0));
        for wrong in
            ["commit", "commit=0", "ro=1", "threads=x", "cleaning=", "sometimes", "ahead=17"]
        {
            assert!(MountOptions::default().apply(wrong).is_err(), "{wrong}");
        }
    }
}
