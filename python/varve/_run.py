"""One run of a result document, and what is asked of it most."""

from typing import Any

__all__ = ["Latency", "Run"]

# A document may say anything of a kind of requests: numbers, a histogram, causes.
_Said = dict[str, Any]


class Latency(_Said):
    """Of one kind of requests, in nanoseconds: what the document says, and its numbers by name.

    >>> run = varve.sim("@demo", policy="lru", buffer="8M")[0]
    >>> run.latency["read"].p99 == run["latency_ns"]["read"]["p99"]
    True
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        # With too few samples for a percentile there is none.
        return self.get(name)

    def quantile(self, share: float) -> float | None:
        """How long at most that share of the requests took: the upper edge of its bucket, as `p99` is; None with less
        than ten samples beyond it.

        >>> read = varve.sim("@demo", policy="lru", buffer="8M")[0].latency["read"]
        >>> read.quantile(0.99) == read.p99, read.quantile(1) == read.max
        (True, True)
        """
        if not 0 <= share <= 1:
            raise ValueError(f"quantile {share}: expected a share from 0 to 1")
        found: float | None = self.get("max")
        if share == 1:
            return found
        # Not before it is asked for: it takes as long to import as half of the package.
        from fractions import Fraction

        # The decimal that is meant: 0.99 of 100 is 99, and no float above it.
        meant = Fraction(share).limit_denominator(10**9)
        count = self.get("count", 0)
        rank = max(1, -(-count * meant.numerator // meant.denominator))
        if count - rank < 10:
            return None
        seen = 0
        for edge, requests in self["histogram"]:
            seen += requests
            if seen >= rank:
                found = edge
                break
        return found


class Run(_Said):
    """All that a document says of one run.

    >>> run = varve.sim("@demo", policy="lru", buffer="8M")[0]
    >>> run.waf == run["waf"], run.quantile(0.999) == run.latency["read"].p999
    (True, True)
    """

    @property
    def waf(self) -> float | None:
        """Write amplification: bytes programmed by bytes the host wrote."""
        found: float | None = self.get("waf")
        return found

    @property
    def latency(self) -> dict[str, Latency]:
        """Latencies of the kinds of requests that there are: read, write, flush, discard."""
        found = self.get("latency_ns", {})
        return {kind: Latency(found[kind]) for kind in ("read", "write", "flush", "discard") if kind in found}

    def quantile(self, share: float, kind: str = "read") -> float | None:
        """How long at most that share of its reads took, or of another kind of requests."""
        latency = self.latency
        if kind not in latency:
            raise ValueError(f"`{kind}`: expected one of {', '.join(latency) or 'none: the run has no times'}")
        return latency[kind].quantile(share)
