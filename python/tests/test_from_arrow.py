"""Traces out of tables of others, and out of generators."""

import datetime
import importlib.util
import os
import pathlib
import tempfile
import unittest

from common import ROOT, varve as program

import varve


def needs(package):
    return unittest.skipUnless(importlib.util.find_spec(package), f"{package} is not installed")


def rows(trace):
    return [row for batch in trace for row in batch.rows()]


COLUMNS = dict(at="ts:us", op="rw", offset="lba:sector", length="n:byte")


class Generators(unittest.TestCase):
    def test_are_those_of_the_program(self):
        trace = varve.gen("zipf", size="8MiB", read=70, count="3k", seed=7)
        self.assertEqual(trace.name, "gen:zipf,size=8MiB,read=70,count=3k,seed=7")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "zipf.vtr")
            program("trace", "gen", trace.name.removeprefix("gen:"), path)
            self.assertEqual(rows(trace), rows(varve.open(path)))
        self.assertEqual(rows(trace), rows(trace), "read anew each time")
        self.assertEqual(trace.info()["results"]["requests"], 3000)

    def test_run_on_a_drive_as_their_names_do(self):
        trace = varve.gen("uniform", size="16MiB", read=0, count="2k")
        asked = dict(ssd="femu-default", scale="fit", seed=[1, 2], policy="lru", buffer="1M")
        ours, theirs = varve.sim(trace, **asked), varve.sim(trace.name, **asked)
        self.assertEqual(ours.json(deterministic=True), theirs.json(deterministic=True))
        self.assertNotEqual(*(run["hit_ratio.total"] for run in ours.rows()))
        self.assertEqual(varve.hits(trace, policies="lru", buffers="1M").rows()[0]["policy"], "lru")

    def test_what_is_wrong_is_told(self):
        for name, fields, text in (
            ("zzz", {}, "no generator `zzz`: there are sequential"),
            ("zipf", {"siez": "1GiB"}, "siez"),
            ("zipf", {"read": 170}, "read"),
        ):
            with self.assertRaisesRegex(ValueError, text):
                varve.gen(name, **fields)


class Opened(unittest.TestCase):
    def test_options_come_with_a_trace(self):
        lines = ["0,read,0,8", "7,write,1,8"] * 4
        lines = [f"{at},{line.split(',', 1)[1]}" for at, line in enumerate(lines)]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "mine.csv")
            path.write_text("\n".join(lines) + "\n")
            trace = varve.open(path, columns="at=1:us,op=2,off=3:page,len=4:sector")
            asked = dict(ssd="femu-default", scale="fit")
            runs = varve.sim(trace, **asked)
            self.assertEqual(runs.rows()[0]["latency_ns.read.count"], 4)
            saved = trace.save(pathlib.Path(folder, "mine.vtr"))
            self.assertEqual(rows(saved), rows(trace))
            self.assertEqual(sorted(os.listdir(folder)), ["mine.csv", "mine.vtr"])
            with self.assertRaises(OSError):
                trace.save(pathlib.Path(folder, "no", "mine.vtr"))


class Tables(unittest.TestCase):
    def test_a_table_of_ours_needs_no_other_package(self):
        columns = {"ts": "count", "rw": "text", "lba": "count", "n": "count"}
        table = varve.Table(columns, [[5, "W", 8, 4096], [7, "R", 0, 512], [7, "flush", None, None]])
        trace = varve.from_arrow(table, **COLUMNS)
        found = [(row["at_ns"], row["op"], row["offset"], row["length"]) for row in rows(trace)]
        self.assertEqual(found, [(0, "write", 4096, 4096), (2000, "read", 0, 512), (2000, "flush", 0, 0)])
        with self.assertRaisesRegex(ValueError, "is in memory: expected a file.*save"):
            varve.sim(trace)

    def test_what_is_no_table(self):
        with self.assertRaisesRegex(TypeError, "a list: expected a table that can be taken as Arrow"):
            varve.from_arrow([1, 2, 3])

    def test_what_is_wrong_is_told_with_its_column_and_row(self):
        columns = {"ts": "count", "rw": "text", "lba": "count", "n": "count"}

        def refused(row, **changed):
            good = [[at, "W", 8, 512] for at in range(70_000)]
            table = varve.Table(columns, [*good, [70_000, *row], *good[-1:]] if len(row) == 3 else [*good, row])
            with self.assertRaises(ValueError) as caught:
                varve.from_arrow(table, **{**COLUMNS, **changed})
            return str(caught.exception)

        self.assertEqual(refused(["W", -1, 512]), "column `lba`, row 70000: found -512, expected an offset of at least 0")
        self.assertIn("column `rw`, row 70000: found `Q`, expected an operation", refused(["Q", 0, 512]))
        self.assertIn("column `rw`, row 70000: found nothing", refused([None, 0, 512]))
        self.assertIn("column `n`, row 70000: found nothing, expected a length", refused(["W", 0, None]))
        self.assertIn("row 70000 (at 70000000000 ps, 0 bytes from 4096 on): expected a length of at least one byte",
                      refused(["W", 8, 0]))
        self.assertIn("row 70000 (at 5000000 ps, 512 bytes from 4096 on): expected a time not before the row before's",
                      refused([5, "W", 8, 512]))
        self.assertEqual(refused(["W", 0, 1], offset="lab:sector"), "no column `lab`: the table has ts, rw, lba, n")
        self.assertEqual(refused(["W", 0, 1], at="ts"),
                         "column `ts` is Int64: expected its unit, `NAME:ns` (ps, ns, 100ns, us, ms or s)")
        self.assertIn("column `rw` is Utf8: expected an offset", refused(["W", 0, 1], offset="rw:byte"))
        self.assertIn("op_map: found `Q=1`", refused(["W", 0, 1], op_map="Q=1"))
        with self.assertRaisesRegex(ValueError, "no rows"):
            varve.from_arrow(varve.Table(columns, []), **COLUMNS)

    def test_control_c(self):
        class Stop(Exception):
            pass

        def stop(_):
            raise Stop

        table = varve.Table({"lba": "count", "n": "count"}, [[at, 1] for at in range(200_000)])
        with self.assertRaises(Stop):
            varve.from_arrow(table, at=None, op=None, offset="lba:page", length="n:page", progress=stop)

    @needs("polars")
    def test_a_trace_may_be_filtered_and_come_back(self):
        import polars

        for name in sorted(ROOT.glob("data/*.csv.zst")):
            frame = polars.DataFrame(varve.open(name))
            kept = frame.filter(polars.col("app") == frame["app"][0])
            whole = polars.DataFrame(varve.from_arrow(frame))
            self.assertTrue(whole.equals(frame), name)
            again = varve.from_arrow(kept)
            first = kept["at_ns"][0]
            self.assertEqual([row["at_ns"] + first for row in rows(again)], kept["at_ns"].to_list())
            self.assertEqual([row["response_ns"] for row in rows(again)], kept["response_ns"].to_list())

    @needs("pandas")
    def test_pandas(self):
        import pandas

        frame = pandas.DataFrame({
            "ts": pandas.to_datetime(["2026-01-01 00:00:00.010", "2026-01-01 00:00:00.012", "2026-01-01 00:00:00.015"]),
            "rw": pandas.Categorical(["R", "W", "R"]),
            "lba": [1.0, 2.0, 3.0],
            "n": [512, 512, 1024],
            "took": pandas.to_timedelta([5, None, 7], unit="us"),
            "disk": ["sda", "sdb", "sda"],
        })
        trace = varve.from_arrow(frame, **{**COLUMNS, "at": "ts"}, response="took", app="disk")
        found = rows(trace)
        self.assertEqual([row["at_ns"] for row in found], [0, 2_000_000, 5_000_000])
        self.assertEqual([row["response_ns"] for row in found], [5000, None, 7000])
        self.assertEqual([row["app"] for row in found], [0, 1, 0])
        self.assertEqual([app["name"] for app in trace.info()["results"]["apps"]], ["sda", "sdb"])
        with self.assertRaisesRegex(ValueError, "column `ts` is Timestamp.*which has a unit: expected `ts` alone"):
            varve.from_arrow(frame, **COLUMNS)
        frame.loc[1, "lba"] = 2.5
        with self.assertRaisesRegex(ValueError, "column `lba`, row 1: found 2.5, expected an offset"):
            varve.from_arrow(frame, **{**COLUMNS, "at": "ts"})

    @needs("pyarrow")
    @needs("pandas")
    def test_a_trace_comes_back_from_pandas(self):
        import pandas
        import pyarrow

        trace = varve.open("@demo")
        frame = pyarrow.table(trace).to_pandas()
        self.assertIsInstance(frame, pandas.DataFrame)
        self.assertEqual(rows(varve.from_arrow(frame)), rows(trace))
        self.assertEqual(rows(varve.from_arrow(pyarrow.table(trace))), rows(trace))

    @needs("pyarrow")
    def test_pyarrow_types_and_batches(self):
        import pyarrow

        def one(at, lba, op):
            return pyarrow.record_batch({
                "ts": pyarrow.array([datetime.datetime(2020, 1, 1, 0, 0, at)], pyarrow.timestamp("s")),
                "lba": pyarrow.array([lba], pyarrow.uint8()),
                "n": pyarrow.array([1], pyarrow.int16()),
                "op": pyarrow.array([op], pyarrow.large_string()),
            })

        batches = [one(1, 200, "0"), one(3, 7, "1")]
        reader = pyarrow.RecordBatchReader.from_batches(batches[0].schema, iter(batches))
        trace = varve.from_arrow(reader, at="ts", op="op", offset="lba:page", length="n:kib", op_map="R=0,D=1")
        found = [(row["at_ns"], row["op"], row["offset"], row["length"]) for row in rows(trace)]
        self.assertEqual(found, [(0, "read", 200 * 4096, 1024), (2 * 10**9, "discard", 7 * 4096, 1024)])
        bad = pyarrow.table({"lba": [[1]], "n": [1]})
        with self.assertRaisesRegex(ValueError, "column `lba` is List.*expected numbers, times or texts"):
            varve.from_arrow(bad, at=None, op=None, offset="lba:page", length="n:page")


if __name__ == "__main__":
    unittest.main()
