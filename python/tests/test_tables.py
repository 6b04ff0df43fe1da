"""Rows, and what others make of them."""

import contextlib
import csv
import importlib.util
import io
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import varve
from common import ROOT, varve as program

RUNS = None


def runs():
    global RUNS
    RUNS = RUNS or varve.sim("@demo", policy=["lru", "fifo"], buffer=["2M", "8M"])
    return RUNS


def needs(package):
    return unittest.skipUnless(importlib.util.find_spec(package), f"{package} is not installed")


class Rows(unittest.TestCase):
    def test_are_those_of_the_csv(self):
        rows = runs().rows()
        theirs = list(csv.DictReader(io.StringIO(runs().csv())))
        self.assertEqual(len(rows), len(theirs))
        for ours, text in zip(rows, theirs):
            self.assertEqual(list(ours), list(text))
            for name, value in ours.items():
                if value is None or isinstance(value, str):
                    self.assertEqual(value or "", text[name], name)
                else:
                    self.assertEqual(float(value), float(text[name]), name)
        self.assertEqual({row["buffer.policy"] for row in rows}, {"lru", "fifo"})
        self.assertEqual({row["buffer.size.bytes"] for row in rows}, {2 << 20, 8 << 20})

    def test_a_run_by_its_number(self):
        self.assertEqual(runs()[0]["params"]["buffer.policy"], "lru")
        self.assertEqual(len(runs()), 4)

    def test_what_is_missing_is_named(self):
        for method, package in (("df", "pandas"), ("pl", "polars"), ("arrow", "pyarrow")):
            with mock.patch.dict(sys.modules, {package: None}):
                with self.assertRaisesRegex(ImportError, rf"{method}\(\) needs {package}.*pip install {package}"):
                    getattr(runs(), method)()

    @needs("pandas")
    def test_pandas(self):
        frame = runs().df()
        self.assertEqual(list(frame["waf"]), [row["waf"] for row in runs().rows()])
        self.assertEqual(str(frame["buffer.size.bytes"].dtype), "int64")

    @needs("polars")
    def test_polars(self):
        frame = runs().pl()
        self.assertEqual(frame["waf"].to_list(), [row["waf"] for row in runs().rows()])
        self.assertEqual(varve.hits("@demo", policies="lru", buffers="8M").pl()["policy"].to_list(), ["lru"])

    @needs("pyarrow")
    def test_arrow(self):
        table = runs().arrow()
        self.assertEqual(table["waf"].to_pylist(), [row["waf"] for row in runs().rows()])
        self.assertEqual(table.schema.field("buffer.size.bytes").metadata, {b"unit": b"bytes"})


class Traces(unittest.TestCase):
    def test_batches(self):
        trace = varve.open("@demo")
        self.assertEqual((trace.format, trace.name), ("vtr", "@demo"))
        batches = list(trace)
        info = trace.info()["results"]
        self.assertEqual(sum(map(len, batches)), info["requests"])
        rows = [row for batch in batches for row in batch.rows()]
        self.assertEqual(sum(row["length"] for row in rows if row["op"] == "write"), info["write"]["bytes"])
        self.assertEqual(max(row["at_ns"] for row in rows) // 1000, int(info["span_ns"]) // 1000)
        self.assertEqual(rows[0], {name: batches[0].column(name)[0] for name in batches[0].columns})
        with self.assertRaises(KeyError):
            batches[0].column("zzz")

    def test_options_are_those_of_the_program(self):
        with self.assertRaisesRegex(ValueError, "no format `zzz`"):
            varve.open("@demo", format="zzz")

    @needs("pyarrow")
    def test_pyarrow_takes_it(self):
        import pyarrow

        trace = varve.open("@demo")
        table = pyarrow.table(trace)
        rows = [row for batch in trace for row in batch.rows()]
        self.assertEqual(table.to_pylist(), rows)
        self.assertEqual(pyarrow.record_batch(next(iter(trace))).to_pylist()[0], rows[0])
        # One that is left half way is closed.
        reader = pyarrow.RecordBatchReader.from_stream(trace)
        reader.read_next_batch()
        del reader

    @needs("polars")
    def test_polars_takes_it(self):
        import polars

        trace = varve.open("@demo")
        frame = polars.DataFrame(trace)
        self.assertEqual(frame["length"].sum(), sum(sum(batch.column("length")) for batch in trace))
        self.assertEqual(set(frame["op"].cast(polars.String)), {op for b in trace for op in b.column("op")})

    @needs("pandas")
    def test_pandas_takes_it(self):
        import pandas

        if not hasattr(pandas.DataFrame, "from_arrow"):
            self.skipTest("this pandas has no DataFrame.from_arrow")
        trace = varve.open("@demo")
        frame = pandas.DataFrame.from_arrow(trace)
        self.assertEqual(len(frame), sum(map(len, trace)))

    @needs("pyarrow")
    def test_an_error_half_way_reaches_the_reader(self):
        import pathlib
        import tempfile

        import pyarrow

        lines = ["0,read,0,4096"] * 70_000 + ["1,read,x,4096"]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "broken.csv")
            path.write_text("\n".join(lines) + "\n")
            trace = varve.open(path, columns="at=1:us,op=2,off=3:byte,len=4:byte", op_map="R=read")
            with self.assertRaisesRegex(Exception, ":70001:.*found `x`"):
                pyarrow.table(trace)
            with self.assertRaisesRegex(ValueError, ":70001:.*found `x`"):
                list(trace)


class Words(unittest.TestCase):
    def test_a_line_of_progress(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            varve.sim("@demo", progress=True)
        self.assertTrue(said.getvalue().endswith(" requests\n"))


class Converted(unittest.TestCase):
    @unittest.skipUnless(importlib.util.find_spec("polars"), "polars is not installed")
    def test_each_bundled_trace_is_what_the_program_converts(self):
        import polars

        names = sorted(ROOT.glob("data/*.csv.zst")) + sorted(ROOT.glob("data/*.vtr"))
        self.assertGreater(len(names), 5)
        with tempfile.TemporaryDirectory() as folder:
            for name in names:
                program("trace", "convert", name, f"{folder}/x.vtr")
                ours, theirs = (polars.DataFrame(varve.open(path)) for path in (name, f"{folder}/x.vtr"))
                self.assertGreater(ours.height, 1000)
                self.assertTrue(ours.equals(theirs), name)


class Memory(unittest.TestCase):
    def test_a_long_trace_in_batches_is_never_there_as_a_whole(self):
        # As a table ten million requests take 400 MB.
        code = """
import varve
rows = sum(len(batch) for batch in varve.gen("uniform", size="8GiB", count="10M"))
assert rows == 10_000_000, rows
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(int(peak.split()[1]) // 1024)
"""
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertLess(int(ran.stdout), 100, "MiB")


if __name__ == "__main__":
    unittest.main()
