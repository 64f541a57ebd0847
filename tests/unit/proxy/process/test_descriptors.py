from __future__ import annotations

import logging
import resource
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.config.schema import Settings
from vecsieve.proxy.admin.server import CONNECTIONS as ADMIN
from vecsieve.proxy.http.listener import arriving_at_most
from vecsieve.proxy.process.descriptors import Budget, budget, claim, needed, say
from vecsieve.proxy.runtime.addresses import API_CONNECTIONS, data_ports_of

GRPC = Settings.model_validate({"grpc": {"upstream": "127.0.0.1:6334"}})
PLAIN = Settings()


def given_to(settings: Settings, limit: int, in_use: int = 20) -> Budget:
    return budget(settings, data_ports_of(settings), in_use=in_use, limit=limit, hard=limit)


def used_by(given_: Budget, *, per_connection: int) -> int:
    """What clients and pools take at most."""
    return per_connection * given_.connections + 2 * arriving_at_most(given_.connections) + 2 * given_.pool_total


def test_the_api_takes_descriptors_of_its_own_for_its_connections_and_its_port() -> None:
    api = Settings.model_validate({"api": {"listen": "127.0.0.1:9466"}})
    extra = needed(api, data_ports_of(api), 20) - needed(PLAIN, data_ports_of(PLAIN), 20)
    assert extra == API_CONNECTIONS + 2


@given(st.integers(256, 100_000), st.integers(1, 10_000), st.integers(1, 10_000), st.integers(5, 60))
def test_whatever_is_asked_for_fits(limit: int, connections: int, pool: int, in_use: int) -> None:
    """For any limit from 256: clients, pools, what is open and the admin port's share never exceed the limit together."""
    requested = {"limits": {"connections": connections}, "upstream": {"pool_connections": pool}}
    settings = Settings.model_validate(requested)
    got = given_to(settings, limit, in_use)
    assert 1 <= got.connections <= connections
    assert 1 <= got.pool_connections <= pool
    assert used_by(got, per_connection=1) + in_use + min(ADMIN, limit // 16) <= limit


@given(st.integers(64, 100_000))
def test_a_larger_limit_is_never_worth_less(limit: int) -> None:
    """One descriptor more never lowers a limit by more than the one connection that a pool's or an accept's share takes."""
    less, more = given_to(PLAIN, limit), given_to(PLAIN, limit + 1)
    assert more.connections >= less.connections - 5
    assert more.pool_connections >= less.pool_connections


@pytest.mark.parametrize("settings", [PLAIN, GRPC], ids=["http", "grpc"])
def test_what_is_needed_is_enough_for_all_that_is_asked_for(settings: Settings) -> None:
    limit = needed(settings, data_ports_of(settings), 20)
    got = given_to(settings, limit)
    assert (got.connections, got.pool_connections) == (4096, 256)
    assert got.fitted(settings) == settings
    assert given_to(settings, limit - 1).connections < 4096


def test_of_1024_descriptors_clients_get_what_the_pools_and_the_admin_port_leave() -> None:
    got = given_to(PLAIN, 1024)
    assert got.connections > 300
    assert got.pool_connections > 200
    fitted = got.fitted(PLAIN)
    assert fitted.limits.connections == got.connections
    assert fitted.upstream.pool_connections == got.pool_connections
    assert fitted.limits.in_flight == PLAIN.limits.in_flight


def test_a_client_of_grpc_costs_three() -> None:
    got = given_to(GRPC, 1024)
    assert used_by(got, per_connection=3) < 1024
    assert got.connections < given_to(PLAIN, 1024).connections / 2


def test_hosts_that_requests_name_share_one_bound() -> None:
    many = Settings.model_validate({"backend": "pinecone", "upstream": {"url": "https://api.pinecone.io"}})
    got = given_to(many, 1024)
    assert got.pool_total * 2 < 512
    assert got.pool_connections == min(256, got.pool_total)
    assert given_to(many, 100_000).pool_total > 256


@pytest.mark.parametrize("limit", [1, 16, 40])
def test_a_limit_that_is_too_small_for_anything_still_leaves_one_of_each(limit: int) -> None:
    got = given_to(PLAIN, limit, in_use=30)
    assert (got.connections, got.pool_connections, got.pool_total) == (1, 1, 1)


@pytest.fixture
def _limits_restored() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("_limits_restored")
def test_the_soft_limit_is_raised_as_far_as_is_needed_and_not_beyond_the_hard_one() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    modest = Settings.model_validate({"limits": {"connections": 600}, "upstream": {"pool_connections": 10}})
    got = claim(modest)
    assert 600 < got.limit < 1024
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (got.limit, hard)
    assert got.connections == 600


def test_a_limit_that_may_not_be_raised_is_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(_: int, __: tuple[int, int]) -> None:
        raise PermissionError

    monkeypatch.setattr(resource, "getrlimit", lambda _: (512, 4096))
    monkeypatch.setattr(resource, "setrlimit", forbidden)
    got = claim(PLAIN)
    assert (got.limit, got.hard) == (512, 4096)
    assert got.connections < 512


def test_no_limit_is_one_that_is_never_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert claim(PLAIN).connections == 4096


def test_what_was_lowered_is_said_with_what_was_wanted(caplog: pytest.LogCaptureFixture) -> None:
    say(given_to(PLAIN, 1024), PLAIN)
    (record,) = caplog.records
    fields = record.__dict__["fields"]
    assert record.levelno == logging.WARNING
    assert "RLIMIT_NOFILE" in record.message
    assert (fields["connections_wanted"], fields["pool_connections_wanted"], fields["hard_limit"]) == (4096, 256, 1024)
    assert fields["connections"] == given_to(PLAIN, 1024).connections


def test_what_fits_needs_no_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    say(given_to(PLAIN, 100_000), PLAIN)
    assert caplog.records == []
