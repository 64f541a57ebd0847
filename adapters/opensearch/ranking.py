"""Which clause of a search ranks by vectors, and which counts of the request must grow with its number of results.

The ranking stays the client's. A count of neighbours (``k``, ``num_candidates``) is raised only where one clause alone orders the results: the
first ones then stay what they are. Beside other scores it would give further results a second score, so only ``size`` is raised there. A fusion
keeps its window, and so do the depth of a hybrid search and the window of a reranker.

OpenSearch writes ``knn: {field: {vector, k}}``, Elasticsearch ``knn: {field, query_vector, k}``; each refuses the other's form. A clause that
is not in the tables below makes a search unsupported where it may decide the order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from ..contract import Reason, UnsupportedError
from ..wire.json import Members, Span
from ..wire.json_requests import integer, items_of, one_or_more, present, read_object, required, text_of
from ..wire.json_vectors import Edit

DEFAULT_SIZE = 10  # of both servers: results, the window of a fusion, the neighbours of ``neural``


class Lift(NamedTuple):
    """A count that must be at least the number of candidates. ``span``: of its value; empty where the member is added. ``value``: the count in
    force.
    """

    span: Span
    value: int
    name: str = ""

    def edits(self, count: int) -> list[Edit]:
        if count <= self.value:
            return []
        added = b'"%s":%d,' % (self.name.encode(), count) if self.name else b"%d" % count
        return [(*self.span, added)]


class Ranking(NamedTuple):
    """``field``: the path of the vectors to compare by; "" if none is known. ``query``: the span of a dense query vector. ``neighbours``: how
    many the client's clause finds, if a widened one finds more, else None; ``is_global``: in all shards together, else in each. ``most``: the
    window of a fusion. ``edits``: further changes of a widened search. ``pins``: those that keep counts which follow ``size``. ``is_hybrid``: its
    scores are made by a pipeline. ``is_by_size``: a count that follows ``size`` and cannot be kept.
    """

    field: str = ""
    query: Span | None = None
    neighbours: int | None = None
    is_global: bool = False
    lifts: tuple[Lift, ...] = ()
    most: int | None = None
    edits: tuple[Edit, ...] = ()
    pins: tuple[Edit, ...] = ()
    is_hybrid: bool = False
    is_by_size: bool = False

    def among_others(self) -> Ranking:
        """The same clause beside others, which keeps its counts. Raises UnsupportedError if it cannot."""
        if self.is_by_size:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
        return self._replace(neighbours=None, lifts=(), edits=(*self.edits, *self.pins), pins=())


class Reader(NamedTuple):
    """``offset``: the rank before the first requested result; ``window``: of the last one. ``depth``: levels of clauses that may follow.
    ``is_moved``: whether the body has what the query string said, perhaps another size than its own.
    """

    text: bytes
    offset: int
    window: int
    depth: int
    is_moved: bool

    @property
    def size(self) -> int:
        return self.window - self.offset

    def deeper(self) -> Reader:
        if not self.depth:  # each level takes one more pass over its text
            raise UnsupportedError(Reason.TOO_DEEP)
        return self._replace(depth=self.depth - 1)


def ranking_of(reader: Reader, root: Members) -> Ranking:
    """Of a search's body. Raises UnsupportedError."""
    text = reader.text
    parts = {name: present(text, root, name) for name in ("query", "knn", "retriever", "rank", "sub_searches")}
    query, knn, retriever = parts["query"], parts["knn"], parts["retriever"]
    if parts["sub_searches"] is not None or (retriever is not None and (query is not None or knn is not None)):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    if retriever is not None:
        return _of_retriever(reader, retriever)
    if knn is None:
        if query is None or parts["rank"] is not None:
            raise UnsupportedError(Reason.NOTHING_TO_DO)
        return of_query(reader, query)
    rankings = [_of_named_knn(reader, clause) for clause in one_or_more(text, root, "knn")]
    if parts["rank"] is not None:  # Elasticsearch before retrievers
        name, fusion = _only_member(text, parts["rank"])
        if name != "rrf":
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
        return _windowed(reader, read_object(text, fusion), _together(rankings))
    if len(rankings) == 1 and query is None:
        return rankings[0]
    # The scores of the query's clauses are added: what of them follows the size must stay as well.
    others = [] if query is None else _ranked(of_query, reader, [query])
    return _together([*rankings, *others])


def of_query(reader: Reader, span: Span) -> Ranking:
    """Of a query, an object with one member. Raises UnsupportedError; NOTHING_TO_DO for one that does not rank by vectors."""
    name, clause = _only_member(reader.text, span)
    read = _QUERIES.get(name)
    if read is None:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    return read(reader.deeper(), clause)


def _only_member(text: bytes, span: Span) -> tuple[str, Span]:
    entries = list(read_object(text, span).items())
    if len(entries) != 1:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    ((name, member),) = entries
    return name, member.span


# Neighbours.

_KNN_MEMBERS = (
    "vector", "query_text", "query_image", "model_id", "k", "filter", "min_score", "max_distance", "boost", "_name", "method_parameters",
    "rescore", "expand_nested_docs", "semantic_field_search_analyzer",
)  # fmt: skip
_NAMED_KNN_MEMBERS = (
    "field", "query_vector", "query_vector_builder", "k", "num_candidates", "visit_percentage", "filter", "similarity", "boost",
    "_name", "rescore_vector", "inner_hits", "min_score",
)  # fmt: skip


def _of_knn(reader: Reader, span: Span) -> Ranking:
    """The query ``knn`` of either server."""
    inside = read_object(reader.text, span)
    is_named = "field" in inside and reader.text[inside["field"].value : inside["field"].value + 1] == b'"'
    return _of_named_knn(reader, span, is_global=False) if is_named else _of_field(reader, span)


def _of_field(reader: Reader, span: Span, *, is_embedded: bool = False) -> Ranking:
    """OpenSearch's form. ``is_embedded``: the server makes the vector of a text or an image, and needs no ``k``."""
    text = reader.text
    field, clause = _only_member(text, span)
    fields = read_object(text, clause, _KNN_MEMBERS)
    ranking = Ranking(field, None if is_embedded else _dense(text, required(text, fields, "vector")))
    if "min_score" in fields or "max_distance" in fields:  # all within a distance
        return ranking
    at = clause[0] + 1, clause[0] + 1
    is_default = is_embedded and "k" not in fields
    k = Lift(at, DEFAULT_SIZE, "k") if is_default else _count(text, required(text, fields, "k"))
    return _neighbours(reader, ranking, k)


def _of_named_knn(reader: Reader, span: Span, *, is_global: bool = True) -> Ranking:
    """Elasticsearch's form: as a query, beside the query, and as a retriever. Without ``k`` it finds ``size`` neighbours; beside the query as
    many as the body says, whatever the query string does.
    """
    text = reader.text
    fields = read_object(text, span, _NAMED_KNN_MEMBERS)
    vector = present(text, fields, "query_vector")
    k, candidates = (present(text, fields, name) for name in ("k", "num_candidates"))
    if k is None and is_global and reader.is_moved:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    at = span[0] + 1, span[0] + 1
    ranking = Ranking(
        text_of(text, required(text, fields, "field")),
        None if vector is None else _dense(text, vector),
        is_global=is_global,
        pins=() if k is not None else ((*at, b'"k":%d,' % reader.size),),
    )
    neighbours = Lift(at, reader.size, "k") if k is None else _count(text, k)
    examined = [] if candidates is None else [_count(text, candidates)]
    if any(count.value < neighbours.value for count in examined):  # which the server refuses
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    if present(text, fields, "inner_hits") is not None:  # the passages of a document depend on the count
        return ranking.among_others()
    return _neighbours(reader, ranking, neighbours, *examined)


def _count(text: bytes, span: Span) -> Lift:
    return Lift(span, integer(text, span))


def _neighbours(reader: Reader, ranking: Ranking, neighbours: Lift, *examined: Lift) -> Ranking:
    """Fewer neighbours than requested results are the client's choice: then none are added."""
    if neighbours.value < reader.window:
        return ranking.among_others()
    return ranking._replace(neighbours=neighbours.value, lifts=(neighbours, *examined))


def _dense(text: bytes, span: Span) -> Span | None:
    """The span of an array of numbers; None for an encoded vector."""
    return span if text[span[0] : span[0] + 1] == b"[" else None


# Scripts.

_VECTOR_FUNCTION = re.compile(
    r"\b(?:cosineSimilarity|cosinesimil|dotProduct|innerProduct|l[12]norm|l[12]Norm|l2Squared|lInfNorm|hamming|hammingbit)"
    r"\(\s*(?:params\.(?P<query>\w+))?[^,()]*,\s*(?:doc\[\s*)?(?:['\"](?P<field>[^'\"]+)['\"]|params\.(?P<named>\w+))"
)
_SCRIPT_MEMBERS = ("source", "lang", "params")


def _of_script(reader: Reader, span: Span) -> Ranking:
    """Scores of all documents that its query finds, by a function of their vectors."""
    text = reader.text
    fields = read_object(text, span, ("query", "script", "min_score", "boost", "_name"))
    script = read_object(text, required(text, fields, "script"))
    source, params = present(text, script, "source"), present(text, script, "params")
    if not script.keys() <= set(_SCRIPT_MEMBERS) or source is None or params is None:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    values, words = read_object(text, params), text_of(text, source)
    if words == "knn_score":
        field, query = text_of(text, present(text, values, "field")), present(text, values, "query_value")
    else:
        match = _VECTOR_FUNCTION.search(words)
        if match is None:
            raise UnsupportedError(Reason.NOTHING_TO_DO)
        field = match["field"] or text_of(text, present(text, values, match["named"]))
        query = present(text, values, match["query"])
    return Ranking(field, None if query is None else _dense(text, query))


# Clauses with others inside.


def _of_bool(reader: Reader, span: Span) -> Ranking:
    fields = read_object(reader.text, span)
    scoring = [clause for name in ("must", "should") for clause in one_or_more(reader.text, fields, name)]
    if len(scoring) > 1:
        return _first(reader, scoring)
    is_filtered = any(present(reader.text, fields, name) is not None for name in ("filter", "must_not"))
    if not scoring:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    ranking = of_query(reader, scoring[0])
    return ranking.among_others() if is_filtered else ranking


def _first(reader: Reader, clauses: list[Span]) -> Ranking:
    """The first clause that ranks by vectors, beside others, which keep their counts as well. Raises UnsupportedError."""
    return _together(_ranked(of_query, reader, clauses))


def _ranked(read: Callable[[Reader, Span], Ranking], reader: Reader, clauses: list[Span]) -> Iterator[Ranking]:
    """The clauses that rank by vectors. Raises UnsupportedError where the client chose the order of one, and for unknown ones."""
    for clause in clauses:
        try:
            yield read(reader, clause)
        except UnsupportedError as verdict:
            if verdict.reason is not Reason.NOTHING_TO_DO:
                raise


def _together(rankings: Iterable[Ranking]) -> Ranking:
    """The first of several, with the changes of all. Raises UnsupportedError if there is none."""
    kept = [ranking.among_others() for ranking in rankings]
    if not kept:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    return kept[0]._replace(edits=tuple([edit for ranking in kept for edit in ranking.edits]))


def _within(name: str) -> Callable[[Reader, Span], Ranking]:
    """Of a clause that changes the scores of those in this member."""

    def read(reader: Reader, span: Span) -> Ranking:
        return _first(reader, one_or_more(reader.text, read_object(reader.text, span), name))

    return read


def _of_nested(reader: Reader, span: Span) -> Ranking:
    """Vectors of parts of a document: none is the document's own."""
    return _within("query")(reader, span)._replace(field="", query=None)


def _of_hybrid(reader: Reader, span: Span) -> Ranking:
    """A list of results for each query, as deep as ``pagination_depth``; without it as ``size``, which would change the scores with it."""
    fields = read_object(reader.text, span, ("queries", "filter", "pagination_depth", "boost", "_name"))
    queries = items_of(reader.text, required(reader.text, fields, "queries"))
    ranking = _first(reader, queries)._replace(is_hybrid=True)
    if present(reader.text, fields, "pagination_depth") is not None:
        return ranking
    if reader.offset:  # which the server refuses
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    depth = b'"pagination_depth":%d,' % reader.window
    return ranking._replace(edits=(*ranking.edits, (span[0] + 1, span[0] + 1, depth)))


def _of_terms(_reader: Reader, _span: Span) -> Ranking:
    """Sparse vectors score every document that has one of their terms."""
    return Ranking()


def _of_semantic(_reader: Reader, _span: Span) -> Ranking:
    """Vectors of passages, of which the server finds ``size``."""
    return Ranking(is_by_size=True)


_QUERIES: Mapping[str, Callable[[Reader, Span], Ranking]] = {
    "knn": _of_knn,
    "neural": partial(_of_field, is_embedded=True),
    "script_score": _of_script,
    "semantic": _of_semantic,
    "neural_sparse": _of_terms,
    "sparse_vector": _of_terms,
    "text_expansion": _of_terms,
    "bool": _of_bool,
    "hybrid": _of_hybrid,
    "nested": _of_nested,
    "function_score": _within("query"),
    "boosting": _within("positive"),
    "dis_max": _within("queries"),
}

# Retrievers.

_STANDARD_MEMBERS = ("query", "filter", "min_score", "_name")
_ORDERED = frozenset({"sort", "search_after", "collapse", "terminate_after"})
_FUSING_MEMBERS: Mapping[str, tuple[str, ...]] = {
    "rrf": ("retrievers", "query", "fields", "rank_constant"),
    "linear": ("retrievers", "query", "fields", "normalizer"),
    "text_similarity_reranker": ("retriever", "field", "inference_id", "inference_text", "chunk_rescorer"),
}
_FUSING = ("rank_window_size", "window_size", "filter", "min_score", "_name")


def _of_retriever(reader: Reader, span: Span) -> Ranking:
    name, inside = _only_member(reader.text, span)
    reader = reader.deeper()
    if name == "knn":
        required(reader.text, read_object(reader.text, inside), "k")  # the server refuses the retriever without it
        return _of_named_knn(reader, inside)
    if name == "standard":
        return _of_standard(reader, inside)
    if name == "diversify":
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    if name not in _FUSING_MEMBERS:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    fields = read_object(reader.text, inside, (*_FUSING_MEMBERS[name], *_FUSING))
    listed = [child for name in ("retrievers", "retriever") for child in one_or_more(reader.text, fields, name)]
    # A query beside ``fields`` ranks by words and by vectors; a reranker by a model that reads texts.
    is_ranked = "inference_text" in fields or "query" in fields
    parts = [*_ranked(_of_part, reader, listed), *([Ranking()] if is_ranked else [])]
    return _windowed(reader, fields, _together(parts))


def _of_standard(reader: Reader, span: Span) -> Ranking:
    fields = read_object(reader.text, span)
    if not _ORDERED.isdisjoint(fields):
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    if not fields.keys() <= set(_STANDARD_MEMBERS):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    query = present(reader.text, fields, "query")
    if query is None:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    ranking = of_query(reader, query)
    return ranking if present(reader.text, fields, "filter") is None else ranking.among_others()


def _of_part(reader: Reader, span: Span) -> Ranking:
    """A retriever in a fusion, perhaps with a weight beside it."""
    inside = read_object(reader.text, span)
    return _of_retriever(reader, inside["retriever"].span if "retriever" in inside else span)


def _windowed(reader: Reader, fields: Members, ranking: Ranking) -> Ranking:
    """A fusion of so many results of each list: a larger window would change their order."""
    windows = [present(reader.text, fields, name) for name in ("rank_window_size", "window_size")]
    counts = [integer(reader.text, window) for window in windows if window is not None]
    return ranking._replace(most=max(counts, default=reader.window))
