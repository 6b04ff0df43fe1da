"""The table of scripts/torture-table: runs every row of every recipe and says what came out."""

import concurrent.futures
import json
import pathlib
import subprocess
import sys

program, fs, random, jobs, budget, only, write, least = sys.argv[1:9]
wanted = set(only.split(",")) - {""}


def once(name, count=None):
    """What a row came to, with so many promises if told, and what was said if there is no result."""
    words = [program, "torture", "--recipe", name, "--fs", fs, "--random", random, "--jobs", jobs]
    words += ["--budget", budget, "--keep-going", "--json"] + (["--", f"count={count}"] if count else [])
    ran = subprocess.run(words, capture_output=True, text=True)
    try:
        return json.loads(ran.stdout)["results"], None
    except ValueError:
        return None, ran.stderr.strip()


def expected_of(row):
    return row["strict" if fs == "strict" else "expect"]


def looked_at(results):
    return results["worst"]["looked_at"] + results["drawn"]["looked_at"]


def run(recipe, row):
    """The same, with the states and the promises that it took. A control that has too few different states is
    recorded again with more promises, as many more as it lacks states; those of all recordings count, and the table
    has the first."""
    count = int((recipe["keys"] | row["set"])["count"])
    results, said = once(row["name"])
    states, found = looked_at(results) if results else 0, results
    for _ in range(3):
        if said or expected_of(row) != "kept" or results["verdict"] != "kept" or states >= int(least):
            break
        # A fifth more than it seems to take. Promises so far, by the states that they gave.
        count = -(-count * (int(least) - states) * 6 // (5 * max(looked_at(found), 1)))
        found, said = once(row["name"], count)
        if found:
            states += looked_at(found)
            if found["verdict"] != "kept":
                results = found
    return results, said, states, count


recipes = json.loads(subprocess.run([program, "torture", "--list", "--json"], capture_output=True, check=True).stdout)
rows, wrong, skipped = {}, [], []
asked = [(recipe, row) for recipe in recipes["results"] for row in recipe["rows"] if not wanted or row["name"] in wanted]
# Two at a time: a program that is recorded, or waits, leaves a processor to the other row.
with concurrent.futures.ThreadPoolExecutor(2) as two:
    runs = {row["name"]: two.submit(run, recipe, row) for recipe, row in asked if not recipe["why_not"]}
    for recipe, row in asked:
        name = row["name"]
        if recipe["why_not"]:
            skipped.append(f"{name}: skipped: {recipe['why_not']}")
            print(skipped[-1], flush=True)
            continue
        results, said, states, count = runs[name].result()
        if said or states < int(least) and expected_of(row) == "kept":
            wrong.append(name)
            print(f"{name}: {said or f'{states} different states, of {least} that were asked for'}", flush=True)
            continue
        verdict = results["verdict"]
        expected = expected_of(row)
        if verdict != expected:
            wrong.append(name)
        worst, drawn = results["worst"], results["drawn"]
        blame = results["blame"] or {}
        missing = blame.get("missing_fsync") or ""
        first = results["failures"][0]["reason"] if results["failures"] else results["why"] or ""
        cells = [f"`{name}`", row["promise"], f"**{verdict}**" if verdict != "kept" else verdict,
                 f"{worst['failed']} of {worst['looked_at']}", f"{drawn['failed']} of {drawn['looked_at']}",
                 str(results["recorded"]["flushes"]), first.replace("|", "/")[:90], missing]
        rows[name] = "| " + " | ".join(cells) + " |"
        left = worst["states"] + drawn["states"] - worst["looked_at"] - drawn["looked_at"]
        more = f", {states:,} states in all, of up to {count} promises" if int(least) and expected == "kept" else ""
        print(f"{name}: {verdict} ({expected} expected), {cells[3]} worst, {cells[4]} drawn, "
              f"{results['ms'] / 1000:.0f} s{f', {left} not looked at' if left else ''}{more}", flush=True)
head = ["| program | what is promised | came out | worst cases failed | drawn states failed | flushes | the first failure "
        "| the fsync that is missing (a guess) |", "| --- | --- | --- | --- | --- | --- | --- | --- |"]
page = pathlib.Path("docs/torture-table.md")
text = page.read_text()
begin, end = f"<!-- table {fs}: begin -->\n", f"<!-- table {fs}: end -->"
if write and begin not in text:
    sys.exit(f"torture-table: {page}: there is no table of {fs}")
before, rest = text.split(begin) if begin in text else ("", end)
there, after = rest.split(end)
ran = len(rows)
if write and wanted:
    # The rows that were not asked for stay as they are.
    lines = [line for line in there.splitlines() if line.startswith("| `")]
    rows = {line.split("`")[1]: line for line in lines} | rows
order = [row["name"] for recipe in recipes["results"] for row in recipe["rows"]]
table = "\n".join(head + [rows[name] for name in order if name in rows])
if write:
    page.write_text(before + begin + "\n" + table + "\n\n" + end + after)
else:
    print(table)
for line in skipped:
    print(line)
print(f"torture-table: {ran} rows, {len(wrong)} not as expected, {len(skipped)} skipped")
sys.exit(1 if wrong else 0)
