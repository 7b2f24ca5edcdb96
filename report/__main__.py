"""`python -m report`: what to do with reports once they are written."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from glob import escape
from pathlib import Path
from typing import Any

from report import compare, journal, page
from report.merge import merge
from report.page import verdict_sentence
from report.reading import read
from report.sentence import diagnosis, of_entry
from report.verdicts import FAILED, PASSED, SCHEMA


def main(arguments: list[str] | None = None) -> int:
    """Run a command.

    Returns:
        0 when it did its work, and for `compare` nothing got worse; 1 for `compare` when something did, and for `merge`
        when the merged report is none of a passed run; 4 when a file is no claim report, with one line that says why.
    """
    parser = argparse.ArgumentParser(prog="python -m report", description="Work with claim reports.")
    commands = parser.add_subparsers(dest="command", required=True)
    summary = commands.add_parser("summary", help="print reports as Markdown, for a CI job's summary")
    summary.add_argument("reports", nargs="+", type=Path, metavar="CLAIMS.json")
    merging = commands.add_parser("merge", help="put shards of one run together, and devices beside each other")
    merging.add_argument("reports", nargs="+", type=Path, metavar="CLAIMS.json")
    merging.add_argument(
        "--output", required=True, type=Path, metavar="OUT.html", help="the page; the JSON goes beside it, .json"
    )
    comparing = commands.add_parser("compare", help="say what changed between two runs; status 1 if worse")
    comparing.add_argument("base", type=Path, metavar="BASE.json")
    comparing.add_argument("new", type=Path, metavar="NEW.json")
    comparing.add_argument("--output", type=Path, metavar="OUT.html", help="write the comparison as a page, too")
    annotating = commands.add_parser("annotate", help="print unexpected claims as a workflow's annotations")
    annotating.add_argument("report", type=Path, metavar="CLAIMS.json")
    proposing = commands.add_parser("propose", help="print the expectations that a run would need, for you to judge")
    proposing.add_argument("report", type=Path, metavar="CLAIMS.json")
    called = parser.parse_args(arguments)
    try:
        if called.command == "summary":
            print("\n\n".join(markdown(read(path)) for path in called.reports))
            return 0
        if called.command == "annotate":
            print("\n".join(annotated(read(called.report), Path())))
            return 0
        if called.command == "propose":
            print(proposed(read(called.report)))
            return 0
        if called.command == "merge":
            return _merge([read(path) for path in called.reports], called.output)
        return _compare(read(called.base), read(called.new), called.output)
    except ValueError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 4
    except OSError as error:
        print(f"ERROR: {error.filename}: cannot be written ({error.strerror})", file=sys.stderr)
        return 4


def _merge(documents: list[dict[str, Any]], output: Path) -> int:
    """Write the page and the JSON of several reports, and print a verdict for each device."""
    if output.suffix != ".html":
        raise ValueError(f"--output {output}: name a page, such as {output.stem}.html")
    merged = merge(documents)
    alone = len(merged) == 1
    text = journal.dumps(merged[0]) if alone else json.dumps({"schema": SCHEMA, "reports": merged}, allow_nan=False)
    journal.write(output.with_suffix(".json"), text)
    journal.write(output, page.standalone(merged[0]) if alone else page.merged(merged))
    for document in merged:
        print(page.verdict_sentence(document))
    print(f"report: {output}")
    return int(any(document["exit_status"] != 0 for document in merged))


def _compare(base: dict[str, Any], new: dict[str, Any], output: Path | None) -> int:
    found = compare.compare(base, new)
    if output:
        journal.write(output, page.compared(found))
    print("\n".join(compare.words(found)))
    return int(found.worse)


def annotated(document: dict[str, Any], root: Path) -> list[str]:
    """Each unexpected claim as a GitHub workflow command, on the line of its test in the checkout `root`."""
    told = []
    for claim in (claim for claim in document["claims"] if claim["unexpected"]):
        alarming = [check for check in claim["checks"] if check["outcome"] not in ("passed", "xfailed", "skipped")]
        check = next(iter(alarming), None) or next(iter(claim["checks"]), None)
        where = ""
        if check:
            name, _, test = check["test"].split("[")[0].partition("::")
            where = f"file={_command(name, in_property=True)},line={_line(root / name, test)},"
        why = (check["message"] if check else None) or claim["because"] or ""
        text = f"{claim['verdict']}, expected {claim['expected']}: {claim['statement']}\n{why.partition(chr(10))[0]}"
        told.append(f"::error {where}title={_command(claim['id'], in_property=True)}::{_command(text.strip())}")
    return told


def _line(module: Path, test: str) -> int:
    """Where a test function begins; the first line where that is not known."""
    try:
        lines = module.read_text(encoding="utf-8").splitlines()
    except OSError:
        return 1
    return next((k for k, line in enumerate(lines, start=1) if line.startswith(f"def {test}(")), 1)


def _command(text: str, *, in_property: bool = False) -> str:
    """Text as a workflow command carries it."""
    for character in "%\r\n" + (":," if in_property else ""):
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def proposed(document: dict[str, Any]) -> str:
    """The entries of expectations.toml under which this run would be green; what only a person knows is left open."""
    found = [claim for claim in document["claims"] if claim["unexpected"]]
    if not found:
        return "# Every verdict is the expected one: no entry is needed."
    where = _run(document)
    lines = ["# Judge each, and say why: an entry hides what it names."]
    for claim in found:
        lines += ["", f"# {claim['statement']}"]
        if claim["verdict"] == "missing":
            lines.append(f"# {claim['id']} has no verdict; no entry can help: see the report.")
            continue
        why = next((check["message"] for check in claim["checks"] if check["message"]), "")
        if advice := of_entry(claim):
            lines.append(f"# {claim['id']}: {' '.join(advice.split())}")
            continue
        form = _format(claim)
        if claim["verdict"] == "upheld" and not form and any(check["outcome"] in FAILED for check in claim["checks"]):
            lines.append(f"# {claim['id']} holds in some checks and misses in others, which no entry can say.")
            continue
        entry = {"claim": claim["id"], **where, **form, "expected": "refuted" if form else claim["verdict"]}
        entry |= {"because": "TODO " + why.partition("\n")[0], "source": "TODO"}
        lines += [
            "[[expectation]]",
            *(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()),
        ]
        lines.append("# expires = 2027-01-01, where it is a defect that will be mended")
    return "\n".join(lines)


def _run(document: dict[str, Any]) -> dict[str, str]:
    """What an entry for this run alone says of it: device, device_name where it has one of its own, torch and cell."""
    fingerprint, device = document["fingerprint"], document["device"].split(":")[0]
    told = {"device": device}
    if device != "cpu" and fingerprint["device_name"]:
        told["device_name"] = escape(fingerprint["device_name"])
    told["torch"] = f"=={fingerprint['torch'].split('+')[0]}"
    if document["cell"]:
        option = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        option.add_argument("--cell")
        spec = option.parse_known_args(shlex.split(document["command"]))[0].cell
        told["cell"] = escape(spec) if spec else f"*:{document['cell']}"
    return told


def _format(claim: dict[str, Any]) -> dict[str, str]:
    """The number format, where there are several and a claim misses in one of them alone."""
    told = [check for check in claim["checks"] if check["outcome"] in (*FAILED, *PASSED)]
    missed = {check["dtype"] for check in told if check["outcome"] in FAILED}
    if len(missed) != 1 or missed == {check["dtype"] for check in told}:
        return {}
    [dtype] = missed
    return {"dtype": dtype} if dtype else {}


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
