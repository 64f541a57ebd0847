from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from support.network.certificates import make_certificates
from vecsieve.proxy.grpc.upstream import system_roots


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    return make_certificates(tmp_path).authority


def test_the_file_and_the_folder_that_openssl_is_told_of_are_believed(
    authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "0a0b0c0d.0").write_text("a note\n" + authority.read_text() + "another, in Latin: ")
    (folder / "00000000.0").write_bytes(b"\xff\xfe-----BEGIN CERTIFICATE-----")
    (folder / "11111111.0").mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    found = system_roots()
    assert found is not None
    assert found.decode().strip() == authority.read_text().strip()
    ssl.create_default_context(cadata=found.decode())


def test_the_folder_alone_is_enough(authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority.rename(tmp_path / "0a0b0c0d.0")
    authority = tmp_path / "0a0b0c0d.0"
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", f"{tmp_path}/absent:{tmp_path}")
    found = system_roots()
    assert found is not None
    assert authority.read_text().strip() in found.decode()


def test_nothing_found_is_none(authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate in the folder that was never hashed is not believed: OpenSSL would not find it."""
    assert authority.exists()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert system_roots() is None


def test_what_this_machine_believes_is_read_whole() -> None:
    places = ssl.get_default_verify_paths()
    if places.cafile is None:
        pytest.skip("this machine has no file of certificates for OpenSSL")
    found = system_roots()
    assert found is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cafile=places.cafile)
    wanted = {ssl.DER_cert_to_PEM_cert(der) for der in context.get_ca_certs(binary_form=True)}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=found.decode())
    assert wanted <= {ssl.DER_cert_to_PEM_cert(der) for der in context.get_ca_certs(binary_form=True)}
