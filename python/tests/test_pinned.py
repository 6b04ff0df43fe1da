"""Traces by their digests: kept, fetched, refused."""

import hashlib
import json
import os
import pathlib
import stat
import sys
import tempfile
import unittest
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import varve

try:
    import fsspec
except ImportError:
    fsspec = None

FETCHER = """#!{python}
import pathlib, shutil, sys
with open({log!r}, "a") as log: log.write(sys.argv[1] + "\\n")
shutil.copyfile(sys.argv[1].removeprefix("file://"), sys.argv[2])
"""


class Pinned(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        self.traces = self.folder / "traces"
        self.file = self.folder / "one.vtr"
        self.set(VARVE_TRACES=str(self.traces), VARVE_FETCH=None)
        varve.gen("zipf", size="16MiB", read=50, count="3k", seed=7).save(self.file)
        self.name = "sha256:" + hashlib.sha256(self.file.read_bytes()).hexdigest()

    def set(self, **names):
        for name, value in names.items():
            old = os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
            self.addCleanup(lambda name=name, old=old: os.environ.pop(name, None) if old is None else os.environ.update({name: old}))

    def fetcher(self):
        program, log = self.folder / "fetch", self.folder / "log"
        program.write_text(FETCHER.format(python=sys.executable, log=str(log)))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.set(VARVE_FETCH=str(program))
        return log

    def results(self, trace):
        runs = varve.sim(trace, set=["capacity=64MiB", "op=25%", "geometry.pages=64", "geometry.dies=1"])
        return json.loads(runs.json(deterministic=True))

    def test_what_is_kept_is_read_by_its_digest_and_gives_the_same_results(self):
        self.assertEqual(varve.keep(self.file), self.name)
        self.file.rename(self.folder / "other.vtr")
        self.assertEqual(varve.open(self.name).info()["results"]["requests"], 3000)
        by_digest, by_path = self.results(self.name), self.results(self.folder / "other.vtr")
        self.assertEqual(by_digest["results"], by_path["results"])
        # Whatever folder it lies in.
        self.assertIn(self.name, json.dumps(by_digest))
        self.assertNotIn(str(self.folder), json.dumps(by_digest))

    def test_what_cannot_be_had_is_an_error_that_says_why(self):
        with self.assertRaisesRegex(ValueError, "VARVE_TRACES"):
            varve.open(self.name)
        for wrong in ("sha256:12", self.name + "0", self.name + "@"):
            with self.assertRaisesRegex(ValueError, "expected sha256: and 64 digits"):
                varve.open(wrong)
        varve.keep(self.file)
        [kept] = self.traces.iterdir()
        kept.write_bytes(kept.read_bytes() + b"\0")
        with self.assertRaisesRegex(ValueError, "expected that of its name"):
            varve.open(self.name)
        self.set(VARVE_TRACES=None)
        with self.assertRaisesRegex(ValueError, "it is not set"):
            varve.open(self.name)

    def test_the_program_of_the_environment_fetches_once(self):
        log = self.fetcher()
        for _ in range(3):
            self.assertEqual(len(list(varve.open(f"{self.name}@file://{self.file}"))), 1)
        self.assertEqual(log.read_text(), f"file://{self.file}\n")
        # What has other bytes than it says is not kept.
        other = "sha256:" + "0" * 64
        with self.assertRaisesRegex(ValueError, "expected the one in its name"):
            varve.open(f"{other}@file://{self.file}")
        with self.assertRaisesRegex(ValueError, "fetch .*: exit status: 1"):
            varve.open(f"{other}@file:///no/such/file")
        self.assertEqual([path.name for path in self.traces.iterdir()], [self.name.removeprefix("sha256:") + ".vtr"])

    def test_a_table_of_a_scenario_names_digest_and_url(self):
        self.fetcher()
        digest = self.name.removeprefix("sha256:")
        text = f'''
            [drive]
            preset = "paper-nolog"
            scale = "1/64"
            [workload]
            fit = "wrap"
            trace = {{ sha256 = "{digest}", url = "file://{self.file}" }}
        '''
        scenario = varve.Scenario.from_toml(text)
        self.assertIn(f'"{self.name}@file://{self.file}"', scenario.to_toml())
        self.assertEqual(len(scenario.run()), 1)
        for wrong, said in ((digest, "00"), ("url", "uri")):
            with self.assertRaisesRegex(ValueError, "7: .*workload.trace"):
                varve.Scenario.from_toml(text.replace(wrong, said, 1))

    @unittest.skipUnless(fsspec is None, "fsspec is here")
    def test_without_fsspec_the_error_says_what_is_missing(self):
        with self.assertRaisesRegex(ValueError, "pip install fsspec"):
            varve.open(f"{self.name}@file://{self.file}")
        with self.assertRaisesRegex(ValueError, "pip install fsspec"):
            varve.open(f"file://{self.file}")

    @unittest.skipIf(fsspec is None, "no fsspec here")
    def test_fsspec_fetches_and_a_url_alone_is_kept(self):
        with fsspec.open("memory://traces/two.vtr", "wb") as out:
            out.write(self.file.read_bytes())
        trace = varve.open("memory://traces/two.vtr")
        self.assertEqual(trace.name, f"{self.name}@memory://traces/two.vtr")
        self.assertEqual(trace.info()["results"]["requests"], 3000)
        with self.assertRaisesRegex(ValueError, "memory://traces/none.vtr: FileNotFoundError"):
            varve.open("memory://traces/none.vtr")
        self.assertEqual([path.name for path in self.traces.iterdir()], [self.name.removeprefix("sha256:") + ".vtr"])

    @unittest.skipIf(fsspec is None, "no fsspec here")
    def test_workers_of_a_sweep_fetch_for_themselves(self):
        digest = self.name.removeprefix("sha256:")
        scenario = varve.Scenario.from_toml(f'''
            seed = [1, 2]
            [drive]
            preset = "paper-nolog"
            scale = "1/64"
            [workload]
            fit = "wrap"
            trace = {{ sha256 = "{digest}", url = "file://{self.file}" }}
            [sweep]
            buffer.policy = ["lru", "fifo"]
        ''')
        sweep, whole = varve.sweep(scenario), scenario.run().json(deterministic=True)
        elsewhere = self.folder / "elsewhere"
        self.set(VARVE_TRACES=str(elsewhere))
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            found = list(pool.map(varve.run_unit, sweep))
        self.assertEqual(sweep.merge(found).json(deterministic=True), whole)
        self.assertEqual([path.name for path in elsewhere.iterdir()], [digest + ".vtr"])


if __name__ == "__main__":
    unittest.main()
