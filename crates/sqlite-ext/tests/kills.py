"""Programs on an image that are killed while they commit: kills.py FOLDER KILLS SEED.

Threads with connections of their own commit rows, each numbered and with changes elsewhere that belong to it,
and write down what was acknowledged. The program is killed, in its opening too, and started again: it looks
first whether the database is sound, whether each thread's rows are all there without a gap, and none is half there.
"""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time

WRITERS, KILLS_OF_AN_IMAGE = 4, 25
JOURNALS = ("DELETE", "MEMORY", "PERSIST", "WAL")
FIXED, GROWS = "&capacity=8MiB", "&limit=256MiB"
LOGS = (FIXED, GROWS, f"{FIXED}&log_grain=512", f"{FIXED}&log=1MiB", f"{FIXED}&overlay=256")


def connect(image, options):
    import varve.sqlite  # noqa: F401

    name = f"file:{image}?vfs=varve{options}"
    db = sqlite3.connect(name, uri=True, timeout=60, isolation_level=None, check_same_thread=False)
    return db


def one(db, sql):
    return db.execute(sql).fetchone()[0]


def acknowledged(image, who):
    path = f"{image}.told{who}"
    return os.path.getsize(path) if os.path.exists(path) else 0


def look(db, image):
    """Everything that was acknowledged, and of each thread at most one commit more."""
    said = one(db, "PRAGMA integrity_check")
    assert said == "ok", said
    rows = 0
    for who in range(WRITERS):
        told = acknowledged(image, who)
        count, last = db.execute("SELECT count(*), coalesce(max(n), 0) FROM t WHERE who = ?", (who,)).fetchone()
        assert count == last, f"writer {who}: {count} rows, the last is {last}"
        assert told <= count <= told + 1, f"writer {who}: {told} acknowledged, {count} found"
        # What was not acknowledged and is there counts from here on.
        with open(f"{image}.told{who}", "ab") as file:
            file.write(b"x" * (count - told))
        rows += count
    found = one(db, "SELECT v FROM c")
    assert found == rows, f"{rows} rows, counted as {found}"
    halves = one(db, "SELECT count(*) FROM a JOIN b USING (k) WHERE a.v IS NOT b.v")
    assert halves == 0, f"{halves} rows half changed"


def make(image, options, journal):
    db = connect(image, options)
    db.execute(f"PRAGMA journal_mode={journal}")
    db.executescript(
        "CREATE TABLE t(who INTEGER, n INTEGER, PRIMARY KEY(who, n));"
        "CREATE TABLE c(v INTEGER); INSERT INTO c VALUES(0); CREATE TABLE g(v BLOB);"
        "CREATE TABLE a(k INTEGER PRIMARY KEY, v BLOB); CREATE TABLE b(k INTEGER PRIMARY KEY, v BLOB);"
    )
    for table in "ab":
        db.execute(
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)"
            f"INSERT INTO {table} SELECT i, 'old' FROM n"
        )
    db.close()


def commit(image, options, journal, who, seed):
    db, rng = connect(image, options), random.Random(seed * 100 + who)
    db.execute(f"PRAGMA journal_mode={journal}")
    told = os.open(f"{image}.told{who}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    n = acknowledged(image, who)
    while True:
        n += 1
        value = rng.randbytes(rng.choice((10, 100, 900)))
        first, count = rng.randrange(1, 450), rng.choice((1, 1, 3, 40))
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO t VALUES(?, ?)", (who, n))
        for table in "ab":
            db.execute(f"UPDATE {table} SET v = ? WHERE k BETWEEN ? AND ?", (value, first, first + count - 1))
        db.execute("UPDATE c SET v = v + 1")
        if GROWS in options:
            db.execute("INSERT INTO g VALUES(randomblob(?))", (rng.choice((100, 9_000, 60_000)),))
            if rng.random() < 0.002:
                db.execute("DELETE FROM g")
        if rng.random() < 0.05:
            db.execute("ROLLBACK")
            n -= 1
            continue
        db.execute("COMMIT")
        os.write(told, b"x")


def worker(image, options, journal, seed):
    db = connect(image, options)
    # Where a log is there, whoever asks first plays it back.
    db.execute(f"PRAGMA journal_mode={journal}")
    look(db, image)
    print("sound", flush=True)
    if seed < 0:
        db.close()
        return
    for who in range(WRITERS):
        threading.Thread(target=commit, args=(image, options, journal, who, seed), daemon=True).start()
    while True:
        time.sleep(1)


def killed(image, options, journal, rng, seed):
    """One life of the program; whether it was killed in its opening."""
    process = subprocess.Popen(
        [sys.executable, __file__, "worker", image, options, journal, str(seed)], stdout=subprocess.PIPE, text=True
    )
    early = rng.random() < 0.15
    if early:
        time.sleep(0.04 + rng.random() * 0.1)
    else:
        said = process.stdout.readline()
        assert said == "sound\n", f"{journal}{options}: life {seed}: {said}"
        time.sleep(rng.random() * 0.25)
    os.kill(process.pid, signal.SIGKILL)
    ended = process.wait()
    # Killed in its opening it may have found something wrong before: that is its own end.
    assert ended == -signal.SIGKILL, f"{journal}{options}: life {seed} ended with {ended}"
    return early


def main(folder, kills, seed):
    rng, early, told, image = random.Random(seed), 0, 0, None
    for life in range(kills):
        if life % KILLS_OF_AN_IMAGE == 0:
            turn = life // KILLS_OF_AN_IMAGE + seed
            journal, options = JOURNALS[turn % len(JOURNALS)], LOGS[turn // len(JOURNALS) % len(LOGS)]
            image = f"{folder}/{seed}-{turn}.varve"
            make(image, options, journal)
        early += killed(image, options, journal, rng, life)
        if life % KILLS_OF_AN_IMAGE == KILLS_OF_AN_IMAGE - 1 or life == kills - 1:
            done = subprocess.run([sys.executable, __file__, "worker", image, options, journal, "-1"], stdout=subprocess.DEVNULL)
            assert done.returncode == 0, f"{journal}{options}: after life {life}"
            told += sum(acknowledged(image, who) for who in range(WRITERS))
    print(kills, early, told)


if sys.argv[1] == "worker":
    worker(*sys.argv[2:5], int(sys.argv[5]))
else:
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
