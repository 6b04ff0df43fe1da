//! File systems that a program is tried on: what makes, mounts and checks them.

use std::fmt;
use std::str::FromStr;

/// File systems.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// F2FS, of the kernel.
    F2fs,
    /// Ours.
    Lfs,
    /// What POSIX promises, and nothing else.
    Strict,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 6] =
        [Kind::Ext4, Kind::Xfs, Kind::Btrfs, Kind::F2fs, Kind::Lfs, Kind::Strict];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ext4 => "ext4",
            Kind::Xfs => "xfs",
            Kind::Btrfs => "btrfs",
            Kind::F2fs => "f2fs",
            Kind::Lfs => "lfs",
            Kind::Strict => "strict",
        }
    }

    /// Bytes of a drive, if nobody says: what the file system asks for at least, and some.
    pub fn size(self) -> u64 {
        match self {
            Kind::Ext4 => 64 << 20,
            Kind::Lfs => 96 << 20,
            Kind::F2fs => 128 << 20,
            Kind::Btrfs => 160 << 20,
            Kind::Strict => 256 << 20,
            Kind::Xfs => 320 << 20,
        }
    }

    /// What makes one, with its options; `None`: we do it ourselves.
    pub(crate) fn maker(self) -> Option<&'static [&'static str]> {
        match self {
            Kind::Ext4 => Some(&[
                "mkfs.ext4",
                "-q",
                "-F",
                "-b",
                "4096",
                "-E",
                "lazy_itable_init=1,lazy_journal_init=1,nodiscard",
                "-J",
                "size=4",
            ]),
            Kind::Xfs => Some(&["mkfs.xfs", "-q", "-f", "-K", "-s", "size=4096"]),
            Kind::Btrfs => Some(&["mkfs.btrfs", "-q", "-f", "-K"]),
            Kind::F2fs => Some(&["mkfs.f2fs", "-q", "-f", "-t", "0"]),
            Kind::Lfs | Kind::Strict => None,
        }
    }

    /// Bytes that it counts on a drive to leave whole when the power goes: of less, states that do not mount are its own
    /// affair.
    pub fn whole(self) -> u64 {
        match self {
            // It seals what a drive of 512 bytes may tear.
            Kind::Lfs => 512,
            Kind::Ext4 | Kind::Xfs | Kind::Btrfs | Kind::F2fs | Kind::Strict => 4096,
        }
    }

    /// It is one of this kernel, on a loop device.
    pub fn is_of_kernel(self) -> bool {
        self.maker().is_some()
    }

    /// What checks one that is not mounted, and changes nothing.
    pub(crate) fn checker(self) -> &'static [&'static str] {
        match self {
            Kind::Ext4 => &["e2fsck", "-f", "-n"],
            Kind::Xfs => &["xfs_repair", "-n"],
            Kind::Btrfs => &["btrfs", "check", "--readonly"],
            Kind::F2fs => &["fsck.f2fs", "--dry-run"],
            Kind::Lfs => &["fsck"],
            Kind::Strict => &[],
        }
    }

    /// Why states of one run are not looked at side by side; nothing if they are.
    pub fn why_alone(self) -> Option<&'static str> {
        // States of one run have one name; to mount two of a name came with this feature.
        let side_by_side = || std::path::Path::new("/sys/fs/btrfs/features/temp_fsid").exists();
        (self == Kind::Btrfs && !side_by_side())
            .then_some("this kernel mounts one Btrfs of a name at a time (6.7 does more)")
    }

    /// Options of every mount.
    pub(crate) fn always(self) -> &'static str {
        match self {
            // States of one run have one name, and some are mounted side by side.
            Kind::Xfs => "nouuid",
            _ => "",
        }
    }

    /// Why it cannot be used here; nothing if it can.
    pub fn why_not(self) -> Option<String> {
        let open = |path: &str| {
            let file = std::fs::OpenOptions::new().read(true).write(true).open(path);
            file.err().map(|error| format!("{path}: {error}"))
        };
        if let Some(why) = open("/dev/fuse") {
            return Some(why);
        }
        let maker = self.maker()?;
        if !rustix::process::geteuid().is_root() {
            return Some(format!("{self}: mounting it needs root; --fs lfs does not"));
        }
        if let Some(why) = open("/dev/loop-control") {
            return Some(why);
        }
        let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        if !known.split_whitespace().any(|word| word == self.name()) {
            return Some(format!("this kernel has no {self}"));
        }
        let there = std::env::split_paths(&search_path()).any(|dir| dir.join(maker[0]).exists());
        (!there).then(|| format!("{}: there is no such program here", maker[0]))
    }
}

/// Where programs of the system are: the path of a user's shell often lacks some of it.
pub fn search_path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;
    fn from_str(text: &str) -> Result<Kind, String> {
        let found = Kind::ALL.into_iter().find(|kind| kind.name() == text);
        let names = Kind::ALL.map(Kind::name).join(", ");
        found.ok_or_else(|| format!("`{text}`: expected one of {names}"))
    }
}
