"""The vendors' own servers for tests, started from programs on this machine, each with its data in a temporary folder.

WEAVIATE_SERVER, QDRANT_SERVER, OPENSEARCH_SERVER and ELASTICSEARCH_SERVER name the programs. Without them the tests use the emulators
and the embedded engine.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.jobs import word_model
from support.network.ports import free_ports
from support.process.stack import exchange

WEAVIATE = "WEAVIATE_SERVER"
QDRANT = "QDRANT_SERVER"
OPENSEARCH = "OPENSEARCH_SERVER"
ELASTICSEARCH = "ELASTICSEARCH_SERVER"
WEAVIATE_PORTS = 6  # beside that of REST
START_SECONDS = 120.0  # a cold start on a busy machine; usual is one to five
STOP_SECONDS = 20.0
# So that searches by text, reranking and generated text can be asked for: one asks support.jobs.word_model, two need no model.
MODULES = "text2vec-transformers,reranker-dummy,generative-dummy"


@dataclass(frozen=True, slots=True)
class RealServer:
    """Where it listens: REST by URL, gRPC by host and port."""

    url: str
    grpc: str


def program(variable: str) -> str | None:
    """The path that an environment variable names; None where it is unset. Raises FileNotFoundError where nothing is there."""
    named = os.environ.get(variable)
    if not named:
        return None
    path = Path(named).resolve()
    if not path.is_file():
        raise FileNotFoundError(f"{variable} names {named!r}; there is no such file")
    return str(path)


def weaviate_command(
    path: str, rest: int, ports: Sequence[int], folder: str
) -> tuple[Sequence[str], Mapping[str, str]]:
    """The command and its environment variables: one node, anonymous access, no telemetry. ``ports``: WEAVIATE_PORTS of them, gRPC's first.

    Its gRPC port listens on every interface, whatever it is told: tests.real_servers runs it in a network of its own.
    """
    grpc, gossip, data, raft, internal, profiling = map(str, ports)
    environment = {
        "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "true",
        "DISABLE_TELEMETRY": "true",
        "PERSISTENCE_DATA_PATH": folder,
        "DEFAULT_VECTORIZER_MODULE": "none",
        "GRPC_PORT": grpc,
        "CLUSTER_HOSTNAME": "node1",
        "CLUSTER_IN_LOCALHOST": "true",
        "CLUSTER_BIND_ADDR": "127.0.0.1",
        "CLUSTER_ADVERTISE_ADDR": "127.0.0.1",
        "CLUSTER_GOSSIP_BIND_PORT": gossip,
        "CLUSTER_DATA_BIND_PORT": data,
        "RAFT_PORT": raft,
        "RAFT_INTERNAL_RPC_PORT": internal,
        "RAFT_BOOTSTRAP_EXPECT": "1",
        "GO_PROFILING_DISABLE": "true",
        "GO_PROFILING_PORT": profiling,
        "LOG_LEVEL": "warning",
    }
    return [path, "--scheme", "http", "--host", "127.0.0.1", "--port", str(rest)], environment


@contextmanager
def weaviate(path: str, settings: Mapping[str, str] | None = None) -> Iterator[RealServer]:
    """Weaviate for the block. ``settings``: its environment variables beside those of `weaviate_command`."""
    rest, *ports = free_ports(1 + WEAVIATE_PORTS)
    with tempfile.TemporaryDirectory() as folder, word_model.listening() as model:
        command, variables = weaviate_command(path, rest, ports, folder)
        modules = {"ENABLE_MODULES": MODULES, "TRANSFORMERS_INFERENCE_API": model}
        url = f"http://127.0.0.1:{rest}"
        with _running(command, {**variables, **modules, **(settings or {})}, folder, url, "/v1/.well-known/ready"):
            yield RealServer(url, f"127.0.0.1:{ports[0]}")


@contextmanager
def qdrant(path: str) -> Iterator[RealServer]:
    """Qdrant for the block: one node, no telemetry."""
    rest, grpc = free_ports(2)
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "QDRANT__SERVICE__HOST": "127.0.0.1",
            "QDRANT__SERVICE__HTTP_PORT": str(rest),
            "QDRANT__SERVICE__GRPC_PORT": str(grpc),
            "QDRANT__STORAGE__STORAGE_PATH": f"{folder}/storage",
            "QDRANT__STORAGE__SNAPSHOTS_PATH": f"{folder}/snapshots",
            "QDRANT__TELEMETRY_DISABLED": "true",
            "QDRANT__LOG_LEVEL": "WARN",
        }
        url = f"http://127.0.0.1:{rest}"
        with _running([path], environment, folder, url, "/readyz"):
            yield RealServer(url, f"127.0.0.1:{grpc}")


@contextmanager
def search_node(path: str) -> Iterator[str]:
    """The URL of OpenSearch or Elasticsearch for the block: one node, without security (what a release's own configuration has to say)."""
    http, transport = free_ports(2)
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "cluster.name": "tests",
            "node.name": "node1",
            "http.host": "127.0.0.1",
            "http.port": http,
            "transport.host": "127.0.0.1",
            "transport.port": transport,
            "discovery.type": "single-node",
            "path.data": f"{folder}/data",
            "path.logs": f"{folder}/logs",
            "cluster.routing.allocation.disk.threshold_enabled": "false",
        }
        command = [path, *(f"-E{name}={value}" for name, value in settings.items())]
        url = f"http://127.0.0.1:{http}"
        with _running(command, {}, folder, url, "/_cluster/health"):
            yield url


@contextmanager
def _running(
    command: Sequence[str], environment: Mapping[str, str], folder: str, url: str, ready: str
) -> Iterator[None]:
    """The process until the end of the block. Raises TimeoutError or ChildProcessError with what it printed."""
    with (
        tempfile.TemporaryFile() as output,
        subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        ) as process,
    ):
        try:
            until = time.monotonic() + START_SECONDS
            while not _answers(url, ready):
                if process.poll() is not None or time.monotonic() > until:
                    output.seek(0)
                    printed = output.read().decode(errors="replace")[-2000:]
                    kind = TimeoutError if process.poll() is None else ChildProcessError
                    raise kind(f"{command[0]} is not ready at {url}{ready}:\n{printed}")
                time.sleep(0.1)
            yield
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _answers(url: str, path: str) -> bool:
    try:
        return exchange(url, "GET", path).status == 200
    except OSError:
        return False
