"""The paths of a gradient: a run as the graph of its computation, each path through it walked, and counted.

Sources: W «∂L_4/∂W_xc Chain Preview» to «The remaining timesteps» for the LSTM, «Understand GRU through
backpropagation» for the GRU. Row vectors: a gradient is a row (H,), and an edge from a node to one of its operands
holds the local Jacobian J (H, H) = ∂node/∂operand that the gradient is multiplied by, δ_operand = δ_node J.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from reference.oracle import Tape
from reference.weights import Array, Weights

Node = tuple[str, int]
"""A quantity and its step, such as ("f", 4) for the forget gate f_4; states of step 0 are where a run starts."""
Path = tuple[Node, ...]
GATE_OF = {
    "f": "forget", "i": "input", "o": "output", "c̃": "candidate", "u": "update", "r": "reset", "h̃": "candidate"
}  # fmt: skip
"""The weight blocks behind W's names; h and c have none of their own."""


def written(path: Path) -> str:
    """A path as W writes it: h_4 → c_4 → …"""
    return " → ".join(f"{name}_{t}" for name, t in path)


@dataclass(frozen=True)
class Graph:
    """What depends on what in a run of one sequence, and by which local Jacobian.

    The nodes are named as in W: h, c, f, i, o and c̃ for the LSTM, h, u, r and h̃ for the GRU.
    """

    edges: dict[Node, dict[Node, Array]]
    uses: dict[Node, tuple[Array, Array]]
    """For each candidate the input x_t (D,) that its kernel multiplies, and the derivative of its tanh (H,)."""

    def share(self, path: Path, reached: Array) -> Array:
        """∂candidate/∂W_x at the end of a path, by what reaches that candidate: the path's share, (D, H)."""
        x, slope = self.uses[path[-1]]
        return np.outer(x, reached * slope)


def lstm(tape: Tape) -> Graph:
    """The graph of an LSTM's run: h_t = o_t ⊙ tanh(c_t), c_t = f_t ⊙ c_{t-1} + i_t ⊙ c̃_t, and each gate of h_{t-1}."""
    assert tape.c is not None, "an LSTM has a cell state"
    edges: dict[Node, dict[Node, Array]] = {}
    uses = {}
    for t, now in enumerate(tape.steps, start=1):
        f, i, g, o = now.forget[0], now.input[0], now.candidate[0], now.output[0]
        tanh_c = np.tanh(now.c[0])
        edges[("h", t)] = {("o", t): np.diag(tanh_c), ("c", t): np.diag(o * (1 - tanh_c**2))}
        edges[("c", t)] = {
            ("c", t - 1): np.diag(f), ("f", t): np.diag(tape.c[0, t - 1]), ("i", t): np.diag(g), ("c̃", t): np.diag(i)
        }  # fmt: skip
        for name, gate, slope in (
            ("f", "forget", f * (1 - f)), ("i", "input", i * (1 - i)), ("o", "output", o * (1 - o)),
            ("c̃", "candidate", 1 - g**2),
        ):  # fmt: skip
            edges[(name, t)] = {("h", t - 1): _through(tape.weights, gate, slope)}
        uses[("c̃", t)] = (tape.x[0, t - 1], 1 - g**2)
    return Graph(edges, uses)


def gru(tape: Tape) -> Graph:
    """The graph of W's GRU: h_t = u_t ⊙ h_{t-1} + (1 - u_t) ⊙ h̃_t, the reset gate after the recurrent product."""
    assert tape.weights.kind == "gru", "the reset gate comes after the product"
    edges: dict[Node, dict[Node, Array]] = {}
    uses = {}
    candidate = tape.weights["candidate"]
    for t, now in enumerate(tape.steps, start=1):
        r, u, n, before = now.reset[0], now.update[0], now.candidate[0], tape.h[0, t - 1]
        product = before @ candidate.W_h + candidate.b_h
        edges[("h", t)] = {("h", t - 1): np.diag(u), ("u", t): np.diag(before - n), ("h̃", t): np.diag(1 - u)}
        edges[("u", t)] = {("h", t - 1): _through(tape.weights, "update", u * (1 - u))}
        edges[("h̃", t)] = {
            ("h", t - 1): _through(tape.weights, "candidate", (1 - n**2) * r), ("r", t): np.diag((1 - n**2) * product)
        }  # fmt: skip
        edges[("r", t)] = {("h", t - 1): _through(tape.weights, "reset", r * (1 - r))}
        uses[("h̃", t)] = (tape.x[0, t - 1], 1 - n**2)
    return Graph(edges, uses)


def _through(weights: Weights, gate: str, slope: Array) -> Array:
    """∂gate/∂h_{t-1}: what multiplies a row δ in (δ ⊙ slope) W_hᵀ."""
    return np.diag(slope) @ weights[gate].W_h.T


def walk(graph: Graph, start: Node, delta: Array) -> Iterator[tuple[Path, Array]]:
    """Every path from a node towards the past, depth first, and what of delta (H,) reaches its end along it."""
    stack: list[tuple[Path, Array]] = [((start,), delta)]
    while stack:
        path, reached = stack.pop()
        yield path, reached
        operands = graph.edges.get(path[-1], {})
        stack += [((*path, operand), reached @ J) for operand, J in reversed(operands.items())]


def to_the_kernel(graph: Graph, steps: int, delta: Array) -> dict[int, list[tuple[Path, Array]]]:
    """The paths from h_T to the use of the candidate's W_x at each step, and the share (D, H) of each."""
    found: dict[int, list[tuple[Path, Array]]] = {t: [] for t in range(steps, 0, -1)}
    for path, reached in walk(graph, ("h", steps), delta):
        if path[-1] in graph.uses:
            found[path[-1][1]].append((path, graph.share(path, reached)))
    return found


def counted(steps: int) -> dict[int, int]:
    """How many paths lead from an LSTM's h_T to the use of its W_xc at each step, by recurrence.

    Let a_k paths lead to c_k, b_k to h_k. From h_k one goes on through o_k, from c_k three through a gate or the
    candidate: b_{k-1} = b_k + 3 a_k. And c_k is reached from h_k and from c_{k+1}: a_k = b_k + a_{k+1}.
    """
    a = b = 1
    counts = {steps: a}
    for k in range(steps - 1, 0, -1):
        b += 3 * a
        a += b
        counts[k] = a
    return counts
