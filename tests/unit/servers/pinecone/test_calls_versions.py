""""""

from __future__ import annotations

import pytest
from servers.pinecone.calls import OLDEST, has_documents, speaks_schema, version_of


@pytest.mark.parametrize(
    ("sent", "version"),
    [
        ([], OLDEST),
        (["2025-10"], "2025-10"),
        (["2025-10", "2025-10"], "2025-10"),
        (["2025-10, 2025-10"], "2025-10"),
        (["2026-01.alpha"], "2026-01.alpha"),
        (["unstable"], OLDEST),
        ([""], OLDEST),
    ],
)
def test_a_request_speaks_the_first_version_it_names_and_the_oldest_when_it_names_none(
    sent: list[str], version: str
) -> None:
    assert version_of(sent) == version


@pytest.mark.parametrize(
    ("version", "has"),
    [("2025-10", False), ("2026-01.alpha", True), ("2026-04", False), ("2026-07", True), ("2027-01", True)],
)
def test_documents_came_in_an_alpha_went_and_came_back(version: str, *, has: bool) -> None:
    assert has_documents(version) is has
    assert speaks_schema(version) is has
