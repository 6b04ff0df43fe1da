"""Policies that numba compiles: those of the drive, and wrong ones."""

import varve


@varve.compiled_policy(row=[("newer", "i8"), ("older", "i8")], head=[("newest", "i8"), ("oldest", "i8")])
class NumbaLru:
    """One list, hits move to its newer end."""

    # Rows are named by their numbers and one, so that 0 is none.
    def hit(head, rows, row):
        newer, older = rows[row].newer, rows[row].older
        if newer == 0:
            return
        rows[newer - 1].older = older
        if older == 0:
            head.oldest = newer
        else:
            rows[older - 1].newer = newer
        rows[row].newer, rows[row].older = 0, head.newest
        rows[head.newest - 1].newer = row + 1
        head.newest = row + 1

    def victim(head, rows):
        row = head.oldest - 1
        head.oldest = rows[row].newer
        if head.oldest == 0:
            head.newest = 0
        else:
            rows[head.oldest - 1].older = 0
        return row

    def inserted(head, rows, row):
        rows[row].newer, rows[row].older = 0, head.newest
        if head.newest == 0:
            head.oldest = row + 1
        else:
            rows[head.newest - 1].newer = row + 1
        head.newest = row + 1

    def removed(head, rows, row):
        newer, older = rows[row].newer, rows[row].older
        if newer == 0:
            head.newest = older
        else:
            rows[newer - 1].older = older
        if older == 0:
            head.oldest = newer
        else:
            rows[older - 1].newer = newer


@varve.compiled_policy(row=[("hit", "i1")], head=[("hand", "i8")])
class NumbaClock:
    """A hand over rows in their order, which passes over what was hit."""

    def hit(rows, row):
        rows[row].hit = 1

    def victim(head, rows):
        while rows[head.hand].hit:
            rows[head.hand].hit = 0
            head.hand = (head.hand + 1) % len(rows)
        row = head.hand
        head.hand = (head.hand + 1) % len(rows)
        return row

    def inserted(rows, row):
        rows[row].hit = 0


@varve.compiled_policy(row=[("page", "i8"), ("write", "i1"), ("flushed", "i4")], head=[("started", "i8"), ("wrong", "i8")])
class Told:
    """What it is told, held against itself: a page is in its row, and there is a beginning."""

    def start(head, rows, row, page):
        head.started = 1 + len(rows)

    def hit(head, rows, row, page):
        if rows[row].page != page + 1 or head.started != 1 + len(rows):
            raise ValueError("another page")

    def victim(head, rows, page, write):
        return page % len(rows)

    def inserted(rows, row, page, write):
        if rows[row].page != 0 and rows[row].page == page + 1 and not write:
            rows[row].write = 2
        rows[row].page, rows[row].write, rows[row].flushed = page + 1, write, 0

    def flushed(rows, row, page):
        if rows[row].page != page + 1:
            raise ValueError("another page")
        rows[row].flushed += 1

    def removed(rows, row, page):
        if rows[row].page != page + 1:
            raise ValueError("another page")
        rows[row].page = 0


@varve.compiled_policy(row=[("hit", "i1")])
class Beyond:
    def victim(rows):
        return rows[len(rows)].hit


@varve.compiled_policy(row=[("hit", "i1")])
class Empty:
    def victim(rows):
        return len(rows)


@varve.compiled_policy(row=[("hit", "i1")])
class Below:
    def victim(rows):
        return -1


@varve.compiled_policy(row=[("hit", "i1")])
class Raises:
    def hit(page):
        if page >= 0:
            raise ValueError("no more")

    def victim(rows):
        return 0
