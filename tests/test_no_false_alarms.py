"""The suite holds nothing against a correct cell, whatever the draw, the size, the number format and the threads.

`sound.SOUND` has the cells: the reference, torch.nn's layers on all their paths, and others written otherwise. Here a
part of it runs; `python -m tests.margins --draws 25` runs every cell under every claim over 25 draws, and over sizes
from 1 to 200 with one thread and two, and prints how much of its tolerance the worst of them used up.
"""

from __future__ import annotations

import pytest
import torch
from sound import NOT_QUITE, SOUND, Said, alarms, run, sweep
from sound.faults import GATES_OF, NUMERICAL, SMALL, one_gate_off, seen
from sound.run import CORNERS, Margin, shapes

ROOM = 0.7
"""The share of a tolerance beyond which a sound cell is too near to it."""
CELLS = ("claims/test_cells.py", "claims/test_cells_calls.py", "claims/test_cells_sizes.py")
BUILT_IN = ("torch.nn.RNN", "torch.nn.LSTM", "torch.nn.GRU")


@pytest.fixture
def threads():
    """Set the number of threads; it is afterwards what it was."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def nothing(said: Said) -> None:
    """No alarm, and room below every tolerance.

    A cell of one input and one unit needs no room: where its unit saturates, all its gradients pass a 1 - h² that is
    far smaller than its rounding.
    """
    assert said.checks
    assert not [str(alarm) for alarm in alarms(said)]
    assert not [str(margin) for margin in said.margins if margin.used > ROOM and "D 1 H 1" not in margin.claim]


@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.parametrize("draw", [1, 2, 3])
def test_claims_that_take_a_draw_hold_for_others(name, draw):
    nothing(run([SOUND[name]], draw))


def test_claims_about_the_cells_hold_for_every_sound_one():
    """Their draw is another one; the wide batches, which take long, are left to the size sweep and to the gate."""
    few = [SOUND[name] for name in SOUND if name not in BUILT_IN][::5]
    nothing(run(few, 4, tests=CELLS))


@pytest.mark.parametrize("part", range(4))
def test_sizes_from_one_to_two_hundred(part, threads):
    """Every sound cell, forward and backward, a row alone and the steps alone, at shapes of three draws."""
    said = Said()
    threads(1)
    for name in list(SOUND)[part::4]:
        for draw in (part, part + 4, part + 8):
            said.add(sweep(SOUND[name], draw, shapes(draw)[0]))
    nothing(said)


@pytest.mark.parametrize(("with_threads", "corners"), [(1, CORNERS), (2, CORNERS[1:2])])
def test_the_corners_of_the_sizes(with_threads, corners, threads):
    """1 and 200 in every place, on torch's kernels, which split their work by size and threads."""
    said = Said()
    threads(with_threads)
    for name in (*BUILT_IN, "LSTM.WithoutOneDNN", "GRU.WithoutOneDNN"):
        for shape in corners:
            said.add(sweep(SOUND[name], 0, shape))
    nothing(said)


def test_what_is_held_against_a_sigma_by_tanh_is_about_its_tail():
    """σ(-40) is 4.2e-18, and (1 + tanh(-20)) / 2 is 0: the printed figures are missed, and rightly."""
    ((name, claims),) = NOT_QUITE.items()
    said = run([SOUND[name]], 0, tests=("claims/test_carousel.py", "claims/test_forced_gates.py"))
    assert {alarm.claim for alarm in said.alarms} == claims


@pytest.mark.parametrize("name", sorted(NUMERICAL))
def test_a_fault_of_precision_lies_beyond_every_doubt(name):
    """Float32 with fewer digits somewhere: twice the tolerance or more at one shape, ten times for half formats."""
    fault = NUMERICAL[name]
    for draw in range(2):
        used = seen(fault, draw)
        assert used["float32"].used > (2 if name.startswith("FiveDecimals") else 10)
        assert used["float64"].used > 1e6


@pytest.mark.parametrize(("kind", "gate"), [(kind, gate) for kind, gates in GATES_OF.items() for gate in gates])
def test_the_smallest_error_of_a_gate_that_is_seen(kind, gate):
    """A relative error of 1e-5 in one gate is seen in float32, and one of 1e-13 in float64."""
    assert seen(one_gate_off(kind, gate, 1e-5), 0)["float32"].used > 1
    assert seen(one_gate_off(kind, gate, 1e-13), 0)["float64"].used > 1


def test_a_rerun_takes_another_draw():
    """A cell that is wrong for one draw only shows that a rerun has other probes than the gate's own."""
    used = {draw: run([SOUND["torch.nn.RNN"]], draw, tests=CELLS) for draw in (5, 6)}
    assert used[5].checks == used[6].checks > 0
    assert {(m.claim, m.figure, m.dtype, m.used) for m in used[5].margins} != {
        (m.claim, m.figure, m.dtype, m.used) for m in used[6].margins
    }


def test_an_alarm_is_told():
    """The reruns see what they are there for: a cell a little off raises alarms, and misses its tolerance."""
    off = one_gate_off("lstm", "forget", 1e-4)
    said = run([off], 5, tests=CELLS)
    assert {"cells.step-parity", "cells.sequence-parity"} <= {alarm.claim for alarm in said.alarms}
    assert said.worst("float32").used > 1
    assert isinstance(said.worst("float64"), Margin)
    assert sweep(off, 0, SMALL).alarms
