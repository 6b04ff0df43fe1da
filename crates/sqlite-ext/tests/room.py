"""A store that may take so many bytes of a file system and no more: room.py FOLDER."""

import os
import resource
import sqlite3
import sys

import varve.sqlite  # noqa: F401

MOST = 24 << 20
image = f"{sys.argv[1]}/a.varve"
# Who writes beyond it is told so, as by a file system that is full.
resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, resource.RLIM_INFINITY))


def connect():
    return sqlite3.connect(f"file:{image}?vfs=varve", uri=True, isolation_level=None)


def taken():
    return os.stat(image).st_blocks * 512


db = connect()
db.execute("CREATE TABLE t(v)")
rows = 0
while True:
    try:
        db.execute("INSERT INTO t VALUES(randomblob(8000))")
    except sqlite3.OperationalError as error:
        assert "full" in str(error), error
        said = db.execute("PRAGMA varve_error").fetchone()[0]
        assert "no room" in said or "kept for statements" in said, said
        break
    rows += 1
    assert rows < 3000, "nothing failed"
    # The next size does not fit: what it took before that was found is given back.
    assert os.path.getsize(image) < MOST - (1 << 20), (rows, os.path.getsize(image))
    assert taken() < MOST // 3 * 2, (rows, taken())
db.close()
assert taken() < MOST // 3 * 2, taken()
db = connect()
assert db.execute("SELECT count(*) FROM t").fetchone()[0] == rows
assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
# With room it grows.
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
for _ in range(rows):
    db.execute("INSERT INTO t VALUES(randomblob(8000))")
assert os.path.getsize(image) > MOST
db.close()
print("done")
