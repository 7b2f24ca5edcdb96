"""The recall task: a key, a gap of fillers, a query; the answer is the key (N §1.b). And a task of counting beside it.

Of 13 symbols 0 to 7 are keys, 8 to 11 fillers, 12 the query. A sequence has gap + 2 symbols.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import embedding

KEYS, FILLERS = 8, 4
WIDTH = KEYS + FILLERS + 1
QUERY = KEYS + FILLERS
SYMBOLS = "ABCDEFGHwxyz?"
CHANCE = 1 / KEYS


def tokens(n: int, gap: int, generator: torch.Generator) -> Tensor:
    """n sequences (n, gap + 2) from a CPU generator, drawn as the notebook draws them: all keys, then all fillers."""
    key = torch.randint(0, KEYS, (n,), generator=generator)
    filler = torch.randint(KEYS, KEYS + FILLERS, (n, gap), generator=generator)
    return torch.cat([key[:, None], filler, torch.full((n, 1), QUERY)], dim=1)


def gap_lengths(n: int, gap: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """n sequences (n, gap + 2) whose answers (n,) are how long ago a mark was: 0 is the longest ago, 7 the latest.

    The mark, symbol 0, stands in one of eight places among the fillers, gap // 8 apart: the variant of the task that
    an exercise asks for, in which the answer depends on the length of the gap (N exercise 2).
    """
    answer = torch.randint(0, KEYS, (n,), generator=generator)
    filler = torch.randint(KEYS, KEYS + FILLERS, (n, gap + 1), generator=generator)
    symbols = torch.cat([filler, torch.full((n, 1), QUERY)], dim=1)
    symbols[torch.arange(n), gap // KEYS * answer] = 0
    return symbols, answer


def sequences(task: str, n: int, gap: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """n sequences (n, gap + 2) of a task, `recall` or `gap-length`, and their answers (n,)."""
    if task == "gap-length":
        return gap_lengths(n, gap, generator)
    symbols = tokens(n, gap, generator)
    return symbols, symbols[:, 0]


def inputs(symbols: Tensor) -> Tensor:
    """One-hot inputs, time first: (..., gap + 2, n, 13) in float32 for symbols (..., n, gap + 2), on their device."""
    return embedding(symbols.mT, torch.eye(WIDTH, device=symbols.device))


def held_out(task: str, n: int, gap: int, seed: int = 1234) -> tuple[Tensor, Tensor]:
    """The sequences and answers on which every network is tested: 1000 of generator seed 1234 in the protocol."""
    return sequences(task, n, gap, torch.Generator().manual_seed(seed))
