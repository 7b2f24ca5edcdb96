"""The catalogue: what is wrong with one is said in one line, before anything runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures import WrongCall, catalogue, expectations

ROOT = Path(__file__).parents[1]

TOML = """
[[chapter]]
id = "toy"
title = "Toys"

[[figure]]
id = "toys"
chapter = "toy"
title = "Toys"
x = "t"
y = "y"
xscale = "linear"
yscale = "log"
caption = "Toys over time."

[[claim]]
id = "toy.holds"
statement = "It holds."
documented = ["N-001", "X03", "L-020"]
section = "N §1"
kind = "exact"

[[claim]]
id = "toy.wrong"
statement = "It is wrong."
documented = ["N-002"]
errata = ["E01"]
section = "N §1"
kind = "figure"
expected = "refuted"
because = "It is not so."
instead = "It holds."
see = ["toy.holds"]

[[not_checkable]]
documented = "N-003"
because = "A matter of taste."
"""

MODULE = """
import pytest

@pytest.mark.claim("toy.holds")
@pytest.mark.parametrize("k", [1, 2])
def test_holds(k, evidence): ...

@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.claim("toy.wrong")
def test_wrong(k, evidence): ...

def helper(): ...
"""

EXPECTATION = """
[[expectation]]
claim = "toy.holds"
device = "cuda"
expected = "refuted"
because = "It rounds."
source = "measured"
"""


def write(root: Path, toml: str = TOML, module: str = MODULE, expectations: str = "") -> Path:
    """A root with a catalogue and one module of claims."""
    for name, text in {
        "fixtures/claims.toml": toml,
        "claims/test_toys.py": module,
        "fixtures/expectations.toml": expectations,
    }.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def test_a_catalogue_knows_its_claims_and_which_test_verifies_which(tmp_path: Path) -> None:
    read = catalogue.load(write(tmp_path))
    assert list(read.claims) == ["toy.holds", "toy.wrong"]
    assert read.claims["toy.holds"]["expected"] == "upheld"
    assert read.claims["toy.holds"]["chapter"] == "toy"
    assert read.claim_of("claims/test_toys.py::test_wrong[2]") == "toy.wrong"
    assert read.claim_of("claims/test_toys.py::test_holds") == "toy.holds"
    assert read.claim_of("tests/test_toys.py::test_holds") is None


def test_a_device_replaces_what_is_expected(tmp_path: Path) -> None:
    write(tmp_path, expectations=EXPECTATION)
    assert catalogue.load(tmp_path, "cpu").claims["toy.holds"]["expected"] == "upheld"
    for device in ("cuda", "cuda:1"):
        claim = catalogue.load(tmp_path, device).claims["toy.holds"]
        assert (claim["expected"], claim["because"]) == ("refuted", "It rounds. (measured)")


def test_the_repositorys_own_catalogue_is_read_for_every_device() -> None:
    assert len(catalogue.load(ROOT, "cuda:1").claims) == len(catalogue.load(ROOT).claims) > 100


def in_toml(old: str, new: str) -> Callable[[Path], Path]:
    """A catalogue with one thing changed."""
    assert old in TOML
    return lambda root: write(root, toml=TOML.replace(old, new, 1))


def in_module(old: str, new: str) -> Callable[[Path], Path]:
    """A module of claims with one thing changed."""
    assert old in MODULE
    return lambda root: write(root, module=MODULE.replace(old, new, 1))


def expecting(old: str, new: str) -> Callable[[Path], Path]:
    """An expectation with one thing changed."""
    assert old in EXPECTATION
    return lambda root: write(root, expectations=EXPECTATION.replace(old, new, 1))


WRONG = [
    (in_toml("[[claim]]", "[[claim]"), "claims.toml does not parse: "),
    (in_toml("[[claim]]", "[claim]"), "claims.toml does not parse: "),
    (in_toml("[[not_checkable]]", "[not_checkable]"), "claims.toml: an entry of not_checkable begins with [[not_che"),
    (in_toml("[[not_checkable]]", "[[uncheckable]]"), "claims.toml: unknown key 'uncheckable'; known are chapter, cl"),
    (in_toml('id = "toy"', 'key = "toy"'), "claims.toml: chapter: unknown key 'key'"),
    (in_toml('title = "Toys"\n\n', "\n"), "claims.toml: chapter toy: lacks 'title'"),
    (in_toml("[[figure]]", '[[chapter]]\nid = "toy"\ntitle = "?"\n[[figure]]'), "claims.toml: chapter toy stands ther"),
    (in_toml('chapter = "toy"', 'chapter = "joy"'), "claims.toml: figure toys: no chapter 'joy'"),
    (in_toml('caption = "Toys over time."', ""), "claims.toml: figure toys: lacks 'caption'"),
    (in_toml('caption = "Toys over time."', "caption = 3"), "claims.toml: figure toys: caption has to be text, not 3"),
    (in_toml('id = "toy.holds"', ""), "claims.toml: claim (without id): lacks 'id'"),
    (in_toml('id = "toy.holds"', "id = 3"), "claims.toml: claim 3: id has to be text, not 3"),
    (in_toml('id = "toy.holds"', 'id = "toy"'), "claims.toml: claim toy: an id is CHAPTER.NAME"),
    (in_toml('id = "toy.holds"', 'id = "toy.holds fast"'), "claims.toml: claim toy.holds fast: an id is CHAPTER.NAME"),
    (in_toml('id = "toy.holds"', 'id = "joy.holds"'), "claims.toml: claim joy.holds: no chapter 'joy'"),
    (in_toml('id = "toy.wrong"', 'id = "toy.holds"'), "claims.toml: claim toy.holds stands there twice"),
    (in_toml('statement = "It holds."', 'statement = ""'), "claims.toml: claim toy.holds: statement has to be text"),
    (in_toml('statement = "It holds."', ""), "claims.toml: claim toy.holds: lacks 'statement'"),
    (in_toml('"It holds."\n', '"It holds."\nstament = ""\n'), "claims.toml: claim toy.holds: unknown key 'stament'"),
    (in_toml('["N-001", "X03", "L-020"]', '"N-001"'), "claims.toml: claim toy.holds: documented has to be a list of"),
    (in_toml('"X03"', '"N-1"'), "claims.toml: claim toy.holds: 'N-1' in documented is no id of a statement"),
    (in_toml('["E01"]', '["X01"]'), "claims.toml: claim toy.wrong: 'X01' in errata is no id of a statement"),
    (in_toml('kind = "exact"', 'kind = "exakt"'), "claims.toml: claim toy.holds: kind is one of exact, parity, figur"),
    (in_toml('"refuted"', '"false"'), "claims.toml: claim toy.wrong: kind is one of exact, parity, figure, training"),
    (in_toml('because = "It is not so."', ""), "claims.toml: claim toy.wrong: expected refuted needs a because"),
    (in_toml('instead = "It holds."', ""), "claims.toml: claim toy.wrong: a refuted claim says what holds instead"),
    (in_toml('see = ["toy.holds"]', ""), "claims.toml: claim toy.wrong: a refuted claim says what holds instead"),
    (in_toml('see = ["toy.holds"]', 'see = ["toy.hodls"]'), "claims.toml: claim toy.wrong points to toy.hodls, which "),
    (in_toml('documented = "N-003"', 'documented = "N-001"'), "claims.toml: N-001 is both claimed and not checkable"),
    (in_toml('documented = "N-003"', ""), "claims.toml: not_checkable: lacks 'documented'"),
    (
        in_toml('documented = "N-003"', 'documented = "?"'),
        "claims.toml: not_checkable ?: '?' in documented is no id of a statement",
    ),
    (in_module("def test_wrong", "def rest_wrong"), "claims.toml: claim toy.wrong has no test (1 such)"),
    (in_module('@pytest.mark.claim("toy.wrong")', ""), "claims/test_toys.py::test_wrong (line 10) says 0 claims; a te"),
    (in_module('"toy.wrong"', '"toy.wrong", "toy.holds"'), "claims/test_toys.py::test_wrong (line 10) says 2 claims;"),
    (in_module('"toy.wrong"', '"toy.worng"'), "claims/test_toys.py::test_wrong verifies 'toy.worng', which is not in"),
    (in_module("def helper(", "def test_more("), "claims/test_toys.py::test_more (line 12) says 0 claims; a test veri"),
    (in_module("def helper(): ...", "class TestMore:\n    def test_more(self): ..."), "claims/test_toys.py::test_more"),
    (in_module("def helper(", "async def test_more("), "claims/test_toys.py::test_more (line 12) says 0 claims; a te"),
    (in_module("def test_wrong(", "def test_holds("), "claims/test_toys.py::test_holds (line 10) stands there twice"),
    (in_module("def helper():", "def helper(:"), "claims/test_toys.py does not parse: line 12: "),
    (in_module("helper", "\0"), "claims/test_toys.py does not parse: "),
    (expecting("[[expectation]]", "[expectation]"), "expectations.toml: an entry of expectation begins with [[expecta"),
    (expecting("toy.holds", "toy.hodls"), "expectations.toml: no claim 'toy.hodls'"),
    (expecting('"refuted"', '"false"'), "expectations.toml: expected is one of upheld, refuted, not-applicable, not "),
    (expecting('because = "It rounds."', ""), "expectations.toml: expectation: lacks 'because'"),
    (expecting('"cuda"', '"cuda:0"'), "expectations.toml: device 'cuda:0'"),
    (expecting("[[", "[["[:1]), "expectations.toml does not parse: "),
    (
        expecting('"measured"\n', '"measured"\nexpires = "soon"\n'),
        "expectations.toml: the entry for toy.holds: exp",
    ),
    (
        expecting('"measured"\n', '"measured"\nexpires = 2020-01-01\n'),
        "expectations.toml: the entry for toy.holds exp",
    ),
    (
        expecting('"cuda"', '"cpu"\ntorch = "new"'),
        "expectations.toml: the entry for toy.holds: torch is a range",
    ),
    (
        expecting('"cuda"\nexpected = "refuted"', '"cpu"\nexpected = "upheld"'),
        "expectations.toml: the entry for toy.holds c",
    ),
    (
        expecting('"cuda"', '"cuda"\ndevice_name = 200'),
        "expectations.toml: the entry for toy.holds: device_name has to be text, not 200",
    ),
    (
        expecting('"cuda"', '"cuda"\ncell = ""'),
        "expectations.toml: the entry for toy.holds: cell has to be text, not ''",
    ),
    (
        expecting('"cuda"', '"cuda"\ndtype = "half"'),
        "expectations.toml: the entry for toy.holds: dtype is one of float32, float64, not 'half'",
    ),
    (
        expecting('expected = "refuted"', 'expected = "not-applicable"\ndtype = "float32"'),
        "expectations.toml: the entry for toy.holds: a dtype says in which format checks may miss, so expected is ref",
    ),
    (
        lambda root: write(root, expectations=2 * EXPECTATION.replace("cuda", "cpu")),
        "expectations.toml: the entry for toy.holds is there twice for cpu",
    ),
]


@pytest.mark.parametrize(("make", "says"), WRONG, ids=[says.partition(": ")[2] or says for _, says in WRONG])
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, make: Callable[[Path], Path], says: str) -> None:
    with pytest.raises(WrongCall) as wrong:
        catalogue.load(make(tmp_path))
    text = str(wrong.value)
    assert text.startswith(says)
    assert "\n" not in text


def test_a_catalogue_that_is_not_there_or_not_text_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(WrongCall, match=r"^claims.toml does not parse: "):
        catalogue.load(tmp_path)
    (write(tmp_path) / "fixtures" / "claims.toml").write_bytes(b"\xff")
    with pytest.raises(WrongCall, match=r"^claims.toml does not parse: "):
        catalogue.load(tmp_path)


def test_modules_below_a_chapter_count_too(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "claims" / "more").mkdir()
    (tmp_path / "claims" / "more" / "toys_test.py").write_text("def test_stray(): ...\n", encoding="utf-8")
    with pytest.raises(WrongCall, match=r"^claims/more/toys_test.py::test_stray \(line 1\) says 0 claims"):
        catalogue.load(tmp_path)


@pytest.mark.parametrize(("torch", "meant"), [("2.8.0", False), ("2.13.0+cpu", True), ("2.14.0", False)])
def test_an_expectation_may_be_about_some_versions_of_torch(torch: str, meant: bool, tmp_path: Path) -> None:
    path = tmp_path / "expectations.toml"
    path.write_text(EXPECTATION + 'torch = ">=2.13,<2.14"\nexpires = 2999-01-01\n', encoding="utf-8")
    found = expectations.of("cuda:1", path, {"toy.holds": {"expected": "upheld"}}, torch=torch)
    assert ("toy.holds" in found) == meant


def expected(root: Path, more: str, device: str = "cuda", **run: Any) -> str:
    """What the catalogue expects of toy.holds where its one entry says more."""
    write(root, expectations=EXPECTATION + more)
    return str(catalogue.load(root, device, **run).claims["toy.holds"]["expected"])


@pytest.mark.parametrize(("name", "meant"), [("NVIDIA H200", True), ("NVIDIA H200 NVL", True), ("NVIDIA H100", False)])
def test_an_expectation_may_be_about_devices_of_a_name(name: str, meant: bool, tmp_path: Path) -> None:
    found = expected(tmp_path, 'device_name = "NVIDIA H200*"\n', named=lambda: name)
    assert found == ("refuted" if meant else "upheld")


@pytest.mark.parametrize(
    ("more", "device"), [("", "cuda"), ('device_name = "*"\n', "cpu"), ('device_name = "*"\ntorch = "<2"\n', "cuda")]
)
def test_a_device_is_asked_for_its_name_only_where_an_entry_for_it_hangs_on_that(
    more: str, device: str, tmp_path: Path
) -> None:
    """The name takes an import of torch."""
    expected(tmp_path, more, device, named=lambda: pytest.fail("it was asked"))


@pytest.mark.parametrize(
    ("cell", "meant"), [(None, False), ("mine.py:LSTM", False), ("kit.onnx:LSTM", True), ("kit.onnx:GRU", True)]
)
def test_an_expectation_may_be_about_somebodys_cells(cell: str | None, meant: bool, tmp_path: Path) -> None:
    found = expected(tmp_path, 'cell = "kit.onnx:*"\n', cell=cell)
    assert found == ("refuted" if meant else "upheld")


def test_an_expired_entry_about_a_cell_is_an_error_with_that_cell_alone(tmp_path: Path) -> None:
    """Whoever verifies another cell has nothing to do with it."""
    more = 'cell = "kit.onnx:*"\nexpires = 2020-01-01\n'
    assert expected(tmp_path, more) == expected(tmp_path, more, cell="mine.py:LSTM") == "upheld"
    with pytest.raises(WrongCall, match=r"^expectations.toml: the entry for toy.holds expired on 2020-01-01"):
        expected(tmp_path, more, cell="kit.onnx:GRU")
