"""The run notices a test that passes directly alone, repeats the suite's random data, and leaves a checkout as it was."""

from __future__ import annotations

import argparse
import random
import zlib
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from congruence import run
from congruence.plugin import GRPC_PORT, REST, TRANSPORT, redirected
from congruence.run import CHECKOUT, Server, Suite, SuiteError, losses, main, read_report, repeated, server, unlike

# Two tests with the suite's own way to a server. The second one wants copies, which mode `on` leaves out.
SUITE = """
import random
import uuid

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

DRAWN = []


def remote(prefer_grpc=False):
    return QdrantClient(host="localhost", port=6333, timeout=30, prefer_grpc=prefer_grpc)


@pytest.fixture
def drawn():
    return (random.random(), np.random.random(), uuid.uuid4())


@pytest.mark.parametrize("again", [1, 2])
def test_data_is_drawn_anew(again, drawn):
    DRAWN.append((again, drawn, random.random()))
    assert DRAWN[0][1:] != DRAWN[-1][1:] or again == 1


@pytest.mark.parametrize("drawn_early", [random.random()])
def test_parameters(drawn_early):
    assert drawn_early == EXPECTED


def test_local_mode_stays_local():
    client = QdrantClient(":memory:")
    assert client.get_collections().collections == []


def test_equal_points_are_found():
    client = remote()
    client.create_collection("c", models.VectorParams(size=2, distance=models.Distance.COSINE))
    client.upsert("c", [models.PointStruct(id=n, vector=[1.0, 1.0 if n < 6 else 3.0 + n]) for n in range(30)])
    found = client.query_points("c", [1.0, 1.0], limit=4).points
    client.delete_collection("c")
    assert {point.id for point in found} <= {0, 1, 2, 3, 4, 5}
"""


NO_SERVER = ("--rest", "http://127.0.0.1:1", "--grpc", "http://127.0.0.1:2")  # for runs that ask none anything


@pytest.fixture(autouse=True)
def _no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite's pytest loads none but the one it is told of: all others take a second of CPU."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p pytest_timeout")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "tests" / "congruence_tests"
    folder.mkdir(parents=True)
    random.seed(zlib.crc32(b"tests/congruence_tests/test_two.py"))
    (folder / "test_two.py").write_text(f"EXPECTED = {random.random()!r}\n{SUITE}", encoding="utf-8")
    return tmp_path


def test_a_test_that_passes_directly_alone_is_told(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(checkout.rglob("*"))
    monkeypatch.setattr(run, "REPEATS", 1)  # each is a process that loads the official client
    assert main(["--checkout", str(checkout), "--mode", "on", "--transport", "grpc"]) == 1
    output = capsys.readouterr().out
    assert "grpc direct: {'passed': 5}" in output
    assert "grpc on: {'passed': 4, 'failed': 1}" in output
    lines = [line for line in output.splitlines() if line.startswith("passes directly")]
    assert lines == ["passes directly, not over grpc in mode on: test_two::test_equal_points_are_found"]
    failed = [line for line in output.splitlines() if line.startswith("  failed: ")]
    assert len(failed) == 1
    assert failed[0].startswith("  failed: test_two::test_equal_points_are_found: assert ")
    assert sorted(checkout.rglob("*")) == before


def test_a_run_without_losses_succeeds(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, list[str]]] = []

    def passed(_checkout: Path, _reached: Server, transport: str, more: Sequence[str], *_only: object) -> Suite:
        ran.append((transport, list(more)))
        return Suite({"a": "passed", "b": "skipped"}, {})

    monkeypatch.setattr(run, "suite", passed)
    monkeypatch.setattr(run, "through", lambda direct, _: nullcontext(direct))
    options = ["--checkout", str(checkout), *NO_SERVER, "--mode", "on", "--transport", "rest", "--", "-k", "drawn"]
    assert main(options) == 0
    assert ran == [("rest", ["-k", "drawn"])] * 2, "directly and in the mode"


def test_a_suite_that_does_not_run_is_a_failure(checkout: Path) -> None:
    options = ["--checkout", str(checkout), *NO_SERVER, "--mode", "direct", "--", "-k", "nothing_of_this_name"]
    assert main(options) == 1


def test_a_checkout_that_is_none_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CHECKOUT, raising=False)
    assert main([]) == 1
    assert f"{CHECKOUT} is not set" in capsys.readouterr().out
    assert main(["--checkout", str(tmp_path)]) == 1
    assert "no tests/congruence_tests there" in capsys.readouterr().out


def test_a_server_of_ones_own_has_both_addresses(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--checkout", str(checkout), "--rest", "http://127.0.0.1:1"]) == 1
    assert "--rest needs --grpc" in capsys.readouterr().out


@pytest.mark.parametrize("grpc", ["http://127.0.0.1:2", "127.0.0.1:2"])
def test_an_address_for_grpc_may_lack_its_scheme(grpc: str) -> None:
    with server(argparse.Namespace(rest="http://127.0.0.1:1", grpc=grpc)) as reached:
        assert reached == Server("http://127.0.0.1:1", "http://127.0.0.1:2")


def test_a_remote_client_goes_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ((REST, "http://127.0.0.1:1"), (GRPC_PORT, "2"), (TRANSPORT, "rest")):
        monkeypatch.setenv(name, value)
    there = {"url": "http://127.0.0.1:1", "grpc_port": 2}
    assert redirected({"host": "localhost", "port": 6333, "timeout": 3}) == {
        **there,
        "timeout": 3,
        "prefer_grpc": False,
    }
    assert redirected({"prefer_grpc": True}) == {**there, "prefer_grpc": True}
    monkeypatch.setenv(TRANSPORT, "grpc")
    assert redirected({"prefer_grpc": False}) == {**there, "prefer_grpc": True}
    assert redirected({"location": ":memory:"}) == {"location": ":memory:"}
    assert redirected({"path": "/a"}) == {"path": "/a"}


def test_a_report_is_read_and_an_error_is_a_failure(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    cases = ("", "<failure/>", '<error message="no server&#10;and more"/>', "<skipped/>")
    cases_xml = "".join(f'<testcase classname="a.test_b" name="t{n}">{part}</testcase>' for n, part in enumerate(cases))
    report.write_text(f"<testsuites><testsuite>{cases_xml}</testsuite></testsuites>", encoding="utf-8")
    outcomes = read_report(report)
    assert outcomes.causes == {"test_b::t1": "no message", "test_b::t2": "no server"}
    assert outcomes.outcomes == {
        "test_b::t0": "passed",
        "test_b::t1": "failed",
        "test_b::t2": "failed",
        "test_b::t3": "skipped",
    }
    report.write_text("<testsuites/>", encoding="utf-8")
    with pytest.raises(SuiteError, match="no tests"):
        read_report(report)


def test_a_test_that_did_not_run_did_not_pass() -> None:
    assert losses({"a": "passed", "b": "passed", "c": "failed"}, {"a": "passed", "c": "failed"}) == ["b"]
    assert losses({"a": "failed"}, {"a": "passed"}) == []


def test_a_test_that_passes_when_it_is_repeated_is_not_lost() -> None:
    runs: list[list[str]] = []

    def again(names: Sequence[str]) -> Suite:
        runs.append(list(names))
        return Suite({"a": "failed", "b": "passed" if len(runs) == 2 else "failed"}, {})

    assert repeated(["a", "b"], again) == ["a"]
    assert runs == [["a", "b"], ["a", "b"]]
    assert repeated([], again) == []


def test_a_run_that_leaves_a_test_out_is_told_whatever_it_said_directly() -> None:
    direct = {"a": "passed", "b": "failed", "c": "skipped"}
    assert unlike(direct, direct) == []
    assert unlike(direct, {"a": "failed", "b": "passed", "c": "skipped"}) == []
    assert unlike(direct, {"a": "passed"}) == ["b"]
    assert unlike(direct, {"a": "passed", "b": "skipped", "c": "skipped"}) == ["b"]
    assert unlike({"a": "passed"}, {"a": "passed", "b": "passed"}) == ["b"]


def test_a_mode_that_ran_fewer_tests_than_the_server_itself_is_a_failure(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = iter([Suite({"a": "passed", "b": "failed"}, {"b": "no server"}), Suite({"a": "passed"}, {})])
    monkeypatch.setattr(run, "suite", lambda *_, **__: next(ran))
    monkeypatch.setattr(run, "through", lambda direct, _: nullcontext(direct))
    assert main(["--checkout", str(checkout), *NO_SERVER, "--mode", "off", "--transport", "grpc"]) == 1
    assert "grpc off did not run the tests of grpc direct: 1 differ, such as b" in capsys.readouterr().out
