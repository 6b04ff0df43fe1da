"""What docstrings show works."""

import contextlib
import doctest
import importlib
import io
import os
import pkgutil
import tempfile
import unittest

import varve
import varve._names

# Those that need the library of the VFS, the program, and the native part, whose stubs have its words.
OTHERS = ("varve.sqlite", "varve.torture", "varve._varve")


def modules():
    names = [f"varve.{of.name}" for of in pkgutil.iter_modules(varve.__path__)]
    return [importlib.import_module(name) for name in names if name not in OTHERS]


class Docstrings(unittest.TestCase):
    def test_examples(self):
        runner = doctest.DocTestRunner()
        finder, said = doctest.DocTestFinder(), io.StringIO()
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said):
            os.chdir(folder)
            try:
                for module in modules():
                    for test in finder.find(module, globs={"varve": varve}):
                        runner.run(test, clear_globs=False)
            finally:
                os.chdir(before)
        self.assertEqual(runner.failures, 0, said.getvalue())
        self.assertGreater(runner.tries, 40)

    def test_there_is_one_for_each_name(self):
        for name in varve._names.__all__:
            of = getattr(varve, name)
            if isinstance(of, type) or callable(of):
                self.assertTrue(getattr(of, "__doc__", None), name)


if __name__ == "__main__":
    unittest.main()
