"""One sweep, from the first request to the report. It only reads from the database, and continues an interrupted run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np
import orjson
import xxhash

from ...runtime.files import progress_bar
from ...search.candidates import moment
from ...selection.reading.text import Text
from ...writes.facts import facts_of, packed
from ..databases import usual_or
from ..pairs.fingerprints import exact_hash, readable
from ..pairs.ids import Ids, spread
from ..pairs.joining import Runner, by_daft
from ..pairs.reading import PAGE, SAMPLE, listed_ids, sample, sketched, stream
from ..pairs.sketches import Directions, directions
from ..pairs.store import Candidates, OutdatedError, Page, Store
from ..source import Point, Source, mark_of, text_of, text_path, value_at
from .deciding import Keep, SweepOptions, decide, disagree
from .families import Coverings, compared, coverings
from .judging import Judged
from .report import Report


def lines(store: Store) -> Iterator[bytes]:
    """The removable points, one line of JSON each, family by family."""
    start = 0
    while batch := store.deletions(start, PAGE):
        for removal in batch:
            line = {
                "id": removal.id,
                "survivor": removal.survivor,
                "evidence": removal.evidence,
                "similarity": removal.similarity,
            }
            yield orjson.dumps(line) + b"\n"
        start += len(batch)


def opened_store(source: Source, options: SweepOptions) -> Store:
    """The store in the folder of this sweep. Raises SourceError, StoreError."""
    return Store.of_job(
        options.folder,
        "sweep",
        options.collection,
        source.shape(),
        keep=options.keep.value,
        text_fields=", ".join(usual_or(options.text_field)),
        time_fields=", ".join(options.time_fields),
        tenants=", ".join(options.tenant_field or ()),
    )


def sweep(source: Source, options: SweepOptions, store: Store, *, is_decided: bool = False) -> Report:
    """Sweep; the removable points are then in the store. ``is_decided``: whether an earlier run's decisions are used, even if the
    collection has changed. Raises SourceError, StoreError.
    """
    decided = _decided(store, options)
    if decided is not None and (is_decided or store.deleted is not None):
        return decided
    ids = listed_ids(source, options.collection)
    store.check("ids", {"ids": ids.digest()})
    if decided is not None:
        return decided
    join = (
        by_daft(on_ray=True) if options.runner is Runner.RAY else None
    )  # before reading, because it may not be installed
    _read(source, options, ids, store)
    with progress_bar("looking for candidates", None):
        store.pair_up(join)
    compared_pairs = compared(
        store, lambda part, verdicts: _covered(part, verdicts, options), magnitude=source.shape().magnitude
    )
    return decide(source.shape(), options, ids, store, store.stored(), compared_pairs)


def _decided(store: Store, options: SweepOptions) -> Report | None:
    """Decided by an earlier run that ignored the same fields."""
    encoded = store.report()
    report = None if encoded is None else msgspec.json.decode(encoded, type=Report)
    if report is not None and (report.ignored, report.united) == (options.ignored, options.unites):
        return report
    if store.deleted is not None:
        raise OutdatedError(
            f"--work {options.folder}: points have been deleted with other fields ignored; name another folder"
        )
    return None


def _read(source: Source, options: SweepOptions, ids: Ids, store: Store) -> None:
    by = directions(store.sample(lambda: sample(source, ids, spread(len(ids), SAMPLE))), len(ids))
    stream(source, ids, store, lambda points, places: _page(points, places, ids, by, options))


def _page(points: Sequence[Point], places: range, ids: Ids, by: Directions, options: SweepOptions) -> Page:
    paths = [text_path(point.payload, usual_or(options.text_field)) for point in points]
    texts = [text_of(point.payload, () if path is None else (path,)) for point, path in zip(points, paths, strict=True)]
    read = list(map(readable, texts))
    page = sketched(points, texts, read, places, ids, by)
    of_points = [_tenant(point.payload, options.tenant_field or ()) for point in points]
    tenants = np.zeros(len(places), np.uint64)
    tenants[page.there - places.start] = of_points
    numbers = [_number(*triple) for triple in zip(texts, read, of_points, strict=True)]
    ranks = [_rank(*row, options) for row in zip(page.there.tolist(), points, texts, strict=True)]
    facts = [packed(facts_of(point.payload, path)) for point, path in zip(points, paths, strict=True)]
    # Points of two tenants share no hash.
    hashes = page.sketches.hashes ^ tenants[page.sketches.places - places.start]
    return replace(
        page,
        numbers=np.array(numbers, np.int64),
        rank=np.array(ranks, np.float64),
        size=np.array([len(_json(point.payload)) + by.centre.nbytes for point in points], np.int64),
        marks=np.array([mark_of(point.vector, point.payload) for point in points], np.uint64),
        sketches=replace(page.sketches, hashes=hashes),
        facts=[json.dumps(fact, sort_keys=True) for fact in facts],
    )


def _number(text: str | None, read: Text | None, tenant: int) -> int:
    """Equal for equal texts of one tenant; 0 without a text."""
    return 0 if text is None else int(np.uint64(exact_hash(text, read) ^ tenant).view(np.int64)) or 1


def _tenant(payload: Mapping[str, object], fields: Sequence[str]) -> int:
    """A number, equal for equal values in all of the fields; zero without fields."""
    if not fields:
        return 0
    values = [value_at(payload, field) for field in fields]
    return xxhash.xxh64_intdigest(_json(values).encode())


def _json(value: object) -> str:
    """Python's own library: payloads may have lone surrogates, which faster ones refuse."""
    return json.dumps(value, sort_keys=True, default=str)


def _rank(place: int, point: Point, text: str | None, options: SweepOptions) -> float:
    """The point with the larger rank stays. A point without a time loses against one with a time."""
    if options.keep is Keep.FIRST:
        return -float(place)
    if options.keep is Keep.CENTRAL:
        return 0.0
    if options.keep is Keep.LONGEST:
        return 0.0 if text is None else float(len(text))
    for field_name in options.time_fields:
        time = moment(_json(value_at(point.payload, field_name)).encode())
        if time is not None and not isinstance(time[1], tuple):  # releases of different documents have no common order
            return time[1] if options.keep is Keep.NEWEST else -time[1]
    return -np.inf


def _covered(part: Candidates, verdicts: Judged, options: SweepOptions) -> Coverings:
    facts = [json.loads(one or "{}") for one in part.facts]
    return coverings(part.pairs, part.rows, verdicts, lambda a, b: not disagree(facts[a], facts[b], options))
