"""Runs the points of a scenario on a cluster, and prints the document that one machine would.

    python dask_sweep.py study.toml FOLDER [ADDRESS OF A DASK SCHEDULER]

Results are kept in the folder: whatever is killed, the same line goes on.
"""

import sys

import varve
from distributed import Client

if __name__ == "__main__":
    sweep = varve.sweep(sys.argv[1], store=sys.argv[2])
    where = {"address": sys.argv[3]} if len(sys.argv) > 3 else {"n_workers": 3, "threads_per_worker": 1}
    with Client(**where) as client:
        # A worker that dies takes its point with it; another runs it again.
        todo = sweep.missing()
        client.gather(client.map(varve.run_unit, todo, key=[unit.id for unit in todo], retries=3))
    print(sweep.merge().json(deterministic=True), end="")
