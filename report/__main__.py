"""`python -m report`: what to do with reports once they are written."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from report.page import verdict_sentence
from report.sentence import diagnosis
from report.verdicts import SCHEMA


def main(arguments: list[str] | None = None) -> int:
    """Run a command; 0 when it did its work, 4 when a file is no claim report."""
    parser = argparse.ArgumentParser(prog="python -m report", description="Work with claim reports.")
    commands = parser.add_subparsers(dest="command", required=True)
    summary = commands.add_parser("summary", help="print reports as Markdown, for a CI job's summary")
    summary.add_argument("reports", nargs="+", type=Path, metavar="CLAIMS.json")
    called = parser.parse_args(arguments)
    try:
        documents = [read(path) for path in called.reports]
    except ValueError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 4
    print("\n\n".join(markdown(document) for document in documents))
    return 0


def read(path: Path) -> dict[str, Any]:
    """A claim report from its JSON file.

    Raises:
        ValueError: there is no such file, or it is no claim report of this schema.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); a run of pytest writes it") from error
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(f"{path} is no claim report of schema {SCHEMA}")
    return document


def markdown(document: dict[str, Any]) -> str:
    """The verdict, the chapters' counts and the unexpected claims of a report, as Markdown."""
    lines = [f"### Claims on {document['device']}", "", _escaped(verdict_sentence(document)), ""]
    for line in diagnosis(document):
        lines += [_escaped(line), ""]
    lines += ["| chapter | claims | as expected |", "|---|---:|---:|"]
    for chapter in document["chapters"]:
        claims = [claim for claim in document["claims"] if claim["chapter"] == chapter["id"]]
        if claims:
            expected = sum(not claim["unexpected"] for claim in claims)
            lines.append(f"| {_escaped(chapter['title'])} | {len(claims)} | {expected} |")
    unexpected = [claim for claim in document["claims"] if claim["unexpected"]]
    if unexpected:
        lines += ["", "| claim | expected | measured | what is claimed |", "|---|---|---|---|"]
        lines += [
            f"| `{claim['id']}` | {claim['expected']} | {claim['verdict']} | {_escaped(claim['statement'])} |"
            for claim in unexpected
        ]
    return "\n".join(lines)


def _escaped(text: str) -> str:
    for character in "\\`*_<>|[]":
        text = text.replace(character, f"\\{character}")
    return text.replace("\n", " ")


if __name__ == "__main__":
    sys.exit(main())
