"""One COMMIT over two files of which one is an image: attach.py FOLDER.

The image would commit in its drive and the other file by a journal of its own, so a power cut between
them leaves half. It is refused before either has committed, whichever of them is the main database; what
each commits alone goes on, and is there after a power cut.
"""

import itertools
import os
import sqlite3
import sys

import varve.sqlite  # noqa: F401

folder = sys.argv[1]
ROWS = {"small": 1, "large": 600}  # the large ones outgrow what the drive keeps of a transaction


def name(kind, n, more=""):
    if kind == "stock":
        # An attached database is opened by the VFS of the main one unless it says otherwise.
        return f"file:{folder}/{n}.db?vfs=unix"
    return f"file:{folder}/{n}.varve?vfs=varve&capacity=4MiB{more}"


def connect(kinds, more=""):
    db = sqlite3.connect(name(kinds[0], 0, more), uri=True, isolation_level=None)
    db.execute("ATTACH ? AS other", (name(kinds[1], 1, more),))
    return db


def rows(kinds):
    """What the next one to come finds, one file at a time."""
    found = []
    for n, kind in enumerate(kinds):
        db = sqlite3.connect(name(kind, n), uri=True, isolation_level=None)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found.append(db.execute("SELECT count(*) FROM t").fetchone()[0])
        db.close()
    return found


def together(db, count):
    db.execute("BEGIN")
    for schema in ("main", "other"):
        for _ in range(count):
            db.execute(f"INSERT INTO {schema}.t VALUES(randomblob(900))")
    db.execute("COMMIT")


refused = alone = cuts = 0
for kinds in (("stock", "image"), ("image", "stock"), ("image", "image")):
    for mode, count in itertools.product(("DELETE", "TRUNCATE", "PERSIST"), ROWS.values()):
        db = connect(kinds)
        for schema in ("main", "other"):
            db.execute(f"PRAGMA {schema}.journal_mode={mode}")
            db.execute(f"CREATE TABLE {schema}.t(a)")
        db.close()
        before = [0, 0]
        for at in itertools.count():
            # The power goes at each write and sync of the images, one later every time.
            whole = at == 0
            db = None
            try:
                db = connect(kinds, "" if whole else f"&power_cut={at}&cut_seed={at}")
                for schema in ("main", "other"):
                    db.execute(f"PRAGMA {schema}.journal_mode={mode}")
                try:
                    together(db, count)
                    raise AssertionError(f"{kinds}: one COMMIT over both was acknowledged")
                except sqlite3.OperationalError as error:
                    if whole:
                        schema = "main" if kinds[0] == "image" else "other"
                        said = db.execute(f"PRAGMA {schema}.varve_error").fetchone()[0]
                        assert "one COMMIT cannot bind" in said, (error, said)
                        refused += 1
                    assert not db.in_transaction or not whole
                if whole:
                    for n, schema in enumerate(("main", "other")):
                        db.execute(f"INSERT INTO {schema}.t VALUES(1)")
                        before[n] += 1
                        alone += 1
            except sqlite3.OperationalError:
                pass
            if db:
                try:
                    db.close()
                except sqlite3.OperationalError:
                    pass
            cuts += not whole
            found = rows(kinds)
            assert found == before, (kinds, mode, count, at, found, before)
            if at > 40:
                break
        for n, kind in enumerate(kinds):
            for end in ("db", "varve", "db-journal"):
                if os.path.exists(f"{folder}/{n}.{end}"):
                    os.remove(f"{folder}/{n}.{end}")
print(refused, alone, cuts)
