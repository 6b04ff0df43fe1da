"""A drive that Python steps."""

import pathlib
import tempfile
import unittest

import varve

FEW = {"geometry.channels": 2, "geometry.dies": 2, "line": "plane", "op": "100%"}
SMALL = {**FEW, "buffer.policy": "lru", "buffer.size": "1M"}
BARE = {**FEW, "buffer.policy": "none"}


def stepped(drive, rows):
    """Submits rows of a trace at their times; when each is done."""
    calls = {"read": drive.read, "write": drive.write, "discard": drive.trim}
    done = []
    for row in rows:
        if row["op"] == "flush":
            done.append(drive.flush(row["at_ns"]))
        else:
            done.append(calls[row["op"]](row["at_ns"], row["offset"], row["length"]))
    return done


class Stepped(unittest.TestCase):
    def test_counts_what_a_run_of_the_same_requests_does(self):
        trace = varve.gen("zipf", size="32MiB", read=40, discard=5, flush=500, count="8k", iat="200us", seed=3)
        keys = {"geometry.blocks": 0, "capacity": "64MiB", **SMALL}
        with tempfile.TemporaryDirectory() as folder:
            saved = trace.save(pathlib.Path(folder, "mine.vtr"))
            runs = varve.sim(saved, ssd="mqsim-default", mode="open", precondition="none", set=keys)
        run = runs[0]
        drive = varve.Drive("mqsim-default", capacity="64MiB", set=SMALL)
        rows = [row for batch in trace for row in batch.rows()]
        done = stepped(drive, rows)
        # A run flushes at its end.
        drive.flush(max(done))
        stats = drive.stats()
        for key in ("nand", "gc", "waf", "hit_ratio", "buffer", "wear", "erases", "free_blocks", "valid_units"):
            self.assertEqual(stats.get(key), run.get(key), key)
        self.assertEqual(stats["host"]["write"], run["host"]["write"])
        took = [end - row["at_ns"] for end, row in zip(done, rows) if row["op"] == "read"]
        self.assertEqual(len(took), run["latency_ns"]["read"]["count"])
        self.assertLessEqual(abs(sum(took) / len(took) - run["latency_ns"]["read"]["mean"]), 1)
        drive.check()

    def test_who_waits_for_each_request_has_the_events_of_a_run(self):
        trace = varve.gen("zipf", size="32MiB", read=30, discard=5, count="4k", seed=3)
        keys = {"geometry.blocks": 0, "capacity": "64MiB", **SMALL}
        with tempfile.TemporaryDirectory() as folder:
            saved = trace.save(pathlib.Path(folder, "mine.vtr"))
            run = varve.sim(saved, ssd="mqsim-default", mode="closed", qd=1, precondition="none", set=keys)[0]
        rows, ends = [row for batch in trace for row in batch.rows()], {}
        for unit in ("ps", "ns"):
            drive = varve.Drive("mqsim-default", capacity="64MiB", set=SMALL, unit=unit)
            at = 0
            for row in rows:
                [at] = stepped(drive, [{**row, "at_ns": at}])
            ends[unit] = at
            drive.flush(at)
            # Of times in whole nanoseconds each is rounded up, and so is the next.
            self.assertEqual(drive.stats()["event_hash"] == run["event_hash"], unit == "ps")
            self.assertIn(f" {unit}>", repr(drive.copy()))
        self.assertEqual(ends["ps"], round(run["time_ns"] * 1000))
        self.assertLess(ends["ps"] / 1000, ends["ns"])
        with self.assertRaisesRegex(ValueError, "unit `us`: expected one of ns, ps"):
            varve.Drive("mqsim-default", unit="us")

    def test_the_same_calls_have_the_same_answers_and_copies_go_their_own_way(self):
        rows = [row for batch in varve.gen("uniform", size="16MiB", read=30, count="3k") for row in batch.rows()]
        drives = [varve.Drive("mqsim-default", capacity="32MiB", set=SMALL) for _ in range(2)]
        ends = [stepped(drive, rows[:2000]) for drive in drives]
        self.assertEqual(ends[0], ends[1])
        copy = drives[0].copy()
        self.assertEqual(stepped(copy, rows[2000:]), stepped(drives[1], rows[2000:]))
        self.assertEqual(copy.stats(), drives[1].stats())
        self.assertNotEqual(copy.stats(), drives[0].stats())

    def test_cleaning_shows_in_its_counters_and_blocks(self):
        drive = varve.Drive("mqsim-default", capacity="32MiB", set=BARE)
        at, pages = 0, drive.capacity // 4096
        for n in range(4 * pages):
            at = drive.write(at, n * 7919 % pages * 4096, 4096)
        stats = drive.stats()
        self.assertGreater(stats["gc"]["victims"], 0)
        self.assertGreaterEqual(stats["waf"], 1)
        blocks = drive.blocks().rows()
        self.assertEqual(sum(block["erases"] for block in blocks), stats["erases"])
        self.assertEqual(sum(block["valid"] for block in blocks), stats["valid_units"])
        drive.reset_stats()
        self.assertEqual(drive.stats()["host"]["write"]["ops"], 0)
        drive.trim(at, 0, drive.capacity)
        self.assertEqual(sum(block["valid"] for block in drive.blocks().rows()), 0)

    def test_what_cannot_be_is_told(self):
        drive = varve.Drive("mqsim-default", capacity="32MiB", set=BARE)
        drive.write(1000, 0, 4096)
        for call, text in (
            (lambda: drive.write(999, 0, 4096), "times may not fall"),
            (lambda: drive.write(1000, drive.capacity, 512), "lie beyond the device"),
            (lambda: drive.read(1000, 1, 512), "offset 1: expected whole sectors of 512 bytes"),
            (lambda: drive.read(1000, 0, 4095), "length 4095: expected whole sectors"),
            (lambda: drive.read(1000, 0, 0), "no sectors"),
            (lambda: drive.flush(10**19), "virtual time ends 106 days after its start"),
            (lambda: varve.Drive("no-such"), "no-such"),
            (lambda: varve.Drive("femu-default", set={"gc.victim": "zzz"}), "zzz"),
            (lambda: varve.Drive("femu-default", set={"gc.victim": ["fifo", "greedy"]}), "a sweep: expected one drive"),
        ):
            with self.assertRaisesRegex(ValueError, text):
                call()
        with self.assertRaises(OverflowError):
            drive.flush(-1)
        self.assertEqual(drive.now, 1000)
        self.assertEqual(drive.stats()["host"]["write"]["ops"], 1)

    def test_policies_of_python_are_for_runs(self):
        class DriveLru(varve.BufferPolicy):
            def admit(self, page, full):
                return None

        with self.assertRaisesRegex(ValueError, "buffer.policy = drive-lru is written in Python"):
            varve.Drive("mqsim-default", capacity="32MiB", set={**SMALL, "buffer.policy": DriveLru})


if __name__ == "__main__":
    unittest.main()
