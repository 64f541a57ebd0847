"""What one transport's searches and writes are conducted by, built of what the process shares."""

from __future__ import annotations

from typing import Any

import pytest

from support.clocks import ManualClock
from support.toy_backend import ToyAdapter
from support.toy_exchange import ToyDialect, toys
from support.turning import calm
from vecsieve.adapters.contract import Operation, RequestHead, Touched
from vecsieve.config.schema import LimitSettings, Settings
from vecsieve.proxy.resources import MemoryGuard
from vecsieve.proxy.runtime import LongWork
from vecsieve.proxy.search.exchange import Shadow
from vecsieve.proxy.search.limits import Admission
from vecsieve.proxy.search.policy import Rules, RulesInForce
from vecsieve.proxy.search.profiles import Scales, Scaling
from vecsieve.proxy.search.services import Parts
from vecsieve.proxy.telemetry.requests import Tally


def parts(**other: Any) -> Parts:
    around = toys().around
    tally = Tally(around.metrics, log=lambda _: None, clock=ManualClock())
    shared: dict[str, Any] = {
        "rules": RulesInForce(Rules.of(Settings())),
        "limits": LimitSettings(searches_in_flight=7),
        "backend": "toy",
        "admission": Admission(limit=8, wait_seconds=1.0, turns=calm(), lag_seconds=1.0),
        "turns": calm(),
        "memory": MemoryGuard(None, resident_bytes=lambda: 0, clock=ManualClock()),
        "tally": tally,
        "around": around,
        "shadow": Shadow(tally=tally, limit=4),
        "scaling": Scaling(None, None, lambda _profile, _event: None),
        "vectors": None,
        "work": LongWork(),
    }
    return Parts(**{**shared, **other})


def test_two_transports_have_ladders_of_their_own_and_share_everything_else() -> None:
    shared = parts()
    one, other = (shared.conduct(ToyAdapter(), ToyDialect(), number_bytes=12) for _ in range(2))
    assert one.ladder is not other.ladder
    assert (one.shadow, one.memory, one.most) == (other.shadow, other.memory, other.most)
    assert (one.shadow, one.memory, one.most) == (shared.shadow, shared.memory, 7)


class Forgetful:
    """Remembers what it was told to forget."""

    def __init__(self) -> None:
        self.forgotten: list[str | None] = []

    def forget(self, collection: str | None) -> None:
        self.forgotten.append(collection)


def touched(head: RequestHead) -> Touched | None:
    return Touched(collection="c") if head.path == "/write" else None


def test_writes_that_pass_are_forgotten_before_and_after_and_reads_are_not() -> None:
    memory = Forgetful()
    overhearing = parts(vectors=memory).overhearing(written=touched, reshaped=None)
    with overhearing.passing(RequestHead(method="POST", path="/write")):
        assert memory.forgotten == ["c"]
    assert memory.forgotten == ["c", "c"]
    with overhearing.passing(RequestHead(method="POST", path="/read")):
        pass
    assert memory.forgotten == ["c", "c"]


def test_without_a_memory_there_is_nothing_to_forget() -> None:
    with parts().overhearing(written=touched, reshaped=None).passing(RequestHead(method="POST", path="/write")):
        pass
    memory = Forgetful()
    with (
        parts(vectors=memory)
        .overhearing(written=None, reshaped=None)
        .passing(RequestHead(method="POST", path="/write"))
    ):
        assert memory.forgotten == []


@pytest.mark.parametrize("vectors", [None, Forgetful()])
def test_when_a_collection_is_made_anew_everything_that_was_learned_of_it_is_forgotten(
    vectors: Forgetful | None,
) -> None:
    scales = Scales()
    shared = parts(vectors=vectors, scaling=Scaling(None, scales, lambda _profile, _event: None))
    learned = shared.around.learned
    for collection in ("c", "other"):
        learned.compared(Operation(backend="toy", name="query", collection=collection), "old")
        scales.observe((collection, ""), 0.5)
    with shared.overhearing(written=None, reshaped=touched).passing(RequestHead(method="POST", path="/write")):
        assert learned.hint(Operation(backend="toy", name="query", collection="c")) is None
        learned.compared(Operation(backend="toy", name="query", collection="c"), "old")  # a reply that was under way
    assert learned.hint(Operation(backend="toy", name="query", collection="c")) is None
    assert learned.hint(Operation(backend="toy", name="query", collection="other")) == "old"
    assert len(scales) == 1
    assert vectors is None or vectors.forgotten == ["c", "c"]
