"""The hand-worked LSTM's own arithmetic, against finite differences, another Adam, and figures worked out elsewhere."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fixtures.evidence import Evidence
from fixtures.hand_worked import compare, printed, printed_steps
from fixtures.plugin import SUBJECTS, NotApplicable, subjects_of
from fixtures.subjects import BUILT_IN
from reference import cells, hand_worked, layouts, oracle

MATRICES = {"E": hand_worked.EMBEDDING, **hand_worked.KERNELS, "W_hy": hand_worked.READ_OUT}

ELSEWHERE = {
    "E": [[0.02494, 0.00284], [-0.02316, 0.01640], [-0.01337, -0.00061], [0, 0]],
    "W_xc": [[0.02579, -0.00115], [-0.02681, 0.04057]],
    "W_hc": [[-0.00317, 0.00408], [0.00376, -0.00382]],
    "W_xf": [[0.00182, -0.00178], [-0.00235, -0.00159]],
    "W_hf": [[-0.00057, -0.00017], [0.00010, 0.00009]],
    "W_xi": [[-0.00052, 0.00200], [-0.00246, 0.00233]],
    "W_hi": [[0.00022, 0.00051], [0.00059, -0.00006]],
    "W_xo": [[0.00548, 0.00145], [-0.00346, 0.00066]],
    "W_ho": [[-0.00018, 0.00049], [0.00061, 0.00003]],
}
"""Gradients of the mean loss that the article does not print, to five decimals."""


def mean_loss(matrices):
    """The article's mean loss, straight from its equations."""
    h, c, losses = np.zeros(2), np.zeros(2), []
    for word, target in zip(hand_worked.INPUTS, hand_worked.TARGETS, strict=True):
        a = {g: matrices["E"][word] @ matrices[f"W_x{g}"] + h @ matrices[f"W_h{g}"] for g in "fico"}
        f, i, o = (1 / (1 + np.exp(-a[g])) for g in "fio")
        c = f * c + i * np.tanh(a["c"])
        h = o * np.tanh(c)
        z = h @ matrices["W_hy"]
        losses.append(np.log(np.exp(z).sum()) - z[target])
    return np.mean(losses)


def test_gradients_by_hand_are_the_slopes_of_the_loss():
    gradients, step = hand_worked.by_hand(), 1e-5
    assert list(gradients) == ["E", *(f"W_{side}{g}" for g in "fico" for side in "xh"), "W_hy"]
    for name, matrix in MATRICES.items():
        for index in np.ndindex(matrix.shape):
            bump = np.zeros_like(matrix)
            bump[index] = step
            up, down = (mean_loss(MATRICES | {name: matrix + sign * bump}) for sign in (1, -1))
            assert gradients[name][index] == pytest.approx((up - down) / (2 * step), abs=1e-10), f"{name}{index}"


def test_gradients_by_hand_are_those_worked_out_elsewhere():
    gradients = hand_worked.by_hand()
    for name, values in ELSEWHERE.items():
        np.testing.assert_allclose(gradients[name], values, rtol=0, atol=5.0001e-6, err_msg=name)


def test_a_step_of_which_nothing_is_known_is_the_oracles():
    tape = oracle.forward(hand_worked.WEIGHTS, hand_worked.WORDS)
    states = [{"h": h, "c": c} for h, c in zip(tape.h[0, 1:], tape.c[0, 1:], strict=True)]
    for t, before in enumerate(hand_worked.befores(states)):
        step = hand_worked.carried_on({}, before)
        for gate in hand_worked.WEIGHTS.blocks:
            np.testing.assert_allclose(step[gate], tape.gate(gate)[0, t], rtol=0, atol=1e-15)
        for name in ("h", "c"):
            np.testing.assert_allclose(step[name], states[t][name], rtol=0, atol=1e-15)


def test_a_line_is_worked_out_from_the_numbers_it_is_given():
    """Another prediction in print changes the loss and the error that follow from it, and neither of their operands."""
    steps = printed_steps()
    other = [{**steps[0], "y": np.full(4, 0.25)}, *steps[1:]]
    (before, *_), _ = hand_worked.line_by_line(steps)
    (after, *_), of_all = hand_worked.line_by_line(other)
    assert after["loss"] == pytest.approx(np.log(4)) and after["delta"] == pytest.approx(
        [0.0625, -0.1875, 0.0625, 0.0625]
    )
    assert {name for name in after if not np.array_equal(after[name], before[name])} == {"loss", "delta"}
    assert of_all["mean_loss"] == pytest.approx((1.43602 + 1.37916 + 1.39526 + 1.43167) / 4)


def test_every_printed_value_is_there():
    steps = printed_steps()
    forward = sum(np.size(v) for step in steps for name, v in step.items() if name not in ("delta", "outer"))
    backward = sum(np.size(step[name]) for step in steps for name in ("delta", "outer"))
    whole = printed()["whole"]
    assert (forward, backward, np.size(whole["W_hy"])) == (148, 48, 8)
    assert all(set(step) <= set(hand_worked.LINES) for step in steps)


def test_each_departure_is_a_figure_of_its_own():
    evidence = Evidence()
    found = {"h": np.array([0.123454, 0.2]), "L": np.array(1.0)}
    agree = compare(evidence, "t = 1", found, {"h": [0.12345, 0.20001], "L": 1.000006})
    assert agree == 1
    assert [(f["name"], f["where"], f["holds"]) for f in evidence.figures] == [
        ("t = 1, worst of the 1 that agree", "h[0]", True),
        ("t = 1: h[1]", None, False),
        ("t = 1: L", None, False),
    ]


def test_what_is_no_number_departs():
    evidence = Evidence()
    assert compare(evidence, "t = 1", {"h": np.array([np.nan])}, {"h": [0.1]}) == 0
    assert not evidence.figures[0]["holds"]


def test_training_is_adam_on_the_gradients_by_hand():
    """Five hundred epochs again, in numpy: the oracle's gradients and Adam (Kingma & Ba, algorithm 1) written out."""
    weights = hand_worked.WEIGHTS
    cell = cells.LSTM(weights, torch.float64)
    kernels = [p for p in cell.parameters.values() if p.ndim == 2]

    def net(x, _):
        h = c = x.new_zeros(1, 2)
        outputs = []
        for x_t in x[0]:
            h, c = cell.step(x_t[None], h, c)
            outputs.append(h)
        return torch.stack(outputs, 1), (h, c)

    training = hand_worked.train(hand_worked.NextWord(net, kernels))
    now = {name: matrix.copy() for name, matrix in MATRICES.items()}
    m, v = ({name: np.zeros_like(matrix) for name, matrix in now.items()} for _ in range(2))
    for epoch in range(1, 501):
        loss, gradients = by_oracle(now)
        assert training.losses[epoch - 1] == pytest.approx(loss, abs=1e-9), f"epoch {epoch}"
        for name, g in gradients.items():
            m[name] = 0.9 * m[name] + 0.1 * g
            v[name] = 0.999 * v[name] + 0.001 * g**2
            m_hat, v_hat = m[name] / (1 - 0.9**epoch), v[name] / (1 - 0.999**epoch)
            now[name] = now[name] - 0.05 * m_hat / (np.sqrt(v_hat) + 1e-8)
    assert training.predictions[9] == [3, 2, 2, 2] and training.predictions[-1] == [1, 2, 0, 3]


def by_oracle(matrices):
    """The mean loss and its gradients for other matrices than the article's."""
    weights = layouts.read(matrices, layouts.W_LSTM)
    words, targets = list(hand_worked.INPUTS), list(hand_worked.TARGETS)
    tape = oracle.forward(weights, matrices["E"][words][None])
    y = np.exp(tape.outputs[0] @ matrices["W_hy"])
    y /= y.sum(1, keepdims=True)
    delta = (y - np.eye(4)[targets]) / 4
    pulled = oracle.backward(tape, outputs=(delta @ matrices["W_hy"].T)[None])
    of_words = np.zeros((4, 2))
    np.add.at(of_words, words, pulled.x[0])
    gradients = {"E": of_words, **hand_worked.kernels_of(pulled.parameters), "W_hy": tape.outputs[0].T @ delta}
    return -np.log(y[range(4), targets]).mean(), gradients


@pytest.mark.parametrize(("fixture", "count"), [("lstm", 6), ("lstm64", 3), ("first_lstm64", 1)])
def test_printed_figures_of_a_document_in_float64_are_asked_in_float64(fixture, count):
    config = SimpleNamespace(stash={SUBJECTS: BUILT_IN}, getoption=lambda name: "cpu")
    found = subjects_of(config, fixture)
    assert len(found) == count
    assert {subject.dtype for subject in found} == ({"float64"} if "64" in fixture else {"float32", "float64"})


def test_a_device_without_float64_is_not_asked_for_it():
    config = SimpleNamespace(stash={SUBJECTS: BUILT_IN}, getoption=lambda name: "mps")
    (only,) = subjects_of(config, "first_lstm64")
    assert isinstance(only, NotApplicable) and "float64" in only.because


def test_adam_is_torchs_bit_for_bit() -> None:
    """And a matrix that no loss reaches stays as it is."""
    matrices, theirs = ([torch.ones(2, 3, requires_grad=True) for _ in range(2)] for _ in range(2))
    own, known = hand_worked.optimiser(matrices), torch.optim.Adam(theirs, lr=0.05)
    for step in range(20):
        for optimiser, (reached, _) in ((own, matrices), (known, theirs)):
            optimiser.zero_grad()
            (reached[step % 2] ** 3).sum().backward()
            optimiser.step()
    for mine, other in zip(matrices, theirs, strict=True):
        assert torch.equal(mine, other)
