"""How far sound cells stay inside the suite's tolerances, and how far numerical faults lie outside them.

    python -m tests.margins                three draws, half an hour on one processor
    python -m tests.margins --draws 25     every claim that takes a draw, and sizes from 1 to 200, over 25 draws: all of
                                           «no false alarms», three hours on one processor; status 1 if a claim
                                           holds anything against a sound cell
    python -m tests.margins --draws 25 --cell adapters.keras3:LSTM    the same of other cells that are held to be sound

Draws count from 0, which is the gate's own. Draws alternate between one thread and two; sizes are tried with both.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent)]
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # two threads wait for each other, and others may be at work

ROOT = Path(__file__).parents[1]
FORMATS = ("float32", "float64")
Cells = Mapping[str, Any]
"""Subjects by name."""
Known = Mapping[str, Collection[str]]
"""By subject the claims that hold something against it, and rightly."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=3, help="how many draws of weights and inputs (default: 3)")
    parser.add_argument("--only", choices=["claims", "sizes", "faults"], help="a part of it")
    parser.add_argument("--cell", action="append", metavar="SPEC", help="as of pytest; may be given several times")
    arguments = parser.parse_args()
    found = 0
    cells, known = sound_cells() if not arguments.cell else others(arguments.cell)
    if arguments.only in (None, "sizes"):
        found += sizes(cells, known, arguments.draws)
    if arguments.only in (None, "faults") and not arguments.cell:
        faults(arguments.draws)
    if arguments.only in (None, "claims"):
        found += claims(cells, known, arguments.draws)
    return int(found > 0)


def sound_cells() -> tuple[Cells, Known]:
    """The suite's own, and what claims rightly hold against some."""
    from sound import NOT_QUITE, SOUND

    return SOUND, NOT_QUITE


def others(specs: list[str]) -> tuple[Cells, Known]:
    """Cells as of `--cell`, and what expectations.toml says of them."""
    from fixtures import catalogue, own_cell

    cells = {spec: replace(own_cell.load(spec), name=spec) for spec in specs}
    claims = {spec: catalogue.load(ROOT, "cpu", spec).claims for spec in specs}
    return cells, {spec: {name for name, claim in of.items() if claim["entry"]} for spec, of in claims.items()}


def sizes(cells: Cells, known: Known, draws: int) -> int:
    """Sound cells at sizes from 1 to 200."""
    import torch
    from sound import Said, sweep
    from sound.run import CORNERS, shapes

    from fixtures.guarded import CannotDo

    found, cannot = 0, set()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        said, start = Said(), time.monotonic()
        for draw in range(draws):
            for subject in cells.values():
                for shape in (*(CORNERS if draw == 0 else ()), *shapes(draw)):
                    try:
                        said.add(sweep(subject, draw, shape))
                    except CannotDo as error:
                        cannot.add(str(error))
        if said.checks:
            found += told(f"sizes, draws 0 to {draws - 1}, threads: {threads}", said, start, cells, known)
    torch.set_num_threads(1)
    for reason in sorted(cannot):
        print(f"sizes: left out: {reason}")
    return found


def claims(cells: Cells, known: Known, draws: int) -> int:
    """Sound cells under every claim that takes a draw."""
    from sound import Said, run

    said, start = Said(), time.monotonic()
    for draw in (*range(1, draws), 0):  # the gate's own asks every claim, and takes the longest
        with quiet():
            one = run(cells.values(), draw, threads=1 + draw % 2)
        said.add(one)
        used = ", ".join(f"{one.worst(dtype).used:.3f} of the tolerance in {dtype}" for dtype in formats(one))
        print(f"  draw {draw}: {one.checks} checks, {len(one.alarms)} alarms, {used}", file=sys.stderr, flush=True)
        for alarm in one.alarms:
            print(f"    {alarm}", file=sys.stderr, flush=True)
    return told(f"claims, draws 0 to {draws - 1}", said, start, cells, known)


def told(what: str, said: object, start: float, cells: Cells, known: Known) -> int:
    """Print what a part found."""
    from sound import Said

    assert isinstance(said, Said)
    print(f"{what}: {len(cells)} sound cells, {said.checks} checks, {time.monotonic() - start:.0f} s", flush=True)
    for dtype in formats(said):
        print(f"  {said.worst(dtype)}")
        by_claim: dict[str, float] = {}
        for margin in said.margins:
            if margin.dtype == dtype:
                by_claim[margin.claim] = max(by_claim.get(margin.claim, 0.0), margin.used)
        for claim, used in sorted(by_claim.items(), key=lambda pair: -pair[1])[1:5]:
            print(f"    {used:.3f} {claim}")
    false = [alarm for alarm in said.alarms if alarm.claim not in known.get(alarm.subject, ())]
    print(f"  false alarms: {len(false)}")
    for alarm in false:
        print(f"    {alarm}")
    sys.stdout.flush()
    return len(false)


def formats(said: Any) -> list[str]:
    """The number formats in which something was measured."""
    return [dtype for dtype in FORMATS if any(margin.dtype == dtype for margin in said.margins)]


def faults(draws: int) -> None:
    """Numerical faults, and the smallest error in one gate that is seen."""
    from sound.faults import GATES_OF, NUMERICAL, one_gate_off, seen

    print("numerical faults: how many times the tolerance their largest error is, at the least over the draws")
    for name, fault in NUMERICAL.items():
        print(f"  {name:24}" + least(lambda draw, fault=fault: seen(fault, draw), draws, "{:10.3g}"))
    print("the relative error in one gate at which the largest error reaches its tolerance, at the most over the draws")
    for kind, gates in GATES_OF.items():
        for gate in gates:
            for size in (1e-3,):
                fault = one_gate_off(kind, gate, size)
                row = [min(seen(fault, draw)[dtype].used for draw in range(draws)) for dtype in FORMATS]
                print(f"  {fault.name:24}" + "".join(f"{size / used:10.2g}" for used in row))
    print("  " + " " * 24 + "".join(f"{dtype:>10}" for dtype in FORMATS), flush=True)


def least(measure: Callable[[int], dict[str, object]], draws: int, form: str) -> str:
    """The least of what a measurement finds, by number format."""
    found = [measure(draw) for draw in range(draws)]
    return "".join(form.format(min(one[dtype].used for one in found)) for dtype in FORMATS)  # type: ignore[attr-defined]


class quiet:
    """The claims' own output goes nowhere."""

    def __enter__(self) -> None:
        sys.stdout.flush()
        self.kept = os.dup(1)
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 1)

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()
        os.dup2(self.kept, 1)
        os.close(self.kept)


if __name__ == "__main__":
    raise SystemExit(main())
