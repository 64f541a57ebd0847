"""Which searches are in the canary, and what stops it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256

import pytest
from prometheus_client import CollectorRegistry

from support.backends.toy_backend import OPERATION
from support.backends.toy_exchange import toys
from support.deploy.expositions import value
from support.jobs.reports import FIGURES, REPORT, timed
from vecsieve.adapters.contract import Operation
from vecsieve.config.schema import CanarySettings, Settings
from vecsieve.proxy.runtime.lifecycle import Board
from vecsieve.proxy.search.context.canary import ADDED_SECONDS, BOUNDS, SLOWED_SECONDS, WINDOW, Canary, Members
from vecsieve.proxy.search.context.clients import Client
from vecsieve.proxy.search.policy import Rules, RulesInForce
from vecsieve.proxy.telemetry.labels import Bypass, CanaryState, FailOpen, Outcome
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.telemetry.reports import Report

CLIENT = Client("secret", "10.1.2.3")


def members(**settings: object) -> Members:
    made = Members.of(CanarySettings.model_validate(settings))
    assert made is not None
    return made


def test_without_a_member_there_is_no_canary() -> None:
    assert Members.of(CanarySettings()) is None
    assert Rules.of(Settings()).canary is None


@pytest.mark.parametrize(
    "settings",
    [
        {"share": 1.0},
        {"keys": (sha256(b"other").hexdigest(), sha256(b"secret").hexdigest())},
        {"collections": ("docs", "tick*")},
        {"clients": ("10.1.0.0/16",)},
        {"clients": ("fd00::/8", "10.1.2.3")},
    ],
)
def test_a_search_of_any_member_is_in_it(settings: dict[str, object]) -> None:
    assert members(**settings).admits(CLIENT, replace(OPERATION, collection="tickets"), "tickets")


@pytest.mark.parametrize(
    "settings",
    [
        {"keys": (sha256(b"secret ").hexdigest(),)},
        {"collections": ("docs", "tick")},
        {"clients": ("192.168.0.0/16", "fd00::/8")},
    ],
)
@pytest.mark.parametrize("client", [CLIENT, Client("", "no address"), Client("", "")])
def test_a_search_of_no_member_is_not(settings: dict[str, object], client: Client) -> None:
    assert not members(**settings).admits(client, replace(OPERATION, collection="tickets"), "tickets")


def test_a_larger_share_keeps_the_clients_of_a_smaller_one() -> None:
    clients = [Client(f"{number}", "") for number in range(300)]
    inside = [
        {client for client in clients if members(share=share).admits(client, replace(OPERATION, collection="c"), "c")}
        for share in (0.1, 0.3, 1.0)
    ]
    assert set() < inside[0] < inside[1] < inside[2] == set(clients)


def test_its_policies_differ_in_shadow_alone_and_writes_keep_their_mode() -> None:
    settings = Settings.model_validate(
        {
            "policy": {"mode": "shadow", "write": {"mode": "observe"}},
            "rules": (
                {"collection": "off", "policy": {"mode": "off"}},
                {"collection": "exact", "preset": "exact"},
            ),
            "canary": {"share": 0.5},
        }
    )
    rules = Rules.of(settings)
    assert rules.canary is not None
    for collection, mode in (("any", "on"), ("exact", "on"), ("off", "off")):
        raised = rules.canary.policies.resolve("qdrant", collection)
        plain = rules.policies.resolve("qdrant", collection)
        assert raised.mode == mode
        assert raised.write == plain.write
        assert raised.selection == plain.selection


@dataclass
class Watched:
    """A canary, and the searches that it measures."""

    board: Board = field(default_factory=lambda: Board(0))
    members: Members | None = field(default_factory=lambda: members(share=0.5))
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        self.canary = Canary(self.board, Metrics(self.registry, backend="qdrant"), self.members, now=lambda: 61.5)

    def ended(self, made: Report | None, *, status: int | None = 200, seconds: float = 0.0, **options: bool) -> None:
        plain = (0.005, 0.010)
        self.canary.watch("c", plain, may_be_short=options.get("may_be_short", False))(status, seconds, made)

    @property
    def state(self) -> CanaryState:
        return next(
            candidate for candidate in CanaryState if value(self.registry, "canary_state", state=candidate.value)
        )


GOOD = timed(REPORT._replace(searches=1), 0.011, 0.010)
FAULTS: dict[CanaryState, Callable[[Watched], None]] = {
    CanaryState.ERRORS: lambda watched: watched.ended(GOOD, status=500),
    CanaryState.SLOW: lambda watched: watched.ended(timed(GOOD, 0.011 + ADDED_SECONDS, 0.010)),
    CanaryState.FAIL_OPEN: lambda watched: watched.ended(
        GOOD._replace(outcome=Outcome.FAIL_OPEN, fail_open=FailOpen.NO_VECTORS)
    ),
    CanaryState.SHORT: lambda watched: watched.ended(GOOD._replace(figures=(FIGURES, FIGURES._replace(short=2)))),
}


@pytest.mark.parametrize("state", FAULTS)
def test_the_bound_of_each_fault_stops_it_and_one_less_does_not(
    state: CanaryState, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Watched()
    for _ in range(BOUNDS[state] - 1):
        FAULTS[state](watched)
    assert watched.state is CanaryState.ON
    assert not watched.canary.is_stopped
    with caplog.at_level(logging.WARNING, "vecsieve.canary"):
        FAULTS[state](watched)
    assert watched.canary.is_stopped
    assert (watched.state, watched.board.canary[1]) == (state, 61_500)
    (line,) = caplog.messages
    assert line.startswith("canary back in shadow: ")
    assert line.endswith("; other settings of `canary`, or a restart, start it again")


@pytest.mark.parametrize("state", FAULTS)
def test_faults_older_than_the_window_do_not_count(state: CanaryState) -> None:
    watched = Watched()
    for _ in range(3):
        for _ in range(BOUNDS[state] - 1):
            FAULTS[state](watched)
        for _ in range(WINDOW):
            watched.ended(GOOD)
    assert watched.state is CanaryState.ON


HARMLESS: dict[str, Callable[[Watched], None]] = {
    "good": lambda watched: watched.ended(GOOD),
    "the client's own mistake": lambda watched: watched.ended(GOOD, status=404),
    "bypassed": lambda watched: watched.ended(
        timed(GOOD._replace(outcome=Outcome.BYPASS, bypass=Bypass.QUOTA), 9.0, 0.010), status=429
    ),
    "a large batch": lambda watched: watched.ended(timed(GOOD._replace(searches=100), 2.0, 1.99)),
    "disconnected early": lambda watched: watched.ended(None, status=None, seconds=0.05),
    "short as its policy asks": lambda watched: watched.ended(
        GOOD._replace(figures=(FIGURES._replace(short=2),)), may_be_short=True
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_no_fault_never_stops_it(name: str) -> None:
    watched = Watched()
    for _ in range(WINDOW):
        HARMLESS[name](watched)
    assert watched.state is CanaryState.ON


def test_a_client_that_waited_long_and_went_is_a_slow_search() -> None:
    watched = Watched()
    for _ in range(BOUNDS[CanaryState.SLOW]):
        watched.ended(None, status=None, seconds=3.0)
    assert watched.state is CanaryState.SLOW


def test_a_database_that_slows_down_stops_it_although_its_plain_searches_are_as_slow() -> None:
    watched, plain = Watched(), [0.010]
    watch = watched.canary.watch("c", plain, may_be_short=False)
    watch(200, 0.0, GOOD)
    states: list[CanaryState] = []
    for seconds in (SLOWED_SECONDS, SLOWED_SECONDS + 0.011):
        plain[:] = [seconds]
        for _ in range(BOUNDS[CanaryState.SLOW]):
            watch(200, 0.0, timed(GOOD, seconds, seconds))
        states.append(watched.state)
    assert states == [CanaryState.ON, CanaryState.SLOW]


def test_a_batch_to_which_much_is_added_is_slow() -> None:
    watched = Watched()
    for _ in range(BOUNDS[CanaryState.SLOW]):
        watched.ended(timed(GOOD._replace(searches=100), 2.0, 1.0))
    assert watched.state is CanaryState.SLOW


def test_without_plain_searches_only_what_passed_beside_the_database_is_added() -> None:
    watched = Watched()
    watch = watched.canary.watch("c", (), may_be_short=False)
    for _ in range(WINDOW):
        watch(200, 3.0, timed(GOOD, 3.0, 2.99))
    states = [watched.state]
    for _ in range(BOUNDS[CanaryState.SLOW]):
        watch(200, 3.0, timed(GOOD, 3.0, 2.0))
    assert [*states, watched.state] == [CanaryState.ON, CanaryState.SLOW]


def test_all_workers_stop_together_also_one_that_starts_later() -> None:
    one = Watched()
    other = Watched(board=one.board)
    for _ in range(BOUNDS[CanaryState.ERRORS]):
        FAULTS[CanaryState.ERRORS](one)
    assert other.canary.is_stopped
    other.canary.look()
    later = Watched(board=one.board)
    assert (other.state, later.state) == (CanaryState.ERRORS, CanaryState.ERRORS)


def test_other_settings_start_it_again_from_nothing_or_end_it() -> None:
    watched = Watched()
    for number, (state, fault) in enumerate(FAULTS.items(), start=1):
        for _ in range(BOUNDS[state]):
            fault(watched)
        assert watched.canary.is_stopped
        watched.canary.take(members(share=number / 100))
        assert not watched.canary.is_stopped
        assert watched.state is CanaryState.ON
        fault(watched)
        assert watched.state is CanaryState.ON
    watched.canary.take(None)
    assert watched.state is CanaryState.NONE


def test_mode_off_takes_it_away_for_a_while_and_does_not_start_it_again() -> None:
    """The emergency switch: a canary that was stopped is stopped after it, too."""
    watched, fault, share = Watched(), FAULTS[CanaryState.ERRORS], CanarySettings(share=0.5)
    states: list[CanaryState] = []
    for are_off in (True, False):
        watched.canary.take(Members.of(share, are_off=are_off))
        states.append(watched.state)
    for _ in range(BOUNDS[CanaryState.ERRORS]):
        fault(watched)
    for are_off in (True, False):
        watched.canary.take(Members.of(share, are_off=are_off))
        states.append(watched.state)
    assert states == [CanaryState.NONE, CanaryState.ON, CanaryState.ERRORS, CanaryState.ERRORS]


def test_the_same_settings_do_not_start_it_again() -> None:
    """As when the settings file is touched, or another of its settings changes."""
    watched = Watched()
    fault = FAULTS[CanaryState.ERRORS]
    for _ in range(BOUNDS[CanaryState.ERRORS] - 1):
        fault(watched)
    watched.canary.take(members(share=0.5))
    states = [watched.state]
    fault(watched)
    states.append(watched.state)
    watched.canary.take(members(share=0.5))
    assert [*states, watched.state] == [CanaryState.ON, CanaryState.ERRORS, CanaryState.ERRORS], "all faults count"


def test_a_worker_that_takes_other_settings_later_does_not_start_it_again() -> None:
    """A worker that died begins with the settings of the start, and then reads the file."""
    one = Watched()
    late = Watched(board=one.board)
    one.canary.take(members(share=0.1))
    for _ in range(BOUNDS[CanaryState.ERRORS]):
        FAULTS[CanaryState.ERRORS](one)
    for worker in (late, Watched(board=one.board)):
        worker.canary.take(members(share=0.1))
        assert worker.canary.is_stopped
    one.canary.take(None)
    one.canary.take(members(share=0.1))
    assert one.state is CanaryState.ON, "by hand: out and in again"


async def test_a_collection_that_is_addressed_by_its_id_keeps_its_clients_when_its_name_becomes_known() -> None:
    made = toys(rules=RulesInForce(Rules.of(Settings.model_validate({"mode": "shadow", "canary": {"share": 0.5}}))))
    unknown = replace(OPERATION, collection="tenant/database/0a1b", id="0a1b")
    known = replace(unknown, collection="tenant/database/docs")

    def modes(operation: Operation, ruled_by: str) -> list[str]:
        record = made.services.recorder.begin()
        clients = [partial(Client, f"{number}", "") for number in range(64)]
        return [made.service.policy(operation, ruled_by, (), record, client)[1].mode for client in clients]

    before = modes(unknown, "tenant/database/")
    assert set(before) == {"on", "shadow"}
    assert modes(known, "tenant/database/docs") == before
    assert modes(replace(known, id="2c3d"), "tenant/database/other") != before
