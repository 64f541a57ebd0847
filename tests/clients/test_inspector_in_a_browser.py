"""The inspector in a real Chromium: every view under traffic, names that would be markup, keys, and no request elsewhere.

`make inspector` also takes pictures of every view, 1,440 and 390 px wide, each light and dark.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from unit.proxy.admin.test_server import STATUS
from unit.proxy.admin.test_verdicts import ROWS

from support.process import stack
from support.process.browser import Page, chromium, page_of, program
from support.process.stack import exchange
from support.qdrant.embedded import start_embedded_process
from support.selection.inspections import CHOSEN, inspector, seen
from support.selection.kept_pools import EDITED
from vecsieve.config.problems import Problem, SettingsError
from vecsieve.proxy.admin.recent import Recent
from vecsieve.proxy.admin.server import AdminServer, Pages
from vecsieve.proxy.admin.status import FailedReload
from vecsieve.proxy.demo.backends import QdrantCollection
from vecsieve.proxy.demo.corpus import load
from vecsieve.proxy.demo.database import NAME
from vecsieve.proxy.search.context.canary import BOUNDS, in_words
from vecsieve.proxy.telemetry.exposition import Scrape
from vecsieve.proxy.telemetry.labels import CanaryState
from vecsieve.proxy.telemetry.verdict import verdict_of

pytestmark = pytest.mark.skipif(
    program() is None, reason="no Chromium is installed: `make inspector` installs Debian's and runs this"
)

# Where pictures go, when they are wanted.
PICTURES = Path(os.environ["PICTURES"]) if "PICTURES" in os.environ else None
HOSTILE = "<img src=x onerror=\"document.title='run'\"><b>bold"
TEXT = "<script>document.title='run'</script> the manual, page"
VIEWS = {
    "live": "#/live",
    "search": "#/search/{number}",
    "pair": "#/pair/{number}/{rank}",
    "doubtful": "#/doubtful",
    "collections": "#/collections",
    "cost": "#/cost",
    "settings": f"#/settings/{NAME}",
    "whatif": "#/whatif",
}
QUESTIONS = 42
# Wide and dark, and narrow and light, show nothing that the other two do not: they are for the pictures.
WIDTHS = (
    (1440, False),
    (390, True),
    pytest.param(1440, True, marks=pytest.mark.deep),
    pytest.param(390, False, marks=pytest.mark.deep),
)


@dataclass(frozen=True, slots=True)
class World:
    """``admin``: the address of the inspector; ``number``, ``rank``: a search, and a candidate that left as an edited copy; ``why``: in words."""

    proxy: str
    admin: str
    pairs: Path
    number: int
    rank: int
    why: str


def search(proxy: str, question: int) -> None:
    with closing(QdrantCollection(proxy)) as collection:
        collection.ask(load().question_vectors[question], limit=8)


def edited_pair(proxy: str, admin: str) -> dict[str, Any]:
    """A removed result with its reason in words. Pools are a sample, taken beside the loop: on a busy machine they come late."""
    for _ in range(60):
        for pair in json.loads(exchange(admin, "GET", "/api/doubtful").body)["pairs"]:
            content = json.loads(exchange(admin, "GET", f"/api/searches/{pair['search']}").body)
            (why,) = [
                candidate["copy"]["why"] for candidate in content["left_out"] if candidate["rank"] == pair["rank"]
            ]
            if "'" in why:
                return {**pair, "why": why}
        time.sleep(1.0)
        search(proxy, 0)
    raise AssertionError("no pool with an edited copy was kept in a minute")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    pairs = tmp_path_factory.mktemp("judged") / "pairs.jsonl"
    settings = {"VECSIEVE_EXPLAIN_TEXTS": "true", "VECSIEVE_EXPLAIN_JUDGEMENTS": str(pairs)}
    with start_embedded_process() as engine, stack.serve(engine, environment=settings) as (proxy, admin):
        corpus = load()
        with closing(QdrantCollection(engine)) as direct:
            direct.load(corpus, progress=lambda _: None)
        # Two long texts near the first question, of which one is an edited copy of the other.
        first = load().question_vectors[0]
        points = [
            {"id": 10**6 + row, "vector": (first + row * 0.005).tolist(), "payload": {"text": text}}
            for row, text in enumerate(EDITED)
        ]
        body = json.dumps({"points": points}).encode()
        assert exchange(engine, "PUT", f"/collections/{NAME}/points?wait=true", body).status == 200
        with closing(QdrantCollection(proxy)) as through:
            for question in range(QUESTIONS):
                through.ask(corpus.question_vectors[question], limit=8)
        pair = edited_pair(proxy, admin)
        yield World(proxy, admin, pairs, pair["search"], pair["rank"], pair["why"])


@pytest.fixture(scope="module")
def browser() -> Iterator[int]:
    with chromium() as port:
        yield port


@pytest.fixture
async def page(browser: int) -> AsyncIterator[Page]:
    async with page_of(browser) as opened:
        yield opened
        elsewhere = [url for url in opened.requests if urlsplit(url).hostname not in {"127.0.0.1", None}]
        assert elsewhere == []
        assert opened.faults == []


async def text_of(page: Page, world: World, view: str) -> str:
    """What a view says, once it has its data."""
    target = VIEWS[view].format(number=world.number, rank=world.rank)
    await page.open("about:blank")
    await page.open(f"{world.admin}/{target}")
    await page.until(
        "document.querySelector('main h1') && !document.querySelector('main').innerText.includes('Reading…')"
    )
    return await page.text()


WORDS = {
    "live": ("Searches", "answers changed", "results were repeats that left", NAME, "of 8"),
    "search": ("Before and after", "left the page", "what the client got", "left", "stands for"),
    "pair": (
        "Was this drop right?",
        "Kept",
        "Removed",
        "Why it left",
        "Of its words, on the page",
        "Right, a repeat",
    ),
    "doubtful": ("Doubtful drops", "Why it left", "Wrong, not the same", "pairs.jsonl"),
    "collections": ("Collections", NAME, "%", "default"),
    "cost": ("Cost", "added, median", "fetched for pools", "deduplicated", "the same text", "No failure."),
    "whatif": (
        "What if",
        "recent pools",
        "would differ",
        "Cut of vectors",
        NAME,
        "results removed",
        "in other words",
        "All presets",
        "classical",
    ),
    "settings": (
        "Settings",
        "No rule matches",
        "policy.mode",
        "upstream.url",
        "explain.texts",
        "differ from the defaults",
    ),
}


@pytest.mark.parametrize(("width", "dark"), WIDTHS)
async def test_every_view_says_what_it_is_for_and_fits(world: World, page: Page, width: int, dark: bool) -> None:
    await page.seen_as(width=width, dark=dark)
    for view, words in WORDS.items():
        text = await text_of(page, world, view)
        folded = " ".join(text.split())
        assert [word for word in words if word not in folded] == [], (view, text)
        if view == "whatif":
            await page.until("!document.querySelector('main').innerText.includes('…')")
        if view == "collections":
            await page.until("document.querySelector('.chart canvas').width > 200")
        wide = await page.run("document.documentElement.scrollWidth")
        assert wide <= width, f"{view} is {wide} px wide"
        if PICTURES is not None:
            await asyncio.sleep(0.4)  # bars grow
            await page.picture(PICTURES / f"{view}-{width}-{'dark' if dark else 'light'}.png")


@pytest.mark.parametrize("view", ["search", "pair"])
async def test_a_drop_is_shown_with_its_reason_in_words(world: World, page: Page, view: str) -> None:
    text = await text_of(page, world, view)
    assert world.why in text
    assert world.why.endswith(": 'that' left out")


async def test_a_result_that_stays_beside_one_like_it_says_why(world: World, page: Page) -> None:
    for number in range(QUESTIONS):  # the searches of which a pool was kept
        await text_of(
            page,
            replace(
                world,
                number=json.loads(exchange(world.admin, "GET", "/api/searches").body)["searches"][number]["number"],
            ),
            "search",
        )
        if "stays: " in await page.text():
            return
    raise AssertionError("no result says why it stays")


async def test_names_ids_and_texts_of_the_database_are_text_and_nothing_of_them_runs(page: Page) -> None:
    recent = Recent(5, now=time.time)
    ids = tuple(json.dumps(f"{HOSTILE}{row}").encode() for row in range(5))
    recent.add(seen(CHOSEN, *ids, collection=HOSTILE, texts=(TEXT,) * 5))
    number = recent.newest()[0].number
    server = AdminServer(
        Pages(
            is_ready=lambda: True,
            metrics=lambda _: Scrape(b""),
            status=lambda: replace(STATUS, backend=HOSTILE),
            inspector=inspector(
                recent,
                measured=[row._replace(collection=HOSTILE) for row in ROWS[:20]] + ROWS,
                rules=({"collection": "*onerror*", "preset": "exact"},),
            ),
        )
    )
    port = await server.start(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{port}"
    name = quote(HOSTILE, safe="")
    targets = ("live", f"search/{number}", f"pair/{number}/1", "doubtful", "collections", f"settings/{name}")
    for target in targets:
        await page.open("about:blank")
        await page.open(f"{base}/#/{target}")
        await page.until(f"document.body.innerText.includes({json.dumps(HOSTILE)})")
        await page.until(
            "document.querySelector('main h1') && !document.querySelector('main').innerText.includes('Reading…')"
        )
        if target.startswith(("search", "pair", "doubtful")):
            await page.until(f"document.body.innerText.includes({json.dumps(TEXT)})")
        assert await page.run("document.title") != "run"
        assert await page.run("document.querySelectorAll('img[src=x], main b b, body script').length") == 0
    await page.open("about:blank")  # a page that asks on after its server has ended would log that
    await server.close()


@pytest.mark.parametrize("state", CanaryState)
async def test_a_canary_is_shown_and_one_that_was_stopped_in_the_colour_of_a_fault(
    page: Page, state: CanaryState
) -> None:
    words, since = in_words(state), "1970-01-01T00:00:00.000Z" if state in BOUNDS else None
    server = AdminServer(
        Pages(
            is_ready=lambda: True,
            metrics=lambda _: Scrape(b""),
            status=lambda: replace(STATUS, canary=words, canary_stopped_since=since),
            inspector=inspector(Recent(5, now=time.time)),
        )
    )
    port = await server.start(("127.0.0.1", 0))
    await page.open(f"http://127.0.0.1:{port}/")
    await page.until("document.querySelector('.status .facts')")
    text = await page.run("document.querySelector('.status .facts').innerText")
    visible = re.sub(" since 01/01/1970, [0-9:]{8}(?=: )", "", text)
    assert (visible != text) is (state in BOUNDS)
    assert (f", canary {words}" in visible) is (state is not CanaryState.NONE)
    is_bad = await page.run("document.querySelector('.status .state').classList.contains('bad')")
    assert is_bad is (state in BOUNDS)
    await page.open("about:blank")  # as above
    await server.close()


@pytest.mark.parametrize("width", [1440, 390])
async def test_a_failed_reload_is_on_top_with_all_its_problems_as_text(page: Page, width: int) -> None:
    problems = ('/etc/vecsieve.yaml:1: mode: wanted on, shadow, off or none; saw "shadwo"', HOSTILE + "x" * 200)
    error = SettingsError([Problem("", "", "", words=words) for words in problems])
    failed = FailedReload.of(error, None, at=time.time())
    pages = Pages(
        is_ready=lambda: True,
        metrics=lambda _: Scrape(b""),
        status=lambda: replace(STATUS, needs_restart=("limits", "tls")),
        inspector=inspector(Recent(5, now=time.time), failed_reload=failed),
    )
    server = AdminServer(pages)
    port = await server.start(("127.0.0.1", 0))
    await page.seen_as(width=width, dark=width < 400)
    await page.open(f"http://127.0.0.1:{port}/")
    await page.until("document.querySelectorAll('.alarm li').length === 2")
    alarm = await page.run("[...document.querySelectorAll('.alarm')].map(e => e.innerText).join(' ')")
    for words in ("need a restart: limits, tls.", "The old ones stay in force.", *problems):
        assert words in alarm
    assert await page.run("document.documentElement.scrollWidth <= innerWidth")
    if PICTURES is not None:
        await page.picture(PICTURES / f"failed-reload-{width}.png")
    await page.open("about:blank")  # a page that asks on after its server has ended would log that
    await server.close()


@pytest.mark.parametrize("width", [1440, 390])
async def test_the_verdict_of_shadow_is_on_top_in_the_words_of_the_status(page: Page, width: int) -> None:
    pages = Pages(
        is_ready=lambda: True,
        metrics=lambda _: Scrape(b""),
        status=lambda: replace(STATUS, mode="shadow"),
        inspector=inspector(Recent(5, now=time.time), measured=ROWS),
    )
    server = AdminServer(pages)
    port = await server.start(("127.0.0.1", 0))
    await page.seen_as(width=width, dark=width < 400)
    await page.open(f"http://127.0.0.1:{port}/")
    verdict = verdict_of(ROWS)
    await page.until(f"document.querySelector('main .verdict')?.innerText.includes({json.dumps(verdict.sentence)})")
    await page.run("document.querySelector('main .verdict summary').click()")
    text = await page.text()
    for words in (*(words for _, words in verdict.details), "docs", "faq"):
        assert words in text
    assert await page.run("document.documentElement.scrollWidth <= innerWidth")
    if PICTURES is not None:
        await page.picture(PICTURES / f"verdict-{width}.png")
    await page.open("about:blank")  # a page that asks on after its server has ended would log that
    await server.close()


async def test_new_searches_come_by_themselves_until_the_page_is_paused(world: World, page: Page) -> None:
    await text_of(page, world, "live")
    count = "document.querySelectorAll('main tbody tr').length"
    await page.until(f"{count} >= {QUESTIONS}")
    before = await page.run(count)
    search(world.proxy, 20)
    await page.until(f"{count} === {before + 1}")
    await page.run("document.querySelector('main button').click()")
    search(world.proxy, 20)
    await asyncio.sleep(2.5)
    assert await page.run(count) == before + 1
    await page.run("document.querySelector('main button').click()")
    await page.until(f"{count} === {before + 2}")


async def test_a_judgement_by_key_is_kept_in_the_file(world: World, page: Page) -> None:
    await text_of(page, world, "doubtful")
    await page.until("document.querySelectorAll('[data-entry]').length > 0")
    await page.press("j")
    await page.press("w")
    await page.until("document.querySelector('.wrong[aria-pressed=true]')")
    line = json.loads(world.pairs.read_text().splitlines()[0])
    assert set(line) == {"collection", "a", "b", "copy"}
    assert line["copy"] is False
    await text_of(page, world, "doubtful")
    await page.until("document.querySelector('.wrong[aria-pressed=true]')")


async def test_what_if_answers_each_change_of_the_form(world: World, page: Page) -> None:
    await text_of(page, world, "whatif")
    left_out = "[...document.querySelectorAll('.tile')].find(e => e.innerText.includes('results removed')).innerText"
    # Pools are a sample: on a busy machine those that come while others are compared are left out.
    await page.until(f"Number([...document.querySelectorAll('.tile strong')][0].innerText) >= {QUESTIONS // 4}")
    before = await page.run(left_out)
    await chosen(page, "Preset", "vectors")
    await chosen(page, "Cut of vectors", "threshold")
    await page.until("document.querySelector('input[type=range]')")
    await page.run(
        "(() => { const e = document.querySelector('input[type=range]'); e.value = 0.5;"
        " e.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    await page.until(f"{left_out} !== {json.dumps(before)}")
    await page.until("document.querySelector('main [data-entry] a')")
    await chosen(page, "Linkage", "complete")
    await chosen(page, "Short pages", "allow")
    await page.run("document.querySelector('input[type=checkbox]').click()")
    await page.until(
        "performance.getEntriesByType('resource').some(e => e.name.includes("
        "'preset=vectors&threshold=0.5&linkage=complete&short=allow&mmr_lambda=0.7'))"
    )


async def chosen(page: Page, label: str, value: str) -> None:
    """Choose a value in the form."""
    await page.run(
        f"(() => {{ const e = document.querySelector('select[aria-label=\"{label}\"]'); e.value = '{value}';"
        " e.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )


async def test_a_preset_of_the_table_is_taken_into_the_form(world: World, page: Page) -> None:
    await text_of(page, world, "whatif")
    await page.until("document.querySelectorAll('main [data-entry] button').length === 5")
    await page.run("[...document.querySelectorAll('main button')].find(e => e.innerText === 'classical').click()")
    await page.until("[...document.querySelectorAll('select')].some(e => e.value === 'classical')")
    # Pools of searches that texts decided have no vectors: such a policy leaves their pages as they are.
    changed = "Number(document.querySelector('.tile:nth-child(2) strong').innerText.replace(/[^0-9]/g, ''))"
    await page.until(f"{changed} > 0 && {changed} <= 100")


async def test_only_what_is_not_as_by_default_can_be_shown(world: World, page: Page) -> None:
    await text_of(page, world, "settings")
    await page.run("document.querySelector('input[type=checkbox]').click()")
    rows = "[...document.querySelectorAll('table.settings')].at(-1).innerText"
    await page.until(f"{rows}.includes('explain.texts') && !{rows}.includes('policy.fetch.cap')")


async def test_keys_lead_through_the_views_and_into_a_search(world: World, page: Page) -> None:
    await text_of(page, world, "live")
    for key, title in (
        ("2", "Doubtful drops"),
        ("3", "Collections"),
        ("4", "Cost"),
        ("5", "Settings"),
        ("6", "What if"),
        ("1", "Searches"),
    ):
        await page.press(key)
        await page.until(f"document.querySelector('main h1')?.innerText === '{title}'")
    await page.until("document.querySelector('[data-entry] a')")
    await page.press("j")
    await page.press("j")
    assert (
        await page.run(
            "[...document.querySelectorAll('[data-entry]')].findIndex(e => e.contains(document.activeElement))"
        )
        == 1
    )
    await page.run("document.activeElement.click()")
    await page.until("document.querySelector('main h1')?.innerText === 'Before and after'")


async def test_the_list_has_words_and_is_filtered_by_them(world: World, page: Page) -> None:
    await text_of(page, world, "live")
    rows = "[...document.querySelectorAll('main tbody tr')]"
    await page.until(f"{rows}.some(e => e.querySelector('.words')?.innerText.length > 20)")
    words = await page.run(f"{rows}.map(e => e.querySelector('.words')?.innerText).find(e => e)")
    count = await page.run(f"{rows}.length")
    await page.run(
        "(() => { const e = document.querySelector('.headtools input:not([type])');"
        f" e.value = {json.dumps(str(words)[:20].upper())}; e.dispatchEvent(new Event('input', {{bubbles: true}})); }})()"
    )
    await page.until(f"{rows}.length > 0 && {rows}.length < {count}")


async def test_what_was_tried_can_be_copied_as_settings(world: World, page: Page) -> None:
    await text_of(page, world, "whatif")
    await chosen(page, "Preset", "exact")
    await page.until("document.querySelector('main pre')?.textContent.includes('preset: \"exact\"')")


async def test_an_unknown_view_says_so(world: World, page: Page) -> None:
    await page.open(f"{world.admin}/#/nonsense")
    await page.until("document.body.innerText.includes('No such view')")


async def test_what_is_no_longer_kept_is_said(world: World, page: Page) -> None:
    await page.open(f"{world.admin}/#/search/1")
    await page.until("document.body.innerText.includes('no longer kept')")
    page.faults.clear()  # the browser logs the 404


async def test_without_searches_the_page_says_what_to_do(world: World, page: Page) -> None:
    with stack.serve(world.proxy, "--mode", "on") as (_, admin):
        await page.open(f"{admin}/")
        await page.until("document.body.innerText.includes('No search yet')")
        await page.open("about:blank")  # a page that asks on after its server has ended would log that


async def test_a_token_is_asked_for_and_opens_the_page(tmp_path: Path, world: World, page: Page) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef")
    with stack.serve(world.proxy, environment={"VECSIEVE_EXPLAIN_TOKEN_FILE": str(token)}) as (_, admin):
        await page.open(f"{admin}/")
        await page.until("document.querySelector('input[name=token]')")
        await page.run("document.querySelector('input[name=token]').value = '0123456789abcdef'")
        await page.run("document.querySelector('form button').click()")
        await page.until("document.body.innerText.includes('No search yet')")
        await page.open("about:blank")  # a page that asks on after its server has ended would log that
        page.faults.clear()  # the browser logs the 401
