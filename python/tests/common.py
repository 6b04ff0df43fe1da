"""What tests share: the program that results are compared with."""

import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def varve(*words):
    """What the program says on standard output, run in a folder of its own; an AssertionError if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run([os.environ["VARVE"], *map(str, words)], capture_output=True, text=True, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def refusal(*words):
    """Why the program refuses these words, without its name before it."""
    ran = subprocess.run([os.environ["VARVE"], *map(str, words)], capture_output=True, text=True)
    assert ran.returncode != 0, ran.stdout
    return ran.stderr.strip().removeprefix("varve: ").removeprefix("error: ")


def same_version():
    """Results carry the version: of two builds none would be the same."""
    import varve as package

    theirs = varve("--version").split()[1]
    assert theirs == package.__version__, f"VARVE is {theirs}, the package {package.__version__}: build both of one commit"
