"""Runs the points of a scenario on a cluster, and prints the document that one machine would.

    python dask_sweep.py study.toml [ADDRESS OF A DASK SCHEDULER]
"""

import sys

import varve
from distributed import Client

if __name__ == "__main__":
    sweep = varve.sweep(sys.argv[1])
    where = {"address": sys.argv[2]} if len(sys.argv) > 2 else {"n_workers": 3, "threads_per_worker": 1}
    with Client(**where) as client:
        # A worker that dies takes its point with it; another runs it again.
        points = client.map(varve.run_unit, list(sweep), key=[unit.id for unit in sweep], retries=3)
        results = client.gather(points)
    print(sweep.merge(results).json(deterministic=True), end="")
