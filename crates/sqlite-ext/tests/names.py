"""A name of a database means the file that has it: names.py FOLDER."""

import os
import shutil
import socket
import sqlite3
import subprocess
import sys

import varve.sqlite

folder = sys.argv[1]


def connect(name, more=""):
    return sqlite3.connect(f"file:{folder}/{name}?vfs=varve{more}", uri=True, isolation_level=None)


def rows(db):
    return "".join(row[0] for row in db.execute("SELECT v FROM t ORDER BY rowid"))


def made(name, text):
    db = connect(name)
    db.execute("CREATE TABLE t(v)")
    add(db, text)
    return db


def add(db, text):
    db.execute("INSERT INTO t VALUES(?)", text)


def is_refused(db):
    """It reads what it had, and writes no more."""
    before = rows(db)
    try:
        add(db, "X")
        return False
    except sqlite3.OperationalError as error:
        assert "readonly" in str(error), error
    return rows(db) == before


# Restored from a copy while it is open.
for mode in ("DELETE", "TRUNCATE", "PERSIST"):
    first = made("a.varve", "A")
    first.execute(f"PRAGMA journal_mode={mode}")
    shutil.copyfile(f"{folder}/a.varve", f"{folder}/copy.varve")
    add(first, "B")
    os.rename(f"{folder}/copy.varve", f"{folder}/a.varve")
    assert is_refused(first), mode
    second = connect("a.varve")
    assert rows(second) == "A", mode
    add(second, "D")
    third = connect("a.varve")
    assert (rows(third), rows(first)) == ("AD", "AB"), mode
    reader = connect("a.varve", "&mode=ro")
    assert rows(reader) == "AD", mode
    second.close()
    third.close()
    first.close()
    reader.close()
    again = connect("a.varve")
    assert rows(again) == "AD", mode
    assert again.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    again.close()
    os.remove(f"{folder}/a.varve")

# With a log beside each of them, which their names share: that of the old one ends with its connection, and is not the other's.
first = made("w.varve", "A")
first.execute("PRAGMA journal_mode=WAL")
first.execute("PRAGMA wal_checkpoint(TRUNCATE)")
shutil.copyfile(f"{folder}/w.varve", f"{folder}/copy.varve")
add(first, "B")
os.rename(f"{folder}/copy.varve", f"{folder}/w.varve")
second = connect("w.varve")
assert second.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
for text in "DEF":
    add(second, text)
assert (rows(first), rows(second)) == ("AB", "ADEF")
first.close()
add(second, "G")
third = connect("w.varve")
assert rows(third) == "ADEFG"
third.close()
second.close()
again = connect("w.varve")
assert rows(again) == "ADEFG"
assert again.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
again.close()

# In the middle of transactions, one of them larger than its drive keeps, so that there is a journal in the store.
for pages in (1, 3000):
    first = made("t.varve", "A")
    shutil.copyfile(f"{folder}/t.varve", f"{folder}/copy.varve")
    first.execute("BEGIN")
    first.execute("CREATE TABLE large(v)")
    for _ in range(pages):
        first.execute("INSERT INTO large VALUES(randomblob(4000))")
    os.rename(f"{folder}/t.varve", f"{folder}/away.varve")
    os.rename(f"{folder}/copy.varve", f"{folder}/t.varve")
    second = connect("t.varve")
    second.execute("BEGIN")
    add(second, "D")
    try:
        first.execute("COMMIT")
        kept = pages
    except sqlite3.OperationalError:
        kept = 0
    second.execute("COMMIT")
    first.close()
    second.close()
    second, moved = connect("t.varve"), connect("away.varve")
    assert rows(second) == "AD", pages
    there = moved.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'large'").fetchone()[0]
    found = moved.execute("SELECT count(*) FROM large").fetchone()[0] if there else 0
    assert found == kept and rows(moved) == "A", (pages, found, kept)
    for db in (second, moved):
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok", pages
        db.close()
    os.remove(f"{folder}/t.varve")
    os.remove(f"{folder}/away.varve")

# Both files of the name in turn, by one thread, each with a journal of its own.
for begun, end in ((10, "COMMIT"), (3000, "COMMIT"), (3000, "ROLLBACK")):
    first = made("t.varve", "A")
    first.execute("CREATE TABLE large(v)")
    shutil.copyfile(f"{folder}/t.varve", f"{folder}/copy.varve")
    first.execute("BEGIN")
    for _ in range(begun):
        first.execute("INSERT INTO large VALUES(randomblob(4000))")
    os.rename(f"{folder}/t.varve", f"{folder}/away.varve")
    os.rename(f"{folder}/copy.varve", f"{folder}/t.varve")
    second = connect("t.varve")
    second.execute("BEGIN")
    for _ in range(3000):
        second.execute("INSERT INTO large VALUES(randomblob(4000))")
        first.execute("INSERT INTO large VALUES(randomblob(4000))")
    second.execute("COMMIT")
    first.execute(end)
    first.close()
    second.close()
    for name, kept in (("t", 3000), ("away", begun + 3000 if end == "COMMIT" else 0)):
        db = connect(f"{name}.varve")
        assert db.execute("SELECT count(*) FROM large").fetchone()[0] == kept, (begun, end, name)
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok", (begun, end, name)
        db.close()
        os.remove(f"{folder}/{name}.varve")

# Another process that comes by the name has the file that has it, whoever has the other one.
first = made("p.varve", "A")
shutil.copyfile(f"{folder}/p.varve", f"{folder}/copy.varve")
os.rename(f"{folder}/copy.varve", f"{folder}/p.varve")
program = f"""
import sqlite3, varve.sqlite
db = sqlite3.connect("file:{folder}/p.varve?vfs=varve", uri=True, isolation_level=None)
db.execute("INSERT INTO t VALUES('O')")
"""
subprocess.run([sys.executable, "-c", program], check=True)
assert is_refused(first)
second = connect("p.varve")
assert (rows(first), rows(second)) == ("A", "AO")
first.close()
second.close()

# Removed: the name is free.
first = made("b.varve", "A")
os.remove(f"{folder}/b.varve")
assert is_refused(first)
second = made("b.varve", "N")
assert (rows(first), rows(second)) == ("A", "N")
first.close()
second.close()
assert rows(connect("b.varve")) == "N"

# Moved away: the old name is free, and the store is found by the new one when nobody has it by the old one.
first = made("c.varve", "A")
os.rename(f"{folder}/c.varve", f"{folder}/d.varve")
assert is_refused(first)
second = made("c.varve", "N")
add(second, "O")
first.close()
second.close()
assert (rows(connect("c.varve")), rows(connect("d.varve"))) == ("NO", "A")

# A reader beside another process sees the file that has the name, too.
reader = connect("c.varve", "&mode=ro")
assert rows(reader) == "NO"
shutil.copyfile(f"{folder}/d.varve", f"{folder}/e.varve")
os.rename(f"{folder}/e.varve", f"{folder}/c.varve")
assert rows(connect("c.varve", "&mode=ro")) == "A"
reader.close()

# Nothing but a file is opened, and nothing that was there goes.
os.mkfifo(f"{folder}/pipe")
listening = socket.socket(socket.AF_UNIX)
listening.bind(f"{folder}/socket")
os.mkdir(f"{folder}/inside")
os.symlink("/dev/null", f"{folder}/nothing")
before = sorted(os.listdir(folder))
for name in ("pipe", "socket", "inside", "nothing"):
    try:
        connect(name).execute("CREATE TABLE t(v)")
        raise AssertionError(f"{name} was taken for a database")
    except sqlite3.OperationalError:
        pass
assert sorted(os.listdir(folder)) == before
assert os.path.exists("/dev/null") and not os.path.isfile("/dev/null")

# An empty file is one that is meant to become a database: it stays, if it cannot.
open(f"{folder}/empty.varve", "w").close()
try:
    connect("empty.varve", "&capacity=900TiB").execute("CREATE TABLE t(v)")
    raise AssertionError("900 TiB")
except sqlite3.OperationalError:
    assert os.path.getsize(f"{folder}/empty.varve") == 0
made("empty.varve", "A").close()
assert rows(connect("empty.varve")) == "A"
# A name that cannot be opened: SQLite does not say why, the store does.
for more, why in (("", "No such file or directory"), ("&limit=1", "no drive can be made for that"), ("&delta=maybe", "expected on or off")):
    try:
        connect("none/a.varve" if not more else "none.varve", more)
        raise AssertionError(more)
    except sqlite3.OperationalError as error:
        assert "unable to open" in str(error), error
    assert why in varve.sqlite.error(), varve.sqlite.error()

print("done")
