"""A name of a database means the file that has it: names.py FOLDER."""

import os
import shutil
import socket
import sqlite3
import sys

import varve.sqlite  # noqa: F401

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
print("done")
