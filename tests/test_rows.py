"""pytest-html's table, told shortly: the browser writes out what pytest-html had written."""

from __future__ import annotations

import json
import re
import subprocess
from html import escape, unescape
from pathlib import Path

import pytest
from documents import CHROMIUM, NO_CHROMIUM
from mini import PATIENCE

from report.rows import full, shorten

PLAIN = (
    "claims/test_x.py::test_one[torch.nn.LSTM-float32]",
    ["Passed", "carousel.one", "torch.nn.LSTM float32", "7 ms"],
)
MARKED = ("claims/test_x.py::test_two[a<b]", ["Passed", "carousel.two", "", "8 ms"])
FAILED = ("claims/test_x.py::test_three", ["Failed", "carousel.three", "", "9 ms"])


def a_page():
    """What pytest-html writes, as far as its rows are concerned, and the rows."""
    rows = {test: [full(test, words)] for test, words in (PLAIN, MARKED, FAILED)}
    rows[FAILED[0]][0]["log"] = "it isn't <b>so</b> & that's it"
    blob = escape(json.dumps({"environment": {}, "tests": rows}))
    return f'<footer><div id="data-container" data-jsonblob="{blob}"></div></footer>', rows


def test_only_rows_like_all_others_are_shortened():
    page, rows = a_page()
    [told] = re.findall("data-jsonblob='([^']*)'", shorten(page))
    tests = json.loads(unescape(told))["tests"]
    assert tests == {PLAIN[0]: [PLAIN[1]], MARKED[0]: rows[MARKED[0]], FAILED[0]: rows[FAILED[0]]}


def test_a_browser_writes_the_rows_out(tmp_path: Path) -> None:
    if CHROMIUM is None:
        pytest.skip(NO_CHROMIUM)
    page, rows = a_page()
    show = "<pre id=shown></pre><script>shown.textContent = document.querySelector('#data-container').dataset.jsonblob"
    (tmp_path / "page.html").write_text(
        f"<!doctype html><meta charset=utf-8>{shorten(page)}{show}</script>", encoding="utf-8"
    )
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}/profile",
        "--dump-dom",
        (tmp_path / "page.html").as_uri(),
    ]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    [shown] = re.findall('<pre id="shown">(.*?)</pre>', run.stdout)
    assert json.loads(unescape(shown))["tests"] == rows
