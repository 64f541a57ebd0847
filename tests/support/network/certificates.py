"""A certificate authority and a leaf for 127.0.0.1 and localhost, made with the openssl program for one test run.

CA and leaf are apart, because rustls (Pinecone's clients) refuses a CA certificate that is used as a server's own.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
# RFC 5280 4.2.1.3, and Python 3.13 asks for it (VERIFY_X509_STRICT).
SIGNS = "keyUsage=critical,keyCertSign,cRLSign"


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files. ``authority``: what a client trusts; ``leaf`` and ``key``: what the server shows and keeps."""

    authority: Path
    leaf: Path
    key: Path


def make_certificates(directory: Path) -> Certificates:
    """Make the files in an empty directory. Skips the test where there is no openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl program")
    at = Certificates(directory / "ca.pem", directory / "leaf.pem", directory / "leaf.key")
    extensions = directory / "leaf.ext"
    extensions.write_text(
        "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\n"
        "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
    )
    ca_key, request = directory / "ca.key", directory / "leaf.csr"
    authority = ("-subj", "/CN=VecSieve test CA", "-days", "2", "-addext", SIGNS)
    _openssl("req", "-x509", *KEY, "-keyout", ca_key, "-out", at.authority, *authority)
    _openssl("req", *KEY, "-keyout", at.key, "-out", request, "-subj", "/CN=localhost")
    signing = ("-CA", at.authority, "-CAkey", ca_key, "-CAcreateserial", "-days", "2", "-extfile", extensions)
    _openssl("x509", "-req", "-in", request, "-out", at.leaf, *signing)
    return at


def with_passphrase(key: Path, into: Path) -> Path:
    """The same key under a passphrase."""
    _openssl("pkcs8", "-topk8", "-in", key, "-out", into, "-passout", "pass:of-a-test")
    return into


def _openssl(*words: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
