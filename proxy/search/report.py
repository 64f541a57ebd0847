"""The report of an answered call: its figures, and the headers and payload notes for the client."""

from __future__ import annotations

import json
import math
from functools import partial
from itertools import accumulate

import numpy as np

from vecsieve.adapters.contract import Operation, Pool, Search

from ..selection.values import Fate, Selection
from ..telemetry.labels import (
    BypassReason,
    Collapse,
    CollapsedIn,
    Divergence,
    FailOpen,
    Outcome,
    Stage,
)
from ..telemetry.reports import Figures, Report
from .fetch import Attempt

REPORT_HEADER = "x-vecsieve"
COLLAPSED_HEADER = "x-vecsieve-collapsed"
COLLAPSED_BYTES = 4096  # bytes of that header: servers and clients accept 8 KiB for all headers
NOTES_BYTES = 1 << 16  # bytes of ids in the payloads of one answer


def header_value(report: Report) -> str:
    """The value of the response header on intercepted answers.

    Grammar (RFC 5234); members in this order, the first five always present, so that ``split`` suffices to parse it::

        value  = "pool=" count ";clusters=" count ";returned=" count ";collapsed=" count ";added_ms=" millis [short] [units] [hedged]
        short  = ";short=" count
        units  = ";extra_read_units=" count
        hedged = ";hedged=1"
        count  = 1*DIGIT
        millis = 1*DIGIT "." DIGIT

    Counts are sums over the call's searches. ``short``: how many results fewer than requested, if only copies are left to fill the page
    (`policy.short`). ``added_ms``: total time minus time spent waiting for upstream. ``units``: read units of lookups, if there were any.
    ``hedged``: the client's own search was sent as well.
    """
    found = report.counts
    missing = sum(each.short for each in report.figures)
    short = f";short={missing}" if missing else ""
    units = f";extra_read_units={report.extra_read_units}" if report.vector_fetch is not None else ""
    hedged = ";hedged=1" if report.hedged else ""
    return (
        f"pool={found.candidates};clusters={found.clusters};returned={found.returned}"
        f";collapsed={found.collapsed};added_ms={report.added_seconds * 1000:.1f}{short}{units}{hedged}"
    )


def report_headers(report: Report, *, is_wanted: bool) -> list[tuple[str, str]]:
    """The response headers of an answer made of a pool. ``is_wanted``: whether the settings enable them."""
    found = list(plain_headers(None, report.fail_open, is_on=is_wanted))
    if report.figures:  # a plain answer has none, because `returned=0` beside results would be false
        found += [(REPORT_HEADER, header_value(report))] if is_wanted else []
        found += [(COLLAPSED_HEADER, report.collapsed_ids)] if report.collapsed_ids is not None else []
    return found


def collapsed_value(attempt: Attempt) -> str:
    """Which result represents which results that were left out, as JSON in ASCII: for each search a list of pairs ``[id, [id, …]]``, in
    answer order. Ids that do not fit are counted: ``{"collapsed": […], "omitted": 3}``.
    """
    assert attempt.reply is not None  # noqa: S101 - an improved answer was made of it
    room, omitted = COLLAPSED_BYTES - 40, 0
    searches: list[list[object]] = []
    for pool, selection in zip(attempt.reply.pools, attempt.selections, strict=True):
        pairs: list[object] = []
        room -= 4
        gone = (selection.fates == _COLLAPSED).nonzero()[0]
        standing = selection.representative[gone]
        for kept in selection.keep.tolist():
            rows = gone[standing == kept].tolist()
            if not rows:
                continue
            pair = [json.loads(pool.ids[kept]), [json.loads(pool.ids[row]) for row in rows]] if pool.ids else None
            size = 0 if pair is None else len(json.dumps(pair, separators=(",", ":"))) + 1
            if pair is None or size > room:
                omitted += len(rows)
                continue
            room -= size
            pairs.append(pair)
        searches.append(pairs)
    told: dict[str, object] = {"collapsed": searches, "omitted": omitted}
    return json.dumps(told, separators=(",", ":"))


def collapsed_notes(attempt: Attempt) -> tuple[tuple[bytes | None, ...], ...]:
    """For each result of each search, the JSON for its payload: ``{"collapsed_ids":[…]}``; None if it represents no other. Ids beyond the
    answer's NOTES_BYTES are counted instead: ``"omitted":3``.
    """
    assert attempt.reply is not None  # noqa: S101 - an improved answer was made of it
    room = NOTES_BYTES
    searches: list[tuple[bytes | None, ...]] = []
    for pool, selection in zip(attempt.reply.pools, attempt.selections, strict=True):
        gone = (selection.fates == _COLLAPSED).nonzero()[0]
        standing = selection.representative[gone]
        notes: list[bytes | None] = []
        for kept in selection.keep.tolist():
            rows = gone[standing == kept].tolist()
            ids = [pool.ids[row] for row in rows] if pool.ids else []
            told = [
                each for each, used in zip(ids, accumulate(len(each) + 1 for each in ids), strict=True) if used <= room
            ]
            room -= sum(len(each) + 1 for each in told)
            omitted = b',"omitted":%d' % (len(rows) - len(told)) if len(told) < len(rows) else b""
            notes.append(b'{"collapsed_ids":[%s]%s}' % (b",".join(told), omitted) if rows else None)
        searches.append(tuple(notes))
    return tuple(searches)


def plain_headers(
    bypass: BypassReason | None, fail_open: FailOpen | None, *, is_on: bool
) -> tuple[tuple[str, str], ...]:
    """The response header of a search that was not improved: `x-vecsieve: bypass=`, or `fail_open=`, and the reason's label.

    ``is_on``: whether the search's mode is on and the settings enable the header; the other modes add nothing.
    """
    if not is_on or (bypass is None and fail_open is None):
        return ()
    return (
        (
            REPORT_HEADER,
            f"fail_open={fail_open.value}" if bypass is None and fail_open is not None else f"bypass={bypass}",
        ),
    )


# Plain lists: for fifty candidates they take half the time of arrays.
COLLAPSES = tuple(Collapse)
_COLLAPSED, _CAPPED, _FILLED = Fate.COLLAPSED.value, Fate.CAPPED.value, Fate.FILLED.value
_OVER_BUDGET, _SHOWN = Fate.OVER_BUDGET.value, Fate.SHOWN.value


def figures(
    search: Search, pool: Pool, selection: Selection, *, had_vectors: bool = True, is_diversified: bool = True
) -> Figures:
    """``had_vectors``: whether vectors were requested; where texts decide none are, and none is missing. ``is_diversified``: whether MMR or
    another diversifier chose.
    """
    fates, keep = selection.fates.tolist(), selection.keep.tolist()
    size, scores = len(fates), pool.scores.tolist()
    page = selection.labels[search.offset : search.offset + search.top_k].tolist()
    return Figures(
        candidates=size,
        clusters=selection.distinct,
        returned=len(keep),
        repeats=len(page) - len(set(page)),
        collapsed=fates.count(_COLLAPSED),
        collapsed_by=_collapsed_by(fates, selection),
        capped=fates.count(_CAPPED),
        over_budget=fates.count(_OVER_BUDGET),
        shown=fates.count(_SHOWN),
        filled=fates.count(_FILLED),
        short=0 if search.pages or _OVER_BUDGET in fates or _SHOWN in fates else min(search.top_k, size) - len(keep),
        unusable=pool.unusable if had_vectors else 0,
        restrained=selection.restrained,
        exhausted=selection.wanting > 0,
        mmr_swaps=_swaps(keep, selection) if is_diversified and selection.acted and not search.pages else 0,
        score_loss=_score_loss(scores[search.offset : search.offset + len(keep)], [scores[row] for row in keep]),
    )


def rows_of(attempt: Attempt) -> tuple[Figures, ...]:
    """One row per search of an improved answer."""
    assert attempt.reply is not None  # noqa: S101 - an improved answer was made of it
    made = partial(
        figures,
        had_vectors=attempt.call.needs.vectors,
        is_diversified=attempt.policy.selection.diversifier is not None,
    )
    return tuple(map(made, attempt.call.searches, attempt.reply.pools, attempt.selections))


def report_of(
    operation: Operation,
    attempt: Attempt,
    *,
    outcome: Outcome,
    reason: FailOpen | None = None,
    rows: tuple[Figures, ...] = (),
    hedged: bool = False,
) -> Report:
    """Sum up the current state of an attempt."""
    lookups = attempt.lookups
    return Report(
        backend=operation.backend,
        operation=operation.name,
        outcome=outcome,
        total_seconds=attempt.watch.elapsed(),
        upstream_seconds=attempt.watch.seconds(Stage.UPSTREAM),
        fail_open=reason,
        searches=len(attempt.call.searches),
        top_k=sum(search.top_k for search in attempt.call.searches),
        figures=rows,
        rule=attempt.policy.rule,
        grown=attempt.rounds > 1,
        hedged=hedged,
        overfetch_bytes=attempt.fetched_bytes + (0 if lookups is None else lookups.fetched_bytes),
        recall=attempt.recall,
        vector_fetch=None if lookups is None else lookups.outcome,
        extra_read_units=0 if lookups is None else lookups.read_units,
        stages=attempt.watch.stages(),
        marks=attempt.watch.marks(),
        collapsed_ids=collapsed_value(attempt) if rows and _tells_in_header(attempt) else None,
    )


def _tells_in_header(attempt: Attempt) -> bool:
    """Whether the client requested the header, or requested notes in payloads on a transport without them."""
    return attempt.policy.tells_collapsed is not CollapsedIn.OFF and not attempt.is_noted


def _collapsed_by(fates: list[int], selection: Selection) -> tuple[tuple[Collapse, int], ...]:
    if _COLLAPSED not in fates:
        return ()
    links = selection.links[selection.fates == _COLLAPSED].tolist()
    counts: dict[Collapse, int] = {}
    for link in set(links):
        reason = Collapse.of(link)
        counts[reason] = counts.get(reason, 0) + links.count(link)
    return tuple((reason, counts[reason]) for reason in COLLAPSES if reason in counts)


def _swaps(keep: list[int], selection: Selection) -> int:
    """How many representatives MMR chose in place of better ranked ones; 0 for a list read page by page, which is in rank order."""
    stands = selection.representative.tolist()
    chosen = [row for row in keep if stands[row] == row]
    by_rank = [row for row, stand in enumerate(stands) if row == stand][: len(chosen)]
    # The last representative if the same number had been chosen by rank: each chosen one behind it replaced one before it.
    last = by_rank[-1] if by_rank else -1
    return len([row for row in chosen if row > last])


def _score_loss(backend: list[float], kept: list[float]) -> float:
    """Absolute, because only the backend knows whether a lower or higher score is better. Of the means of both pages."""
    usual = sum(backend) / len(backend) if backend else 0.0
    loss = abs(usual - sum(kept) / len(kept)) / abs(usual) if usual and kept else 0.0
    return loss if math.isfinite(loss) else 0.0


def divergences(attempt: Attempt) -> list[Divergence]:
    """How the answers would have differed from upstream's own pages: at most once per search and kind."""
    found: list[Divergence] = []
    for search, selection in zip(attempt.call.searches, attempt.selections, strict=False):
        own = np.arange(len(selection.labels))[search.offset : search.offset + search.top_k]
        keep = selection.keep
        if len(own) != len(keep):
            found.append(Divergence.COUNT)
        if not np.array_equal(np.sort(keep), own):
            found.append(Divergence.IDS)
        elif not np.array_equal(keep, own):
            found.append(Divergence.ORDER)
    return found
