"""Wires fixtures and report into pytest. What must be settled before torch is imported comes first."""

from collections.abc import Generator
from typing import Any

import pytest

from fixtures import devices

devices.settle_environment()

pytest_plugins = ["fixtures.plugin", "fixtures.judging", "report.pytest_html", "report.plugin"]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, Any, Any]:
    from fixtures import guardian

    if not guardian.is_needed(config):
        return (yield)
    return (yield from guardian.run_in_child(config))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    from fixtures.plugin import CATALOGUE, diagnoser, settle
    from report.plugin import begin

    config.addinivalue_line("markers", "claim(id): the claim of fixtures/claims.toml that a test verifies")
    config.addinivalue_line(
        "markers",
        "training(*names, about): the claim asks networks trained by training.toml; {parameters} are filled in",
    )
    settle(config)
    begin(config, config.stash[CATALOGUE], diagnoser(config))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Whoever ran the checks says what it ran them with: a worker to the controller, a single process to itself."""
    from fixtures.plugin import fingerprint
    from report.plugin import ClaimReport

    if (said := fingerprint(session.config)) is None:
        return
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["fingerprint"] = said
    elif isinstance(reporter := session.config.pluginmanager.get_plugin("claim-report"), ClaimReport):
        reporter.fingerprint |= said
