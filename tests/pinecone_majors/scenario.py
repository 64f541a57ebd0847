"""What one Python client sees: run by its own interpreter as ``scenario.py CONTROL_URL PLAN sync|asyncio|grpc``.

Prints one JSON object: name of the call -> what came of it. It knows nothing of the project, and only what every major
from 5 to 10 has in common of the client. Over gRPC there is no TLS where the control plane has none; over TLS whoever
signed SSL_CERT_FILE is believed.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Call = Callable[[Any], Any]
SCRATCH = "scratch"


def query(search: dict[str, Any]) -> Call:
    """The query in the words of every major."""
    arguments = {
        "top_k": search["topK"],
        "include_values": search["includeValues"],
        "include_metadata": search["includeMetadata"],
        **{name: search[name] for name in ("vector", "id", "filter", "namespace") if name in search},
        **({"sparse_vector": search["sparse"]} if "sparse" in search else {}),
    }
    return lambda index: index.query(**arguments)


def plain_sparse(sparse: Any) -> Any:
    # Major 5 shows an empty one over gRPC where there is none.
    empty = sparse is None or not sparse.indices
    return None if empty else {"indices": list(sparse.indices), "values": list(sparse.values)}


def matches(answer: Any) -> list[dict[str, Any]]:
    """Every match as the caller may read it."""
    return [
        {
            "id": match.id,
            "score": match.score,
            "values": None if match.values is None else list(match.values),
            "sparse": plain_sparse(match.sparse_values),
            "metadata": None if match.metadata is None else dict(match.metadata),
        }
        for match in answer.matches
    ]


def records(answer: Any) -> dict[str, Any]:
    return {
        name: [list(record.values or []), plain_sparse(record.sparse_values), dict(record.metadata or {})]
        for name, record in sorted(answer.vectors.items())
    }


def stats(answer: Any) -> list[Any]:
    return [answer.dimension, answer.total_vector_count, sorted(answer.namespaces)]


def listed(pages: list[Any]) -> list[str]:
    """Ids of all pages; a page is a list of ids (5 to 8) or an object with vectors (9, 10)."""
    return [getattr(one, "id", one) for page in pages for one in getattr(page, "vectors", page)]


def calls(plan: dict[str, Any], name: str) -> dict[str, tuple[Call, Callable[[Any], Any]]]:
    """Call -> how it is made, how it is told; for the index of this name."""
    specific: dict[str, tuple[Call, Callable[[Any], Any]]] = {
        search["name"]: (query(search), matches) for search in plan["queries"] if search["index"] == name
    }
    if name != "clean":
        return specific
    vector = plan["fan_out"]["vector"]
    scratch = [{"id": f"s{number}", "values": vector, "metadata": {"n": number}} for number in range(3)]
    # The order tells the story: what is written is read, changed, read, removed.
    story: dict[str, tuple[Call, Callable[[Any], Any]]] = {
        "upsert": (lambda index: index.upsert(vectors=scratch, namespace=SCRATCH), lambda got: got.upserted_count),
        "fetch": (lambda index: index.fetch(ids=["s0", "s1", "nobody"], namespace=SCRATCH), records),
        "list": (lambda index: index.list(prefix="s", limit=2, namespace=SCRATCH), listed),
        "update": (lambda index: index.update(id="s0", set_metadata={"n": 9}, namespace=SCRATCH), lambda _: "done"),
        "fetch again": (lambda index: index.fetch(ids=["s0"], namespace=SCRATCH), records),
        "stats": (lambda index: index.describe_index_stats(), stats),
        "delete": (lambda index: index.delete(delete_all=True, namespace=SCRATCH), lambda _: "done"),
        "stats again": (lambda index: index.describe_index_stats(), stats),
        "query_namespaces": (
            lambda index: index.query_namespaces(
                vector=vector, namespaces=plan["fan_out"]["namespaces"], metric="dotproduct", top_k=9
            ),
            lambda answer: [[match.id, match.score] for match in answer.matches],
        ),
        "wrong size": (lambda index: index.query(vector=[1.0], top_k=3), matches),
    }
    return specific | story


async def gathered(answer: Any) -> Any:
    """What a call comes to, whichever way it hands it over."""
    # By its class: the models of some majors claim to have every attribute.
    if isinstance(answer, AsyncIterator):
        return [page async for page in answer]
    if isinstance(answer, Iterator):
        return list(answer)
    return await answer if inspect.isawaitable(answer) else answer


async def seen(call: Call, describe: Callable[[Any], Any], index: Any) -> Any:
    try:
        return describe(await gathered(call(index)))
    except Exception as error:  # noqa: BLE001 - whatever the client makes of an answer is what its caller sees
        return {"error": type(error).__name__, "status": getattr(error, "status", getattr(error, "status_code", None))}


def authority(host: str) -> str:
    """host:port of a host with a scheme or without."""
    return urlsplit(host if "://" in host else f"//{host}").netloc


async def closed(one: Any) -> None:
    """End a client's or an index's connections, in the majors where that can be said."""
    if hasattr(type(one), "close"):
        await gathered(one.close())


async def observe(client: Any, opened: Callable[[str, str], Any], control: str, plan: dict[str, Any]) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    # Where indexes must be, when not where the control plane is: a host that leads elsewhere goes round the proxy.
    places = plan.get("places", {}).get(control, [authority(control)])
    for name in plan["indexes"]:
        try:
            described = await gathered(client.describe_index(name))
        except TypeError as error:
            # Major 5 came before sparse indexes, and cannot read what one is.
            answers[f"{name} is described"] = {"error": type(error).__name__}
            continue
        answers[f"{name} leads here"] = authority(described.host) in places
        answers[f"{name} is described"] = [described.name, described.dimension, str(described.metric)]
        index = opened(name, described.host)
        for title, (call, describe) in calls(plan, name).items():
            answers[title] = await seen(call, describe, index)
        await closed(index)
    return answers


async def main(control: str, plan: dict[str, Any], transport: str) -> dict[str, Any]:
    pinecone = import_module("pinecone")
    if transport == "asyncio":
        async with pinecone.PineconeAsyncio(api_key="key", host=control) as client:
            return await observe(client, lambda _, host: client.IndexAsyncio(host=host), control, plan)
    client = pinecone.Pinecone(api_key="key", host=control, **trusting(control))

    def opened(name: str, host: str) -> Any:
        return client.Index(host=host) if transport == "sync" else over_grpc(control, name, host)

    answers = await observe(client, opened, control, plan)
    await closed(client)
    return answers


def trusting(control: str) -> dict[str, str]:
    """What makes a client believe a private authority. 9 ignores it, and reads the variable itself, as 10 does over gRPC."""
    return {"ssl_ca_certs": os.environ["SSL_CERT_FILE"]} if control.startswith("https") else {}


def over_grpc(control: str, name: str, host: str) -> Any:
    """An index by its name, where its client can follow that; else by its host."""
    pinecone, grpc = import_module("pinecone"), import_module("pinecone.grpc")
    is_secure, is_plain_url = control.startswith("https"), host.startswith("http://")
    if hasattr(grpc, "GRPCClientConfig"):  # up to 8, which take a host with http:// for the name of a machine
        client = grpc.PineconeGRPC(api_key="key", host=control, **trusting(control))
        config = grpc.GRPCClientConfig(secure=is_secure)
        where = {"host": authority(host)} if is_plain_url else {"name": name}
        return client.Index(**where, grpc_config=config)
    if is_secure or "PINECONE_GRPC_SCHEME" in os.environ:
        return pinecone.Pinecone(api_key="key", host=control, **trusting(control)).index(name, grpc=True)
    return grpc.GrpcIndex(host=f"http://{authority(host)}", api_key="key", secure=False)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], json.loads(Path(sys.argv[2]).read_bytes()), sys.argv[3]))))
