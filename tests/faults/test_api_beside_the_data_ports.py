"""The API's port of a whole process: beside the data ports, with and without workers, to its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.deploy.expositions import counted
from support.network.api import TOKEN, token_file
from support.network.certificates import make_certificates
from support.process.stack import command, eventually, exchange

NOWHERE = "http://127.0.0.1:1"
ARGUMENTS = ("serve", "--upstream", NOWHERE, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_every_worker_serves_the_api_and_its_requests_are_counted_together(workers: str) -> None:
    with command(*ARGUMENTS, "--api", "127.0.0.1:0", "--workers", workers) as running:
        urls = running.addresses(3)
        for _ in range(6):
            answer = exchange(urls["API"], "GET", "/health")
            assert (answer.status, json.loads(answer.body)["status"]) == (200, "ok")
        # A request is counted when it ends, which is just after its client has the answer.
        health = {"route": "health", "status": "2xx"}
        eventually(lambda: counted(urls["admin"], "api_requests_total", **health), lambda seen: seen == 6)
        assert exchange(urls["serve"], "GET", "/health").status == 502, "a data port answers nothing of ours"
        assert running.close() == 0


def test_without_the_option_there_is_no_port() -> None:
    with command(*ARGUMENTS) as running:
        assert set(running.addresses(2)) == {"serve", "admin"}


def test_an_address_that_others_can_reach_is_refused_without_a_token(tmp_path: Path) -> None:
    with command(*ARGUMENTS, "--api", "0.0.0.0:0") as running:
        running.process.wait(30)
        assert running.process.returncode == 2
        assert "api.listen" in running.output()
    token = {"VECSIEVE_API_TOKEN_FILE": token_file(tmp_path)}
    with command(*ARGUMENTS, "--api", "0.0.0.0:0", environment=token) as running:
        url = running.addresses(3)["API"].replace("0.0.0.0", "127.0.0.1")
        assert exchange(url, "GET", "/health").status == 401
        assert exchange(url, "GET", "/health", headers={"Authorization": f"Bearer {TOKEN}"}).status == 200


def test_where_the_data_ports_have_tls_the_api_has_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = make_certificates(tmp_path)
    tls = {"VECSIEVE_TLS_CERTIFICATE": str(files.leaf), "VECSIEVE_TLS_KEY": str(files.key)}
    with command(*ARGUMENTS, "--api", "127.0.0.1:0", environment=tls) as running:
        monkeypatch.setenv("SSL_CERT_FILE", str(files.authority))
        url = running.addresses(3)["API"]
        assert url.startswith("https://")
        assert exchange(url, "GET", "/health").status == 200
