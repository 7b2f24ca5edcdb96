"""Every faulty cell of `tests.faults` turns the gate red by the claim that it names, and the sound ones do not."""

from __future__ import annotations

import pytest
from planted.run import the_catalogue

from tests.faults import FAULTS, SOUND
from tests.faults.run import refuted_by_their_claims, said

PARTS = 16


@pytest.mark.parametrize("part", range(PARTS))
def test_each_fault_is_refuted_by_the_claim_that_it_names(part: int) -> None:
    cells = list(FAULTS.values())[part::PARTS]
    found = refuted_by_their_claims(cells)
    assert not {name: claims for name, claims in found.items() if "refuted" not in claims.values()}


@pytest.mark.parametrize("name", SOUND)
def test_what_the_faults_are_planted_in_is_sound(name: str) -> None:
    found = said(
        [SOUND[name]],
        where=[
            "claims/test_cells.py",
            "claims/test_cells_calls.py",
            "claims/test_cells_sizes.py",
            "claims/test_layouts.py",
        ],
    )[name]
    assert len(found) >= 20
    assert set(found.values()) == {"upheld"}


def test_there_are_enough_of_them_and_each_says_what_it_is() -> None:
    assert len(FAULTS) >= 70
    assert sum("Hand" in base.__name__ for cell in FAULTS.values() for base in cell.__mro__[1:2]) >= 30
    catalogue = the_catalogue()
    for name, cell in FAULTS.items():
        assert cell.__doc__ and "\n" not in cell.__doc__, f"{name} says what is wrong in one line"
        assert catalogue.claims[cell.fault.by]["expected"] == "upheld"


def test_each_kind_of_convention_is_among_them() -> None:
    said_of = " ".join(cell.fault.convention or "" for cell in FAULTS.values())
    for word in (
        "order",
        "writes",
        "reset before",
        "transposed",
        "missing",
        "doubled",
        "run time",
        "sigmoid",
        "states",
    ):
        assert word in said_of
