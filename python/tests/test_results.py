"""Results that are kept, compared and explained: as the program does it."""

import csv
import json
import os
import pathlib
import tempfile
import unittest

import varve
from common import refusal, same_version, varve as program

RUNS = {}


def setUpModule():
    same_version()


def demo(**more):
    key = repr(more)
    if key not in RUNS:
        RUNS[key] = varve.sim("@demo", policy="lru", buffer="8M", **more)
    return RUNS[key]


class Folders(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_what_is_read_or_written_by_others_stays(self):
        """The program refuses all of these."""
        mine = self.folder / "mine"
        mine.mkdir()
        (mine / "run.toml").write_text("# by hand\n")
        with self.assertRaisesRegex(ValueError, "a file that no run wrote is there"):
            demo().save(mine)
        self.assertEqual((mine / "run.toml").read_text(), "# by hand\n")
        self.assertEqual(os.listdir(mine), ["run.toml"])
        rows = "".join(f"{128166372 + n * 10},hm,0,Write,{n * 4096},4096,100\n" for n in range(500))
        trace = self.folder / "hm_0.csv"
        trace.write_text(rows)
        with self.assertRaisesRegex(ValueError, "is the trace that is read"):
            varve.open(trace).save(trace)
        scenario = self.folder / "s.toml"
        scenario.write_text(f'[drive]\ncapacity = "32 MiB"\nop = "28 %"\n[workload]\ntrace = "{trace}"\n')
        for name in (trace, scenario):
            for asked in ({"requests_out": name}, {"timeline": "0s..1s", "timeline_out": name}):
                before = name.read_text()
                with self.subTest(asked), self.assertRaisesRegex(ValueError, "that is read, too"):
                    varve.run(scenario, **asked)
                self.assertEqual(name.read_text(), before)
        with self.assertRaisesRegex(ValueError, "is the trace that is read"):
            varve.sim(trace, set={"capacity": "32 MiB", "op": "28 %"}, requests_out=trace)

    def test_a_scenario_is_that_of_its_results(self):
        demo().save(self.folder / "kept")
        self.assertIn("seed", varve.load(self.folder / "kept" / "results.json").scenario)
        (self.folder / "kept" / "other.json").write_text(demo().json())
        with self.assertRaisesRegex(ValueError, "of a document alone"):
            varve.load(self.folder / "kept" / "other.json").scenario
        (self.folder / "kept" / "run.toml").write_text("# by hand\n")
        with self.assertRaisesRegex(ValueError, "of a document alone"):
            varve.load(self.folder / "kept").scenario

    def test_a_folder_is_that_of_the_program(self):
        runs = varve.sim("@demo", policy=["lru", "fifo"], buffer=["2M", "8M"])
        runs.save(self.folder / "ours", deterministic=True)
        asked = ("@demo", "--policy", "lru,fifo", "--buffer", "2M,8M")
        program("sim", *asked, "--out", self.folder / "theirs", "--deterministic", "--json")
        self.assertEqual(sorted(os.listdir(self.folder / "ours")), ["report.html", "results.json", "run.toml"])
        for name in ("results.json", "run.toml"):
            self.assertEqual((self.folder / "ours" / name).read_text(), (self.folder / "theirs" / name).read_text(), name)
        ours, theirs = ((self.folder / of / "report.html").read_text() for of in ("ours", "theirs"))
        self.assertEqual(ours, theirs.replace("/theirs/", "/ours/"))
        for again in (varve.load(self.folder / "ours"), varve.load(self.folder / "ours/results.json")):
            self.assertEqual(again.json(), runs.json(deterministic=True))
            self.assertEqual(again.rows(), runs.rows())
            self.assertEqual(again.scenario, runs.scenario)
            again.save(self.folder / "again")
        self.assertEqual(varve.run(self.folder / "again/run.toml").rows(), runs.rows())
        program("cite", self.folder / "ours")

    def test_costs_are_kept_unless_they_are_not_wanted(self):
        demo().save(self.folder / "with")
        self.assertIn("cpu_s", json.loads((self.folder / "with/results.json").read_text())["run"])
        self.assertNotIn("run", varve.load(self.folder / "with").document())

    def test_a_document_alone_has_no_scenario(self):
        path = self.folder / "alone.json"
        path.write_text(demo().json())
        alone = varve.load(path)
        self.assertEqual(alone.rows(), demo().rows())
        for work in (lambda: alone.scenario, lambda: alone.save(self.folder / "x")):
            with self.assertRaisesRegex(ValueError, "of a document alone"):
                work()
        self.assertFalse((self.folder / "x").exists())

    def test_a_page(self):
        demo().report(self.folder / "page.html")
        page = (self.folder / "page.html").read_text()
        self.assertIn(demo()[0]["event_hash"], page)
        self.assertEqual(os.listdir(self.folder), ["page.html"])
        with self.assertRaises(OSError):
            demo().report(self.folder / "no/page.html")

    def test_what_is_no_document_is_refused_in_the_words_of_the_program(self):
        path = self.folder / "wrong.json"
        for text in ("{}", "x", '{"schema": "varve.run/1"}', '{"schema": "varve.run/2", "results": []}'):
            path.write_text(text)
            with self.assertRaises(ValueError) as caught:
                varve.load(path)
            self.assertEqual(str(caught.exception), refusal("compare", path, path))
        with self.assertRaisesRegex(ValueError, "expected a result document"):
            varve.load(self.folder / "nothing")


class Compared(unittest.TestCase):
    def test_as_the_program_compares(self):
        one = varve.sim("@demo", policy=["lru", "fifo"], buffer="8M")
        other = varve.sim("@demo", policy=["lru", "fifo", "sieve"], buffer="8M", set={"gc.victim": "fifo"})
        found = one.compare(other)
        with tempfile.TemporaryDirectory() as folder:
            for name, of in (("one", one), ("other", other)):
                pathlib.Path(folder, name).write_text(of.json(deterministic=True))
            theirs = json.loads(program("compare", f"{folder}/one", f"{folder}/other", "--json"))
        self.assertEqual(found.differences, {of["key"]: of["values"] for of in theirs["config"]})
        self.assertIn("gc.victim", found.differences)
        self.assertEqual(found.unmatched, {"buffer.policy=sieve seed=1": [0]})
        rows = found.rows()
        self.assertEqual(len(rows), len(theirs["results"]))
        for ours, of in zip(rows, theirs["results"]):
            self.assertEqual((ours["run"], ours["metric"]), (of["run"], of["metric"]))
            self.assertEqual([ours["first"], ours["other"]], [float(value) for value in of["values"]])
            change, said = ours["other_percent"], of["change_percent"][0]
            self.assertEqual(None if change is None else f"{change:.4f}", said)

    def test_a_tolerance(self):
        fewer, more = demo(), varve.sim("@demo", policy="lru", buffer="32M")
        self.assertEqual(len(demo().compare(demo(), fail_over={"waf": 0, "nand.reads.total": 0}).differences), 0)
        with self.assertRaises(varve.ToleranceError) as caught:
            fewer.compare(more, fail_over={"hit": 1, "erases": 1000})
        self.assertRegex(str(caught.exception), r"hit: \+\d+.\d\d %, allowed 1 %")
        self.assertNotIn("erases", str(caught.exception))
        waf = next(row for row in caught.exception.comparison.rows() if row["metric"] == "waf")
        self.assertEqual((waf["first"], waf["other"]), (fewer[0].waf, more[0].waf))
        with self.assertRaisesRegex(ValueError, "no run has this metric"):
            fewer.compare(more, fail_over={"wfa": 1})
        with self.assertRaisesRegex(ValueError, "expected METRIC=PERCENT"):
            fewer.compare(more, fail_over={"waf": -1})
        with self.assertRaisesRegex(TypeError, "results to compare with"):
            fewer.compare()

    def test_several(self):
        sizes = [varve.sim("@demo", policy="lru", buffer=size) for size in ("2M", "8M", "32M")]
        found = sizes[0].compare(*sizes[1:])
        self.assertEqual([*found.columns()][2:], ["first", "other", "other_percent", "other_2", "other_2_percent"])
        waf = next(row for row in found.rows() if row["metric"] == "waf")
        self.assertEqual([waf[name] for name in ("first", "other", "other_2")], [runs[0].waf for runs in sizes])


class OneRun(unittest.TestCase):
    def test_numbers_by_name(self):
        run = demo()[0]
        self.assertEqual(run.waf, demo().rows()[0]["waf"])
        self.assertEqual({*run.latency}, {"read", "write", "flush"})
        self.assertEqual(run.latency["read"].p999, run["latency_ns"]["read"]["p999"])
        self.assertIsNone(run.latency["read"].p42)
        self.assertEqual(varve.sim("gen:uniform,size=4MiB,count=2k", ssd="femu-default", scale="fit", mode="untimed")[0].latency, {})

    def test_quantiles_are_the_percentiles(self):
        for kind in ("read", "write", "flush"):
            of = demo()[0].latency[kind]
            for share, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p999"), (0.9999, "p9999"), (1, "max")):
                self.assertEqual(demo()[0].quantile(share, kind), getattr(of, name), (kind, name))
            self.assertEqual(of.quantile(0), of["histogram"][0][0])
        self.assertIsNone(demo()[0].quantile(0.9999999))
        with self.assertRaisesRegex(ValueError, "quantile 99"):
            demo()[0].quantile(99)
        with self.assertRaisesRegex(ValueError, "expected one of read, write, flush"):
            demo()[0].quantile(0.5, "trim")


class Explained(unittest.TestCase):
    ASKED = ("sim", "@demo", "--policy", "lru", "--buffer", "8M")

    def test_causes_are_those_of_the_program(self):
        runs = demo(explain=True)
        self.assertEqual(runs.json(deterministic=True), program(*self.ASKED, "--explain", "--json", "--deterministic"))
        rows = runs.causes().rows()
        for row in rows:
            causes = [value for name, value in row.items() if name.endswith("_ns") and name != "mean_ns"]
            self.assertEqual(len(causes), 13)
            self.assertAlmostEqual(sum(causes), row["mean_ns"], places=1)
        slowest = next(row for row in rows if (row["op"], row["of"]) == ("read", "slowest"))
        self.assertEqual(slowest["mean_ns"], runs[0].latency["read"].max)
        with self.assertRaisesRegex(ValueError, "explain=True"):
            demo().causes()

    def test_the_log_is_that_of_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            theirs, ours = pathlib.Path(folder, "theirs.csv"), pathlib.Path(folder, "ours.csv")
            program(*self.ASKED, "--requests-out", theirs)
            runs = demo(requests=True, requests_out=ours)
            self.assertEqual(ours.read_bytes(), theirs.read_bytes())
            with open(theirs, newline="", encoding="utf-8") as lines:
                rows = list(csv.DictReader(lines))
        log = runs.requests()
        self.assertEqual([*log.columns()], [*rows[0]])
        self.assertEqual(len(log), 120_000)
        self.assertEqual([{name: str(value) for name, value in row.items()} for row in log.rows()], rows)
        self.assertEqual(runs.json(deterministic=True), demo().json(deterministic=True))
        reads = sorted(row["latency_ns"] for row in log.rows() if row["op"] == "read")
        self.assertAlmostEqual(reads[-1], runs[0].latency["read"].max, delta=1)

    def test_others_take_the_log_as_arrow(self):
        try:
            import polars
            import pyarrow
        except ImportError as error:
            self.skipTest(str(error))
        log = demo(requests=True).requests()
        table = log.arrow()
        self.assertEqual(table.num_rows, 120_000)
        self.assertEqual(table.schema.field("wait_gc_ns").metadata, {b"unit": b"ns"})
        self.assertEqual(table.slice(70_000, 3).to_pylist(), log.rows()[70_000:70_003])
        causes = [name for name in table.column_names if name.endswith("_ns")][2:]
        frame = polars.DataFrame(log)
        self.assertTrue((frame.select(polars.sum_horizontal(causes)).to_series() == frame["latency_ns"]).all())
        self.assertEqual(pyarrow.table(log).num_rows, 120_000)

    def test_of_one_run_only(self):
        for looks in ({"requests": True}, {"requests_out": "x.csv"}, {"timeline": "0s..1s", "timeline_out": "x.pftrace"}):
            with self.assertRaisesRegex(ValueError, "of one run, and this is 2"):
                varve.sim("@demo", policy=["lru", "fifo"], buffer="8M", **looks)
        with self.assertRaisesRegex(ValueError, "not asked for"):
            demo().requests()
        with self.assertRaisesRegex(ValueError, "expected a name that ends in .csv"):
            demo(requests_out="x.parquet")
        with self.assertRaisesRegex(ValueError, "expected both"):
            demo(timeline="0s..1s")

    def test_a_file_that_cannot_be_written_costs_no_results(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "beyond.pftrace")
            with self.assertRaisesRegex(varve.UnwrittenError, "nothing happens from 9000 s") as caught:
                demo(timeline="9000s..9001s", timeline_out=path)
            self.assertEqual(caught.exception.results[0].waf, demo()[0].waf)
            self.assertFalse(path.exists())
            with self.assertRaises(OSError):
                demo(timeline="0s..1s", timeline_out=path / "no")


class Timelines(unittest.TestCase):
    def test_as_the_program_writes_them(self):
        with tempfile.TemporaryDirectory() as folder:
            theirs, ours = f"{folder}/theirs.pftrace", f"{folder}/ours.pftrace"
            program(*Explained.ASKED, "--timeline", "20s..20.5s", "--timeline-out", theirs)
            runs = demo(timeline="20s..20.5s", timeline_out=ours, requests=True)
            self.assertEqual(pathlib.Path(ours).read_bytes(), pathlib.Path(theirs).read_bytes())
            timeline = varve.Timeline(ours)
            with self.assertRaisesRegex(ValueError, "expected both"):
                varve.sim("@demo", timeline_out=ours)
            pathlib.Path(theirs).write_bytes(b"\xff" * 20)
            with self.assertRaisesRegex(ValueError, "theirs.pftrace: "):
                varve.Timeline(theirs)
        operations = timeline.operations().rows()
        self.assertGreater(len(operations), 1000)
        for die in range(len(timeline.dies)):
            of = [row for row in operations if row["die"] == die]
            for before, after in zip(of, of[1:]):
                self.assertLessEqual(before["end_ns"], after["start_ns"])
        # A request of the window has in the log the same latency and causes.
        log = {row["request"]: row for row in runs.requests().rows()}
        requests = timeline.requests().rows()
        self.assertGreater(len(requests), 100)
        for row in requests:
            of = log[row["request"]]
            names = [name for name in of if name.endswith("_ns") and name != "arrival_ns"]
            self.assertEqual([row[name] for name in names], [of[name] for name in names])
        slow = max(requests, key=lambda row: row["latency_ns"])
        stood = timeline.waited_for(slow["request"]).rows()
        self.assertGreater(len(stood), 0)
        self.assertLessEqual({row["end_ns"] <= slow["end_ns"] for row in stood}, {True})
        with self.assertRaisesRegex(ValueError, "request 0: not one"):
            timeline.waited_for(0)
        self.assertTrue(all(0 <= row["valid"] for row in timeline.cleaning().rows()))
        self.assertEqual({row["name"] for row in timeline.levels().rows()}, {"free blocks", "dirty pages in the buffer"})


if __name__ == "__main__":
    unittest.main()
