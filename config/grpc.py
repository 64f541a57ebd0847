"""The settings of the gRPC plane, and of TLS on our own ports."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from vecsieve.config.addresses import parse_upstream
from vecsieve.config.model import Model, NoneWord
from vecsieve.config.values import Count, HostPort, Wanted


def grpc_url(text: str) -> str:
    """The URL of a gRPC server. Without a scheme it is plain, as gRPC clients write their targets. Raises ValueError."""
    url = text if "://" in text else f"http://{text}"
    parse_upstream(url)
    return url.removesuffix("/")


GrpcUrl = Annotated[
    str,
    AfterValidator(grpc_url),
    Wanted("host:port such as 127.0.0.1:6334, https://host:port for TLS, without credentials or path"),
]
Connections = Annotated[int, Field(ge=1, le=64)]


class GrpcSettings(Model):
    """gRPC beside HTTP. It is spoken as soon as it is known where its calls go: on `listen`, which tells the two protocols apart
    by their first bytes, and on `grpc.listen` alike.
    """

    listen: Annotated[HostPort | None, NoneWord] = Field(
        default=None,
        description="for gRPC clients that expect a port of their own (Qdrant's 6334) or, as Weaviate's, refuse to share one. "
        "Flag: --grpc-listen",
    )
    upstream: Annotated[GrpcUrl | None, NoneWord] = Field(
        default=None,
        description="where gRPC calls go: host:port, plain, or https://host:port; none: no gRPC, but for Pinecone the index itself "
        "and for Milvus `upstream.url`. Flag: --grpc-upstream",
    )
    connections: Connections = Field(
        default=3, description="to one gRPC host per process, taken in turn; as many as Qdrant's own client opens"
    )
    message_bytes: Count = Field(
        default=64 * 1024 * 1024,
        description="the largest message of a client, inflated: it is held whole, unlike a body over HTTP; above RESOURCE_EXHAUSTED. As much as "
        "Milvus takes; gRPC servers take 4 MiB unless they are told otherwise, Pinecone's less",
    )
    inflated_bytes_in_flight: Count = Field(
        default=128 * 1024 * 1024,
        description="of compressed messages, inflated, held at once; above RESOURCE_EXHAUSTED. They cost a client a thousandth of that; what "
        "is not compressed costs its sender as much as us",
    )
    answer_bytes: Count = Field(
        default=256 * 1024 * 1024,
        description="the largest answer that is relayed, held whole as well; above RESOURCE_EXHAUSTED. The database's, which clients pick by "
        "what they ask for: 16,384 vectors of 1,536 numbers are 100 MB",
    )


class TlsSettings(Model):
    """TLS on `listen`, index ports and `grpc.listen`, for clients that refuse anything else. Both files or neither."""

    certificate: Annotated[str | None, NoneWord] = Field(
        default=None, description="file with the certificate and its chain (PEM); none: plain"
    )
    key: Annotated[str | None, NoneWord] = Field(
        default=None, description="file with its private key (PEM), unencrypted"
    )
