"""What docs/guide-python.md shows works."""

import contextlib
import importlib.util
import io
import os
import re
import tempfile
import unittest

from common import ROOT


class Guide(unittest.TestCase):
    @unittest.skipUnless(
        all(map(importlib.util.find_spec, ("matplotlib", "numba", "pandas"))), "matplotlib, numba or pandas are not installed"
    )
    def test_its_blocks_run_in_order(self):
        text = (ROOT / "docs/guide-python.md").read_text()
        blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        self.assertGreater(len(blocks), 6)
        names = {"__name__": "guide"}
        before = os.getcwd()
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said):
            os.chdir(folder)
            try:
                for number, block in enumerate(blocks):
                    exec(compile(block, f"block {number} of the guide", "exec"), names)
                self.assertGreater(os.path.getsize("misses.pdf"), 1000)
            finally:
                os.chdir(before)
        self.assertIn("vtr 120000", said.getvalue())


if __name__ == "__main__":
    unittest.main()
