"""What things cost on this machine: `scripts/python --bench`. Processor time, the least of three."""

import os
import signal
import sys
import threading
import time

import varve


def least(work):
    """Processor seconds of all threads, and what came of it."""
    best = None
    for _ in range(3):
        start = time.process_time()
        found = work()
        took = time.process_time() - start
        best = took if best is None else min(best, took)
    return best, found


def line(what, value, unit):
    print(f"{what:<58} {value:>9,.0f} {unit}")


def interruption():
    """Seconds from Control-C in a run of minutes to its exception, the most of five."""
    took = []
    for _ in range(5):
        sent = []

        def send():
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(0.3, send)
        timer.start()
        try:
            varve.sim("gen:zipf,size=128MiB,read=50,count=300M", mode="closed")
        except KeyboardInterrupt:
            took.append(time.monotonic() - sent[0])
        timer.join()
    return max(took)


def main():
    start = time.process_time()
    varve.sim  # from here on it is there
    line("import varve", (time.process_time() - start) * 1e3, "ms")
    from common import ROOT
    from policies import PyFifo, PyLru, PySieve

    trace = varve.open("@demo")
    info, found = least(trace.info)
    requests = found["results"]["requests"]
    line("Trace.info()", info / requests * 1e9, "ns a request")
    batches, _ = least(lambda: [None for _ in trace])
    line("batches of a .vtr trace", batches / requests * 1e9, "ns a request")
    packed = varve.open(ROOT / "data/tpcc_run_mariadb_ext4.csv.zst")
    read, count = least(lambda: sum(len(batch) for batch in packed))
    line(f"batches of {packed.format}, {packed.compression}", read / count * 1e9, "ns a request")
    for package, take in (("pyarrow", lambda of: of.table(trace)), ("polars", lambda of: of.DataFrame(trace))):
        try:
            module = __import__(package)
        except ImportError:
            print(f"{package}: not installed")
            continue
        took, _ = least(lambda: take(module))
        line(f"{package} takes the trace", took / requests * 1e9, "ns a request")
    for size in ("8M", "32M"):
        for native, ours in (("lru", PyLru), ("fifo", PyFifo), ("sieve", PySieve)):
            base, found = least(lambda: varve.hits("@demo", policies=native, buffers=size))
            accesses = found.document()["accesses"]
            took, _ = least(lambda: varve.hits("@demo", policies=ours, buffers=size))
            line(f"hits, {native} {size}", base / accesses * 1e9, "ns an access")
            line(f"hits, {native} {size} in Python", took / accesses * 1e9, "ns an access")
    try:
        from compiled import NumbaClock, NumbaLru
    except ImportError:
        print("numba: not installed")
    else:
        for size in ("8M", "32M"):
            for native, ours in (("lru", NumbaLru), ("clock", NumbaClock)):
                base, found = least(lambda: varve.hits("@demo", policies=native, buffers=size))
                accesses = found.document()["accesses"]
                took, _ = least(lambda: varve.hits("@demo", policies=ours, buffers=size))
                line(f"hits, {native} {size}", base / accesses * 1e9, "ns an access")
                line(f"hits, {native} {size}, compiled by numba", took / accesses * 1e9, "ns an access")
    log, _ = least(lambda: varve.sim("@demo", policy="lru", buffer="8M", threads=1, requests=True))
    base, _ = least(lambda: varve.sim("@demo", policy="lru", buffer="8M", threads=1))
    line("sim, lru 8M, with a log of requests", log * 1000, "ms")
    took, _ = least(lambda: varve.sim("@demo", policy=PyLru, buffer="8M"))
    line("sim, lru 8M", base * 1000, "ms")
    line("sim, lru 8M in Python", took * 1000, "ms")
    line("Control-C in a run, most of 5, by the clock", interruption() * 1000, "ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
