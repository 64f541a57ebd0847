"""The types of settings. If a number range or a list of words cannot describe a type, it has a phrase for error messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_network
from typing import Annotated, Literal, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from .addresses import (
    collector_url,
    hook_url,
    parse_address,
    parse_pattern,
    path_prefix,
    port_number,
    public_url,
    server_url,
    upstream_url,
)
from .backends import TRAITS

Mode = Literal["on", "shadow", "off"]
WriteMode = Literal["off", "observe", "annotate", "skip", "merge", "reject"]
MergePolicy = Literal["keep-newest", "keep-oldest", "keep-longest", "keep-highest-confidence", "merge", "custom"]
WriteTier = Literal["exact", "semantic", "related"]
Linkage = Literal["single", "complete", "average", "leader"]
Representative = Literal["rank", "centroid", "hybrid", "query_closest", "longest", "auto", "newest", "chain"]
Tie = Literal["citations", "authority", "recency", "shorter", "rank"]
Overlap = Literal["keep", "exchange"]
Texts = Literal["exact", "said", "edited"]
Override = Literal[
    "mode", "certainty", "distance_threshold", "relative_threshold", "linkage", "mmr_lambda", "representative", "order", "fetch_k",
    "collapsed", "per_retriever", "session", "across", "token_budget",
]  # fmt: skip
PresetName = Literal["default", "exact", "meaning", "vectors", "classical"]

LARGEST_COUNT = 2_147_483_647  # signed 32-bit, the limit of sockets and C parsers
LONGEST_SECONDS = 86_400.0  # a day: a larger number has the wrong unit
LARGEST_BUDGET_BYTES = 10**15  # a petabyte a month: a larger number has the wrong unit


@dataclass(frozen=True, slots=True)
class Phrase:
    """Describes the accepted values of a type in an error message. ``words``: the values, if they are a closed set."""

    phrase: str
    words: tuple[str, ...] = ()


def alternatives(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _checked_by(parse: Callable[[str], object]) -> AfterValidator:
    """Make a validator that keeps a text if ``parse`` accepts it."""

    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


def _known(backend: str) -> str:
    if backend not in TRAITS:
        raise ValueError("no such backend")
    return backend


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError("a name twice")
    return names


_HTTPS = AfterValidator(partial(server_url, scheme="https"))  # of a host alone, as for every Pinecone client
Backend = Annotated[str, AfterValidator(_known), Phrase(alternatives(tuple(TRAITS)), tuple(TRAITS))]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
CosineDistance = Annotated[float, Field(ge=0.0, le=2.0)]
Seconds = Annotated[float, Field(gt=0.0, le=LONGEST_SECONDS)]
SecondsOrZero = Annotated[float, Field(ge=0.0, le=LONGEST_SECONDS)]
Count = Annotated[int, Field(ge=1, le=LARGEST_COUNT)]
BudgetBytes = Annotated[int, Field(ge=1, le=LARGEST_BUDGET_BYTES)]
Name = Annotated[str, Field(min_length=1)]
Names = Annotated[tuple[Name, ...], AfterValidator(_distinct), Phrase("a list of names, each once")]
Ties = Annotated[
    tuple[Tie, ...],
    AfterValidator(_distinct),
    Phrase(f"a list of {', '.join(get_args(Tie))}, each once", get_args(Tie)),
]
Overrides = Annotated[
    tuple[Override, ...],
    AfterValidator(_distinct),
    Phrase(f"a list of {', '.join(get_args(Override))}, each once", get_args(Override)),
]
RuleName = Annotated[
    str,
    Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$"),
    Phrase("1 to 32 lower-case letters, digits, - and _ such as tickets"),
]
Pattern = Annotated[str, Field(min_length=1), Phrase("a pattern such as docs-*")]
HostPort = Annotated[
    str, _checked_by(parse_address), Phrase("host:port such as 127.0.0.1:6343, an IPv6 host in brackets")
]
UpstreamUrl = Annotated[
    str,
    AfterValidator(upstream_url),
    Phrase("http or https, host, port and perhaps a path such as http://127.0.0.1:6333, without credentials or query"),
]
PathPrefix = Annotated[
    str, AfterValidator(path_prefix), Phrase("a path such as /qdrant, without a closing slash, or nothing")
]
HostPatterns = Annotated[
    tuple[Annotated[str, _checked_by(parse_pattern), Phrase("a host name such as *.example.com")], ...],
    AfterValidator(_distinct),
    Phrase("a list of host names such as *.example.com, each once, perhaps with a port, * within one label"),
]
IndexUrl = Annotated[
    str,
    _HTTPS,
    Phrase("the host of an index such as docs-abc123.svc.aped-4627-b74a.pinecone.io, http(s)://host:port"),
]
IndexPorts = Annotated[
    dict[
        Annotated[int, BeforeValidator(port_number), Field(ge=1, le=65_535)],
        Annotated[str, _HTTPS],
    ],
    Phrase(
        "a mapping from ports, 1 to 65535, to hosts of indexes such as 8101: docs-abc123.svc.aped-4627-b74a.pinecone.io"
    ),
]
GrpcUrl = Annotated[
    str,
    AfterValidator(partial(server_url, scheme="http")),
    Phrase("host:port such as 127.0.0.1:6334, https://host:port for TLS, without credentials or path"),
]
Connections = Annotated[int, Field(ge=1, le=64)]
CollectorUrl = Annotated[
    str,
    AfterValidator(collector_url),
    Phrase("http or https, host, port and perhaps a path such as http://127.0.0.1:4318, without credentials or query"),
]
HookUrl = Annotated[
    str,
    AfterValidator(hook_url),
    Phrase(
        "http or https, host, port and perhaps a path such as https://example.com/hook, without credentials or query"
    ),
]
KeyDigests = Annotated[
    tuple[
        Annotated[str, Field(pattern=r"^[0-9a-f]{64}$"), Phrase("the SHA-256 digest of a key, 64 hexadecimal digits")],
        ...,
    ],
    AfterValidator(_distinct),
    Phrase("a list of SHA-256 digests in 64 hexadecimal digits, each once"),
]
Networks = Annotated[
    tuple[Annotated[str, _checked_by(ip_network), Phrase("an address or a network such as 10.1.0.0/16")], ...],
    AfterValidator(_distinct),
    Phrase("a list of addresses or networks such as 10.1.0.0/16, each once"),
]
StoreUrl = Annotated[
    str,
    Field(pattern=r"^(redis|rediss)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?(/[0-9]{1,3})?$"),
    Phrase(
        "redis:// or rediss://, host and perhaps port and number of a database such as redis://127.0.0.1:6379/0, without credentials"
    ),
]
PublicForm = Literal["path", "port_url", "port_authority"]
PublicUrl = Annotated[
    str,
    AfterValidator(public_url),
    Phrase("http or https, host and perhaps port and path such as https://vecsieve.example.com"),
]


class Model(BaseModel):
    """Base of the settings models: frozen, without unknown keys, without conversion between types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


# The word none means None, because YAML's null is easily overlooked.
NoneWord = BeforeValidator(lambda value: None if value == "none" else value)
T = TypeVar("T")
OrNone = Annotated[T | None, NoneWord]


def setting(default: T, reason: str) -> T:
    """Declares a field of a settings model: its default, and the reason, which docs/settings.md shows."""
    field: T = Field(default=default, description=reason)
    return field
