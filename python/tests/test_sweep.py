"""Sweeps in parts: any order, any process, and a worker that is killed."""

import importlib.util
import json
import multiprocessing
import os
import pathlib
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ProcessPoolExecutor

import varve
from common import ROOT, varve as program
from policies import PyLru

SCENARIO = """
seed = [1, 2]
[drive]
preset = "paper-nolog"
scale = "1/64"
[workload]
gen = "zipf,size=16MiB,read=50,count=2k"
[sweep]
buffer.policy = ["lru", "s3-fifo", "fifo"]
"""


def scenario(count="2k"):
    return varve.Scenario.from_toml(SCENARIO.replace("count=2k", f"count={count}"))


def paths():
    """So that processes of others find what is imported here."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(pathlib.Path(__file__).parent), *sys.path])


class Parts(unittest.TestCase):
    def test_units_are_those_of_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "study.toml")
            path.write_text(SCENARIO)
            index = json.loads(program("points", path, "--json"))
            document = program("run", path, "--json", "--deterministic")
            sweep = varve.sweep(path)
            self.assertEqual([unit.id for unit in sweep], [point["id"] for point in index["points"]])
            self.assertEqual(sweep.digest, index["digest"])
            # Results of the package in a folder of the program, and the other way round.
            program("points", path, "--out", f"{folder}/store")
            files = []
            for unit in list(sweep)[:3]:
                files.append(f"{folder}/{unit.id}.json")
                pathlib.Path(files[-1]).write_bytes(unit())
            program("run", path, "--out", f"{folder}/store", "--quiet", "--shard", "0/1")
            self.assertEqual(program("merge", f"{folder}/store", *files, "--json"), document)
            theirs = [p.read_bytes() for p in pathlib.Path(folder, "store", "points").glob("*.json")]
            self.assertEqual(sweep.merge(theirs).json(deterministic=True), document)

    def test_any_order_and_more_than_once(self):
        sweep = varve.sweep(scenario())
        whole = varve.run(scenario()).json(deterministic=True)
        results = [unit() for unit in sweep]
        for seed in range(5):
            several = results + results[:2]
            random.Random(seed).shuffle(several)
            merged = sweep.merge(several)
            self.assertEqual(merged.json(deterministic=True), whole)
            self.assertEqual(merged.json(), whole)
        self.assertEqual(merged.rows(), varve.run(scenario()).rows())

    def test_units_are_small_and_travel(self):
        unit = varve.sweep(scenario())[1]
        text = pickle.dumps(unit)
        self.assertLess(len(text), 4096)
        self.assertEqual(pickle.loads(text), unit)
        self.assertEqual(pickle.loads(text)(), unit())

    def test_what_does_not_fit_is_refused(self):
        sweep = varve.sweep(scenario())
        results = [unit() for unit in sweep]
        with self.assertRaisesRegex(varve.RunError, "1 of 6 points are missing, the first is 2"):
            sweep.merge(results[:2] + results[3:])
        self.assertEqual(len(sweep.merge(results[:2], partial=True)), 2)
        self.assertIn("partial", sweep.merge(results[:2], partial=True).document())
        with self.assertRaisesRegex(ValueError, "result 1: .*damaged"):
            sweep.merge([results[0], results[1].replace(b'"seed": 2', b'"seed": 3')])
        other = varve.sweep(scenario("3k"))[0]()
        with self.assertRaisesRegex(ValueError, "not of this study"):
            sweep.merge([*results, other])
        with self.assertRaisesRegex(ValueError, "is of a sweep of varve 0.0.0"):
            varve.run_unit(varve.Unit(sweep[0].id, 0, "", sweep[0].scenario, "0.0.0"))
        with self.assertRaisesRegex(ValueError, "expected a policy"):
            varve.sweep(scenario(), set={"sweep.buffer.policy": "zzz"})

    def test_processes(self):
        paths()
        asked = scenario()
        asked["buffer.policy"] = ["lru", PyLru]
        sweep = varve.sweep(asked)
        self.assertEqual(sweep[0].policies, (PyLru,))
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            merged = sweep.merge(pool.map(varve.run_unit, sweep))
        self.assertEqual(merged.json(deterministic=True), varve.run(asked).json(deterministic=True))


@unittest.skipUnless(importlib.util.find_spec("distributed"), "distributed is not installed")
class Dask(unittest.TestCase):
    def test_a_worker_is_killed(self):
        from distributed import Client, LocalCluster

        paths()
        asked = scenario("60k")
        sweep = varve.sweep(asked)
        cluster = LocalCluster(
            n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
        )
        with cluster, Client(cluster) as client:
            before = set(client.run(os.getpid).values())
            self.assertEqual(len(before), 3)
            points = client.map(varve.run_unit, list(sweep), key=[unit.id for unit in sweep], retries=3)
            for _ in range(1000):
                busy = {worker for worker, tasks in client.processing().items() if tasks}
                if busy:
                    break
                time.sleep(0.01)
            victim = client.run(os.getpid, workers=[sorted(busy)[0]])
            os.kill(next(iter(victim.values())), signal.SIGKILL)
            results = client.gather(points)
            after = set(client.run(os.getpid).values())
        self.assertFalse(set(victim.values()) & after)
        self.assertEqual(sweep.merge(results).json(deterministic=True), varve.run(asked).json(deterministic=True))

    def test_the_example(self):
        paths()
        example = ROOT / "python/examples/dask_sweep.py"
        self.assertLessEqual(len(example.read_text().splitlines()), 25)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "study.toml")
            path.write_text(SCENARIO)
            words = [sys.executable, example, path]
            ran = subprocess.run(words, capture_output=True, text=True, cwd=folder, timeout=300)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertEqual(ran.stdout, varve.run(path).json(deterministic=True))


if __name__ == "__main__":
    unittest.main()
