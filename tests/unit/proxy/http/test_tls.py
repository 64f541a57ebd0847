from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from support.network.certificates import Certificates, make_certificates, with_passphrase
from vecsieve.config.problems import SettingsError
from vecsieve.proxy.http.tls import server_context


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("ca"))


def shaken(
    files: Certificates,
    offered: list[str],
    *,
    with_grpc: bool = True,
    newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    served: tuple[Path, Path] | None = None,
) -> ssl.SSLObject:
    """A client's side after a handshake in memory. ``served``: the server's certificate and key; None: those of ``files``."""
    client = ssl.create_default_context(cafile=files.authority)
    client.set_alpn_protocols(offered)
    client.minimum_version, client.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, newest
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    certificate, key = served or (files.leaf, files.key)
    server = server_context(certificate, key, with_grpc=with_grpc).wrap_bio(up, down, server_side=True)
    side = client.wrap_bio(down, up, server_hostname="localhost")
    for peer in (side, server) * 2 + (side,):
        try:
            peer.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return side


@pytest.mark.parametrize(
    ("offered", "agreed"),
    [
        (["h2"], "h2"),
        (["grpc-exp", "h2"], "h2"),
        (["http/1.1"], "http/1.1"),
        (["h2", "http/1.1"], "http/1.1"),
        ([], None),
    ],
)
def test_only_who_offers_nothing_but_http_2_gets_it(
    files: Certificates, offered: list[str], agreed: str | None
) -> None:
    assert shaken(files, offered).selected_alpn_protocol() == agreed


def test_without_grpc_http_2_is_not_agreed_on(files: Certificates) -> None:
    assert shaken(files, ["h2"], with_grpc=False).selected_alpn_protocol() is None
    assert shaken(files, ["h2", "http/1.1"], with_grpc=False).selected_alpn_protocol() == "http/1.1"


def test_tls_1_2_is_the_oldest(files: Certificates) -> None:
    assert shaken(files, ["h2"], newest=ssl.TLSVersion.TLSv1_2).version() == "TLSv1.2"
    assert server_context(files.leaf, files.key, with_grpc=True).minimum_version is ssl.TLSVersion.TLSv1_2


def refusal(certificate: Path, key: Path) -> str:
    with pytest.raises(SettingsError) as refused:
        server_context(certificate, key, with_grpc=True)
    (problem,) = refused.value.problems
    return str(problem)


def test_a_missing_file_is_named(files: Certificates, tmp_path: Path) -> None:
    absent = tmp_path / "absent.pem"
    expected = "tls.certificate: wanted a readable PEM file with the certificate, its issuers after it; saw "
    assert refusal(absent, files.key) == f"{expected}{absent}: No such file or directory"
    assert refusal(files.leaf, absent).startswith(
        "tls.key: wanted a readable PEM file with the certificate's private key; "
    )
    assert "Is a directory" in refusal(tmp_path, files.key)


def test_files_that_were_exchanged_are_told_by_what_is_not_in_them(files: Certificates) -> None:
    assert "no line '-----BEGIN CERTIFICATE-----'" in refusal(files.key, files.leaf)
    assert refusal(files.leaf, files.leaf).startswith("tls.key: ")


def test_the_key_of_another_certificate_is_said_to_be_that(files: Certificates, tmp_path: Path) -> None:
    other = make_certificates(tmp_path)
    assert refusal(files.leaf, other.key) == (
        f"tls.key: wanted the key of {files.leaf}; saw {other.key}: the key of another certificate"
    )


def test_a_key_under_a_passphrase_is_refused_and_nobody_is_asked(files: Certificates, tmp_path: Path) -> None:
    locked = with_passphrase(files.key, tmp_path / "locked.key")
    assert "a key without one, since nobody can type it" in refusal(files.leaf, locked)


def test_a_file_that_goes_while_it_is_read_is_named(files: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object, **_more: object) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", gone)
    assert refusal(files.leaf, files.key).endswith(f"saw {files.key} or {files.leaf}: No such file or directory")


@pytest.mark.parametrize("damaged", ["leaf", "key"])
def test_damaged_pem_is_a_sentence_that_shows_nothing_of_it(files: Certificates, tmp_path: Path, damaged: str) -> None:
    lines = getattr(files, damaged).read_text().splitlines()
    lines[1] = "c2VjcmV0" + lines[1][8:]
    broken = tmp_path / "broken.pem"
    broken.write_text("\n".join(lines))
    text = refusal(broken, files.key) if damaged == "leaf" else refusal(files.leaf, broken)
    assert text.startswith("tls.certificate: " if damaged == "leaf" else "tls.key: ")
    assert not any(line in text for line in lines)


def test_notes_around_the_certificate_in_any_encoding_do_no_harm(files: Certificates, tmp_path: Path) -> None:
    noted = tmp_path / "noted.pem"
    noted.write_bytes("für Müller\n".encode("latin-1") + files.leaf.read_bytes() + files.authority.read_bytes())
    assert shaken(files, ["h2"], served=(noted, files.key)).version() == "TLSv1.3"


def test_one_file_may_hold_both(files: Certificates, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(files.leaf.read_bytes() + files.key.read_bytes())
    assert shaken(files, ["h2"], served=(both, both)).version() == "TLSv1.3"
