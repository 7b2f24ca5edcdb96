"""Sound cells: correct implementations, and the real claims run over them with other probes.

Each computes the declared equations in a way of its own: torch.nn's other paths, layers written by hand, other orders of
summation, more precision than asked for, other gradients' code. `SOUND` has them as subjects by name, the built-in ones
first; `alarms(subjects, draw)` says what the claims hold against them.
"""

from __future__ import annotations

from sound.equations import EQUATIONS
from sound.run import Alarm, Margin, Said, run, sweep
from sound.torch_paths import TORCH_PATHS

from fixtures.subjects import BUILT_IN, Subject

SOUND: dict[str, Subject] = {subject.name: subject for subject in (*BUILT_IN, *TORCH_PATHS, *EQUATIONS)}
"""Every correct implementation by name."""

__all__ = ["SOUND", "Alarm", "Margin", "Said", "run", "sweep"]
