"""A store that is full: full.py FOLDER CUTS.

Filled to the last page, it still answers reads and PRAGMAs on every connection, deletes, drops, vacuums and
rolls back, says why it takes no more, and takes more again when there is room. Then the same deletes with
power cuts: what is found is from before or after, whole.
"""

import os
import shutil
import sqlite3
import sys

import varve.sqlite  # noqa: F401

folder, cuts = sys.argv[1], int(sys.argv[2])
image, full = f"{folder}/a.varve", f"{folder}/full.varve"


def connect(more=""):
    name = f"file:{image}?vfs=varve&capacity=8MiB{more}"
    return sqlite3.connect(name, uri=True, isolation_level=None)


def one(db, sql):
    return db.execute(sql).fetchone()[0]


def fill(db):
    """Until SQLite says that it is full, and the store why."""
    while True:
        try:
            db.execute("BEGIN")
            for _ in range(20):
                db.execute("INSERT INTO t(v) VALUES(randomblob(900))")
            db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            assert "full" in str(error), error
            said = one(db, "PRAGMA varve_error")
            assert "the last 64 are kept for statements that free some" in said, said
            if db.in_transaction:
                db.execute("ROLLBACK")
            return


def answers(connections, rows):
    for db in connections:
        assert one(db, "SELECT count(*) FROM t") == rows
        assert one(db, "PRAGMA page_count") > 0
        assert one(db, "PRAGMA integrity_check") == "ok"


def with_power_cuts(mode, before):
    """A tenth of the rows, all over the table, goes with the power at one place after the other; the first
    places are in the opening."""
    lost = 0
    for at in range(1, cuts + 1):
        shutil.copyfile(full, image)
        db = None
        acknowledged = False
        try:
            db = connect(f"&power_cut={at * 7}&cut_seed={at}")
            assert one(db, "SELECT count(*) FROM t") == before
            db.execute("DELETE FROM t WHERE k % 10 = 0")
            acknowledged = True
        except sqlite3.OperationalError:
            lost += 1
        if db:
            try:
                db.close()
            except sqlite3.OperationalError:
                pass
        db = connect()
        assert one(db, "PRAGMA integrity_check") == "ok", (mode, at)
        gone = one(db, "SELECT count(*) FROM t WHERE k % 10 = 0") == 0
        assert gone or not acknowledged, (mode, at)
        # Whole or not at all.
        assert one(db, "SELECT count(*) FROM t") == before - gone * (before // 10), (mode, at)
        db.close()
    return lost


for mode in ("DELETE", "TRUNCATE", "PERSIST", "WAL"):
    if os.path.exists(image):
        os.remove(image)
    db = connect()
    db.execute(f"PRAGMA journal_mode={mode}")
    db.execute("CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB)")
    other = connect()
    fill(db)
    rows = one(db, "SELECT count(*) FROM t")
    answers((db, other), rows)
    db.close()
    other.close()
    shutil.copyfile(image, full)
    lost = with_power_cuts(mode, rows)
    shutil.copyfile(full, image)
    db, other = connect(), connect()
    for sql in ("INSERT INTO t(v) SELECT randomblob(900) FROM t", "CREATE TABLE u AS SELECT * FROM t"):
        try:
            db.execute(sql)
            raise AssertionError(f"a full store did: {sql}")
        except sqlite3.OperationalError as error:
            assert "full" in str(error), error
        assert one(db, "PRAGMA varve_error"), sql
        answers((db, other), rows)
    db.execute("BEGIN")
    db.execute("DELETE FROM t WHERE k % 3 = 0")
    db.execute("ROLLBACK")
    answers((db, other), rows)
    other.execute("DELETE FROM t WHERE k % 10 = 0")
    rows -= rows // 10
    answers((db, other), rows)
    db.execute("INSERT INTO t(v) VALUES(randomblob(900))")
    db.execute("DELETE FROM t WHERE k > (SELECT max(k) / 2 FROM t)")
    answers((db, other), one(other, "SELECT count(*) FROM t"))
    db.execute("BEGIN")
    db.execute("DELETE FROM t")
    answers((db,), 0)
    db.execute("ROLLBACK")
    db.execute("DELETE FROM t")
    answers((db, other), 0)
    db.execute("VACUUM")
    # And once more from the start.
    fill(db)
    other.execute("DROP TABLE t")
    db.execute("VACUUM")
    assert one(other, "PRAGMA page_count") < 4
    assert one(other, "PRAGMA integrity_check") == "ok"
    db.execute("CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB)")
    fill(other)
    answers((db, other), one(db, "SELECT count(*) FROM t"))
    db.close()
    other.close()
    print(mode, "power cuts:", lost > 0 or cuts == 0)
