"""The next-word LSTM that W works by hand: four words, two units, ten matrices and no biases.

Sources: W «Create Arbitrary Weights» to «Calculate Output Gradient», and its PyTorch program. A step of the article is
a `Step`: its quantities by name, of shape (2,) for gates and states, (4,) for what is of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import expit as sigmoid
from torch import Tensor
from torch.nn.functional import cross_entropy, embedding
from torch.optim.adam import adam

from reference import layouts, oracle
from reference.weights import Array

VOCABULARY = ("the", "rise", "of", "machine")
SENTENCE = (0, 1, 2, 0, 3)
INPUTS, TARGETS = SENTENCE[:-1], SENTENCE[1:]

EMBEDDING = np.array([[0.6, -0.2], [0.4, 0.7], [-0.5, 0.3], [0.1, -0.8]])
"""E (4, 2): a row per word."""
KERNELS = {
    name: np.array(rows)
    for name, rows in {
        "W_xc": [[0.5, -0.3], [0.2, 0.4]],
        "W_hc": [[0.1, 0.4], [-0.2, 0.3]],
        "W_xf": [[0.3, -0.2], [0.4, 0.1]],
        "W_hf": [[0.2, 0.3], [-0.1, 0.2]],
        "W_xi": [[0.5, 0.2], [-0.3, 0.4]],
        "W_hi": [[0.1, -0.2], [0.3, 0.2]],
        "W_xo": [[-0.4, 0.2], [0.3, 0.5]],
        "W_ho": [[0.2, -0.3], [0.1, 0.4]],
    }.items()
}
READ_OUT = np.array([[0.7, -0.1, 0.2, -0.5], [-0.3, 0.6, -0.4, 0.2]])
"""W_hy (2, 4)."""
WEIGHTS = layouts.read(KERNELS, layouts.W_LSTM)
WORDS = EMBEDDING[list(INPUTS)][None]
"""The inputs x_1 … x_4, (1, 4, 2)."""

Step = Mapping[str, Array]


@dataclass(frozen=True)
class Before:
    """What a step starts from: its input, the state of the step before, and the word that it should name."""

    x: Array
    h: Array
    c: Array
    target: int


def pre_activation(gate: str, before: Before) -> Array:
    """x W_x + h W_h of a gate."""
    a: Array = before.x @ WEIGHTS[gate].W_x + before.h @ WEIGHTS[gate].W_h
    return a


def loss(y: Array, target: int) -> Array:
    """The cross-entropy of one step, -ln ŷ[target], of shape ()."""
    return np.asarray(-np.log(y[target]))


def delta_z(y: Array, target: int) -> Array:
    """∂L/∂z_t of the loss that is the mean over the four steps: (ŷ - y) / 4."""
    delta: Array = (y - np.eye(len(VOCABULARY))[target]) / len(TARGETS)
    return delta


LINES: dict[str, Callable[[Step, Before], Array]] = {
    "a_forget": lambda step, before: pre_activation("forget", before),
    "forget": lambda step, before: sigmoid(step["a_forget"]),
    "a_input": lambda step, before: pre_activation("input", before),
    "input": lambda step, before: sigmoid(step["a_input"]),
    "a_candidate": lambda step, before: pre_activation("candidate", before),
    "candidate": lambda step, before: np.tanh(step["a_candidate"]),
    "a_output": lambda step, before: pre_activation("output", before),
    "output": lambda step, before: sigmoid(step["a_output"]),
    "kept": lambda step, before: step["forget"] * before.c,
    "written": lambda step, before: step["input"] * step["candidate"],
    "c": lambda step, before: step["kept"] + step["written"],
    "h": lambda step, before: step["output"] * np.tanh(step["c"]),
    "z": lambda step, before: step["h"] @ READ_OUT,
    "exp_z": lambda step, before: np.exp(step["z"]),
    "sum_exp_z": lambda step, before: np.asarray(np.sum(step["exp_z"])),
    "y": lambda step, before: step["exp_z"] / step["sum_exp_z"],
    "loss": lambda step, before: loss(step["y"], before.target),
    "delta": lambda step, before: delta_z(step["y"], before.target),
    "outer": lambda step, before: np.outer(step["h"], step["delta"]),
}
"""The article's calculation of one step, line by line: each quantity from those above it. `kept` is f ⊙ c_{t-1},
`written` i ⊙ c̃, `y` the softmax ŷ, `delta` δ^z and `outer` what the step adds to ∂L/∂W_hy, hᵀ δ^z."""


def befores(states: Sequence[Step]) -> list[Before]:
    """What each of the four steps starts from, given the states h and c of all of them."""
    blank = {"h": np.zeros(2), "c": np.zeros(2)}
    return [
        Before(x, of["h"], of["c"], target)
        for x, of, target in zip(WORDS[0], (blank, *states[:-1]), TARGETS, strict=True)
    ]


def carried_on(known: Step, before: Before) -> Step:
    """A step from what is known of it: each further line takes the unrounded results of those above it."""
    step = dict(known)
    for name, line in LINES.items():
        if name not in step:
            step[name] = line(step, before)
    return step


def of_all_steps(steps: Sequence[Step]) -> Step:
    """The mean loss, and ∂L/∂W_hy as the sum of the outer products."""
    return {
        "mean_loss": np.asarray(np.mean([step["loss"] for step in steps])),
        "W_hy": np.sum([step["outer"] for step in steps], axis=0),
    }


def line_by_line(steps: Sequence[Step]) -> tuple[list[Step], Step]:
    """Every line worked out from what the given steps say for its operands, as a reader checks a page.

    Where a step does not say what a line asks for, the line's own result stands in. Returns the lines of each step and
    those of all steps together.
    """
    checked: list[Step] = []
    for step, before in zip(steps, befores(steps), strict=True):
        found: dict[str, Array] = {}
        for name, line in LINES.items():
            found[name] = line({**found, **step}, before)
        checked.append(found)
    return checked, of_all_steps(steps)


def by_hand() -> dict[str, Array]:
    """The gradient of the mean loss with respect to each of the ten matrices, by the chain rule written out."""
    tape = oracle.forward(WEIGHTS, WORDS)
    logits = tape.outputs[0] @ READ_OUT
    y = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    delta = np.stack([delta_z(y_t, target) for y_t, target in zip(y, TARGETS, strict=True)])
    pulled = oracle.backward(tape, outputs=(delta @ READ_OUT.T)[None])
    of_words = np.zeros_like(EMBEDDING)
    np.add.at(of_words, list(INPUTS), pulled.x[0])  # «the» stands there twice
    return {"E": of_words, **kernels_of(pulled.parameters), "W_hy": tape.outputs[0].T @ delta}


def kernels_of(parameters: Mapping[str, Array]) -> dict[str, Array]:
    """The article's eight kernels among canonical parameters such as `forget.W_x`."""
    letters = zip(layouts.W_LSTM.order, layouts.W_LSTM.letters, strict=True)
    return {f"W_{side}{letter}": parameters[f"{gate}.W_{side}"] for gate, letter in letters for side in "xh"}


class NextWord:
    """The article's network around a recurrent net in torch: E, the net, W_hy; it names the word that follows.

    Args:
        net: outputs (1, T, 2) and the last state for inputs (1, T, 2) and a state, None for zeros.
        kernels: the matrices that the net learns; they say on which device, and in which number format.
    """

    def __init__(self, net: Callable[[Tensor, None], tuple[Tensor, Any]], kernels: Sequence[Tensor]) -> None:
        self.net = net
        self.E, self.W_hy = (kernels[0].new_tensor(array).requires_grad_() for array in (EMBEDDING, READ_OUT))
        self.matrices = [self.E, *kernels, self.W_hy]

    def hidden(self, words: Sequence[int]) -> Tensor:
        """The hidden states h_1 … h_T, (T, 2)."""
        indices = torch.tensor(words, device=self.E.device)
        return self.net(embedding(indices, self.E)[None], None)[0][0]

    def __call__(self, words: Sequence[int]) -> Tensor:
        """Logits (T, 4)."""
        return self.hidden(words) @ self.W_hy


@dataclass(frozen=True)
class Training:
    """What the article's program prints, of every epoch: the mean loss and the predicted words."""

    losses: Array
    predictions: list[list[int]]


class Adam:
    """torch's Adam, without torch.optim's class around it, whose first step imports all of torch.compile."""

    def __init__(self, matrices: Sequence[Tensor], learning_rate: float) -> None:
        self.matrices, self.learning_rate = list(matrices), learning_rate
        self.means, self.squares = ([torch.zeros_like(matrix) for matrix in matrices] for _ in range(2))
        self.steps = [torch.zeros(()) for _ in matrices]

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for matrix in self.matrices:
            matrix.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Take a step against the gradients; a matrix without one stays."""
        reached = [k for k, matrix in enumerate(self.matrices) if matrix.grad is not None]
        matrices, means, squares, steps = (
            [of[k] for k in reached] for of in (self.matrices, self.means, self.squares, self.steps)
        )
        adam(
            matrices, [m.grad for m in matrices if m.grad is not None], means, squares, [], steps, foreach=False,
            amsgrad=False, beta1=0.9, beta2=0.999, lr=self.learning_rate, weight_decay=0.0, eps=1e-8, maximize=False,
        )  # fmt: skip


def optimiser(matrices: Sequence[Tensor]) -> Adam:
    """Adam at a learning rate of 0.05 on all matrices."""
    return Adam(matrices, 0.05)


def train(model: NextWord, epochs: int = 500) -> Training:
    """The article's loop: one pass over the sentence per epoch, from a state of zeros; loss, then update."""
    targets = torch.tensor(TARGETS, device=model.E.device)
    adam, losses, predictions = optimiser(model.matrices), [], []
    for _ in range(epochs):
        logits = model(INPUTS)
        mean_loss = cross_entropy(logits, targets)
        adam.zero_grad()
        mean_loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        losses.append(mean_loss.detach())
        predictions.append(logits.detach().argmax(1))
    return Training(torch.stack(losses).cpu().numpy(), torch.stack(predictions).tolist())
