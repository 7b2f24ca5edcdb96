"""Adapters: the README's own, and what an adapter cannot do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from mini import ROOT, SCHEMA
from own import by_id, claims

from fixtures import WrongCall, own_cell
from fixtures.guarded import CannotDo, CellFailed
from fixtures.settings import Draw
from reference import oracle
from reference.weights import Block, Weights

LINES = 25


def shown_in_the_readme() -> str:
    """The adapter that the README shows."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [shown] = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "def load" in block]
    return str(shown)


class Oracle:
    """The oracle behind the protocol: an adapter for any kind."""

    kind = "lstm"

    def __init__(self, input_size: int, hidden_size: int) -> None:
        self.weights: Weights | None = None

    def load(self, weights: dict[str, dict[str, Any]], dtype: str) -> None:
        self.weights, self.dtype = Weights(self.kind, {g: Block(**own) for g, own in weights.items()}), dtype

    def run(self, x: Any, h: Any, c: Any) -> Any:
        assert x.dtype == np.dtype(self.dtype)
        assert self.weights is not None
        tape = oracle.forward(self.weights, x, h, c)
        ends = (tape.h[:, 1:], tape.h[:, -1], None if tape.c is None else tape.c[:, -1])
        return tuple(None if end is None else end.astype(self.dtype) for end in ends)

    def gradients(self, x: Any, h: Any, c: Any, upstream: dict[str, Any]) -> dict[str, Any]:
        assert self.weights is not None
        found = oracle.backward(oracle.forward(self.weights, x, h, c), **upstream)
        states = {"x": found.x, "h": found.h} | ({} if found.c is None else {"c": found.c})
        return states | found.parameters


def of(kind: str, /, **more: Any) -> Any:
    """The oracle as an adapter of a kind, with what else it has or does."""
    return type("Made", (Oracle,), {"kind": kind} | more)


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru", "gru-reset-before", "lstm-peephole"])
def test_an_adapter_is_a_subject_like_any_other(kind: str) -> None:
    cell, draw = own_cell.subject("Made", of(kind)), Draw(3)
    assert (cell.name, cell.kind, cell.trains) == ("Made", kind, False)
    weights, x, start = draw.weights(kind), draw.inputs(), draw.start(cell)
    loaded, truth = cell(weights), oracle.forward(weights, x, *start)
    run = loaded.run(x, *start)
    assert run.outputs.dtype == np.float32
    np.testing.assert_allclose(run.outputs, truth.h[:, 1:], atol=1e-6)
    assert (run.c is None) == (truth.c is None)
    pulls = [{"outputs": draw.upstream(3, 5, 7)}, {"h": draw.upstream(3, 7)}]
    for pull, found in zip(pulls, loaded.gradients(x, *start, *pulls), strict=True):
        slopes = oracle.backward(truth, **pull)
        np.testing.assert_allclose(found.x, slopes.x, atol=1e-6)
        for name, slope in slopes.parameters.items():
            np.testing.assert_allclose(found.parameters[name], slope, atol=1e-5)
    [alone] = loaded.gradients(x, *start, pulls[0], of_inputs=False)
    assert alone.x.size == alone.h.size == 0
    assert loaded.jacobian(x[:1], *(s if s is None else s[:1] for s in start), of="h", wrt="h").shape == (7, 7)


def test_what_an_adapter_cannot_do_is_said() -> None:
    draw = Draw(3)
    cell = own_cell.subject("Made", of("gru", gradients=None, omits_state=False, dtypes="float32"))
    assert cell.dtypes == ("float32",)
    loaded, x, h = cell(draw.weights("gru")), draw.inputs(), draw.state()
    with pytest.raises(CannotDo, match="Made gives no gradients"):
        loaded.gradients(x, h, None, {"h": h})
    with pytest.raises(CannotDo, match="Made takes no call without a state"):
        loaded.run(x)
    with pytest.raises(CannotDo, match="Made is an adapter, with no parameters of its own to count"):
        loaded.parameter_count()


def test_an_adapter_is_put_on_the_device() -> None:
    seen: list[str] = []
    own_cell.subject("Made", of("gru", to=lambda self, device: seen.append(device)))(Draw(3).weights("gru"))
    assert seen == ["cpu"]


def test_an_adapter_that_changes_its_weights_is_seen_to() -> None:
    def run(self: Any, x: Any, h: Any, c: Any) -> Any:
        self.weights["reset"].b_h[:] = 3.0
        return Oracle.run(self, x, h, c)

    loaded = own_cell.subject("Made", of("gru", run=run))(Draw(3).weights("gru"))
    before = loaded.parameters()
    loaded.run(Draw(3).inputs())
    assert not np.array_equal(loaded.parameters()["reset.b_h"], before["reset.b_h"])


def lacking(self: Any, x: Any, h: Any, c: Any, upstream: dict[str, Any]) -> dict[str, Any]:
    found = Oracle.gradients(self, x, h, c, upstream)
    del found["update.W_h"]
    return found


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"run": lambda *_: 1.0}, "Made's run returned float; a triple (outputs, h, c) is due"),
        ({"run": lambda *_: (np.zeros(3), None, None)}, "Made returned outputs of shape (3,); (3, 5, 7) is due"),
        ({"run": lambda *_: (np.zeros((3, 5, 7)), None, None)}, "Made returned h of nothing; (3, 7) is due"),
        ({"run": lambda *_: [][0]}, "Made raised IndexError: list index out of range"),
        ({"load": lambda *_: {}["W"]}, "Made raised KeyError: 'W'"),
        ({"gradients": lacking}, "Made's gradients lack update.W_h"),
        ({"gradients": lambda *_: None}, "Made's gradients returned NoneType; a dictionary by name is due"),
    ],
)
def test_what_an_adapter_does_wrong_is_told_in_one_line(more: dict[str, Any], says: str) -> None:
    draw = Draw(3)
    with pytest.raises(CellFailed, match=f"^{re.escape(says)}$"):
        loaded = own_cell.subject("Made", of("gru", **more))(draw.weights("gru"))
        loaded.run(draw.inputs(), draw.state())
        loaded.gradients(draw.inputs(), draw.state(), None, {"h": draw.state()})


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"kind": "mamba"}, "an adapter says what it is; kind is 'mamba', and has to be one of rnn, lstm, "),
        ({"kind": None}, "an adapter says what it is; kind is None"),
        ({"dtypes": ("float16",)}, "dtypes is ('float16',); it has to name float32, float64 or both"),
        ({"run": None}, "neither a torch.nn.Module nor an adapter with kind, load and run"),
    ],
)
def test_what_is_no_adapter_is_a_wrong_call(more: dict[str, Any], says: str) -> None:
    with pytest.raises(WrongCall, match=re.escape(says)):
        own_cell.subject("Made", of("gru", **more))


def test_the_readmes_adapter_is_short_and_upholds_the_claims(tmp_path: Path) -> None:
    shown = shown_in_the_readme()
    assert len(shown.splitlines()) <= LINES
    (tmp_path / "cells.py").write_text(shown, encoding="utf-8")
    modules = ("cells", "parameters", "inside", "hand_worked")
    asked = [f"claims/test_{module}.py" for module in modules]
    run, path = claims(tmp_path / "cells.py", "FusedLSTM", *asked, "-n", "2")
    report = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(report, SCHEMA)
    assert run.returncode == report["exit_status"] == 0, run.stdout
    found = by_id(report)
    assert {found[name]["verdict"] for name in found if name.startswith("cells.")} == {"upheld"}
    assert {check["subject"] for check in found["cells.gradient-parity"]["checks"]} == {"FusedLSTM"}
    assert found["hand-worked.ten-matrices"]["verdict"] == "upheld", "a network in torch around the adapter"
    of_training = found["inside.reproduced"]
    assert of_training["verdict"] == "not-applicable"
    assert of_training["because"] == "FusedLSTM is an adapter; networks are trained with drop-ins alone"
    whys = {claim["because"] for claim in report["claims"] if claim["verdict"] == "not-applicable"}
    assert "FusedLSTM is an adapter, with no parameters of its own to count" in whys


FORWARD = """

class Forward(FusedLSTM):
    gradients, dtypes = None, ("float32",)

class ForwardWrong(Forward):
    def run(self, x, h, c):
        outputs, h, c = super().run(x, h, c)
        return outputs, h, 2 * c
"""


def test_what_an_adapter_cannot_do_excuses_nothing_that_it_did(tmp_path: Path) -> None:
    """The check of untouched arguments has no figure before it asks for gradients; the one of formats has its miss."""
    (tmp_path / "cells.py").write_text(shown_in_the_readme() + FORWARD, encoding="utf-8")
    asked = ("claims/test_cells.py", "-n", "0")
    run, path = claims(tmp_path / "cells.py", "Forward", *asked)
    found = by_id(json.loads(path.read_text(encoding="utf-8")))
    assert run.returncode == 0, run.stdout
    assert found["cells.gradient-parity"]["verdict"] == "not-applicable"
    assert found["cells.gradient-parity"]["because"] == "Forward gives no gradients"
    skipped = [check for check in found["cells.step-parity"]["checks"] if check["outcome"] == "skipped"]
    assert [check["message"] for check in skipped] == ["Forward does not compute in float64"]
    assert found["cells.step-parity"]["verdict"] == "upheld"
    run, path = claims(tmp_path / "cells.py", "ForwardWrong", *asked)
    found = by_id(json.loads(path.read_text(encoding="utf-8")))
    assert run.returncode == 1
    assert found["cells.step-parity"]["verdict"] == "refuted"
