"""Policies of the drive, written once more in Python."""

from collections import OrderedDict, deque

import varve


class PyLru(varve.BufferPolicy):
    """One list, hits move to its end."""

    def start(self, entries, shape):
        self.pages = OrderedDict()

    def hit(self, page):
        self.pages.move_to_end(page)

    def admit(self, page, full):
        victim = self.pages.popitem(last=False)[0] if full else None
        self.pages[page] = None
        return victim

    def discarded(self, page):
        del self.pages[page]


class PyFifo(varve.BufferPolicy):
    def start(self, entries, shape):
        self.pages = OrderedDict()

    def admit(self, page, full):
        victim = self.pages.popitem(last=False)[0] if full else None
        self.pages[page] = None
        return victim

    def discarded(self, page):
        del self.pages[page]


class PySieve(varve.BufferPolicy):
    """A queue whose hand takes out what was not hit and leaves the rest in place."""

    def start(self, entries, shape):
        # Neighbours by page; None is beyond either end.
        self.newer, self.older, self.hits = {}, {}, set()
        self.newest = self.oldest = self.hand = None

    def hit(self, page):
        self.hits.add(page)

    def discarded(self, page):
        newer, older = self.newer.pop(page), self.older.pop(page)
        self.hits.discard(page)
        if self.hand == page:
            self.hand = newer
        if newer is None:
            self.newest = older
        else:
            self.older[newer] = older
        if older is None:
            self.oldest = newer
        else:
            self.newer[older] = newer

    def admit(self, page, full):
        victim = None
        if full:
            victim = self.oldest if self.hand is None else self.hand
            while victim in self.hits:
                self.hits.remove(victim)
                newer = self.newer[victim]
                victim = self.oldest if newer is None else newer
            self.hand = victim
            self.discarded(victim)
        self.newer[page], self.older[page] = None, self.newest
        if self.newest is None:
            self.oldest = page
        else:
            self.newer[self.newest] = page
        self.newest = page
        return victim


class PyS3Fifo(varve.BufferPolicy):
    """A small queue that what comes once only passes through, a main one, and pages that were in the small one."""

    def start(self, entries, shape):
        self.entries, self.small_limit = entries, max(1, entries // 10)
        self.small, self.main, self.ghosts = OrderedDict(), OrderedDict(), OrderedDict()
        self.ghost_limit, self.evicted = entries * 9 // 10, False

    def hit(self, page):
        queue = self.small if page in self.small else self.main
        queue[page] = min(queue[page] + 1, 3)

    def admit(self, page, full):
        known = page in self.ghosts
        self.ghosts.pop(page, None)
        victim = self.give_up() if full else None
        to_main = known or not self.evicted and len(self.small) >= self.small_limit
        (self.main if to_main else self.small)[page] = 0
        return victim

    def give_up(self):
        self.evicted = True
        # The queue is chosen once; an emptied small queue leaves the rest to the main one.
        from_main = len(self.main) > self.entries - self.small_limit
        while True:
            if from_main or not self.small:
                page, hits = self.main.popitem(last=False)
                if not hits:
                    return page
                self.main[page] = hits - 1
                continue
            page, hits = self.small.popitem(last=False)
            if hits >= 2:
                self.main[page] = 0
                continue
            self.ghosts[page] = None
            if len(self.ghosts) > self.ghost_limit:
                self.ghosts.popitem(last=False)
            return page

    def discarded(self, page):
        for queue in (self.small, self.main):
            queue.pop(page, None)

    def forgotten(self, pages):
        for page in [page for page in self.ghosts if page in pages]:
            del self.ghosts[page]


class PyGreedy(varve.VictimPolicy):
    """Fewest valid slots; of several the one that was closed first."""

    def choose(self, lines):
        return min(lines, key=lambda line: line.valid).line


class PyOldest(varve.VictimPolicy):
    in_turn = True

    def choose(self, lines):
        return lines[0].line


class Halves(varve.BufferPolicy):
    """LRU in a part of its entries: it bypasses what does not fit."""

    options = {"window": varve.share("50 %", "what it uses"), "writes": varve.flag(True), "n": varve.count(3)}

    def start(self, entries, shape):
        assert isinstance(self.window, int) and isinstance(self.writes, bool) and isinstance(self.n, int)
        self.pages = deque()

    def admit(self, page, access, full):
        assert access.length and access.request
        if len(self.pages) >= self.window or (access.write and not self.writes):
            return varve.BYPASS
        self.pages.append(page)

    def discarded(self, page):
        self.pages.remove(page)
