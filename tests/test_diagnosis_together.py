"""The diagnosis of what comes together: a convention and a cut of the gradient, or two cuts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fixtures import own_cell
from fixtures.conventions import Call, Variant
from fixtures.cuts import Cut, Passes, cuts
from fixtures.cuts.back import upstream
from fixtures.cuts.passes import Graph
from fixtures.diagnosis import diagnose
from fixtures.settings import Draw
from fixtures.subjects import BUILT_IN
from reference import oracle
from reference.weights import GATES
from tests.faults import backward, equations, magnitudes, pulls, through_time, weights
from tests.faults.backward_at import rounded
from tests.faults.base import GRU, LSTM, RNN, Hand, HandGRU, HandLSTM, HandRNN
from tests.faults.weights import reordered


class Truncated:
    """The state is cut out of the graph after every so many steps."""

    every: int

    def over(self, x, state):
        outputs = []
        for part in x.split(self.every, 1):
            shown, state = super().over(part, tuple(s.detach() for s in state) if outputs else state)
            outputs.append(shown)
        return torch.cat(outputs, 1), state


class HandOrdered(Hand):
    """A hand-written backward pass, of weights whose blocks are read in another order."""

    blocks_read: tuple[int, ...]

    def over(self, x, state):
        own = [reordered(getattr(self, f"{name}_l0"), *self.blocks_read)
               for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]  # fmt: skip
        outputs, *last = hand_pass(self, x, *state, *own)
        return outputs, tuple(last)


def hand_pass(layer, *given):
    from tests.faults.base import _ByHand

    return _ByHand.apply(layer, *given)


class WritesResetDetached(equations.UpdateWrites):
    def candidate(self, a_x, a_h, r, h):
        return super().candidate(a_x, a_h, r.detach(), h)


class OrderTruncatedAfter20(Truncated, weights.CandidateLast):
    every = 20


class OrderTruncatedAfter3(Truncated, weights.ForgetFirst):
    every = 3


class OrderHiddenDetached(weights.OnnxOrder):
    def step(self, x, *state):
        return super().step(x, state[0].detach(), state[1])


class NoTanhCellDetached(equations.NoOutputTanh):
    def remember(self, i, f, g, c):
        return f * c.detach() + i * g


class BeforeAndWritesStartDetached(equations.ResetBeforeAndUpdateWrites):
    def unpacked(self, x, state):
        return tuple(s.detach() for s in super().unpacked(x, state))


class BeforeUpdateDetached(equations.ResetBefore):
    def blend(self, z, n, h):
        return super().blend(z.detach(), n, h)


class UpdateFirstKeptDetached(weights.UpdateFirst):
    def blend(self, z, n, h):
        return super().blend(z, n, h.detach())


class HardSigmoidTruncated(Truncated, equations.HardSigmoidSixth):
    every = 4


class HardSigmoidTruncatedLate(Truncated, equations.HardSigmoidFifth):
    every = 20


class ForgetBiasOutputDetached(equations.ForgetBiasAtRunTime):
    def show(self, o, c):
        return super().show(o.detach(), c)


class CoupledForgetDetached(equations.CoupledGates):
    def remember(self, i, f, g, c):
        return super().remember(i, f.detach(), g, c)


class NoRecurrentBiasOutputsDetached(weights.RecurrentBiasMissing):
    def over(self, x, state):
        outputs, last = super().over(x, state)
        return outputs.detach(), last


class TransposedHiddenDetached(weights.RecurrentKernelTransposedGRU):
    def step(self, x, *state):
        return super().step(x, state[0].detach())


class OrderKernelLate(HandOrdered, backward.KernelOneStepLate):
    blocks_read = (1, 0, 2, 3)


class OrderInputGateByItself(HandOrdered, backward.InputGateByItself):
    blocks_read = (0, 1, 3, 2)


class OrderBiasDoubled(HandOrdered, backward.BiasGradientDoubled):
    blocks_read = (1, 0, 2)


class OrderLastCellIgnored(HandOrdered, pulls.LastCellIgnored):
    blocks_read = (0, 2, 3, 1)


class BackwardsLastOutputAlone(through_time.LastOutputAlone):
    def over(self, x, state):
        outputs, last = super().over(x.flip(1), state)
        return outputs, last


TOGETHER = {
    WritesResetDetached: ("a GRU with z writing", "no gradient through the reset gate"),
    OrderTruncatedAfter20: ("in the order i, f, o, g", "h and c detached every 20 steps"),
    OrderTruncatedAfter3: ("in the order f, i, g, o", "h and c detached every 3 steps"),
    OrderHiddenDetached: ("in the order i, o, f, g", "h detached at every step"),
    NoTanhCellDetached: ("no tanh at the output", "c detached at every step"),
    BeforeAndWritesStartDetached: ("the reset before the product", "z writing", "no gradient of h_0"),
    BeforeUpdateDetached: ("the reset before the product", "no gradient through the update gate"),
    UpdateFirstKeptDetached: ("in the order z, r, n", "the h that is kept detached at every step"),
    HardSigmoidTruncated: ("torch's hard sigmoid", "h and c detached every 4 steps"),
    HardSigmoidTruncatedLate: ("keras' hard sigmoid", "the state detached every 20 steps"),
    ForgetBiasOutputDetached: ("1 added to the forget gate", "no gradient through the output gate"),
    CoupledForgetDetached: ("i = 1 - f", "no gradient through the forget gate"),
    NoRecurrentBiasOutputsDetached: ("b_hh ignored", "the gradient of the outputs ignored"),
    TransposedHiddenDetached: ("W_hh transposed", "the state detached at every step"),
    OrderKernelLate: ("in the order f, i, g, o", "h_t for h_(t-1) in the gradient of W_hh"),
    OrderInputGateByItself: ("in the order i, f, o, g", "i for g in the input gate's gradient"),
    OrderBiasDoubled: ("in the order z, r, n", "twice the gradient of b_ih"),
    OrderLastCellIgnored: ("in the order i, o, f, g", "the gradient of the last c ignored"),
    BackwardsLastOutputAlone: ("the sequence read backwards", "of the outputs' gradients only the last one"),
}


@pytest.mark.parametrize("cell", TOGETHER, ids=lambda cell: cell.__name__)
def test_a_convention_and_a_cut_are_both_named(cell):
    found = diagnose(own_cell.subject(cell.__name__, cell))
    forward, _, backward = found["sentence"].partition("; its gradient is that cell's with ")
    *conventions, cut = TOGETHER[cell]
    assert [words for words in conventions if words not in forward] == []
    assert cut in backward
    assert found["explains"] < 1e-5
    assert found["change"].count("; ") >= len(conventions)
    assert (found["nearest"], found["departs"]) == (None, None)


class ResetAndUpdateDetached(GRU):
    def candidate(self, a_x, a_h, r, h):
        return super().candidate(a_x, a_h, r.detach(), h)

    def blend(self, z, n, h):
        return super().blend(z.detach(), n, h)


class HiddenDetachedCellTruncated(Truncated, LSTM):
    every = 2

    def step(self, x, *state):
        return super().step(x, state[0].detach(), state[1])


class BothEndsIgnored(HandLSTM):
    def ends(self, *last):
        return tuple(torch.zeros_like(s) for s in last)


class InputAndForgetWrong(backward.InputGateByItself, backward.ForgetGateByTheNewCell):
    pass


class FirstSlopesWrong(HandLSTM):
    def do(self, s, dh):
        return dh * s.tanh_c * s.o

    def df(self, s, dc):
        return dc * s.before[1] * s.f


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (ResetAndUpdateDetached, ("through the reset gate", "through the update gate")),
        (HiddenDetachedCellTruncated, ("h detached at every step", "c detached every 2 steps")),
        (BothEndsIgnored, ("the gradient of the last h ignored", "the gradient of the last c ignored")),
        (InputAndForgetWrong, ("i for g in the input gate", "C_t for C_(t-1) in the forget gate")),
        (FirstSlopesWrong, ("σ for the derivative of σ at its forget", "σ for the derivative of σ at its output")),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_two_cuts_of_one_sort_are_both_named(cell, words):
    found = diagnose(own_cell.subject(cell.__name__, cell))
    assert [word for word in words if word not in found["sentence"]] == []
    assert found["explains"] < 1e-5


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (through_time.TruncatedAfterFour, "the last 4 steps alone pulled back"),
        (through_time.FirstStepSkipped, "the first step left out of the way back"),
        (through_time.FromTheFirstStepOn, "the steps pulled back from the first to the last"),
        (backward.UpstreamOneStepLate, "each output's gradient one step late"),
        (pulls.LastOutputCountedTwice, "the gradient of the last output added to that of the last h"),
        (backward.BiasGradientOfTheLastStep, "the biases' gradients of the last step alone"),
        (through_time.InitialStateDropped, "the gradient of W_hh of all steps but the first"),
        (backward.PreActivationCached, "a (1 - a) for the derivative of σ at its forget"),
        (backward.CandidateDerivativeNotSquared, "1 - |tanh| for the derivative of tanh at its candidate"),
        (backward.CellDerivativeOfTheSigmoid, "tanh (1 - tanh) for the derivative of tanh at the output"),
        (backward.OutputGateByTheCell, "C for tanh C in the output gate's gradient"),
        (through_time.OneGateThroughTheKernel, "no gradient of the output gate through W_hh"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_a_line_of_a_hand_written_backward_pass_is_named(cell, words):
    found = diagnose(own_cell.subject(cell.__name__, cell))
    assert words in found["sentence"]
    assert found["explains"] < 1e-5


class LateAndInputsDetached(Truncated, RNN):
    every = 6

    def over(self, x, state):
        return super().over(x.detach(), state)


class LateAndForgetDetached(Truncated, LSTM):
    every = 10

    def remember(self, i, f, g, c):
        return super().remember(i, f.detach(), g, c)


class OrderLateAndInputsDetached(Truncated, weights.UpdateFirst):
    every = 8

    def of_input(self, x):
        return super().of_input(x.detach())


class LowProductsCellDetached(magnitudes.ProductsInTF32):
    def remember(self, i, f, g, c):
        return super().remember(i, f, g, c.detach())


class LowStateInputsDetached(magnitudes.StateReadInBfloat16):
    def over(self, x, state):
        return super().over(x.detach(), state)


class LowStateNoise(magnitudes.StateReadInBfloat16):
    def blend(self, z, n, h):
        return super().blend(z, n, h) + torch.sin(3 * h) - torch.sin(3 * h).detach()


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (LateAndInputsDetached, ("the state detached every 6 steps", "no gradient of the inputs")),
        (LateAndForgetDetached, ("no gradient through the forget gate", "h and c detached every 10 steps")),
        (OrderLateAndInputsDetached, ("z, r, n", "the state detached every 8 steps", "no gradient of the inputs")),
        (LowProductsCellDetached, ("products rounded to TF32", "c detached at every step")),
        (LowStateInputsDetached, ("its state rounded to bfloat16", "no gradient of the inputs")),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_a_fault_is_named_beside_one_that_shows_late_or_under_low_precision(cell, words):
    found = diagnose(own_cell.subject(cell.__name__, cell))
    assert [word for word in words if word not in found["sentence"]] == []
    assert found["explains"] is not None


def test_what_low_precision_does_not_explain_of_a_gradient_is_told():
    found = diagnose(own_cell.subject("LowStateNoise", LowStateNoise))
    assert "its gradient departs from that cell's in " in found["sentence"]
    assert "no fault known here explains that" in found["sentence"]


class LateAndNoise(RNN):
    """No gradient of the inputs, and one that is no cut's from the ninth step on."""

    def over(self, x, state):
        outputs, last = super().over(x.detach(), state)
        return torch.cat([outputs[:, :8], 2 * outputs[:, 8:] - outputs[:, 8:].detach()], 1), last


def test_what_explains_short_sequences_alone_is_told_as_that():
    found = diagnose(own_cell.subject("LateAndNoise", LateAndNoise))
    assert found["departs"] == "in sequences of more than 8 steps"
    assert found["nearest"] == "up to there one with no gradient of the inputs"
    assert (found["explains"], found["change"]) == (None, None)


class Interleaved(LSTM):
    """The rows of one unit's gates one after the other."""

    def of_input(self, x):
        return (x @ self.weight_ih_l0.T + self.bias_ih_l0).unflatten(-1, (-1, 4)).unbind(-1)

    def of_state(self, h):
        return (h @ self.weight_hh_l0.T + self.bias_hh_l0).unflatten(-1, (-1, 4)).unbind(-1)


class KernelReshaped(LSTM):
    def of_state(self, h):
        return (h @ self.weight_hh_l0.reshape(self.hidden_size, -1) + self.bias_hh_l0).chunk(4, -1)


class CandidateKernelTransposed(GRU):
    def of_state(self, h):
        a_r, a_z, _ = super().of_state(h)
        return a_r, a_z, h @ self.weight_hh_l0[-self.hidden_size :] + self.bias_hh_l0[-self.hidden_size :]


class HiddenClipped(LSTM):
    def show(self, o, c):
        return super().show(o, c).clamp(-0.3, 0.3)


class PiecewiseSigmoid(GRU):
    def sigma(self, a):
        b = a.abs()
        pieces = [(5.0, b / 32 + 0.84375), (2.375, b / 8 + 0.625), (1.0, b / 4 + 0.5)]
        s = torch.ones_like(b)
        for end, piece in pieces:
            s = torch.where(b < end, piece, s)
        return torch.where(a < 0, 1 - s, s)


class TimeFirstLayer(torch.nn.GRU):
    """A layer as it is built without batch_first."""


class TimeFirstOutputs(LSTM):
    def over(self, x, state):
        outputs, last = super().over(x, state)
        return outputs.transpose(0, 1), last


class ExchangedWhereSquare(LSTM):
    def of_input(self, x):
        W = self.weight_hh_l0 if self.input_size == self.hidden_size else self.weight_ih_l0
        return (x @ W.T + self.bias_ih_l0).chunk(4, -1)


class GatesClippedAtTwo(GRU):
    def sigma(self, a):
        return super().sigma(a.clamp(-2.2, 2.2))

    def tanh(self, a):
        return super().tanh(a.clamp(-2.2, 2.2))


class ProductsInHalf(RNN):
    def low(self, a):
        return a.half().to(a.dtype)

    def of_input(self, x):
        return (self.low(x) @ self.low(self.weight_ih_l0).T + self.bias_ih_l0).chunk(1, -1)

    def of_state(self, h):
        return (self.low(h) @ self.low(self.weight_hh_l0).T + self.bias_hh_l0).chunk(1, -1)


class ProductsInMantissasOfTen(ProductsInHalf):
    def low(self, a):
        return a + (rounded(a) - a).detach()


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (Interleaved, "an LSTM with the blocks interleaved"),
        (KernelReshaped, "an LSTM with W_hh reshaped where it should be transposed"),
        (CandidateKernelTransposed, "a GRU with W_hh transposed in its candidate block"),
        (HiddenClipped, "an LSTM with h clipped to ±0.3"),
        (PiecewiseSigmoid, "the piecewise linear sigmoid PLAN"),
        (TimeFirstLayer, "a GRU with batch and time exchanged, to"),
        (TimeFirstOutputs, "an LSTM with batch and time exchanged in the outputs"),
        (ExchangedWhereSquare, "an LSTM, but where B = T and D = H one with W_hh for W_ih"),
        (GatesClippedAtTwo, "its pre-activations clipped to ±2.2"),
        (ProductsInMantissasOfTen, "the operands of its products rounded to TF32"),
        (ProductsInHalf, "the operands of its products rounded to float16"),
        (magnitudes.ProductsInBfloat16, "the operands of its recurrent product rounded to bfloat16"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_a_convention_is_named_and_its_gradient_found_right(cell, words):
    found = diagnose(own_cell.subject(cell.__name__, cell))
    assert words in found["sentence"]
    assert "gradient" not in found["sentence"]
    assert found["explains"] < 1e-5


class NothingComesOut(RNN):
    """A state that is 0 throughout has no bound to be clipped to."""

    def over(self, x, state):
        outputs, last = super().over(x, state)
        return 0 * outputs, tuple(0 * s for s in last)


def test_a_cell_that_returns_zeros_is_told_as_that():
    found = diagnose(own_cell.subject("NothingComesOut", NothingComesOut))
    assert " times h" in found["sentence"]
    assert found["explains"] < 1e-20


def exact(*cells):
    return pytest.mark.parametrize("cell", cells, ids=lambda cell: cell.__name__)


class OrderByHand(HandOrdered, HandLSTM):
    blocks_read = (1, 0, 2, 3)


@exact(
    equations.UpdateWrites, equations.ResetBeforeAndUpdateWrites, equations.OnnxOrderWithoutTanh,
    equations.HardSigmoidFifth, equations.CoupledGates, equations.ForgetBiasAtRunTime, equations.StaleCellShown,
    equations.RationalSigmoid, weights.InnerBiasOutside, weights.BiasesDoubled, weights.OrderOfTheBiasesAlone,
    weights.OneBiasForTheSigmoids, OrderByHand,
)  # fmt: skip
def test_the_chain_rule_of_a_convention_is_met_with_silence(cell):
    found = diagnose(own_cell.subject(cell.__name__, cell))
    assert " equals " in found["sentence"]
    assert "gradient" not in found["sentence"]
    assert (found["nearest"], found["departs"]) == (None, None)


@exact(RNN, LSTM, GRU, HandRNN, HandLSTM, HandGRU)
def test_a_sound_cell_is_met_with_silence(cell):
    assert diagnose(own_cell.subject(cell.__name__, cell)) is None


class OrderAndNoise(equations.UpdateWrites):
    """What its gradient does is no cut."""

    def blend(self, z, n, h):
        return super().blend(z, n, h) + 0.1 * (torch.sin(h) - torch.sin(h).detach())


def test_what_no_cut_explains_is_given_no_name():
    found = diagnose(own_cell.subject("OrderAndNoise", OrderAndNoise))
    assert "equals a GRU with z writing" in found["sentence"]
    assert "its gradient departs from that cell's in " in found["sentence"]
    assert "no fault known here explains that" in found["sentence"]
    assert found["change"].count(";") == 0
    assert found["departs"].startswith("in ")


def pulled(kind, variant):
    draw, subject = Draw(3), next(subject for subject in BUILT_IN if subject.kind == kind)
    weights, x = draw.weights(kind, 3, 5, 1.5), draw.inputs(2, 5, 3)
    h, c = draw.start(subject, 2, 5)
    pull = {"outputs": draw.upstream(2, 5, 5), "h": draw.upstream(2, 5)}
    if c is not None:
        pull["c"] = draw.upstream(2, 5)
    return Call(weights, x, h, c), pull


@pytest.mark.parametrize("kind", GATES)
def test_a_backward_pass_by_hand_and_a_tapped_graph_agree_on_every_cut(kind):
    call, pull = pulled(kind, Variant(kind))
    by_hand, graph = Passes(Variant(kind), call), Graph(Variant(kind), call)
    truth = oracle.backward(oracle.forward(call.weights, call.x, call.h, call.c), **pull)
    np.testing.assert_allclose(by_hand.back(Cut(), pull)["x"], truth.x, atol=1e-13)
    compared = 0
    for fault in cuts(kind, 5):
        cut = fault.on(Cut())
        if (tapped := graph.back(cut, upstream(cut, pull))) is not None:
            for name, gradient in by_hand.back(cut, pull).items():
                np.testing.assert_allclose(tapped[name], gradient, atol=1e-12, err_msg=f"{fault.says}: {name}")
            compared += 1
    assert compared >= 20
