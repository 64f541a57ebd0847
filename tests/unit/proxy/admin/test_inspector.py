"""The inspector's JSON over a real socket: its shapes, who may read it, what it never shows, and judgements of pairs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.proxy.admin.test_server import STATUS, Raw, send

from support.selection.inspections import CHOSEN, inspector, no_pools, seen
from support.selection.kept_pools import EDITED, kept, pool_of
from support.selection.selections import selection
from vecsieve.proxy.admin.inspector import InspectorRequest, RefusedError, verdict_of
from vecsieve.proxy.admin.pools import Sampled
from vecsieve.proxy.admin.recent import Recent
from vecsieve.proxy.admin.server import CONTENT_SECURITY_POLICY, AdminServer, Pages
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Fate, Link
from vecsieve.proxy.telemetry.exposition import Scrape

HOSTILE = '<img src=x onerror="document.title=1">"\'&\u2028'
CLOCK = 1_000_000.0
KEYS = st.sampled_from(["pair", "search", "rank", "right", "x"])
JSON = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=3)
FIRST = int(CLOCK * 1000) * 256  # the number of the first search at that time


@dataclass(slots=True)
class InspectorClient:
    """An inspector to be asked."""

    port: int
    recent: Recent

    async def raw(
        self, target: str, method: str = "GET", body: bytes = b"", fields: Mapping[str, str] | None = None
    ) -> Raw:
        given = {"Host": f"127.0.0.1:{self.port}", **(fields or {})}
        if body:
            given = {"Content-Type": "application/json", "Content-Length": str(len(body)), **given}
        head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        return await send(self.port, f"{method} {target} HTTP/1.1\r\n{head}\r\n{body.decode('latin-1')}")

    async def get(self, target: str) -> Any:
        answer = await self.raw(target)
        assert (answer.status, answer.field("Content-Type")) == (200, "application/json"), answer.body
        return json.loads(answer.body)

    async def judge(self, search: int, rank: int, right: object = True, **fields: str) -> Raw:
        body = json.dumps({"pair": {"search": search, "rank": rank}, "right": right}).encode()
        return await self.raw(
            "/api/judgements", "POST", body, {name.replace("_", "-"): field for name, field in fields.items()}
        )


@asynccontextmanager
async def inspecting(**settings: Any) -> AsyncIterator[InspectorClient]:
    recent = Recent(5, now=lambda: CLOCK)
    pages = Pages(
        is_ready=lambda: True,
        metrics=lambda _: Scrape(b""),
        status=lambda: STATUS,
        inspector=inspector(recent, **settings),
    )
    server = AdminServer(pages)
    port = await server.start(("127.0.0.1", 0))
    try:
        yield InspectorClient(port, recent)
    finally:
        await server.close()


async def test_searches_come_newest_first_and_only_those_that_are_new() -> None:
    async with inspecting() as api:
        api.recent.add(seen(collection="one"))
        api.recent.add(seen(collection="two"))
        page = await api.get("/api/searches")
        assert [search["collection"] for search in page["searches"]] == ["two", "one"]
        assert page["searches"][1] == {
            "number": FIRST, "at": CLOCK, "collection": "one", "operation": "query", "outcome": "dedup", "added_ms": 1.5,
            "candidates": 5, "clusters": 3, "results": 3, "repeats": 1, "collapsed": 2, "changed": True,
            "proven": 0, "judged": 1, "saved_tokens": 0, "words": None,
        }  # fmt: skip
        assert (page["keep"], page["texts"]) == (5, False)
        assert (await api.get(f"/api/searches?since={page['next']}"))["searches"] == []
        api.recent.add(seen(collection="three"))
        fresh = await api.get(f"/api/searches?since={page['next']}")
        assert [search["collection"] for search in fresh["searches"]] == ["three"]


async def test_a_search_says_of_every_candidate_what_became_of_it() -> None:
    async with inspecting(rules=({"collection": "other"}, {"collection": "do*"})) as api:
        api.recent.add(seen())
        search = await api.get(f"/api/searches/{FIRST}")
        assert (search["number"], search["collection"], search["rule_number"]) == (FIRST, "docs", 1)
        assert [(result["id"], result["rank"], result["score"]) for result in search["kept"]] == [
            (0, 0, 1.0),
            (2, 2, 0.5),
            (4, 4, 0.0),
        ]
        first = search["left_out"][0]
        assert first["copy"] == {
            "of": 0, "rank": 0, "also": None, "reason": "vectors", "similarity": 0.91, "cut": None,
            "why": "a vector near that of 1 (.91)",
        }  # fmt: skip
        assert first["text"] is None


async def test_an_identifier_that_a_browser_would_round_is_text_until_it_left_the_ring() -> None:
    async with inspecting() as api:
        api.recent.add(seen(CHOSEN, b"18446744073709551615", b'"b"', b"9007199254740992", b"4", b"5"))
        search = await api.get(f"/api/searches/{FIRST}")
        assert [result["id"] for result in search["kept"]] == ["18446744073709551615", 9007199254740992, 5]
        assert search["left_out"][0]["copy"]["of"] == "18446744073709551615"
        explained = await api.get("/explain")
        assert explained["records"][0]["kept"][0]["id"] == 18446744073709551615, "the database's own"
        for _ in range(5):
            api.recent.add(seen())
        assert len((await api.get("/api/searches"))["searches"]) == 5
        assert (await api.raw(f"/api/searches/{FIRST}")).status == 404, "it left the ring"


async def test_collections_are_counted_by_bucket() -> None:
    async with inspecting() as api:
        for _ in range(2):
            api.recent.add(seen(collection=HOSTILE))
        page = await api.get("/api/collections")
        (row,) = page["collections"]
        assert (row["collection"], row["rule"], row["searches"], row["repeats"], row["results"]) == (
            HOSTILE,
            None,
            2,
            2,
            6,
        )
        assert row["buckets"] == [[int(CLOCK), 2, 2, 6, 2, 10, 4]]
        assert page["members"] == ["searches", "changed", "results", "repeats", "candidates", "collapsed"]


async def test_cost_is_read_off_the_metrics() -> None:
    async with inspecting() as api:
        cost = await api.get("/api/cost")
        assert cost["added_ms"] == {"count": 0, "mean": None, "p50": None, "p95": None, "p99": None}
        assert cost["bytes"] == {"from_database": 0, "to_clients": 0, "widened": 0}
        assert cost["bypassed"] == {}


async def test_settings_have_no_secret_and_name_the_rule_of_a_collection(tmp_path: Path) -> None:
    token = tmp_path / "CANARY-token"
    token.write_text("s3cr3t-s3cr3t-s3cr3t")
    settings = {
        "explain": {"token_file": str(token)},
        "tls": {"certificate": "c.pem", "key": "CANARY.pem"},
        "rules": ({"collection": "docs", "policy": {"mode": "shadow"}},),
    }
    async with inspecting(**settings) as api:
        answer = await api.raw("/api/settings?collection=docs", fields={"Authorization": "Bearer s3cr3t-s3cr3t-s3cr3t"})
        assert b"CANARY" not in answer.body
        assert b"s3cr3t" not in answer.body
        page = json.loads(answer.body)
        assert (page["rule"], page["policy"]["mode"]) == (0, "shadow")
        assert page["settings"]["tls"]["key"] == "***"
    async with inspecting() as api:
        page = await api.get("/api/settings?collection=" + "%3Cb%3E")
        assert (page["rule"], page["policy"]["mode"], page["keep"]) == (None, "on", 50)
        assert "policy" not in await api.get("/api/settings")


async def test_doubtful_are_the_drops_without_a_proof_each_pair_once() -> None:
    several = selection(
        keep=[0],
        representative=[0, 0, 0, 0],
        fates=[Fate.KEPT, Fate.COLLAPSED, Fate.COLLAPSED, Fate.COLLAPSED],
        links=[0, Link.DISTANCE, Link.EDITED, Link.EQUAL],
        similarities=[np.nan, 0.97, 0.93, 1.0],
        cuts=[np.nan, 0.9, np.nan, np.nan],
    )
    async with inspecting() as api:
        api.recent.add(seen(several, top_k=6))
        api.recent.add(seen(several, top_k=6))
        api.recent.add(seen(several, top_k=6, collection="other"))
        pairs = (await api.get("/api/doubtful"))["pairs"]
        listed = [(pair["collection"], pair["a"]["id"], pair["b"]["id"], pair["similarity"]) for pair in pairs]
        assert sorted(listed) == [
            ("docs", 0, 1, 0.97),
            ("docs", 0, 2, 0.93),
            ("other", 0, 1, 0.97),
            ("other", 0, 2, 0.93),
        ]
        assert [(pair["reason"], pair["why"]) for pair in pairs[1:3]] == [
            ("edited", "an edited copy of 1"),
            ("vectors", "a vector near that of 1 (.97, cut .90)"),
        ], "the largest difference first"
        for _ in range(5):
            api.recent.add(seen(selection([0], [0], [Fate.KEPT])))
        assert len((await api.get("/api/doubtful"))["pairs"]) == 4, "kept beyond their searches"


async def test_a_drop_that_no_client_could_have_seen_is_not_asked_about() -> None:
    """`2044` against `1357` at rank 40 was. A page of 2 that reaches rank 3 would have had ranks 1 to 3."""
    deep = selection(
        keep=[0, 3],
        representative=[0, 0, 0, 3, 3],
        fates=[Fate.KEPT, Fate.COLLAPSED, Fate.COLLAPSED, Fate.KEPT, Fate.COLLAPSED],
        links=[0, Link.EQUAL, Link.DISTANCE, 0, Link.DISTANCE],
        similarities=[np.nan, 1.0, 0.93, np.nan, 0.9],
    )
    async with inspecting() as api:
        api.recent.add(seen(deep))
        assert [pair["rank"] for pair in (await api.get("/api/doubtful"))["pairs"]] == [2]


async def test_a_judgement_is_a_line_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    async with inspecting(explain={"judgements": str(file)}) as api:
        api.recent.add(seen(CHOSEN, b'"a"', b'"b"', b"18446744073709551615", b"4", b"5"))
        assert (await api.judge(FIRST, 1)).status == 200
        assert (await api.judge(FIRST, 1)).status == 200, "the same verdict twice is one line"
        assert (await api.judge(FIRST, 3, False)).status == 200
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        assert lines == [
            {"collection": "docs", "a": "a", "b": "b", "copy": True},
            {"collection": "docs", "a": 18446744073709551615, "b": 4, "copy": False},
        ]
        assert file.stat().st_mode & 0o777 == 0o600
        page = await api.get("/api/doubtful")
        assert (page["judgements"], page["pairs"][0]["judged"]) == (str(file), True)


async def test_what_cannot_be_judged_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    """A pair that is not kept; a body of another shape, without a length or too large; and without a file that is named."""
    file = tmp_path / "pairs.jsonl"
    async with inspecting(explain={"judgements": str(file)}) as api:
        api.recent.add(seen())
        for search, rank in ((FIRST, 0), (FIRST, 2), (FIRST, 99), (FIRST + 256, 1)):
            assert (await api.judge(search, rank)).status == 404
        assert (await api.raw("/api/judgements", "POST", b"[]")).status == 400
        assert (await api.raw("/api/judgements", "POST", b" " * 5000)).status == 413
        chunks = "Transfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n0\r\n\r\n"
        answer = await send(api.port, f"POST /api/judgements HTTP/1.1\r\nHost: localhost\r\n{chunks}")
        assert answer.status == 413
        assert not file.exists()
    async with inspecting() as api:
        api.recent.add(seen())
        answer = await api.judge(FIRST, 1)
        assert answer.status == 404
        assert b"explain.judgements" in answer.body
        assert (await api.get("/api/doubtful"))["judgements"] is None


async def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    async with inspecting(explain={"judgements": str(tmp_path / "absent" / "pairs.jsonl")}) as api:
        api.recent.add(seen())
        answer = await api.judge(FIRST, 1)
        assert (answer.status, json.loads(answer.body)) == (
            500,
            {"error": "the file cannot be written: no such file or directory"},
        )


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
    ],
)
async def test_another_site_cannot_judge(tmp_path: Path, fields: dict[str, str], status: int) -> None:
    file = tmp_path / "pairs.jsonl"
    async with inspecting(explain={"judgements": str(file)}) as api:
        api.recent.add(seen())
        assert (await api.judge(FIRST, 1, **fields)).status == status
        assert not file.exists()
        headers = {"Origin": f"http://127.0.0.1:{api.port}", "Sec_Fetch_Site": "same-origin"}
        assert (await api.judge(FIRST, 1, **headers)).status == 200


@pytest.mark.parametrize("target", ["/api/searches", "/api/searches/1", "/api/doubtful", "/api/settings", "/explain"])
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[::1", "10.0.0.1:9464"])
async def test_on_loopback_a_request_for_another_host_reads_nothing(target: str, host: str) -> None:
    """A name of another site may be made to lead here: its pages are refused by the name that they use."""
    async with inspecting() as api:
        answer = await api.raw(target, fields={"Host": host})
        assert answer.status == 403
        assert b"evil" not in answer.body


async def test_elsewhere_any_host_may_read_as_the_port_is_the_clusters_to_close() -> None:
    async with inspecting(admin="0.0.0.0:9464") as api:
        assert (await api.raw("/api/searches", fields={"Host": "vecsieve.pods"})).status == 200


@pytest.mark.parametrize("target", ["/api/searches", "/api/cost", "/explain", "/api/nothing"])
async def test_where_a_token_is_set_nothing_is_read_without_it(tmp_path: Path, target: str) -> None:
    file = tmp_path / "token"
    file.write_text("0123456789abcdef\n")
    async with inspecting(admin="0.0.0.0:9464", explain={"token_file": str(file)}) as api:
        for wrong in ({}, {"Authorization": "Bearer 0123456789abcdeg"}, {"Authorization": "0123456789abcdef"}):
            answer = await api.raw(target, fields=wrong)
            assert (answer.status, answer.field("WWW-Authenticate")) == (401, "Bearer")
            assert b"0123456789" not in answer.body
        right = await api.raw(target, fields={"Authorization": "Bearer 0123456789abcdef"})
        assert right.status == (404 if "nothing" in target else 200)
        assert (await api.raw("/")).status == 200, "the page itself holds nothing"


@given(
    st.binary(max_size=200)
    | st.recursive(JSON, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner)).map(orjson.dumps)
)
def test_any_bytes_are_a_judgement_or_refused(body: bytes) -> None:
    """Invariant: a body is read as two whole numbers and a verdict, or refused with fixed words; nothing else happens."""
    try:
        number, rank, is_right = verdict_of(body)
    except RefusedError as refused:
        assert refused.status == 400  # noqa: PT017 - either outcome is right
    else:
        assert (type(number), type(rank), type(is_right)) == (int, int, bool)


@given(st.text(max_size=60), st.text(max_size=60), st.sampled_from(["GET", "HEAD", "POST", "PUT"]))
async def test_any_target_is_answered_or_refused(target: str, query: str, method: str) -> None:
    """Invariant: whatever stands behind /api/, the answer is JSON or a refusal with a status of the client's."""
    inquiry = InspectorRequest(method=method, path=f"/api/{target}", query=query, field={"Host": "localhost"}.get)
    try:
        assert orjson.loads(await inspector(Recent(1, now=lambda: CLOCK)).answer(inquiry)) is not None
    except RefusedError as refused:
        assert 400 <= refused.status < 500  # noqa: PT017 - either outcome is right


@given(st.text(max_size=40) | st.from_regex(r"\A([a-z]+@)?(localhost|127\.0\.0\.1|\[::1\])[.:@/a-z0-9]*\Z"))
def test_only_names_of_this_machine_pass_on_loopback(host: str) -> None:
    """Invariant: a Host that passes is localhost, ::1 or 127.x.x.x, with or without a port."""
    inspector_request = InspectorRequest(method="GET", path="/api/searches", query="", field={"Host": host}.get)
    try:
        inspector(Recent(1, now=lambda: CLOCK)).allow(inspector_request)
    except RefusedError as refused:
        assert refused.status == 403  # noqa: PT017 - either outcome is right
    else:
        assert host.lower().startswith(("localhost", "127.", "[::1]"))
        assert "@" not in host


async def test_doubtful_pairs_are_bounded_however_many_there_are() -> None:
    n = 700
    many = selection(
        keep=[0],
        representative=[0] * n,
        fates=[Fate.KEPT] + [Fate.COLLAPSED] * (n - 1),
        links=[0] + [Link.DISTANCE] * (n - 1),
        similarities=[np.nan, *np.linspace(0.9, 1, n - 1)],
        cuts=[np.nan] + [0.9] * (n - 1),
    )
    async with inspecting() as client:
        for collection in "abcde":
            client.recent.add(seen(many, top_k=700, collection=collection))
        pairs = (await client.get("/api/doubtful"))["pairs"]
        assert len(pairs) == 200
        assert max(pair["similarity"] for pair in pairs) < 0.91
        assert {pair["collection"] for pair in pairs} == set("abcde")


@pytest.mark.parametrize(
    "target",
    ["/", "/static/app.js", "/static/style.css", "/static/vendor/htm-preact.js", "/api/searches", "/api/nothing"],
)
async def test_the_page_may_load_nothing_from_elsewhere(target: str) -> None:
    async with inspecting() as client:
        answer = await client.raw(target)
        assert answer.status == (404 if "nothing" in target else 200)
        assert answer.field("Content-Security-Policy") == CONTENT_SECURITY_POLICY
        assert (answer.field("X-Content-Type-Options"), answer.field("Referrer-Policy")) == ("nosniff", "no-referrer")
        assert "unsafe" not in CONTENT_SECURITY_POLICY
        assert CONTENT_SECURITY_POLICY.startswith("default-src 'none'")


@pytest.mark.parametrize(
    ("target", "method", "status"),
    [
        ("/api/", "GET", 404), ("/api/nothing", "GET", 404), ("/api/cost/1", "GET", 404), ("/api/searches/x", "GET", 400),
        ("/api/searches/-1", "GET", 400), ("/api/searches?since=1e3", "GET", 400), ("/api/searches/99999999999999999", "GET", 400),
        ("/api/searches", "POST", 413), ("/api/searches", "DELETE", 405), ("/api/judgements", "GET", 405), ("/explain", "PUT", 405),
    ],
)  # fmt: skip
async def test_what_is_not_there_has_fixed_words(target: str, method: str, status: int) -> None:
    async with inspecting() as client:
        answer = await client.raw(target, method)
        assert answer.status == status
        assert set(json.loads(answer.body)) == {"error"}
        assert (answer.field("Allow") is not None) == (status == 405)


async def test_texts_are_shown_where_they_were_kept() -> None:
    async with inspecting() as client:
        client.recent.add(replace(seen(), texts=("a", HOSTILE, None, "d", "e")))
        answer = await client.get(f"/api/searches/{FIRST}")
        assert [result["text"] for result in answer["kept"]] == ["a", None, "e"]
        assert answer["left_out"][0]["text"] == HOSTILE
        (pair,) = (await client.get("/api/doubtful"))["pairs"]
        assert (pair["a"]["text"], pair["b"]["text"]) == ("a", HOSTILE)


@pytest.mark.parametrize("texts", [True, False])
async def test_reasons_are_in_words_of_the_texts_only_where_texts_may_be_shown(texts: bool) -> None:
    """In a search and in /explain, from the pool that was kept; without one the kind of the reason is shown."""
    long, edited = EDITED
    pool = kept(pool_of(long, edited, "Take 20 mg of the drug.", "Take 40 mg of the drug."), top_k=3)
    chosen = select(pool.candidates(), top_k=3, policy=pool.policy)
    recent, pools = Recent(5, now=lambda: CLOCK, texts=texts), no_pools()
    recent.add(replace(seen(chosen), scores=pool.bare.scores))
    pools._add(Sampled("docs", recent.last, pool))
    recent.add(replace(seen(chosen), scores=pool.bare.scores))
    made = inspector(recent, pools)
    plain, worded = orjson.loads(await made.explain())["records"]
    one = InspectorRequest(method="GET", path=f"/api/searches/{FIRST}", query="", field={"Host": "localhost"}.get)
    assert orjson.loads(await made.answer(one))["kept"] == worded["kept"]
    assert plain["left_out"][0]["copy"]["why"] == "an edited copy of 1"
    assert [result["stays"] for result in plain["kept"]] == [None, None, None]
    assert worded["left_out"][0]["copy"]["why"] == "an edited copy of 1" + (": 'that' left out" if texts else "")
    stays = "stays: '40 mg' for '20 mg' in 3" if texts else "stays: says something else than 3"
    assert [result["stays"] for result in worded["kept"]] == [None, None, stays]
