"""Files that are there whole or not at all."""

import os

__all__ = ["write_whole"]


def write_whole(path: "str | os.PathLike[str]", data: bytes) -> None:
    """Writes a file under a temporary name in its folder, and renames it; the mode is that of any new file."""
    # Not before something is written: it is dear to import.
    import tempfile

    folder = os.path.dirname(os.path.abspath(path))
    number, part = tempfile.mkstemp(suffix=".part", dir=folder)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(part, 0o666 & ~mask)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise
