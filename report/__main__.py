"""`python -m report`: what to do with reports once they are written."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from report import compare, journal, markdown, page
from report.merge import merge
from report.propose import proposed
from report.reading import read
from report.verdicts import SCHEMA

CONTROL = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {127: 0x2421}
"""What would command a terminal, as pictures of it."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command.

    Returns:
        0 when it did its work, and for `compare` nothing got worse; 1 for `compare` when something did, and for `merge`
        when the merged report is none of a passed run; 4 when a file is no claim report, or the output would not do,
        with one line that says why and nothing written.
    """
    called = _parser().parse_args(arguments)
    try:
        if called.command == "summary":
            documents = [document for path in called.reports for document in read(path)]
            _print("\n\n".join(markdown.summary(document) for document in documents))
            return 0
        if called.command == "annotate":
            cell = _place(called.cell) if called.cell else None
            _print("\n".join(line for document in read(called.report) for line in annotated(document, Path(), cell)))
            return 0
        if called.command == "propose":
            _print("\n\n".join(proposed(document) for document in read(called.report)))
            return 0
        if called.command == "merge":
            return _merge(called.reports, called.output)
        return _compare(called.base, called.new, called.output, as_markdown=called.markdown)
    except ValueError as error:
        print(f"ERROR: {error}".replace("\n", " ").translate(CONTROL), file=sys.stderr)
        return 4
    except BrokenPipeError:  # whoever reads has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"ERROR: {error.filename}: cannot be written ({error.strerror})", file=sys.stderr)
        return 4


class Parser(argparse.ArgumentParser):
    """One whose word on a wrong call is one line, with status 4 as anywhere in Carousel."""

    def error(self, message: str) -> NoReturn:
        self.exit(4, f"ERROR: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m report", description="Work with claim reports.")
    commands = parser.add_subparsers(dest="command", required=True)
    summary = commands.add_parser("summary", help="print reports as Markdown, for a CI job's summary")
    summary.add_argument("reports", nargs="+", type=Path, metavar="CLAIMS.json")
    merging = commands.add_parser("merge", help="put shards of one run together, and devices beside each other")
    merging.add_argument("reports", nargs="+", type=Path, metavar="CLAIMS.json")
    merging.add_argument(
        "--output", required=True, type=Path, metavar="OUT.html", help="the page; the JSON goes beside it, .json"
    )
    comparing = commands.add_parser(
        "compare",
        help="say what changed between two runs; status 1 if worse",
        description="Say what changed between two runs, or device by device between two merged reports.",
    )
    comparing.add_argument("base", type=Path, metavar="BASE.json")
    comparing.add_argument("new", type=Path, metavar="NEW.json")
    comparing.add_argument("--output", type=Path, metavar="OUT.html", help="write the comparison as a page, too")
    comparing.add_argument("--markdown", action="store_true", help="print Markdown, for a CI job's summary")
    annotating = commands.add_parser("annotate", help="print unexpected claims as a workflow's annotations")
    annotating.add_argument("report", type=Path, metavar="CLAIMS.json")
    annotating.add_argument(
        "--cell", metavar="FILE.py:NAME", help="put them on the line of this cell, where the claims lie elsewhere"
    )
    proposing = commands.add_parser("propose", help="print the expectations that a run would need, for you to judge")
    proposing.add_argument("report", type=Path, metavar="CLAIMS.json")
    return parser


def _print(text: str) -> None:
    print(text.translate(CONTROL), flush=True)


def _merge(paths: Sequence[Path], output: Path) -> int:
    """Write the page and the JSON of several reports, and print a verdict for each device."""
    _fit(output, paths)
    _no_two(paths)
    merged = merge([document for path in paths for document in read(path)])
    if len(merged) == 1:
        text, html = journal.dumps(merged[0]), page.standalone(merged[0])
    else:
        reports = ",\n".join(journal.dumps(document).rstrip() for document in merged)
        text, html = f'{{"schema": {SCHEMA}, "reports": [\n{reports}\n]}}\n', page.merged(merged)
    journal.write(output.with_suffix(".json"), text)
    journal.write(output, html)
    for document in merged:
        _print(page.verdict_sentence(document))
    _print(f"report: {output}")
    return int(any(document["exit_status"] != 0 for document in merged))


def _compare(base: Path, new: Path, output: Path | None, *, as_markdown: bool) -> int:
    if output:
        _fit(output, (base, new))
    found, alone = compare.device_by_device(read(base), read(new))
    if output:
        journal.write(output, page.compared(found, alone))
    if as_markdown:
        _print(markdown.comparison(found, alone))
    else:
        _print("\n".join([line for each in found for line in compare.words(each, named=len(found) > 1)] + alone))
    return int(any(each.worse for each in found))


def _fit(output: Path, inputs: Sequence[Path]) -> None:
    """Whether a page can be written there, with its JSON beside it, without loss of a report that is read."""
    if output.suffix != ".html":
        raise ValueError(f"--output {output}: name a page, such as {output.stem or 'out'}.html")
    if not output.parent.is_dir():
        raise ValueError(f"--output {output}: there is no folder {output.parent}")
    for path in (output, output.with_suffix(".json")):
        if path.is_dir():
            raise ValueError(f"--output {output}: {path} is a folder")
        if clash := next((each for each in inputs if _is_same(each, path)), None):
            raise ValueError(f"--output {output}: it would overwrite {clash}, which is read; give it another name")


def _no_two(paths: Sequence[Path]) -> None:
    for k, path in enumerate(paths):
        if any(_is_same(path, other) for other in paths[:k]):
            raise ValueError(f"{path} is given twice")


def _is_same(path: Path, other: Path) -> bool:
    return path.exists() and other.exists() and path.samefile(other)


def _place(cell: str) -> tuple[str, str]:
    name, _, attribute = cell.rpartition(":")
    if not name:
        raise ValueError(f"--cell {cell}: say FILE.py:NAME")
    return name, attribute


def annotated(document: dict[str, Any], root: Path, cell: tuple[str, str] | None = None) -> list[str]:
    """Each unexpected claim as a GitHub workflow command, on the line of its test, or else of a cell, in `root`.

    Args:
        cell: a module and the name in it that is verified.
    """
    told = []
    for claim in (claim for claim in document["claims"] if claim["unexpected"]):
        alarming = [check for check in claim["checks"] if check["outcome"] not in ("passed", "xfailed", "skipped")]
        check = next(iter(alarming), None) or next(iter(claim["checks"]), None)
        name, _, test = check["test"].split("[")[0].partition("::") if check else ("", "", "")
        name, test = cell or (name, test)
        where = f"file={_command(name, in_property=True)},line={_line(root, name, test)}," if name else ""
        why = (check["message"] if check else None) or claim["because"] or ""
        text = f"{claim['verdict']}, expected {claim['expected']}: {claim['statement']}\n{why.partition(chr(10))[0]}"
        told.append(f"::error {where}title={_command(claim['id'], in_property=True)}::{_command(text.strip())}")
    return told


def _line(root: Path, module: str, name: str) -> int:
    """Where a function or class of that name begins; the first line where that is not known."""
    path = (root / module).resolve()
    if not path.is_relative_to(root.resolve()) or not path.is_file():
        return 1
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    opening = re.compile(rf"(def|class) {re.escape(name)}\b|{re.escape(name)} *=")
    return next((k for k, line in enumerate(lines, start=1) if opening.match(line)), 1)


def _command(text: str, *, in_property: bool = False) -> str:
    """Text as a workflow command carries it."""
    for character in "%\r\n" + (":," if in_property else ""):
        text = text.replace(character, f"%{ord(character):02X}")
    return text


if __name__ == "__main__":
    sys.exit(main())
