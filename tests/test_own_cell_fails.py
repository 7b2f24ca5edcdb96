"""Cells that raise, exit, hang, kill their process or return what nobody can read: a verdict and a line, every time."""

from __future__ import annotations

import json
import re
import signal
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from own import by_id, claims

from fixtures import WrongCall, first_call, guarded, own_cell
from fixtures.guarded import CellFailed, CellRaised, calling, patience
from fixtures.settings import Draw
from report import sentence

CELLS = """
import itertools, os, sys, time
import torch
from torch import nn

print("imported")

class Sound(nn.LSTM):
    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size, batch_first=True)

class Raises(Sound):
    def forward(self, x, state=None):
        raise ValueError("no such thing\\nand more")

class Exits(Sound):
    def forward(self, x, state=None):
        sys.exit(0)

class Skips(Sound):
    def forward(self, x, state=None):
        import pytest
        pytest.skip("today")

class OnlyOutputs(Sound):
    def forward(self, x, state=None):
        return super().forward(x, state)[0]

class OnlyH(Sound):
    def forward(self, x, state=None):
        outputs, (h, c) = super().forward(x, state)
        return outputs, h

class Narrow(Sound):
    def forward(self, x, state=None):
        outputs, last = super().forward(x, state)
        return outputs[..., 1:], last

class Flat(Sound):
    def forward(self, x, state=None):
        outputs, (h, c) = super().forward(x, state)
        return outputs, (h[0], c)

class Reversing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, pulled):
        raise NotImplementedError("not yet")

class Backward(Sound):
    def forward(self, x, state=None):
        outputs, last = super().forward(x, state)
        return Reversing.apply(outputs), last

class Half(Sound):
    def forward(self, x, state=None):
        outputs, (h, c) = super().forward(x, state)
        return outputs.half(), (h.half(), c.half())

class Brain(Sound):
    def forward(self, x, state=None):
        outputs, (h, c) = super().forward(x, state)
        return outputs.bfloat16(), (h.bfloat16(), c.bfloat16())

class Nan(Sound):
    def forward(self, x, state=None):
        outputs, (h, c) = super().forward(x, state)
        return outputs * float("nan"), (h * float("nan"), c * float("nan"))

class Prints(Sound):
    def __init__(self, input_size, hidden_size):
        import warnings
        warnings.warn("on its way out", DeprecationWarning)
        super().__init__(input_size, hidden_size)

    def forward(self, x, state=None):
        import warnings
        warnings.warn("slow")
        print("called")
        return super().forward(x, state)

class Ends(Sound):
    def forward(self, x, state=None):
        os._exit(0)

class EndsWhenWide(Sound):
    def forward(self, x, state=None):
        return os._exit(0) if self.hidden_size == 127 else super().forward(x, state)

class WaitsWhenWide(Sound):
    def forward(self, x, state=None):
        while self.hidden_size == 127:
            pass
        return super().forward(x, state)

class SticksWhenWide(Sound):
    def forward(self, x, state=None):
        if self.hidden_size == 127:
            sum(itertools.repeat(0, 10**14))
        return super().forward(x, state)

class RaisesWhenWide(Sound):
    def __init__(self, input_size, hidden_size):
        assert hidden_size != 127, "too wide"
        super().__init__(input_size, hidden_size)

class Waits(Sound):
    def forward(self, x, state=None):
        time.sleep(1000)

def never(input_size, hidden_size):
    time.sleep(1000)

def gone(input_size, hidden_size):
    os.abort()

class TrainsNot(Sound):
    def forward(self, x, state=None):
        if self.training and x.shape[0] == 128:
            raise RuntimeError("out of memory")
        return super().forward(x, state)
"""


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with cells."""
    path = tmp_path_factory.mktemp("own") / "cells.py"
    path.write_text(CELLS, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Raises", "Raises raised ValueError: no such thing"),
        ("Exits", "Exits called sys.exit(0)"),
        ("Skips", "Skips raised Skipped: today"),
        ("OnlyOutputs", "OnlyOutputs returned a tensor; outputs and the last state are due"),
        ("OnlyH", "OnlyH returned a tensor as its state; a pair (h, c) is due"),
        ("Narrow", "Narrow returned outputs of shape (3, 5, 6); (3, 5, 7) is due"),
        ("Flat", "Flat returned h of shape (3, 7); (1, 3, 7) is due"),
        ("Backward", "Backward raised NotImplementedError: not yet"),
    ],
)
def test_what_a_cell_does_wrong_is_told_in_its_own_words(cells: Path, name: str, says: str) -> None:
    draw, own = Draw(3), own_cell.load(f"{cells}:{name}")
    x, start = draw.inputs(), draw.start(own)
    loaded = own(draw.weights("lstm"))
    with pytest.raises(CellFailed, match=f"^{re.escape(says)}$") as failed:
        loaded.gradients(x, *start, {"outputs": draw.upstream(3, 5, 7)})
    assert isinstance(failed.value, CellRaised) == (name in ("Raises", "Backward"))
    if name == "Raises":
        assert 'raise ValueError("no such thing' in failed.value.where
        assert "fixtures" not in failed.value.where


def test_a_cell_may_print_and_warn(cells: Path) -> None:
    draw, own = Draw(3), own_cell.load(f"{cells}:Prints")
    with pytest.raises(UserWarning):
        warnings.warn("what is not the cell's is an error here", stacklevel=1)
    assert own(draw.weights("lstm")).run(draw.inputs()).outputs.shape == (3, 5, 7)


@pytest.mark.parametrize(("name", "formats"), [("Half", "float16"), ("Brain", "float32")])
def test_outputs_in_another_format_are_measured(cells: Path, name: str, formats: str) -> None:
    draw, own = Draw(3), own_cell.load(f"{cells}:{name}")
    x, start, loaded = draw.inputs(), draw.start(own), own(draw.weights("lstm"))
    assert str(loaded.run(x, *start).outputs.dtype) == formats
    [found] = loaded.gradients(x, *start, {"outputs": draw.upstream(3, 5, 7)})
    assert np.isfinite(found.x).all()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("never", "never hung for 1 s when it was imported and built"),
        ("gone", "gone ended its process, by SIGABRT, when it was imported and built"),
        ("Waits", "Waits hung for 1 s when it was first called"),
        ("Ends", "Ends ended its process, status 0, when it was first called"),
        ("nothing", "{cells} has no callable nothing"),
    ],
)
def test_a_first_call_that_hangs_or_kills_is_a_wrong_call(cells: Path, name: str, says: str) -> None:
    seconds = 1.0 if "hung" in says else 60.0
    with pytest.raises(WrongCall) as wrong:
        first_call.made(f"{cells}:{name}", "cpu", seconds)
    assert str(wrong.value) == f"--cell {cells}:{name}: {says.format(cells=cells)}"


@pytest.mark.parametrize("name", ["Sound", "Raises", "Exits", "Nan", "Prints"])
def test_what_can_be_called_is_left_to_the_claims(cells: Path, name: str) -> None:
    first_call.made(f"{cells}:{name}", "cpu", 60.0)


def test_a_first_call_that_hung_leaves_earlier_reports_alone(cells: Path) -> None:
    asked = ("claims/test_cells.py", "--cell-timeout", "1", "-n", "2")
    run, path = claims(cells, "Waits", *asked)
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert run.stderr.strip() == f"ERROR: --cell {cells}:Waits: Waits hung for 1 s when it was first called"
    assert not path.exists()


def test_a_timeout_has_to_be_one(cells: Path) -> None:
    run, _ = claims(cells, "Sound", "--cell-timeout", "0")
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert run.stderr.strip() == "ERROR: --cell-timeout 0: a call needs more than 0 seconds"


def test_a_call_that_takes_too_long_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded, "_hangs", 0)
    for _ in range(guarded.OFTEN):
        says = r"^It hung: a call had not returned after 0.2 s$"
        with pytest.raises(CellFailed, match=says), patience(0.2), calling("It"):
            time.sleep(100)
    with pytest.raises(CellFailed, match="It hung 2 times before and was not called again"), calling("It"):
        pytest.fail("it was called again")
    with patience(0.2):
        pass
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0  # nothing is left that could go off


def test_each_call_has_its_own_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    with patience(1000):
        for _ in range(4):
            signal.setitimer(signal.ITIMER_REAL, 500)  # as if half of it had passed
            monkeypatch.setattr(guarded, "_armed_at", guarded._armed_at - 500)
            with calling("It"):
                assert signal.getitimer(signal.ITIMER_REAL)[0] > 900


def test_what_a_cell_raises_is_shown_once(cells: Path) -> None:
    run, path = claims(cells, "Raises", "claims/test_cells.py", "claims/test_cells_calls.py", "-n", "0")
    report = json.loads(path.read_text(encoding="utf-8"))
    assert run.returncode == report["exit_status"] == 1
    missing = [claim for claim in report["claims"] if claim["verdict"] == "missing"]
    assert len(missing) > 10
    assert {claim["because"] for claim in missing} == {"Raises raised ValueError: no such thing"}
    [(told, checks)] = sentence.failures(report)
    assert f"{told}, in {checks} checks." in run.stdout
    assert f"{told}: so in {checks} checks" in run.stdout
    assert run.stdout.count(told) == 4, "where it comes from, with the number, in the verdict and in the diagnosis"
    assert 'raise ValueError("no such thing' in run.stdout
    assert "fixtures/subjects.py" not in run.stdout
    assert f"{checks} failed" in run.stdout.splitlines()[-1]


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_cell_that_kills_its_process_ends_no_run_as_a_pass(cells: Path, workers: str) -> None:
    asked = ("claims/test_cells.py", "-k", "one_step or empty", "-n", workers)
    run, path = claims(cells, "EndsWhenWide", *asked)
    report = json.loads(path.read_text(encoding="utf-8"))
    assert run.returncode == 1
    assert report["exit_status"] != 0
    assert by_id(report)["cells.step-parity"]["verdict"] == "missing"
    test = "claims/test_cells.py::test_one_step_is_the_equations[EndsWhenWide-float32]"
    if workers == "0":
        assert f"EndsWhenWide ended the process, status 0, in {test}; what had not reported" in run.stderr
    else:
        assert by_id(report)["cells.step-parity"]["because"] == "EndsWhenWide ended its process"
        assert "EndsWhenWide ended its process, in 2 checks" in run.stdout


def test_a_cell_that_hangs_at_some_size_is_missing_there(cells: Path) -> None:
    asked = ("claims/test_cells.py", "-k", "one_step or omitted", "-n", "0", "--cell-timeout", "5")
    run, path = claims(cells, "WaitsWhenWide", *asked)
    found = by_id(json.loads(path.read_text(encoding="utf-8")))
    assert run.returncode == 1
    assert found["cells.step-parity"]["verdict"] == "missing"
    assert found["cells.step-parity"]["because"] == "WaitsWhenWide hung: a call had not returned after 5 s"


def test_a_cell_that_hangs_for_good_is_ended(cells: Path) -> None:
    """It cannot be interrupted, being in C; its process is ended."""
    asked = ("claims/test_cells.py", "-k", "one_step and float32", "-n", "1", "--cell-timeout", "5")
    run, path = claims(cells, "SticksWhenWide", *asked)
    report = json.loads(path.read_text(encoding="utf-8"))
    assert run.returncode == 1
    because = by_id(report)["cells.step-parity"]["because"]
    assert re.fullmatch(r"SticksWhenWide hung for \d+ s and was ended", because), because


def test_a_cell_that_cannot_be_built_at_some_size_is_missing_there(cells: Path) -> None:
    run, path = claims(cells, "RaisesWhenWide", "claims/test_cells.py", "-k", "one_step or omitted", "-n", "0")
    found = by_id(json.loads(path.read_text(encoding="utf-8")))
    assert run.returncode == 1
    assert found["cells.step-parity"]["because"] == "RaisesWhenWide raised AssertionError: too wide"
    assert found["cells.omitted-state"]["verdict"] == "upheld"


def test_nan_is_refuted_and_what_a_check_cannot_go_on_with_is_told(cells: Path) -> None:
    run, path = claims(cells, "Nan", "claims/test_cells.py", "-n", "0")
    found = by_id(json.loads(path.read_text(encoding="utf-8")))
    assert run.returncode == 1
    assert found["cells.step-parity"]["verdict"] == "refuted"
    assert {claim["verdict"] for claim in found.values()} <= {"refuted", "upheld"}
    run, path = claims(cells, "Half", "claims/test_hand_worked.py", "-n", "0")
    whys = {claim["because"] for claim in by_id(json.loads(path.read_text(encoding="utf-8"))).values()}
    assert any("Half returned what the check cannot go on with: RuntimeError" in (why or "") for why in whys), whys


def test_a_cell_that_cannot_be_trained_loses_only_what_is_trained(cells: Path) -> None:
    asked = ("claims/test_inside.py", "claims/test_cells.py", "-k", "omitted or reproduce and lstm-80", "--seeds", "1")
    run, path = claims(cells, "TrainsNot", *asked, "-n", "0")
    found = by_id(json.loads(path.read_text(encoding="utf-8")))
    assert run.returncode == 1
    assert found["inside.reproduced"]["because"] == "TrainsNot raised RuntimeError: out of memory, in training"
    assert found["cells.omitted-state"]["verdict"] == "upheld"
