"""L: how much passes through one process, beside nginx as a reverse proxy before the same database, in turn"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import bodies
from bench.load import Request
from bench.load import capacity as closed_loop
from bench.processes import listening
from bench.upstream import serving

from prove.finding import Finding, Scale
from prove.stack import proxy
from support.network.ports import free_port

PATH = "/collections/c/points/1"
# What one process passed through here for each request of nginx's: 3,480 to 26,466 a second. Under heavy neighbours nginx loses
# more than we do (0.195), so the lower share is the one to fall below. Medians of rounds in turn.
BASE = 0.131
NGINX = """
daemon off; master_process off; pid {directory}/relay.pid; error_log {directory}/relay.log;
events {{ worker_connections 512; }}
http {{
  access_log off; keepalive_requests 100000000;
  client_body_temp_path {directory}/b; proxy_temp_path {directory}/p; fastcgi_temp_path {directory}/f;
  uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
  upstream database {{ server 127.0.0.1:{upstream}; keepalive 64; }}
  server {{
    listen 127.0.0.1:{port} backlog=512;
    location / {{ proxy_pass http://database; proxy_http_version 1.1; proxy_set_header Connection ""; }}
  }}
}}
"""


@contextlib.contextmanager
def relaying(nginx: str, upstream: int, directory: Path) -> Iterator[int]:
    """nginx as a reverse proxy, one process; its port."""
    port, settings = free_port(), directory / "relay.conf"
    settings.write_text(NGINX.format(directory=directory, upstream=upstream, port=port), encoding="ascii")
    with listening([nginx, "-p", str(directory), "-c", str(settings)], port):
        yield port


async def prove(scale: Scale) -> list[Finding]:
    """L3: rounds in turn."""
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")
    if nginx is None:
        return [Finding("L3", "passed through, beside nginx", "reported", "not run: nginx is not installed", met=None)]
    rounds = 3 if scale.load_seconds < 10 else 7
    with tempfile.TemporaryDirectory() as name, serving({PATH: bodies.point_reply()}, Path(name)) as upstream:
        directory = Path(name)
        request = Request(method="GET", path=PATH, body=b"")
        async with proxy(f"http://127.0.0.1:{upstream.port}") as running:
            with relaying(nginx, upstream.port, directory) as relay:
                taken: dict[int, list[float]] = {running.port: [], relay: []}
                for _ in range(rounds + 1):
                    for port, rates in taken.items():
                        rates.append(closed_loop(request, port, seconds=1).per_second)
    return [judged(taken[running.port][1:], taken[relay][1:])]  # the first round opens connections and warms


def judged(ours: Sequence[float], nginx: Sequence[float]) -> Finding:
    """Our share of nginx's rate, round by round, against the recorded one."""
    share = statistics.median(mine / other for mine, other in zip(ours, nginx, strict=True))
    measured = f"{share:.3f} of nginx ({statistics.median(ours):.0f}/s, nginx {statistics.median(nginx):.0f}/s)"
    what = f"passed through by one process, closed loop, {len(ours)} rounds in turn"
    return Finding("L3", what, f"≥ 0.9 × {BASE}, the recorded share", measured, met=share >= 0.9 * BASE)
