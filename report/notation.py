"""Numbers as the report prints them, and how far a measured figure is from its limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Figure = Mapping[str, Any]

SMALLEST_FIXED, LARGEST_FIXED = 1e-3, 1e5  # outside these a fixed notation hides the digits that matter
RELATIONS = {"<=": "≤", ">=": "≥", "≈": "±"}


def number(x: Any) -> float | None:
    """The float that `x` stands for ("nan", "inf" and printed numbers such as "5.28e-01" included), or None."""
    if x is None or isinstance(x, bool):
        return None
    if isinstance(x, (int, float)):
        return float(x)
    try:
        return float(str(x).replace("−", "-"))
    except ValueError:
        return None


def significant(x: Any, exact: bool = False, digits: int = 3, scientific: bool = False) -> str:
    """`x` to three significant digits; integers in full; what is not a number unchanged.

    Args:
        x: a number, one of "nan", "inf", "-inf", a printed number, or None (shown as a dash).
        exact: x belongs to an equality, so that a zero is worth the remark «bit-exact».
        digits: significant digits, where three cannot tell two numbers apart.
        scientific: with an exponent whatever the size, as others in the column have one.
    """
    value = number(x)
    if value is None:
        return "–" if x is None else str(x)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "infinite" if value > 0 else "−infinite"
    if value == 0:
        return "0 (bit-exact)" if exact else "0"
    if isinstance(x, int) and abs(x) < 10**7:
        return _minus(str(x))
    text = f"{value:.{digits - 1}e}"
    if scientific or not SMALLEST_FIXED <= abs(float(text)) < LARGEST_FIXED:
        return _minus(text)
    return _minus(f"{value:.{max(0, digits - 1 - int(text.split('e')[1]))}f}")


def _minus(text: str) -> str:
    """Only a leading minus becomes a typographic one: exponents stay as a machine reads them."""
    return "−" + text[1:] if text.startswith("-") else text


def as_printed(x: Any, printed: str) -> str:
    """`x` with the notation and the decimals of a number printed in a document."""
    value = number(x)
    if value is None or not math.isfinite(value) or number(printed) is None:
        return significant(x)
    mantissa, _, exponent = printed.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    text = f"{value:.{decimals}{'e' if exponent else 'f'}}"
    return significant(x) if float(text) == 0 != value else _minus(text)


def is_exact(figure: Figure) -> bool:
    """Whether the figure asks for equality, so that only a difference of 0 will do."""
    if figure["relation"] == "==":
        return True
    below = (number(figure["measured"]) or 0) < 0  # then the limit of 0 is one on the sign
    return figure["relation"] in ("<=", "≈") and number(figure["allowed"]) == 0 and not below


def column(show: Callable[[Figure, bool], str], figures: Sequence[Figure]) -> list[str]:
    """What `show` makes of the figures, all with an exponent if one needs it."""
    texts = [show(figure, False) for figure in figures]
    return [show(figure, True) for figure in figures] if any("e-" in text or "e+" in text for text in texts) else texts


def documented(figure: Figure, scientific: bool = False) -> str:
    """The documented value: as printed where it was printed."""
    value = figure["documented"]
    if isinstance(value, str) and math.isfinite(number(value) or 0):
        return value if number(value) is None else _minus(value)
    return significant(value, scientific=scientific)


def measured(figure: Figure, scientific: bool = False) -> str:
    """The measured value, with as many digits as it takes to see why the figure does not hold."""
    x, target = figure["measured"], figure["documented"]
    border = figure["allowed"] if figure["relation"] in ("<=", ">=") else target
    if number(x) == 0:
        return significant(x, exact=is_exact(figure) and figure["holds"])
    text = as_printed(x, target) if isinstance(target, str) else significant(x, scientific=scientific)
    digits = 3
    while not figure["holds"] and digits < 18 and number(text) == number(significant(border, digits=digits)):
        digits += 1
        text = significant(x, digits=digits, scientific=scientific)
    return text


def limit(figure: Figure, scientific: bool = False) -> str:
    """What is allowed, with its relation: "≤ 1.00e-06", "≥ 0.900", "± 5.00e-04", "0", "equal"."""
    if figure["relation"] == "==" or (figure["relation"] == "≈" and is_exact(figure)):
        return "equal"
    if figure["relation"] == "shown":
        return "not judged"
    if figure["allowed"] is None:
        return "–"
    if is_exact(figure):
        return "0"
    return f"{RELATIONS[figure['relation']]} {significant(figure['allowed'], scientific=scientific)}"


def miss(figure: Figure) -> float:
    """How badly a figure misses: up to 1 inside its limit, above 1 the factor by which it misses, infinite for NaN."""
    if figure["holds"]:
        return min(_ratio(figure) or 0.0, 1.0)
    x, ratio = number(figure["measured"]), _ratio(figure)
    if x is None or not math.isfinite(x) or is_exact(figure):
        return math.inf
    return ratio if ratio is not None and ratio > 1 else 1.0


def badness(figure: Figure) -> tuple[bool, float, float]:
    """What makes one figure worse than another of its name: that it misses, the factor, and the difference."""
    x, limit = number(figure["measured"]), number(figure["allowed"])
    beyond = abs(x - (limit or 0.0)) if x is not None and math.isfinite(x) and not figure["holds"] else 0.0
    return not figure["holds"], miss(figure), beyond


def _ratio(figure: Figure) -> float | None:
    """The quotient of measured and allowed that is 1 at the limit and larger beyond it; None where it means nothing."""
    x, allowed, target = (number(figure[key]) for key in ("measured", "allowed", "documented"))
    if x is None or not math.isfinite(x) or allowed is None or allowed <= 0 or not math.isfinite(allowed):
        return None
    if figure["relation"] == "<=":
        return x / allowed
    if figure["relation"] == ">=":
        return allowed / x if x > 0 else None
    return abs(x - target) / allowed if figure["relation"] == "≈" and target is not None else None


def distance(figure: Figure) -> str:
    """How far the figure is from its limit, in words: "0.12 of the limit", "12× the limit", "exact"."""
    x, allowed, target = (number(figure[key]) for key in ("measured", "allowed", "documented"))
    holds = figure["holds"]
    if figure["relation"] == "shown":
        return "beside the printed one"
    if x is None:
        return "not measured" if figure["measured"] is None else "equal" if holds else "not equal"
    if not math.isfinite(x):
        return "as allowed" if holds else ("not a number" if math.isnan(x) else "infinite")
    if is_exact(figure):
        against = target if figure["relation"] in ("==", "≈") else 0.0
        if holds:
            return "exact"
        return "not equal" if against is None else f"off by {significant(abs(x - against))}"
    ratio = _ratio(figure)
    if ratio is None:
        if allowed is None or figure["relation"] == "≈":
            return "inside" if holds else "outside"
        return f"{'above' if x >= allowed else 'below'} by {significant(abs(x - allowed))}"
    if figure["relation"] == ">=":
        return f"{_quotient(1 / ratio)} what is asked"
    return f"{_quotient(ratio)} the {'tolerance' if figure['relation'] == '≈' else 'limit'}"


def _quotient(ratio: float) -> str:
    """ "0.12 of" below one, "12×" above; enough digits not to round a miss to one."""
    if ratio < 0.01:
        return "< 0.01 of"
    if ratio >= 1e4:
        return f"{ratio:.1e}×"
    digits = 2
    while digits < 16 and ratio != 1 and float(f"{ratio:.{digits}g}") == 1:
        digits += 1
    return f"{float(f'{ratio:.{digits}g}'):.15g}{'×' if ratio > 1 else ' of'}"
