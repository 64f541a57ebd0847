"""The command line's own process: it starts, is told things by signals, and ends."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from support.network.http_scripts import Script, in_a_thread
from support.process.commands import forked_command
from support.process.stack import Answer, Command, command, eventually, exchange

CANARY = "c4nary-s3cret-7f3a"


# Longer than any machine stalls, and much shorter than the time to drain that tests set, or a request that is never answered.
SECONDS = 60.0
PATIENT = {"VECSIEVE_LIMITS_DRAIN_SECONDS": "1000"}


class Slow(Script):
    """A database that answers `/slow` only when it may."""

    began, may_end = threading.Event(), threading.Event()

    def do_GET(self) -> None:
        if self.path == "/slow":
            self.began.set()
            self.may_end.wait(10 * SECONDS)
        with suppress(OSError):  # whoever asked may have been ended
            self.answer(b"ok")

    do_POST = do_PUT = do_GET  # noqa: N815 - the standard library finds them by these names


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with in_a_thread(Slow) as url:
        yield url
        Slow.may_end.set()


@contextmanager
def serving(
    database: str, *arguments: str, environment: dict[str, str] | None = None
) -> Iterator[tuple[Command, str, str]]:
    listeners = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    with command("serve", "--upstream", database, *listeners, *arguments, environment=environment) as running:
        urls = running.addresses(2)
        yield running, urls["serve"], urls["admin"]


def test_the_admin_pages_answer_and_the_data_port_forwards_theirs(database: str) -> None:
    with serving(database) as (_, data, admin):
        assert exchange(admin, "GET", "/livez").status == 200
        assert exchange(admin, "GET", "/readyz").status == 200
        status = json.loads(exchange(admin, "GET", "/status").body)
        assert (status["state"], status["backend"], status["breaker"]) == ("ready", "qdrant", "closed")
        assert status["mode"] == "on", "that of the default policy, too"
        assert status["upstream"] == database.removeprefix("http://")
        assert b"vecsieve_requests_total" in exchange(admin, "GET", "/metrics").body
        assert exchange(admin, "GET", "/collections").status == 404
        assert exchange(data, "GET", "/status").body == b"ok", "the database's own page, not ours"


def test_readiness_never_depends_on_the_database() -> None:
    with serving("http://127.0.0.1:9") as (_, data, admin):
        assert exchange(data, "GET", "/").status == 502
        assert exchange(admin, "GET", "/readyz").status == 200


def test_the_log_says_why_the_database_gave_no_answer() -> None:
    with serving("http://127.0.0.1:9") as (running, data, _):
        body = b'{"query": [1.0], "limit": 3}'
        assert exchange(data, "POST", "/collections/docs/points/query", body).status == 502
        running.wait_for('"access"')
        line = json.loads(next(line for line in running.output().splitlines() if '"access"' in line))
        assert line["cause"] == "VecSieve cannot reach the database at 127.0.0.1:9: connection refused"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_start_and_an_end_are_lines_of_the_log(database: str, workers: str) -> None:
    with serving(database, "--mode", "on", "--workers", workers) as (running, data, _):
        running.wait_for("the database accepts connections")
        body = b'{"query": [1.0], "limit": 3}'
        assert exchange(data, "POST", "/collections/docs/points/query", body).status == 200
        assert running.close() == 0
        lines = [json.loads(line) for line in running.output().splitlines() if line.startswith("{")]
        (start,) = [line for line in lines if line["msg"] == "serving"]
        assert (start["mode"], start["upstream"]) == ("on", database.removeprefix("http://"))
        assert [line["msg"] for line in lines if line["msg"].startswith("1 search")] != [], lines


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_dead_database_does_not_hold_up_the_start_and_is_named(workers: str) -> None:
    with serving("http://127.0.0.1:9", "--workers", workers) as (running, _, admin):
        running.wait_for("Is upstream.url right, and does the database run?")
        assert exchange(admin, "GET", "/livez").status == 200
        assert "VecSieve cannot reach the database at 127.0.0.1:9: connection refused" in running.output()


def test_a_terminal_gets_a_banner_text_and_a_summary(database: str) -> None:
    ours, theirs = pty.openpty()
    arguments = ["serve", "--upstream", database, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    process = subprocess.Popen([sys.executable, "-m", "vecsieve.proxy", *arguments], stdout=theirs, stderr=theirs)
    os.close(theirs)
    output = b""
    try:
        while b"accepts connections" not in output:
            output += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=SECONDS) == 0
        while b"No search arrived" not in output:
            output += os.read(ours, 65536)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    text = output.decode()
    assert "vecsieve serve listening on http://127.0.0.1:" in text
    assert f"database  {database}" in text
    assert "mode on, backend qdrant" in text
    assert "{" not in text.replace("{$", ""), "JSON in a terminal"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_without_a_terminal_every_line_is_json_and_none_is_noise(database: str, workers: str) -> None:
    """Two plain lines stood among JSON, and the first line of every start said that RLIMIT_NOFILE is enough."""
    with serving(database, "--workers", workers) as (running, data, _):
        running.wait_for("accepts connections")
        running.process.send_signal(signal.SIGTERM)
        running.process.wait(SECONDS)
        lines = [json.loads(line) for line in running.output().splitlines()]
    assert lines[0]["msg"] == f"vecsieve serve listening on {data}"
    assert not [line for line in lines if "RLIMIT" in line["msg"]]


def test_the_log_can_be_text_or_only_warnings(database: str) -> None:
    with serving(database, environment={"VECSIEVE_LOG_FORMAT": "text"}) as (running, data, _):
        running.wait_for("accepts connections")
        text = running.output()
        assert text.startswith(f"vecsieve serve listening on {data}\n")
        assert "{" not in text
        quiet = {"VECSIEVE_LOG_LEVEL": "warning"}
        listen = ("--listen", "127.0.0.1:0", "--admin", data.removeprefix("http://"))  # in use: the process ends
        done = forked_command("serve", "--upstream", database, *listen, **quiet)
    assert (done.returncode, done.stdout) == (1, "")
    assert "is in use (admin)" in done.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_changed_settings_file_is_read_without_a_signal(database: str, tmp_path: Path, workers: str) -> None:
    """`helm upgrade --set settings.mode=…` changed nothing. A ConfigMap is replaced by renaming, and a bad one changes nothing."""
    file, fresh = tmp_path / "settings.yaml", tmp_path / "fresh.yaml"
    file.write_text("mode: shadow\n")
    with serving(database, "--config", str(file), "--workers", workers) as (running, _, admin):
        assert json.loads(exchange(admin, "GET", "/status").body)["mode"] == "shadow"
        for text, message in (("mode: of\n", "reload failed"), ("mode: off\n", "settings reloaded")):
            fresh.write_text(text)
            fresh.replace(file)
            running.wait_for(message)
        until_status(admin, "mode", "off")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_goes_wrong_before_the_listeners_is_a_line_of_the_log_as_any_other(
    database: str, tmp_path: Path, workers: str
) -> None:
    environment = {"VECSIEVE_JOURNAL_PATH": str(tmp_path / "none" / "journal.db"), "VECSIEVE_LOG_FORMAT": "json"}
    with serving(database, "--workers", workers, environment=environment) as (running, _, _):
        running.wait_for("the database accepts connections")
        lines = [json.loads(line) for line in running.output().splitlines()]
    first = lines[0]
    assert (first["level"], first["logger"]) == ("warning", "vecsieve.journal")
    assert first["msg"].startswith(f"the journal cannot be used: {tmp_path}/none/journal.db: saw no such file")
    assert len(lines) == len({line["msg"] for line in lines})


def test_sigterm_while_idle_ends_it_at_once_and_cleanly(database: str) -> None:
    with serving(database, environment=PATIENT) as (running, _, _):
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(SECONDS) == 0


def test_sigterm_lets_the_request_in_flight_finish(database: str) -> None:
    with serving(database, environment=PATIENT) as (running, data, _), slow_searches(data) as answers:
        running.process.send_signal(signal.SIGTERM)
        running.wait_until_refused(data)
        Slow.may_end.set()
        assert running.process.wait(SECONDS) == 0
    assert [(answer.status, answer.body) for answer in answers] == [(200, b"ok")]


def test_the_second_sigterm_ends_it_now(database: str) -> None:
    with serving(database, environment=PATIENT) as (running, data, _), slow_searches(data):
        running.process.send_signal(signal.SIGTERM)
        running.wait_until_refused(data)
        running.process.send_signal(signal.SIGTERM)
        running.process.wait(SECONDS)


def test_a_request_that_outlives_the_drain_is_cut_and_the_process_ends(database: str) -> None:
    with (
        serving(database, environment={"VECSIEVE_LIMITS_DRAIN_SECONDS": "0.2"}) as (running, data, _),
        slow_searches(data),
    ):
        running.process.send_signal(signal.SIGTERM)
        running.process.wait(SECONDS)


@contextmanager
def slow_searches(data: str) -> Iterator[list[Answer]]:
    """A request that the database has and does not answer until it may; the answer, if one came, behind the block."""
    answers: list[Answer] = []

    def ask() -> None:
        with suppress(OSError, HTTPException):
            answers.append(exchange(data, "GET", "/slow"))

    Slow.began.clear()
    Slow.may_end.clear()
    thread = threading.Thread(target=ask)
    thread.start()
    try:
        assert Slow.began.wait(SECONDS)
        yield answers
    finally:
        Slow.may_end.set()
        thread.join()


def test_sighup_takes_good_settings_and_refuses_bad_ones_with_a_line_and_a_metric(
    database: str, tmp_path: Path
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("report_header: true\n")
    with serving(database, "--config", str(file)) as (running, _, admin):
        before = json.loads(exchange(admin, "GET", "/status").body)["settings_hash"]
        file.write_text("report_header: false\n")
        running.process.send_signal(signal.SIGHUP)
        running.wait_for("settings reloaded")
        after = json.loads(exchange(admin, "GET", "/status").body)["settings_hash"]
        assert after != before
        file.write_text("report_headr: false\n")
        running.process.send_signal(signal.SIGHUP)
        running.wait_for("reload failed")
        assert json.loads(exchange(admin, "GET", "/status").body)["settings_hash"] == after
        assert b"vecsieve_config_last_reload_successful 0.0" in exchange(admin, "GET", "/metrics").body
        assert 'Did you mean \\"report_header\\"?' in running.output()


# SIGHUP comes when the first module of the command line is loaded, long before the settings are read.
HUNG_UP = """
import os, signal, sys
class Signalling:
    def find_spec(self, name, *_):
        if name == "vecsieve.proxy.cli":
            os.kill(os.getpid(), signal.SIGHUP)
sys.meta_path.insert(0, Signalling())
from vecsieve.proxy.__main__ import main
main()
"""


@pytest.mark.parametrize(("command_name", "code"), [("serve", 2), ("check", -signal.SIGHUP)])
def test_sighup_before_the_settings_are_read_ends_no_proxy(tmp_path: Path, command_name: str, code: int) -> None:
    """Other commands end with the terminal."""
    program = [sys.executable, "-c", HUNG_UP, command_name, "--config", str(tmp_path / "none.yaml")]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == code, done.stderr
    scripts = tomllib.loads(Path("pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"vecsieve": "vecsieve.proxy.__main__:main"}


def status(admin: str) -> dict[str, Any]:
    page: dict[str, Any] = json.loads(exchange(admin, "GET", "/status").body)
    return page


@pytest.mark.parametrize("workers", [1, 2])
def test_the_status_shows_a_failed_reload_until_one_succeeds(database: str, tmp_path: Path, workers: int) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("mode: shadow\n")
    with serving(database, "--config", str(file), "--workers", str(workers)) as (running, _, admin):
        assert status(admin)["failed_reload"] is None
        begun = time.time()
        states: list[dict[str, Any]] = []
        for content, words in (("mode: shadwo\n", "wanted on, shadow"), ("mode: [on\n", "wanted YAML")):
            replace_file(file, content)
            running.wait_for(words)
            states.append(until_failed(admin, words))
        since = datetime.fromisoformat(states[0]["since"]).timestamp()
        assert begun - 1 <= since <= time.time()
        assert states[1]["since"] == states[0]["since"], "since the first of them"
        expected = 'mode: wanted on, shadow, off or none; saw "shadwo". Did you mean "shadow"?'
        assert states[0]["problems"] == [f"{file}:1: {expected}"]
        (problem,) = states[1]["problems"]
        assert problem.startswith(f"{file}:2:1: wanted YAML; saw this: "), "of the last one"
        replace_file(file, "mode: shadow\n")
        until_status(admin, "failed_reload", None)
        running.wait_for("settings reloaded")
        counts = [running.output().count(words) for words in ("wanted on, shadow", "wanted YAML", "settings reloaded")]
        assert counts == [1, 1, 1], "for all workers together"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_status_after_sighup_is_of_the_settings_that_were_read(database: str, tmp_path: Path, workers: str) -> None:
    """The file is as old and as large as before, as rsync may leave it: nobody sees the change who only looks at it."""
    file = tmp_path / "settings.yaml"
    file.write_text("mode: shadow\n")
    before = file.stat()
    with serving(database, "--config", str(file), "--workers", workers) as (running, _, admin):
        file.write_text("mode: off   \n")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        running.process.send_signal(signal.SIGHUP)
        running.wait_for("settings reloaded")
        until_status(admin, "mode", "off")
        assert f'"hash":"{status(admin)["settings_hash"]}"' in running.output()


def until_reloaded(running: Command, count: int) -> None:
    """Of several workers one writes it to the log."""
    eventually(running.output, lambda seen: seen.count("settings reloaded") >= count)


def replace_file(file: Path, content: str) -> None:
    """So that no reader finds it empty."""
    fresh = file.with_suffix(".fresh")
    fresh.write_text(content)
    fresh.replace(file)


def until_failed(admin: str, words: str) -> dict[str, Any]:
    """Every worker reads the settings by itself."""
    failure: dict[str, Any] = eventually(
        lambda: status(admin)["failed_reload"], lambda failed: failed and words in failed["problems"][0]
    )
    return failure


@pytest.mark.parametrize("workers", [1, 2])
def test_settings_that_take_a_restart_are_named_until_then(database: str, tmp_path: Path, workers: int) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("limits: {connections: 100}\n")
    with serving(database, "--config", str(file), "--workers", str(workers)) as (running, _, admin):
        assert status(admin)["needs_restart"] == []
        for number, content in enumerate(("limits: {connections: 200}", "limits: {connections: 200}\nmode: off"), 1):
            replace_file(file, content)
            until_reloaded(running, number)
            until_status(admin, "needs_restart", ["limits"])
        assert running.output().count("these changed settings need a restart: limits") == 2
        file.write_text("limits: {connections: 100}\n")
        until_status(admin, "needs_restart", [])


def until_status(admin: str, name: str, value: object) -> None:
    """The admin process reads the file by itself."""
    eventually(lambda: status(admin)[name], lambda seen: seen == value)


def test_an_address_in_use_is_a_message_and_exit_1(database: str) -> None:
    with serving(database) as (_, data, _):
        address = data.removeprefix("http://")
        done = forked_command("serve", "--listen", address, "--upstream", database)
        assert done.returncode == 1
        assert done.stderr == f"{address} is in use (listen). Choose another with --listen HOST:PORT.\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "--workers", "0"),
        ("serve", "--listen", "nowhere"),
        ("serve", "--upstream", "ftp://x"),
        ("check", "--config", "/nonexistent"),
    ],
)
def test_bad_settings_are_a_message_and_exit_2(arguments: tuple[str, ...]) -> None:
    with command(*arguments) as refused:
        assert refused.process.wait(SECONDS) == 2
        assert "wanted" in refused.output()
        assert "Traceback" not in refused.output()


def test_check_prints_the_effective_settings_where_asked_and_exits_0(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("policy:\n  threshold:\n    fixed: 0.15\n")
    done = forked_command("check", "--show", "--config", str(file))
    assert done.returncode == 0
    assert "fixed: 0.15" in done.stdout


def test_a_secret_anywhere_in_a_request_appears_in_no_log_metric_status_page_or_error(database: str) -> None:
    body = json.dumps({"query": {"nearest": [0.1, 0.2]}, "limit": 3, "filter": {"must": [{"key": CANARY}]}}).encode()
    search = f"/collections/{CANARY}/points/query?key={CANARY}"
    with serving(database) as (running, data, admin):
        answers = [
            exchange(
                data,
                "GET",
                f"/{CANARY}?api_key={CANARY}",
                headers={"api-key": CANARY, "Authorization": f"Bearer {CANARY}"},
            ).body,
            exchange(data, "POST", search, body, {"api-key": CANARY, "Cookie": CANARY}).body,
            exchange(data, "POST", search, body, {"x-vecsieve-mode": CANARY}).body,
            exchange(data, "POST", search, body, {f"x-vecsieve-{CANARY}": "1"}).body,
            raw(data, f"GET /{CANARY} HTTP/1.1\r\nHost: x\r\napi-key: {CANARY}\x01\r\n\r\n"),
            raw(data, f"GET http://{CANARY}/ HTTP/1.1\r\nHost: {CANARY}\r\n\r\n"),
            raw(data, f"GET / HTTP/1.1\r\nHost: x\r\napi-key: {CANARY}{'a' * 70_000}\r\n\r\n"),
            raw(data, f"{CANARY} / HTTP/1.1\r\nHost: x\r\n\r\n"),
            raw(
                data,
                f"POST {search} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\napi-key: {CANARY}\r\n\r\nabc",
            ),
            raw(data, f"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{CANARY}\r\n"),
            exchange(admin, "GET", "/metrics").body,
            exchange(admin, "GET", "/status").body,
            exchange(admin, "GET", f"/{CANARY}", headers={"Authorization": CANARY}).body,
            raw(admin, f"GET /{CANARY} HTTP/1.1\r\nHost: x\r\napi-key: {CANARY}\x01\r\n\r\n"),
        ]
        assert [index for index, answer in enumerate(answers) if CANARY.encode() in answer] == []
    with serving("http://127.0.0.1:9") as (dead, data, _):
        assert CANARY.encode() not in exchange(data, "POST", search, body, {"api-key": CANARY}).body
        dead.close()
        assert CANARY not in dead.output()
    running.close()
    assert CANARY not in running.output()
    assert '"msg":"access"' in dead.output(), "something was logged at all"


def raw(url: str, data: str) -> bytes:
    """Send bytes as they are; whatever comes back."""
    import socket
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    received = b""
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=SECONDS) as connection:
        connection.sendall(data.encode("latin-1"))
        connection.shutdown(socket.SHUT_WR)
        try:
            while piece := connection.recv(65_536):
                received += piece
        except OSError:
            return received
    return received
