"""The vector of a text, from an endpoint in the form of OpenAI's `/v1/embeddings`, which most servers of models have.

VecSieve ships no embedding model: the vectors must be those of the collection, and only its owner knows which model made them.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from vecsieve.config.problems import masked

from ..runtime.files import NoAnswerError, exchanged
from .source import SourceError

SECONDS = 30.0  # a model that is loaded by the first request
LARGEST_BYTES = 4 * 1024 * 1024


class _Embedding(msgspec.Struct):
    embedding: list[float]


class _Answer(msgspec.Struct):
    data: list[_Embedding]


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeddings:
    """``model``, ``key``: None if the endpoint needs none."""

    url: str
    model: str | None
    key: str | None

    async def of(self, text: str) -> list[float]:
        """Raises SourceError."""
        where = f"the embeddings at {masked(self.url)}"
        request = {"input": text, **({} if self.model is None else {"model": self.model})}
        head = {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        try:
            status, content = await exchanged(
                "POST", self.url, json=request, headers=head, seconds=SECONDS, most_bytes=LARGEST_BYTES
            )
        except NoAnswerError:
            raise SourceError(f"{where} do not answer") from None
        if status != 200:
            raise SourceError(f"{where} answer with status {status}")
        try:
            return msgspec.json.decode(content, type=_Answer).data[0].embedding
        except (msgspec.MsgspecError, IndexError):
            raise SourceError(f"{where} sent no vector: is it an endpoint in OpenAI's form?") from None
