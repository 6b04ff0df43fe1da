"""Studies and searches from Python: the program's documents, and Control-C."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import varve
from common import ROOT, varve as program


def setUpModule():
    """A shell lets what it runs in the background ignore Control-C, and all that is started from there."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Papers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.study = varve.reproduce("nolog", quick=True, data=ROOT / "data")

    def test_a_study_is_that_of_the_program(self):
        document = self.study.document
        self.assertEqual(document["schema"], "varve.study/3")
        self.assertEqual(document["config"]["command"], "varve reproduce nolog --quick")
        self.assertIn(document["version"], program("--version"))

    def test_claims_are_rows_under_each_condition(self):
        rows = self.study.rows()
        under = [one for claim in self.study.claims for one in claim.get("under") or [claim]]
        self.assertEqual(len(rows), len(under))
        self.assertGreater(len(rows), len(self.study.claims))
        first, claim = rows[0], self.study.claims[0]
        self.assertEqual((first["paper"], first["here"]), (claim["paper"], claim["under"][0]["here"]))
        self.assertEqual(first["condition"], claim["under"][0]["condition"])
        self.assertIn(f"{len([c for c in self.study.claims if c['verdict'] == 'agrees'])} agrees", repr(self.study))
        self.assertIn("<table", self.study._repr_html_())

    def test_tables_have_numbers_in_their_units(self):
        table = self.study.tables["fig6"]
        self.assertEqual(table.columns()["drive"], "%")
        self.assertEqual(table.columns()["system"], "text")
        for row in table.rows():
            self.assertIsInstance(row["drive"], (int, float, type(None)))
        try:
            import pyarrow
        except ImportError:
            return
        self.assertEqual(pyarrow.table(table).num_rows, len(table.rows()))
        self.assertEqual(table.df()["system"].tolist(), [row["system"] for row in table.rows()])

    def test_what_is_asked_wrongly_is_refused(self):
        for call, said in (
            (lambda: varve.reproduce("nologs"), "expected one of remap, scj"),
            (lambda: varve.reproduce("nolog", full=True), "--full is for scj only"),
            (lambda: varve.prove((1, 2), "drive"), "expected one of drives, tx"),
            (lambda: varve.prove((2, 1)), "2..1"),
            (lambda: varve.prove(range(3, 3)), "at least one"),
            (lambda: varve.prove((1, 2), stack="nothing"), "nothing"),
        ):
            with self.assertRaisesRegex(ValueError, said):
                call()
        held, os.environ["VARVE"] = os.environ["VARVE"], "/no/such/varve"
        try:
            with self.assertRaisesRegex(Exception, "expected the program in the variable VARVE"):
                varve.prove((1, 1))
        finally:
            os.environ["VARVE"] = held


class Searches(unittest.TestCase):
    def test_a_search_has_the_digest_of_the_program_in_any_parts(self):
        with tempfile.TemporaryDirectory() as folder:
            proof = varve.prove((1, 3), "tx", out=folder)
            self.assertEqual([path.suffix for path in pathlib.Path(folder).iterdir()], [".json"])
        self.assertEqual(proof, varve.prove(range(1, 4), "tx", threads=1))
        self.assertEqual((proof.violations, proof.plans), (0, {}))
        self.assertGreater(proof.cuts, 1000)
        with tempfile.TemporaryDirectory() as folder:
            said = program("prove", "--tx", "--seeds", "1..3", "--json", "--out", folder)
        self.assertEqual(proof.document, json.loads(said))

    def test_control_c_ends_program_and_call(self):
        text = """
import os, pathlib, subprocess, sys, tempfile, varve
print("begun", flush=True)
try:
    {call}
except KeyboardInterrupt:
    left = os.listdir(tempfile.gettempdir())
    print("interrupted", left, flush=True)
print(varve.prove((1, 1), "tx").violations, flush=True)
"""
        for call in ("varve.prove((1, 100_000))", f"varve.reproduce('nolog', data={str(ROOT / 'data')!r})"):
            with tempfile.TemporaryDirectory() as folder:
                environment = {**os.environ, "TMPDIR": folder}
                words = [sys.executable, "-c", text.format(call=call)]
                with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as running:
                    self.assertEqual(running.stdout.readline(), "begun\n")
                    time.sleep(1)
                    began = time.monotonic()
                    running.send_signal(signal.SIGINT)
                    self.assertEqual(running.stdout.readline(), "interrupted []\n")
                    print(f"({call.split('(')[0]}: {time.monotonic() - began:.2f} s after the interruption)", end="")
                    # The next call works.
                    self.assertEqual(running.stdout.read(), "0\n")
                self.assertEqual(running.returncode, 0)


if __name__ == "__main__":
    unittest.main()
