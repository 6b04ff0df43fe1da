"""An image that grows below a program: grow.py FOLDER MIB.

It prints the bytes of the image of a database of half a MB, then threads commit until there are MIB, beside a reader in
another process. Then the same with a file system that lets files have 6 MiB: full, with a reason, nothing lost, and
going on when it lets them have more.
"""

import os
import resource
import sqlite3
import sys
import threading

import varve.sqlite  # noqa: F401

folder, mib = sys.argv[1], int(sys.argv[2])


def connect(name, more=""):
    name = f"file:{folder}/{name}?vfs=varve{more}"
    return sqlite3.connect(name, uri=True, isolation_level=None, timeout=60, check_same_thread=False)


def one(db, sql):
    return db.execute(sql).fetchone()[0]


def small():
    db = connect("small.varve")
    db.execute("CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB)")
    while one(db, "PRAGMA page_count") * 4096 < 500_000:
        db.execute("INSERT INTO t(v) VALUES(randomblob(900))")
    for _ in range(2_000):
        db.execute("UPDATE t SET v = randomblob(900) WHERE k = abs(random()) % 400")
    assert one(db, "PRAGMA integrity_check") == "ok"
    db.close()
    return os.stat(f"{folder}/small.varve")


def read(stop):
    """Another process: each look sees whole commits, each time as many or more."""
    os.close(stop[1])
    db, last, looks = connect("large.varve", "&mode=ro"), 0, 0
    os.set_blocking(stop[0], False)
    while True:
        try:
            if os.read(stop[0], 1) == b"":
                break
        except BlockingIOError:
            pass
        try:
            db.execute("BEGIN")
            rows, counted = one(db, "SELECT count(*) FROM t"), one(db, "SELECT sum(n) FROM c")
            db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            assert "locked" in str(error), f"{error}: {one(db, 'PRAGMA varve_error')}"
            if db.in_transaction:
                db.execute("ROLLBACK")
            continue
        assert rows == counted and rows >= last, (rows, counted, last)
        last, looks = rows, looks + 1
    assert looks > 0
    os._exit(0)


def large():
    stop = os.pipe()
    db = connect("large.varve")
    db.executescript("CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB); CREATE TABLE c(who INTEGER PRIMARY KEY, n INTEGER)")
    db.executemany("INSERT INTO c VALUES(?, 0)", [(who,) for who in range(4)])
    db.close()
    reader = os.fork()
    if reader == 0:
        try:
            read(stop)
        except BaseException as error:
            print(f"reader: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)
    os.close(stop[0])
    sizes, wrong = set(), []

    def commit(who):
        try:
            db = connect("large.varve")
            while one(db, "PRAGMA page_count") * 4096 < mib << 20:
                db.execute("BEGIN IMMEDIATE")
                for _ in range(8):
                    db.execute("INSERT INTO t(v) VALUES(randomblob(3000))")
                db.execute("UPDATE c SET n = n + 8 WHERE who = ?", (who,))
                db.execute("COMMIT")
                sizes.add(os.stat(f"{folder}/large.varve").st_size)
            db.close()
        except BaseException as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=commit, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(stop[1])
    assert os.waitpid(reader, 0)[1] == 0
    assert not wrong, wrong
    db = connect("large.varve")
    assert one(db, "PRAGMA integrity_check") == "ok"
    assert one(db, "SELECT count(*) FROM t") == one(db, "SELECT sum(n) FROM c")
    db.close()
    return len(sizes)


def narrow():
    db = connect("narrow.varve")
    db.execute("CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB)")
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6 << 20, most))
    done = 0
    try:
        while True:
            db.execute("INSERT INTO t(v) VALUES(randomblob(900))")
            done += 1
    except sqlite3.OperationalError as error:
        assert "full" in str(error), error
    said = one(db, "PRAGMA varve_error")
    assert "no room for the image to grow" in said, said
    assert one(db, "SELECT count(*) FROM t") == done
    db.execute("DELETE FROM t WHERE k % 2 = 0")
    db.execute("INSERT INTO t(v) VALUES(randomblob(900))")
    left = one(db, "SELECT count(*) FROM t")
    db.close()
    db = connect("narrow.varve")
    assert (one(db, "SELECT count(*) FROM t"), one(db, "PRAGMA integrity_check")) == (left, "ok")
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    for _ in range(2 * done):
        db.execute("INSERT INTO t(v) VALUES(randomblob(900))")
    assert one(db, "PRAGMA integrity_check") == "ok"
    db.close()
    return done


def refused():
    """What contradicts itself makes nothing."""
    try:
        connect("none.varve", "&capacity=8MiB&limit=4MiB").execute("CREATE TABLE t(k)")
    except sqlite3.OperationalError:
        assert not os.path.exists(f"{folder}/none.varve")
        return
    raise AssertionError("a capacity above the limit was taken")


refused()
found = small()
print(found.st_size, found.st_blocks * 512, large(), narrow())
