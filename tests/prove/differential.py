"""T5: the raw corpus sent directly, through nginx and through us; every difference to direct stands in a table with its reason"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path

from bench.processes import listening

from prove.differential_corpus import PROBES, Probe
from prove.differential_reasons import NGINX, OURS, Reason
from prove.differential_views import Message, View, differences, messages
from prove.finding import Finding
from prove.stack import proxy
from support.network.ports import free_port
from support.network.streams import serving

QUIET_SECONDS = 1.0  # a connection that nobody ends is told by that
WHERE = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin"
# As transparent as nginx's own settings make it: nothing buffered, normalised, hidden, rewritten or refused that need not be.
SETTINGS = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr crit;
events {{ worker_connections {connections}; }}
http {{
  access_log off; server_tokens off; underscores_in_headers on; ignore_invalid_headers off; merge_slashes off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi; client_max_body_size 0;
  large_client_header_buffers 4 32k;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://127.0.0.1:{upstream}; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
      proxy_buffering off; proxy_buffer_size 32k; proxy_buffers 8 32k; proxy_request_buffering off; proxy_redirect off; proxy_next_upstream off;
      proxy_pass_header Server; proxy_pass_header Date; proxy_pass_header X-Accel-Redirect; proxy_pass_header X-Accel-Expires;
      proxy_pass_header X-Pad; proxy_ignore_headers X-Accel-Redirect X-Accel-Expires X-Accel-Buffering Set-Cookie Vary;
    }}
  }}
}}
"""


class Recorder:
    """A database that does what one probe says, and keeps what each connection brought."""

    def __init__(self) -> None:
        self.probe = PROBES[0]
        self.connections: list[bytearray] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until it ends. It may serve one probe after another: a proxy keeps it."""
        probe, raw, answered = None, bytearray(), 0
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                if probe is not self.probe:
                    probe, raw, answered = self.probe, bytearray(), 0
                    self.connections.append(raw)
                raw += data
                whole = [message for message in messages(bytes(raw), is_answer=False) if message.is_whole]
                for request in whole[answered:]:
                    answered += 1
                    writer.write(probe.answer)
                    await writer.drain()
                    if probe.resets:
                        writer.transport.abort()
                    if probe.ends or probe.resets or _wants_end(request):
                        writer.close()
                        return
        writer.close()


def _wants_end(request: Message) -> bool:
    is_closing = any(name.lower() == b"connection" and b"close" in value for name, value in request.fields)
    return is_closing or not request.line.endswith(b"HTTP/1.1")


@contextlib.contextmanager
def through_nginx(upstream: int, *, connections: int = 256) -> Iterator[int | None]:
    """The port of an nginx of one process before that one; None where there is no nginx. ``connections``: of either side, in all."""
    nginx = shutil.which("nginx", path=WHERE)
    if nginx is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as name:
        port, settings = free_port(), Path(name) / "nginx.conf"
        settings.write_text(
            SETTINGS.format(folder=name, port=port, upstream=upstream, connections=connections), encoding="ascii"
        )
        with listening([nginx, "-e", "stderr", "-p", name, "-c", str(settings)], port):
            yield port


async def exchanged(port: int, data: bytes) -> tuple[bytes, bool]:
    """All that comes back, and whether the connection was ended."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer, is_ended = bytearray(), False
    with contextlib.suppress(TimeoutError, ConnectionError):
        writer.write(data)
        while not is_ended:
            async with asyncio.timeout(QUIET_SECONDS):
                piece = await reader.read(65_536)
            answer, is_ended = answer + piece, not piece
    writer.close()
    return bytes(answer), is_ended


async def viewed(recorder: Recorder, port: int, probe: Probe) -> View:
    """One probe on one way."""
    recorder.probe, recorder.connections = probe, []
    answer, is_ended = await exchanged(port, probe.data.replace(b"DATABASE", b"127.0.0.1:%d" % recorder.port))
    got = [message for raw in recorder.connections for message in messages(bytes(raw), is_answer=False)]
    return View(tuple(got), messages(answer, bodiless=probe.data.startswith(b"HEAD")), is_ended)


async def compared(recorder: Recorder, port: int, probes: Sequence[Probe] = PROBES) -> dict[str, frozenset[str]]:
    """How each probe differs on that way from the direct one, those that do."""
    differing = {}
    for probe in probes:
        direct, through = await viewed(recorder, recorder.port, probe), await viewed(recorder, port, probe)
        if words := differences(direct, through):
            differing[probe.name] = words
    return differing


def finding(
    what: str, differing: Mapping[str, frozenset[str]], reasons: Mapping[str, Reason], *, strict: bool
) -> Finding:
    """One row. ``strict``: a reason without its difference is one too many."""
    unlisted = {
        name: sorted(words - reasons[name].differs if name in reasons else words) for name, words in differing.items()
    }
    stray = [f"{name}: {', '.join(words)}" for name, words in unlisted.items() if words]
    if strict:
        stray += [
            f"{name}: no longer {', '.join(sorted(left))}"
            for name, reason in reasons.items()
            if (left := reason.differs - differing.get(name, frozenset()))
        ]
    summary = f"{len(differing)} of {len(PROBES)} differ, {len(stray)} of them otherwise than listed{''.join('; ' + line for line in stray[:5])}"
    return Finding("T5", what, "each difference to direct listed with its reason", summary, not stray)


@contextlib.asynccontextmanager
async def recording() -> AsyncIterator[Recorder]:
    """A recorder that listens."""
    recorder = Recorder()
    async with serving(recorder.serve, limit=2**20) as recorder.port:
        yield recorder


async def alongside() -> list[Finding]:
    """Both ways, beside the direct one."""
    async with recording() as recorder:
        async with proxy(f"http://127.0.0.1:{recorder.port}", mode="off") as running:
            ours = finding("raw messages through us", await compared(recorder, running.port), OURS, strict=True)
        with through_nginx(recorder.port) as port:
            if port is None:
                absent = Finding(
                    "T5", "raw messages through nginx", "each difference listed", "not run: no nginx here", met=None
                )
                return [ours, absent]
            theirs = finding("raw messages through nginx", await compared(recorder, port), NGINX, strict=False)
    return [ours, theirs]
