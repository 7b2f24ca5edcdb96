"""The report page in a real browser: its filter, its links, by keyboard, on paper, in the dark and on a phone.

Asks for playwright and a Chromium of the machine's own; without one of them these tests are skipped. Whatever a page
does in any of them, it may write nothing to the console and ask for nothing but itself.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from documents import CHROMIUM, NO_CHROMIUM, changed_document, environment, everywhere, in_pytest_html, sample_document

from report import page as report

playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: make test installs it")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe: make test installs it")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)

ROOT = Path(report.__file__).parents[1]
GREEN = ["carousel.preserves-cell", "carousel.indefinitely", "carousel.half", "reach.printed", "reach.recall"]
EVIL = '"><img src=x onerror=document.title="hit">'
Visit = Callable[..., Any]


def evil_document() -> dict[str, Any]:
    """Markup wherever a run could put some."""
    document = sample_document()
    for each in document["claims"]:
        each |= {"statement": EVIL, "equation": rf"\text{{{EVIL}}}", "section": EVIL}
        each["checks"] = [check | {"subject": EVIL} for check in each["checks"]] + everywhere("other.py::test_other")
    document["chapters"][0]["title"] = EVIL
    return document


def running_document() -> dict[str, Any]:
    return sample_document() | {"ended": "running", "exit_status": None, "complete": False}


def elsewhere() -> dict[str, Any]:
    """The red run, on another device."""
    return changed_document() | {"device": "cuda"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        try:
            started = driver.chromium.launch(executable_path=CHROMIUM)
        except playwright.Error as error:
            pytest.skip(f"{CHROMIUM} does not start here: {str(error).splitlines()[0]}")
        yield started
        started.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Where a page lies that is written when it is first asked for."""
    documents = {
        "green": sample_document, "red": changed_document, "evil": evil_document, "running": running_document
    }  # fmt: skip

    @lru_cache
    def written(name: str) -> str:
        folder = tmp_path_factory.mktemp("page")
        path = folder / "page.html"
        kind, _, framed = name.partition(" ")
        if kind == "real":
            command = [sys.executable, "-m", "pytest", "claims/test_hand_worked.py", "-n", "0", "-q"]
            command.append(f"--report-dir={folder}")
            subprocess.run(command, cwd=ROOT, env=environment(), check=True, capture_output=True)
            path = folder / "claims-cpu.html"
        elif kind == "beside":
            path.write_text(report.merged([sample_document(), elsewhere()]), encoding="utf-8")
        elif framed:
            in_pytest_html(folder, documents[kind]())
        else:
            path.write_text(report.standalone(documents[kind]()), encoding="utf-8")
        return path.as_uri()

    return written


@pytest.fixture
def visit(browser: Any, address: Callable[[str], str]) -> Iterator[Visit]:
    """Opens a page by name, at a fragment; afterwards nothing may have been heard from it."""
    contexts, heard = [], []

    def opened(name: str, fragment: str = "", **options: Any) -> Any:
        contexts.append(browser.new_context(**options))
        page, own = contexts[-1].new_page(), address(name)
        page.on("console", lambda message: heard.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: heard.append(f"error: {error}"))
        page.on("request", lambda request: request.url.startswith(("data:", own)) or heard.append(request.url))
        page.goto(own + fragment)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not heard


def shown(page: Any) -> list[str]:
    """The claims whose cards can be seen."""
    return page.locator(".card").evaluate_all("cards => cards.filter(c => c.checkVisibility()).map(c => c.id)")


def said(page: Any) -> str:
    return page.locator("#filter output").text_content()


def fragment(page: Any) -> str:
    return page.evaluate("location.hash")


def focused(page: Any, what: str) -> Any:
    return page.evaluate(f"document.activeElement.{what}")


@pytest.mark.parametrize("name", ["green", "red", "green in pytest-html", "red in pytest-html"])
def test_the_verdict_is_the_first_thing_to_be_read(visit: Visit, name: str) -> None:
    page = visit(name)
    verdict = page.locator(".verdict p").first
    document = changed_document() if name.startswith("red") else sample_document()
    assert report.verdict_sentence(document) in verdict.inner_text()
    assert verdict.bounding_box()["y"] < 200
    assert "hold" in verdict.inner_text() if name.startswith("green") else "3 of 5" in verdict.inner_text()


FILTERS = [
    ("green", {"chapter": "reach"}, GREEN[3:]),
    ("green", {"verdict": "refuted"}, ["carousel.indefinitely"]),
    ("green", {"verdict": "not-applicable"}, ["carousel.half"]),
    ("green", {"verdict": "unexpected"}, []),
    ("red", {"verdict": "unexpected"}, ["carousel.preserves-cell", "carousel.indefinitely", "reach.printed"]),
    ("red", {"verdict": "refuted"}, ["carousel.preserves-cell", "reach.printed"]),
    ("green", {"subject": "reference.LSTM"}, GREEN[:4]),
    ("green", {"subject": "torch.nn.LSTM"}, GREEN),
    ("green", {"search": "bit for BIT"}, ["carousel.preserves-cell"]),
    ("green", {"search": "state cell"}, ["carousel.preserves-cell", "carousel.indefinitely"]),
    ("green", {"search": "carousel.half"}, ["carousel.half"]),
    ("green", {"search": "n-100"}, ["reach.printed"]),
    ("green", {"search": "E02"}, ["carousel.indefinitely"]),
    ("green", {"search": r"\frac{\partial C_T}"}, ["reach.printed"]),
    ("green", {"search": "§4.b"}, ["reach.printed"]),
    ("green", {"search": "no such claim"}, []),
    ("green", {"chapter": "carousel", "verdict": "upheld"}, ["carousel.preserves-cell"]),
    ("green", {"chapter": "reach", "subject": "reference.LSTM", "search": "gradient"}, ["reach.printed"]),
    ("green", {"chapter": "reach", "verdict": "refuted"}, []),
    ("beside", {"verdict": "different"}, ["carousel.preserves-cell", "carousel.indefinitely", "reach.printed"]),
    ("beside", {"verdict": "unexpected", "chapter": "reach"}, ["reach.printed"]),
    ("beside", {"search": "n-100", "subject": "reference.LSTM"}, ["reach.printed"]),
    ("evil", {"subject": EVIL, "chapter": "reach"}, GREEN[3:]),
    ("evil", {"search": EVIL}, GREEN),
]


@pytest.mark.parametrize(("name", "values", "claims"), FILTERS)
def test_a_filter_shows_what_fits_counts_it_and_can_be_linked_to(
    visit: Visit, address: Callable[[str], str], name: str, values: dict[str, str], claims: list[str]
) -> None:
    page = visit(name)
    assert (shown(page), said(page)) == (GREEN, "5 claims")
    for field, value in values.items():
        control = page.locator(f"#filter [name={field}]")
        if field == "search":
            control.fill(value)
            control.press("Tab")
        else:
            control.select_option(value)
    assert (shown(page), said(page)) == (claims, f"{len(claims)} of 5 claims")
    chapters = {claim.split(".")[0] for claim in claims}
    assert {c for c in ("carousel", "reach") if page.locator(f"#chapter-{c}").is_visible()} == chapters

    link = fragment(page)
    page.goto("about:blank")
    page.goto(address(name) + link)
    assert (shown(page), said(page), fragment(page)) == (claims, f"{len(claims)} of 5 claims", link)
    assert {field: page.locator(f"#filter [name={field}]").input_value() for field in values} == values
    assert page.evaluate("scrollY") > 0 and 0 <= page.locator("#filter").bounding_box()["y"] < 400
    page.get_by_role("button", name="Reset").click()
    assert (shown(page), said(page), fragment(page)) == (GREEN, "5 claims", "")
    assert page.title() != "hit"


@pytest.mark.parametrize("link", ["#?verdict=nonsense&colour=red", "#?", "#%", "#?search=%", "#no.such-claim"])
def test_a_link_to_what_is_not_there_hides_nothing(visit: Visit, link: str) -> None:
    page = visit("green", link)
    assert shown(page) == ([] if "search" in link else GREEN)
    assert page.locator("#filter [name=verdict]").input_value() == ""


def test_a_link_to_a_claim_opens_it_even_where_a_filter_hid_it(visit: Visit) -> None:
    page = visit("green", "#carousel.preserves-cell")
    card = page.locator("[id='carousel.preserves-cell']")
    assert card.evaluate("card => card.open && card.matches(':target')")
    assert card.locator(".numbers").is_visible()

    page = visit("green", "#?verdict=refuted")
    page.locator("[id='carousel.indefinitely'] summary").click()
    page.locator("[id='carousel.indefinitely']").get_by_role("link", name="carousel.preserves-cell").click()
    page.wait_for_function("location.hash == '#carousel.preserves-cell'")
    card = page.locator("[id='carousel.preserves-cell']")
    card.locator(".numbers").wait_for()
    assert card.evaluate("card => card.open") and (shown(page), said(page)) == (GREEN, "5 claims")
    assert abs(card.bounding_box()["y"]) < 400
    page.go_back()
    page.wait_for_function("location.hash == '#?verdict=refuted'")
    assert said(page) == "1 of 5 claims"

    page.get_by_role("link", name="Reach", exact=True).click()  # a chapter that the filter hides
    page.locator("#chapter-reach").wait_for()
    assert shown(page) == GREEN


def test_the_counts_of_the_table_of_contents_lead_to_what_they_count(visit: Visit) -> None:
    page = visit("red")
    page.get_by_role("link", name="2 unexpected, The constant error carousel").click()
    page.wait_for_function("location.hash == '#?chapter=carousel&verdict=unexpected'")
    assert shown(page) == ["carousel.preserves-cell", "carousel.indefinitely"]
    assert focused(page, "id") == "filter"
    page.get_by_role("link", name="3 unexpected, all chapters").click()
    page.wait_for_function("location.hash == '#?verdict=unexpected'")
    assert said(page) == "3 of 5 claims"
    page.go_back()
    page.wait_for_function("location.hash == '#?chapter=carousel&verdict=unexpected'")
    assert said(page) == "2 of 5 claims"


def test_every_claim_links_to_itself(visit: Visit) -> None:
    page = visit("green")
    for claim in GREEN:
        link = page.get_by_role("link", name=f"Link to {claim}", exact=True)
        assert link.is_visible()
        link.press("Enter")
        page.wait_for_function("id => location.hash == '#' + id", arg=claim)
        assert page.locator(f"[id='{claim}']").evaluate("card => card.open")


def test_everything_by_keyboard(visit: Visit) -> None:
    page = visit("green")
    press = page.keyboard.press
    press("Tab")
    assert focused(page, "textContent") == "Skip to the chapters"
    assert page.get_by_text("Skip to the chapters").bounding_box()["x"] >= 0
    press("Enter")
    page.wait_for_function("location.hash == '#contents'")
    press("Tab")
    assert focused(page, "textContent") == "The constant error carousel"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    press("/")
    assert focused(page, "name") == "search"
    page.keyboard.type("printed/")
    assert focused(page, "value") == "printed/" and shown(page) == []
    press("Backspace")
    assert shown(page) == ["reach.printed"]
    press("Enter")
    assert fragment(page) == "#?search=printed"
    assert page.evaluate("document.activeElement.closest('.card').id") == "reach.printed"
    card = page.locator("[id='reach.printed']")
    press("Enter")
    assert card.locator(".numbers").is_visible()
    press("Space")
    assert not card.locator(".numbers").is_visible()
    press("Shift+Tab")
    assert focused(page, "ariaLabel") == "Link to reach.printed"
    press("/")
    press("Escape")
    assert (focused(page, "value"), shown(page), fragment(page)) == ("", GREEN, "")


@pytest.mark.parametrize("name", ["green", "red in pytest-html", "beside"])
def test_the_focus_goes_down_the_page(visit: Visit, name: str) -> None:
    page = visit(name, viewport={"width": 1100, "height": 800})
    stops = []
    while len(stops) < 200:
        page.keyboard.press("Tab")
        if focused(page, "tagName") == "BODY":
            break
        stops.append(page.evaluate("document.activeElement.getBoundingClientRect().bottom + scrollY"))
    assert 15 < len(stops) < 200
    assert all(later > earlier - 60 for earlier, later in pairwise(stops))


@pytest.mark.parametrize("name", ["green", "red in pytest-html", "beside"])
def test_without_scripts_everything_is_there_and_the_filter_is_not(visit: Visit, name: str) -> None:
    page = visit(name, "#carousel.preserves-cell", java_script_enabled=False)
    assert not page.locator("#filter").is_visible()
    assert page.locator(".card > summary").count() == 5
    assert all(summary.is_visible() for summary in page.locator(".card > summary").all())
    assert page.locator("[data-filter] a").count() == 0
    assert page.locator("[id='carousel.preserves-cell'] :is(.numbers, .devices)").bounding_box()["height"] > 20
    page.locator("[id='carousel.half'] summary").click()
    assert page.locator("[id='carousel.half'] > p").first.is_visible()


def test_a_run_that_is_going_has_nothing_to_filter(visit: Visit) -> None:
    page = visit("running")
    assert page.locator("#filter").count() == 0
    assert "Not finished" in page.locator(".verdict").inner_text()


@pytest.mark.parametrize("name", ["green", "red in pytest-html", "beside"])
def test_light_dark_and_paper(visit: Visit, name: str) -> None:
    page = visit(name, "#?chapter=carousel", color_scheme="dark")
    paper, ink = (
        "() => getComputedStyle(document.body).backgroundColor",
        "() => getComputedStyle(document.querySelector('.card')).color",
    )
    assert (page.evaluate(paper), page.evaluate(ink)) == ("rgb(21, 23, 27)", "rgb(227, 229, 233)")
    page.emulate_media(color_scheme="light")
    assert (page.evaluate(paper), page.evaluate(ink)) == ("rgb(255, 255, 255)", "rgb(27, 29, 33)")
    page.emulate_media(color_scheme="dark", media="print")
    assert (page.evaluate(paper), page.evaluate(ink)) == ("rgb(255, 255, 255)", "rgb(0, 0, 0)")


def test_paper_shows_the_figures_of_the_claims_that_are_shown_and_nothing_to_click(visit: Visit) -> None:
    page = visit("green in pytest-html", "#?verdict=refuted", viewport={"width": 680, "height": 1000})
    numbers = page.locator("[id='carousel.indefinitely'] .numbers")
    assert not page.locator("[id='carousel.indefinitely']").evaluate("card => card.open")
    page.emulate_media(media="print")
    assert numbers.bounding_box()["height"] > 20
    assert shown(page) == ["carousel.indefinitely"]
    assert page.locator("#filter output").is_visible()
    for gone in ("#filter :is(select, input, button)", ".self", ".checks", "#results-table", ".controls"):
        assert not any(element.is_visible() for element in page.locator(gone).all()), gone
    assert page.evaluate("document.documentElement.scrollWidth") <= 680
    assert page.locator("figure svg").first.bounding_box()["width"] <= 680
    printed = page.pdf(format="A4")
    page.emulate_media(media="screen")
    page.get_by_role("button", name="Reset").click()
    assert 10_000 < len(printed) < len(page.pdf(format="A4"))


@pytest.mark.parametrize("name", ["green", "red", "red in pytest-html", "evil", "running", "real", "beside"])
def test_a_phone_scrolls_down_and_never_sideways(visit: Visit, name: str) -> None:
    page = visit(name, viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
    assert page.evaluate("[innerWidth, document.documentElement.scrollWidth]") == [390, 390]
    for control in page.locator("#filter :is(select, input, button)").all():
        assert control.bounding_box()["height"] >= 24


@pytest.mark.parametrize("name", ["green in pytest-html", "red in pytest-html", "red", "running", "real", "beside"])
def test_axe_finds_nothing_serious(visit: Visit, name: str) -> None:
    page = visit(name, color_scheme="light")
    page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
    found = axe.Axe().run(page).response["violations"]
    page.emulate_media(color_scheme="dark")  # of what axe looks at, it changes the colours alone
    found += axe.Axe().run(page, options={"runOnly": ["color-contrast"]}).response["violations"]
    serious = [violation for violation in found if violation["impact"] in ("serious", "critical")]
    assert not [(each["id"], [node["target"] for node in each["nodes"][:3]]) for each in serious]


def test_pytest_htmls_own_table_works_below(visit: Visit) -> None:
    page = visit("red in pytest-html", "#?verdict=unexpected")
    rows = page.locator("#results-table tbody.results-table-row")
    assert rows.count() == 6
    assert page.locator(".run-count").bounding_box()["y"] > page.locator("#claims").bounding_box()["y"]
    page.locator("input[data-test-result=passed]").uncheck()
    assert rows.count() == 3
    assert said(page) == "3 of 5 claims"
    rows.first.locator(".col-claim a").click()
    page.wait_for_function("location.hash == '#carousel.half'")
    assert "carousel.half" in shown(page)
