"""Headers and footers that three members of a pool have are set aside, but not where the covering text has another filling."""

from __future__ import annotations

import pytest

from support.selection.judgements import leaves, plain, verdict
from vecsieve.proxy.selection.judging.frames import MEMBERS, Frames, edges_of
from vecsieve.proxy.selection.policy import Tier
from vecsieve.proxy.selection.reading.text import text_of
from vecsieve.proxy.selection.values import Link

HEADER = "Handbook of the northern harbour, second edition"
BODIES = (
    "The crane on the east quay lifts twelve tonnes and is checked each spring.\nIts driver needs a permit.",
    "Boats of more than forty metres wait outside until a pilot has come aboard.\nNobody lands before that.",
    "The lamp at the end of the pier is lit from dusk until the last ferry is in.\nIts keeper lives there.",
    "Nets are dried on the racks behind the ice house and never on the quay.\nFines are paid in the office.",
)


def framed(number: int, body: str, header: str = HEADER) -> str:
    return f"{header}\n{body}\nNorthern harbour, sheet {number}"


POOL = tuple(framed(number, body) for number, body in enumerate(BODIES[1:], 20))


def test_a_header_and_a_footer_are_set_aside() -> None:
    found = verdict(BODIES[0], framed(3, BODIES[0]), pool=POOL)
    assert found.link is Link.FRAMED
    assert found.holders == (0,)
    assert 0.5 < found.share < 1.0


def test_what_differs_in_digits_is_the_same_header() -> None:
    pool = tuple(framed(number, body, f"Part {number} of the handbook") for number, body in enumerate(BODIES[1:], 20))
    assert leaves(BODIES[0], framed(3, BODIES[0], "Part 3 of the handbook"), pool=pool)


def test_fewer_than_three_members_make_no_header() -> None:
    assert not leaves(BODIES[0], framed(3, BODIES[0]), pool=POOL[: MEMBERS - 2])


def test_equal_bodies_are_no_proof_of_a_header() -> None:
    pool = tuple(framed(number, BODIES[0]) for number in range(20, 24))
    assert not leaves(BODIES[0], framed(3, BODIES[0]), pool=pool)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Customer of this account: Acme", "Customer of this account: Bolt"),
        ("Report of the year 2023", "Report of the year 2024"),
        ("Contract with the town of Leith", "Contract with the town of Troon"),
        ("Berlin", "Munich"),
        ("Ann Smith", "Bob Jones"),
    ],
)
def test_a_header_with_another_filling_keeps_the_result(one: str, other: str) -> None:
    pool = tuple(framed(number, body, header) for number, (body, header) in enumerate([(BODIES[1], other), (BODIES[2], other), (BODIES[3], one), (BODIES[2], one), (BODIES[1], one), (BODIES[3], other)], 20))  # fmt: skip
    assert not leaves(framed(3, BODIES[0], one), framed(3, BODIES[0], other), pool=pool)


def test_a_header_is_not_set_aside_in_a_final_deletion() -> None:
    assert not leaves(BODIES[0], framed(3, BODIES[0]), pool=POOL, tier=Tier.EXACT)


def test_a_text_that_is_nothing_but_header_stays() -> None:
    assert not leaves(BODIES[0], f"{HEADER}\nNorthern harbour, sheet 3", pool=POOL)


def test_what_is_beside_the_header_must_be_said() -> None:
    assert not leaves(BODIES[0], framed(3, f"{BODIES[0]}\nDogs stay out of it."), pool=POOL)


def test_a_prefix_in_one_line_does_not_make_copies_of_short_bodies() -> None:
    prefix = "This passage is from the handbook of the northern harbour, chapter on safety: "
    texts = [
        prefix + body for body in ("Wear a vest.", "Wear a helmet.", "Never run.", "Never whistle.", "Call the pilot.")
    ]
    for at in range(1, len(texts)):
        assert not leaves(*texts[:at], texts[at], pool=tuple(texts))


def test_the_edges_of_a_text_are_kept_with_it_and_bounded() -> None:
    text = text_of(framed(3, BODIES[0]))
    assert edges_of(text) is edges_of(text)
    assert all(0 < edge.depth <= 4 for edge in edges_of(text))
    assert not edges_of(text_of("one line alone"))


def test_without_a_pool_nothing_is_set_aside() -> None:
    text = text_of(framed(3, BODIES[0]))
    assert Frames().inside(text, plain(text.raw)) == (0, len(plain(text.raw).tokens))
