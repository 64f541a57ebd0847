"""TLS of the data ports: certificates and the offered HTTP versions; and TLS to the database.

Every error names the setting, the file and the fault; nothing of a key is shown.
"""

from __future__ import annotations

import ssl
from functools import cache
from pathlib import Path

from vecsieve.config.problems import Problem, SettingsError
from vecsieve.config.schema import Settings, UpstreamSettings

from ..runtime.addresses import data_ports_of

SERVER, CLIENT = "tls.", "upstream.client_"  # what precedes the names of a certificate and its key
AUTHORITIES = "upstream.ca_file"
EXPECTED = {
    "certificate": "a readable PEM file with the certificate, its issuers after it",
    "key": "a readable PEM file with the certificate's private key",
    "ca_file": "a readable PEM file with certificates of authorities",
}
_CERTIFICATE, _KEY = "-----BEGIN CERTIFICATE-----", "PRIVATE KEY-----"
# Clients that offer both (curl, Go's net/http, OkHttp, reqwest) are about to make REST calls, and take HTTP/1.1; gRPC clients offer h2
# only. In the other order REST calls would reach the gRPC server.
BOTH = ["http/1.1", "h2"]


def server_context(certificate: Path, key: Path, *, with_grpc: bool) -> ssl.SSLContext:
    """TLS 1.2 or newer. ``with_grpc``: HTTP/2 may be negotiated. Raises SettingsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # TLS 1.2: it costs the server and has no use here
    context.set_alpn_protocols(BOTH if with_grpc else BOTH[:1])
    _load(context, certificate, key, SERVER)
    return context


def upstream_context(settings: UpstreamSettings) -> ssl.SSLContext:
    """For connections to the database: host names are checked. Raises SettingsError."""
    return _client_context(settings.ca_file, settings.client_certificate, settings.client_key)


@cache
def _client_context(ca_file: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    """One for all pools: the system's authorities take 30 ms to read."""
    _pems(ca_file, certificate, key)
    context = ssl.create_default_context(cadata=None if ca_file is None else _certificates(AUTHORITIES, Path(ca_file)))
    context.set_alpn_protocols(BOTH[:1])
    if certificate is not None and key is not None:
        _load(context, Path(certificate), Path(key), CLIENT)
    return context


def upstream_pems(settings: UpstreamSettings) -> tuple[bytes | None, ...]:
    """The authorities, the certificate and its key, as they were when the settings were checked. Raises SettingsError."""
    return _pems(settings.ca_file, settings.client_certificate, settings.client_key)


@cache
def _pems(ca_file: str | None, certificate: str | None, key: str | None) -> tuple[bytes | None, ...]:
    files = (
        (AUTHORITIES, ca_file, _CERTIFICATE),
        (f"{CLIENT}certificate", certificate, _CERTIFICATE),
        (f"{CLIENT}key", key, _KEY),
    )
    return tuple(
        None if path is None else _pem(setting, Path(path), marker=marker).encode("latin-1")
        for setting, path, marker in files
    )


def _load(context: ssl.SSLContext, certificate: Path, key: Path, prefix: str) -> None:
    """Load a certificate and its key. Raises SettingsError."""
    _certificates(f"{prefix}certificate", certificate)
    place = f"{prefix}key"
    if "ENCRYPTED" in _pem(place, key, marker=_KEY):
        raise _refused(place, f"{key}: a key with a passphrase", "a key without one, since nobody can type it")
    try:
        context.load_cert_chain(certificate, key, password="")  # never ask a terminal
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise _refused(place, f"{key}: the key of another certificate", f"the key of {certificate}") from None
        raise _refused(place, f"{key}: {_reason(error)}") from None
    except OSError as error:  # since it was read
        raise _refused(place, f"{key} or {certificate}: {error.strerror}") from None


def context_of(settings: Settings) -> ssl.SSLContext | None:
    """None if the ports are plain. Raises SettingsError."""
    certificate, key = settings.tls.certificate, settings.tls.key
    if certificate is None or key is None:
        return None
    with_grpc = any(data_port.grpc is not None for data_port in data_ports_of(settings))
    return server_context(Path(certificate), Path(key), with_grpc=with_grpc)


def renew(context: ssl.SSLContext, settings: Settings) -> None:
    """Load the files again for new connections. Raises SettingsError; then nothing has changed."""
    certificate, key = settings.tls.certificate, settings.tls.key
    if certificate is not None and key is not None and context_of(settings) is not None:
        _load(context, Path(certificate), Path(key), SERVER)


def _pem(setting: str, path: Path, *, marker: str) -> str:
    try:
        text = path.read_text(encoding="latin-1")  # there may be notes around the PEM blocks, in any encoding
    except OSError as error:
        raise _refused(setting, f"{path}: {error.strerror}") from None
    if marker not in text:
        raise _refused(setting, f"{path}: no line {marker!r}")
    return text


def _certificates(setting: str, path: Path) -> str:
    """Read the certificates alone: when one is loaded with its key, an error does not name the file."""
    text = _pem(setting, path, marker=_CERTIFICATE).encode("ascii", "ignore").decode("ascii")
    alone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        alone.load_verify_locations(cadata=text)
    except ssl.SSLError as error:
        raise _refused(setting, f"{path}: {_reason(error)}") from None
    return text


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "not readable as PEM").lower().replace("_", " ")


def _refused(setting: str, seen: str, expected: str = "") -> SettingsError:
    return SettingsError(
        [Problem(setting, seen, expected or EXPECTED[setting.rpartition(".")[2].removeprefix("client_")])]
    )
