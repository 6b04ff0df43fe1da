"""Processes that write one image in turns.

turns.py hold IMAGE: commits a row, and has the image until a line comes on stdin.
turns.py take IMAGE WHO ROUNDS: opens, commits one row and closes, again and again; prints who wrote what.
turns.py none IMAGE: has no patience; prints what it is told.
"""

import os
import sqlite3
import sys

import varve.sqlite  # noqa: F401


def connect(image, timeout):
    name = f"file:{image}?vfs=varve&capacity=4MiB"
    return sqlite3.connect(name, uri=True, isolation_level=None, timeout=timeout)


def hold(image):
    db = connect(image, 0)
    db.executescript("CREATE TABLE t(who INTEGER, n INTEGER); INSERT INTO t VALUES(-1, 0);")
    print("ready", os.getpid(), flush=True)
    sys.stdin.readline()
    db.close()


def take(image, who, rounds):
    for n in range(int(rounds)):
        db = connect(image, 120)
        db.execute("CREATE TABLE IF NOT EXISTS t(who INTEGER, n INTEGER)")
        db.execute("INSERT INTO t VALUES(?, ?)", (int(who), n))
        db.close()
        print(who, n, flush=True)


def none(image):
    db = connect(image, 0)
    for sql in ("SELECT count(*) FROM t", "INSERT INTO t VALUES(0, 0)"):
        try:
            print(db.execute(sql).fetchall())
        except sqlite3.OperationalError as error:
            print(f"{error}: {db.execute('PRAGMA varve_error').fetchone()[0]}", flush=True)
    child = os.fork()
    if child == 0:
        # Nothing of an image is inherited here; the connection is all the same.
        try:
            db.execute("SELECT count(*) FROM t")
        except sqlite3.OperationalError as error:
            print(f"{error}: {db.execute('PRAGMA varve_error').fetchone()[0]}", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    # The image is let go: the same connection works.
    sys.stdin.readline()
    print(db.execute("SELECT count(*) FROM t").fetchone()[0], flush=True)


{"hold": hold, "take": take, "none": none}[sys.argv[1]](*sys.argv[2:])
