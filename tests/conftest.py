"""Fixtures for the suite's own tests.

Pytest reads this file before some runs of claims too, which may have less installed: so it imports late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mini import Project

pytest_plugins = ["pytester"]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """An empty mini-project around the real wiring."""
    from mini import Project

    return Project(pytester, monkeypatch)
