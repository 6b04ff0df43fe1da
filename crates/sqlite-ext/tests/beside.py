"""A program that commits, and one that reads the same image from another process.

beside.py write IMAGE SECONDS: threads commit, each time to two tables and a counter; it prints the commits.
beside.py read IMAGE SECONDS: one connection, opened read-only, looks again and again; it prints how often, how many
states it saw and the longest that it waited, in milliseconds.
beside.py large IMAGE SECONDS: opens it, changes all of it in one transaction that outgrows the drive, closes it, and so on;
it prints the commits.
beside.py count IMAGE SECONDS: a connection that does not wait looks beside that; it prints how often it looked, how many states it
saw and how often it was told to try again.
beside.py half IMAGE SECONDS: is in the midst of such a transaction, says so, and stays there.
"""

import os
import random
import sqlite3
import sys
import threading
import time

import varve.sqlite  # noqa: F401

WRITERS = 2
ROWS = 700


def connect(image, more, timeout=30):
    name = f"file:{image}?vfs=varve{more}"
    return sqlite3.connect(name, uri=True, isolation_level=None, timeout=timeout, check_same_thread=False)


def write(image, seconds):
    db = connect(image, "&capacity=8MiB&log=1MiB")
    db.executescript(
        "CREATE TABLE c(v INTEGER); INSERT INTO c VALUES(0);"
        "CREATE TABLE a(k INTEGER PRIMARY KEY, v BLOB); CREATE TABLE b(k INTEGER PRIMARY KEY, v BLOB);"
    )
    for table in "ab":
        db.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)"
            f"INSERT INTO {table} SELECT i, zeroblob(200) FROM n"
        )
    print("ready", flush=True)
    end, done = time.monotonic() + seconds, []

    def commit(who):
        db, rng, count = connect(image, ""), random.Random(who), 0
        while time.monotonic() < end:
            value, first = rng.randbytes(rng.choice((20, 200))), rng.randrange(1, 480)
            db.execute("BEGIN IMMEDIATE")
            for table in "ab":
                db.execute(f"UPDATE {table} SET v = ? WHERE k BETWEEN ? AND ?", (value, first, first + rng.randrange(8)))
            db.execute("UPDATE b SET v = (SELECT v FROM a WHERE a.k = b.k) WHERE k BETWEEN ? AND ?", (first, first + 8))
            db.execute("UPDATE c SET v = v + 1")
            db.execute("COMMIT")
            count += 1
        done.append(count)
        db.close()

    threads = [threading.Thread(target=commit, args=(who,)) for who in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = db.execute("SELECT v FROM c").fetchone()[0]
    assert found == sum(done), f"{found} counted, {done} committed"
    db.close()
    print(found, flush=True)


def read(image, seconds):
    db, end = connect(image, "&mode=ro"), time.monotonic() + seconds
    last, looks, states, longest, again = 0, 0, 0, 0.0, 0
    while time.monotonic() < end:
        start = time.monotonic()
        while True:
            try:
                db.execute("BEGIN")
                v = db.execute("SELECT v FROM c").fetchone()[0]
                halves = db.execute("SELECT count(*) FROM a JOIN b USING (k) WHERE a.v IS NOT b.v").fetchone()[0]
                sound = db.execute("PRAGMA integrity_check").fetchone()[0]
                db.execute("COMMIT")
                if sound == "ok":
                    break
                # To integrity_check a page that cannot be had is damage. What is damaged stays so.
                again += 1
                assert time.monotonic() - start < 30, sound
            except sqlite3.OperationalError as error:
                # The writer has reused what was read: the statement begins anew.
                assert "locked" in str(error), f"{error}: {db.execute('PRAGMA varve_error').fetchone()}"
                assert time.monotonic() - start < 30, error
                again += 1
                if db.in_transaction:
                    db.execute("ROLLBACK")
        longest = max(longest, time.monotonic() - start)
        assert (halves, sound) == (0, "ok"), (v, halves, sound)
        assert v >= last, f"{v} after {last}"
        states += v > last
        last, looks = v, looks + 1
        time.sleep(0.01)
    try:
        db.execute("UPDATE c SET v = 0")
    except sqlite3.OperationalError as error:
        assert "readonly" in str(error), error
    else:
        raise AssertionError("a connection that was opened read-only writes")
    print(looks, states, round(longest * 1000), again, flush=True)
    os._exit(0)


def fallbacks(db):
    stats = db.execute("PRAGMA varve_stats").fetchone()[0]
    return int(stats.split("fallbacks: ")[1].split(",")[0])


def change_all(db):
    """Begins a transaction of more pages than the drive keeps, and leaves it half done in the image."""
    db.execute("PRAGMA cache_size=10")
    before = fallbacks(db)
    db.execute("BEGIN IMMEDIATE")
    db.execute("UPDATE t SET n = n + 1, v = randomblob(3000)")
    assert fallbacks(db) > before, "the transaction did not outgrow the drive: nothing is tested"


def begun(image):
    db = connect(image, "&capacity=4MiB")
    db.execute("CREATE TABLE IF NOT EXISTS t(n INTEGER, v BLOB)")
    if db.execute("SELECT count(*) FROM t").fetchone()[0] == 0:
        db.execute(
            f"WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < {ROWS})"
            "INSERT INTO t SELECT 0, randomblob(3000) FROM x"
        )
    return db


def large(image, seconds):
    begun(image).close()
    print("ready", flush=True)
    end, commits = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        db = connect(image, "")
        change_all(db)
        db.execute("COMMIT")
        db.close()
        commits += 1
    print(commits, flush=True)


def half(image, _):
    db = begun(image)
    change_all(db)
    print("half", flush=True)
    time.sleep(3600)


def count(image, seconds):
    db, end = connect(image, "&mode=ro", timeout=0), time.monotonic() + seconds
    last, looks, states, again = -1, 0, 0, 0
    while time.monotonic() < end:
        try:
            low, high, rows = db.execute("SELECT min(n), max(n), count(*) FROM t").fetchone()
        except sqlite3.OperationalError as error:
            assert "locked" in str(error), f"{error}: {db.execute('PRAGMA varve_error').fetchone()}"
            again += 1
            continue
        assert (low, rows) == (high, ROWS), f"{rows} rows of {low} to {high}"
        assert low >= last, f"{low} after {last}"
        states += low > last
        last, looks = low, looks + 1
    print(looks, states, again, flush=True)


WHAT = {"write": write, "read": read, "large": large, "half": half, "count": count}
WHAT[sys.argv[1]](sys.argv[2], float(sys.argv[3]))
