"""What a notebook shows: tables, bars and small lines as HTML without scripts or styles of a page."""

from collections.abc import Sequence
from html import escape
from typing import Any

# Rows that are shown: the first of them, and how many there are.
_MOST = 40
# Numbers of a run that are shown, and their heads.
_OF_A_RUN = {
    "waf": "write amplification",
    "hit_ratio.total": "hits",
    "iops": "requests a second",
    "latency_ns.read.p99": "read p99, ns",
    "latency_ns.write.p99": "write p99, ns",
}


def number(value: Any) -> str:
    """A value for people; what is not known is a dash."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def cell(value: Any) -> str:
    """A cell: numbers stand to the right."""
    side = "left" if isinstance(value, str) else "right"
    return f'<td style="text-align:{side}">{escape(number(value))}</td>'


def bar(value: float | None, most: float) -> str:
    """A cell with a number, and a bar of its share of the largest."""
    if value is None:
        return cell(None)
    width = round(60 * value / most) if most > 0 else 0
    drawn = f'<rect width="{width}" height="8" fill="#0072B2"/>'
    return f'<td style="text-align:left"><svg width="60" height="8">{drawn}</svg> {escape(number(value))}</td>'


def line(values: Sequence[float | None]) -> str:
    """A cell with the course of a number, from 0 to its largest."""
    known = [(at, value) for at, value in enumerate(values) if value is not None]
    most = max((value for _, value in known), default=0.0)
    if len(known) < 2 or most <= 0:
        return cell(None)
    last = len(values) - 1
    points = " ".join(f"{120 * at / last:.1f},{19 - 18 * value / most:.1f}" for at, value in known)
    drawn = f'<polyline points="{points}" fill="none" stroke="#D55E00"/>'
    return f'<td style="text-align:left"><svg width="120" height="20">{drawn}</svg></td>'


def page(heads: Sequence[str], rows: Sequence[str], of: int) -> str:
    """A table of rows that are made; `of` is how many there would be."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    more = f"<p>{len(rows)} of {of} rows</p>" if len(rows) < of else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def shown(cells: Sequence[Any]) -> Sequence[Any]:
    """The rows that are shown."""
    return cells[:_MOST]


def _head(name: str, unit: str) -> str:
    """A name with its unit, unless the name ends in it."""
    said = unit in ("text", "count", "ratio") or name.endswith((f"_{unit}", f".{unit}"))
    return name if said else f"{name}, {unit}"


def table(columns: dict[str, str], cells: list[list[Any]]) -> str:
    """Columns and their units, and the first rows."""
    heads = [_head(name, unit) for name, unit in columns.items()]
    return page(heads, ["".join(map(cell, row)) for row in shown(cells)], len(cells))


def runs(rows: list[dict[str, Any]], documents: list[dict[str, Any]]) -> str:
    """Runs: what was swept, and of what came out the numbers that most are after; write amplification as a bar, and
    its course over the run."""
    varied = [name for name in _swept(rows) if len({row[name] for row in rows}) > 1]
    known = [name for name in _OF_A_RUN if any(row.get(name) is not None for row in rows)]
    most = max((row["waf"] for row in rows if row["waf"] is not None), default=0.0)
    made = []
    for row, document in shown(list(zip(rows, documents))):
        course = document.get("series", {}).get("waf", ())
        numbers = [bar(row[name], most) if name == "waf" else cell(row[name]) for name in known]
        made.append("".join([*(cell(row[name]) for name in varied), *numbers, line(course)]))
    heads = [_OF_A_RUN[name] for name in known]
    return page([*varied, *heads, "write amplification over the run"], made, len(rows))


def _swept(rows: list[dict[str, Any]]) -> list[str]:
    """Keys that were swept, as texts, the seed, and why a run cannot be."""
    names = list(rows[0]) if rows else []
    before = names[: names.index("impossible") + 1] if names else []
    # Beside a text with a unit stands the same as a number.
    return [name for name in before if name.rpartition(".")[0] not in before]
