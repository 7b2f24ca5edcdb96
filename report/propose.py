"""Which entries of expectations.toml a run would need: `python -m report propose`. Nothing is written for anybody."""

from __future__ import annotations

import argparse
import json
import shlex
from glob import escape
from typing import Any

from report.sentence import of_entry
from report.verdicts import FAILED, PASSED


def proposed(document: dict[str, Any]) -> str:
    """The entries of expectations.toml under which this run would be green; what only a person knows is left open."""
    found = [claim for claim in document["claims"] if claim["unexpected"]]
    if not found:
        return "# Every verdict is the expected one: no entry is needed."
    where = _run(document)
    lines = ["# Judge each, and say why: an entry hides what it names."]
    for claim in found:
        lines += ["", f"# {' '.join(claim['statement'].split())}"]
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
