"""The diagnosis: planted conventions are named, alone and in pairs; correct cells and random faults are not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import torch
from mini import PATIENCE, ROOT, SCHEMA
from planted import PLANTED
from planted.lstm import BrokenLSTM
from torch import nn

from fixtures import diagnosis, own_cell
from fixtures.conventions import rounded
from fixtures.diagnosis import __main__ as one_diagnosis
from fixtures.diagnosis import diagnose
from fixtures.subjects import BUILT_IN, ReferenceNet, Subject, TorchNet
from reference import cells, layouts
from reference.weights import Weights
from tests.faults import equations, magnitudes, through_time, weights

SINGLES = {
    "NoOutputTanh": "no tanh at the output",
    "HardSigmoid": "torch's hard sigmoid",
    "ClippedGates": "its gates kept 1e-06 away from 0 and 1",
    "LeakyForgetGate": "0.999 times the cell that is kept",
    "ForgetGateStuckOpen": "its forget gate always 1",
    "NoInputGate": "its input gate always 1",
    "CoupledInputGate": "i = 1 - f",
    "ClippedCell": "its cell clipped to ±50",
    "TanhOnTheHighway": "a tanh on the carried cell",
    "StaleCellShown": "h showing the cell before the step",
    "ForgetBiasTwice": "1 added to the forget gate's pre-activation",
    "GatesBlindToState": "its gates blind to h",
    "TenBitMantissa": "TF32",
    "CellInHalf": "c kept in float16",
    "BatchAndTimeExchanged": "batch and time exchanged in the outputs' memory",
    "StateNotCarried": "the state not carried from step to step",
    "InitialStateIgnored": "the initial state ignored",
    "InitialCellIgnored": "the initial c ignored",
    "OmittedStateIsTheLastOne": "the state of the last call where it is omitted",
    "RecurrentBiasSkippedAtFirst": "left out of the first step where the state is omitted",
    "StateTransposed": "the last state transposed",
    "UpdateWrites": "z writing",
    "DecksUpdateKeeps": "z keeping where it should write",
    "ResetBeforeProduct": "the reset before the product",
    "ResetAfterProduct": "the reset after the product",
    "ResetIgnored": "the reset gate ignored",
    "InnerBiasOutside": "b_hn outside the reset product",
    "InnerBiasLeftOut": "b_hn left out",
    "UpdateBiasOne": "1 added to the update gate's pre-activation",
    "TorchsHardSigmoid": "torch's hard sigmoid",
    "ExchangedGates": "its blocks in the order f, i, g, o",
    "CandidateForOutput": "its blocks in the order i, f, o, g",
    "ExchangedResetAndUpdate": "its blocks in the order z, r, n",
    "TransposedKernel": "W_hh transposed",
    "RecurrentBiasLeftOut": "b_hh ignored",
    "InputBiasTwice": "b_ih in place of b_hh",
    "OneBiasForAllGates": "biases for gates and candidate",
    "NoTanh": "nothing for the tanh of its candidate",
    "PeepholesIgnored": "no peepholes",
    "OutputPeepsAtTheOldCell": "peeping at the cell before the step",
    "HiddenStateDetached": "h detached at every step",
    "CellDetached": "c detached at every step",
    "TruncatedBackward": "h and c detached every 4 steps",
    "DetachedState": "the h that is kept detached",
    "BiasGradientDropped": "no gradient of forget.b_h and forget.b_x",
    "BiasGradientDoubled": "twice the gradient of output.b_h and output.b_x",
    "KernelGradientOneStepLate": "h_t for h_(t-1) in the gradient of W_hh",
    "GradientOverTheBatchSize": "1 / B times the gradient of",
}


@pytest.mark.parametrize("name", SINGLES)
def test_a_planted_convention_is_named(name: str) -> None:
    found = diagnose(PLANTED[name])
    assert found is not None
    assert SINGLES[name] in found["sentence"]
    assert found["explains"] is not None
    assert found["explains"] < 1e-5
    assert found["change"]
    assert found["nearest"] is None


def loading(subject: Subject, change: Callable[[Weights], Weights], kind: str | None = None) -> Subject:
    """A subject that loads other weights than it is given."""
    build = subject.build
    return replace(
        subject, kind=kind or subject.kind, build=lambda weights, dtype, device: build(change(weights), dtype, device)
    )


def in_order(*order: str) -> Callable[[Weights], Weights]:
    """Weights as a cell sees them that takes torch's blocks in another order."""

    def change(weights: Weights) -> Weights:
        torchs = layouts.TORCH[weights.kind].order
        return replace(weights, blocks={gate: weights[torchs[order.index(gate)]] for gate in weights.blocks})

    return change


def no_b_h(weights: Weights) -> Weights:
    return weights.change(b_h=np.zeros_like)


def transposed(weights: Weights) -> Weights:
    return weights.change(W_h=np.transpose)


def doubled(weights: Weights) -> Weights:
    return weights.change(b_x=lambda b: 2 * b, b_h=lambda b: 2 * b)


def forget_bias(weights: Weights) -> Weights:
    return weights.change("forget", b_x=lambda b: b + 1)


def low_kernels(weights: Weights) -> Weights:
    return weights.change(W_x=lambda W: rounded(W, "bfloat16"), W_h=lambda W: rounded(W, "bfloat16"))


IFOG = in_order("input", "forget", "output", "candidate")
FIGO = in_order("forget", "input", "candidate", "output")
ZRN = in_order("update", "reset", "candidate")
LSTM, GRU = PLANTED["GatesBlindToState"], PLANTED["UpdateWrites"]
SOUND = {subject.name: subject for subject in BUILT_IN}


def calling(subject: Subject, around: type[Any]) -> Subject:
    """A subject whose net is called in another way."""
    return replace(subject, build=lambda weights, dtype, device: around(subject.build(weights, dtype, device)))


class Around:
    """A net that calls another."""

    def __init__(self, net: Any) -> None:
        self.net, self.parameters, self.canonical, self.train = net, net.parameters, net.canonical, net.train

    def __call__(self, x: Any, state: Any) -> Any:
        return self.net(x, state)


class CellFirst(Around):
    def __call__(self, x: Any, state: Any) -> Any:
        outputs, (h, c) = self.net(x, state and state[::-1])
        return outputs, (c, h)


class FromZero(Around):
    def __call__(self, x: Any, state: Any) -> Any:
        return self.net(x, None)


class TimeFirst(Around):
    def __call__(self, x: Any, state: Any) -> Any:
        outputs, last = self.net(x.transpose(0, 1), state)
        return outputs.transpose(0, 1), last


class Backwards(Around):
    def __call__(self, x: Any, state: Any) -> Any:
        return self.net(x.flip(1), state)


class OutputsDetached(Around):
    def __call__(self, x: Any, state: Any) -> Any:
        outputs, last = self.net(x, state)
        return outputs.detach(), last


class HalfInside(Around):
    def __call__(self, x: Any, state: Any) -> Any:
        def rounded(a: Any) -> Any:
            return a + (a.half().to(a.dtype) - a).detach()

        return self.net(rounded(x), state and tuple(map(rounded, state)))


PAIRS = {
    "order and bias": (loading(SOUND["torch.nn.LSTM"], lambda w: no_b_h(IFOG(w))), ("i, f, o, g", "b_hh ignored")),
    "order and forget bias": (loading(SOUND["torch.nn.LSTM"], lambda w: forget_bias(FIGO(w))),
                              ("f, i, g, o", "1 added to the forget gate")),
    "order and transposed": (loading(SOUND["torch.nn.LSTM"], lambda w: transposed(IFOG(w))),
                             ("i, f, o, g", "W_hh transposed")),
    "order and no tanh": (loading(PLANTED["NoOutputTanh"], IFOG), ("i, f, o, g", "no tanh at the output")),
    "order and hard sigmoid": (loading(PLANTED["HardSigmoid"], FIGO), ("f, i, g, o", "torch's hard sigmoid")),
    "order and clipping": (loading(PLANTED["ClippedCell"], FIGO), ("f, i, g, o", "clipped to ±50")),
    "order and half cell": (loading(PLANTED["CellInHalf"], FIGO), ("f, i, g, o", "c kept in float16")),
    "hard sigmoid and low kernels": (loading(PLANTED["HardSigmoid"], low_kernels),
                                     ("torch's hard sigmoid", "its kernels rounded to bfloat16")),
    "forget bias and low kernels": (loading(SOUND["torch.nn.LSTM"], lambda w: forget_bias(low_kernels(w))),
                                    ("1 added to the forget gate", "its kernels rounded to bfloat16")),
    "order and state": (calling(loading(SOUND["torch.nn.LSTM"], IFOG), CellFirst), ("i, f, o, g", "order (c, h)")),
    "order and initial state": (calling(loading(SOUND["torch.nn.LSTM"], IFOG), FromZero),
                                ("i, f, o, g", "initial state ignored")),
    "doubled and transposed": (loading(SOUND["torch.nn.LSTM"], lambda w: doubled(transposed(w))),
                               ("both biases added twice", "W_hh transposed")),
    "no tanh and forget bias": (loading(PLANTED["NoOutputTanh"], forget_bias),
                                ("no tanh at the output", "1 added to the forget gate")),
    "coupled and no bias": (loading(PLANTED["CoupledInputGate"], no_b_h), ("i = 1 - f", "b_hh ignored")),
    "hard and transposed": (loading(PLANTED["HardSigmoid"], transposed), ("torch's hard sigmoid", "W_hh transposed")),
    "not carried and bias": (loading(PLANTED["StateNotCarried"], no_b_h), ("not carried", "b_hh ignored")),
    "writes and order": (loading(PLANTED["UpdateWrites"], ZRN), ("z writing", "z, r, n")),
    "before and order": (loading(PLANTED["ResetBeforeProduct"], ZRN), ("the reset before the product", "z, r, n")),
    "writes and bias": (loading(PLANTED["UpdateWrites"], no_b_h), ("z writing", "b_hh ignored")),
    "before and transposed": (loading(PLANTED["ResetBeforeProduct"], transposed),
                              ("the reset before the product", "W_hh transposed")),
    "backwards and writes": (calling(PLANTED["UpdateWrites"], Backwards), ("read backwards", "z writing")),
    "rnn transposed, no bias": (loading(SOUND["torch.nn.RNN"], lambda w: no_b_h(transposed(w))),
                                ("b_hh ignored", "W_hh transposed")),
    "detached twice": (calling(PLANTED["CellDetached"], OutputsDetached), ("c detached", "the outputs ignored")),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_of_conventions_is_named(name: str) -> None:
    subject, words = PAIRS[name]
    found = diagnose(subject)
    assert found is not None
    assert [word for word in words if word not in found["sentence"]] == [], found["sentence"]
    assert found["explains"] is not None


@pytest.mark.parametrize("order", list(permutations(("input", "forget", "candidate", "output")))[1:])
def test_every_order_of_an_lstms_blocks_is_named(order: tuple[str, ...]) -> None:
    found = diagnose(loading(SOUND["reference.LSTM"], in_order(*order)))
    letters = {"input": "i", "forget": "f", "candidate": "g", "output": "o"}
    assert found is not None
    assert f"its blocks in the order {', '.join(letters[gate] for gate in order)}," in found["sentence"]


def test_the_conventions_of_a_framework_come_together() -> None:
    """Blocks z, r, n, z writing and the reset before the product."""

    class OfAnotherFramework(cells.ResetBeforeGRU):
        kind = "gru"

        def __init__(self, weights: Weights, dtype: torch.dtype, device: str) -> None:
            super().__init__(weights, dtype, device)
            self.candidate.b = weights_of(weights, dtype)

        def step(self, x, h):  # type: ignore[no-untyped-def]
            r, z = self.reset(x, h).sigmoid(), self.update(x, h).sigmoid()
            return (1 - z) * h + z * self.candidate(x, r * h).tanh()

    def weights_of(weights: Weights, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(weights["candidate"].b, dtype=dtype)

    def build(weights: Weights, dtype: torch.dtype, device: str) -> ReferenceNet:
        return ReferenceNet(OfAnotherFramework(ZRN(weights), dtype, device))

    found = diagnose(Subject("theirs", "gru", build))
    assert found is not None
    assert found["sentence"].startswith("theirs equals a GRU with ")
    for words in ("its blocks in the order z, r, n", "z writing", "the reset before the product"):
        assert words in found["sentence"]


class Sigmoids(BrokenLSTM):
    def sigma(self, a):  # type: ignore[no-untyped-def]
        return (0.2 * a + 0.5).clamp(0, 1)


class SlightlyOff(BrokenLSTM):
    """Something that no convention is."""

    def written(self, x, h):  # type: ignore[no-untyped-def]
        return torch.tanh(self.candidate(x, h) + 0.01 * torch.sin(7 * self.forget(x, h)))


def of(cell: type[cells.Cell]) -> Subject:
    return Subject(cell.__name__, cell.kind, lambda w, dtype, device: ReferenceNet(cell(w, dtype, device)))


def layer(make: Callable[..., nn.Module], kind: str, **options: Any) -> Subject:
    def build(weights: Weights, dtype: torch.dtype, device: str) -> TorchNet:
        return TorchNet(make(weights.input_size, weights.hidden_size, **options).to(dtype), kind, weights)

    return Subject(make.__name__, kind, build)


class InFormat(Around):
    """A layer that computes in another number format."""

    form = torch.float16

    def __call__(self, x: Any, state: Any) -> Any:
        module, given = self.net.module, x.dtype
        outputs, last = module.to(self.form)(x.to(self.form), state and tuple(s[None].to(self.form) for s in state))
        return outputs.to(given), tuple(s[0].to(given) for s in last)


class InBfloat16(InFormat):
    form = torch.bfloat16


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        (of(Sigmoids), "keras' hard sigmoid"),
        (calling(SOUND["torch.nn.LSTM"], CellFirst), "its state in the order (c, h)"),
        (calling(SOUND["torch.nn.LSTM"], Backwards), "the sequence read backwards"),
        (calling(SOUND["torch.nn.GRU"], TimeFirst), "batch and time exchanged"),
        (calling(SOUND["torch.nn.LSTM"], OutputsDetached), "the gradient of the outputs ignored"),
        (calling(SOUND["torch.nn.LSTM"], HalfInside), "inputs and initial state rounded to float16"),
        (calling(SOUND["torch.nn.LSTM"], InFormat), "its arithmetic in float16"),
        (calling(SOUND["torch.nn.LSTM"], InBfloat16), "its arithmetic in bfloat16"),
        (loading(SOUND["torch.nn.RNN"], doubled), "both biases added twice"),
        (loading(SOUND["torch.nn.LSTM"], lambda w: w.change("output", b_x=lambda b: b - 0.3)),
         "-0.3 added to the output gate's pre-activation"),
    ],
)  # fmt: skip
def test_ways_of_calling_and_computing_are_named(subject: Subject, words: str) -> None:
    found = diagnose(subject)
    assert found is not None
    assert words in found["sentence"]


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (weights.OrderOfTheRecurrentBiasAlone, "the blocks of its b_hh alone in the order z, r, n"),
        (magnitudes.StateReadInBfloat16, "its state rounded to bfloat16 before each step"),
        (magnitudes.CellStoredInBfloat16, "c rounded to bfloat16 after h was computed from it"),
        (through_time.RecurrentBiasOfTheLastStep, "backward one with the gradient of b_hh of the last step alone"),
        (through_time.HiddenDetachedInTheCandidate, "backward one with no gradient of the candidate through W_hh"),
        (through_time.CutEvery200, "backward one with h and c detached every 200 steps"),
        (through_time.TruncatedAfterHundred, "backward one with the last 100 steps alone pulled back"),
        (equations.CellLeaksAMillionth, "0.999999 times the cell that is kept"),
    ],
)
def test_a_faulty_cells_convention_is_named(cell: type[nn.Module], words: str) -> None:
    found = diagnose(own_cell.subject(cell.__name__, cell))
    assert found is not None
    assert words in found["sentence"]
    assert found["explains"] < 1e-5


def test_a_cut_that_gives_no_number_explains_none() -> None:
    """Where a hard sigmoid saturates, a (1 - a) of the a that gives its value is not finite; torch's slope is 1/6f."""
    found = diagnose(own_cell.subject("TorchsHardSigmoid", TorchsHardSigmoid))
    assert found is not None
    assert "i, f, o, g and torch's hard sigmoid" in found["sentence"]
    assert "its gradient is that cell's" not in found["sentence"]


class TorchsHardSigmoid(weights.CandidateLast):
    def sigma(self, a):  # type: ignore[no-untyped-def]
        return nn.functional.hardsigmoid(a)


def test_kernels_that_are_exchanged_where_sizes_allow() -> None:
    def exchanged(weights: Weights) -> Weights:
        if weights.input_size != weights.hidden_size:
            raise ValueError("sizes do not fit")
        return replace(weights, blocks={g: replace(b, W_x=b.W_h, W_h=b.W_x) for g, b in weights.blocks.items()})

    found = diagnose(loading(SOUND["torch.nn.LSTM"], exchanged))
    assert found is not None
    assert "W_ih and W_hh exchanged" in found["sentence"]


@pytest.mark.parametrize("k", [10, 30])
def test_a_backward_pass_that_is_truncated_late(k: int) -> None:
    class Truncated(Around):
        def __call__(self, x: Any, state: Any) -> Any:
            outputs = []
            for t in range(0, x.shape[1], k):
                if t:
                    state = tuple(s.detach() for s in state)
                part, state = self.net(x[:, t : t + k], state)
                outputs.append(part)
            return torch.cat(outputs, 1), state

    found = diagnose(calling(SOUND["torch.nn.LSTM"], Truncated))
    assert found is not None
    assert f"h and c detached every {k} steps" in found["sentence"] or f"the last {48 - k} steps" in found["sentence"]


@pytest.mark.parametrize("subject", BUILT_IN, ids=lambda subject: str(subject.name))
def test_a_correct_cell_is_met_with_silence(subject: Subject) -> None:
    assert diagnose(subject) is None


NOTHING = {
    "SlightlyOff": of(SlightlyOff),
    "weights a little off": loading(
        SOUND["torch.nn.GRU"],
        lambda w: w.change(W_h=lambda W: W + 0.01 * np.cos(np.arange(W.size)).reshape(W.shape)),
    ),
    "OvershootingSigmoid": PLANTED["OvershootingSigmoid"],
    "CellOneUnitOff": PLANTED["CellOneUnitOff"],
    "OneForgetGateForAll": PLANTED["OneForgetGateForAll"],
    "RowsMixed": PLANTED["RowsMixed"],
    "SpectrallyBounded": PLANTED["SpectrallyBounded"],
}


@pytest.mark.parametrize("name", NOTHING)
def test_what_nothing_explains_is_given_no_name(name: str) -> None:
    found = diagnose(NOTHING[name])
    assert found is not None
    assert (found["explains"], found["change"]) == (None, None)
    assert " equals " not in found["sentence"]
    assert "no convention known here explains" in found["sentence"]
    assert "at step 1" in found["departs"]
    assert "which leaves" in found["nearest"]


def test_where_it_departs_names_the_gate() -> None:
    found = diagnose(PLANTED["OneForgetGateForAll"])
    assert found is not None
    assert "what differs is the forget gate" in found["departs"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("UnitsBeyond128Lost", "H = 129"),
        ("TrainingDiffers", "in training mode"),
        ("UpdateGateKernelFirst", "its gradient departs in h_0 and update.W_h, "),
        ("NaiveTanhOfTheCell", "not finite in a run far out in float32"),
        ("SavedStateOverwritten", "a second backward pass"),
    ],
)
def test_what_is_no_convention_is_told_by_where_it_shows(name: str, words: str) -> None:
    found = diagnose(PLANTED[name])
    assert found is not None
    assert words in found["sentence"]
    assert found["explains"] is None


def test_a_cell_that_only_raises() -> None:
    def build(weights: Weights, dtype: torch.dtype, device: str) -> Any:
        raise SystemExit("no such size")

    found = diagnose(Subject("theirs", "lstm", build))
    assert found is not None
    assert found["sentence"] == "theirs returns nothing that could be compared: SystemExit: no such size"


CELLS = """
import os, sys, time
import torch
from torch import nn

class Exchanged(nn.LSTM):
    def __init__(self, D, H):
        super().__init__(D, H, batch_first=True)

    def forward(self, x, state=None):
        own = nn.LSTM(self.input_size, self.hidden_size, batch_first=True).to(x.dtype)
        made = {n: torch.cat([p.chunk(4)[k] for k in (1, 0, 2, 3)]) for n, p in self.named_parameters()}
        return torch.func.functional_call(own, made, (x, state))

class Hangs(Exchanged):
    def forward(self, x, state=None):
        if "PYTEST_CURRENT_TEST" not in os.environ:
            time.sleep(1000)
        return super().forward(x, state)

class Kills(Exchanged):
    def forward(self, x, state=None):
        if "fixtures.diagnosis" in sys.orig_argv:
            os.kill(os.getpid(), 9)
        return super().forward(x, state)

class Sound(nn.LSTM):
    def __init__(self, D, H):
        super().__init__(D, H, batch_first=True)
"""


@pytest.fixture
def spec(tmp_path: Path) -> Callable[[str], str]:
    path = tmp_path / "their_cells.py"
    path.write_text(CELLS, encoding="utf-8")
    return lambda name: f"{path}:{name}"


def test_a_process_of_its_own_answers(spec: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    found = diagnosis.of_own_cell(spec("Exchanged"), "cpu")
    assert found is not None
    assert "f, i, g, o" in found["sentence"]
    assert diagnosis.of_own_cell(spec("Sound"), "cpu") is None
    killed, hanging = diagnosis.of_own_cell(spec("Kills"), "cpu"), diagnosis.of_own_cell(spec("Hangs"), "cpu", 1.0)
    assert killed is not None
    assert killed["sentence"] == "Kills ended the process that diagnosed it, by signal 9"
    assert hanging is not None
    assert hanging["sentence"] == "Hangs did not answer the diagnosis within 1 s"


def test_an_error_of_the_diagnosis_is_not_the_cells(
    spec: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(subject: Subject) -> None:
        raise ZeroDivisionError("a slope of 0")

    monkeypatch.setattr(one_diagnosis, "diagnose", failing)
    one_diagnosis.main(spec("Sound"), "cpu", str(tmp_path / "found.json"))
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found["sentence"] == ("the diagnosis raised ZeroDivisionError: a slope of 0, which says nothing of Sound")


@pytest.mark.parametrize("workers", ["0"])
@pytest.mark.parametrize("name", ["Exchanged", "Kills", "Sound"])
def test_a_run_says_what_was_found(spec: Callable[[str], str], tmp_path: Path, name: str, workers: str) -> None:
    command = [sys.executable, "-m", "pytest", "claims/test_cells.py", "-k", "one_step_is", "-n", workers]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    run = subprocess.run(
        [*command, f"--cell={spec(name)}", f"--report-dir={tmp_path}"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    report = json.loads((tmp_path / f"claims-cpu-{name}.json").read_text(encoding="utf-8"))
    page = (tmp_path / f"claims-cpu-{name}.html").read_text(encoding="utf-8")
    jsonschema.validate(report, SCHEMA)
    if name == "Sound":
        assert run.returncode == 0, run.stdout
        assert report["diagnosis"] is None
        assert "diagnosis:" not in run.stdout
        assert 'id="diagnosis"' not in page
        return
    assert run.returncode == report["exit_status"] == 1, run.stdout
    says = {"Exchanged": "its blocks in the order f, i, g, o", "Kills": "ended the process that diagnosed it"}[name]
    assert says in report["diagnosis"]["sentence"]
    assert f"diagnosis: {report['diagnosis']['sentence']}" in run.stdout
    assert page.index("<h1>") < page.index('id="diagnosis"') < page.index('id="unexpected"')
    assert says in page
