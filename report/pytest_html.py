"""A pytest plugin: our page on top of pytest-html's, and a claim and a subject in its table."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from html import escape
from pathlib import Path
from typing import Any

import pytest

from report import page, rows

DOCUMENT = pytest.StashKey[dict[str, Any]]()
"""Where, in `config.stash`, the document has to be before pytest-html finishes (it does so trylast)."""

COLUMN = 1  # after the result


@pytest.hookimpl(optionalhook=True)
def pytest_html_report_title(report: Any) -> None:
    """Name the device, and the cell where there is one."""
    option = report.config.getoption
    device, cell = option("device", None), option("cell", None)
    if device:
        report.title = f"Carousel: claims on {device}{f', {cell}' if cell else ''}"


@pytest.hookimpl(optionalhook=True)
def pytest_html_results_summary(prefix: list[str], session: pytest.Session) -> None:
    """Put the report first; without a document the page stays pytest-html's own."""
    if (document := session.config.stash.get(DOCUMENT, None)) is not None:
        prefix.append(page.fragment(document))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """After pytest-html has written its page, tell its table shortly."""
    yield
    path = getattr(session.config.option, "htmlpath", None)
    if path and DOCUMENT in session.config.stash and (file := Path.cwd() / path).is_file():
        file.write_text(_mended(rows.shorten(file.read_text(encoding="utf-8"))), encoding="utf-8")


@pytest.hookimpl(optionalhook=True, trylast=True)
def pytest_metadata(metadata: dict[str, Any]) -> None:
    """Versions in one line each: of a table in a table pytest-html makes a list that is none."""
    for name, value in metadata.items():
        if isinstance(value, Mapping):
            metadata[name] = ", ".join(f"{key} {version}" for key, version in value.items())


@pytest.hookimpl(optionalhook=True)
def pytest_html_results_table_header(cells: list[str]) -> None:
    """A claim and a subject more, the links less: as many as in every row, or the run ends with an internal error.

    pytest-html stores the text of a sortable column twice; the test ids, its longest, can be sorted by claim.
    """
    cells[:] = [
        cell.replace('class="sortable" ', "") if "testId" in cell else cell for cell in cells if "Links" not in cell
    ]
    cells[COLUMN:COLUMN] = [
        f'<th class="sortable" data-column-type="{name.lower()}">{name}</th>' for name in ("Claim", "Subject")
    ]


@pytest.hookimpl(optionalhook=True)
def pytest_html_results_table_row(report: pytest.TestReport, cells: list[str]) -> None:
    """The claim with a link to its card, and the subject with its dtype; empty where a report carries no evidence."""
    if not cells:  # another plugin has taken the row out
        return
    found = getattr(report, "evidence", None)
    evidence: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    claim = escape(str(evidence.get("claim") or ""))
    subject = " ".join(str(evidence[key]) for key in ("subject", "dtype") if evidence.get(key))
    link = _lean(f'<a href="#{claim}">{claim}</a>') if claim else ""
    cells[:] = [_lean(cell) for cell in cells if 'class="col-links"' not in cell]
    cells[COLUMN:COLUMN] = [
        f'<td class="col-claim col-links">{link}</td>',  # of this name a click follows the link and folds nothing
        f"<td class=col-subject>{escape(subject)}</td>",
    ]


@pytest.hookimpl(optionalhook=True)
def pytest_html_results_table_html(report: pytest.TestReport, data: list[str]) -> None:
    """No log for a passed test, nor for an expected failure: its reason stands in the claim's card."""
    if report.passed or (report.skipped and hasattr(report, "wasxfail")):
        data.clear()


def _mended(text: str) -> str:
    """pytest-html's page for those who hear it or go through it by keyboard: its language, a name for each of its
    boxes, and what stands at the foot of the page in that place.
    """
    text = text.replace("<html>", '<html lang="en">', 1)
    text = re.sub(r'(<input [^>]*class="filter"[^>]*data-test-result="(\w+)")', r'\1 aria-label="\2"', text)
    foot = re.search(r"<p>Report generated on .*?(?=<!-- TEMPLATES -->)", text, re.DOTALL)
    if foot and (end := text.rfind("<footer>")) > foot.end():
        text = text[: foot.start()] + text[foot.end() : end] + foot[0] + text[end:]
    return text


def _lean(cell: str) -> str:
    """Attributes without quotes where HTML allows it: in pytest-html's page a quote takes six characters."""
    return re.sub(r'="([\w.#-]+)"', r"=\1", cell)
