"""What large statements take of memory: memory.py IMAGE MIB. Prints the most that the process had, in KiB, before and
after a sort, a VACUUM and a large transaction in each journal mode."""

import resource
import sqlite3
import sys

import varve.sqlite  # noqa: F401

image, mib = sys.argv[1], int(sys.argv[2])
db = sqlite3.connect(f"file:{image}?vfs=varve&capacity={4 * mib}MiB", uri=True, isolation_level=None)


def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


db.execute("CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB)")
for _ in range(mib):
    db.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1024) INSERT INTO t(v) SELECT randomblob(1000) FROM n")
print("filled", most(), flush=True)
db.execute("SELECT count(*) FROM (SELECT v FROM t ORDER BY v LIMIT -1 OFFSET 1)").fetchone()
print("sorted", most(), flush=True)
db.execute("VACUUM")
print("vacuum", most(), flush=True)
for mode in ("DELETE", "TRUNCATE", "PERSIST", "MEMORY", "WAL"):
    assert db.execute(f"PRAGMA journal_mode={mode}").fetchone()[0] == mode.lower(), mode
    db.execute("BEGIN")
    db.execute("UPDATE t SET v = randomblob(1000)")
    db.execute("ROLLBACK")
    db.execute("UPDATE t SET v = randomblob(1000)")
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok", mode
    print(mode, most(), flush=True)
