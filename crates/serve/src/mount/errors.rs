//! What an error of the file system is called by the kernel.

use block::DeviceError;
use fuser::Errno;
use lfs::FsError;

/// The number of an error.
pub(super) fn errno(error: &FsError) -> Errno {
    match error {
        FsError::NotFound => Errno::ENOENT,
        FsError::Exists => Errno::EEXIST,
        FsError::NotDirectory => Errno::ENOTDIR,
        FsError::IsDirectory => Errno::EISDIR,
        FsError::NotEmpty => Errno::ENOTEMPTY,
        FsError::NoSpace | FsError::Device(DeviceError::NoSpace(_)) => Errno::ENOSPC,
        FsError::NameTooLong => Errno::ENAMETOOLONG,
        FsError::TooLarge => Errno::EFBIG,
        FsError::TooManyLinks => Errno::EMLINK,
        FsError::NoAttribute => Errno::ENODATA,
        FsError::Invalid(_) => Errno::EINVAL,
        FsError::ReadOnly(_) => Errno::EROFS,
        FsError::Corrupt(_) => Errno::from_i32(rustix::io::Errno::UCLEAN.raw_os_error()),
        // Who is told of `Again` could not read what he was to read first.
        FsError::NotAVolume(_) | FsError::Unsupported(_) | FsError::Again | FsError::Device(_) => {
            Errno::EIO
        }
    }
}
