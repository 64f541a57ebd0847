"""Weaviate's own server and Python client: what the client sees, and what comes over the wire, directly and in every mode.

What differs between two equal calls (see support.weaviate.replies) is not compared.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
from foreign_clients.record import Recorder, serving

from real_servers.verdict import MODES, Verdict
from support.grpc.calls import UNLIMITED, Seen
from support.grpc.wire_fields import number_field
from support.process import real_servers
from support.process.stack import exchange
from support.weaviate.client import VERSION as CLIENT
from support.weaviate.client import client_output
from support.weaviate.conversations import PATH
from support.weaviate.front import Place, answered, direct, fronted
from support.weaviate.replies import settled, settled_reply, settled_results

SCENARIO = Path(__file__).with_name("weaviate_scenario.py")
ALL, CLEAN = ".all", "Clean"
# SearchRequest.
_LIMIT, _OFFSET, _WHOLE = 30, 31, 200


def judged(program: str) -> list[Verdict]:
    """The server's verdict."""
    with real_servers.weaviate(program) as server, ExitStack() as proxies:
        client_output(direct(server), "fill", SCENARIO)
        plain, messages = recorded(server)
        places = {mode: proxies.enter_context(fronted(server, mode)) for mode in MODES}
        stored = client_output(direct(server), "write", SCENARIO)
        seen = {mode: client_output(place, "ask", SCENARIO) for mode, place in places.items()}
        again = client_output(direct(server), "ask", SCENARIO)
        unstable = frozenset(name for name in plain if again[name] != plain[name])
        changes = {mode: list(differences(plain, seen[mode], unstable)) for mode in ("off", "shadow")}
        changes["on"] = list(faults(plain, seen["on"], unstable))
        for mode, place in places.items():
            written = client_output(place, "write", SCENARIO)
            changes[mode] += [f"write: {name}" for name in stored if written[name] != stored[name]]
        whole = [message + number_field(_LIMIT, _WHOLE) + number_field(_OFFSET, 0) for message in messages]
        reference, everything = answered(direct(server), messages), answered(direct(server), whole)
        for mode in MODES:
            answers = answered(places[mode], messages)
            check = is_part if mode == "on" else is_same
            changes[mode] += [
                f"message {place}: {fault}"
                for place, triple in enumerate(zip(reference, answers, everything, strict=True))
                if (fault := check(*triple))
            ]
        release = version(server.url)
        distinct = sum(ids(plain[name]) != ids(seen["on"][name]) for name in pages(plain))
    verdict = Verdict(
        server="Weaviate",
        version=release,
        client=f"weaviate-client {CLIENT}",
        calls=len(plain) + len(stored) + len(messages),
        distinct=distinct,
        unstable=len(unstable),
        faults={mode: tuple(changes[mode]) for mode in MODES},
    )
    return [verdict]


def version(url: str) -> str:
    """What the server says that it is."""
    release: str = json.loads(exchange(url, "GET", "/v1/meta").body)["version"]
    return release


def recorded(server: real_servers.RealServer) -> tuple[dict[str, Any], list[bytes]]:
    """What the client sees directly, and the searches it sends for it."""
    with grpc.insecure_channel(server.grpc, options=UNLIMITED) as upstream:
        recorder = Recorder(upstream)
        with serving(recorder) as address:
            seen: dict[str, Any] = client_output(Place(server.url, address), "ask", SCENARIO)
    return seen, [base64.b64decode(call["message"]) for call in recorder.seen if call["path"] == PATH]


def pages(seen: Mapping[str, Any]) -> list[str]:
    """The names of the calls of which the whole ranking is there."""
    return [name.removesuffix(ALL) for name in seen if name.endswith(ALL) and isinstance(seen[name], list)]


def ids(page: Any) -> list[str]:
    """The identifiers of a page; none of an error."""
    return [hit["id"] for hit in page] if isinstance(page, list) else []


def family(identifier: str) -> int:
    """Whose copy an object is."""
    return (int(identifier.replace("-", ""), 16) - 1) // 100


def differences(plain: Mapping[str, Any], made: Mapping[str, Any], unstable: frozenset[str]) -> Iterator[str]:
    """The names of the calls that came to something else."""
    yield from (name for name in plain if made.get(name) != plain[name] and name not in unstable)


def faults(plain: Mapping[str, Any], made: Mapping[str, Any], unstable: frozenset[str]) -> Iterator[str]:
    """What is wrong in mode on: pages that are not the first of each family in the server's order, and other calls that differ."""
    ranked = set(pages(plain))
    for name in plain:
        if name in unstable or name.endswith(ALL):
            continue
        if name in ranked and not name.startswith(CLEAN):
            # The object that a search is made by stands for itself.
            first = ids(plain[name + ALL])[:1] if ".object" in name else []
            if fault := page_fault(plain[name], made[name], plain[name + ALL], first):
                yield f"{name}: {fault}"
        elif made[name] != plain[name]:
            yield f"{name}: not what it is directly"


def page_fault(reference: Any, page: Any, everything: list[dict[str, Any]], alone: list[str]) -> str:
    """What is wrong with a page; "" where nothing is."""
    if not isinstance(page, list) or not isinstance(reference, list):
        return "" if page == reference else f"directly {reference!r}, through the proxy {page!r}"
    rest = iter(everything)
    if not all(any(hit == other for other in rest) for hit in page):
        return "not a part of the server's own ranking, in its order"
    families = [family(hit["id"]) for hit in page if hit["id"] not in alone]
    possible = len({family(item["id"]) for item in everything})
    if len(page) < min(len(reference), possible):
        return f"{len(page)} results, directly {len(reference)}"
    if len(set(families)) < len(families) and possible >= len(reference):
        return f"copies stand beside each other: {families}"
    return ""


def is_same(reference: Seen, made: Seen, everything: Seen) -> str:
    """What differs between two answers to one message; "" where nothing does."""
    del everything
    return "" if settled(reference) == settled(made) else f"{reference} became {made}"[:300]


def is_part(reference: Seen, made: Seen, everything: Seen) -> str:
    """What is wrong with an answer in mode on; "" where it is the server's own, or a part of its whole ranking in its order."""
    before, after = settled(reference), settled(made)
    if (before.code, before.details) != (after.code, after.details):
        return f"directly {reference.code} {reference.details!r}, through the proxy {made.code} {made.details!r}"
    if before.messages == after.messages:
        return ""
    if not everything.messages:
        return "changed, and the whole ranking cannot be had"
    if settled_reply(reference.messages[0], results=False) != settled_reply(made.messages[0], results=False):
        return "what stands around the results differs"
    rest = iter(settled_results(everything.messages[0]))
    is_one = all(result in rest for result in settled_results(made.messages[0]))
    return "" if is_one else "not a part of the server's own ranking, in its order"
