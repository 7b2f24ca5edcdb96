"""Shards put together, and devices beside each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from documents import Page, changed_document, large_document, sample_document, validate

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


def written(folder: Path, *documents: dict[str, Any]) -> list[str]:
    """Reports on disk, by device and number."""
    paths = [folder / f"{k}-{document['device']}.json" for k, document in enumerate(documents)]
    for path, document in zip(paths, documents, strict=True):
        path.write_text(json.dumps(document), encoding="utf-8")
    return [str(path) for path in paths]


def on(device: str, document: dict[str, Any], **fingerprint: Any) -> dict[str, Any]:
    return other(document | {"device": device}, **fingerprint)


def test_two_devices_stand_beside_each_other(tmp_path: Path, capsys: Any) -> None:
    paths = written(tmp_path, sample_document(), on("cuda", changed_document()))
    assert main(["merge", *paths, "--output", str(tmp_path / "out.html")]) == 1
    assert "All 5 claims hold as expected on cpu" in capsys.readouterr().out
    reports = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["reports"]
    assert [document["device"] for document in reports] == ["cpu", "cuda"]
    seen = Page((tmp_path / "out.html").read_text(encoding="utf-8"))
    assert len(seen.ids) == len(set(seen.ids)) and {link.removeprefix("#") for link in seen.links} <= set(seen.ids)
    assert all(address.startswith("#") for address in seen.fetched + seen.links)
    order = ["✓ As expected.", "✗ Changed.", "What ran", "Unexpected: 3", "Chapters", "The constant error carousel"]
    places = [seen.text.index(words) for words in order]
    assert places == sorted(places)


def told_of(id: str, *documents: dict[str, Any]) -> str:
    """The card of a claim, as text."""
    text = page.merged(documents)
    start = text.index(f'id="{id}"')
    return Page(text[start : text.index("</details>", start)]).text


def test_a_card_has_the_figures_of_the_same_check_on_each_device() -> None:
    card = told_of("carousel.preserves-cell", sample_document(), on("cuda", changed_document()))
    assert "✓ upheld on cpu ! refuted on cuda" in card
    assert "figure documented measured on cpu measured on cuda allowed" in card
    row = "worst of 4: torch.nn.LSTM, float32 0 0 (bit-exact) ✗ 3.20e-04 320× the limit 0 on cpu ≤ 1.00e-06 on cuda"
    assert row in card
    assert "On cpu: Expected and measured: upheld. On cuda: Expected upheld, measured refuted." in card
    assert "✓ 3 passed, ! 1 failed on cuda" in card


def test_what_all_devices_say_is_said_once() -> None:
    card = told_of("carousel.preserves-cell", sample_document(), on("cuda", sample_document()))
    assert "on cpu" not in card.replace("measured on cpu", "")
    assert card.count("Expected and measured: upheld.") == 1 and card.count("4 checks passed") == 1


def test_a_miss_in_another_check_than_the_worst_is_not_hidden() -> None:
    cpu, cuda = changed_document(), on("cuda", sample_document())
    hit = cuda["claims"][0]
    hit |= {"verdict": "refuted", "unexpected": True}
    hit["checks"][0]["figures"][0] |= {"measured": 2e-6, "allowed": 1e-6, "holds": False}
    hit["checks"][0]["outcome"] = "failed"
    card = told_of("carousel.preserves-cell", cpu, cuda)
    assert "✗ 3.20e-04 320× the limit" in card and "fails in 1 of 4" in card


def test_unexpected_claims_come_worst_first_and_say_where() -> None:
    documents = sample_document(), on("cuda", changed_document()), on("mps", changed_document())
    text = page.merged(documents)
    seen = Page(text[text.index('id="unexpected"') : text.index('id="contents"')]).text
    names = ["reach.printed", "carousel.preserves-cell", "carousel.indefinitely"]
    assert sorted(names, key=seen.index) == names
    assert "carousel.preserves-cell · on cuda and mps alone" in seen
    assert "max |C_T - C_0| , allowed 0 on cpu ≤ 1.00e-06 on cuda and mps" in seen
    assert (
        "cuda ! refuted expected upheld 3.20e-04 320× the limit" in seen and "cpu ✓ upheld 0 (bit-exact) exact" in seen
    )


def test_what_ran_differently_is_marked_and_what_must_differ_is_not() -> None:
    seen = Page(page.merged([sample_document(), on("cuda", sample_document(), torch="2.14.0", workers=7)])).text
    assert "≠ marks what ran differently: torch." in seen and "≠ torch 2.13.0 2.14.0" in seen
    assert "≠ workers" not in seen and "≠ device" not in seen
    alike = Page(page.merged([sample_document(), on("cuda", sample_document())])).text
    assert "All of them ran with the same versions" in alike and "≠" not in alike


def test_figures_far_apart_within_their_limits_are_told() -> None:
    cuda = on("cuda", sample_document())
    for document, measured in ((base := sample_document(), 0.01), (cuda, 0.9)):
        figure = document["claims"][0]["checks"][0]["figures"][0]
        figure |= {"measured": measured, "allowed": 1.0, "documented": None}
    seen = Page(page.merged([base, cuda])).text
    assert "Figures far apart: 1" in seen
    assert "cpu 0.0100 (0.01 of the limit), cuda 0.900 (0.9 of the limit)" in seen
    assert "Figures far apart" not in Page(page.merged([base, on("cuda", base)])).text


def test_each_device_has_its_picture() -> None:
    text = page.merged([sample_document(), on("cuda", sample_document())])
    assert text.count("<svg") == 2 and Page(text).ids.count("figure-reach") == 1


def test_a_cell_stands_beside_the_built_in_ones() -> None:
    fast = sample_document() | {"cell": "Fast", "not_asked": ["reach.recall"]}
    fast["claims"].pop()
    for claim in fast["claims"]:
        for check in claim["checks"]:
            check |= {"subject": "Fast", "test": check["test"].replace("torch.nn.LSTM", "Fast")}
    fast["claims"][0] |= {"verdict": "not-applicable"}
    documents = sample_document(), on("cuda", sample_document()), fast
    seen = Page(page.merged(documents)).text
    assert "Carousel: claims on cpu, cuda and cpu (Fast)" in seen
    assert "Different, as expected: 2" in seen
    assert "1 claim: upheld on cpu and cuda; not applicable on cpu (Fast)" in seen
    assert "1 claim: upheld on cpu and cuda; not asked for on cpu (Fast)" in seen
    assert "measured on cpu (Fast)" in seen


def test_claims_that_never_reported_are_counted_and_not_listed_as_alarms() -> None:
    lost = on("cuda", sample_document()) | {"ended": "interrupted", "complete": False, "exit_status": 2}
    for claim in lost["claims"][:2]:
        claim |= {"verdict": "missing", "unexpected": True}
        for check in claim["checks"]:
            check |= {"outcome": "missing", "figures": []}
    seen = Page(page.merged([sample_document(), lost])).text
    assert "Unexpected: 0" in seen and "Missing: 2" in seen and "✗ Broken run" in seen


def test_nothing_of_a_report_is_markup() -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    documents = sample_document(), on(f"cuda{evil}", changed_document()), sample_document() | {"cell": evil}
    for document in documents:
        document |= {"command": evil, "started": evil}
        document["fingerprint"] |= {"torch": evil, "device_name": evil, "commit": evil}
        document["chapters"][0]["title"] = document["figures"][0]["title"] = document["figures"][0]["caption"] = evil
        document["diagnosis"] = {"sentence": evil, "explains": 0, "change": evil, "nearest": evil, "departs": evil}
        for claim in document["claims"]:
            claim |= dict.fromkeys(("statement", "equation", "section", "because", "instead"), evil)
            for check in claim["checks"]:
                check |= {"message": evil, "subject": evil, "test": f"claims/{evil}"}
                for figure in check["figures"]:
                    figure |= {"name": evil, "documented": evil, "where": evil}
                for curve in check["curves"]:
                    curve["series"] = evil
        validate(document)
    text = page.merged(documents)
    assert "<script>alert" not in text and "<img" not in text
    assert Page(text).tags.count("script") == 1


def test_two_devices_of_all_claims_take_less_than_two_megabytes() -> None:
    text = page.merged([large_document(282), on("cuda", large_document(282))])
    assert len(text.encode()) < 2e6


def test_shards_of_one_device_give_an_ordinary_report(tmp_path: Path) -> None:
    paths = written(tmp_path, *shards(sample_document(), 2))
    assert main(["merge", *paths, "--output", str(tmp_path / "out.html")]) == 0
    whole = written(tmp_path, sample_document())
    assert main(["compare", *whole, str(tmp_path / "out.json")]) == 0


def test_a_merged_file_is_merged_further(tmp_path: Path) -> None:
    paths = written(tmp_path, sample_document(), on("cuda", sample_document()), on("mps", sample_document()))
    assert main(["merge", *paths[:2], "--output", str(tmp_path / "two.html")]) == 0
    assert main(["merge", str(tmp_path / "two.json"), paths[2], "--output", str(tmp_path / "three.html")]) == 0
    reports = json.loads((tmp_path / "three.json").read_text(encoding="utf-8"))["reports"]
    assert [document["device"] for document in reports] == ["cpu", "cuda", "mps"]


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("out.json", "name a page, such as out.html"),
        ("nowhere/out.html", "there is no folder"),
        ("0-cpu.html", "it would overwrite"),
        ("folder.html", "is a folder"),
    ],
)
def test_where_a_page_cannot_go_nothing_is_written(output: str, says: str, tmp_path: Path, capsys: Any) -> None:
    paths = written(tmp_path, sample_document(), on("cuda", sample_document()))
    (tmp_path / "folder.html").mkdir()
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    for call in (["merge", *paths], ["compare", *paths]):
        assert main([*call, "--output", str(tmp_path / output)]) == 4
        out, err = capsys.readouterr()
        assert says in err and err.count("\n") == 1 and not out
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_the_same_file_twice_is_a_slip_where_they_are_merged(tmp_path: Path, capsys: Any) -> None:
    paths = written(tmp_path, sample_document())
    again = str(tmp_path / ".." / tmp_path.name / "0-cpu.json")
    assert main(["merge", *paths, again, "--output", str(tmp_path / "out.html")]) == 4
    assert "is given twice" in capsys.readouterr().err
    assert main(["compare", *paths, again]) == 0
