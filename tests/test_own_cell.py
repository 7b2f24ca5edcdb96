"""`--cell`: somebody's own cell as a subject, and what is said of one that cannot be."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from mini import SCHEMA, outcomes, verdicts
from own import claims

from fixtures import WrongCall, own_cell
from fixtures.settings import Draw
from fixtures.subjects import BUILT_IN

CELLS = '''
import torch
from torch import nn

import beside


class Derived(nn.LSTM):
    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size, batch_first=True)

class Plain(nn.RNN):
    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size, batch_first=True)

def made_gru(input_size, hidden_size):
    return nn.GRU(input_size, hidden_size, batch_first=True)

class Written(nn.Module):
    """An LSTM written out, with the names of torch.nn's parameters."""

    def __init__(self, D, H):
        super().__init__()
        self.weight_ih_l0, self.bias_ih_l0 = nn.Parameter(torch.zeros(4 * H, D)), nn.Parameter(torch.zeros(4 * H))
        self.weight_hh_l0, self.bias_hh_l0 = nn.Parameter(torch.zeros(4 * H, H)), nn.Parameter(torch.zeros(4 * H))

    def forward(self, x, state=None):
        zero = x.new_zeros(1, len(x), self.weight_hh_l0.shape[1])
        h, c = (s[0] for s in (state or (zero, zero)))
        outputs = []
        for x_t in x.unbind(1):
            a = x_t @ self.weight_ih_l0.T + self.bias_ih_l0 + h @ self.weight_hh_l0.T + self.bias_hh_l0
            i, f, g, o = a.chunk(4, 1)
            c = self.gate(f) * c + self.gate(i) * g.tanh()
            h = self.gate(o) * self.read(c)
            outputs.append(h)
        return torch.stack(outputs, 1), (h[None], c[None])

    def gate(self, a):
        return a.sigmoid()

    def read(self, c):
        return c.tanh()

class Shutting(Written):
    def gate(self, a):
        return torch.where(a < -30, 0.0, a.sigmoid())

class WithoutTanh(Written):
    def read(self, c):
        return c

class Told(Written):
    kind = "lstm"

class ToldWrongly(Written):
    kind = "gru"

class OfAnotherKind(Written):
    kind = "mamba"

class Late:
    """Builds its cell from a module that it imports only now."""

    def __new__(cls, input_size, hidden_size):
        import beside_too
        return made_gru(input_size, hidden_size)

number = 3

def words(input_size, hidden_size):
    return "an LSTM"

def breaks(input_size, hidden_size):
    raise ValueError("no such size\\nand more")

def picky(input_size, hidden_size):
    assert hidden_size == 7

def linear(input_size, hidden_size):
    return nn.Linear(input_size, hidden_size)

def gives_up(input_size, hidden_size):
    raise SystemExit("no")

built = nn.LSTM(3, 5, batch_first=True)

def of_one_size(size):
    return nn.LSTM(size, size, batch_first=True)

def deep(input_size, hidden_size):
    return nn.LSTM(input_size, hidden_size, 2, batch_first=True)

def both_ways(input_size, hidden_size):
    return nn.LSTM(input_size, hidden_size, batch_first=True, bidirectional=True)

def projected(input_size, hidden_size):
    return nn.LSTM(input_size, hidden_size, batch_first=True, proj_size=2)

def without_biases(input_size, hidden_size):
    return nn.LSTM(input_size, hidden_size, batch_first=True, bias=False)
'''


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with cells, and its imports beside it."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("beside", "beside_too"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        (tmp_path / f"{name}.py").write_text("", encoding="utf-8")
    path = tmp_path / "cells.py"
    path.write_text(CELLS, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Derived", "lstm"), ("Plain", "rnn"), ("made_gru", "gru"), ("Written", "lstm"), ("Told", "lstm"),
        ("Late", "gru"),
    ],
)  # fmt: skip
def test_a_drop_in_is_a_subject_like_the_built_in_ones(cells: Path, name: str, kind: str) -> None:
    own = own_cell.load(f"{cells}:{name}")
    assert (own.name, own.kind) == (name, kind)
    known = next(subject for subject in BUILT_IN if subject.kind == kind)
    draw = Draw(3)
    weights, x, pull = draw.weights(kind), draw.inputs(), {"h": draw.upstream(3, 7)}
    start = draw.start(known)
    mine, theirs = (subject(weights).run(x, *start) for subject in (own, known))
    np.testing.assert_allclose(mine.outputs, theirs.outputs, atol=1e-6)
    [my_gradients], [their_gradients] = (subject(weights).gradients(x, *start, pull) for subject in (own, known))
    np.testing.assert_allclose(my_gradients.x, their_gradients.x, atol=1e-6)


def test_a_cell_may_be_named_by_its_module(cells: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = cells.parent / "somebodys"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "nets.py").write_text(CELLS, encoding="utf-8")
    monkeypatch.syspath_prepend(str(cells.parent))
    assert own_cell.load("somebodys.nets:Derived").kind == "lstm"


@pytest.mark.parametrize("name", ["report", "torch", "fixtures", "random"])
def test_a_file_shadows_no_module_of_its_name(cells: Path, name: str) -> None:
    before = sys.modules.get(name)
    own_cell.load(f"{cells.rename(cells.with_name(f'{name}.py'))}:Derived")
    assert sys.modules.get(name) is before
    assert own_cell.load.__module__ == "fixtures.own_cell"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("cells.py", "write package.module:NAME or path/to/file.py:NAME"),
        (":Derived", "write package.module:NAME or path/to/file.py:NAME"),
        ("cells.py:", "write package.module:NAME or path/to/file.py:NAME"),
        ("cells.py:Derived(3)", "write package.module:NAME or path/to/file.py:NAME"),
        ("none.py:Derived", "there is no file none.py"),
        ("no_such.module:Derived", "importing no_such.module raised ModuleNotFoundError: No module named 'no_such'"),
        ("cells.py:Drived", "cells.py has no callable Drived"),
        ("cells.py:number", "cells.py has no callable number"),
        ("broken.py:Derived", "importing broken.py raised ZeroDivisionError: division by zero"),
        ("unfinished.py:Derived", "importing unfinished.py raised SyntaxError: "),
        ("opens.py:Derived", "importing opens.py raised FileNotFoundError: "),
        ("cells.py:breaks", "breaks(3, 5) raised ValueError: no such size"),
        ("cells.py:picky", "picky(3, 5) raised AssertionError"),
        ("leaves.py:Derived", "importing leaves.py called sys.exit(3)"),
        ("cells.py:gives_up", "gives_up(3, 5) called sys.exit('no')"),
        ("cells.py:built", "built is a module already; it has to be what builds one, built(input_size, hidden_size)"),
        ("cells.py:of_one_size", "of_one_size(3, 5) raised TypeError: of_one_size() takes 1 positional argument but 2"),
        ("cells.py:deep", "it has a second layer, weight_ih_l1; a drop-in has one"),
        ("cells.py:both_ways", "it is bidirectional; a drop-in runs forwards alone"),
        ("cells.py:words", "words(input_size, hidden_size) returned str, neither a torch.nn.Module nor an adapter"),
        ("cells.py:linear", "a drop-in has the parameters of a one-layer torch.nn.LSTM; weight_ih_l0 is missing"),
        ("cells.py:without_biases", "a drop-in has the parameters of a one-layer torch.nn.LSTM; bias_ih_l0 is missing"),
        ("cells.py:projected", "weight_hh_l0 is (20, 2); of kind lstm with 5 units it is (20, 5)"),
        ("cells.py:ToldWrongly", "weight_hh_l0 is (20, 5); of kind gru with 5 units it is (15, 5)"),
        ("cells.py:OfAnotherKind", "weight_hh_l0 is (20, 5), and kind is none of rnn, lstm, gru"),
    ],
)
def test_what_is_no_cell_is_told_in_one_line(
    cells: Path, monkeypatch: pytest.MonkeyPatch, spec: str, says: str
) -> None:
    monkeypatch.chdir(cells.parent)
    Path("broken.py").write_text("1 / 0\n", encoding="utf-8")
    Path("unfinished.py").write_text("class Derived(:\n", encoding="utf-8")
    Path("leaves.py").write_text("import sys; sys.exit(3)\n", encoding="utf-8")
    Path("opens.py").write_text("open('no such file')\n", encoding="utf-8")
    with pytest.raises(WrongCall, match=re.escape(f"--cell {spec}: {says}")) as wrong:
        own_cell.load(spec)
    assert "\n" not in str(wrong.value)


def test_claims_about_other_kinds_are_not_applicable_to_a_cell(cells: Path) -> None:
    run, path = claims(cells, "Written", "claims/test_carousel.py", "-k", "frozen or constant or shuts", "-n", "0")
    report = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(report, SCHEMA)
    assert run.returncode == report["exit_status"] == 0, run.stdout
    assert report["cell"] == "Written"
    assert {path.suffix for path in cells.parent.glob("claims-cpu-Written.*")} == {".html", ".json", ".jsonl"}
    by_id = {claim["id"]: claim for claim in report["claims"]}
    frozen = by_id["carousel.deck-gru-is-frozen"]
    assert (frozen["verdict"], frozen["unexpected"]) == ("not-applicable", False)
    assert frozen["because"] == "Written is of kind lstm; this claim is about gru-deck"
    kept = by_id["carousel.error-is-constant"]
    assert kept["verdict"] == "upheld"
    assert {check["subject"] for check in kept["checks"]} == {"Written"}
    assert by_id["carousel.minus-forty-is-zero"]["verdict"] == "refuted", "of every cell that computes σ"


def test_a_cell_may_keep_what_the_documents_promise_and_others_break(cells: Path) -> None:
    run, path = claims(cells, "Shutting", "claims/test_carousel.py", "-k", "shuts", "-n", "0")
    report = json.loads(path.read_text(encoding="utf-8"))
    assert run.returncode == report["exit_status"] == 0, run.stdout
    assert verdicts(report) == {"carousel.minus-forty-is-zero": "upheld"}
    assert set(outcomes(report).values()) == {"xpassed"}
    assert report["totals"]["unexpected"] == 0


def test_a_cell_that_breaks_a_claim_is_refuted_by_name(cells: Path) -> None:
    run, path = claims(cells, "WithoutTanh", "claims/test_cells.py", "-k", "one_step_is", "-n", "0")
    report = json.loads(path.read_text(encoding="utf-8"))
    assert run.returncode == report["exit_status"] == 1
    assert verdicts(report)["cells.step-parity"] == "refuted"
    assert "failed" in outcomes(report).values()
    assert "cells.step-parity: refuted, expected upheld" in run.stdout
    assert f"--cell {cells}:WithoutTanh" in run.stdout, "how to run it again"


def test_trained_weights_run_in_the_cell_that_was_trained(cells: Path) -> None:
    """Networks of its kind are the cell, during training and after."""
    asked = ("claims/test_inside.py", "-k", "reproduce and lstm-80", "-n", "0", "--seeds", "1")
    run, path = claims(cells, "Written", *asked)
    report = json.loads(path.read_text(encoding="utf-8"))
    assert run.returncode == 0, run.stdout
    assert {check["subject"] for claim in report["claims"] for check in claim["checks"]} == {"Written"}
    broken, path = claims(cells, "WithoutTanh", *asked)
    assert broken.returncode == 1, broken.stdout
    assert verdicts(json.loads(path.read_text(encoding="utf-8")))["inside.reproduced"] == "refuted"


def test_a_cell_that_is_none_is_a_wrong_call(cells: Path) -> None:
    run, path = claims(cells, "breaks", "-n", "2")
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert run.stderr.strip() == f"ERROR: --cell {cells}:breaks: breaks(3, 5) raised ValueError: no such size"
    assert not path.exists()
