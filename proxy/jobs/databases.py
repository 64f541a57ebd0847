"""The databases that jobs read, each through its official client, the options that name one, and how it is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

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
from .source import Access, Points, Source, SourceError


@dataclass(frozen=True, slots=True)
class Database:
    """``variable``: the usual variable with its key. ``package``: of the official client, "" if none is used. ``source``: loads that client; None if no job
    reads this database. ``points``: the same collection, for deleting and storing points.
    """

    variable: str
    package: str
    source: Callable[[Access, tuple[str, ...] | None], Source] | None
    points: Callable[[Access], Points]


DATABASES: Mapping[str, Database] = {
    "qdrant": Database("QDRANT_API_KEY", "", Qdrant, Qdrant),
    "chroma": Database("CHROMA_API_KEY", "chromadb", ChromaSource, ChromaSource),
    "milvus": Database("MILVUS_TOKEN", "pymilvus", MilvusSource, MilvusSource),
    "pinecone": Database("PINECONE_API_KEY", "pinecone", PineconeSource, PineconeSource),
    "weaviate": Database("WEAVIATE_API_KEY", "", None, WeaviatePoints),
    "opensearch": Database("OPENSEARCH_AUTHORIZATION", "", *2 * (partial(SearchEngine, OPENSEARCH),)),
    "elasticsearch": Database("ELASTICSEARCH_API_KEY", "", *2 * (partial(SearchEngine, ELASTICSEARCH),)),
}


BackendOption = Annotated[
    str, typer.Option(help="The database: qdrant, chroma, milvus, pinecone, opensearch or elasticsearch.")
]
KeyOption = Annotated[str | None, typer.Option(help="Variable with the key.", show_default="QDRANT_API_KEY and such")]
RateOption = Annotated[float, typer.Option("--rate", help="Most requests per second.", min=0.1, max=10_000.0)]
TextFieldOption = Annotated[str | None, typer.Option(help="Payload field with the text; dots for nested fields.")]
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
    readers = {name: source for name, each in DATABASES.items() if (source := each.source) is not None}
    if options.backend not in readers:
        raise SettingsError([Problem("--backend", repr(options.backend), alternatives(tuple(readers)))])
    return _opened(options, environment, lambda _, access: readers[options.backend](access, payload_fields))


def points_opened(options: SourceOptions, environment: Mapping[str, str]) -> Points:
    """``wanted.vector``: the name of the vector that was compared. Raises as ``opened``."""
    return _opened(options, environment, lambda database, access: database.points(access))


T = TypeVar("T")


def _opened(options: SourceOptions, environment: Mapping[str, str], by: Callable[[Database, Access], T]) -> T:
    database = DATABASES.get(options.backend)
    if database is None:
        raise SettingsError([Problem("--backend", repr(options.backend), alternatives(tuple(DATABASES)))])
    access = Access(
        url=options.url,
        collection=options.collection,
        vector_name=options.vector,
        api_key=key_from(environment, options.api_key_env, usual=database.variable),
        requests_per_second=options.requests_per_second,
    )
    try:
        return by(database, access)
    except ModuleNotFoundError as error:
        if error.name != database.package:
            raise
        raise SourceError(f"reading {options.backend} needs its official client: pip install {error.name}") from None
