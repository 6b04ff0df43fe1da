"""A policy beside its twin, and whether it answers the same again."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import varve
from policies import Halves, PyFifo, PyGreedy, PyLru, PyS3Fifo, PySieve


class Bad(PySieve):
    """A SIEVE whose hand never passes over anything: hits are forgotten."""

    def hit(self, page):
        pass


class Shuffled(PyLru):
    """Gives up whatever its `set` of texts begins with: another page in each process."""

    def start(self, entries, shape):
        self.pages = set()

    def hit(self, page):
        pass

    def admit(self, page, full):
        victim = int(self.pages.pop()) if full else None
        self.pages.add(str(page))
        return victim

    def discarded(self, page):
        self.pages.remove(str(page))


class Outlives(PyFifo):
    """Remembers what was in another buffer."""

    buffers = 0

    def start(self, entries, shape):
        super().start(entries, shape)
        Outlives.buffers += 1

    def admit(self, page, full):
        if Outlives.buffers > 2 and not full:
            return varve.BYPASS
        return super().admit(page, full)


class ShuffledVictims(varve.VictimPolicy):
    def choose(self, lines):
        emptiest = sorted(lines, key=lambda line: line.valid)[:4]
        return int({str(line.line) for line in emptiest}.pop())


class Twins(unittest.TestCase):
    def test_policies_of_python_do_what_those_of_the_drive_do(self):
        for native, ours in (("lru", PyLru), ("fifo", PyFifo), ("sieve", PySieve), ("s3-fifo", PyS3Fifo)):
            found = varve.twin(ours, of=native, accesses=200_000)
            self.assertTrue(found, found)
            self.assertIn(f"does what {native} does", str(found))
            self.assertEqual(found.accesses, ())

    def test_a_difference_is_told_in_few_accesses(self):
        for policy, of in ((Bad, "sieve"), (PyLru, "fifo"), (PyFifo, PyLru), ("clock", "sieve")):
            found = varve.twin(policy, of=of)
            self.assertFalse(found)
            self.assertLessEqual(len(found.accesses), 20, found)
            self.assertNotEqual(*found.counted)
            lines = str(found).splitlines()
            self.assertEqual(len(lines), 3 + len(found.accesses))
            self.assertEqual({op for op, _, _ in found.accesses} - {"read", "write", "flush", "discard"}, set())

    def test_draws_are_those_of_the_seed(self):
        first, again, other = (varve.twin(Bad, of="sieve", seed=seed) for seed in (1, 1, 7))
        self.assertEqual(first, again)
        self.assertNotEqual(first.accesses, other.accesses)

    def test_without_discards(self):
        class Never(PyLru):
            def discarded(self, page):
                raise AssertionError("a page is discarded")

        self.assertTrue(varve.twin(Never, of="lru", accesses=50_000, discards=False))
        with self.assertRaisesRegex(AssertionError, "a page is discarded"):
            varve.twin(Never, of="lru", accesses=50_000)

    def test_what_goes_wrong_is_raised_as_of_runs(self):
        class Raises(PyLru):
            def hit(self, page):
                raise ZeroDivisionError("mine")

        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            varve.twin(Raises, of="lru")

        class Nobody(PyLru):
            def admit(self, page, full):
                return 10**6 if full else super().admit(page, full)

        with self.assertRaisesRegex(varve.PolicyError, "is to leave"):
            varve.twin(Nobody, of="lru")
        with self.assertRaisesRegex(ValueError, "`zzz`: expected one of none, fifo"):
            varve.twin(PyLru, of="zzz")

    def test_options(self):
        self.assertTrue(varve.twin(Halves(window="100 %"), of=Halves(window="100 %"), accesses=20_000))
        self.assertFalse(varve.twin(Halves(window="100 %"), of=Halves, accesses=20_000))

    def test_progress_and_control_c(self):
        told = []
        varve.twin("lru", of="lru", accesses=2_000_000, progress=told.append)
        self.assertGreaterEqual(sum(told), 2_000_000)

        def stop(since):
            raise KeyboardInterrupt

        began = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            varve.twin(PySieve, of="sieve", accesses=10**12, progress=stop)
        self.assertLess(time.monotonic() - began, 30)


def paths():
    """So that other processes find what is imported here."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(pathlib.Path(__file__).parent), *sys.path])


class Checked(unittest.TestCase):
    def setUp(self):
        paths()
        self.seed = os.environ.get("PYTHONHASHSEED")

    def tearDown(self):
        self.assertEqual(os.environ.get("PYTHONHASHSEED"), self.seed, "it is given back")

    def test_what_repeats(self):
        digests = {varve.check(policy, buffer="2M") for policy in (PySieve, PyLru, PyGreedy)}
        self.assertEqual(len(digests), 3)
        self.assertEqual({len(digest) for digest in digests}, {64})

    def test_what_depends_on_hashes_does_not(self):
        with self.assertRaisesRegex(varve.PolicyError, "Shuffled does not repeat: a count of hits with PYTHONHASHSEED=1"):
            varve.check(Shuffled, buffer="2M")
        with self.assertRaisesRegex(varve.PolicyError, "ShuffledVictims does not repeat: a run with"):
            varve.check(ShuffledVictims)

    def test_what_outlives_a_buffer_does_not(self):
        with self.assertRaisesRegex(varve.PolicyError, "with PYTHONHASHSEED=0, the second time"):
            varve.check(Outlives, buffer="2M")

    def test_what_is_no_policy(self):
        with self.assertRaisesRegex(TypeError, "int: expected a policy"):
            varve.check(3)

    def test_a_class_of_nowhere(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "script.py")
            script.write_text("import varve\nfrom policies import PyLru\nvarve.check(PyLru)\n")
            ran = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=folder, timeout=120)
        self.assertEqual(ran.returncode, 1)
        self.assertIn("expected a class of a module that can be imported there", ran.stderr)


if __name__ == "__main__":
    unittest.main()
