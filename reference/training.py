"""Training on the recall task by the documented protocol, and what a run leaves behind (N §1.b, §2.c, §4.d, §7.c).

64 units, a linear read-out of the last hidden state, Adam at 1e-3, gradients clipped to norm 1, fresh batches of 128,
accuracy on 1000 held-out sequences every 25 steps and at the last.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim.adam import adam

from reference import networks, recall
from reference.networks import LAYERS, Make, Together
from reference.networks import Protocol as Protocol

BATCH, HELD_OUT, EVERY, SOLVED, CLIP = 128, 1000, 25, 0.95, 1.0
PARTS = [100, 300, 300, 300]
"""A processor asks the held-out sequences in parts that stay in its cache; the small first one finds most failures."""


@dataclass
class Run:
    """One training run: accuracy at each evaluated step, the loss of each step, parameters before and after.

    Before the last step the accuracy is that of the held-out sequences that were asked; see `accuracy`.
    """

    protocol: Protocol
    seed: int
    evaluated: list[int] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    before: dict[str, Tensor] = field(default_factory=dict)
    after: dict[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0
    """Processor time that the run took."""

    @property
    def first(self) -> int | None:
        """The first evaluated step with at least 95 % held-out accuracy; None where there is none."""
        return next((s for s, a in zip(self.evaluated, self.accuracy, strict=True) if a >= SOLVED), None)

    @property
    def solved(self) -> bool:
        return self.first is not None


class Adam:
    """Adam on gradients that are clipped network by network, as torch computes it.

    torch.optim.Adam is this function and a class around it that imports torch's compiler, a second for each process.
    """

    def __init__(self, parameters: list[Tensor], networks: int, learning_rate: float) -> None:
        self.parameters, self.networks, self.learning_rate = parameters, networks, learning_rate
        self.means = [torch.zeros_like(p) for p in parameters]
        self.squares = [torch.zeros_like(p) for p in parameters]
        self.steps = [torch.zeros((), device=p.device) for p in parameters]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Clip each network's gradient to norm 1, and take a step against it."""
        by_network = [gradient.reshape(self.networks, -1) for gradient in gradients]
        norm = torch.linalg.vector_norm(torch.cat(by_network, dim=1), dim=1, keepdim=True)
        scale = (CLIP / (norm + 1e-6)).clamp(max=1.0)
        clipped = [(g * scale).view_as(p) for g, p in zip(by_network, self.parameters, strict=True)]
        adam(
            self.parameters, clipped, self.means, self.squares, [], self.steps, fused=True, amsgrad=False,
            beta1=0.9, beta2=0.999, lr=self.learning_rate, weight_decay=0.0, eps=1e-8, maximize=False,
        )  # fmt: skip


def train(protocol: Protocol, seeds: Sequence[int], device: str = "cpu", make: Make | None = None) -> list[Run]:
    """Train one network per seed; each stops where the gap is solved, unless the protocol wants the whole run.

    The reference cells of several seeds are one tensor. Layers of torch.nn, and drop-ins, take turns, each on a stream
    of its own where the device is CUDA's, and wait for it at an evaluation alone.
    """
    began = time.process_time()
    runs = [Run(protocol, seed) for seed in seeds]
    stacked = make is None and protocol.net not in LAYERS
    trainings = [_training(some, device, make) for some in ([runs] if stacked else [[run] for run in runs])]
    streams = [torch.cuda.Stream(device) if device.startswith("cuda") else None for _ in trainings]  # type: ignore[no-untyped-call]
    going = list(zip(trainings, streams, strict=True))
    while going:
        for training, stream in list(going):
            with torch.cuda.stream(stream) if stream else nullcontext():
                if next(training, ENDED) is ENDED:
                    going.remove((training, stream))
    for run in runs:
        run.seconds = (time.process_time() - began) / len(runs)
    return runs


ENDED = object()


def _training(runs: list[Run], device: str, make: Make | None) -> Iterator[None]:
    """Train networks of one protocol side by side; gives way when it has asked its device for an evaluation."""
    protocol = runs[0].protocol
    models, streams = zip(*(networks.initial(protocol, run.seed, make) for run in runs), strict=True)
    together = Together(models, device)
    parameters: list[Tensor] = [p for p in together.named.values() if p.requires_grad]
    optimiser = Adam(parameters, len(runs), protocol.learning_rate)
    for k, run in enumerate(runs):
        run.before = together.copy(k)
    test = [tensor.to(device) for tensor in recall.held_out(protocol.task, HELD_OUT, protocol.gap)]
    losses, left = [], set(range(len(runs)))
    for step in range(protocol.steps):
        drawn = [recall.sequences(protocol.task, BATCH, protocol.gap, stream) for stream in streams]
        symbols, answers = (torch.stack(tensors).to(device) for tensors in zip(*drawn, strict=True))
        logits = together(recall.inputs(symbols))
        loss = cross_entropy(logits.transpose(1, 2), answers, reduction="none").mean(dim=1)
        optimiser.step(torch.autograd.grad(loss.sum(), parameters, materialize_grads=True))
        losses.append(loss.detach())
        last = step == protocol.steps - 1
        if step % EVERY == 0 or last:
            right, asked = evaluate(together, *test, whole=protocol.whole or last)
            yield
            accuracy = [answers / asked for answers in right.tolist()]
            for k in sorted(left):
                runs[k].evaluated.append(step)
                runs[k].accuracy.append(accuracy[k])
                if last or (accuracy[k] >= SOLVED and not protocol.whole):
                    runs[k].loss = torch.stack(losses)[:, k].tolist()
                    runs[k].after = together.copy(k)
                    left.remove(k)
        if not left:
            return


@torch.no_grad()
def evaluate(together: Together, test: Tensor, answers: Tensor, *, whole: bool) -> tuple[Tensor, int]:
    """How many of the held-out sequences (n, T) each network answers rightly, shape (S,), and how many were asked.

    A processor asks them in parts that stay in its cache, and no more of them once so many answers are wrong that the
    gap is not solved, unless it is to ask the `whole`.
    """
    right, asked = torch.zeros(len(together), dtype=torch.int64, device=test.device), 0
    sizes = PARTS if test.device.type == "cpu" else [HELD_OUT]
    for part, keys in zip(torch.split(test, sizes), torch.split(answers, sizes), strict=True):
        logits = together(recall.inputs(part).expand(len(together), -1, -1, -1))
        right += (logits.argmax(dim=2) == keys).sum(dim=1)
        asked += len(part)
        if not whole and asked < len(test) and bool((asked - right > (1 - SOLVED) * len(test)).all()):
            break
    return right, asked
