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

    def test_a_store_goes_on_where_it_was_left(self):
        with tempfile.TemporaryDirectory() as folder:
            store = pathlib.Path(folder, "store")
            path = pathlib.Path(folder, "study.toml")
            path.write_text(SCENARIO)
            first = varve.sweep(path, store=store)
            self.assertEqual(len(first.missing()), 6)
            results = [unit() for unit in first[:3]]
            kept = {file.name: file.stat() for file in (store / "points").iterdir()}
            self.assertEqual(sorted(kept), sorted(f"{unit.id}.json" for unit in first[:3]))
            with self.assertRaisesRegex(varve.RunError, "3 of 6 points are missing"):
                first.merge()
            self.assertEqual(len(first.merge(partial=True)), 3)
            # Another client, another day: what is there is not run again, and what was half written is.
            again = varve.sweep(path, store=store)
            self.assertEqual([unit.n for unit in again.missing()], [3, 4, 5])
            self.assertEqual([unit() for unit in again[:3]], results)
            self.assertEqual({file.name: file.stat().st_ino for file in (store / "points").iterdir()}, {n: s.st_ino for n, s in kept.items()})
            damaged = store / "points" / f"{again[1].id}.json"
            damaged.write_bytes(damaged.read_bytes()[:100])
            (store / "points" / f"{again[4].id}.json.999999999.0.part").write_text("{")
            self.assertEqual([unit.n for unit in again.missing()], [1, 3, 4, 5])
            for unit in again.missing():
                unit()
            merged = again.merge()
            self.assertEqual(merged.json(), program("run", path, "--json", "--deterministic"))
            self.assertEqual([file for file in store.rglob("*.part")], [])
            self.assertEqual(again.missing(), [])
            # It is that of the program.
            self.assertEqual(program("merge", store, "--json"), merged.json())
            self.assertIn("6 of 6 points were there", program("run", path, "--out", store, "--resume"))
            # Another value of a key: just these points.
            other = varve.sweep(path, set={"sweep.buffer.policy": "lru,arc"}, store=store)
            self.assertEqual([unit.name for unit in other.missing()], [f"buffer.policy=arc seed={seed}" for seed in (1, 2)])
        without = varve.sweep(scenario())
        for work, kind in ((without.missing, ValueError), (without.merge, TypeError)):
            with self.assertRaisesRegex(kind, "store"):
                work()

    def test_a_worker_sees_that_a_trace_was_changed(self):
        """It kept the study of the trace of before, and gave its results."""
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder, "t.vtr")
            scenario = varve.Scenario({"workload.trace": str(trace), "drive.preset": "femu-default", "drive.scale": "fit"})
            scenario.update({"replay.mode": "closed", "buffer.policy": ["lru"]})
            found = []
            for count in ("2k", "3k"):
                varve.gen("zipf", size="16MiB", count=count).save(trace)
                sweep = varve.sweep(scenario)
                found.append(sweep.merge([unit() for unit in sweep]).document()["workload"]["requests"])
            self.assertEqual(found, [2000, 3000])

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


# Points of the sweep whose client is killed; the night has more.
POINTS = int(os.environ.get("VARVE_POINTS", "18"))


def until(so):
    """Waits until something is so."""
    for _ in range(12_000):
        if so():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to that")


def ended(points):
    """Results in a store."""
    return len(list(points.glob("*.json")))


def stat(pid):
    """What the system knows of a process, behind its name; nothing if there is none, or nobody has waited for it yet."""
    try:
        words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] in "ZX" else words


def runs(pid):
    return stat(pid) is not None


def processor_time(pid):
    words = stat(pid)
    return int(words[11]) if words else -1


def children(pid):
    """Processes below one, at any depth."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and (words := stat(entry.name)):
            parents.setdefault(int(words[1]), set()).add(int(entry.name))
    found, new = set(), {pid}
    while new:
        new = set().union(*(parents.get(one, set()) for one in new)) - found
        found |= new
    return found


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
            words = [sys.executable, example, path, "store"]
            ran = subprocess.run(words, capture_output=True, text=True, cwd=folder, timeout=300)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertEqual(ran.stdout, varve.run(path).json(deterministic=True))

    def test_a_worker_is_killed_and_then_the_client(self):
        paths()
        seeds = POINTS // 6
        with tempfile.TemporaryDirectory() as folder:
            path, points = pathlib.Path(folder, "study.toml"), pathlib.Path(folder, "store/points")
            path.write_text(SCENARIO.replace("seed = [1, 2]", f'seed = ["1..{2 * seeds}"]').replace("count=2k", "count=30k"))
            words = [sys.executable, ROOT / "python/examples/dask_sweep.py", path, "store"]
            client = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
            until(lambda: ended(points) >= 2)
            workers = children(client.pid)
            victim = max(workers, key=processor_time)
            os.kill(victim, signal.SIGKILL)
            before = ended(points)
            until(lambda: ended(points) > before + 1)
            workers |= children(client.pid)
            self.assertIsNone(client.poll(), "it has ended before it could be killed")
            client.kill()
            client.wait()
            killed = time.monotonic()
            until(lambda: not any(map(runs, workers)))
            print(f"(no worker is left {time.monotonic() - killed:.1f} s after the client)", end="", file=sys.stderr)
            kept = ended(points)
            self.assertLess(kept, 6 * seeds)
            inodes = {file.name: file.stat().st_ino for file in points.glob("*.json")}
            ran = subprocess.run(words, capture_output=True, text=True, cwd=folder, timeout=3600)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertEqual(ended(points), 6 * seeds)
            for name, inode in inodes.items():
                self.assertEqual((points / name).stat().st_ino, inode, "what was there is not run again")
            self.assertEqual(ran.stdout, program("run", path, "--json", "--deterministic"))
            self.assertEqual(list(points.parent.rglob("*.part")), [], "no part stays")


if __name__ == "__main__":
    unittest.main()
