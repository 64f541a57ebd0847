"""The databases that jobs read, each through its official client, the options that name one, and how it is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from vecsieve.adapters.opensearch.calls import ELASTICSEARCH, OPENSEARCH
from vecsieve.config.backends import DEFAULT_BACKEND
from vecsieve.config.problems import Problem, SettingsError
from vecsieve.config.values import alternatives

from ..runtime.files import key_from
from .clients.chroma import ChromaSource
from .clients.milvus import MilvusSource
from .clients.pinecone import PineconeSource
from .clients.qdrant import Qdrant
from .clients.search_engine import SearchEngine
from .clients.weaviate import WeaviatePoints
from .source import USUAL_FIELDS, Access, Points, Source, SourceError


@dataclass(frozen=True, slots=True)
class Database:
    """``variable``: the usual variable with its key. ``made``: from its access; loads its client.
    ``package``: of the official client, "" if none is used. ``is_read``: whether jobs read it; else only its points are known, for `undo`.
    """

    variable: str
    made: Callable[[Access], Any]
    package: str = ""
    is_read: bool = True


DATABASES: Mapping[str, Database] = {
    "qdrant": Database("QDRANT_API_KEY", Qdrant),
    "chroma": Database("CHROMA_API_KEY", ChromaSource),
    "milvus": Database("MILVUS_TOKEN", MilvusSource, "pymilvus"),
    "pinecone": Database("PINECONE_API_KEY", PineconeSource),
    "weaviate": Database("WEAVIATE_API_KEY", WeaviatePoints, is_read=False),
    "opensearch": Database("OPENSEARCH_AUTHORIZATION", partial(SearchEngine, OPENSEARCH)),
    "elasticsearch": Database("ELASTICSEARCH_API_KEY", partial(SearchEngine, ELASTICSEARCH)),
}


BackendOption = Annotated[
    str, typer.Option(help="The database: qdrant, chroma, milvus, pinecone, opensearch or elasticsearch.")
]
KeyOption = Annotated[str | None, typer.Option(help="Variable with the key.", show_default="QDRANT_API_KEY and such")]
RateOption = Annotated[float, typer.Option("--rate", help="Most requests per second.", min=0.1, max=10_000.0)]
TextFieldOption = Annotated[str | None, typer.Option(help="Payload field with the text; dots for nested fields.")]


def usual_or(field: str | None) -> tuple[str, ...]:
    """The fields that may have the text."""
    return USUAL_FIELDS if field is None else (field,)


IdsOption = Annotated[
    Path | None,
    typer.Option(help="Write the removable points to this file, one JSON line each, with the point that stays."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of every job that reads a collection. ``vector``: None for the only one."""

    url: Annotated[
        str, typer.Option(help="The database's URL, with its port; for Pinecone the index's host.", show_default=False)
    ]
    collection: Annotated[str, typer.Option(help="The collection; for Pinecone the namespace.")]
    backend: BackendOption = DEFAULT_BACKEND
    vector: Annotated[str | None, typer.Option(help="Which named vector; not needed when there is one.")] = None
    requests_per_second: RateOption = 20.0
    api_key_env: KeyOption = None


def opened(
    options: SourceOptions, environment: Mapping[str, str], *, payload_fields: tuple[str, ...] | None = None
) -> Source:
    """``payload_fields``: the fields to read at least, None for all. Raises SettingsError for an option, SourceError."""
    names = [name for name, database in DATABASES.items() if database.is_read]
    source: Source = _opened(options, environment, names, payload_fields)
    return source


def points_opened(options: SourceOptions, environment: Mapping[str, str]) -> Points:
    """``options.vector``: the name of the vector that was compared. Raises as ``opened``."""
    points: Points = _opened(options, environment, list(DATABASES), None)
    return points


def _opened(
    options: SourceOptions, environment: Mapping[str, str], names: list[str], payload_fields: tuple[str, ...] | None
) -> Any:
    if options.backend not in names:
        raise SettingsError([Problem("--backend", repr(options.backend), alternatives(tuple(names)))])
    database = DATABASES[options.backend]
    access = Access(
        url=options.url,
        collection=options.collection,
        vector_name=options.vector,
        api_key=key_from(environment, options.api_key_env, usual=database.variable),
        requests_per_second=options.requests_per_second,
        payload_fields=payload_fields,
    )
    try:
        return database.made(access)
    except ModuleNotFoundError as error:
        if error.name != database.package:
            raise
        raise SourceError(f"reading {options.backend} needs its official client: pip install {error.name}") from None
