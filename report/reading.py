"""Claim reports, read back from their JSON files and held against the schema: what others do with them relies on it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from report.verdicts import SCHEMA


def read(path: Path) -> dict[str, Any]:
    """A claim report from its JSON file.

    Raises:
        ValueError: there is no such file, or it is no claim report of this schema; the text is one line.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); a run of pytest writes it") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON: {error}") from error
    version = document.get("schema") if isinstance(document, dict) else None
    if version is None:
        raise ValueError(f"{path} is no claim report")
    if version != SCHEMA:
        raise ValueError(f"{path} is a claim report of schema {version!r}; this version reads schema {SCHEMA}")
    if wrong := _wrong(document):
        raise ValueError(f"{path} is no claim report of schema {SCHEMA}: {wrong}")
    return document  # type: ignore[no-any-return]


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON number")


def _wrong(document: Any) -> str | None:
    """What the schema says against a document, in one line; None where it is one."""
    from fastjsonschema import JsonSchemaValueException

    try:
        _schema()(document)
    except JsonSchemaValueException as error:
        return f"{error.message.splitlines()[0][:200]}"
    return None


@cache
def _schema() -> Any:
    import fastjsonschema

    schema = json.loads(Path(__file__).with_name("schema.json").read_text(encoding="utf-8"))
    return fastjsonschema.compile(schema)
