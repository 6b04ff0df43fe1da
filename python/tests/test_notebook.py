"""The notebook runs from its first cell to its last, and its cells are well typed."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

from common import ROOT

NOTEBOOK = ROOT / "python/examples/first.ipynb"


def missing(*packages):
    return [package for package in packages if importlib.util.find_spec(package) is None]


def cells():
    found = json.loads(NOTEBOOK.read_text())["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]


class Notebook(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    @unittest.skipIf(missing("nbclient", "ipykernel", "pandas", "matplotlib"), "nbclient and others are not installed")
    def test_it_runs(self):
        os.environ["JUPYTER_PLATFORM_DIRS"] = "1"
        # What its packages warn of is theirs.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import nbclient
            import nbformat

            notebook = nbformat.read(NOTEBOOK, 4)
            # The kernel of this very interpreter, whatever others there are.
            kernels = self.folder / "kernels/this"
            kernels.mkdir(parents=True)
            argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
            kernels.joinpath("kernel.json").write_text(json.dumps({"argv": argv, "display_name": "this", "language": "python"}))
            os.environ["JUPYTER_PATH"] = str(self.folder)
            client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="this", resources={"metadata": {"path": self.folder}})
            client.execute()
        told = [output for cell in notebook.cells for output in cell.get("outputs", ())]
        html = "".join(output["data"].get("text/html", "") for output in told if "data" in output)
        self.assertIn("buffer.policy", html)
        self.assertTrue(any("image/png" in output.get("data", ()) for output in told))
        texts = "".join(output.get("text", "") for output in told)
        self.assertIn("mine and sieve differ", texts)
        self.assertFalse(any(output["output_type"] == "error" for output in told))
        # As it is kept, it holds no output.
        self.assertFalse(any(cell.get("outputs") for cell in json.loads(NOTEBOOK.read_text())["cells"]))

    @unittest.skipIf(missing("mypy", "pandas"), "mypy is not installed")
    def test_it_is_well_typed(self):
        script = self.folder / "first.py"
        script.write_text("\n\n".join(cells()))
        # Strictly, but that functions of a notebook need no annotations, and pandas has none.
        words = [sys.executable, "-m", "mypy", "--strict", "--allow-untyped-defs", "--ignore-missing-imports", script]
        ran = subprocess.run(words, capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)


if __name__ == "__main__":
    unittest.main()
