"""What differs between vector databases, and nothing else: bytes and arrays in, bytes and arrays out.

contract          the five verbs, their values and their two exceptions
json_spans        where members and elements stand in a JSON text, exactly
json_vectors      dense vectors set aside before the structure is read, with proof
json_floats       arrays of numbers to numpy
qdrant_rest       Qdrant over REST: the adapter, composed of
  qdrant_paths      which requests are ranked searches
  qdrant_request    what a search asks for, and its bytes asking for more
  qdrant_query      what it ranks by, and the vector it names
  qdrant_selectors  which vectors and payload it wants
  qdrant_reply      the lists of a reply, and the pools in them
  qdrant_points     where its points stand
  qdrant_vectors    the vectors of a reply as one matrix
  qdrant_restore    the client's answer, cut from the reply
qdrant_dialect    Qdrant's errors and refusals
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from vecsieve.adapters.contract import Adapter, Dialect
from vecsieve.adapters.qdrant_dialect import QdrantDialect
from vecsieve.adapters.qdrant_rest import QdrantRest

ADAPTERS: Mapping[str, Callable[[], Adapter]] = MappingProxyType({"qdrant": QdrantRest})
DIALECTS: Mapping[str, Callable[[], Dialect]] = MappingProxyType({"qdrant": QdrantDialect})
