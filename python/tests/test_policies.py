"""Policies of Python: the same as those of the drive, and what comes of wrong ones."""

import copy
import os
import random
import traceback
import unittest

import varve
from policies import Halves, PyFifo, PyGreedy, PyLru, PyOldest, PyS3Fifo, PySieve

PAIRS = (("lru", PyLru), ("fifo", PyFifo), ("sieve", PySieve), ("s3-fifo", PyS3Fifo))
# With discards and flushes.
MIXED = "gen:zipf,size=24MiB,read=40,count=20k"
# Misbehaviours that are drawn; the night draws more.
DRAWS = int(os.environ.get("VARVE_DRAWS", "240"))
COUNTS = ("unit_accesses", "unit_hits", "nand_reads", "dirty_evictions", "clean_evictions", "flushed", "padded")


class SameAsNative(unittest.TestCase):
    def test_counts(self):
        for native, ours in PAIRS:
            found = varve.hits("@demo", policies=[native, ours], buffers=["8M", "32M"]).rows()
            with self.subTest(native):
                self.assertEqual(len(found), 4)
                for theirs, mine in zip(found[:2], found[2:]):
                    self.assertEqual([theirs[name] for name in COUNTS], [mine[name] for name in COUNTS])

    def test_in_the_drive(self):
        for native, ours in PAIRS:
            with self.subTest(native):
                runs = varve.sim("@demo", policy=[native, ours], buffer="8M")
                self.assertEqual(len(runs), 2)
                hashes = [run["event_hash"] for run in runs.document()["results"]]
                self.assertEqual(hashes[0], hashes[1])
                self.assertEqual(*(row["waf"] for row in runs.rows()))

    def test_victims(self):
        found = varve.sim("@demo", policy="lru", buffer="8M", set={"gc.victim": ["fifo", PyOldest, "greedy", PyGreedy]})
        hashes = [run["event_hash"] for run in found.document()["results"]]
        self.assertEqual(hashes[0], hashes[1])
        self.assertNotEqual(hashes[0], hashes[2])
        # Greedy of the drive breaks ties by how long a line has had so many valid slots.
        waf = [row["waf"] for row in found.rows()]
        self.assertAlmostEqual(waf[3], waf[2], delta=0.05 * waf[2])

    def test_twice_the_same(self):
        first, second = (varve.sim("@demo", policy=PySieve, buffer="8M").json(True) for _ in range(2))
        self.assertEqual(first, second)


class Named(unittest.TestCase):
    def test_in_scenarios(self):
        scenario = varve.Scenario({"workload.gen": "zipf,size=16MiB,count=2k", "drive.preset": "paper-nolog"})
        scenario["drive.scale"] = "fit"
        scenario["buffer.policy"] = [PyLru, "lru", Halves(window="25 %")]
        self.assertEqual(len(scenario.points()), 3)
        runs = varve.run(scenario)
        self.assertEqual(runs.rows()[2]["buffer.policy"], "halves(window=25 %)")
        self.assertIn("python.halves.py-lru.", runs.document()["version"])
        self.assertNotIn("python", varve.run(scenario, set={"buffer.policy": ["lru"]}).document()["version"])

    def test_a_version_says_what_a_policy_does(self):
        """Of a class it was its own source alone: with another base results that were kept went on to be taken."""

        def made(step, base=varve.BufferPolicy, default=1):
            class Made(base):
                hint = step

                def admit(self, page, full, by=default):
                    return [page - step for _ in range(by)] if full else None

            return Made

        def version(policy):
            return varve.hits("gen:zipf,size=8MiB,count=9", set={"buffer.policy": policy, "buffer.size": "1M"}).document()["version"]

        first = version(made(1))
        self.assertIn("+python.made." if "+" not in varve.__version__ else ".python.made.", first)
        self.assertEqual(version(made(1)), first)
        self.assertNotEqual(version(made(2)), first)
        self.assertNotEqual(version(made(1, default=2)), first)
        bases = [made(n) for n in (1, 2, 1)]
        found = [version(made(1, base)) for base in bases]
        self.assertNotEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])
        # What has no source is told by its code; a function inside another had its address there.
        text = "class Typed(varve.BufferPolicy):\n    def admit(self, page, full):\n        return (lambda: {one} if full else None)()\n"
        typed = []
        for one in (1, 1, 2):
            names = {"varve": varve, "__name__": "typed"}
            exec(text.format(one=one), names)
            typed.append(version(names["Typed"]))
        self.assertEqual(typed[0], typed[1])
        self.assertNotEqual(typed[0], typed[2])

    def test_options(self):
        found = varve.hits("@demo", policies=[Halves, Halves(window="10 %", n=5, writes=False)], buffers="8M").rows()
        self.assertEqual(found[1]["policy"], "halves(window=10 %, n=5, writes=off)")
        self.assertGreater(found[0]["unit_hits"], found[1]["unit_hits"])
        with self.assertRaisesRegex(TypeError, "Halves has no option windw; its options: window, writes, n"):
            Halves(windw=3)
        with self.assertRaisesRegex(ValueError, "expected a share"):
            varve.hits("@demo", policies=Halves(window="x"), buffers="8M")

    def test_names_of_the_drive_are_taken(self):
        class Lru(varve.BufferPolicy):
            pass

        with self.assertRaisesRegex(ValueError, "called `lru`"):
            varve.hits("@demo", policies=Lru)

    def test_one_that_is_written_again(self):
        def one(result):
            class Again(PyLru):
                def admit(self, page, full):
                    super().admit(page, full)
                    return result

            return Again

        with self.assertRaisesRegex(varve.PolicyError, "page 123456789 is to leave"):
            varve.hits("@demo", policies=one(123456789), buffers="8M")
        with self.assertRaisesRegex(varve.PolicyError, "no page is named"):
            varve.hits("@demo", policies=one(None), buffers="8M")


class Mine(Exception):
    """Of a policy, and of nobody else."""


class Wrong(unittest.TestCase):
    def raises(self, policy, kind, text, **more):
        for work in (
            lambda: varve.hits(MIXED, policies=policy, buffers="1M", ssd="paper-nolog", scale="fit"),
            lambda: varve.sim(MIXED, policy=policy, buffer="1M", seed=[1, 2], ssd="paper-nolog", scale="fit"),
        ):
            # assertRaises would take the traceback away.
            try:
                work()
            except kind as error:
                self.assertRegex(str(error), text)
                found = traceback.format_exception(error)
            else:
                self.fail(f"nothing is raised: expected {kind}")
        return "".join(found)

    def test_the_first_exception_is_raised_with_its_traceback(self):
        for method in ("start", "hit", "admit"):

            class Raises(PyLru):
                count = 0

            def raising(self, *args, method=method):
                Raises.count += 1
                if method == "start" or Raises.count > 100:
                    raise Mine(f"number {Raises.count}")
                return getattr(super(Raises, self), method)(*args)

            setattr(Raises, method, raising)
            # A signature that can be looked up.
            if method == "admit":
                Raises.admit = lambda self, page, full: raising(self, page, full)
            self.assertIn("in raising", self.raises(Raises, Mine, "number"))

    def test_answers_that_none_may_give(self):
        for answer, text in (
            (123456789, r"access \d+ \(page \d+\): page 123456789 is to leave, which is not in the buffer"),
            (2**70, "expected a page"),
            (-1, "expected a page"),
            ("x", "expected a page"),
            (None, r"access \d+ \(page \d+\): the buffer is full"),
            ([], "the buffer is full"),
        ):

            class Answers(PyLru):
                def admit(self, page, full):
                    victim = super().admit(page, full)
                    return answer if full else victim

            self.raises(Answers, (varve.PolicyError, TypeError), text)

    def test_a_page_that_leaves_twice(self):
        class Twice(PyLru):
            def admit(self, page, full):
                victim = super().admit(page, full)
                return [victim, victim] if full else None

        self.raises(Twice, varve.PolicyError, "leave twice")

    def test_no_methods(self):
        class Nothing(varve.BufferPolicy):
            pass

        self.raises(Nothing, NotImplementedError, "no method admit")

    def test_victims(self):
        class Lost(varve.VictimPolicy):
            answer = None

            def choose(self, lines):
                if isinstance(self.answer, Exception):
                    raise self.answer
                return self.answer

        for answer, kind in ((None, varve.PolicyError), (10**6, varve.PolicyError), (-3, varve.PolicyError), (Mine(), Mine)):
            Lost.answer = answer
            with self.assertRaises(kind):
                varve.sim("@demo", policy="lru", buffer="8M", set={"gc.victim": Lost})

    def test_a_copy_that_cannot_be_made(self):
        class Uncopied(PyLru):
            def __deepcopy__(self, memo):
                raise Mine

        # Nothing copies a drive here: what a copy costs is paid by who makes one.
        self.assertEqual(len(varve.hits("@demo", policies=Uncopied, buffers="8M")), 1)
        with self.assertRaises(Mine):
            copy.deepcopy(Uncopied())

    def test_forgetting(self):
        class Forgets(PyLru):
            def forgotten(self, pages):
                assert isinstance(pages, range)
                raise Mine("forgotten")

        recipe = "gen:zipf,size=24MiB,read=40,discard=5,count=5k"
        with self.assertRaisesRegex(Mine, "forgotten"):
            varve.hits(recipe, policies=Forgets, buffers="1M", ssd="paper-nolog", scale="fit")

    def test_interrupts_inside(self):
        class Interrupts(PyLru):
            def hit(self, page):
                raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            varve.hits("@demo", policies=Interrupts, buffers="8M")
        self.assertEqual(len(varve.hits("@demo", policies=PyLru, buffers="8M")), 1)


class Drawn(unittest.TestCase):
    """Misbehaviours that nobody thought of one by one."""

    KINDS = (Mine, varve.PolicyError, TypeError, ValueError, OverflowError, NotImplementedError, KeyError, AttributeError)

    def answers(self, rng, known, victim):
        """Something that a policy may answer, right or wrong."""
        return rng.choice(
            (
                lambda: None,
                lambda: varve.BYPASS,
                lambda: rng.randrange(1 << 33),
                lambda: -rng.randrange(1 << 70),
                lambda: rng.random(),
                lambda: float("nan"),
                lambda: "page",
                lambda: object(),
                lambda: [victim, rng.randrange(1 << 20)],
                lambda: [victim] * 3,
                lambda: (page for page in list(known)[:3]),
                lambda: list(known),
                lambda: {victim: 1},
                lambda: b"\x00\x01",
                lambda: True,
                lambda: [[victim]],
                lambda: varve.BufferPolicy,
            )
        )()

    def test_no_panic_gets_out(self):
        ended = {"result": 0, "error": 0}
        for seed in range(DRAWS):
            rng = random.Random(seed)
            how, when = rng.choice(("answer", "raise", "forget", "bypass", "exit", "start")), rng.randrange(1, 900)

            class Drawing(PyLru):
                def start(self, entries, shape):
                    super().start(entries, shape)
                    self.count = 0
                    if how == "start":
                        rng.choice((lambda: 1 / 0, lambda: self.nothing, lambda: exec("raise Mine", globals())))()

                def hit(self, page):
                    self.now()
                    super().hit(page)

                def now(self):
                    self.count += 1
                    if self.count == when and how == "raise":
                        raise Mine
                    if self.count == when and how == "exit":
                        raise SystemExit(3)
                    if self.count == when and how == "forget":
                        self.pages.clear()
                    return self.count == when

                def admit(self, page, full):
                    wrong = self.now()
                    victim = super().admit(page, full)
                    if wrong and how == "bypass":
                        return varve.BYPASS
                    if (wrong or self.count > when) and how == "answer" and rng.random() < 0.5:
                        return Drawn.answers(self_, rng, self.pages, victim)
                    return victim

            self_ = self
            more = dict(ssd="paper-nolog", scale="fit", seed=seed)
            recipe = f"gen:zipf,size=8MiB,read={rng.randrange(101)},count=400"
            with self.subTest(seed=seed, how=how, when=when):
                try:
                    if seed % 2:
                        varve.sim(recipe, policy=Drawing, buffer="256K", **more)
                    else:
                        varve.hits(recipe, policies=["lru", Drawing], buffers=["256K", "1M"], **more)
                    ended["result"] += 1
                except (*self.KINDS, ZeroDivisionError, SystemExit):
                    ended["error"] += 1
        self.assertGreater(ended["error"], DRAWS // 6, ended)
        self.assertGreater(ended["result"], DRAWS // 24, ended)


if __name__ == "__main__":
    unittest.main()
