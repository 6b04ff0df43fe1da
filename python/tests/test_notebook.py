"""The notebook runs from its first cell to its last, and its cells are well typed."""

import importlib.util
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import time
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
        os.environ["JUPYTER_PLATFORM_DIRS"] = "1"
        # What takes long in the development mode of Python is no news here.
        logging.getLogger("asyncio").setLevel(logging.ERROR)
        # The kernel of this very interpreter, whatever others there are.
        kernels = self.folder / "kernels/this"
        kernels.mkdir(parents=True)
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        kernels.joinpath("kernel.json").write_text(json.dumps({"argv": argv, "display_name": "this", "language": "python"}))
        os.environ["JUPYTER_PATH"] = str(self.folder)

    @unittest.skipIf(missing("nbclient", "ipykernel", "pandas", "matplotlib"), "nbclient and others are not installed")
    def test_it_runs(self):
        # What its packages warn of is theirs.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import nbclient
            import nbformat

            notebook = nbformat.read(NOTEBOOK, 4)
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

    @unittest.skipIf(missing("nbclient", "ipykernel"), "nbclient is not installed")
    def test_interrupting_the_kernel_ends_the_cell_and_the_next_one_runs(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from jupyter_client.manager import KernelManager

            kernel = KernelManager(kernel_name="this")
            kernel.start_kernel(cwd=self.folder, stderr=subprocess.DEVNULL)
            self.addCleanup(kernel.shutdown_kernel, now=True)
            client = kernel.blocking_client()
            client.start_channels()
            self.addCleanup(client.stop_channels)
            client.wait_for_ready(timeout=60)

            def answer(code, after=None):
                """What a cell comes to, and how long an interruption took."""
                asked = client.execute(code, store_history=False)
                sent = None
                if after is not None:
                    time.sleep(after)
                    sent = time.monotonic()
                    kernel.interrupt_kernel()
                while True:
                    reply = client.get_shell_msg(timeout=60)
                    if reply["parent_header"].get("msg_id") == asked:
                        return reply["content"], sent and time.monotonic() - sent

            self.assertEqual(answer("import os, threading, varve\nbefore = os.listdir(), threading.active_count()")[0]["status"], "ok")
            load = "gen:zipf,size=128MiB,read=50,count=300M"
            told = []
            for code in (
                f'varve.sim("{load}", mode="closed")',
                f'varve.hits("{load}", policies=["lru", "arc"], buffers="8M", ssd="femu-default")',
                f'varve.run(varve.Scenario({{"workload.gen": "zipf,size=128MiB,count=300M", "replay.mode": "closed"}}))',
                'varve.twin("lru", of="lru", accesses=10**12)',
            ):
                content, took = answer(code, after=1)
                self.assertEqual((content["status"], content.get("ename")), ("error", "KeyboardInterrupt"), code)
                told.append(f"{took:.2f}")
                after = "assert (os.listdir(), threading.active_count()) == before\nassert len(varve.sim('@demo', policy='lru', buffer='8M')) == 1"
                content, _ = answer(after)
                self.assertEqual(content["status"], "ok", content)
        print(f"(seconds from the interruption to the end of the cell: {', '.join(told)})", end="", file=sys.stderr)

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
