"""The hand-worked LSTM trained: 500 epochs of Adam on one sentence.

W «Startover using PyTorch»; E36, E37. Learning rate 0.05, float64, the whole sentence in every epoch, from a state of
zeros. That takes half a second and is done once per process, so these claims belong to the quick gate.
"""

from itertools import permutations

import numpy as np
import pytest

from fixtures.hand_worked import by_autograd, mean_loss, named, network, printed, trained
from reference.hand_worked import EMBEDDING, SENTENCE, TARGETS, VOCABULARY

MACHINE = VOCABULARY.index("machine")


@pytest.mark.claim("hand-worked.loss-by-epoch")
def test_the_losses_of_five_hundred_epochs_are_the_printed_ones(first_lstm64, evidence):
    """Adam, learning rate 0.05, all ten matrices: the loss at epochs 50, 100 … 500"""
    losses, document = trained(first_lstm64)[1].losses, printed()["training"]
    points = list(zip(document["epoch"], document["loss"], strict=True))
    for epoch, loss in points:
        evidence.printed(f"loss at epoch {epoch}", losses[epoch - 1], f"{loss:.5f}")
    shown = [1, *range(10, 501, 10)]
    evidence.curve("hand-worked-loss", "mean loss", shown, [losses[epoch - 1] for epoch in shown], points)


@pytest.mark.claim("hand-worked.predictions-settle")
def test_from_epoch_fifty_on_every_word_is_predicted(first_lstm64, evidence):
    """argmax ŷ = [1, 2, 0, 3] at epoch 50 and at every epoch after it; before, not always"""
    predictions = trained(first_lstm64)[1].predictions
    wrong = [epoch for epoch, words in enumerate(predictions, start=1) if words != list(TARGETS)]
    settled = max(wrong, default=0) + 1
    evidence.at_most("first epoch from which every prediction is right", settled, 50)
    evidence.at_least("that epoch, after the start", settled, 2)
    words = " ".join(VOCABULARY[word] for word in predictions[-1])
    evidence.exactly("predicted words at epoch 500", words, "rise of the machine")


@pytest.mark.claim("hand-worked.three-orders")
def test_the_loss_falls_by_roughly_three_orders_of_magnitude(first_lstm64, evidence):
    """loss at epoch 1 / loss at epoch 500 = 789, which lies between 10^2.5 and 10^3.5"""
    losses = trained(first_lstm64)[1].losses
    orders = np.log10(losses[0] / losses[-1])
    evidence.at_least("orders of magnitude", orders, 2.5, documented="roughly three")
    evidence.at_most("orders of magnitude, not more", orders, 3.5, documented="roughly three")


@pytest.mark.claim("hand-worked.loss-after-the-epoch")
def test_the_loss_printed_at_an_epoch_is_the_one_after_it(first_lstm64, evidence):
    """The network that has been updated 50 times has a loss of 0.19650, after 500 times of 0.00179"""
    for model, updates, loss in (
        (trained(first_lstm64, 50)[0], 50, "0.19650"),
        (trained(first_lstm64)[0], 500, "0.00179"),
    ):
        evidence.printed(f"loss after {updates} updates", mean_loss(model, SENTENCE), loss)


@pytest.mark.claim("hand-worked.loss-before-the-update")
def test_the_loss_printed_at_an_epoch_is_the_one_before_its_update(first_lstm64, evidence):
    """Epoch 1 shows the untrained 1.41053, epoch 50 the loss after 49 updates"""
    losses = trained(first_lstm64)[1].losses
    evidence.printed("loss at epoch 1", losses[0], "1.41053")
    evidence.close("loss at epoch 1 - untrained loss", losses[0], mean_loss(network(first_lstm64)[0], SENTENCE), 1e-12)
    model, _ = trained(first_lstm64, 49)
    evidence.printed("loss after 49 updates", mean_loss(model, SENTENCE), "0.19650")


def moved(lstm):
    """How far 500 epochs move each number: E (4, 2), and all the others."""
    start, end = (
        [matrix.detach().cpu().numpy() for matrix in model.matrices] for model in (network(lstm)[0], trained(lstm)[0])
    )
    apart = [np.abs(b - a) for a, b in zip(start, end, strict=True)]
    return apart[0], np.concatenate([matrix.ravel() for matrix in apart[1:]])


@pytest.mark.claim("hand-worked.every-parameter-moves")
def test_training_updates_every_trainable_parameter(first_lstm64, evidence):
    """All 48 numbers of the ten matrices move"""
    embedding, others = moved(first_lstm64)
    evidence.exactly("numbers that move", int((embedding != 0).sum() + (others != 0).sum()), 48)


@pytest.mark.claim("hand-worked.machine-row-stays")
def test_the_row_of_the_word_that_is_never_read_stays_what_it_was(first_lstm64, evidence):
    """«machine» is a target only: ∂L/∂E[machine] = 0, and 500 epochs leave its row as it was, bit for bit"""
    embedding, others = moved(first_lstm64)
    evidence.equal("∂L/∂E[machine]", by_autograd(first_lstm64)["E"][MACHINE], np.zeros(2))
    after = trained(first_lstm64)[0].E.detach().cpu().numpy()
    evidence.equal("E[machine] after 500 epochs - before", after[MACHINE], EMBEDDING[MACHINE])
    read = np.delete(embedding, MACHINE, axis=0)
    evidence.at_least("least move of another number", min(read.min(), others.min()), 0.01)


@pytest.mark.claim("hand-worked.memorisation")
def test_the_trained_network_knows_its_sentence_and_no_other_order_of_its_words(first_lstm64, evidence):
    """Of the 59 other orders of these five words none is predicted whole, and the median loss is far above ln 4"""
    model, _ = trained(first_lstm64)
    others = sorted(set(permutations(SENTENCE)) - {SENTENCE})
    losses, right = ([judge(model, order) for order in others] for judge in (mean_loss, named))
    evidence.exactly("words of its own sentence that it names", named(model, SENTENCE), 4)
    evidence.exactly("other orders", len(others), 59)
    evidence.exactly("other orders that it predicts whole", sum(words == 4 for words in right), 0)
    evidence.at_most("share of words that it names in other orders, chance 1/4", np.mean(right) / 4, 0.3)
    evidence.at_least("median loss of other orders / ln 4", np.median(losses) / np.log(4), 2.0)
    evidence.at_least("share of other orders worse than a uniform guess", np.mean(np.array(losses) > np.log(4)), 0.9)
