"""Where reports go: the journal (JSONL), appended as results arrive, and the JSON, written whole."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any


def stem(device: str, cell: str | None) -> str:
    """The name of a run's files: `claims-cpu`, `claims-cuda-1-FastLSTM`."""
    parts = ["claims", device] + ([cell] if cell else [])
    return "-".join(re.sub(r"[^A-Za-z0-9_-]", "-", part) for part in parts)


def write(path: Path, text: str) -> None:
    """Replace a file by a whole one, so that no reader ever sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    try:
        new.write_text(text, encoding="utf-8")
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def dumps(document: dict[str, Any]) -> str:
    """A document as JSON, a claim to a line; NaN and infinities are words by now, since JSON has none."""
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    claims = ",\n".join(encode(claim) for claim in document["claims"])
    parts = [f'"{key}": ' + (f"[\n{claims}\n]" if key == "claims" else encode(part)) for key, part in document.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


class Journal:
    """One line of JSON per event, on disk before the next one happens."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8")

    def append(self, event: dict[str, Any]) -> None:
        self._file.write(json.dumps(event, ensure_ascii=False, allow_nan=False) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
