"""TLS on our own ports: both protocols behind one certificate, a new one on reload, a wrong one told before anything starts."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from qdrant_client import AsyncQdrantClient, models

from support.network.certificates import Certificates, make_certificates
from support.process.commands import forked_command
from support.process.running import Running, running
from support.process.stack import command, eventually, exchange
from support.qdrant.embedded import embedded_server
from vecsieve.config.problems import SettingsError
from vecsieve.config.schema import Settings

VECTOR = [0.1, 0.2, 0.3, 0.4]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls"))


def tls(certificates: Certificates) -> dict[str, str]:
    return {"certificate": str(certificates.leaf), "key": str(certificates.key)}


def trusting(certificates: Certificates) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificates.authority))


async def rest_version(run: Running, trust: ssl.SSLContext) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"https://127.0.0.1:{run.port}/", ssl=trust) as reply:
        return str((await reply.json())["version"])


async def test_rest_and_grpc_are_answered_on_one_tls_port_and_on_grpcs_own(certificates: Certificates) -> None:
    async with embedded_server(with_grpc=True) as server:
        direct = AsyncQdrantClient(url=server.url, check_compatibility=False)
        size = models.VectorParams(size=4, distance=models.Distance.COSINE)
        await direct.create_collection("c", vectors_config=size)
        await direct.upsert("c", points=[models.PointStruct(id=i, vector=VECTOR, payload={}) for i in range(4)])
        other = models.PointStruct(id=9, vector=[0.4, -0.3, 0.2, -0.1], payload={})
        await direct.upsert("c", points=[other])
        await direct.close()
        settings = {"upstream": server.grpc_url, "listen": "127.0.0.1:0"}
        async with running(server.url, grpc=settings, tls=tls(certificates)) as run:
            assert await rest_version(run, trusting(certificates)) == "1.19.0"
            for port in (run.port, run.grpc_port):
                credentials = grpc.ssl_channel_credentials(certificates.authority.read_bytes())
                async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
                    from qdrant_client.grpc import (  # generated: slow to load
                        PointsStub,
                        Query,
                        QueryPoints,
                        VectorInput,
                    )
                    from qdrant_client.grpc.points_pb2 import DenseVector

                    nearest = Query(nearest=VectorInput(dense=DenseVector(data=VECTOR)))
                    stub = PointsStub(channel)  # type: ignore[no-untyped-call]  # - generated
                    reply = await stub.Query(QueryPoints(collection_name="c", query=nearest, limit=2))
                    assert [point.id.num for point in reply.result][1] == 9


async def test_a_plain_client_of_a_tls_port_gets_nothing(certificates: Certificates) -> None:
    plain = aiohttp.ClientSession()
    async with embedded_server() as server, running(server.url, tls=tls(certificates)) as run, plain as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://127.0.0.1:{run.port}/")


async def test_a_reload_shows_new_connections_what_the_files_hold_now(
    certificates: Certificates, tmp_path: Path
) -> None:
    files = {name: tmp_path / name for name in ("leaf", "key")}
    shutil.copy(certificates.leaf, files["leaf"])
    shutil.copy(certificates.key, files["key"])
    (tmp_path / "new").mkdir()
    new = make_certificates(tmp_path / "new")
    settings = {"certificate": str(files["leaf"]), "key": str(files["key"])}
    async with embedded_server() as server, running(server.url, tls=settings) as run:
        fresh = Settings.model_validate({"tls": settings})
        shutil.copy(new.leaf, files["leaf"])
        with pytest.raises(SettingsError, match="the key of another certificate"):
            run.process.reload(fresh)
        await rest_version(run, trusting(certificates))
        shutil.copy(new.key, files["key"])
        run.process.reload(fresh)
        await rest_version(run, trusting(new))


def test_a_certificate_that_is_not_there_ends_the_command_with_2(tmp_path: Path) -> None:
    config = tmp_path / "vecsieve.yaml"
    config.write_text(f"workers: 2\ntls:\n  certificate: {tmp_path}/none.pem\n  key: {tmp_path}/none.key\n")
    done = forked_command("serve", "--config", str(config))
    assert done.returncode == 2
    assert "tls.certificate: wanted a readable PEM file" in done.stderr
    assert "none.pem: No such file" in done.stderr


# The files were good when the settings were checked, and are broken when the listener begins.
UNCHECKED = "from vecsieve.proxy import cli, server; server.read_files = lambda _: None; cli.main()"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_certificate_that_breaks_during_the_start_ends_it_with_2_and_the_reason(tmp_path: Path, workers: str) -> None:
    config = tmp_path / "vecsieve.yaml"
    config.write_text(f"tls: {{certificate: {tmp_path}/none.pem, key: {tmp_path}/none.key}}\n")
    where = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", workers)
    program = [sys.executable, "-c", UNCHECKED, "serve", "--config", str(config), *where]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    output = done.stdout + done.stderr
    assert "tls.certificate: wanted a readable PEM file with the certificate, its issuers after it; saw" in output
    assert f"{tmp_path}/none.pem: No such file" in output


def test_a_fault_of_ours_during_the_start_of_a_worker_is_in_the_log() -> None:
    program = "from vecsieve.proxy import cli, server; server.Process = None; cli.main()"
    where = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "2")
    done = subprocess.run(
        [sys.executable, "-c", program, "serve", *where], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 70
    # The first worker that fails ends the start, and with it the other one.
    assert re.search('"msg":"a child process failed","place":[01],"error":"TypeError at ', done.stdout), done.stdout


def test_a_worker_that_cannot_start_again_says_why_and_does_when_it_can(
    certificates: Certificates, tmp_path: Path
) -> None:
    leaf, config = tmp_path / "leaf", tmp_path / "vecsieve.yaml"
    shutil.copy(certificates.leaf, leaf)
    config.write_text(f"tls: {{certificate: {leaf}, key: {certificates.key}}}\n")
    where = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "2")
    with command("serve", "--config", str(config), *where) as running_command:
        admin = running_command.addresses(2)["admin"]
        first = until_both_are_ready(admin)[0]["pid"]
        leaf.write_text("no certificate")
        os.kill(first, signal.SIGKILL)
        running_command.wait_for("a process cannot start: tls.certificate: wanted a readable PEM file")
        shutil.copy(certificates.leaf, leaf)
        assert until_both_are_ready(admin)[0]["pid"] != first


def until_both_are_ready(admin: str) -> list[dict[str, Any]]:
    def workers() -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = json.loads(exchange(admin, "GET", "/status").body)["workers"]
        return listed

    return eventually(workers, lambda seen: [worker["state"] for worker in seen] == ["ready", "ready"])


def test_settings_that_a_certificate_refuses_are_not_those_that_the_status_shows(
    certificates: Certificates, tmp_path: Path
) -> None:
    """Workers read it, and refuse all of the new settings; the admin process shows what is in force."""
    leaf, config = tmp_path / "leaf", tmp_path / "vecsieve.yaml"
    shutil.copy(certificates.leaf, leaf)
    ports = f"tls: {{certificate: {leaf}, key: {certificates.key}}}\n"
    config.write_text(f"mode: shadow\n{ports}")
    where = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "2")
    with command("serve", "--config", str(config), *where) as running_command:
        admin = running_command.addresses(2)["admin"]
        until_both_are_ready(admin)
        leaf.write_text("no certificate")
        config.write_text(f"mode: off\n{ports}")
        running_command.wait_for("reload failed")
        status = json.loads(exchange(admin, "GET", "/status").body)
    assert status["mode"] == "shadow"
    (problem,) = status["failed_reload"]["problems"]
    assert problem.startswith("tls.certificate: wanted a readable PEM file")
