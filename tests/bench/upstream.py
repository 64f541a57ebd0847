"""The upstream of the measurements: nginx serving canned bytes, or our own canned-bytes process where it is absent."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.processes import listening, project_module
from support.network.ports import free_port

# One process and no files but its own: it must leave nothing behind. POST to a static file is a 405, which the
# error page turns into the file itself. What a static file adds to a reply and Qdrant does not send is switched off.
NGINX = """
daemon off; master_process off; pid {directory}/nginx.pid; error_log {directory}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; keepalive_timeout 60s;
  client_body_temp_path {directory}/body; client_body_buffer_size 256k; client_max_body_size 0;
  proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
  open_file_cache max=64 inactive=1h; default_type application/json; server_tokens off;
  server {{
    listen 127.0.0.1:{port} backlog=512;
    root {directory}/replies; etag off; max_ranges 0; add_header Last-Modified "";
    error_page 405 =200 $uri;
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where the canned replies are served, and by what."""

    port: int
    kind: str


@contextlib.contextmanager
def serving(replies: Mapping[str, bytes], directory: Path) -> Iterator[Upstream]:
    """Serve each path's bytes, whatever the method. Raises DidNotStartError."""
    _write(replies, directory / "replies")
    port = free_port()
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")
    if nginx is None:
        command, kind = (
            project_module("canned", str(port), str(directory / "replies")),
            "canned bytes (nginx not found)",
        )
    else:
        settings = directory / "nginx.conf"
        settings.write_text(NGINX.format(directory=directory, port=port), encoding="ascii")
        command, kind = [nginx, "-p", str(directory), "-c", str(settings)], "nginx"
    with listening(command, port):
        yield Upstream(port=port, kind=kind)


def _write(replies: Mapping[str, bytes], directory: Path) -> None:
    for path, body in replies.items():
        file = directory / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
