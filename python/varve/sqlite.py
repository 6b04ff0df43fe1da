"""Makes the VFS `varve` known to the SQLite that Python's own `sqlite3` module uses.

    import sqlite3, varve.sqlite
    db = sqlite3.connect("file:home.varve?vfs=varve", uri=True)

Needs neither a patched SQLite nor `enable_load_extension`. The library is looked for under the
name in the environment variable VARVE_SQLITE_LIBRARY, beside this file, and where the system looks
for libraries.
"""

import ctypes
import os
import pathlib
import sqlite3

__all__ = ["register"]

_LIBRARY = "libvarve_sqlite.so"
_SQLITE = "libsqlite3.so.0"
_FUNCTIONS = (
    "sqlite3_vfs_find",
    "sqlite3_vfs_register",
    "sqlite3_uri_parameter",
    "sqlite3_malloc",
    "sqlite3_log",
)


def _library():
    named = os.environ.get("VARVE_SQLITE_LIBRARY")
    beside = pathlib.Path(__file__).with_name(_LIBRARY)
    path = named or (str(beside) if beside.exists() else _LIBRARY)
    return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)


def _known():
    """Whether Python's module finds the VFS: it may carry an SQLite of its own."""
    try:
        sqlite3.connect("file::memory:?vfs=varve", uri=True).close()
    except sqlite3.OperationalError as error:
        return "no such vfs" not in str(error)
    return True


def register():
    """Registers the VFS; done once by the import."""
    # The same name gives the copy that is loaded already.
    host = ctypes.CDLL(_SQLITE)
    functions = [ctypes.cast(getattr(host, name), ctypes.c_void_p) for name in _FUNCTIONS]
    call = _library().varve_sqlite_register
    call.argtypes = [ctypes.c_void_p] * len(_FUNCTIONS)
    call.restype = ctypes.c_int
    if call(*functions) != 0:
        raise ImportError("SQLite refused the VFS varve")
    if not _known():
        raise ImportError(
            f"Python's sqlite3 module does not use {_SQLITE}, so this cannot reach it; "
            "the FUSE mount can"
        )


register()
