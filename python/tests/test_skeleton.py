"""The beginning of a policy of the drive, out of one of Python."""

import pathlib
import re
import tempfile
import unittest

import varve
from common import ROOT
from policies import Halves, PyGreedy, PySieve


class Skeleton(unittest.TestCase):
    def test_it_has_what_the_drive_asks_of_a_policy(self):
        trait = (ROOT / "crates/ssd/src/buffer/policy.rs").read_text()
        trait = trait[trait.index("pub trait Policy") : trait.index("\n}\n", trait.index("pub trait Policy"))]
        # Those without a body have to be there.
        needed = re.findall(r"^    fn ([a-z]+)\([^{;]*;", trait, re.MULTILINE)
        self.assertEqual(needed, ["hit", "admit", "inserted", "removed", "cleaned", "check"])
        text = varve.twin_skeleton(PySieve)
        for name in needed:
            self.assertEqual(len(re.findall(rf"^    fn {name}\(&", text, re.MULTILINE)), 1, name)
        self.assertIn("    //         victim = self.oldest if self.hand is None else self.hand\n", text)

    def test_the_line_and_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "halves.rs")
            line = varve.twin_skeleton(Halves, path)
            rust = path.read_text()
        self.assertTrue(line.startswith("mod halves;\n"))
        self.assertIn('PolicyOption { name: "window", kind: Share, default: "50 %", doc: "what it uses" }', line)
        self.assertIn('halves::Halves::new(setup.share_of_entries("window"), setup.flag("writes"), setup.count("n"))', line)
        self.assertIn("    window: usize,\n    writes: bool,\n    n: u64,\n", rust)
        self.assertEqual(varve.twin_skeleton(Halves), f"{line}\n{rust}")

    def test_of_victims_there_is_none(self):
        for other in (PyGreedy, Halves(), "lru"):
            with self.assertRaisesRegex(TypeError, "expected a class of varve.BufferPolicy"):
                varve.twin_skeleton(other)


if __name__ == "__main__":
    unittest.main()
