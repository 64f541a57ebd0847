"""How many candidates a reply can hold. Pinecone answers with at most 4 MB, whatever top_k says, and top_k ends at 10,000.

Whether the 4 MB are of JSON or of its smaller binary form is not documented: JSON is the safe reading. A guess that was
too bold is refused by upstream, and the client's own request is sent.
"""

from __future__ import annotations

from vecsieve.adapters.contract import Reason, Unsupported

LARGEST_TOP_K = 10_000
REPLY_BYTES = 3_200_000  # 4 MB less a fifth: matches differ in size
NUMBER_BYTES = 14  # a float32 with its comma: 13.7 on average over 768 to 3,072 dimensions
MATCH_BYTES = 1024  # id, score and the metadata of a usual match
FIELDS_BYTES = 4096  # the same with a passage of text
UNKNOWN_NUMBERS = 3072  # of a vector that the request does not show: the largest of the common models
SPARSE_BYTES = 24_000  # the service's limit, 1,000 indices with their values


def most(*, numbers: int = 0, is_sparse: bool = False, has_texts: bool = False) -> int:
    """How many matches fit into a reply, when each has a vector of so many numbers."""
    each = FIELDS_BYTES if has_texts else MATCH_BYTES
    return min(REPLY_BYTES // (each + NUMBER_BYTES * numbers + SPARSE_BYTES * is_sparse), LARGEST_TOP_K)


def within(candidates: int | None, *, numbers: int, is_sparse: bool) -> int:
    """How many matches of a query may be asked for: what fits into a reply, and no more than ``candidates``, the number the
    client lets the index look at; the service wants top_k within that. ``numbers``: of the query's vector, 0 where it has none.
    """
    fitting = most(numbers=numbers if numbers or is_sparse else UNKNOWN_NUMBERS, is_sparse=is_sparse)
    return fitting if candidates is None else min(fitting, candidates)


def is_worthwhile(top_k: int) -> None:
    """Raises Unsupported for a search that has nothing to choose among."""
    if top_k == 0:
        raise Unsupported(Reason.AMBIGUOUS_FIELD)
    if top_k == 1:
        raise Unsupported(Reason.SINGLE_RESULT)
