"""What is printed when the ports are open."""

from __future__ import annotations

from pathlib import Path

import pytest

from vecsieve.config.schema import Settings, TlsSettings
from vecsieve.proxy.process.talk import announce, announce_ports
from vecsieve.proxy.runtime.addresses import DataPort, Origin
from vecsieve.proxy.server import FIXED

TEXT = Settings.model_validate({"log": {"format": "text"}})


def test_an_address_is_printed_as_a_url(capsys: pytest.CaptureFixture[str]) -> None:
    announce("admin", "127.0.0.1", 9464, is_text=True)
    announce("listening", "::1", 1, over_tls=True, is_text=True)
    assert capsys.readouterr().out == (
        "vecsieve serve admin on http://127.0.0.1:9464\nvecsieve serve listening on https://[::1]:1\n"
    )


def test_each_index_is_printed_with_its_port_behind_the_main_one(capsys: pytest.CaptureFixture[str]) -> None:
    fixed, docs = Origin("https", "fixed.example.com"), Origin("https", "docs.example.com")
    data_ports = (
        DataPort("0.0.0.0", 0, fixed),
        DataPort("0.0.0.0", 8101, docs),
        DataPort("0.0.0.0", 8102, fixed),
        DataPort("::1", 6344, is_for_grpc=True),
    )
    announce_ports(data_ports, (6343, 8101, 8102, 6344), TEXT)
    assert capsys.readouterr().out == (
        "vecsieve serve listening on http://0.0.0.0:6343\n"
        "vecsieve serve index docs.example.com on http://0.0.0.0:8101\n"
        "vecsieve serve index fixed.example.com on http://0.0.0.0:8102\n"
        "vecsieve serve gRPC on http://[::1]:6344\n"
    )


def test_ports_that_speak_tls_are_printed_with_https(capsys: pytest.CaptureFixture[str]) -> None:
    data_ports = (DataPort("127.0.0.1", 0), DataPort("127.0.0.1", 8101, Origin("https", "docs.example.com")))
    announce_ports(data_ports, (6343, 8101), TEXT.model_copy(update={"tls": TlsSettings(certificate="a", key="b")}))
    assert capsys.readouterr().out == (
        "vecsieve serve listening on https://127.0.0.1:6343\n"
        "vecsieve serve index docs.example.com on https://127.0.0.1:8101\n"
    )


def test_a_full_disk_is_no_reason_not_to_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full").open("w")  # noqa: SIM115 - closing it is an error too
    monkeypatch.setattr("sys.stdout", full)
    announce("listening", "127.0.0.1", 6333, is_text=True)
    with pytest.raises(OSError, match="No space left"):
        full.close()


def test_every_setting_applies_at_once_or_is_named_after_a_reload() -> None:
    applied = {"mode", "policy", "rules", "canary", "shadow", "forbidden_overrides", "report_header"}
    fixed = {name.partition(".")[0] for name in FIXED}
    assert applied | fixed == Settings.model_fields.keys()
    assert not applied & fixed
