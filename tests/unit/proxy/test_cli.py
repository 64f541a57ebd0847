"""The command line's own words: what is missing, what failed, what it takes."""

from __future__ import annotations

import atexit
import gc
import json
import os
import platform
import re
import ssl
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from unittest import mock

import pytest
import yaml
from aiohttp import http_parser

from support.network.certificates import make_certificates
from vecsieve.config.schema import Settings
from vecsieve.proxy.cli import COMMANDS, main

Refused = Callable[..., tuple[object, str, str]]


def vecsieve(*arguments: str, before: str = "pass") -> subprocess.CompletedProcess[str]:
    """In a process of its own: for what is loaded, or fails, on the way."""
    program = f"import sys; {before}; sys.argv[1:] = {list(arguments)!r}; from vecsieve.proxy.cli import main; main()"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Refused]:
    """The command line in this process, for what ends before anything begins: its exit status, what it said, what it complained of."""

    def run(*arguments: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["vecsieve", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    with mock.patch.dict(os.environ):
        yield run


def test_a_missing_extra_is_named_with_the_way_to_get_it() -> None:
    done = vecsieve("demo", before="sys.modules['qdrant_edge'] = None")
    assert done.returncode == 1
    assert "qdrant_edge" in done.stderr + done.stdout
    assert "pip install -e '.[demo]'" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_command_that_ends_leaves_what_it_loaded_to_the_system(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_exit: list[object] = []
    monkeypatch.setattr(atexit, "register", at_exit.append)
    assert refused("--version")[0] == 0
    assert at_exit == [gc.freeze]


def test_an_unexpected_failure_is_one_line_without_a_traceback(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: object) -> int:
        raise RuntimeError("broke")

    monkeypatch.setattr("vecsieve.proxy.server.run", broken)
    assert refused("serve") == (1, "", "vecsieve: RuntimeError: broke\n")


@pytest.mark.parametrize("ports", [("8101",), ("8101=a", "8101=b"), ("8101=https://u:hunter2@a", "x")])
def test_ports_of_indexes_are_pairs_each_once(
    ports: tuple[str, ...], refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vecsieve.proxy.server.run", lambda **_: 0)  # what is not refused fails here; it does not serve
    code, _out, err = refused(
        "serve", "--backend", "pinecone", *(part for port in ports for part in ("--index-port", port))
    )
    assert code == 2
    assert "PORT=HOST" in err
    assert "hunter2" not in err


def test_a_port_of_an_index_that_is_none_is_told_as_a_setting(refused: Refused) -> None:
    code, _out, err = refused("serve", "--backend", "pinecone", "--index-port", "80000=docs.example.com")
    assert code == 2
    assert err.startswith("pinecone.index_ports.80000: wanted a mapping from ports, 1 to 65535")


@pytest.mark.parametrize("is_given", [False, True])
def test_aiohttp_is_loaded_without_authorities_and_everything_later_has_them(
    is_given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    program = """
import os, ssl
from vecsieve.proxy.cli import _load_aiohttp
_load_aiohttp()
from aiohttp import connector
print(os.environ.get("SSL_CERT_FILE"), len(connector._SSL_CONTEXT_VERIFIED.get_ca_certs()), len(ssl.create_default_context().get_ca_certs()))
"""
    if is_given:
        monkeypatch.setenv("SSL_CERT_FILE", str(make_certificates(tmp_path).authority))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    named, of_client, later = done.stdout.split()
    assert (named, of_client) == (os.environ.get("SSL_CERT_FILE", "None"), "0")
    assert int(later) == len(ssl.create_default_context().get_ca_certs())
    assert not is_given or later == "1"


def test_help_names_every_command(refused: Refused) -> None:
    code, out, _err = refused("--help")
    assert code == 0
    assert [name for name in COMMANDS if name not in out] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_own_help(command: str, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    code, out, _err = refused(command, "--help")
    assert code == 0
    assert COMMANDS[command][1].split("\n")[0] in out
    assert out.count(" --") > 1, "options of its own"


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_no_flag_seems_to_take_a_value(command: str, refused: Refused) -> None:
    """`--connect <bool>` reads as if one had to say true."""
    assert "bool" not in refused(*([command] if command else []), "--help")[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_options_of_a_command_explain_no_other_command(
    command: str, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    options = refused(command, "--help")[1].partition("Options")[2]
    quoted = set(re.findall(r"`(\w+)|for (undo|sweep|analyze)\b", options))
    assert {name for pair in quoted for name in pair} & {*COMMANDS} - {command} <= {"calibrate", "undo"}


def test_the_help_of_all_loads_no_command() -> None:
    done = vecsieve("--help", before="sys.modules['numpy'] = sys.modules['aiohttp'] = None")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_option_is_a_usage_error(refused: Refused) -> None:
    code, _out, err = refused("serve", "--nonsense")
    assert code == 2
    assert "Traceback" not in err


@pytest.mark.parametrize("listen", ["nowhere", "127.0.0.1:", "127.0.0.1:99999", ":6333"])
def test_an_address_that_is_none_is_told_with_what_was_wanted(listen: str, refused: Refused) -> None:
    code, _out, err = refused("serve", "--listen", listen)
    assert code == 2
    assert "listen (command line)" in err
    assert "wanted host:port" in err
    assert "Traceback" not in err


def test_evaluating_what_is_not_there_ends_with_what_was_wanted(refused: Refused) -> None:
    code, out, err = refused("evaluate", "nowhere")
    assert (code, out) == (2, "")
    assert err == "nowhere: wanted a folder of labelled sets, each with queries.jsonl; saw no such folder\n"


@pytest.mark.parametrize(
    ("arguments", "prefix", "build"),
    [
        ("'--enable-shared' '--enable-optimizations' '--with-lto'", "/usr", "optimised"),
        ("'--enable-shared'", "/opt/python", "not optimised (--enable-optimizations), which takes a quarter more time"),
        (None, "/opt/python", "not optimised (--enable-optimizations), which takes a quarter more time"),
        ("'--enable-shared'", "/usr", "the distribution's build"),
    ],
)
@pytest.mark.parametrize("is_complete", [True, False])
def test_the_version_is_told_with_what_decides_the_speed(
    arguments: str | None, prefix: str, build: str, is_complete: bool, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {name: metadata.version(name) for name in ("vecsieve", "aiohttp", "uvloop", "pysimdjson")}
    monkeypatch.setattr(sysconfig, "get_config_var", {"CONFIG_ARGS": arguments}.get)
    monkeypatch.setattr(sys, "base_prefix", prefix)
    if not is_complete:
        monkeypatch.setattr(metadata, "version", partial(version_without, {"uvloop", "pysimdjson"}))
        monkeypatch.setattr(http_parser, "HttpRequestParser", http_parser.HttpRequestParserPy)
        versions |= dict.fromkeys(("uvloop", "pysimdjson"), "not installed")
    code, out, err = refused("--version")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"vecsieve {versions['vecsieve']}",
        f"Python {platform.python_version()}, {build}",
        f"aiohttp {versions['aiohttp']}, parser in {'C' if is_complete else 'Python'}",
        f"uvloop {versions['uvloop']}",
        f"pysimdjson {versions['pysimdjson']}",
    ]


def version_without(absent: set[str], name: str, real: Callable[[str], str] = metadata.version) -> str:
    if name in absent:
        raise metadata.PackageNotFoundError(name)
    return real(name)


def test_the_shell_can_complete(refused: Refused) -> None:
    _code, out, _err = refused("--help")
    assert "--install-completion" in out


def test_a_shell_completes_the_options_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"_VECSIEVE_COMPLETE": "complete_bash", "COMP_WORDS": "vecsieve sweep --ignore-m", "COMP_CWORD": "2"}
    for name, value in words.items():
        monkeypatch.setenv(name, value)
    assert vecsieve(before="sys.argv[0] = 'vecsieve'").stdout.strip() == "--ignore-metadata"


def test_the_defaults_that_help_shows_are_those_of_the_settings(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    _code, out, _err = refused("serve", "--help")
    defaults = Settings()
    for value in (defaults.backend, defaults.listen, defaults.admin, defaults.upstream.url, defaults.workers):
        assert f"[default: ({value}" in out
    assert defaults.policy.mode == "on"
    assert "[default: (the policies' own, on)]" in out


def test_check_is_short_unless_asked(refused: Refused) -> None:
    code, out, _err = refused("check")
    assert (code, out.count("\n")) == (0, 1)
    assert out.startswith("The settings are valid.")
    _code, settings, _err = refused("check", "--show")
    assert yaml.safe_load(settings)["listen"] == Settings().listen


def test_the_schema_is_printed_for_editors(refused: Refused) -> None:
    code, out, _err = refused("check", "--schema")
    assert code == 0
    assert json.loads(out)["title"] == "VecSieve settings"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("serve", "--mode", "shadwo"), "--mode: wanted 'on', 'shadow', 'off'; saw \"shadwo\""),
        (("serve", "--workers", "x"), '--workers: wanted a valid integer; saw "x"'),
        (("measure", "f", "--html", "h", "--rate", "0"), '--rate: wanted greater than or equal to 0.1; saw "0"'),
        (("measure", "f", "--html", "h", "--turns", "many"), '--turns: wanted a valid integer; saw "many"'),
    ],
)
def test_a_value_of_another_type_is_named_with_its_option(
    refused: Refused, arguments: tuple[str, ...], words: str
) -> None:
    assert refused(*arguments) == (2, "", f"{words}\n")
