"""Shards put together, and devices beside each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from documents import Page, changed_document, sample_document, validate

from report import merge, page
from report.__main__ import main


def shards(document: dict[str, Any], splits: int) -> list[dict[str, Any]]:
    """A run's checks dealt out to so many shards."""
    found = []
    for group in range(1, splits + 1):
        claims, k = [], 0
        for claim in document["claims"]:
            own = [check for check in claim["checks"] if (k := k + 1) % splits == group - 1]
            if own:
                claims.append(claim | {"checks": own})
        asked = {claim["id"] for claim in claims}
        rest = [claim["id"] for claim in document["claims"] if claim["id"] not in asked]
        shard = {"splits": splits, "groups": [group]}
        found.append(document | {"claims": claims, "not_asked": rest, "partial": True, "shard": shard})
    return found


@pytest.mark.parametrize("splits", [2, 3, 10])
@pytest.mark.parametrize("make", [sample_document, changed_document])
def test_shards_make_the_whole_run(make: Any, splits: int) -> None:
    whole = make()
    merged = merge.together(shards(whole, splits))
    validate(merged)
    assert merged["totals"]["unexpected"] == whole["totals"]["unexpected"]
    kept = ("not_asked", "partial", "complete", "statements", "fingerprint")
    assert {key: merged[key] for key in kept} == {key: whole[key] for key in kept}
    assert told(merged) == told(whole)


def told(document: dict[str, Any]) -> dict[str, Any]:
    """Verdicts and checks by claim; in which order claims of a chapter stand no shard can say."""
    return {
        claim["id"]: (claim["verdict"], sorted(claim["checks"], key=lambda check: str(check["test"])))
        for claim in document["claims"]
    }


def test_a_missing_shard_is_named_and_is_no_pass() -> None:
    first, _, third = shards(sample_document(), 3)
    merged = merge.together([first, third])
    validate(merged)
    assert merged["exit_status"] == 1 and not merged["complete"]
    assert "Shard 2 of 3 is missing" in page.verdict_sentence(merged)
    assert "✓ As expected" not in page.standalone(merged)


def test_a_shard_says_which_it_is() -> None:
    assert page.verdict_sentence(shards(sample_document(), 3)[1]).startswith("Shard 2 of 3. Partial run")


def other(document: dict[str, Any], **fingerprint: Any) -> dict[str, Any]:
    return document | {"fingerprint": document["fingerprint"] | fingerprint}


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (lambda: shards(sample_document(), 2)[0], "the same run twice?"),
        (lambda: other(shards(sample_document(), 2)[1], torch="2.8.0"), "ran differently: torch 2.13.0 and 2.8.0"),
        (lambda: shards(sample_document(), 2)[1] | {"chapters": []}, "different catalogues"),
        (lambda: shards(sample_document(), 3)[2], "no shards of one run"),
    ],
)
def test_what_does_not_belong_together_is_said_in_one_line(second: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        merge.together([shards(sample_document(), 2)[0], second()])


def test_two_devices_stand_beside_each_other(tmp_path: Path, capsys: Any) -> None:
    evil = "<script>alert(1)</script>"
    cuda = changed_document() | {"device": "cuda"}
    cuda["claims"][0]["statement"] = evil
    paths = []
    for document in (sample_document(), cuda):
        paths.append(tmp_path / f"{document['device']}.json")
        paths[-1].write_text(json.dumps(document), encoding="utf-8")
    assert main(["merge", *map(str, paths), "--output", str(tmp_path / "out.html")]) == 1
    assert "All 5 claims hold as expected on cpu" in capsys.readouterr().out
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    seen = Page(text)
    assert evil not in text
    assert "3 of 5 claims have another verdict on one of them" in seen.text
    assert len(seen.ids) == len(set(seen.ids)) and {link.removeprefix("#") for link in seen.links} <= set(seen.ids)
    reports = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["reports"]
    assert [document["device"] for document in reports] == ["cpu", "cuda"]


def test_shards_of_one_device_give_an_ordinary_report(tmp_path: Path) -> None:
    paths = []
    for k, document in enumerate(shards(sample_document(), 2)):
        paths.append(tmp_path / f"{k}.json")
        paths[-1].write_text(json.dumps(document), encoding="utf-8")
    assert main(["merge", *map(str, paths), "--output", str(tmp_path / "out.html")]) == 0
    assert main(["compare", str(tmp_path / "out.json"), str(tmp_path / "out.json")]) == 0


def test_the_output_is_a_page(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(sample_document()), encoding="utf-8")
    assert main(["merge", str(path), "--output", str(tmp_path / "out.json")]) == 4
    assert "name a page, such as out.html" in capsys.readouterr().err
