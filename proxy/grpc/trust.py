"""Whose certificates are believed: what OpenSSL believes on this machine, as the HTTP side does.

gRPC's own default is a list inside its wheel, which knows no private authority and no SSL_CERT_FILE.
"""

from __future__ import annotations

import os
import re
import ssl
from pathlib import Path

_HASHED = re.compile(r"[0-9a-f]{8}\.[0-9]+")  # what `openssl rehash` makes; OpenSSL looks at no other name in a folder
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def system_roots() -> bytes | None:
    """PEM of every certificate in OpenSSL's file and folders, each once; None where there is none, which is gRPC's list.

    SSL_CERT_FILE and SSL_CERT_DIR stand in for the file and the folders, as everywhere else.
    """
    places = ssl.get_default_verify_paths()
    files = [Path(os.environ.get(places.openssl_cafile_env, places.openssl_cafile))]
    for folder in os.environ.get(places.openssl_capath_env, places.openssl_capath).split(os.pathsep):
        files += sorted(path for path in Path(folder).glob("*") if _HASHED.fullmatch(path.name) is not None)
    found: dict[str, None] = {}
    for path in files:
        found.update(dict.fromkeys(_certificates(path)))
    return "".join(found).encode("ascii") or None


def _certificates(path: Path) -> list[str]:
    """The PEM blocks of a file, without the notes between them; none of a file that cannot be read, as OpenSSL has it."""
    try:
        text = path.read_text(encoding="latin-1")
    except OSError:
        return []
    blocks = text.split(_BEGIN)[1:]
    return [f"{_BEGIN}{block.split(_END)[0]}{_END}\n" for block in blocks if _END in block and block.isascii()]
