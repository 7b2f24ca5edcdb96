"""The report page: what it says, and that it stands alone, escapes everything and stays small."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from documents import (
    Page,
    changed_document,
    everywhere,
    figure,
    in_pytest_html,
    large_document,
    parsed,
    sample_document,
    validate,
    work,
)

from report import figures, page
from report import pytest_html as plugin
from report.mathematics import mathml
from report.notation import distance, measured, miss


@pytest.mark.parametrize("make", [sample_document, changed_document, lambda: large_document(3)])
def test_the_schema_accepts_what_the_page_is_made_of(make: Any) -> None:
    validate(make())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.update(colour="red"),
        lambda d: d["claims"][0].update(verdit="upheld"),
        lambda d: d["claims"][0]["checks"][0].update(outcome="ok"),
        lambda d: d["claims"][0]["checks"][0]["figures"][0].update(relation="<"),
        lambda d: d["claims"][0]["checks"][0]["figures"][0].update(allowed="NaN"),
        lambda d: d["fingerprint"].pop("torch"),
        lambda d: d.update(ended="killed"),
    ],
)
def test_the_schema_rejects_unknown_keys_and_words(spoil: Any) -> None:
    document = sample_document()
    spoil(document)
    with pytest.raises(jsonschema.ValidationError):
        validate(document)


def test_sentence_of_a_green_run() -> None:
    assert page.verdict_sentence(sample_document()) == (
        "All 5 claims hold as expected on cpu (torch 2.13.0, float32 and float64); 1 claim is not applicable here; "
        "1 statement of the documents is refuted as printed."
    )


def test_sentence_of_a_run_that_changed() -> None:
    assert page.verdict_sentence(changed_document()) == (
        "3 of 5 claims changed on cpu (torch 2.13.0, float32 and float64): "
        "carousel.preserves-cell, carousel.indefinitely, reach.printed."
    )


def test_sentence_of_a_partial_run() -> None:
    document = sample_document() | {"partial": True, "not_asked": ["gates.a", "gates.b"]}
    said = page.verdict_sentence(document)
    assert said.startswith("Partial run: 5 of 7 claims were asked for. All 5 hold as expected on cpu")
    assert "✓ As expected, in part" in parsed(document).text
    assert "gates.b" in parsed(document).text


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        ("interrupted", "The run was interrupted: 2 of 5 claims are missing: carousel.half, reach.recall."),
        ("internal error", "The run ended with an internal error: 2 of 5 claims are missing"),
        ("stopped early", "The run stopped early: 2 of 5 claims are missing"),
    ],
)
def test_sentence_of_a_broken_run(ended: str, words: str) -> None:
    document = sample_document() | {"ended": ended, "exit_status": 2, "complete": False}
    for n in (2, 4):
        document["claims"][n] |= {"verdict": "missing", "unexpected": True}
        for each in document["claims"][n]["checks"]:
            each["outcome"] = "missing"
    assert page.verdict_sentence(document).startswith(words)
    assert "✗ Broken run" in parsed(document).text
    assert "4 of 4 checks never reported" in parsed(document).text


def test_a_run_that_is_not_finished_is_no_pass_and_cheap() -> None:
    finished = large_document(150)
    document = copy.deepcopy(finished) | {"ended": "running", "exit_status": None, "complete": False}
    for each in document["claims"]:
        each |= {"verdict": "missing", "unexpected": True}
        for c in each["checks"]:
            c |= {"outcome": "missing", "figures": []}
    validate(document)
    text = page.standalone(document)
    assert work(lambda: page.standalone(document)) * 20 < work(lambda: page.standalone(finished))  # measured: 65
    assert page.verdict_sentence(document).startswith("Not finished")
    assert "150 of 150 claims are missing" in page.verdict_sentence(document)
    assert "<svg" not in text and "As expected" not in text


@pytest.mark.parametrize("status", [1, 2, 3, 4])
def test_nothing_is_green_when_the_exit_status_is_not_zero(status: int) -> None:
    document = sample_document() | {"exit_status": status}
    assert page.verdict_sentence(document).endswith(f"but exit status {status} is not a pass.")
    assert "As expected" not in page.standalone(document)


def test_a_cell_is_named_and_what_does_not_apply_is_counted() -> None:
    document = sample_document() | {"cell": "FastLSTM"}
    assert page.verdict_sentence(document).startswith(
        "FastLSTM: all 4 claims that apply to it hold as expected on cpu (torch 2.13.0, float32 and float64); "
        "1 claim is not applicable to it"
    )


def test_no_more_than_five_names_in_the_sentence() -> None:
    document = large_document(100) | {"exit_status": 1}
    for each in document["claims"]:
        each |= {"verdict": "refuted", "unexpected": True}
    assert page.verdict_sentence(document).endswith("carousel.claim-4 and 95 more.")


@pytest.mark.parametrize("make", [sample_document, changed_document])
def test_every_claim_is_an_anchor_once_and_every_link_has_a_target(make: Any) -> None:
    document = make()
    seen = parsed(document)
    assert len(seen.ids) == len(set(seen.ids))
    assert {each["id"] for each in document["claims"]} <= set(seen.ids)
    assert {link.removeprefix("#") for link in seen.links} <= set(seen.ids)


def test_the_page_fetches_nothing() -> None:
    seen = parsed(changed_document())
    assert all(address.startswith("#") for address in seen.fetched + seen.links)
    text = page.standalone(changed_document()).replace("http://www.w3.org/2000/svg", "")  # a name, not an address
    assert "http" not in text and "url(h" not in text and "@import" not in text


def test_everything_is_escaped() -> None:
    document = changed_document()
    evil = '<script>alert("x")</script> & <blink>'
    for each in document["claims"]:
        each |= {"statement": evil, "because": evil, "instead": evil, "equation": rf"\text{{{evil}}}", "section": evil}
        for c in each["checks"]:
            c |= {"subject": evil, "message": evil, "test": f"claims/{evil}"}
            c["figures"] = [f | {"name": evil, "where": evil} for f in c["figures"]]
            c["curves"] = [curve | {"series": evil} for curve in c["curves"]]
    document["figures"][0] |= dict.fromkeys(("title", "x", "y", "caption"), evil)
    document |= {"command": evil, "cell": evil, "device": evil}
    document["chapters"][0]["title"] = document["not_checkable"][0]["because"] = evil
    seen = parsed(document)
    assert seen.tags.count("script") == 1
    assert "blink" not in seen.tags
    assert evil in seen.text


def test_an_unexpected_claim_says_by_how_much_where_and_how_to_run_it_again() -> None:
    text = parsed(changed_document()).text
    assert "! refuted, expected upheld" in text
    assert "measured 3.20e-04 , allowed ≤ 1.00e-06" in text
    assert "320× the limit" in text
    assert "torch.nn.LSTM, float32, at (2, 0, 5)" in text
    assert 'pytest "claims/test_carousel.py::test_keeps[torch.nn.LSTM-float32]" --device cpu' in text
    assert "NaN" in text and "not a number" in text
    assert text.index("reach.printed ·") < text.index("carousel.preserves-cell ·")  # NaN is worse than any factor


def test_a_statement_that_holds_unexpectedly_is_shown_where_it_holds() -> None:
    document = changed_document()
    checks = document["claims"][1]["checks"]
    checks[0] |= {"outcome": "xfailed", "figures": [figure("drift", 3.3e-4, 0.0, holds=False)]}
    text = parsed(document).text
    item = text[text.index("! upheld, expected refuted") : text.index("Chapters")]
    assert "3 of its 4 checks find that it holds" in item and "3.30e-04" not in item


def test_hundreds_of_figures_are_cut_to_the_worst() -> None:
    document = sample_document()
    rows = [figure(f"∂L/∂W number {n}", n * 1e-9, 1e-6) for n in range(300)]
    document["claims"][0]["checks"] = everywhere("carousel.py::test_gradients", figures=rows)
    text = parsed(document).text
    assert "These are the 10 of 300 figures" in text
    assert "∂L/∂W number 299" in text and "∂L/∂W number 289 " not in text


def test_the_command_to_run_again_keeps_the_cell() -> None:
    document = changed_document() | {"cell": "FastLSTM", "command": "pytest --cell 'my cells.py:FastLSTM' -n 2"}
    assert '--device cpu --cell "my cells.py:FastLSTM"' in parsed(document).text


def test_errata_say_what_is_printed_measured_and_right() -> None:
    text = parsed(sample_document()).text
    erratum = text[text.index("Errata: 1") :]
    assert "printed The cell state is preserved indefinitely." in erratum
    assert "1.2e-15" in erratum and "where 0 was allowed" in erratum
    assert "right It drifts by rounding when C_0 is small." in erratum
    assert "N-009 About language" in erratum


def test_errata_show_what_is_printed_otherwise_and_what_the_literature_says() -> None:
    document = sample_document()
    document["claims"][0] |= {"errata": ["E40"], "printed": "One percent.", "statement": "It is 0.67 %."}
    document["not_checkable"] += [{"documented": "L-006", "errata": ["E12"], "because": "The third gate came in 1999."}]
    text = parsed(document).text
    assert "320 verified by claims, 1 not checkable" in text
    errata = text[text.index("Errata: 3") :]
    assert "printed One percent." in errata and "right It is 0.67 %." in errata
    assert "E12 L-006 right The third gate came in 1999." in errata


@pytest.mark.parametrize(
    ("x", "exact", "shown"),
    [
        (0.0, True, "0 (bit-exact)"), (0.0, False, "0"), (5.96e-8, False, "5.96e-08"), (0.99331, False, "0.993"),
        (0.9996, False, "1.00"), (-0.05, False, "−0.0500"), (1234567, False, "1234567"), (123.456, False, "123"),
        (9.9996e-4, False, "0.00100"), (9.99e-4, False, "9.99e-04"), (2.9e5, False, "2.90e+05"), ("nan", False, "NaN"),
        ("inf", True, "infinite"), ("-inf", False, "−infinite"), (None, False, "–"), ("5.28e-01", False, "0.528"),
        ("E w z", False, "E w z"),
    ],
)  # fmt: skip
def test_three_significant_digits(x: Any, exact: bool, shown: str) -> None:
    assert page.significant(x, exact) == shown


@pytest.mark.parametrize(
    ("figure", "shown", "words"),
    [
        (figure("a", 1.2e-7, 1e-6), "1.20e-07", "0.12 of the limit"),
        (figure("a", 1e-12, 1e-6), "1.00e-12", "< 0.01 of the limit"),
        (figure("a", 1.2e-5, 1e-6, holds=False), "1.20e-05", "12× the limit"),
        (figure("a", 1.0000004e-6, 1e-6, holds=False), "1.0000004e-06", "1.0000004× the limit"),
        (figure("a", 0.1, 0.8, ">=", holds=False), "0.100", "0.12 of what is asked"),
        (figure("a", -1.0, -0.5, ">=", holds=False), "−1.00", "below by 0.500"),
        (figure("a", 0.9933, 5e-4, "≈", documented="0.993"), "0.993", "0.6 of the tolerance"),
        (figure("a", 0.52843, 5e-4, "≈", documented="5.28e-01"), "5.28e-01", "0.86 of the tolerance"),
        (figure("a", 1.0, None, "==", documented=1.0), "1.00", "exact"),
        (figure("a", 0.0, 0.0, documented=0.0), "0 (bit-exact)", "exact"),
        (figure("a", 4.2e-18, 0.0, documented="0", holds=False), "4.20e-18", "off by 4.20e-18"),
        (figure("a", "nan", 0.0, holds=False), "NaN", "not a number"),
        (figure("a", -0.42, 0.0), "−0.420", "below by 0.420"),
        (figure("a", "i f c o", None, "==", documented="i f g o", holds=False), "i f c o", "not equal"),
        (figure("a", 4, None, "==", documented=4), "4", "exact"),
        (figure("a", None, 1.0, holds=False), "–", "not measured"),
    ],
)
def test_measured_and_how_far_from_the_limit(figure: dict[str, Any], shown: str, words: str) -> None:
    assert measured(figure) == shown
    assert distance(figure) == words
    assert (miss(figure) <= 1) == figure["holds"] or miss(figure) == 1


def test_figures_are_deterministic_and_well_behaved() -> None:
    document = sample_document()
    second = copy.deepcopy(document["figures"][0]) | {"id": "again"}
    document["figures"].append(second)
    for each in document["claims"][3]["checks"]:
        each["curves"] += [curve | {"figure": "again"} for curve in each["curves"]]
    svgs = figures.draw(document)
    assert svgs == figures.draw(document)
    ids = [e.get("id") for svg in svgs.values() for e in ElementTree.fromstring(svg).iter() if e.get("id")]
    assert set(svgs) == {"reach", "again"} and len(ids) == len(set(ids))
    assert 'role="img"' in svgs["reach"] and "as documented" in svgs["reach"] and "10⁻⁸" in svgs["reach"]
    assert figures.INK not in svgs["reach"] and "<style" not in svgs["reach"] and "DejaVu" not in svgs["reach"]


def test_figures_are_the_same_bytes_in_another_process() -> None:
    code = "import json, sys; from report import figures; print(figures.draw(json.load(sys.stdin))['reach'])"
    said = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(sample_document()), capture_output=True, text=True, encoding="utf-8", check=True,
        cwd=Path(page.__file__).parents[1], env={"PYTHONIOENCODING": "utf-8", "PATH": "", "HOME": str(Path.home())},
    ).stdout  # fmt: skip
    assert said.strip() == figures.draw(sample_document())["reach"]


def test_the_curve_of_a_torch_layer_in_float32_is_drawn() -> None:
    assert {curve.source for curve in figures.chosen(sample_document(), "reach")} == {"torch.nn.LSTM, float32"}
    assert "Drawn: torch.nn.LSTM, float32." in parsed(sample_document()).text


def test_equations_are_mathematics_or_else_latex() -> None:
    seen = parsed(sample_document())
    assert seen.tags.count("math") == 2
    for latex in (r"\broken{", r"\nosuchcommand{x}", r"\text{<b>bold</b>}", r"\href{javascript:x}{y}"):
        assert mathml(latex) is None
    document = sample_document()
    document["claims"][0]["equation"] = r"\nosuchcommand{x}"
    assert r"\nosuchcommand{x}" in parsed(document).text


def test_four_hundred_claims_stay_small() -> None:
    text = page.standalone(large_document(400))
    assert len(text.encode()) < 2_000_000
    assert text.count('class="card"') == 400


@pytest.mark.parametrize(
    "evidence", [None, {}, {"claim": "a.b", "subject": "<i>", "dtype": "float32"}, {"claim": None}]
)
def test_header_and_rows_of_the_table_have_the_same_number_of_cells(evidence: dict[str, Any] | None) -> None:
    header = [
        '<th class="sortable" data-column-type="result">Result</th>',
        '<th class="sortable" data-column-type="testId">Test</th>',
        "<th>Links</th>",
    ]
    row = ['<td class="col-result">Passed</td>', '<td class="col-testId">test</td>', '<td class="col-links"></td>']
    report = pytest.TestReport("test", ("", 0, ""), {}, "passed", None, "call")
    if evidence is not None:
        report.evidence = evidence  # type: ignore[attr-defined]
    plugin.pytest_html_results_table_header(header)
    plugin.pytest_html_results_table_row(report, row)
    assert len(header) == len(row) == 4
    assert "<i>" not in row[2]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_with_pytest_html(workers: str, tmp_path: Path) -> None:
    run = in_pytest_html(tmp_path, changed_document(), "-n", workers)
    assert run.returncode == 1 and not run.stderr, run.stdout + run.stderr
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    seen = Page(text)
    assert "✗ Changed. 3 of 5 claims changed on cpu" in seen.text
    assert seen.text.index("✗ Changed") < seen.text.index("pytest-html's own table") < seen.text.index("tests took")
    assert len(seen.ids) == len(set(seen.ids))
    assert "data-jsonblob='{\"" in text
    told = json.loads(seen.blob)["tests"]
    assert told.pop("test_it.py::test_named")[0][:3] == ["Passed", "carousel.half", "Cell float32"]
    rows = {name.split("::")[1]: each[0] for name, each in told.items()}
    assert len(rows) == 5 and {len(row["resultsTableRow"]) for row in rows.values()} == {5}
    assert rows["test_passes"]["log"] == "" and "chatter" not in text
    assert rows["test_refuted"]["log"] == ""
    assert "one isn&#x27;t &lt;below&gt; &quot;zero&quot; &amp; that&#x27;s it" in rows["test_fails"]["log"]
    assert "&lt;Cell&gt; float32" in rows["test_passes"]["resultsTableRow"][2]
    assert rows["test_plain"]["resultsTableRow"][2] == "<td class=col-subject></td>"
