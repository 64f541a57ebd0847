"""One process with both listeners: the ordinary way to run, one event loop to a container."""

from __future__ import annotations

import time

from vecsieve.config.addresses import parse_address
from vecsieve.config.schema import Settings
from vecsieve.proxy import descriptors
from vecsieve.proxy.admin.reading import read_status
from vecsieve.proxy.admin.server import AdminServer, Pages
from vecsieve.proxy.announcement import announce, announce_doors
from vecsieve.proxy.doors import doors_of
from vecsieve.proxy.exposition import own_registry, scrape
from vecsieve.proxy.instance import Instance, Source
from vecsieve.proxy.log import AccessLog
from vecsieve.proxy.log_setup import set_up
from vecsieve.proxy.log_sink import ThreadedSink
from vecsieve.proxy.memory import collect_seldom
from vecsieve.proxy.metrics import Metrics


async def serve_alone(source: Source, settings: Settings) -> int:
    """Listen, announce, serve, drain. Returns the exit status: 0 also when the drain had to cut requests."""
    registry = own_registry()
    metrics = Metrics(registry, backend=settings.backend)
    sink = ThreadedSink(on_drop=metrics.log_dropped_total.inc)
    logging_ = set_up(sink)
    started = time.monotonic()
    given = descriptors.claim(settings)
    descriptors.say(given, settings)
    instance = Instance(source, settings, metrics=metrics, log=AccessLog(sink), descriptors=given)
    admin = AdminServer(
        Pages(
            is_ready=lambda: instance.lifecycle.is_ready,
            metrics=lambda accept: scrape(registry, accept),
            status=lambda: read_status(
                registry,
                instance.facts,
                state=instance.lifecycle.state,
                uptime_seconds=time.monotonic() - started,
            ),
            explain=instance.explain,
            egress=instance.egress,
        )
    )
    admin_at, doors = parse_address(settings.admin), doors_of(settings)
    try:
        ports = await instance.open(*doors)
        await admin.start((admin_at.host, admin_at.port))
        collect_seldom()
        announce_doors(doors, ports, over_tls=settings.tls.certificate is not None)
        announce("admin", admin_at.host, admin.port, over_tls=False)
        await instance.serve()
    finally:
        await instance.close()
        await admin.close()
        logging_.close()
    return 0
