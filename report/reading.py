"""Claim reports, read back from their JSON files and held against the schema: what others do with them relies on it."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from report.verdicts import SCHEMA

LONGEST_INTEGER = 300  # digits; a float holds 308
HUGE = re.compile(r"\d[eE]\+?\d{3}|\d{300}")
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read(path: Path) -> list[dict[str, Any]]:
    """The claim reports in a JSON file: one, or those of several devices where `merge` wrote it.

    Raises:
        ValueError: there is no such file, or it holds no claim report of this schema; the text is one line.
    """
    try:
        text = path.read_text(encoding="utf-8")
        hooks: dict[str, Any] = {"parse_float": _float, "parse_int": _integer} if HUGE.search(text) else {}
        found = json.loads(text, parse_constant=_no_number, **hooks)
        if SURROGATE.search(text):
            json.dumps(found, ensure_ascii=False).encode()  # half of a pair is no text
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); a run of pytest writes it") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON: {error}" if path.stat().st_size else f"{path} is empty") from error
    version = found.get("schema") if isinstance(found, dict) else None
    if version is None:
        raise ValueError(f"{path} is no claim report")
    if version != SCHEMA:
        older = isinstance(version, int) and version < SCHEMA
        hint = ", as an earlier version of Carousel wrote it" if older else ""
        word = f"{version!r}"[:40]
        raise ValueError(f"{path} is a claim report of schema {word}{hint}; this version reads schema {SCHEMA}")
    reports = found["reports"] if isinstance(found.get("reports"), list) and found["reports"] else [found]
    for document in reports:
        if wrong := _wrong(document):
            raise ValueError(f"{path} is no claim report of schema {SCHEMA}: {wrong}")
    return reports


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON number")


def _float(text: str) -> float:
    if not isfinite(value := float(text)):
        raise ValueError(f"{text[:20]} is larger than any number a figure can have")
    return value


def _integer(text: str) -> int:
    if len(text) > LONGEST_INTEGER:
        raise ValueError(f"{text[:20]}… is larger than any number a figure can have")
    return int(text)


def _wrong(document: Any) -> str | None:
    """What is wrong with a document, in one line; None where it is a claim report."""
    from fastjsonschema import JsonSchemaValueException

    try:
        _schema()(document)
    except JsonSchemaValueException as error:
        if error.rule == "required" and error.name == "data":
            lacks = [key for key in error.definition["required"] if key not in error.value]
            return f"it lacks {', '.join(lacks)}, which an earlier version of Carousel may not have written"
        return f"{error.message.splitlines()[0][:200]}"
    names = Counter(claim["id"] for claim in document["claims"])
    if twice := next((name for name, n in names.items() if n > 1), None):
        return f"it has the claim {twice} twice"
    chapters = {chapter["id"] for chapter in document["chapters"]}
    if astray := next((claim["id"] for claim in document["claims"] if claim["chapter"] not in chapters), None):
        return f"the chapter of {astray} is none of its chapters"
    return None


@cache
def _schema() -> Any:
    import fastjsonschema

    schema = json.loads(Path(__file__).with_name("schema.json").read_text(encoding="utf-8"))
    return fastjsonschema.compile(schema)
