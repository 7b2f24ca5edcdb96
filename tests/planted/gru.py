"""Faults in the GRU's equations and conventions."""

from __future__ import annotations

import torch
from torch import Tensor

from planted.plant import plant
from reference import cells


class BrokenGRU(cells.GRU):
    """The GRU with the reset after the product, in parts that a fault can override one by one."""

    def update_gate(self, x: Tensor, h: Tensor) -> Tensor:
        return torch.sigmoid(self.update(x, h))

    def reset_gate(self, x: Tensor, h: Tensor) -> Tensor:
        return torch.sigmoid(self.reset(x, h))

    def written(self, x: Tensor, h: Tensor, r: Tensor) -> Tensor:
        n = self.candidate
        return torch.tanh(x @ n.W_x + n.b + r * (h @ n.W_h + n.b_h))

    def blend(self, z: Tensor, h: Tensor, n: Tensor, r: Tensor) -> Tensor:
        return z * h + (1 - z) * n

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        r, z = self.reset_gate(x, h), self.update_gate(x, h)
        return self.blend(z, h, self.written(x, h, r), r)


class BrokenDeckGRU(BrokenGRU):
    """The deck's GRU likewise: the update gate writes, and the reset comes before the product."""

    kind = "gru-deck"

    def update_gate(self, x, h):
        return torch.sigmoid(-self.update(x, h))

    def written(self, x, h, r):
        return torch.tanh(self.candidate(x, r * h))

    def blend(self, z, h, n, r):
        return (1 - z) * h + z * n


@plant
class UpdateWrites(BrokenGRU):
    """The update gate writes where it should keep."""

    def blend(self, z, h, n, r):
        return (1 - z) * h + z * n


@plant
class DecksUpdateKeeps(BrokenDeckGRU):
    """The deck's update gate keeps where it should write."""

    def blend(self, z, h, n, r):
        return z * h + (1 - z) * n


@plant
class ResetBeforeProduct(BrokenGRU):
    """PyTorch's GRU applies the reset before the product."""

    def written(self, x, h, r):
        n = self.candidate
        return torch.tanh(x @ n.W_x + n.b + (r * h) @ n.W_h + n.b_h)


@plant
class ResetAfterProduct(BrokenDeckGRU):
    """The deck's GRU applies the reset after the product."""

    def written(self, x, h, r):
        n = self.candidate
        return torch.tanh(x @ n.W_x + n.b + r * (h @ n.W_h))


@plant
class ResetIgnored(BrokenGRU):
    """The reset gate is computed and not used."""

    def reset_gate(self, x, h):
        return torch.ones_like(h)


@plant
class ResetOnTheState(BrokenGRU):
    """The reset gate multiplies what is kept, too."""

    def blend(self, z, h, n, r):
        return z * (r * h) + (1 - z) * n


@plant
class InnerBiasOutside(BrokenGRU):
    """The bias inside the reset product is added outside."""

    def written(self, x, h, r):
        n = self.candidate
        return torch.tanh(x @ n.W_x + n.b + n.b_h + r * (h @ n.W_h))


@plant
class InnerBiasLeftOut(BrokenGRU):
    """The bias inside the reset product is left out."""

    def written(self, x, h, r):
        n = self.candidate
        return torch.tanh(x @ n.W_x + n.b + r * (h @ n.W_h))


@plant
class UpdateBiasOne(BrokenGRU):
    """The step adds a bias of 1 to the update gate."""

    def update_gate(self, x, h):
        return torch.sigmoid(self.update(x, h) + 1.0)


@plant
class UpdateBlindToState(BrokenGRU):
    """The update gate sees the input alone."""

    def update_gate(self, x, h):
        return super().update_gate(x, torch.zeros_like(h))


@plant
class UpdateStuckAtZero(BrokenGRU):
    """The update gate never keeps anything."""

    def update_gate(self, x, h):
        return torch.zeros_like(h)


@plant
class SumForMean(BrokenGRU):
    """The candidate is added whole: h' = z h + n."""

    def blend(self, z, h, n, r):
        return z * h + n


@plant
class LeakyState(BrokenGRU):
    """A thousandth of the state is lost at every step."""

    def blend(self, z, h, n, r):
        return 0.999 * z * h + (1 - z) * n


@plant
class DetachedState(BrokenGRU):
    """The state that is kept is cut out of the graph."""

    def blend(self, z, h, n, r):
        return z * h.detach() + (1 - z) * n


@plant
class DecksHardSigmoid(BrokenDeckGRU):
    """The deck's GRU with piecewise linear gates, exactly 0 and 1 beyond ±3."""

    def update_gate(self, x, h):
        return torch.clamp(0.5 - self.update(x, h) / 6, 0, 1)

    def reset_gate(self, x, h):
        return torch.clamp(self.reset(x, h) / 6 + 0.5, 0, 1)


@plant
class DecksHalfState(BrokenDeckGRU):
    """The deck's GRU keeps its state in float16."""

    def blend(self, z, h, n, r):
        return super().blend(z, h, n, r).half().to(h.dtype)


@plant
class TorchsHalfState(BrokenGRU):
    """PyTorch's GRU keeps its state in float16."""

    def blend(self, z, h, n, r):
        return super().blend(z, h, n, r).half().to(h.dtype)
