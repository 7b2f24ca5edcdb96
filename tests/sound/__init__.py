"""Sound cells: correct implementations, and the real claims run over them with other probes.

Each computes the declared equations in a way of its own: torch.nn's other paths, layers written by hand, other orders
of summation, more precision than asked for, a backward pass by hand. `SOUND` has them as subjects by name, the built-in
ones first; `run(subjects, draw)` says what the claims hold against them, `sweep` what parity holds at other sizes.
"""

from __future__ import annotations

from fixtures.subjects import BUILT_IN, Subject
from sound.equations import EQUATIONS
from sound.run import Alarm, Margin, Said, run, sweep
from sound.torch_paths import TORCH_PATHS

SOUND: dict[str, Subject] = {subject.name: subject for subject in (*BUILT_IN, *TORCH_PATHS, *EQUATIONS)}
"""Every correct implementation by name."""

NOT_QUITE = {
    "by-hand.SigmaByTanh-lstm": {
        "carousel.notebook-thousand-steps",
        "carousel.minus-forty-is-small",
        "carousel.drift-at-forty",
        "forced-gates.notebook-values",
    }
}
"""What the claims rightly hold against a sound cell: σ(-40) is 4.2e-18, and (1 + tanh(-20)) / 2 is 0."""


def alarms(said: Said) -> list[Alarm]:
    """The alarms of a run that are false."""
    return [alarm for alarm in said.alarms if alarm.claim not in NOT_QUITE.get(alarm.subject, ())]


__all__ = ["NOT_QUITE", "SOUND", "Alarm", "Margin", "Said", "alarms", "run", "sweep"]
