"""What one transport's searches and writes are conducted by, built of what the process shares."""

from __future__ import annotations

from typing import Any

import pytest

from support.backends.toy_backend import ToyAdapter, ToyDialect
from support.backends.toy_exchange import toys
from vecsieve.adapters.backends import Changes, Transport
from vecsieve.adapters.contract import Operation, RequestHead, Touched
from vecsieve.proxy.search.collections.profiles import Scales, Scaling
from vecsieve.proxy.search.service import ProcessServices


def services(**other: Any) -> ProcessServices:
    return toys(**other).services


class Forgetful:
    """Remembers what it was told to forget."""

    def __init__(self) -> None:
        self.forgotten: list[str | None] = []

    def forget(self, collection: str | None) -> None:
        self.forgotten.append(collection)


def touched(head: RequestHead) -> Touched | None:
    return Touched(collection="c") if head.path == "/write" else None


def transport(reshaped: Changes | None = None) -> Transport:
    return Transport(adapter=ToyAdapter, dialect=ToyDialect, reshaped=reshaped)


def test_a_transport_that_reshapes_nothing_forgets_nothing() -> None:
    memory = Forgetful()
    with services(features=memory).write_invalidation(transport()).passing(RequestHead(method="POST", path="/write")):
        assert memory.forgotten == []


@pytest.mark.parametrize("features", [None, Forgetful()])
def test_when_a_collection_is_made_anew_everything_that_was_learned_of_it_is_forgotten(
    features: Forgetful | None,
) -> None:
    scales = Scales()
    shared = services(features=features, scaling=Scaling(None, scales, lambda _profile, _event: None))
    learned = shared.governor.learned
    for collection in ("c", "other"):
        learned.compared(Operation(backend="toy", name="query", collection=collection), "old")
        scales.observe((collection, ""), 0.5)
    with shared.write_invalidation(transport(touched)).passing(RequestHead(method="POST", path="/write")):
        assert learned.hint(Operation(backend="toy", name="query", collection="c")) is None
        learned.compared(Operation(backend="toy", name="query", collection="c"), "old")  # a reply that was under way
    assert learned.hint(Operation(backend="toy", name="query", collection="c")) is None
    assert learned.hint(Operation(backend="toy", name="query", collection="other")) == "old"
    assert len(scales) == 1
    assert features is None or features.forgotten == ["c", "c"]
