"""pytest-html's table told shortly: a row like all others is kept as its four words and written out by the browser.

pytest-html keeps each row three times over, as JSON in an attribute, some 650 bytes; of a whole gate's two thousand
that is more than all the rest of the page. A row of another form, such as a failure with its log, stays as it is.
"""

from __future__ import annotations

import json
import re
from html import escape, unescape
from typing import Any

BLOB = re.compile(r'data-jsonblob="([^"]*)"></div>')

WRITE_OUT = """<script>
{
  const box = document.getElementById("data-container"), data = JSON.parse(box.dataset.jsonblob);
  const full = (id, [result, claim, subject, duration]) => {
    const link = `<a href=#${claim}>${claim}</a>`;
    return {extras: [], result, claim: link, subject, duration, resultsTableRow: [
      `<td class=col-result>${result}</td>`, `<td class="col-claim col-links">${link}</td>`,
      `<td class=col-subject>${subject}</td>`, `<td class=col-testId>${id}</td>`,
      `<td class=col-duration>${duration}</td>`], log: ""};
  };
  for (const [id, runs] of Object.entries(data.tests))
    data.tests[id] = runs.map(run => Array.isArray(run) ? full(id, run) : run);
  box.dataset.jsonblob = JSON.stringify(data);
}
</script>"""


def full(test: str, words: list[str]) -> dict[str, Any]:
    """A row as pytest-html keeps it, from its result, claim, subject and duration: what WRITE_OUT does."""
    result, claim, subject, duration = words
    link = f"<a href=#{claim}>{claim}</a>"
    cells = {
        "col-result": result, '"col-claim col-links"': link, "col-subject": subject, "col-testId": test,
        "col-duration": duration,
    }  # fmt: skip
    row = [f"<td class={name}>{content}</td>" for name, content in cells.items()]
    about = {"claim": link, "subject": subject, "duration": duration, "resultsTableRow": row}
    return {"extras": [], "result": result, **about, "log": ""}


def shorten(text: str) -> str:
    """A page of pytest-html's, its rows told shortly."""
    return BLOB.sub(_short, text)


def _short(blob: re.Match[str]) -> str:
    data = json.loads(unescape(blob[1]))
    data["tests"] = {test: [_words(test, row) for row in rows] for test, rows in data["tests"].items()}
    told = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    # In single quotes only they and ampersands have to be escaped.
    told = told.replace("&", "&amp;").replace("'", "&#39;")
    return f"data-jsonblob='{told}'></div>\n{WRITE_OUT}"


def _words(test: str, row: dict[str, Any]) -> list[str] | dict[str, Any]:
    """The four words of a row, or the row itself where they would not give it back."""
    claim = re.fullmatch(r"<a href=#[\w.-]+>([\w.-]+)</a>", row.get("claim", ""))
    if not claim:
        return row
    words = [row["result"], claim[1], row.get("subject", ""), row["duration"]]
    plain = all(escape(word) == word for word in (test, *words))
    return words if plain and full(test, words) == row else row
