"""Several claim reports as one: the shards of one run, and runs on several devices beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from report import compare, sentence, verdicts

Document = Mapping[str, Any]

OF_CATALOGUE = ("schema", "chapters", "figures", "not_checkable", "statements")


def merge(documents: Sequence[Document]) -> list[dict[str, Any]]:
    """One document for each device and cell, its shards put together, in the order in which they came.

    Raises:
        ValueError: two of them do not belong together; the text says why in one line.
    """
    groups: dict[tuple[Any, Any], list[Document]] = {}
    for document in documents:
        groups.setdefault((document["device"], document["cell"]), []).append(document)
    return [together(group) if len(group) > 1 else dict(group[0]) for group in groups.values()]


def together(shards: Sequence[Document]) -> dict[str, Any]:
    """The shards of one run as its whole report.

    Raises:
        ValueError: they are of different catalogues or ran differently, or a check stands in two of them.
    """
    first, where = shards[0], sentence.where(shards[0])
    claims: dict[str, dict[str, Any]] = {}
    checks: list[dict[str, Any]] = []
    seen: set[str] = set()
    for shard in shards:
        _belong(first, shard, where)
        for claim in shard["claims"]:
            claims.setdefault(claim["id"], claim)
            for check in claim["checks"]:
                if check["test"] in seen:
                    raise ValueError(f"two reports of {where} have the check {check['test']}: the same run twice?")
                seen.add(check["test"])
                checks.append({**check, "claim": claim["id"]})
    left_out = [name for name in first["not_asked"] if name not in claims]
    groups = sorted({group for shard in shards if shard["shard"] for group in shard["shard"]["groups"]})
    splits = first["shard"]["splits"] if first["shard"] else 0
    lost = set(range(1, splits + 1)) - set(groups)
    ended = next((shard["ended"] for shard in shards if shard["ended"] != "finished"), "finished")
    run = {
        **{key: first[key] for key in ("device", "cell", "command")},
        "partial": bool(left_out) and not lost,
        "ended": ended,
        "exit_status": max(shard["exit_status"] or 0 for shard in shards),
        "started": min(shard["started"] for shard in shards),
        "seconds": max(shard["seconds"] for shard in shards),
        "fingerprint": first["fingerprint"],
        "shard": {"splits": splits, "groups": groups} if splits else None,
        "picked": bool(lost),
    }
    of_chapter = {chapter["id"]: k for k, chapter in enumerate(first["chapters"])}
    ordered = dict(sorted(claims.items(), key=lambda item: of_chapter[item[1]["chapter"]]))
    merged = verdicts.document(
        ordered, checks, asked=ordered, run=run, chapters=first["chapters"], figures=first["figures"],
        not_checkable=first["not_checkable"],
        diagnosis=next((shard["diagnosis"] for shard in shards if shard["diagnosis"]), None),
    )  # fmt: skip
    merged |= {"not_asked": left_out, "statements": first["statements"]}
    if lost or not all(shard["complete"] for shard in shards):
        merged |= {"complete": False, "exit_status": merged["exit_status"] or 1}
    return merged


def _belong(first: Document, shard: Document, where: str) -> None:
    if any(first[key] != shard[key] for key in OF_CATALOGUE):
        raise ValueError(f"two reports of {where} are of different catalogues of claims")
    for key in compare.MATTERS:
        if first["fingerprint"][key] != shard["fingerprint"][key]:
            values = f"{first['fingerprint'][key]} and {shard['fingerprint'][key]}"
            raise ValueError(f"two reports of {where} ran differently: {key} {values}; compare them instead")
    if (first["shard"] or {}).get("splits") != (shard["shard"] or {}).get("splits"):
        raise ValueError(f"two reports of {where} are no shards of one run")
