"""Print the matrix of faults against claims: `python -m tests.faults [--help]`."""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from fnmatch import fnmatchcase
from multiprocessing import get_context
from pathlib import Path

from tests.faults import FAULTS, SOUND
from tests.faults.run import row


def main() -> int:
    """Run the claims over the faults, say what each of them breaks, and return 1 if one breaks nothing."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=main.__doc__)
    parser.add_argument("faults", nargs="*", default=["*"], help="faults by name, * and ? as in a shell (default: all)")
    parser.add_argument("--claims", default="*", help='claims, such as "cells.*" (default: the quick gate)')
    parser.add_argument("--csv", type=Path, help="write the matrix with a column for each claim")
    parser.add_argument("-n", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    call = parser.parse_args()
    every = {**SOUND, **FAULTS}
    names = [name for name in every if any(fnmatchcase(name, pattern) for pattern in call.faults)]
    rows: dict[str, dict[str, str]] = {}
    with ProcessPoolExecutor(call.n, get_context("spawn")) as pool:
        for done in as_completed([pool.submit(row, name, call.claims) for name in names]):
            name, judged = done.result()
            rows[name] = judged
            print(f"{len(rows):4}/{len(names)}  {name:36}{told(name, judged)}", file=sys.stderr, flush=True)
    rows = {name: rows[name] for name in names}
    print(matrix(rows))
    if call.csv:
        write(call.csv, rows)
    escaped = [name for name, judged in rows.items() if name in FAULTS and not refuted(judged)]
    alarms = [
        name for name, judged in rows.items() if name in SOUND and set(judged.values()) - {"upheld", "not applicable"}
    ]
    print(f"{len(rows)} cells; faults that no claim refutes: {' '.join(escaped) or 'none'}", end="; ")
    print(f"sound cells with an alarm: {' '.join(alarms) or 'none'}")
    return int(bool(escaped or alarms))


def refuted(judged: dict[str, str]) -> list[str]:
    return [claim for claim, verdict in judged.items() if verdict == "refuted"]


def told(name: str, judged: dict[str, str]) -> str:
    """One cell in a line."""
    claims = refuted(judged)
    if name in SOUND:
        return "sound" if not claims else f"sound, and yet refuted by {' '.join(claims)}"
    by = FAULTS[name].fault.by
    first = sorted(claims, key=lambda claim: claim != by)[:3]
    return f"{FAULTS[name].fault.kind:24}{len(claims):4} refute: {' '.join(first)}" if claims else "escapes"


def matrix(rows: dict[str, dict[str, str]]) -> str:
    """How many claims of each chapter refute each cell."""
    chapters = list(dict.fromkeys(claim.partition(".")[0] for judged in rows.values() for claim in judged))
    widths = [max(4, len(chapter) + 2) for chapter in chapters]
    lines = [f"{'':36}" + "".join(f"{chapter:>{width}}" for chapter, width in zip(chapters, widths, strict=True))]
    for name, judged in rows.items():
        counted = Counter(claim.partition(".")[0] for claim in refuted(judged))
        cells = (f"{counted[c] or '·':>{width}}" for c, width in zip(chapters, widths, strict=True))
        lines.append(f"{name:36}" + "".join(cells))
    return "\n".join(lines)


def write(path: Path, rows: dict[str, dict[str, str]]) -> None:
    """The whole matrix, a row for each cell and a column for each claim."""
    claims = sorted({claim for judged in rows.values() for claim in judged})
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["cell", "kind", "named claim", *claims])
        for name, judged in rows.items():
            about = (FAULTS[name].fault.kind, FAULTS[name].fault.by) if name in FAULTS else ("sound", "")
            table.writerow([name, *about, *(judged.get(claim, "") for claim in claims)])


if __name__ == "__main__":
    sys.exit(main())
