"""The effect of another policy on recent pools: the change in question, and its outcome in numbers.

The pools are those of pools.py. Each is judged twice, by the policy that selected and by the changed one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from vecsieve.config.policy import MmrSettings, PolicySettings, RelativeThreshold
from vecsieve.config.presets import PRESETS, policy_of
from vecsieve.config.schema import RuleSettings

from ..search.policy import mmr_of, resolved, threshold_of
from ..selection.policy import Certain, Fixed, Linkage, Policy
from .pools import Sampled
from .rejudging import KeptPool, Page, rejudged

MOST_EXAMPLES = 20
BREATHE = 16  # pools, after which other threads may run
PRESET_NAMES = tuple(PRESETS)
MOST_OF_A_NAME = 100  # results of one document or source


class ChangeError(ValueError):
    """An invalid change. The message shows at most the name of a member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """None leaves a member unchanged. At most one of ``preset``, ``certainty``, ``threshold`` and ``relative``.

    ``certainty``: for the second result; ``last``: from the eighth on, None for the same. ``mmr_lambda``: of MMR. ``per_document``,
    ``per_source``: the most results. ``collection``: only its pools.
    """

    preset: str | None = None
    certainty: float | None = None
    last: float | None = None
    threshold: float | None = None
    relative: float | None = None
    mmr_lambda: float | None = None
    per_document: int | None = None
    per_source: int | None = None
    collection: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Change:
        """Parse texts. Raises ChangeError."""
        names = [field.name for field in fields(cls)]
        if unknown := sorted(given.keys() - set(names)):
            raise ChangeError(f"{unknown[0][:40]}: wanted one of {', '.join(names)}")
        made = cls(
            preset=given.get("preset"),
            collection=given.get("collection"),
            certainty=_number("certainty", given, 1.0),
            last=_number("last", given, 1.0),
            threshold=_number("threshold", given, 2.0),
            relative=_number("relative", given, 1.0),
            mmr_lambda=_number("mmr_lambda", given, 1.0),
            per_document=_count("per_document", given),
            per_source=_count("per_source", given),
        )
        if made.preset is not None and made.preset not in PRESET_NAMES:
            raise ChangeError(f"preset: wanted one of {', '.join(PRESET_NAMES)}")
        deciding = [
            name for name in ("preset", "certainty", "threshold", "relative") if getattr(made, name) is not None
        ]
        if len(deciding) > 1:
            raise ChangeError(f"{' and '.join(deciding)}: wanted one of them")
        if made.last is not None and made.certainty is None:
            raise ChangeError("last: wanted certainty beside it")
        return made

    def applied(self) -> Callable[[Policy], Policy]:
        """A function from the policy that selected to the changed one."""
        whole = None
        if self.preset is not None:
            rule = RuleSettings.model_validate({"preset": self.preset})
            whole = resolved(policy_of(PolicySettings(), rule), mode=None).selection
        mmr = None if self.mmr_lambda is None else mmr_of(MmrSettings.model_validate({"lambda": self.mmr_lambda}))

        def changed(policy: Policy) -> Policy:
            found = policy if whole is None else whole
            if self.certainty is not None:
                last = self.certainty if self.last is None else self.last
                rule = Certain.beside(found.threshold, self.certainty, last)
                found = replace(found, threshold=rule, linkage=Linkage.LEADER)
            if self.threshold is not None:
                found = replace(found, threshold=Fixed(value=self.threshold))
            if self.relative is not None:
                bounds = threshold_of(RelativeThreshold.model_validate({"relative": self.relative}))
                found = replace(found, threshold=bounds)
            caps = {name: most for name in ("per_document", "per_source") if (most := getattr(self, name)) is not None}
            found = replace(found, caps=replace(found.caps, **caps)) if caps else found
            return found if mmr is None else replace(found, diversifier=mmr)

        return changed


UNCHANGED = Change()


def _number(name: str, given: Mapping[str, str], most: float) -> float | None:
    if name not in given:
        return None
    try:
        number = float(given[name][:20])
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= most:
        raise ChangeError(f"{name}: wanted a number from 0 to {most:g}")
    return number


def _count(name: str, given: Mapping[str, str]) -> int | None:
    if name not in given:
        return None
    text = given[name]
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:4]) <= MOST_OF_A_NAME:
        raise ChangeError(f"{name}: wanted a whole number from 1 to {MOST_OF_A_NAME}")
    return int(text)


COUNTED = (
    "searches",
    "differ",
    "changed_now",
    "changed_then",
    "dropped_now",
    "dropped_then",
    "filled_now",
    "filled_then",
    "with_documents",
    "with_sources",
)


def judged(pools: Iterable[Sampled], change: Change) -> dict[str, Any]:
    """JSON-ready: by collection the counts of COUNTED, and the searches that would differ most. Runs in a thread of its own."""
    apply, counts, examples = change.applied(), dict[str, list[int]](), list[dict[str, Any]]()
    changed: dict[int, Policy] = {}  # pools share few policies
    for number, sampled in enumerate(pools):
        if number % BREATHE == 0:
            time.sleep(0)
        pool = sampled.pool
        if change.collection is not None and sampled.collection != change.collection:
            continue
        other = changed.get(id(pool.policy))
        if other is None:
            other = changed[id(pool.policy)] = apply(pool.policy)
        now, then = rejudged(pool, pool.policy), rejudged(pool, other)
        row = counts.setdefault(sampled.collection, [0] * len(COUNTED))
        counts[sampled.collection] = [sum(pair) for pair in zip(row, _counted(pool, now, then), strict=True)]
        gone, back = _only(now, then), _only(then, now)
        if gone or back:
            examples.append({"number": sampled.number, "collection": sampled.collection, "gone": gone, "back": back})
    rows = [{"collection": name, **dict(zip(COUNTED, row, strict=True))} for name, row in counts.items()]
    return {"rows": rows, "examples": most_different(examples)}


def most_different(examples: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(examples, key=lambda each: (-len(each["gone"]) - len(each["back"]), -each["number"]))[:MOST_EXAMPLES]


def in_one(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The outcomes of all processes."""
    merged: dict[str, list[int]] = {}
    for row in (row for answer in answers for row in answer["rows"]):
        had = merged.get(row["collection"], [0] * len(COUNTED))
        merged[row["collection"]] = [count + row[name] for count, name in zip(had, COUNTED, strict=True)]
    rows = [{"collection": name, **dict(zip(COUNTED, row, strict=True))} for name, row in merged.items()]
    rows.sort(key=lambda row: (-int(str(row["searches"])), str(row["collection"])))
    totals = [sum(row) for row in zip(*merged.values(), strict=True)] or [0] * len(COUNTED)
    return {
        "total": dict(zip(COUNTED, totals, strict=True)),
        "collections": rows,
        "examples": most_different(each for answer in answers for each in answer["examples"]),
        "bytes": sum(answer["bytes"] for answer in answers),
        "took_ms": max((answer["took_ms"] for answer in answers), default=0.0),
    }


def _counted(pool: KeptPool, now: Page, then: Page) -> tuple[int, ...]:
    start = pool.offset or 0
    own = set(range(min(start, len(pool.scores)), min(start + pool.top_k, len(pool.scores))))
    kept = [set(page.keep.tolist()) for page in (now, then)]
    return (
        1,
        now.keep.tolist() != then.keep.tolist(),
        *(page.keep.tolist() != sorted(own) for page in (now, then)),
        *(len(own - each) for each in kept),
        now.filled,
        then.filled,
        pool.documents is not None,
        pool.sources is not None,
    )


def _only(one: Page, other: Page) -> list[int]:
    """Ranks that are results of the first page only."""
    return sorted(set(one.keep.tolist()) - set(other.keep.tolist()))
