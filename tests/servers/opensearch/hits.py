"""What is shown of a document: its source, whole or filtered, and fields beside it."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from servers.opensearch.errors import ShardError, unparsed
from servers.opensearch.store import Document, Index, Product, values_at
from servers.opensearch.writing import Raw, hashed

Json = dict[str, Any]
_MEMBERS = {"includes", "include", "excludes", "exclude", "exclude_vectors"}


@dataclass(frozen=True, slots=True)
class SourceFilter:
    """What of sources is shown. ``excludes_vectors``: None where nothing is said."""

    has_source: bool = True
    includes: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    excludes_vectors: bool | None = None

    @property
    def is_whole(self) -> bool:
        return not (self.includes or self.excludes)


def source_filter(body: Json, url: Mapping[str, str]) -> SourceFilter:
    """The filter of a request; the URL's stands before the body's. Raises RefusedError."""
    spec = body.get("_source", True)
    if "_source" in url or "_source_includes" in url or "_source_excludes" in url:
        text = url.get("_source", "true")
        spec = text == "true" if text in {"true", "false"} else text.split(",")
        if "_source_includes" in url or "_source_excludes" in url:
            spec = {"includes": _listed(url.get("_source_includes")), "excludes": _listed(url.get("_source_excludes"))}
    made = _read(spec)
    if "_source_exclude_vectors" in url:
        made = SourceFilter(made.has_source, made.includes, made.excludes, url["_source_exclude_vectors"] == "true")
    return made


def _read(spec: Any) -> SourceFilter:
    match spec:
        case None:
            raise unparsed("Unknown key for a VALUE_NULL in [_source].")
        case bool():
            return SourceFilter(spec)
        case str():
            return SourceFilter(includes=(spec,))
        case list():
            return SourceFilter(includes=tuple(spec))
    if unknown := sorted(spec.keys() - _MEMBERS):
        raise unparsed(f"Unknown key for a VALUE_STRING in [{unknown[0]}].")
    includes = _patterns(spec.get("includes", spec.get("include")))
    excludes = _patterns(spec.get("excludes", spec.get("exclude")))
    return SourceFilter(True, includes, excludes, spec.get("exclude_vectors"))


def _patterns(given: Any) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given or ())


def _listed(text: str | None) -> list[str]:
    return text.split(",") if text else []


def source_json(index: Index, document: Document, selection: SourceFilter, names: Sequence[Any] = ()) -> Any:
    """The source as the product shows it beside the fields ``names``. Vectors have the 32 bits that they are kept in."""
    vectors = [name for name in index.vector_fields() if name in document.source]
    if not vectors and selection.is_whole:
        return Raw(document.raw.strip())
    source = {
        name: np.array(value, np.float32) if name in vectors and isinstance(value, list) else value
        for name, value in document.source.items()
    }
    if index.product is Product.OPENSEARCH:
        return source if selection.is_whole else _hashed(filtered(source, selection.includes, selection.excludes))
    named = [name for name in vectors if selection.includes and _is_named(name, selection.includes)]
    visible = vectors if selection.excludes_vectors is False else named
    rest = {name: value for name, value in source.items() if name not in vectors}
    whole = {**rest, **{name: source[name] for name in visible}}
    made = (
        whole if selection.is_whole else filtered(whole, selection.includes, selection.excludes, has_deep_stars=False)
    )
    is_hashed = named or (names and not selection.is_whole) or any(_wants(name, list(names)) for name in vectors)
    return {name: made[name] for name in hashed(made)} if is_hashed else made


def _hashed(value: Any) -> Any:
    """The members of every object in the order of a hash table."""
    if isinstance(value, list):
        return [_hashed(item) for item in value]
    return {name: _hashed(value[name]) for name in hashed(value)} if isinstance(value, dict) else value


def _is_named(path: str, patterns: Iterable[str], *, has_deep_stars: bool = True) -> bool:
    """Whether a pattern has the path, or an object that it is in. ``has_deep_stars``: a star matches dots."""
    if has_deep_stars:
        return any(
            fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path, f"{pattern}.*") for pattern in patterns
        )
    parts = path.split(".")
    return any(
        len(segments) <= len(parts) and all(map(fnmatch.fnmatchcase, parts, segments))
        for segments in (pattern.split(".") for pattern in patterns)
    )


def filtered(value: Json, includes: Iterable[str], excludes: Iterable[str], *, has_deep_stars: bool = True) -> Json:
    """The members that the patterns leave."""
    return _Patterns(tuple(includes), tuple(excludes), has_deep_stars).left_of(value, "", is_within=False)


@dataclass(frozen=True, slots=True)
class _Patterns:
    includes: tuple[str, ...]
    excludes: tuple[str, ...]
    has_deep_stars: bool

    def left_of(self, value: Json, above: str, *, is_within: bool) -> Json:
        """``is_within``: an object above is named whole."""
        kept: Json = {}
        for name, item in value.items():
            path = above + name
            if _is_named(path, self.excludes, has_deep_stars=self.has_deep_stars):
                continue
            is_whole = (
                is_within or not self.includes or _is_named(path, self.includes, has_deep_stars=self.has_deep_stars)
            )
            items = item if isinstance(item, list) else [item]
            if items and all(isinstance(item, dict) for item in items):
                made = [self.left_of(item, f"{path}.", is_within=is_whole) for item in items]
                made = [left for left in made if left or is_whole]
                if made:
                    kept[name] = made if isinstance(item, list) else made[0]
            elif is_whole:
                kept[name] = item
        return kept


def fields(index: Index, document: Document, body: Json, selection: SourceFilter) -> Json:
    """The member `fields` of a hit, for what `fields`, `stored_fields` and `docvalue_fields` name.

    OpenSearch takes them out of the source that is shown, if one is: a vector that is left out is in neither.
    """
    values: dict[str, Any] = {}
    stored, requested = _listed_names(body.get("stored_fields", [])), body.get("fields", [])
    is_open = index.product is Product.OPENSEARCH
    visible = (
        source_json(index, document, selection)
        if is_open and selection.has_source and not selection.is_whole
        else document.source
    )
    for path in _leaves(document.source):
        is_vector = path in index.vector_fields()
        if is_vector and _wants(path, requested) and path in visible:
            values[path] = np.array(document.source[path], np.float32)
        elif not is_vector and _wants(path, requested):
            values[path] = values_at(document.source, path)
        if (
            not is_vector
            and f"{path}.keyword" not in values
            and _wants(f"{path}.keyword", requested)
            and index.is_guessed(path)
        ):
            values[f"{path}.keyword"] = values_at(document.source, path)
        if path in stored and index.kind(path).get("store"):
            values[path] = values_at(document.source, path)
        if _wants(path, body.get("docvalue_fields", [])):
            if is_vector and is_open:
                raise ShardError(f"knn vector field '{path}' doesn't support sorting", is_wrapped=False)
            values[path] = (
                [np.array(document.source[path], np.float32)] if is_vector else sorted(values_at(document.source, path))
            )
    return {path: values[path] for path in hashed(values)}


def _wants(path: str, names: list[Any]) -> bool:
    return any(fnmatch.fnmatchcase(path, name) for name in _listed_names(names))


def _listed_names(names: Any) -> list[str]:
    listed = [names] if isinstance(names, str) else names
    return [entry["field"] if isinstance(entry, dict) else entry for entry in listed]


def _leaves(value: Any, above: str = "") -> Iterator[str]:
    for name, item in value.items():
        inside = item[0] if isinstance(item, list) and item and isinstance(item[0], dict) else item
        if isinstance(inside, dict):
            yield from _leaves(inside, f"{above}{name}.")
        else:
            yield above + name
