"""Which databases the jobs read, each through its official client, and how one is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from vecsieve.config.problems import Problem, SettingsError
from vecsieve.config.values import alternatives
from vecsieve.proxy.jobs.analyze.reading import Collection
from vecsieve.proxy.jobs.files import key_from
from vecsieve.proxy.jobs.source import Access, SourceError

TIMEOUT_SECONDS = 30


class Opened(Collection, Protocol):
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Database:
    """``variable``: where its key usually is. ``package``: of the official client. ``open``: loads that client."""

    variable: str
    package: str
    open: Callable[[Access, tuple[str, ...] | None], Opened]


def _qdrant(access: Access, payload_fields: tuple[str, ...] | None) -> Opened:
    from vecsieve.proxy.jobs.qdrant import QdrantSource

    return QdrantSource(
        access.url,
        access.collection,
        vector_name=access.vector_name,
        api_key=access.api_key,
        timeout_seconds=access.timeout_seconds,
        requests_per_second=access.requests_per_second,
        payload_fields=payload_fields,
    )


def _chroma(access: Access, _: tuple[str, ...] | None) -> Opened:
    from vecsieve.proxy.jobs.chroma import ChromaSource

    return ChromaSource(access)


def _milvus(access: Access, _: tuple[str, ...] | None) -> Opened:
    from vecsieve.proxy.jobs.milvus import MilvusSource

    return MilvusSource(access)


def _pinecone(access: Access, _: tuple[str, ...] | None) -> Opened:
    from vecsieve.proxy.jobs.pinecone import PineconeSource

    return PineconeSource(access)


DATABASES: Mapping[str, Database] = {
    "qdrant": Database("QDRANT_API_KEY", "qdrant_client", _qdrant),
    "chroma": Database("CHROMA_API_KEY", "chromadb", _chroma),
    "milvus": Database("MILVUS_TOKEN", "pymilvus", _milvus),
    "pinecone": Database("PINECONE_API_KEY", "pinecone", _pinecone),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options that every job has. ``vector``: None for the only one. ``api_key_env``: None for the usual variable."""

    backend: str
    url: str
    collection: str
    vector: str | None
    requests_per_second: float
    api_key_env: str | None


def opened(wanted: Wanted, environment: Mapping[str, str], *, payload_fields: tuple[str, ...] | None = None) -> Opened:
    """``payload_fields``: at least these are read, None for all. Raises SettingsError for an option, SourceError."""
    database = DATABASES.get(wanted.backend)
    if database is None:
        raise SettingsError([Problem("--backend", repr(wanted.backend), alternatives(tuple(DATABASES)))])
    access = Access(
        url=wanted.url,
        collection=wanted.collection,
        vector_name=wanted.vector,
        api_key=key_from(environment, wanted.api_key_env, usual=database.variable),
        timeout_seconds=TIMEOUT_SECONDS,
        requests_per_second=wanted.requests_per_second,
    )
    try:
        return database.open(access, payload_fields)
    except ModuleNotFoundError as error:
        if error.name != database.package or wanted.backend == "qdrant":  # the command line knows the latter's extra
            raise
        package = database.package
        raise SourceError(f"reading {wanted.backend} needs its official client: pip install {package}") from None
