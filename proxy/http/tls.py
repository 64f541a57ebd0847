"""What our own ports show a client over TLS: a certificate, and which HTTP may be spoken.

Every error names the setting, the file and what is wrong with it; nothing of a key is ever shown.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from vecsieve.config.problems import Problem, SettingsError
from vecsieve.config.schema import Settings
from vecsieve.proxy.addresses import doors_of

CERTIFICATE = "tls.certificate"
KEY = "tls.key"
WANTED = {
    CERTIFICATE: "a readable PEM file with the certificate, its issuers after it",
    KEY: "a readable PEM file with the certificate's private key",
}
# Whoever offers both (curl, Go's net/http, OkHttp, reqwest) is about to make REST calls, and takes HTTP/1.1; gRPC clients
# offer h2 alone. In the other order REST calls would come to the gRPC server.
BOTH = ["http/1.1", "h2"]


def server_context(certificate: Path, key: Path, *, with_grpc: bool) -> ssl.SSLContext:
    """TLS 1.2 or newer for our ports. ``with_grpc``: HTTP/2 may be agreed on. Raises SettingsError."""
    _check_certificate(certificate, _pem(CERTIFICATE, certificate, marker="-----BEGIN CERTIFICATE-----"))
    if "ENCRYPTED" in _pem(KEY, key, marker="PRIVATE KEY-----"):
        raise _refused(KEY, f"{key}: a key under a passphrase", "a key without one: nobody is there to type it")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # TLS 1.2: its cost is the server's, its use nobody's
    context.set_alpn_protocols(BOTH if with_grpc else BOTH[:1])
    try:
        context.load_cert_chain(certificate, key, password="")  # never ask a terminal
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise _refused(KEY, f"{key}: the key of another certificate", f"the key of {certificate}") from None
        raise _refused(KEY, f"{key}: {_reason(error)}", WANTED[KEY]) from None
    return context


def context_of(settings: Settings) -> ssl.SSLContext | None:
    """What these settings say of our ports; None where they are plain. Raises SettingsError."""
    certificate, key = settings.tls.certificate, settings.tls.key
    if certificate is None or key is None:
        return None
    with_grpc = any(door.grpc is not None for door in doors_of(settings))
    return server_context(Path(certificate), Path(key), with_grpc=with_grpc)


def renew(context: ssl.SSLContext, settings: Settings) -> None:
    """Show new connections what the files hold now. Raises SettingsError, and then nothing has changed."""
    certificate, key = settings.tls.certificate, settings.tls.key
    if certificate is not None and key is not None and context_of(settings) is not None:
        context.load_cert_chain(certificate, key, password="")


def _pem(setting: str, path: Path, *, marker: str) -> str:
    try:
        text = path.read_text(encoding="latin-1")  # there may be notes around the PEM blocks, in any encoding
    except OSError as error:
        raise _refused(setting, f"{path}: {error.strerror}", WANTED[setting]) from None
    if marker not in text:
        raise _refused(setting, f"{path}: no line {marker!r}", WANTED[setting])
    return text


def _check_certificate(path: Path, text: str) -> None:
    """Read it alone: when both are loaded at once, an error does not say which file it is about."""
    alone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        alone.load_verify_locations(cadata="".join(character for character in text if character.isascii()))
    except ssl.SSLError as error:
        raise _refused(CERTIFICATE, f"{path}: {_reason(error)}", WANTED[CERTIFICATE]) from None


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "not readable as PEM").lower().replace("_", " ")


def _refused(setting: str, seen: str, wanted: str) -> SettingsError:
    return SettingsError([Problem(setting, seen, wanted)])
