"""Two reports compared: what changed, what got worse, and what does not matter."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from documents import changed_document, large_document, sample_document, work

from report import compare, page
from report.__main__ import annotated, main

ROOT = Path(__file__).parents[1]


def written(folder: Path, name: str, document: Any) -> Path:
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return path


def figure_of(document: dict[str, Any], claim: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = document["claims"][claim]["checks"][0]["figures"][0]
    return found


def test_a_run_is_as_good_as_itself() -> None:
    found = compare.compare(sample_document(), sample_document())
    assert not found.worse and not found.drifts and not found.changes
    assert compare.words(found) == ["Nothing got worse: 5 claims as before."]


def test_a_changed_verdict_is_worse_and_says_why() -> None:
    found = compare.compare(sample_document(), changed_document())
    assert found.worse and [change.worse for change in found.changes] == [True] * len(found.changes)
    text = "\n".join(compare.words(found))
    assert text.startswith("3 claims got worse")
    assert all(f"worse: {change.claim}: {change.base} → {change.new}" in text for change in found.changes)


def test_the_way_back_is_no_worse() -> None:
    found = compare.compare(changed_document(), sample_document())
    assert found.changes and not found.worse
    assert "changed for the better" in compare.headline(found)


def test_a_claim_that_went_is_worse_and_a_new_one_is_not() -> None:
    less = sample_document()
    gone = less["claims"].pop()["id"]
    assert compare.compare(sample_document(), less).worse
    found = compare.compare(less, sample_document())
    assert not found.worse and found.appeared == [gone]


def test_a_claim_that_was_not_asked_for_is_not_worse() -> None:
    less = sample_document()
    less |= {"partial": True, "not_asked": [less["claims"].pop()["id"]]}
    found = compare.compare(sample_document(), less)
    assert not found.worse and found.not_asked == less["not_asked"]


def test_a_run_that_did_not_finish_is_worse() -> None:
    assert compare.compare(sample_document(), sample_document() | {"ended": "interrupted", "complete": False}).worse


@pytest.mark.parametrize(
    ("before", "now", "drifts"),
    [
        (0.1, 0.2, False),
        (0.1, 0.5, True),
        (0.001, 0.2, False),
        (0.0, 0.3, True),
        (0.9, 0.95, False),
        ("nan", 0.9, False),
        (-0.9, 0.5, True),
        (0.5, -0.9, False),
    ],
)
def test_a_figure_drifts_where_it_uses_four_times_as_much_of_its_limit(before: Any, now: float, drifts: bool) -> None:
    base, new = sample_document(), sample_document()
    for document, measured in ((base, before), (new, now)):
        figure_of(document).update(measured=measured, allowed=1.0, relation="<=", documented=None, holds=True)
    found = compare.compare(base, new)
    assert bool(found.drifts) == drifts and not found.worse


def test_a_figure_beyond_its_limit_is_worse() -> None:
    base, new = sample_document(), sample_document()
    figure_of(base).update(measured=0.5, allowed=1.0, relation="<=", holds=True)
    figure_of(new).update(measured=2.0, allowed=1.0, relation="<=", holds=False)
    found = compare.compare(base, new)
    assert found.worse and found.drifts[0].worse
    assert "0.500 → 2.00" in "\n".join(compare.words(found))


def test_clocks_and_what_cannot_change_a_number_are_not_compared() -> None:
    base, new = sample_document(), sample_document()
    for document, measured in ((base, 0.1), (new, 100.0)):
        figure_of(document).update(measured=measured, allowed=None, relation="shown", holds=True)
    new["fingerprint"] |= {"workers": 7, "commit": "ffff", "platform": "Linux of tomorrow"}
    new |= {"seconds": 1e4, "started": "2030-01-01T00:00:00+00:00"}
    assert compare.words(compare.compare(base, new)) == ["Nothing got worse: 5 claims as before."]


def test_what_ran_differently_is_named() -> None:
    new = sample_document()
    new["device"] = "cuda"
    new["fingerprint"] |= {"torch": "2.14.0", "tf32": True}
    found = compare.compare(sample_document(), new)
    assert found.fingerprint == [("device", "cpu", "cuda"), ("torch", "2.13.0", "2.14.0"), ("tf32", "off", "on")]


def test_the_command_and_its_page(tmp_path: Path, capsys: Any) -> None:
    evil = "<script>alert(1)</script>"
    new = changed_document()
    new["claims"][0]["statement"] = evil
    base = written(tmp_path, "base.json", sample_document())
    call = ["compare", str(base), str(written(tmp_path, "new.json", new)), "--output", str(tmp_path / "out.html")]
    assert main(call) == 1
    assert "3 claims got worse" in capsys.readouterr().out
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "✗ Worse" in text and evil not in text and "http" not in text.replace("http-equiv", "")
    assert main(["compare", str(base), str(written(tmp_path, "again.json", sample_document()))]) == 0


def several(*documents: dict[str, Any]) -> str:
    """What `merge` writes of several devices."""
    return json.dumps({"schema": 1, "reports": documents})


def test_merged_reports_are_compared_device_by_device(tmp_path: Path, capsys: Any) -> None:
    cuda, worse = sample_document() | {"device": "cuda"}, changed_document() | {"device": "cuda"}
    base = written(tmp_path, "base.json", several(sample_document(), cuda, sample_document() | {"device": "mps"}))
    new = written(tmp_path, "new.json", several(sample_document(), worse, sample_document() | {"cell": "Fast"}))
    output = tmp_path / "out.html"
    assert main(["compare", str(base), str(new), "--output", str(output)]) == 1
    told = capsys.readouterr().out
    assert "cpu: Nothing got worse" in told and "cuda: 3 claims got worse" in told
    assert "mps: not run again" in told and "cpu, Fast: new" in told
    text = output.read_text(encoding="utf-8")
    assert text.count("✗ Worse") == 1 and text.count("✓ Not worse") == 1 and "mps: not run again" in text
    assert main(["compare", str(base), str(written(tmp_path, "cpu.json", sample_document()))]) == 0


def test_merged_reports_without_a_device_in_common_are_not_compared(tmp_path: Path, capsys: Any) -> None:
    cpu, cuda, mps = (sample_document() | {"device": device} for device in ("cpu", "cuda", "mps"))
    base, new = written(tmp_path, "base.json", several(cpu, cuda)), written(tmp_path, "new.json", mps)
    assert main(["compare", str(base), str(new)]) == 4
    assert capsys.readouterr().err == "ERROR: the reports have no device in common: cpu and cuda before, mps now\n"


def test_the_comparison_as_markdown(tmp_path: Path, capsys: Any) -> None:
    new = changed_document()
    new["fingerprint"]["torch"] = "2.14<b>"
    new["claims"][0]["checks"][2]["message"] = "a | b <script>"
    paths = [str(written(tmp_path, "base.json", sample_document())), str(written(tmp_path, "new.json", new))]
    assert main(["compare", *paths, "--markdown"]) == 1
    told = capsys.readouterr().out
    assert told.startswith("**✗ Worse** than the run of 2026-11-30 12:00 UTC, commit 0123abcd. 3 claims got worse")
    assert r"| `carousel.preserves-cell` | upheld | refuted | a \| b \<script\> |" in told
    assert r"| torch | 2.13.0 | 2.14\<b\> |" in told
    written(tmp_path, "new.json", sample_document())
    assert main(["compare", *paths, "--markdown"]) == 0
    assert "**✓ Not worse**" in capsys.readouterr().out


def with_figure(measured: str) -> str:
    document = sample_document()
    figure_of(document)["measured"] = "MEASURED"
    return json.dumps(document).replace('"MEASURED"', measured)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is empty"), (" ", "is no JSON"), ('{"schema": 1, "claims": [', "is no JSON"),
        ("[1, 2]", "is no claim report"),
        (json.dumps(sample_document())[:3000], "is no JSON"), ("\udcff", "is no JSON"), ("{}", "is no claim report"),
        ('{"schema": 2}', "schema 2; this version reads schema 1"),
        ('{"schema": 0}', "schema 0, as an earlier version of Carousel wrote it; this version reads schema 1"),
        ('{"schema": "<b>\\u001b[31m"}', "schema '<b>"), ('{"schema": 1, "seconds": NaN}', "NaN is no JSON number"),
        (with_figure("NaN"), "NaN is no JSON number"), (with_figure("Infinity"), "Infinity is no JSON number"),
        (with_figure("1e999"), "1e999 is larger than any number"),
        (with_figure("9" * 5000), "is larger than any number"), (with_figure("9" * 400), "is larger than any number"),
        (with_figure('"\\ud800"'), "is no JSON"), ('{"schema": 1}', "it lacks device, cell,"),
        (json.dumps({k: part for k, part in sample_document().items() if k != "shard"}), "it lacks shard, which an"),
        (json.dumps(sample_document() | {"shard": {"splits": 10**9, "groups": [1]}}), "is no claim report of schema 1"),
        (json.dumps(sample_document() | {"claims": [{"id": "<i>"}]}), "is no claim report of schema 1"),
        (json.dumps(sample_document() | {"claims": sample_document()["claims"] * 2}), "preserves-cell twice"),
        (json.dumps(sample_document() | {"chapters": []}), "is none of its chapters"),
        ('{"schema": 1, "reports": []}', "is no claim report of schema 1"),
        (several(sample_document(), {"schema": 1}), "is no claim report of schema 1"), ("[" * 100000, "is no JSON"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["compare", "merge", "summary", "annotate", "propose"])
def test_what_is_no_report_is_said_in_one_line(
    command: str, content: str, says: str, tmp_path: Path, capsys: Any
) -> None:
    good, bad = written(tmp_path, "good.json", sample_document()), tmp_path / "bad.json"
    bad.write_text(content, encoding="utf-8", errors="surrogateescape")
    both = [str(good), str(bad)] if command in ("compare", "merge", "summary") else [str(bad)]
    output = ["--output", str(tmp_path / "out.html")] if command in ("compare", "merge") else []
    assert main([command, *both, *output]) == 4
    out, err = capsys.readouterr()
    assert not out and err.startswith("ERROR: ") and err.count("\n") == 1 and says in err
    assert len(err) < 600 and "\x1b" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.json", "good.json"], "nothing was written"


@pytest.mark.parametrize("call", [["merge"], ["compare", "a.json"], ["contrast"], ["annotate", "a.json", "--colour"]])
def test_a_wrong_call_is_said_in_one_line(call: list[str], capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main(call)
    err = capsys.readouterr().err
    assert ended.value.code == 4 and err.startswith("ERROR: ") and err.count("\n") == 1


@pytest.mark.parametrize("command", ["compare", "merge", "summary", "annotate", "propose"])
def test_a_folder_is_no_report(command: str, tmp_path: Path, capsys: Any) -> None:
    more = {"compare": [str(tmp_path / "a.json")], "merge": ["--output", str(tmp_path / "out.html")]}.get(command, [])
    assert main([command, str(tmp_path), *more]) == 4
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1 and "cannot be read (Is a directory)" in err
    assert not list(tmp_path.iterdir())


def test_what_would_command_a_terminal_is_shown_instead(tmp_path: Path, capsys: Any) -> None:
    new = changed_document()
    new["claims"][0]["checks"][2]["message"] = "\x1b[2J gone"
    paths = [str(written(tmp_path, "base.json", sample_document())), str(written(tmp_path, "new.json", new))]
    main(["compare", *paths])
    told = capsys.readouterr().out
    assert "\x1b" not in told and "␛[2J gone" in told


def test_a_file_that_is_not_there(tmp_path: Path, capsys: Any) -> None:
    assert main(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 4
    assert "cannot be read" in capsys.readouterr().err


def test_twice_the_claims_are_twice_the_work(tmp_path: Path) -> None:
    def compared(base: dict[str, Any], new: dict[str, Any]) -> int:
        return work(lambda: page.compared([compare.compare(base, new)]))

    half = large_document(200)
    base, new = large_document(400), large_document(400)
    assert compared(base, new) < 2.1 * compared(half, copy.deepcopy(half))
    paths = [str(written(tmp_path, f"{name}.json", document)) for name, document in (("a", base), ("b", new))]
    command = [sys.executable, "-m", "report", "compare", *paths]
    run = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "Nothing got worse: 400 claims as before.\n"


def test_the_expectations_a_run_would_need_are_printed_and_never_written(tmp_path: Path, capsys: Any) -> None:
    changed = changed_document()
    changed["claims"][0]["statement"] = 'Two\n[[expectation]]\nclaim = "lines"'
    path = written(tmp_path, "changed.json", changed)
    assert main(["propose", str(path)]) == 0
    told = capsys.readouterr().out
    entries = tomllib.loads(told)["expectation"]
    unexpected = {c["id"]: c["verdict"] for c in changed_document()["claims"] if c["unexpected"]}
    assert {entry["claim"]: entry["expected"] for entry in entries} == {
        name: verdict for name, verdict in unexpected.items() if verdict != "missing"
    }
    assert all(entry["source"] == "TODO" and entry["torch"] == "==2.13.0" for entry in entries)
    assert [path.name for path in tmp_path.iterdir()] == ["changed.json"]
    assert main(["propose", str(written(tmp_path, "good.json", sample_document()))]) == 0
    assert "no entry is needed" in capsys.readouterr().out


def proposals(tmp_path: Path, capsys: Any, document: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """The entries that are proposed for a run, and all that is printed."""
    assert main(["propose", str(written(tmp_path, "run.json", document))]) == 0
    told = capsys.readouterr().out
    return tomllib.loads(told).get("expectation", []), told


def test_an_entry_is_proposed_for_this_run_alone(tmp_path: Path, capsys: Any) -> None:
    """Its device, torch, cell and number format, as narrow as they are known."""
    document = changed_document()
    document |= {"device": "cuda:1", "cell": "LSTM", "command": "pytest -n 2 --cell=kit[1].py:LSTM --device cuda:1"}
    document["fingerprint"] = document["fingerprint"] | {"device_name": "NVIDIA H200"}
    kept = document["claims"][0]
    entries, _ = proposals(tmp_path, capsys, document)
    [first] = [entry for entry in entries if entry["claim"] == kept["id"]]
    assert first | {"because": "", "source": ""} == {
        "claim": kept["id"], "device": "cuda", "device_name": "NVIDIA H200", "torch": "==2.13.0",
        "cell": "kit[[]1].py:LSTM", "dtype": kept["checks"][2]["dtype"], "expected": "refuted",
        "because": "", "source": "",
    }  # fmt: skip
    document["command"] = "pytest"  # the cell came by PYTEST_ADDOPTS
    assert proposals(tmp_path, capsys, document)[0][0]["cell"] == "*:LSTM"


def test_no_second_entry_is_proposed_where_one_no_longer_holds(tmp_path: Path, capsys: Any) -> None:
    document = changed_document()
    indefinitely = document["claims"][1] | {"entry": {"dtype": None, "cell": None}}
    document["claims"] = [indefinitely]
    entries, told = proposals(tmp_path, capsys, document)
    assert entries == [] and "its entry in expectations.toml no longer holds: take it out" in told


def test_unexpected_claims_become_annotations_on_their_own_lines(tmp_path: Path) -> None:
    document = changed_document()
    unexpected = [claim for claim in document["claims"] if claim["unexpected"]]
    document["claims"][document["claims"].index(unexpected[0])]["statement"] = "100 %\n::warning::evil"
    test = next(c["test"] for c in unexpected[0]["checks"] if c["outcome"] not in ("passed", "xfailed", "skipped"))
    name, _, function = test.split("[")[0].partition("::")
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(f"import x\n\n\ndef {function}(lstm):\n    pass\n", encoding="utf-8")
    told = annotated(document, tmp_path)
    assert len(told) == len(unexpected) and all("\n" not in line and line.startswith("::error ") for line in told)
    assert f"file={name},line=4," in told[0]
    (tmp_path / "my.py").write_text("\nclass Fast:\n    pass\n", encoding="utf-8")
    assert all("file=my.py,line=2," in line for line in annotated(document, tmp_path, ("my.py", "Fast")))
    assert all("file=/etc/hostname,line=1," in line for line in annotated(document, tmp_path, ("/etc/hostname", "x")))
    assert "100 %25%0A::warning::evil" in told[0], "a newline would begin another command"
