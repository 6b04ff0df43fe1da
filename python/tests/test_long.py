"""Tables over time and of distributions, and what a notebook shows."""

import html.parser
import importlib.util
import unittest

import varve

RUNS = None


def runs():
    global RUNS
    RUNS = RUNS or varve.sim("@demo", policy=["lru", "fifo"], buffer=["2M", "8M"])
    return RUNS


def needs(package):
    return unittest.skipUnless(importlib.util.find_spec(package), f"{package} is not installed")


class Parts(html.parser.HTMLParser):
    """Counts tags, and fails where one is closed that is not open."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts = [], {}, []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.texts.append(data)


class Series(unittest.TestCase):
    def test_windows_sum_to_the_run(self):
        rows = runs().series().rows()
        for at, whole in enumerate(runs().rows()):
            ours = [row for row in rows if row["run"] == at]
            document = runs()[at]
            *windows, drain = ours
            self.assertEqual([row["window"] for row in windows], list(range(len(document["series"]["waf"]))))
            self.assertEqual({row["buffer.policy"] for row in ours}, {whole["buffer.policy"]})
            self.assertEqual({row["buffer.size.bytes"] for row in ours}, {whole["buffer.size.bytes"]})
            for name in ("host.read.units", "host.write.units", "host.write.bytes"):
                self.assertEqual(sum(row[name.replace(".", "_")] for row in ours), whole[name], name)
            # The drive goes on after the last request, until all is on flash: that is the last row.
            for cause in ("host", "gc", "tx", "map", "metadata", "padding"):
                programs = sum(row[f"programs.{cause}"] for row in ours)
                self.assertEqual(programs, whole[f"nand.programs.{cause}"], cause)
            self.assertGreater(drain["programs.host"], 0)
            self.assertEqual(sum(row["gc_victims"] for row in ours), document["gc"]["victims"])
            self.assertEqual([drain[name] for name in ("window", "start_ns", "end_ns", "waf", "buffer_dirty")], [None] * 5)
            self.assertEqual([row["programs.gc"] for row in windows], document["series"]["programs"]["gc"])
            # Requests with a latency, of all kinds.
            counted = sum(kind["count"] for kind in document["latency_ns"].values() if "count" in kind)
            self.assertEqual(sum(row["requests"] for row in ours), counted)
            self.assertEqual([row["start_ns"] for row in windows][1:], [row["end_ns"] for row in windows][:-1])
            self.assertTrue(all(row["start_ns"] < row["end_ns"] for row in windows))
            self.assertEqual(windows[-1]["end_ns"], document["time_ns"])

    def test_what_there_is_not_is_not_known(self):
        table = varve.sim("gen:uniform,size=4MiB,read=0,count=2k", ssd="femu-default", scale="fit", buffer="0").series()
        self.assertTrue(len(table))
        self.assertEqual({row["buffer_hits"] for row in table.rows()}, {None})
        self.assertEqual(table.columns()["buffer_hits"], "count")
        untimed = varve.sim("gen:uniform,size=4MiB,count=2k", ssd="femu-default", scale="fit", mode="untimed").series()
        self.assertGreater(len(untimed), 2)
        self.assertEqual({row[name] for row in untimed.rows() for name in ("start_ns", "end_ns", "read_p99_ns")}, {None})


class Distributions(unittest.TestCase):
    def test_buckets_hold_all_requests(self):
        table = runs().histogram("read")
        latencies = {row["run"]: row for row in runs().latencies().rows() if row["op"] == "read"}
        for at, whole in enumerate(runs().rows()):
            ours = [row for row in table.rows() if row["run"] == at]
            self.assertEqual(sum(row["count"] for row in ours), whole["latency_ns.read.count"])
            self.assertEqual((ours[-1]["at_most"], ours[-1]["up_to_ns"]), (1.0, latencies[at]["max_ns"]))
            self.assertEqual(ours, sorted(ours, key=lambda row: row["up_to_ns"]))
            # A percentile is the edge of the bucket that reaches it.
            reached = next(row["up_to_ns"] for row in ours if row["at_most"] >= 0.99)
            self.assertEqual(reached, whole["latency_ns.read.p99"])
            self.assertEqual(latencies[at]["p99_ns"], whole["latency_ns.read.p99"])

    def test_kinds(self):
        self.assertEqual({row["op"] for row in runs().histogram().rows()}, {"read", "write", "flush"})
        self.assertEqual({row["op"] for row in runs().histogram("flush").rows()}, {"flush"})
        self.assertEqual(len(runs().histogram("discard")), 0)
        with self.assertRaisesRegex(ValueError, "`trim`: expected one of read, write, flush, discard"):
            runs().histogram("trim")


class Frames(unittest.TestCase):
    @needs("pyarrow")
    def test_types_do_not_depend_on_what_came_out(self):
        import pyarrow

        table = pyarrow.table(runs().series())
        self.assertEqual(table.to_pylist(), runs().series().rows())
        self.assertEqual(table.schema.field("gc_stall_ns").metadata, {b"unit": b"ns"})
        empty = pyarrow.table(runs().histogram("discard"))
        self.assertEqual(empty.num_rows, 0)
        full = pyarrow.table(runs().histogram("read"))
        for name in ("op", "count", "at_most", "buffer.policy", "buffer.size.bytes"):
            self.assertEqual(empty.schema.field(name).type, full.schema.field(name).type, name)
        self.assertEqual(str(pyarrow.table(runs()).schema.field("impossible").type), "string")

    @needs("polars")
    def test_polars(self):
        import polars

        series = polars.DataFrame(runs().series())
        self.assertEqual(series.group_by("buffer.policy").len().height, 2)
        self.assertTrue(series.equals(runs().series().pl()))

    @needs("pandas")
    def test_pandas(self):
        frame = runs().series().df()
        self.assertEqual(frame["programs.gc"].sum(), sum(row["programs.gc"] for row in runs().series().rows()))
        self.assertEqual(str(frame["buffer.size.bytes"].dtype), "int64")

    @needs("pyarrow")
    def test_large_numbers(self):
        import pyarrow

        table = varve.Table({"a": "count", "b": "text"}, [[2**64 - 1, "x"], [None, None]])
        self.assertEqual(pyarrow.table(table).to_pylist(), table.rows())


class Notebook(unittest.TestCase):
    def test_runs(self):
        parts = Parts(runs()._repr_html_())
        self.assertEqual((parts.tags["tr"], parts.tags["polyline"], parts.tags["rect"]), (5, 4, 4))
        self.assertNotIn("script", parts.tags)
        self.assertIn("buffer.policy", parts.texts)
        self.assertNotIn("buffer.size.bytes", parts.texts)
        self.assertNotIn("seed", parts.texts, "one seed says nothing")

    def test_long_tables_are_cut_and_say_so(self):
        parts = Parts(runs().histogram()._repr_html_())
        self.assertEqual(parts.tags["tr"], 41)
        self.assertEqual(parts.texts[-1], f"40 of {len(runs().histogram())} rows")

    def test_texts_are_escaped(self):
        parts = Parts(varve.Table({"a": "text"}, [["<script>"]])._repr_html_())
        self.assertNotIn("script", parts.tags)
        self.assertIn("<script>", parts.texts)

    def test_hits(self):
        parts = Parts(varve.hits("@demo", policies=["lru", "fifo"], buffers="2M")._repr_html_())
        self.assertEqual(parts.tags["tr"], 3)


if __name__ == "__main__":
    unittest.main()
