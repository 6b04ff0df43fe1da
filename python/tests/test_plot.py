"""Charts: what is drawn are the numbers of the results."""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import varve
import varve.plot
from common import ROOT


def runs(**more):
    small = {"geometry.blocks": 0, "capacity": "64MiB", "geometry.channels": 2, "geometry.dies": 2, "line": "plane"}
    recipe = "gen:zipf,size=40MiB,read=50,count=20k"
    return varve.sim(recipe, ssd="mqsim-default", mode="closed", set={**small, "op": "50%"}, **more)


class Missing(unittest.TestCase):
    def test_what_is_missing_is_named(self):
        with mock.patch.dict(sys.modules, {"matplotlib": None, "matplotlib.pyplot": None}):
            with self.assertRaisesRegex(ImportError, "needs matplotlib"):
                varve.plot.style()


@unittest.skipUnless(importlib.util.find_spec("matplotlib"), "matplotlib is not installed")
class Charts(unittest.TestCase):
    def setUp(self):
        import matplotlib

        matplotlib.use("Agg")
        self.addCleanup(lambda: __import__("matplotlib.pyplot").pyplot.close("all"))

    def test_heatmap(self):
        found = varve.sim("@demo", policy="lru", buffer="8M")
        axes = varve.plot.heatmap(found, "read")
        series = found[0]["series"]
        mesh = axes.collections[0]
        shares = mesh.get_array().filled(0)
        self.assertEqual(shares.shape[1], len(series["time_ns"]))
        for at, (first, *counts) in enumerate(series["read_latency"]):
            drawn = [share for share in shares[:, at] if share]
            self.assertEqual(len(drawn), sum(1 for count in counts if count))
            self.assertAlmostEqual(sum(drawn), 1)
        edges = mesh.get_coordinates()[:, 0, 1] * 1000
        fullest = max(range(shares.shape[0]), key=lambda row: shares[row, 0])
        first, *counts = series["read_latency"][0]
        self.assertAlmostEqual(edges[fullest + 1], series["latency_edges_ns"][first + counts.index(max(counts))], places=3)
        with self.assertRaisesRegex(ValueError, "run 0 has no discard"):
            varve.plot.heatmap(found, "discard")

    def test_timeline(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/x.pftrace"
            varve.sim("@demo", policy="lru", buffer="8M", timeline="20s..20.1s", timeline_out=path)
            timeline = varve.Timeline(path)
        axes = varve.plot.timeline(timeline)
        rows = timeline.operations().rows()
        drawn = sum(len(collection.get_paths()) for collection in axes.collections)
        self.assertEqual(drawn, len(rows))
        self.assertEqual([text.get_text() for text in axes.get_yticklabels()], timeline.dies)
        causes = {row["cause"].replace("_", " ") for row in rows}
        self.assertEqual({text.get_text() for text in axes.get_legend().get_texts()}, causes)

    def test_waf_over_a_number(self):
        found = runs(policy=["lru", "fifo"], buffer=["1M", "4M"], seed=[1, 2])
        with varve.plot.style("usenix"):
            axes = varve.plot.waf(found)
        self.assertEqual(axes.get_xlabel(), "buffer.size, MiB")
        self.assertEqual({text.get_text() for text in axes.get_legend().get_texts()}, {"lru", "fifo"})
        drawn = {box.get_label(): box.lines[0].get_xydata().tolist() for box in axes.containers}
        rows = found.rows()
        for policy, points in drawn.items():
            for size, mean in points:
                of = [r["waf"] for r in rows if (r["buffer.policy"], r["buffer.size.bytes"]) == (policy, size * 2**20)]
                self.assertEqual(len(of), 2)
                self.assertAlmostEqual(mean, sum(of) / 2)
        self.assertEqual(axes.figure.get_size_inches()[0], 3.33)
        # The same of a file.
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "runs.csv")
            path.write_text(found.csv())
            again = varve.plot.waf(path)
        for one, two in zip(axes.containers, again.containers):
            self.assertEqual(one.lines[0].get_xydata().tolist(), two.lines[0].get_xydata().tolist())
        with self.assertRaisesRegex(ValueError, "x=`op.share`: expected one of buffer.size.bytes"):
            varve.plot.waf(found, x="op.share")

    def test_waf_as_bars(self):
        found = runs(policy=["lru", "fifo"], buffer="1M")
        axes = varve.plot.waf(found)
        self.assertEqual([bar.get_height() for bar in axes.patches], [row["waf"] for row in found.rows()])

    def test_latencies(self):
        found = runs(policy=["lru", "fifo"], buffer="1M")
        axes = varve.plot.latency_cdf(found)
        self.assertEqual(len(axes.lines), 2)
        latency = found[0]["latency_ns"]["read"]
        places, shares = axes.lines[0].get_data()
        self.assertAlmostEqual(shares[-1], 1)
        half = next(place for place, share in zip(places, shares) if share >= 0.5)
        self.assertAlmostEqual(half * 1000, latency["p50"])
        tail = varve.plot.latency_cdf(found, "write", tail=True)
        self.assertEqual(tail.get_yscale(), "log")
        self.assertGreater(min(tail.lines[0].get_ydata()), 0)
        with self.assertRaisesRegex(ValueError, "no run has a discard"):
            varve.plot.latency_cdf(found, "discard")

    def test_miss_ratios(self):
        found = varve.hits("@demo", policies=["lru", "arc"], buffers=["8M", "32M"], curve="exact")
        axes = varve.plot.mrc(found)
        self.assertEqual(len(axes.lines), 3)
        self.assertEqual([1 - row["hit_ratio"] for row in found.rows()[:2]], list(axes.lines[1].get_ydata()))
        # LRU lies on its curve.
        curve = dict(zip(*axes.lines[0].get_data()))
        for size, ratio in zip(*axes.lines[1].get_data()):
            self.assertAlmostEqual(curve[size], ratio)

    def test_what_was_drawn_stands_in_the_file(self):
        found = varve.hits("@demo", policies="lru", buffers="8M")
        axes = varve.plot.mrc(found)
        with tempfile.TemporaryDirectory() as folder:
            for name, begins in (("a.pdf", b"%PDF"), ("a.svg", b"<?xml"), ("a.png", b"\x89PNG")):
                path = pathlib.Path(folder, name)
                varve.plot.save(axes, path, found)
                self.assertTrue(path.read_bytes().startswith(begins))
                self.assertIn(f"varve {varve.__version__}, document sha256:".encode(), path.read_bytes())

    def test_styles(self):
        with self.assertRaisesRegex(ValueError, "style `x`: expected one of ieee-column"):
            varve.plot.style("x")

    def test_the_example(self):
        found = runs(policy=["lru", "fifo"], buffer=["1M", "4M"])
        example = ROOT / "python/examples/study_figure.py"
        self.assertLessEqual(len(example.read_text().splitlines()), 20)
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "study.csv").write_text(found.csv())
            subprocess.run([sys.executable, example, "study.csv", "study.pdf"], cwd=folder, check=True)
            self.assertTrue(pathlib.Path(folder, "study.pdf").read_bytes().startswith(b"%PDF"))


if __name__ == "__main__":
    unittest.main()
