//! Why an operation is refused or fails.

use block::DeviceError;

/// A file system's typed error. After [`FsError::Device`] or [`FsError::Corrupt`] in an operation
/// that changes something the volume takes no more changes until it is mounted again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FsError {
    /// No such name, or no such inode.
    #[error("no such file or directory")]
    NotFound,
    /// The name is taken.
    #[error("the name exists")]
    Exists,
    /// A directory is needed.
    #[error("not a directory")]
    NotDirectory,
    /// A directory is not possible here.
    #[error("is a directory")]
    IsDirectory,
    /// The directory has entries.
    #[error("directory not empty")]
    NotEmpty,
    /// No blocks or no node numbers are left.
    #[error("no space left on the volume")]
    NoSpace,
    /// A name of more than 255 bytes.
    #[error("name too long")]
    NameTooLong,
    /// Beyond the largest file (3.94 TiB).
    #[error("file too large")]
    TooLarge,
    /// More names than one inode may have.
    #[error("too many links")]
    TooManyLinks,
    /// The attribute is not there.
    #[error("no such attribute")]
    NoAttribute,
    /// An argument makes no sense.
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    /// Mounted read-only, or read-only since an error.
    #[error("read-only file system: {0}")]
    ReadOnly(&'static str),
    /// The superblock has another magic number.
    #[error("no volume here: magic number {0:#010x}")]
    NotAVolume(u32),
    /// The volume asks for something that is not built.
    #[error("unsupported: {0}")]
    Unsupported(&'static str),
    /// What is on the media contradicts itself.
    #[error("corrupt: {0}")]
    Corrupt(&'static str),
    /// Nothing was changed: what it needs of the media is to be read without the volume, and then it is
    /// to be asked for again (`Fs::read_outside`).
    #[error("blocks that are not in memory are wanted first")]
    Again,
    /// The device below failed.
    #[error("device: {0}")]
    Device(#[from] DeviceError),
}
