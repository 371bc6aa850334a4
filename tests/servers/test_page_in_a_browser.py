"""The page in a real browser: readable on a phone, in the dark and without JavaScript, and for everybody.

Chromium comes from the system's packages (`apt-get install chromium`), axe from a package of its own.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.reports.folder import read_folder
from fencepost.reports.page.page import page
from tests.hostile import TEXTS
from tests.reports.samples import REPLAY, write, write_everything
from tests.reports.test_hostile_texts import poisoned

pytestmark = pytest.mark.server

sync_api = pytest.importorskip("playwright.sync_api", reason="nox -s pages installs it")
axe_of = pytest.importorskip("axe_playwright_python.sync_playwright", reason="nox -s pages installs it")

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
OUT = Path("out") / "pages"
"""Where screenshots are written."""
WAYS: dict[str, dict[str, Any]] = {
    "desk": {"viewport": {"width": 1280, "height": 900}},
    "phone": {"viewport": {"width": 390, "height": 844}},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if BROWSER is None:
        pytest.skip("no chromium; apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=BROWSER, args=QUIET)
        yield running
        running.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with every section."""
    folder = tmp_path_factory.mktemp("results")
    write_everything(folder)
    target = folder / "report.html"
    target.write_text(page(read_folder(folder)))
    return target


@pytest.mark.parametrize("way", WAYS)
def test_everybody_can_read_it(browser: Any, file: Path, way: str) -> None:
    """axe finds nothing: contrast, names, landmarks, keyboard, in each of the ways it is looked at."""
    context = browser.new_context(**WAYS[way], bypass_csp=True)  # else the page keeps axe out too
    tab = context.new_page()
    tab.goto(file.as_uri())
    found = axe_of.Axe().run(tab).response
    context.close()
    assert [(rule["id"], rule["nodes"][0]["html"]) for rule in found["violations"]] == []
    assert len(found["passes"]) > 20


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_fetched_refused_or_wider_than_the_screen(browser: Any, file: Path, way: str) -> None:
    """A picture that is wider scrolls by itself; a page that does so is no page for a phone."""
    context = browser.new_context(**WAYS[way])
    tab = context.new_page()
    messages: list[str] = []
    tab.on("console", lambda message: messages.append(message.text))
    tab.on("request", lambda request: messages.append(request.url) if request.url != file.as_uri() else None)
    tab.goto(file.as_uri())
    wide = tab.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    context.close()
    assert messages == []
    assert wide[0] <= wide[1]


def test_without_javascript_everything_is_there(browser: Any, file: Path) -> None:
    plain = browser.new_context(java_script_enabled=False)
    tab = plain.new_page()
    tab.goto(file.as_uri())
    assert tab.locator("svg.sequence").count() >= 2
    assert tab.locator("svg.chart").count() == 3
    assert tab.locator("button").count() == 0
    assert "ann and bob both lead" in tab.inner_text("main")
    assert tab.locator(".banner .word").inner_text() == "✗ violated"
    plain.close()


def test_without_javascript_links_step_through_a_run_and_folds_through_states(
    browser: Any, file: Path
) -> None:
    plain = browser.new_context(java_script_enabled=False)
    tab = plain.new_page()
    tab.goto(file.as_uri())
    found = tab.locator("[data-counterexample]").first
    found.get_by_role("link", name="Moment 2").click()
    opacities = found.locator("g.row").evaluate_all("all => all.map(row => getComputedStyle(row).opacity)")
    assert opacities[:2] == ["1", "1"]
    assert set(opacities[2:]) == {"0.12"}
    tab.locator("#expected summary h3").first.click()
    steps = tab.locator("ol.counterexample details")
    steps.nth(1).locator("summary").click()
    steps.nth(2).locator("summary").click()
    assert [one.get_attribute("open") is not None for one in steps.all()].count(True) == 1
    assert "(was working)" in steps.nth(2).inner_text()
    plain.close()


def test_on_a_phone_no_table_is_clipped(browser: Any, file: Path) -> None:
    context = browser.new_context(**WAYS["phone"])
    tab = context.new_page()
    tab.goto(file.as_uri())
    tables = "[...document.querySelectorAll('table')].filter(t => t.offsetParent)"
    assert tab.evaluate(f"{tables}.every(t => t.getBoundingClientRect().right <= innerWidth)")
    wide = tab.locator("article[open], .scroll:has(svg.sequence)").first
    assert wide.evaluate("e => e.scrollWidth > e.clientWidth && getComputedStyle(e).overflowX === 'auto'")
    context.close()


def test_results_can_be_filtered_and_folded(browser: Any, file: Path) -> None:
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(file.as_uri())
    tab.get_by_role("button", name="Fold all", exact=True).click()
    assert tab.locator("main details[open]:not([name])").count() == 0
    tab.get_by_role("button", name="Unfold all").click()
    assert tab.locator("main details:not([open]):not([name])").count() == 0
    tab.get_by_label("Show results with").fill("peterson")
    shown = tab.locator("main article:visible")
    assert 0 < shown.count() < tab.locator("main article").count()
    assert all("peterson" in text for text in shown.all_inner_texts())
    context.close()


def test_what_holds_can_be_hidden(browser: Any, file: Path) -> None:
    """A reviewer of a hundred results has three to look at."""
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(file.as_uri())
    rows = tab.locator("#verdicts tbody tr:visible")
    every = rows.count()
    tab.get_by_label("Hide what holds").check()
    assert 0 < rows.count() < every
    assert all("\u2717" in text for text in rows.all_inner_texts())
    assert tab.locator("#counterexamples article:visible").count() > 0
    assert tab.locator("#expected article:visible").count() == 0
    tab.get_by_label("Hide what holds").uncheck()
    assert rows.count() == every
    context.close()


def test_no_request_is_drawn_as_a_long_diagonal(browser: Any, file: Path) -> None:
    """Lines across the picture that cross others cannot be followed."""
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(file.as_uri())
    steep = """all => all.filter(l => Math.abs(l.y1.baseVal.value - l.y2.baseVal.value) > 10
        && Math.abs(l.x1.baseVal.value - l.x2.baseVal.value) > 10
        && !l.classList.contains('cross')).length"""
    assert tab.locator("svg.sequence line").evaluate_all(steep) == 0
    assert tab.locator("svg.sequence path.sent").count() > 0
    context.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_screenshot_of_each_way_is_written_for_people(browser: Any, file: Path, way: str) -> None:
    context = browser.new_context(**WAYS[way])
    tab = context.new_page()
    tab.goto(file.as_uri())
    OUT.mkdir(parents=True, exist_ok=True)
    assert tab.screenshot(path=OUT / f"{way}.png", full_page=True).startswith(b"\x89PNG")
    context.close()


def test_a_counterexample_can_be_stepped_through_by_keyboard(browser: Any, file: Path) -> None:
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(file.as_uri())
    counterexample = tab.locator("[data-counterexample]").first
    tab.get_by_role("button", name="First").first.focus()
    tab.keyboard.press("Enter")
    assert counterexample.locator("g.row:not(.hidden)").count() == 1
    tab.keyboard.press("Tab")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    assert counterexample.locator("g.row:not(.hidden)").count() == 2
    assert (
        tab.locator('.stepping .controls [role=status], .controls:has(button:text-is("First")) [role=status]')
        .first.inner_text()
        .startswith("moment 2 of")
    )
    context.close()


def test_a_long_table_can_be_filtered(browser: Any, tmp_path: Path) -> None:
    rejected = [
        {"run": f"r{n}", "seq": n, "event": "e", "reason": "fenced" if n % 10 else "lost"} for n in range(50)
    ]
    write(tmp_path, "replay.json", {**REPLAY, "violations": rejected})
    target = tmp_path / "report.html"
    target.write_text(page(read_folder(tmp_path)))
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(target.as_uri())
    tab.get_by_label("Show rows with").last.fill("lost")
    assert tab.locator("table:has-text('why') tbody tr:visible").count() == 5
    context.close()


def test_in_print_nothing_is_cut_off(browser: Any, file: Path, tmp_path: Path) -> None:
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(file.as_uri())
    tab.emulate_media(media="print")
    assert tab.evaluate(
        "[...document.querySelectorAll('.scroll')].every(e => getComputedStyle(e).overflowX === 'visible')"
    )
    assert not tab.locator("nav").is_visible()
    assert tab.pdf(path=tmp_path / "page.pdf").startswith(b"%PDF")
    context.close()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("samples")
    write_everything(folder)
    return {str(path.relative_to(folder)): json.loads(path.read_text()) for path in folder.rglob("*.json")}


def hostile_page(results: dict[str, Any], text: str, folder: Path) -> Path:
    """A page of every kind of result, with the text behind each of its texts."""
    for name, data in results.items():
        made = json.dumps({**poisoned(data, text), "provenance": None})
        (folder / name.replace("/", "-")).write_text(made)
    target = folder / "report.html"
    target.write_bytes(page(read_folder(folder), title=f"title{text}").encode())
    return target


COUNTS = """() => Object.fromEntries(['script', 'img', 'iframe', 'object', 'embed', 'form', 'base', 'meta',
    'link', 'style', 'a[href^="http"]', 'a[href^="javascript"]']
    .map(one => [one, document.querySelectorAll(one).length]))"""
HANDLERS = """() => [...document.querySelectorAll('*')].flatMap(one => [...one.attributes])
    .map(one => one.name).filter(name => name.startsWith('on'))"""


class Watched:
    """A tab that shows one page, without the page's content policy: the escaping alone is tested."""

    def __init__(self, browser: Any, file: Path) -> None:
        context = browser.new_context(bypass_csp=True)
        tab = context.new_page()
        self.dialogs: list[str] = []
        requests: list[str] = []
        tab.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(file.as_uri())
        tab.evaluate("() => document.querySelectorAll('details').forEach(one => one.open = true)")
        self.elements = tab.evaluate(COUNTS)
        self.handlers = tab.evaluate(HANDLERS)
        context.close()
        self.requests = [url for url in requests if url != file.as_uri()]


@pytest.fixture(scope="module")
def clean(browser: Any, results: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Watched:
    return Watched(browser, hostile_page(results, "", tmp_path_factory.mktemp("clean")))


@pytest.mark.parametrize("name", TEXTS)
def test_no_text_acts_in_the_page(
    browser: Any, results: dict[str, Any], clean: Watched, name: str, tmp_path: Path
) -> None:
    seen = Watched(browser, hostile_page(results, TEXTS[name], tmp_path))
    assert seen.elements == clean.elements
    assert (seen.handlers, seen.dialogs, seen.requests) == ([], [], [])


def test_a_text_that_acts_is_noticed(
    browser: Any, results: dict[str, Any], clean: Watched, tmp_path: Path
) -> None:
    file = hostile_page(results, "", tmp_path)
    file.write_text(file.read_text().replace("</h1>", TEXTS["element"] + "</h1>", 1))
    seen = Watched(browser, file)
    assert seen.elements != clean.elements
    assert seen.handlers == ["onerror"]
    assert seen.dialogs
    assert seen.requests
