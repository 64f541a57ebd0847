"""The kinds of value a setting takes. A kind that a number range or a list of words cannot say carries its phrase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from vecsieve.config.addresses import (
    host_pattern,
    index_url,
    listen_address,
    path_prefix,
    port_number,
    public_url,
    upstream_url,
)
from vecsieve.config.backends import TRAITS

Mode = Literal["on", "shadow", "off"]
Linkage = Literal["single", "complete", "average", "leader"]
Representative = Literal["rank", "centroid", "hybrid", "query_closest", "longest", "auto", "chain"]
Tie = Literal["citations", "authority", "recency", "shorter", "rank"]
Diversifier = Literal["dpp", "msd", "cover", "ssd"]
PresetName = Literal["conservative", "balanced", "aggressive", "heavy", "classical", "vectors", "tickets"]

LARGEST_COUNT = 2_147_483_647  # a signed 32-bit number: what sockets and C parsers below us can hold
LONGEST_SECONDS = 86_400.0  # a day: longer waits are a slip of units
LARGEST_BUDGET_BYTES = 10**15  # a petabyte a month: more is a slip of units


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a user is told to write, for kinds whose type does not say it."""

    phrase: str


def alternatives(words: tuple[str, ...]) -> str:
    """``a, b or c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _known(backend: str) -> str:
    if backend not in TRAITS:
        raise ValueError("no such backend")
    return backend


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError("a name twice")
    return names


Backend = Annotated[str, AfterValidator(_known), Wanted(alternatives(tuple(TRAITS)))]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
CosineDistance = Annotated[float, Field(ge=0.0, le=2.0)]
Seconds = Annotated[float, Field(gt=0.0, le=LONGEST_SECONDS)]
SecondsOrZero = Annotated[float, Field(ge=0.0, le=LONGEST_SECONDS)]
Count = Annotated[int, Field(ge=1, le=LARGEST_COUNT)]
BudgetBytes = Annotated[int, Field(ge=1, le=LARGEST_BUDGET_BYTES)]
Name = Annotated[str, Field(min_length=1)]
Names = Annotated[tuple[Name, ...], AfterValidator(_distinct), Wanted("a list of names, each once")]
Ties = Annotated[tuple[Tie, ...], AfterValidator(_distinct), Wanted(f"a list of {', '.join(get_args(Tie))}, each once")]
Pattern = Annotated[str, Field(min_length=1), Wanted("a pattern such as docs-*")]
HostPort = Annotated[
    str, AfterValidator(listen_address), Wanted("host:port such as 127.0.0.1:6343, an IPv6 host in brackets")
]
UpstreamUrl = Annotated[
    str,
    AfterValidator(upstream_url),
    Wanted("http or https, host and port such as http://127.0.0.1:6333, without credentials, path or query"),
]
PathPrefix = Annotated[
    str, AfterValidator(path_prefix), Wanted("a path such as /qdrant, without a closing slash, or nothing")
]
HostPatterns = Annotated[
    tuple[Annotated[str, AfterValidator(host_pattern)], ...],
    AfterValidator(_distinct),
    Wanted("a list of host names such as *.example.com, each once, perhaps with a port, * within one label"),
]
IndexUrl = Annotated[
    str,
    AfterValidator(index_url),
    Wanted("the host of an index such as docs-abc123.svc.aped-4627-b74a.pinecone.io, http(s)://host:port"),
]
IndexPorts = Annotated[
    dict[
        Annotated[int, BeforeValidator(port_number), Field(ge=1, le=65_535)],
        Annotated[str, AfterValidator(index_url)],
    ],
    Wanted(
        "a mapping from ports, 1 to 65535, to hosts of indexes such as 8101: docs-abc123.svc.aped-4627-b74a.pinecone.io"
    ),
]
PublicForm = Literal["path", "port_url", "port_authority"]
PublicUrl = Annotated[
    str,
    AfterValidator(public_url),
    Wanted("http or https, host and perhaps port and path such as https://vecsieve.example.com"),
]

# What every settings model shares.


class Model(BaseModel):
    """What every settings model shares: frozen, unknown keys are errors, no coercion of one type into another."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _none_word(value: object) -> object:
    """YAML's null is easy to overlook; the word says it."""
    return None if value == "none" else value


NoneWord = BeforeValidator(_none_word)
T = TypeVar("T")
OrNone = Annotated[T | None, NoneWord]
