"""Long runs: Control-C, progress, other threads, exceptions of callbacks."""

import os
import signal
import threading
import time
import unittest

import varve
from policies import PyLru

# Minutes of work.
LONG = "gen:zipf,size=128MiB,read=50,count=300M"
# An interruption is seen within a twentieth of a second; a machine that is busy is given more.
SOON = 2.0


def setUpModule():
    """A shell lets what it runs in the background ignore Control-C, and all that is started from there."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Watched(unittest.TestCase):
    def interrupted(self, work):
        """How long after the signal `work` ended."""
        threads = set(os.listdir("/proc/self/task"))
        sent = []

        def send():
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(0.7, send)
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            work()
        took = time.monotonic() - sent[0]
        timer.join()
        # What is joined is gone a little later.
        for _ in range(20):
            if set(os.listdir("/proc/self/task")) == threads:
                break
            time.sleep(0.01)
        self.assertEqual(set(os.listdir("/proc/self/task")), threads)
        return took

    def test_control_c(self):
        scenario = varve.Scenario({"workload.gen": LONG.removeprefix("gen:"), "sweep.buffer.policy": "lru,fifo"})
        for work in (
            lambda: varve.sim(LONG, mode="closed"),
            lambda: varve.run(scenario, threads=2),
            lambda: varve.hits(LONG, policies=["lru", "belady"], buffers="8M"),
            lambda: varve.hits(LONG, policies=["lru", "arc"], buffers="8M", threads=2),
            lambda: varve.hits(LONG, policies=PyLru, buffers="8M"),
            lambda: varve.sim(LONG, mode="closed", ssd="paper-nolog", scale="fit", policy=PyLru, buffer="8M"),
            lambda: varve.sweep(scenario)[0](),
            # The workload is read before anything runs.
            lambda: varve.sim(LONG, fit="compact"),
        ):
            self.assertLess(self.interrupted(work), SOON)
            # The next call works.
            self.assertEqual(len(varve.hits("@demo", policies="lru", buffers="8M")), 1)

    def test_progress_sums_to_the_requests(self):
        told = []
        runs = varve.sim("@demo", policy="lru", progress=told.append)
        requests = varve.open("@demo").info()["results"]["requests"]
        self.assertEqual(sum(told), len(runs) * requests)

    def test_other_threads_work(self):
        count = [0]
        over = threading.Event()

        def work():
            while not over.wait(0.001):
                count[0] += 1

        other = threading.Thread(target=work)
        other.start()
        varve.sim("@demo", seed=range(4))
        over.set()
        other.join()
        self.assertGreater(count[0], 10)

    def test_an_exception_of_progress_stops_the_run(self):
        class Mine(Exception):
            pass

        def progress(_):
            raise Mine

        with self.assertRaises(Mine):
            varve.sim(LONG, mode="closed", progress=progress)

    def test_several_at_a_time(self):
        found = []
        runs = [threading.Thread(target=lambda: found.append(varve.sim("@demo").json(True))) for _ in range(4)]
        for run in runs:
            run.start()
        for run in runs:
            run.join()
        self.assertEqual(len(set(found)), 1)
        self.assertEqual(len(found), 4)


if __name__ == "__main__":
    unittest.main()
