"""Policies that are compiled: the same as those of the drive, as cheap, and what comes of wrong ones."""

import importlib.util
import os
import pathlib
import pickle
import sys
import unittest
from unittest import mock

import varve
from test_policies import COUNTS, MIXED

HERE = importlib.util.find_spec("numba")
if HERE:
    import compiled


class Missing(unittest.TestCase):
    def test_what_is_missing_is_named(self):
        @varve.compiled_policy(row=[("hit", "i1")])
        class Some:
            def victim(rows):
                return 0

        with mock.patch.dict(sys.modules, {"numba": None}):
            with self.assertRaisesRegex(ImportError, "compiled_policy needs numba"):
                varve.hits("@demo", policies=Some, buffers="8M")

    def test_what_is_no_policy(self):
        made = varve.compiled_policy(row=[("hit", "i1")])
        with self.assertRaisesRegex(TypeError, "Nothing has no function victim"):
            made(type("Nothing", (), {}))
        with self.assertRaisesRegex(TypeError, "expected some of the functions start, hit, victim"):
            made(type("Other", (), {"victim": lambda rows: 0, "evict": lambda rows: 0}))


@unittest.skipUnless(HERE, "numba is not installed")
class SameAsNative(unittest.TestCase):
    def test_counts_and_the_drive(self):
        for native, ours in (("lru", compiled.NumbaLru), ("clock", compiled.NumbaClock)):
            with self.subTest(native):
                found = varve.hits("@demo", policies=[native, ours], buffers=["8M", "32M"]).rows()
                for theirs, mine in zip(found[:2], found[2:]):
                    self.assertEqual([theirs[name] for name in COUNTS], [mine[name] for name in COUNTS])
                runs = varve.sim("@demo", policy=[native, ours], buffer="8M")
                self.assertEqual(runs[0]["event_hash"], runs[1]["event_hash"])
                self.assertRegex(runs.document()["version"], f"python.numba-{native}.")

    def test_in_lockstep(self):
        found = varve.twin(compiled.NumbaLru, of="lru", accesses=300_000)
        self.assertTrue(found, found)
        found = varve.twin(compiled.NumbaClock, of="clock", accesses=300_000, discards=False)
        self.assertTrue(found, found)
        self.assertFalse(varve.twin(compiled.NumbaClock, of="lru"))

    def test_it_repeats_elsewhere_too(self):
        os.environ["PYTHONPATH"] = os.pathsep.join([str(pathlib.Path(__file__).parent), *sys.path])
        self.assertEqual(len(varve.check(compiled.NumbaClock, buffer="2M")), 64)
        self.assertIs(pickle.loads(pickle.dumps(compiled.NumbaLru)), compiled.NumbaLru)

    def test_it_is_told_of_every_page_by_its_row(self):
        for work in (varve.hits(MIXED, policies=compiled.Told, buffers="1M", ssd="paper-nolog", scale="fit"),):
            self.assertGreater(work.rows()[0]["unit_hits"], 100)
        runs = varve.sim(MIXED, policy=compiled.Told, buffer="1M", seed=[1, 2], ssd="paper-nolog", scale="fit")
        self.assertEqual(len(runs), 2)
        self.assertIsNotNone(varve.twin(compiled.Told, of=compiled.Told, accesses=50_000))


@unittest.skipUnless(HERE, "numba is not installed")
class Wrong(unittest.TestCase):
    def test_it_ends_the_run(self):
        for policy, text in (
            (compiled.Beyond, "`victim` raised an exception in its compiled code"),
            (compiled.Empty, "`victim` answered 256, a row that has no page"),
            (compiled.Below, "`victim` answered -2, a row that has no page"),
            (compiled.Raises, "`hit` raised an exception in its compiled code"),
        ):
            more = {"ssd": "paper-nolog", "scale": "fit"}
            for work in (
                lambda: varve.hits(MIXED, policies=["lru", policy], buffers="1M", **more),
                lambda: varve.sim(MIXED, policy=["lru", policy], buffer="1M", seed=[1, 2], **more),
            ):
                with self.assertRaisesRegex(varve.PolicyError, r"access \d+ \(page \d+\): " + text):
                    work()

    def test_parameters(self):
        @varve.compiled_policy(row=[("hit", "i1")])
        class Odd:
            def victim(self, rows):
                return 0

        with self.assertRaisesRegex(TypeError, r"victim\(.. self ..\): expected some of the parameters head, rows"):
            varve.hits("@demo", policies=Odd, buffers="8M")

    def test_a_drive_that_is_stepped_takes_none(self):
        with self.assertRaises(ValueError):
            varve.Drive("femu-default", scale="1/64", set={"buffer.policy": compiled.NumbaLru, "buffer.size": "1M"})


if __name__ == "__main__":
    unittest.main()
