"""What a Pinecone client may see of the proxy: nothing in mode off, distinct and full pages of copied data in mode on.

Everything here compares observations as tests/pinecone_majors/scenario.py prints them: query name -> matches, each with
id, score, values, sparse and metadata as the client's own objects gave them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from support.pinecone.planted import TOP_K, family

Seen = Mapping[str, Any]


def differences(direct: Seen, proxied: Seen) -> list[str]:
    """Names of the calls that came to something else."""
    return sorted(name for name in direct.keys() | proxied.keys() if direct.get(name) != proxied.get(name))


def transported(over_rest: Seen, over_grpc: Seen) -> list[str]:
    """Names of the calls that came to something else over the other transport.

    Of a float32, REST tells digits; gRPC tells the number, and the class of an error says by which of them it came.
    """
    return differences(_single(over_rest), _single(over_grpc))


def _single(value: Any) -> Any:
    if isinstance(value, float):
        return float(np.float32(value))
    if isinstance(value, list):
        return [_single(one) for one in value]
    if isinstance(value, Mapping):
        return {name: _single(one) for name, one in value.items()} if "error" not in value else {"error": None}
    return value


def is_of_copies(name: str) -> bool:
    """Whether a call asks an index with copies for one page."""
    index, _, rest = name.partition(".")
    return index.endswith("copied") and not rest.endswith(".all") and bool(rest)


def faults(direct: Seen, proxied: Seen) -> list[str]:
    """What is wrong with answers in mode on: a sentence each, with the call's name; none when all is well."""
    changed = [
        f"{name}: not what it is directly"
        for name in differences(direct, proxied)
        if not is_of_copies(name) and not name.endswith(".all")
    ]
    return changed + [fault for name in direct if is_of_copies(name) for fault in _page(name, direct, proxied[name])]


def _page(name: str, direct: Seen, page: Any) -> Iterator[str]:
    plain, everything = direct[name], direct[name.rpartition(".")[0] + ".all"]
    if isinstance(plain, dict):
        # The client itself refuses the call: the proxy must not make it work either.
        if page != plain:
            yield f"{name}: directly {plain}, through the proxy {page}"
        return
    ids = [match["id"] for match in page]
    ranks = {match["id"]: rank for rank, match in enumerate(everything)}
    if len(ids) != TOP_K:
        yield f"{name}: {len(ids)} matches, not {TOP_K}"
    if ids[:1] != [everything[0]["id"]]:
        yield f"{name}: the best match is not the first"
    if not all(one in ranks for one in ids) or sorted(ids, key=lambda one: ranks.get(one, -1)) != ids:
        yield f"{name}: not upstream's matches in upstream's order: {ids}"
    yield from _families(name, ids)
    whole = {match["id"]: match for match in everything}
    for match in page:
        if match != _as_requested(plain[0], whole.get(match["id"], {})):
            yield f"{name}: {match['id']} is not told as upstream tells it"


def _families(name: str, ids: Sequence[str]) -> Iterator[str]:
    """By an id, its record stands alone: its near-duplicates are kept beside it, as one."""
    families = [family(one) for one in ids]
    if ".id." in name:
        if families[0] not in families[1:]:
            yield f"{name}: the record asked about swallowed its copies"
        families = families[1:]
    if len(set(families)) != len(families):
        yield f"{name}: not distinct: {ids}"


def _as_requested(example: Mapping[str, Any], whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """A whole match, less what the example of a plain answer does not tell either."""
    return {key: whole.get(key) if example[key] else example[key] for key in example}
