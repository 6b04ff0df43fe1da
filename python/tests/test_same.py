"""The package and the program say the same, byte for byte."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib
import unittest

import varve
from common import ROOT, refusal, same_version, varve as program

SMALL = """
title = "Two loads, two policies"
seed = [1, 2]
[drive]
preset = "paper-nolog"
scale = "1/64"
[workload]
gen = "zipf,size=16MiB,read=50,count=2k"
[replay]
mode = "closed"
[sweep]
buffer.policy = ["lru", "s3-fifo"]
"""


def setUpModule():
    same_version()


class Same(unittest.TestCase):
    maxDiff = 2000

    def test_run_demo(self):
        ours = varve.run("@demo")
        self.assertEqual(ours.json(deterministic=True), program("run", "@demo", "--json", "--deterministic"))
        self.assertIn("cpu_s", json.loads(ours.json())["run"])

    def test_sim(self):
        words = ("--policy", "lru,cflru(window=25 %)", "--buffer", "2M,1%", "--seed", "3", "--set", "gc.victim=fifo")
        theirs = program("sim", "@demo", *words, "--qd", "8", "--json", "--deterministic")
        ours = varve.sim(
            "@demo", policy=["lru", "cflru(window=25 %)"], buffer=["2M", "1%"], seed=3, qd=8, set={"gc.victim": "fifo"}
        )
        self.assertEqual(ours.json(deterministic=True), theirs)
        self.assertEqual(ours.csv(), program("sim", "@demo", *words, "--qd", "8", "--csv", "-"))

    def test_options(self):
        recipe = "gen:uniform,size=16MiB,read=30,count=3k"
        words = ("--ssd", "femu-default", "--fit-drive", "--seed", "1..2", "--mode", "closed", "--per-app")
        theirs = program("sim", recipe, *words, "--measure-after", "500", "--json", "--deterministic")
        ours = varve.sim(
            recipe, ssd="femu-default", scale="fit", seed=range(1, 3), mode="closed", per_app=True, measure_after=500
        )
        self.assertEqual(ours.json(deterministic=True), theirs)

    def test_hits(self):
        words = ("--policy", "lru,arc,belady", "--buffer", "8M,32M", "--curve", "1/100")
        theirs = program("sim", "@demo", "--hits", *words, "--json", "--deterministic")
        for threads in (1, 3):
            ours = varve.hits(
                "@demo", policies=["lru", "arc", "belady"], buffers=["8M", "32M"], curve="1/100", threads=threads
            )
            self.assertEqual(ours.json(deterministic=True), theirs)
        row = ours.rows()[0]
        self.assertEqual((row["policy"], row["buffer_bytes"]), ("lru", 8 << 20))
        self.assertEqual(row["hit_ratio"], row["unit_hits"] / row["unit_accesses"])
        self.assertGreater(ours.curve()[0]["miss_ratio"], ours.curve()[-1]["miss_ratio"])

    def test_trace_info(self):
        self.assertEqual(varve.open("@demo").info(), json.loads(program("trace", "info", "@demo", "--json")))

    def test_scenario(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "small.toml")
            path.write_text(SMALL)
            theirs = program("run", path, "--json", "--deterministic")
            self.assertEqual(varve.run(path).json(deterministic=True), theirs)
            scenario = varve.Scenario.load(path)
            points = json.loads(program("points", path, "--json"))["points"]
            self.assertEqual(scenario.points(), points)
            changed = program("run", path, "--set", "gc.victim=fifo", "--set", "sweep.op=7 %,28 %", "--json", "--deterministic")
        scenario["gc.victim"] = "fifo"
        again = varve.run(scenario, set={"op": ["7 %", "28 %"]})
        self.assertEqual(again.json(deterministic=True), changed)
        self.assertEqual(len(again), 8)
        self.assertEqual(varve.run(varve.Scenario.from_toml(again.scenario)).rows(), again.rows())
        # What is set for one run is not set for the next.
        self.assertEqual(len(scenario.points()), 4)

    @unittest.skipUnless(os.environ.get("VARVE_SCENARIOS") == "all", "VARVE_SCENARIOS=all runs every one of them")
    def test_bundled_scenarios_have_the_bytes_of_the_program(self):
        names = [name for name in sorted((ROOT / "scenarios").glob("*.toml")) if name.stem != "buffer-study"]
        self.assertTrue(names)
        for name in names:
            with self.subTest(name.name):
                self.assertEqual(varve.run(name).json(deterministic=True), program("run", name, "--json", "--deterministic"))

    def test_bundled_scenarios_are_understood(self):
        names = sorted((ROOT / "scenarios").glob("*.toml"))
        self.assertTrue(names)
        for name in names:
            with self.subTest(name.name):
                text = varve.Scenario.load(name).to_toml()
                again = varve.Scenario.from_toml(text).to_toml()
                # Comments say where a value was set.
                self.assertEqual(tomllib.loads(again), tomllib.loads(text))
                self.assertIn("drive", tomllib.loads(text))


class Refused(unittest.TestCase):
    def test_with_the_same_words(self):
        # No lists of names: here those of policies that other tests have added are among them.
        cases = [
            (lambda: varve.sim("@demo", policy="lru(x=1)"), ("sim", "@demo", "--policy", "lru(x=1)")),
            (lambda: varve.sim("@demo", ssd="zzz"), ("sim", "@demo", "--ssd", "zzz")),
            (lambda: varve.sim("@demo", set={"op": "x"}), ("sim", "@demo", "--set", "op=x")),
            (lambda: varve.hits("@demo", curve="x"), ("sim", "@demo", "--hits", "--curve", "x")),
            (lambda: varve.hits("@demo", mode="closed"), ("sim", "@demo", "--hits", "--mode", "closed")),
            (lambda: varve.hits("@demo", set={"remap.mode": "log"}), ("sim", "@demo", "--hits", "--set", "remap.mode=log")),
            (lambda: varve.run("nowhere.toml"), ("run", "nowhere.toml")),
            (lambda: varve.open(ROOT / "LICENSE-MIT"), ("trace", "info", ROOT / "LICENSE-MIT")),
        ]
        for ours, theirs in cases:
            with self.subTest(theirs), self.assertRaises(ValueError) as caught:
                ours()
            self.assertIn(str(caught.exception), refusal(*theirs))

    def test_files(self):
        with self.assertRaises(FileNotFoundError) as caught:
            varve.open("nowhere.csv")
        self.assertIn(str(caught.exception), refusal("trace", "info", "nowhere.csv"))

    def test_what_is_no_text(self):
        with self.assertRaises(TypeError):
            varve.sim("@demo", policy=[object()])
        with self.assertRaises(TypeError):
            varve.sim("@demo", progress=3)
        with self.assertRaisesRegex(ValueError, "threads=0"):
            varve.sim("@demo", threads=0)
        with self.assertRaisesRegex(ValueError, "expected one of scale"):
            varve.sim("@demo", depth=3)


class Locks(unittest.TestCase):
    def test_both_builds_use_the_same_libraries(self):
        def versions(path):
            found = {}
            for package in tomllib.loads((ROOT / path).read_text())["package"]:
                found.setdefault(package["name"], set()).add(package["version"])
            return found

        # A point's id is of the program's lock file: what runs here has to be what it names. What the package uses
        # beside it may be there in more versions.
        program, package = versions("Cargo.lock"), versions("crates/py/Cargo.lock")
        shared = sorted(name for name in program if name in package)
        self.assertGreater(len(shared), 50)
        self.assertEqual([name for name in shared if not program[name] & package[name]], [])
        for name in ("libm", "zstd", "flate2", "toml"):
            self.assertEqual(program[name], package[name], name)


class Checkout(unittest.TestCase):
    def test_what_needs_nothing_built_works_where_nothing_is(self):
        code = """
import varve.torture
try:
    varve.sim
except ImportError as error:
    assert "varve.sim needs the built package" in str(error), error
else:
    raise AssertionError("there is no _varve here")
"""
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, check=True)

    def test_names(self):
        self.assertIn("BufferPolicy", dir(varve))
        self.assertEqual([name for name in varve.__all__ if not hasattr(varve, name)], [])
        with self.assertRaises(AttributeError):
            varve.nothing


if __name__ == "__main__":
    unittest.main()
