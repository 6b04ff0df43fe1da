"""Makes the VFS `varve` known to the SQLite that Python's own `sqlite3` module uses.

    import sqlite3, varve.sqlite
    db = sqlite3.connect("file:home.varve?vfs=varve", uri=True)

A module with an SQLite of its own has to be told apart:

    varve.sqlite.register("pysqlite3")

`varve.sqlite.error()` is the store's own reason where SQLite says that it cannot open a database.

Needs neither a patched SQLite nor `enable_load_extension`. The library is looked for under the
name in the environment variable VARVE_SQLITE_LIBRARY, beside this file, and where the system looks
for libraries.
"""

import ctypes
import importlib
import os
import pathlib

__all__ = ["error", "register"]

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
    return ctypes.CDLL(path)


def _known(module):
    """Whether the module finds the VFS: it may carry an SQLite of its own."""
    try:
        module.connect("file::memory:?vfs=varve", uri=True).close()
    except module.OperationalError as error:
        return "no such vfs" not in str(error)
    return True


def _hosts(name):
    """Where the functions of a module's SQLite may be: in the module, or in the shared library."""
    inner = importlib.import_module(f"_{name}" if name == "sqlite3" else f"{name}._sqlite3")
    for place in (getattr(inner, "__file__", None), _SQLITE):
        if place:
            try:
                # The same name gives the copy that is loaded already.
                host = ctypes.CDLL(place)
                yield [ctypes.cast(getattr(host, f), ctypes.c_void_p) for f in _FUNCTIONS]
            except (OSError, AttributeError):
                pass


def register(name="sqlite3"):
    """Registers the VFS with the SQLite of a module; done for `sqlite3` by the import."""
    module = importlib.import_module(name)
    call = _library().varve_sqlite_register
    call.argtypes = [ctypes.c_void_p] * len(_FUNCTIONS)
    call.restype = ctypes.c_int
    for functions in _hosts(name):
        if call(*functions) != 0:
            raise ImportError(f"the SQLite of {name} refused the VFS varve")
        if _known(module):
            return
    raise ImportError(
        f"the module {name} has its SQLite where this cannot reach it; the FUSE mount can"
    )


def error():
    """The store's own reason for the last error in this process, or None: `sqlite3` says `unable to open database file`."""
    call = _library().varve_sqlite_error
    call.argtypes = [ctypes.c_char_p, ctypes.c_int]
    call.restype = ctypes.c_int
    text = ctypes.create_string_buffer(call(None, 0) + 1)
    call(text, len(text))
    return text.value.decode(errors="replace") or None


register()
