"""OpenSearch's and Elasticsearch's own servers: generated requests of `_search` and `_msearch`, directly and in every mode."""

from __future__ import annotations

import json
import time

from prove.search_nodes import tallied
from servers.opensearch.store import Product

from real_servers.verdict import Verdict
from support.process.stack import exchange

REQUESTS = 500


def judged(product: Product, program: str) -> list[Verdict]:
    """The server's verdict. ``program`` is what the product's variable names."""
    del program
    with tallied(product, seed=time.time_ns() % 1_000_000, count=REQUESTS) as (url, totals):
        release = version(url)
    verdict = Verdict(
        server=product.value,
        version=release,
        client="generated requests",
        calls=totals.made,
        distinct=totals.changed,
        unstable=totals.unstable,
        faults={mode: tuple(messages) for mode, messages in totals.faults.items()},
    )
    return [verdict]


def version(url: str) -> str:
    """What its node says that it is."""
    (node,) = json.loads(exchange(url, "GET", "/_nodes?filter_path=nodes.*.version").body)["nodes"].values()
    number: str = node["version"]
    return number
