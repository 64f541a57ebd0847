"""What the strings of a payload say, and which of them a text must not hide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.search.collections.statements import (
    ALL,
    PAYLOADS,
    POOL_VALUES,
    PoolStatements,
    is_name,
    is_prose,
    leaves,
    read_json,
)

TEXT = "Open the settings, choose Security and follow the link in the mail."


@pytest.mark.parametrize(
    "value", ["pump.pdf", "annual report 2023.docx", "a/b/c", "C:\\x", "https://a", "text/plain", "123", "9f86d081884c7d65"]
)  # fmt: skip
def test_names_of_things_are_no_prose(value: str) -> None:
    assert is_name(value)
    assert not is_prose(value)


@pytest.mark.parametrize("value", ["shoe", "The pump is closed. See page 4", "version 1.2", "水を止めてから蓋を開ける"])
def test_sentences_and_words_are_no_names(value: str) -> None:
    assert not is_name(value)


def statements(*payloads: bytes | None) -> PoolStatements:
    return PoolStatements(lambda rows: [payloads[row] for row in rows], len(payloads))


def adds(one: object, other: object) -> bool:
    """Whether the first payload says something that the second one does not."""
    both = statements(orjson.dumps(one), orjson.dumps(other))
    (differs,) = both.differ(np.array([0]), np.array([1])).tolist()
    return bool(differs)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"passage": "🟢 up"}, {"passage": "🔴 up"}),
        ({"power": "5 mW"}, {"power": "5 MW"}),
        ({"a": {"b": ["left"]}}, {"a": {"b": ["right"]}}),
        ({"name": "Red shoe"}, {"name": "Blue shoe"}),
        ({"table": "<td>4.50</td>"}, {"table": "<td>5.50</td>"}),
        ({"drug_name": "Aspirin"}, {"drug_name": "Ibuprofen"}),
        ({"passage": "up"}, {}),
        ({"mood": "🟢"}, {"mood": "🔴"}),
        ({"trend": "+"}, {"trend": "-"}),
        ({"speed": "km/h"}, {"speed": "m/s"}),
        ({"answer": "and/or"}, {"answer": "either/or"}),
        ({"note": "Never run setup.exe"}, {"note": "Always run setup.exe"}),
        ({"open": True}, {"open": False}),
        ({"user_id": "alice"}, {"user_id": "bruno"}),
        ({"categoryId": 12}, {"categoryId": 17}),
        ({"patient": "Patient/88213"}, {"patient": "Patient/90177"}),
        ({"dosage": "1/day"}, {"dosage": "2/day"}),
        ({"branch": "release/1.x"}, {"branch": "release/2.x"}),
        ({"article_number": "ART-1002345"}, {"article_number": "ART-1008712"}),
        ({"publication_number": "EP3911223A1"}, {"publication_number": "EP3911223B1"}),
        ({"time_in": "2026-01-09T11:02"}, {"time_in": "2026-02-21T23:40"}),
        ({"section": "545.351"}, {"section": "547.610"}),
        ({"Probability": 100}, {"Probability": 0}),
        ({"depth": 28}, {"depth": 40}),
        ({"start": 9, "end": 10}, {"start": 17, "end": 18}),
        ({"distance": 5.0}, {"distance": 10.0}),
        ({"code": "B 7"}, {"code": "B 7", "expired": True}),
        ({"passage": "up"}, {"note": "up"}),
        ({"stars": 5}, {"stars": 1}),
        ({"tags": ["urgent"]}, {"tags": ["routine"]}),
        ({"creator": "Goya"}, {"creator": "Velázquez"}),
        ({"language": "German"}, {"language": "Dutch"}),
        ({"price": "$12.99"}, {"price": "$14.99"}),
        ({"offer": {"dose_mg": 2.5}}, {"offer": {"dose_mg": 25}}),
        ({"offers": [{"amount": 150}]}, {"offers": [{"amount": 15}]}),
        ({"frame": '{"data":[[120,340]]}'}, {"frame": '{"data":[[340,120]]}'}),
        ({"due_date": "2024-01-02"}, {"due_date": "2024-03-02"}),
        ({"invoiceDate": "02.01.2024"}, {"invoiceDate": "02.03.2024"}),
        ({"departs": "2024-01-02T07:10"}, {"departs": "2024-01-02T09:10"}),
        ({"valid_until": 1_700_000_000}, {"valid_until": 1_600_000_000}),
        ({"last_payment_date": "2024-01-02"}, {"last_payment_date": "2024-03-02"}),
        ({"document_due_date": "2024-01-02"}, {"document_due_date": "2024-03-02"}),
        ({"affects_version": "5.2"}, {"affects_version": "5.3"}),
        ({"light_source": "the sun"}, {"light_source": "a lamp"}),
        ({"flight_number": 7}, {"flight_number": 8}),
        ({"doc": {"section": {"wage": 17.8}}}, {"doc": {"section": {"wage": 19.3}}}),
        ({"_source": {"price": 899}}, {"_source": {"price": 1299}}),
        ({"revenue": 1_200_000_000}, {"revenue": 1_300_000_000}),
        ({"unit": "µg/m3"}, {"unit": "mg/m3"}),
        ({"event": "invoice.paid"}, {"event": "invoice.voided"}),
        ({"author": "Rilke"}, {"author": "Heine"}),
        ({"rank": 1, "count": 812}, {"rank": 38, "count": 812}),
        ({"created": "1872"}, {"created": "1901"}),
        ({"time": "09:30"}, {"time": "10:30"}),
        ({"endDate": "2030-12-31"}, {"endDate": "2028-12-31"}),
        ({"start_time": "2024-05-01T08:00"}, {"start_time": "2024-05-01T10:00"}),
        ({"fromDate": "2024-05-01"}, {"fromDate": "2024-05-03"}),
        ({"edition": "2008"}, {"edition": "2015"}),
        ({"version": "4.1", "releaseDate": "2024-02-06"}, {"version": "4.2", "releaseDate": "2024-03-12"}),
        ({"section": "§ 1300"}, {"section": "§ 1303"}),
        ({"strength_class": "C25/30"}, {"strength_class": "C35/45"}),
        ({"_geo": {"lat": 1.5}}, {"_geo": {"lat": 2.5}}),
        ({"iban": "DE02120300000000202051"}, {"iban": "DE02500105170137075030"}),
        ({"company": "Booking.com"}, {"company": "Hotels.com"}),
        ({"allergens": ["gluten"]}, {"allergens": ["gluten", "milk"]}),
        ({"dims_cm": [40, 30]}, {"dims_cm": [40, 20]}),
        ({"geometry": {"coordinates": [[13.4, 52.5], [13.5, 52.6]]}}, {"geometry": {"coordinates": [[9.1, 48.7]]}}),
        ({"lines": [{"price": 3}]}, {"lines": [{"price": 4}]}),
        ({"monthly_rain_mm": [*range(12)]}, {"monthly_rain_mm": [*range(11), 40]}),
        ({"title": "Red mug"}, {"title": "Blue mug"}),
        ({"title": "iPhone 14"}, {"title": "iPhone 15"}),
        ({"heading": "Passwords"}, {"title": "Passwords"}),
        ({"title": "iPhone 15"}, {"title": "iPhone 15 Pro"}),
        ({"name": "42"}, {"name": "43"}),
        ({"name": "Bolt M6 x 20"}, {"name": "Bolt M8 x 20"}),
        ({"heading": "Minutes 2024-05-01"}, {"heading": "Minutes 2024-05-08"}),
        ({"meta": {"name": "Aurora"}}, {"meta": {"name": "Borealis"}}),
        ({"title": "Reset your password | Help"}, {"title": "Reset your password"}),
    ],
)
def test_a_payload_says_what_another_one_lacks(one: object, other: object) -> None:
    assert adds(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"file": "a.pdf"}, {"file": "b.pdf"}),
        ({"where": "https://a.example/x"}, {"where": "https://b.example/y"}),
        ({"blob": "aGk/" + "x" * 60}, {"blob": "aGk/" + "y" * 60}),
        ({"updated": "2024年5月3日", "indexed": "Mon Jan  5 10:11:12 2026"}, {"updated": "3 de mayo de 2024"}),
        ({"loaded": "20260105101010", "built": "1/5/2026, 8:11:02 AM"}, {"loaded": "20260106101010"}),
        (
            {"start_line": 3, "row_number": 4, "tenant_id": "file-f0ea5a2d-e902-4209-b645-5e5a50923018"},
            {"start_line": 5},
        ),
        ({"doc_id": "alpha", "runId": "kim"}, {"doc_id": "beta", "runId": "lee"}),
        ({"source": "the wiki", "producer": "Word"}, {"source": "the handbook", "producer": "Pages"}),
        (
            {"external_source_name": "the wiki", "producerName": "Word"},
            {"external_source_name": "the web", "producerName": "Pages"},
        ),
        ({"day": "2024-01-02", "at": "2024-01-02T03:04:05Z"}, {"day": "2025-01-02"}),
        ({"page": 1, "blank": " ", "none": None}, {"page": 2}),
        (
            {"start_index": 800, "loc": {"lines": {"from": 1}}, "index": "4"},
            {"start_index": 0, "loc": {}, "index": "5"},
        ),
        (
            {"created_at": 1_700_000_000, "seen": 1.7e12, "imported": 1_700_000_000_000_000},
            {"created_at": 1_600_000_000},
        ),
        (
            {
                "last_edited_time": "2024-01-02",
                "dateModified": "2 May 2024, 10:00",
                "crawl_ts": 1.7e9,
                "file_date": "2024-01-02",
            },
            {"last_edited_time": "2024-01-03", "crawl_ts": 1.6e9},
        ),
        ({"when": "2024-01-02", "sys_updated_on": "2024-01-02", "lastModifiedDateTime": "2024-01-02"}, {}),
        ({"eTag": "x1", "mimeType": "text/html; charset=utf-8", "documentid": "a b"}, {"eTag": "x2"}),
        (
            {"title_tks": "manual", "content_sm_ltks": "fine rain", "top_int": [174], "token_count_estimate": 5837},
            {"title_tks": "manual copy", "content_sm_ltks": "fine rain fell", "top_int": [161]},
        ),
        ({"metadata": {"cacheState": "hit", "proxyUsed": "basic"}}, {"metadata": {"cacheState": "miss"}}),
        ({"content_length": 5009, "ctag": "c:{1},3", "fetch_ms": 713, "pca": [0.1334, 0.2, 0.3]}, {"fetch_ms": 5}),
        ({"metadata_storage_size": 97, "quotaBytesUsed": 9, "sizeEstimate": 4, "changefreq": "daily"}, {}),
        ({"kind": "application/pdf", "_airbyte_extracted_at": "x"}, {"kind": "text/plain"}),
        ({"kafka_partition": 3, "rerank_score": 0.7, "parser_version": "1.4"}, {"kafka_partition": 4}),
        ({"moddate": "D:20230101", "posted": "Fri, 03 May 2024 07:00:00 GMT", "ts": "1700000900.1"}, {}),
        ({"title": "Release 2.1"}, {"title": "Release 2.2"}),
        ({"title": "Install, v1.29", "name": "4. Lists"}, {"title": "Install, v1.30", "name": "5. Lists"}),
        ({"heading": "Handbook - Part 2"}, {"heading": "Handbook - Part 3"}),
        ({"title": "io.RawIOBase.close", "name": "a.pdf"}, {"title": "io.IOBase.close", "name": "b.pdf"}),
        ({"title": "Reset your password"}, {"title": "Reset Your Password | Help"}),
        ({"title": "Lists"}, {"title": "Handbook 2.1 › Lists — Help"}),
        ({"vector": [0.1, 0.2]}, {"vector": [0.3]}),
        (
            {"coordinates": {"points": [[1.5, 2], [3, 4]], "layout_width": 1700}},
            {"coordinates": {"points": [[1.5, 9], [3, 11]], "layout_width": 1700}},
        ),
        (
            {"_split_overlap": [{"doc_id": "a", "range": [0, 40]}]},
            {"_split_overlap": [{"doc_id": "b", "range": [0, 60]}]},
        ),
        ({"prov": [{"bbox": {"l": 1.5}, "charspan": [0, 57]}]}, {"prov": [{"bbox": {"l": 2.5}, "charspan": [9, 66]}]}),
        ({"features": [*range(64)]}, {"features": [*range(1, 65)]}),
        ({"dense": [0.123, 0.5, -0.987] * 8}, {"dense": [0.124, 0.5, -0.987] * 8}),
        ({"source": {"name": "the wiki", "type": 1}}, {"source": {"name": "the web", "type": 2}}),
        ({"page_num_int": 3, "doc_version": "v2", "release": "2.1", "metadata": {"pdf_page": 4}}, {"page_num_int": 4}),
        (
            {"tags": ["__document_id:a7"], "source": ["the wiki"]},
            {"tags": ["__document_id:b9"], "source": ["the handbook"]},
        ),
        ({}, {"passage": "up"}),
        ({"passage": "up"}, {"passage": "up", "note": "more", "open": False}),
    ],
)
def test_which_copy_a_payload_is_it_does_not_say(one: object, other: object) -> None:
    assert not adds(one, other)


@given(
    st.lists(
        st.one_of(st.none(), st.binary(max_size=40), st.dictionaries(st.text(), st.text()).map(orjson.dumps)),
        min_size=1,
    )
)
def test_no_payload_adds_to_itself_and_one_that_cannot_be_read_adds_to_all_others(raws: list[bytes | None]) -> None:
    all_of = statements(*raws)
    rows = np.arange(len(raws))
    assert not all_of.differ(rows, rows).any()
    for row, raw in enumerate(raws):
        if raw is not None and not raw.lstrip().startswith(b"{"):
            others = rows[rows != row]
            assert all_of.differ(np.full(len(others), row), others).all()


def test_the_payloads_of_all_pairs_are_read_at_once() -> None:
    calls: list[list[int]] = []

    def payloads(rows: Sequence[int]) -> list[bytes]:
        calls.append([*rows])
        return [b"{}" for _ in rows]

    PoolStatements(payloads, 3).differ(np.array([1, 2, 2]), np.array([0, 0, 1]))
    assert calls == [[0, 1, 2]]


def test_only_payloads_that_are_compared_are_read() -> None:
    all_of = statements(b'{"a":"x"}', b'{"a":"x"}', b"no json")
    assert not all_of.evidence
    assert not all_of.differ(np.array([1]), np.array([0])).any()
    assert sorted(row for row, _ in all_of.evidence) == [0, 1]


@pytest.mark.parametrize(
    ("more", "value"),
    [
        ({"question": "How do I change my password?"}, "How do I change my password?"),
        ({"summary": "The steps for a new password."}, "The steps for a new password."),
        ({"metadata": {"window": f"{TEXT} It expires after an hour."}}, f"{TEXT} It expires after an hour."),
        ({"paragraphs": ["What follows holds for admins.", "pump.pdf"]}, "What follows holds for admins."),
        ({"a.b": "This is for the old app only."}, "This is for the old app only."),
        ({"inner": '{"note": "Only before the first of May."}'}, "Only before the first of May."),
        ({"content": "20 mg daily"}, "20 mg daily"),
        ({"title": "Can I stay longer than a week?"}, "Can I stay longer than a week?"),
        ({"title": "This clause was repealed."}, "This clause was repealed."),
        ({"question": "How to sell?"}, "How to sell?"),
        (
            {"heading_path": "Part 3 > Dogs of dangerous breeds > Keeping"},
            "Part 3 > Dogs of dangerous breeds > Keeping",
        ),
        ({"incorrect": "Choose Security and follow the link."}, "Choose Security and follow the link."),
        ({"question": "密码忘记了怎么办请告诉我"}, "密码忘记了怎么办请告诉我"),
        ({"passed": False}, "passed: false"),
        ({"status": "rejected"}, "status: rejected"),
        ({"attributes": {"wood": "waxed beech"}}, "waxed beech"),
        ({"answers": ["bio"]}, "answers: bio"),
        ({"size": "O"}, "size: O"),
        ({"network": "Ope"}, "network: Ope"),
        ({"metadata": {"Header 1": "Fish tank"}}, "Fish tank"),
        ({"de": "Trocken lagern."}, "Trocken lagern."),
        ({"offers": [{"price": "sold out"}]}, "sold out"),
        ({"additional_metadata": '{"owner": "the town"}'}, "the town"),
    ],
)
def test_a_sentence_beside_the_text_is_unsaid_where_another_payload_lacks_it(more: dict[str, Any], value: str) -> None:
    both = statements(orjson.dumps({"text": TEXT}), orjson.dumps({"text": TEXT, **more}), orjson.dumps(more))
    assert both.unsaid(1, (0,), TEXT) == (value, 0)
    assert both.unsaid(1, (2, 0), TEXT) == (value, 0)
    assert both.unsaid(0, (1,), TEXT) is None
    assert both.unsaid(1, (2,), TEXT) is None, "the text itself is judged by others"


@pytest.mark.parametrize(
    "more",
    [
        {"metadata": {"source": "the wiki of the help desk", "file_name": "how to change it.md"}},
        {
            "page": 4,
            "page_label": "iv",
            "day": "2024-01-02",
            "retrieved_at": 1_700_000_000,
            "loc": {"lines": {"from": 7}},
        },
        {"version": "v2.3", "chunk_index": 3, "start_index": 120, "total_pages": 9, "embedding_model": "small"},
        {"box": [1.5, 2.5, 9.0]},
        {"preview": "Open the settings, choose Security …", "verb": "Open", "cut": "Open the sett"},
        {"body": TEXT},
        {"document": "io.RawIOBase.fileno"},
        {"producer": "Microsoft Word for Office 365", "keywords": "lamp, light, night"},
        {"inner": '{"text_id": "how it is called", "idx": 1}'},
        {"_node_content": '{"text": "", "class_name": "TextNode", "relationships": {"3": {"node_type": "1"}}}'},
    ],
)
def test_what_tells_which_copy_a_payload_is_or_repeats_its_text_is_no_statement(more: dict[str, Any]) -> None:
    both = statements(orjson.dumps({"text": TEXT}), orjson.dumps({"text": TEXT, **more}))
    assert both.unsaid(1, (0,), TEXT) is None


def test_a_page_depends_on_the_payloads_that_were_compared() -> None:
    raws = [orjson.dumps({"text": TEXT, "page": n}) for n in range(4)]
    made = statements(*raws)
    assert made.unsaid(2, (0,), TEXT) is None
    assert statements(*raws[:3], b"{}").confirms(made.evidence)
    assert not statements(raws[0], raws[1], raws[3]).confirms(made.evidence)
    assert not statements(*raws[:2]).confirms(made.evidence)


def test_a_sentence_counts_under_its_key_and_in_its_place() -> None:
    pro, con = "It saves water in summer.", "It needs a second pump."
    payloads: list[dict[str, Any]] = [
        {"text": TEXT, "for": pro, "against": con},
        {"text": TEXT, "for": con, "against": pro},
    ]
    payloads += [{"text": TEXT, "steps": [pro, con]}, {"text": TEXT, "steps": [con, pro]}]
    both = statements(*map(orjson.dumps, payloads))
    assert both.unsaid(1, (0,), TEXT) is not None
    assert both.unsaid(3, (2,), TEXT) is not None
    assert both.unsaid(3, (3,), TEXT) is None


VALUES = st.recursive(
    st.sampled_from(["A pump starts.", "draft", "", 7, 2.5, True, None, '{"status": "open"}']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(
    payloads=st.lists(st.dictionaries(st.sampled_from(["text", "status", "page"]), VALUES), min_size=2, max_size=6),
    most_values=st.integers(1, 12),
)
def test_what_is_said_does_not_depend_on_what_was_read_before(payloads: list[dict[str, Any]], most_values: int) -> None:
    """Invariant: with an empty cache of readings, with a full one, and with the bounds of a pool in any place, the answers are the same."""
    raws: list[bytes | None] = [orjson.dumps(payload) for payload in payloads]

    def answers() -> list[object]:
        pool = PoolStatements(lambda rows: [raws[row] for row in rows], len(raws))
        pool._values = most_values
        return [pool.unsaid(row, [row - 1], text) for row in range(1, len(raws)) for text in ("", "A pump starts.")]

    PAYLOADS.clear()
    fresh = answers()
    PoolStatements(lambda rows: [raws[row] for row in rows], len(raws)).detach()
    assert answers() == fresh


def test_fields_in_which_copies_may_differ_are_no_statements() -> None:
    raws = [
        orjson.dumps({"text": TEXT, "step": who, "more": {"note": f"It is for {who}."}})
        for who in ("the cook", "the smith")
    ]

    def read(*ignored: str) -> PoolStatements:
        return PoolStatements(lambda rows: [raws[row] for row in rows], 2, ignored)

    assert read().unsaid(1, (0,), TEXT) is not None
    assert read("more").unsaid(1, (0,), TEXT) == ("the smith", 0)
    assert read("more", "step").unsaid(1, (0,), TEXT) is None
    assert read("more").differ(np.array([1]), np.array([0])).all()
    assert not read("more", "step").differ(np.array([1]), np.array([0])).any()
    assert not read(ALL).differ(np.array([1]), np.array([0])).any()


def test_statements_that_are_detached_from_their_reply_say_the_same() -> None:
    raws = [orjson.dumps({"text": TEXT, "question": f"Who is number {number} of the list?"}) for number in range(3)]
    whole, detached = statements(*raws), statements(*raws)
    assert detached.detach() > sum(map(len, raws))
    for row, other in ((0, 1), (2, 2), (1, 0)):
        assert detached.unsaid(row, (other,), TEXT) == whole.unsaid(row, (other,), TEXT)


def test_a_payload_with_more_values_than_are_read_says_what_no_other_one_says() -> None:
    wide = orjson.dumps({"text": TEXT, "tags": ["x"] * POOL_VALUES})
    both = statements(wide, wide, b"{}")
    assert both.unsaid(1, (0,), TEXT) is not None
    assert both.differ(np.array([1]), np.array([0])).all()


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.sampled_from(['{"a":"b c d"}', '["x"]', "[1,", "{}"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["text", "a.b", ""]) | st.text(), inner)
    ),
    max_leaves=20,
)


@given(value=st.dictionaries(st.text(), JSON))
def test_every_value_is_read_once_and_those_with_a_path_first(value: dict[str, Any]) -> None:
    """Invariant: the strings and booleans are all there once, those of spelled objects, too; a named one is found by its path."""
    read_leaves, _ = leaves(value, 1 << 20)
    read = sorted(str(leaf.value) for leaf in read_leaves if isinstance(leaf.value, bool | str))

    def values(inside: object) -> list[str]:
        if isinstance(inside, dict):
            return [text for member in inside.values() for text in values(member)]
        if isinstance(inside, list):
            return [
                text for member in inside if isinstance(member, bool | str | list | dict) for text in values(member)
            ]
        if isinstance(inside, str) and inside.strip():
            spelled = read_json(inside) if inside[:1] in ("{", "[") else None
            return [inside, *values(spelled)]
        return [str(inside)] if isinstance(inside, bool) else []

    assert read == sorted(values(value))
    named, _ = leaves(value, 1 << 20, named_only=True)
    assert read_leaves[: len(named)] == named
    for leaf in named:
        at: Any = value
        for key in leaf.path.split("."):
            inside: Any = read_json(at) if isinstance(at, str) else at
            at = inside[key]
        assert at == leaf.value


@pytest.mark.timeout(20)  # ten times as long when each took the square of its length
def test_a_megabyte_of_values_that_look_like_paths_is_judged_in_linear_time() -> None:
    value = "a/" * 950 + " x"
    assert not any(is_name(f"{number}{value}") for number in range(10_000))
