"""The inspector's page: files of this package, from memory, under a policy that lets them load nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
# For everything that a browser may be led to: no guessing of types, no frame, no address of ours in a request elsewhere.
GUARDS = (
    ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
_TYPES: Mapping[str, str] = MappingProxyType(
    {
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".svg": "image/svg+xml",
    }
)
_FILES = (
    "app.js",
    "views.js",
    "whatif.js",
    "style.css",
    "icon.svg",
    "vendor/htm-preact.js",
    "vendor/uplot.js",
    "vendor/uplot.css",
)


@cache
def file(path: str) -> tuple[bytes, str] | None:
    """The content and the type of what is at this path of the admin port; None where no file of the page is."""
    name = "index.html" if path == "/" else path.removeprefix("/static/")
    if path != "/" and (not path.startswith("/static/") or name not in _FILES):
        return None
    content = files("vecsieve.proxy.admin").joinpath("static", *name.split("/")).read_bytes()
    return content, _TYPES[name[name.rindex(".") :]]
