"""One round of forks around an image: fork.py IMAGE SEED.

The parent holds a connection and commits in four threads while it forks four workers. Each opens its
own connection and is to commit 100 rows; two of them first use the parent's by mistake. Whoever is
told that a row is committed writes that down. In even rounds the parent goes on until the workers
have ended, in odd ones it lets go of the image after the forks.
"""

import ctypes
import os
import random
import signal
import sqlite3
import sys
import threading
import time

WORKERS, ROWS = 4, 100

# SQLite has locks of its own, which a thread may hold at a fork. The one that guards its count of
# memory is by far the busiest, and can be done without.
library = ctypes.CDLL("libsqlite3.so.0")
library.sqlite3_shutdown()
assert library.sqlite3_config(9, 0) == 0

import varve.sqlite  # noqa: E402, F401

image, seed = sys.argv[1], int(sys.argv[2])
keeps = seed % 2 == 0
rng = random.Random(seed)


def connect(more="", timeout=10):
    name = f"file:{image}?vfs=varve{more}"
    return sqlite3.connect(
        name, uri=True, isolation_level=None, timeout=timeout, check_same_thread=False
    )


def is_busy(error):
    return "locked" in str(error)


def insert(db, who, n):
    db.execute("INSERT INTO t VALUES(?, ?)", (who, n))


def by_mistake(db, who, told):
    """A connection of the process this one was forked from: nothing works, nothing hangs."""
    for sql in ("INSERT INTO t VALUES(%d, -1)" % who, "SELECT count(*) FROM t WHERE n = -7"):
        try:
            db.execute(sql).fetchall()
        except sqlite3.OperationalError as error:
            assert "disk I/O error" in str(error), error
        else:
            told(f"{who} -1")
            raise AssertionError(f"an inherited connection did: {sql}")
    said = db.execute("PRAGMA varve_error").fetchone()[0]
    assert "a connection is not carried across fork" in said, said


def worker(i, held, log):
    signal.alarm(120)
    who = 100 + i

    def told(line):
        os.write(log, f"{line}\n".encode())

    if i < 2:
        by_mistake(held, who, told)
    if i == 1:
        held.close()
    n, busy, db = 0, 0, None
    while n < ROWS and not (keeps and busy >= 3):
        try:
            # Where the parent keeps the image, there is nothing to wait for.
            db = db or connect(timeout=0.1 if keeps else 10)
            insert(db, who, n)
            told(f"{who} {n}")
            n += 1
        except sqlite3.OperationalError as error:
            assert is_busy(error), error
            busy += 1
            db = None
            time.sleep(0.01)
            continue
        if n == 50 and i == 3:
            child = os.fork()
            if child == 0:
                by_mistake(db, who, told)
                try:
                    connect(timeout=0.1).execute("SELECT * FROM t")
                except sqlite3.OperationalError as error:
                    assert is_busy(error), error
                    os._exit(0)
                raise AssertionError("two processes have the image")
            assert os.waitpid(child, 0)[1] == 0
        if n == 50:
            db.close()
            db = None
    told(f"busy {busy}")
    if db:
        db.close()


held = connect("&capacity=4MiB")
held.execute("CREATE TABLE t(who INTEGER, n INTEGER, PRIMARY KEY(who, n))")
acknowledged, stop = [], threading.Event()


def commit(who):
    db, n = connect(), 0
    while not stop.is_set():
        try:
            insert(db, who, n)
            acknowledged.append((who, n))
        except sqlite3.OperationalError as error:
            assert is_busy(error), error
        n += 1
        time.sleep(0.0005)
    db.close()


threads = [threading.Thread(target=commit, args=(who,)) for who in range(4)]
for thread in threads:
    thread.start()
workers = []
for i in range(WORKERS):
    time.sleep(rng.random() * 0.03)
    log = os.open(f"{image}.log{i}", os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
    process = os.fork()
    if process == 0:
        try:
            worker(i, held, log)
        except BaseException as error:
            print(f"worker {i}: {error!r}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    workers.append((process, log))


def let_go():
    stop.set()
    for thread in threads:
        thread.join()
    held.close()


if not keeps:
    let_go()
failed = [i for i, (process, _) in enumerate(workers) if os.waitpid(process, 0)[1] != 0]
if keeps:
    let_go()
busy = 0
for i, (_, log) in enumerate(workers):
    lines = os.pread(log, 1 << 20, 0).decode().split("\n")
    rows = [tuple(map(int, line.split())) for line in lines if line and line[0] != "b"]
    acknowledged += rows
    busy += sum(int(line.split()[1]) for line in lines if line.startswith("busy"))
    if i not in failed:
        assert len(rows) == (0 if keeps else ROWS), (i, len(rows))
found = set(connect().execute("SELECT who, n FROM t"))
lost = sorted(set(acknowledged) - found)
assert not lost, f"{len(lost)} of {len(acknowledged)} acknowledged rows lost: {lost[:9]}"
assert not failed, f"workers {failed} failed or hung"
assert busy or not keeps, "nobody was told that the image is in use"
print(len(acknowledged), busy)
