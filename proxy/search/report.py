"""The report of an answered call: its figures, and the headers and payload notes for the client."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from functools import partial
from operator import attrgetter

from vecsieve.adapters.contract import Pool, Search

from ..selection.values import PROVEN, Fate, Selection
from ..telemetry.labels import (
    COLLAPSE_OF,
    BypassReason,
    Collapse,
    CollapsedIn,
    FailOpen,
    Outcome,
    Stage,
)
from ..telemetry.reports import Figures, Report
from ..telemetry.tracing import Mark
from .candidates import sources_of
from .context.tokens import BYTES_A_TOKEN
from .policy import ResolvedPolicy
from .pools.source import Source
from .pools.values import Selected

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
    sums = report.counts
    short = f";short={sums.short}" if sums.short else ""
    units = f";extra_read_units={report.extra_read_units}" if report.vector_fetch is not None else ""
    hedged = ";hedged=1" if report.hedged else ""
    return (
        f"pool={sums.candidates};clusters={sums.clusters};returned={sums.returned}"
        f";collapsed={sums.collapsed};added_ms={report.added_seconds * 1000:.1f}{short}{units}{hedged}"
    )


def report_headers(report: Report, *, is_requested: bool) -> list[tuple[str, str]]:
    """The response headers of an answer made of a pool. ``is_requested``: whether the settings enable them."""
    headers = [] if report.fail_open is None else list(plain_headers(None, report.fail_open, is_on=is_requested))
    if report.figures:  # a plain answer has none, because `returned=0` beside results would be false
        headers += [(REPORT_HEADER, header_value(report))] if is_requested else []
        headers += [(COLLAPSED_HEADER, report.collapsed_ids)] if report.collapsed_ids is not None else []
    return headers


def collapsed_value(selected: Selected) -> str:
    """Which result represents which results that were left out, as JSON in ASCII: for each search a list of pairs ``[id, [id, …]]``, in
    answer order. Ids that do not fit are counted: ``{"collapsed": […], "omitted": 3}``.
    """
    room, omitted = COLLAPSED_BYTES - 40, 0
    searches: list[list[object]] = []
    for pool, selection in zip(selected.pools.reply.pools, selected.selections, strict=True):
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
    return json.dumps({"collapsed": searches, "omitted": omitted}, separators=(",", ":"))


def collapsed_notes(selected: Selected) -> tuple[tuple[bytes | None, ...], ...]:
    """For each result of each search, the JSON for its payload: ``{"collapsed_ids":[…],"collapsed_sources":[…]}``; None if it represents
    no other. The sources are distinct. What exceeds the answer's NOTES_BYTES is left out; such ids are counted: ``"omitted":3``.
    """
    room, policy = NOTES_BYTES, selected.pools.policy
    searches: list[tuple[bytes | None, ...]] = []
    for pool, selection in zip(selected.pools.reply.pools, selected.selections, strict=True):
        gone = (selection.fates == _COLLAPSED).nonzero()[0]
        standing = selection.representative[gone]
        sources = sources_of(pool, policy.keys, policy.fields)
        notes: list[bytes | None] = []
        for kept in selection.keep.tolist():
            rows = gone[standing == kept].tolist()
            ids = [pool.ids[row] for row in rows] if pool.ids else []
            listed, room = _within(ids, room)
            cited, room = _within(dict.fromkeys(source for row in rows if (source := sources[row]) is not None), room)
            omitted = b',"omitted":%d' % (len(rows) - len(listed)) if len(listed) < len(rows) else b""
            note = b'{"collapsed_ids":[%s],"collapsed_sources":[%s]%s}' % (b",".join(listed), b",".join(cited), omitted)
            notes.append(note if rows else None)
        searches.append(tuple(notes))
    return tuple(searches)


def _within(values: Iterable[bytes], room: int) -> tuple[list[bytes], int]:
    """The first values that fit into ``room`` bytes with a comma after each, and what is left of it."""
    fitting: list[bytes] = []
    for value in values:
        if len(value) >= room:
            break
        fitting.append(value)
        room -= len(value) + 1
    return fitting, room


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
_COLLAPSED, _CAPPED, _FILLED = Fate.COLLAPSED.value, Fate.CAPPED.value, Fate.FILLED.value
_OVER_BUDGET, _EARLIER = Fate.OVER_BUDGET.value, Fate.EARLIER.value
_PROVEN = frozenset(link.value for link in PROVEN)


def figures(
    search: Search,
    pool: Pool,
    selection: Selection,
    size: int | None = 0,
    *,
    had_vectors: bool = True,
    policy: ResolvedPolicy | None = None,
) -> Figures:
    """``size``: as planned; None for a search that was sent unchanged. ``had_vectors``: whether they were requested. ``policy``: None if it is not known."""
    fates, keep, links = selection.fates.tolist(), selection.keep.tolist(), selection.links.tolist()
    is_widened, size, scores = size is not None, len(fates), pool.scores.tolist()
    backend_page = range(search.offset, min(search.offset + search.top_k, size))
    changed = is_widened and keep != [*backend_page]
    left = proven = saved_bytes = 0
    if changed:
        places = () if policy is None or not pool.fields else policy.text_places
        for row in backend_page:
            if fates[row] == _COLLAPSED:
                left += 1
                proven += links[row] in _PROVEN
                saved_bytes += sum([len(pool.fields[row][place] or b"") for place in places])
    page = selection.labels[search.offset : search.offset + search.top_k].tolist()
    # Of the means of both pages. Absolute, because only the backend knows whether a lower or a higher score is better.
    usual = scores[search.offset : search.offset + len(keep)]
    mean = sum(usual) / len(usual) if usual else 0.0
    loss = abs(mean - sum(map(scores.__getitem__, keep)) / len(keep)) / abs(mean) if mean else 0.0
    return Figures(
        candidates=size,
        clusters=selection.distinct,
        returned=len(keep),
        repeats=len(page) - len(set(page)),
        collapsed=fates.count(_COLLAPSED),
        collapsed_by=_collapsed_by(fates, links),
        capped=fates.count(_CAPPED),
        over_budget=fates.count(_OVER_BUDGET),
        earlier=fates.count(_EARLIER),
        filled=fates.count(_FILLED),
        short=0 if search.pages or _OVER_BUDGET in fates or _EARLIER in fates else min(search.top_k, size) - len(keep),
        unusable=pool.unusable if had_vectors else 0,
        restrained=selection.restrained,
        exhausted=selection.wanting > 0,
        score_loss=loss if math.isfinite(loss) else 0.0,
        changed=changed,
        proven=proven,
        judged=left - proven,
        arrived=len(set(keep).difference(backend_page)) if changed else 0,
        saved_tokens=saved_bytes // BYTES_A_TOKEN,  # of the JSON that has the texts: an estimate
    )


def _collapsed_by(fates: list[int], links: list[int]) -> tuple[tuple[Collapse, int], ...]:
    reasons: Counter[Collapse] = Counter()
    for link in sorted([link for link, fate in zip(links, fates, strict=True) if fate == _COLLAPSED]):
        reasons[COLLAPSE_OF[link]] += 1
    return tuple(reasons.items())


_TOP_K = attrgetter("top_k")


def stages_of(marks: Iterable[Mark]) -> dict[Stage, float]:
    """Seconds per stage, in the order in which stages first ended."""
    seconds: dict[Stage, float] = {}
    for stage, started, ended in marks:
        seconds[stage] = seconds.get(stage, 0.0) + (ended - started)
    return seconds


def report_of(
    source: Source,
    *,
    outcome: Outcome,
    reason: FailOpen | None = None,
    selected: Selected | None = None,
    is_noted: bool = False,
    hedged: bool = False,
) -> Report:
    """Sum up a search. ``selected``: of an improved answer; ``is_noted``: it lists the copies of its results itself."""
    lookups, planned = source.lookups, source.planned
    call, watch = planned.call, planned.watch
    rows: tuple[Figures, ...] = ()
    total, stages = watch.clock() - watch.started, stages_of(watch.marks)
    upstream = stages.get(Stage.UPSTREAM, 0.0)
    collapsed_ids = None
    if selected is not None:
        pools = selected.pools
        row = partial(figures, had_vectors=pools.call.needs.vectors, policy=pools.policy)
        rows = tuple(map(row, pools.call.searches, pools.reply.pools, selected.selections, planned.plan))
        if pools.policy.collapsed_in is not CollapsedIn.OFF and not is_noted:
            collapsed_ids = collapsed_value(selected)
    return Report(
        backend=call.operation.backend,
        operation=call.operation.name,
        outcome=outcome,
        total_seconds=total,
        upstream_seconds=upstream,
        added_seconds=max(0.0, total - upstream),
        fail_open=reason,
        searches=len(call.searches),
        top_k=sum(map(_TOP_K, call.searches)),
        figures=rows,
        rule=planned.policy.rule,
        grown=source.rounds > 1,
        hedged=hedged,
        overfetch_bytes=source.fetched_bytes + (0 if lookups is None else lookups.fetched_bytes),
        recall=source.recall,
        vector_fetch=None if lookups is None else lookups.outcome,
        extra_read_units=0 if lookups is None else lookups.read_units,
        stages=tuple(stages.items()),
        marks=tuple(watch.marks),
        collapsed_ids=collapsed_ids,
    )
