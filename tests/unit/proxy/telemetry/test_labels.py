"""Label values come from closed sets, and what is unknown becomes one of them."""

from __future__ import annotations

import re
from enum import StrEnum

import pytest

from vecsieve.adapters.contract import Reason
from vecsieve.proxy.selection.values import Link
from vecsieve.proxy.telemetry import labels
from vecsieve.proxy.telemetry.labels import CODE_CLASSES, COLLAPSE_OF, Bypass, CodeClass, FailOpen, Retry

SETS = [value for value in vars(labels).values() if isinstance(value, type) and value.__module__ == labels.__name__]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (100, "1xx"),
        (200, "2xx"),
        (299, "2xx"),
        (304, "3xx"),
        (404, "4xx"),
        (599, "5xx"),
        (600, "none"),
        (99, "none"),
        (0, "none"),
        (-200, "none"),
        (None, "none"),
    ],
)
def test_a_status_falls_into_its_class(status: int | None, expected: str) -> None:
    assert CODE_CLASSES.get((status or 0) // 100, CodeClass.NONE).value == expected


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        (Link.NONE, "vectors"),  # by way of other members of the cluster
        (Link.EQUAL, "equal_text"),
        (Link.CONTAINED, "contained"),
        (Link.JOINED, "joined"),
        (Link.EDITED, "edited"),
        (Link.REWORDED, "reworded"),
        (Link.DISTANCE, "vectors"),
    ],
)
def test_every_link_is_of_a_kind(link: Link, expected: str) -> None:
    assert COLLAPSE_OF[link].value == expected


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (FailOpen.OVERFETCH_STATUS, "refused"),
        (FailOpen.NOT_FOUND_VECTOR, "refused"),
        (FailOpen.OVERFETCH_TIMEOUT, "timeout"),
        (FailOpen.OVERFETCH_RESET, "reset"),
        (FailOpen.TOO_LARGE, "unusable"),
        (FailOpen.MALFORMED, "unusable"),
        (FailOpen.INTERNAL, "unusable"),
    ],
)
def test_why_a_search_was_asked_again_follows_from_why_it_fell(reason: FailOpen, expected: str) -> None:
    assert Retry.of(reason) == expected


def test_the_two_sources_of_bypass_reasons_never_mean_two_things_by_one_word() -> None:
    assert not {member.value for member in Bypass} & {member.value for member in Reason}


@pytest.mark.parametrize("members", SETS, ids=lambda members: members.__name__)
def test_every_label_value_is_short_and_plain(members: type[StrEnum]) -> None:
    assert all(re.fullmatch(r"[a-z0-9_]{1,24}", member.value) for member in members)
