"""An LSTM worked by hand: forward over «the rise of the machine», loss, and backward to the read-out.

W «LSTM Forward Pass» to «Output to hidden state»; E07, E35, X13. Two units, four words, ten matrices, no biases, all in
float64. Gates and candidates are read from outside; logits, losses and their gradients follow by the article's lines.
"""

import numpy as np
import pytest

from fixtures.hand_worked import by_autograd, compare, forward, network, printed, printed_steps
from reference import hand_worked
from reference.hand_worked import READ_OUT, VOCABULARY, WEIGHTS, WORDS, of_all_steps

BACKWARD = ("delta", "outer")
LAST = -1


def part(step, *names):
    """Some quantities of a step."""
    return {name: values for name, values in step.items() if name in names}


@pytest.mark.claim("hand-worked.forward")
def test_gates_states_logits_and_predictions_are_the_printed_ones(lstm64, evidence):
    """a, f, i, c̃, o, f ⊙ c, i ⊙ c̃, c, h, z = h W_hy, e^z, Σ e^z and ŷ = softmax(z) of the four steps"""
    for t, (found, document) in enumerate(zip(forward(lstm64), printed_steps(), strict=True), start=1):
        values = part(document, *(set(document) - {"loss", *BACKWARD}))
        compare(evidence, f"t = {t}", found, values)


@pytest.mark.claim("hand-worked.inline-product")
def test_the_printed_hidden_state_times_the_read_out_is_the_longer_product(first_lstm64, evidence):
    """[0.06327 -0.06513] W_hy, to six decimals: h_1 rounded to five"""
    h = np.round(first_lstm64(WEIGHTS).run(WORDS[:, :1]).h[0], 5)
    for word, product, document in zip(VOCABULARY, h @ READ_OUT, printed()["whole"]["inline"], strict=True):
        evidence.printed(f"z_1 of «{word}»", product, f"{document:.6f}")


@pytest.mark.claim("hand-worked.gates-in-words")
def test_the_gates_admit_and_keep_what_the_article_says_in_words(first_lstm64, evidence):
    """c_1 / c̃_1 about half; f_2 some 60 % and half; i_2 49 % and 58 %"""
    first, second = forward(first_lstm64)[:2]
    admitted = first["c"] / first["candidate"]
    evidence.at_most("largest |c_1 / c̃_1 - 1/2|", np.abs(admitted - 0.5).max(), 0.1)
    for name, gate, shares in (("f_2", "forget", ("0.60", "0.50")), ("i_2", "input", ("0.49", "0.58"))):
        for unit, share in enumerate(shares):
            evidence.printed(f"{name}[{unit}]", second[gate][unit], share)


@pytest.mark.claim("hand-worked.same-word-other-state")
def test_what_tells_the_second_the_from_the_first_is_the_state_alone(first_lstm64, evidence):
    """x_4 = x_1, but h_4 ≠ h_1 and z_4 ≠ z_1; from a state of zeros the fourth word gives step 1 again"""
    steps, loaded = forward(first_lstm64), first_lstm64(WEIGHTS)
    evidence.equal("x_4 - x_1", WORDS[0, 3], WORDS[0, 0])
    evidence.at_least("max |h_4 - h_1|", np.abs(steps[3]["h"] - steps[0]["h"]).max(), 0.05)
    evidence.at_least("max |z_4 - z_1|", np.abs(steps[3]["z"] - steps[0]["z"]).max(), 0.01)
    again = loaded.run(WORDS[:, 3:])
    evidence.equal("h_4 from zeros - h_1", again.h[0], steps[0]["h"])
    evidence.equal("c_4 from zeros - c_1", again.c[0], steps[0]["c"])


@pytest.mark.claim("hand-worked.losses")
def test_the_losses_and_their_mean_are_the_printed_ones(first_lstm64, evidence):
    """L_t = -ln ŷ_t[target], L = (L_1 + L_2 + L_3 + L_4) / 4"""
    steps = forward(first_lstm64)
    for t, (found, document) in enumerate(zip(steps, printed_steps(), strict=True), start=1):
        evidence.printed(f"L_{t}", found["loss"], f"{document['loss']:.5f}")
    evidence.printed("L", of_all_steps(steps)["mean_loss"], f"{printed()['whole']['mean_loss']:.5f}")


@pytest.mark.claim("hand-worked.just-above-uniform")
def test_before_training_the_loss_lies_just_above_that_of_a_uniform_guess(first_lstm64, evidence):
    """0 < L - ln 4 < 0.05; as much is to be expected of predictions so near to uniform, whatever the words are"""
    steps, uniform = forward(first_lstm64), -np.log(1 / 4)
    evidence.printed("-ln(1/4)", uniform, f"{printed()['whole']['uniform']:.5f}")
    above = of_all_steps(steps)["mean_loss"] - uniform
    evidence.at_least("L - ln 4", above, 1e-3)
    evidence.at_most("L - ln 4, just above", above, 0.05)
    whatever = np.mean([-np.log(step["y"]) for step in steps]) - uniform  # never below 0 (Gibbs)
    evidence.at_most("L - ln 4 were all words equally likely to follow", whatever, 0.01)


@pytest.mark.claim("hand-worked.logit-deltas")
def test_the_error_at_the_logits_is_a_quarter_of_prediction_minus_target(first_lstm64, tolerance, evidence):
    """δ^z_t = ∂L/∂z_t = (ŷ_t - y_t) / 4; each row sums to zero, in the printed digits too"""
    steps, document = forward(first_lstm64), printed_steps()
    delta = np.stack([step["delta"] for step in steps])
    within = tolerance.gradient(first_lstm64, WEIGHTS, 4)
    evidence.close_gradient("∂L/∂z by autograd - δ^z", by_autograd(first_lstm64)["z"], delta, within)
    evidence.close_gradient("sum of a row", delta.sum(1), np.zeros(4), within, scale=1.0)
    of_print = [sum(round(1e5 * value) for value in step["delta"]) for step in document]
    evidence.exactly("largest sum of a printed row, in its last digit", max(map(abs, of_print)), 0)
    for t, (found, values) in enumerate(zip(steps, document, strict=True), start=1):
        compare(evidence, f"t = {t}", found, part(values, "delta"))


@pytest.mark.claim("hand-worked.outer-products")
def test_the_read_outs_gradient_is_the_sum_of_four_outer_products(first_lstm64, evidence):
    """∂L/∂W_hy = Σ h_tᵀ δ^z_t, each product and the sum as printed"""
    steps = forward(first_lstm64)
    for t, (found, document) in enumerate(zip(steps, printed_steps(), strict=True), start=1):
        compare(evidence, f"t = {t}", found, part(document, "outer"))
    compare(evidence, "their sum", of_all_steps(steps), part(printed()["whole"], "W_hy"))


def hold_all(evidence, lines, of_all):
    """Every printed value beside the lines: 148 forward, and 57 for the mean loss and backward."""
    agree = compare(evidence, "all steps", of_all, part(printed()["whole"], *of_all))
    for t, (found, document) in enumerate(zip(lines, printed_steps(), strict=True), start=1):
        agree += compare(evidence, f"t = {t}", found, document)
    evidence.exactly("printed values that come out", agree, 205)


@pytest.mark.claim("hand-worked.printed-from-printed")
def test_each_printed_number_follows_from_the_printed_ones_before_it(evidence):
    """-ln(0.23787) = 1.43602, and so on: each line from the printed numbers that it names, rounded to five decimals"""
    hold_all(evidence, *hand_worked.line_by_line(printed_steps()))


@pytest.mark.claim("hand-worked.rounded-only-in-print")
def test_each_printed_number_is_the_unrounded_calculation_rounded_once(first_lstm64, evidence):
    """All 205 values from unrounded states; worked line by line from unrounded operands they are the same"""
    steps = forward(first_lstm64)
    hold_all(evidence, steps, of_all_steps(steps))
    for line, step in zip(hand_worked.line_by_line(steps)[0], steps, strict=True):
        apart = max(np.abs(line[name] - step[name]).max() for name in line)
        evidence.at_most("largest |line - quantity|, unrounded", apart, 1e-14)


@pytest.mark.claim("hand-worked.read-out-gradient")
def test_autograd_prints_the_gradient_of_the_read_out_that_the_hand_finds(lstm64, tolerance, evidence):
    """W_hy.grad: the printed eight numbers, and the sum of outer products to rounding"""
    found, truth = by_autograd(lstm64)["W_hy"], hand_worked.by_hand()["W_hy"]
    compare(evidence, "∂L/∂W_hy", {"W_hy": found}, part(printed()["whole"], "W_hy"))
    within = tolerance.gradient(lstm64, WEIGHTS, 4)
    evidence.close_gradient("∂L/∂W_hy by autograd - by hand", found, truth, within)


@pytest.mark.claim("hand-worked.ten-matrices")
def test_a_loop_and_two_lines_of_autograd_differentiate_all_ten_matrices(lstm64, tolerance, evidence):
    """∂L/∂E, ∂L/∂W_xf … ∂L/∂W_ho, ∂L/∂W_hy: none is zero, and each is the one that the chain rule gives by hand"""
    found, truth = by_autograd(lstm64), hand_worked.by_hand()
    evidence.exactly("matrices", len(truth), 10)
    evidence.exactly("numbers in them", sum(p.numel() for p in network(lstm64)[0].matrices), 48)
    within = tolerance.gradient(lstm64, WEIGHTS, 4)
    for name, gradient in truth.items():
        evidence.close_gradient("gradient by autograd - by hand", found[name], gradient, within, at=name)
    evidence.at_least("least size of a gradient", min(np.abs(found[name]).max() for name in truth), 1e-4)


@pytest.mark.claim("hand-worked.gradient-of-the-last-loss")
def test_the_last_hidden_states_common_factor_is_the_gradient_of_the_last_loss(first_lstm64, tolerance, evidence):
    """δ^h_4 = ∂L_4/∂h_4 = δ^z_4 W_hyᵀ, with δ^z_4 as the article defines it"""
    factor = forward(first_lstm64)[LAST]["delta"] @ READ_OUT.T
    found = by_autograd(first_lstm64)["h_4 of L_4"]
    within = tolerance.gradient(first_lstm64, WEIGHTS, 4)
    evidence.close_gradient("∂L_4/∂h_4 - δ^z_4 W_hyᵀ", found, factor, within)
    evidence.at_most("∂L_4/∂h_4 ÷ δ^z_4 W_hyᵀ", (found / factor).max(), 1 + within, documented=1.0)


@pytest.mark.claim("hand-worked.gradient-of-the-mean-loss")
def test_the_common_factor_is_the_gradient_of_the_mean_loss_a_quarter_of_the_last_ones(
    first_lstm64, tolerance, evidence
):
    """∂L/∂h_4 = δ^z_4 W_hyᵀ, for δ^z already holds the 1/4 of the mean; ∂L_4/∂h_4 is four times that"""
    factor = forward(first_lstm64)[LAST]["delta"] @ READ_OUT.T
    found, within = by_autograd(first_lstm64), tolerance.gradient(first_lstm64, WEIGHTS, 4)
    evidence.close_gradient("∂L/∂h_4 - δ^z_4 W_hyᵀ", found["h"][LAST], factor, within)
    ratio = found["h_4 of L_4"] / factor
    evidence.close("∂L_4/∂h_4 ÷ δ^z_4 W_hyᵀ - 4", ratio, np.full(2, 4.0), within)
