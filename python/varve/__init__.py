"""varve: a flash storage stack in user space.

    import varve
    runs = varve.sim("@demo", policy=["lru", "s3-fifo"], buffer="8M")
    print(runs.df()[["buffer.policy", "waf"]])

What the command line does with traces, scenarios and sweeps, with the same words, the same errors and the same
bytes: docs/guide-python.md. Nothing else has to be installed; what pandas, polars, pyarrow or matplotlib are for
says so if they are missing. The module `varve.sqlite` needs the library of the VFS, `varve.torture` the program.
"""

import importlib
import typing

# The names need the built `_varve`; `varve.sqlite` and `varve.torture` work without it, from a checkout: so nothing
# is imported before it is asked for.
if typing.TYPE_CHECKING:
    from varve._names import *
    from varve._names import __all__ as __all__
    from varve._names import __version__ as __version__
else:

    def __getattr__(name):
        if name.startswith("_") and name not in ("__all__", "__version__"):
            raise AttributeError(f"module 'varve' has no attribute {name!r}")
        try:
            names = importlib.import_module("varve._names")
        except ImportError as error:
            text = f"varve.{name} needs the built package (scripts/python, or its wheel): {error}"
            raise ImportError(text) from error
        if name != "__all__" and name not in names.__all__:
            raise AttributeError(f"module 'varve' has no attribute {name!r}")
        value = globals()[name] = getattr(names, name)
        return value

    def __dir__():
        return sorted({*globals(), *__getattr__("__all__")})
