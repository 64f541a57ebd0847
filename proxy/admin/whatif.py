"""The effect of another policy on recent pools: the change in question, and its outcome in numbers.

The pools are those of pools.py. From each the changed policy selects a page, which is compared with the page of the policy in force.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from vecsieve.config.policy import MmrSettings, PolicySettings, RelativeThreshold
from vecsieve.config.presets import PRESETS, policy_of
from vecsieve.config.schema import RuleSettings

from ..search.policy import mmr_of, resolved, suited, threshold_of
from ..selection.policy import Certain, Fixed, Linkage, Policy, Short, Strategy
from ..selection.values import Link, Selection, finished
from .pools import KeptPool, Page, Sampled, choosing, page_of
from .reasons import why_left

MOST_EXAMPLES = 20
PRESET_NAMES = tuple(PRESETS)
MOST_OF_A_NAME = 100  # results of one document or source


class ChangeError(ValueError):
    """An invalid change. The message shows at most the name of a member."""


# What a change may choose by name. Strategies that read metadata which the policy in force does not fetch would choose blindly.
CHOICES: Mapping[str, tuple[str, ...]] = {
    "preset": PRESET_NAMES,
    "linkage": tuple(Linkage),
    "representative": tuple(each for each in Strategy if each is not Strategy.CHAIN),
    "short": tuple(Short),
}
CUTS = {"threshold": 2.0, "relative": 1.0, "certainty": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """None leaves a member unchanged. ``preset`` comes first, the others change it. At most one of the cuts of vectors: ``threshold``, ``relative``,
    ``certainty``.

    ``mmr_lambda``: of MMR. ``per_document``, ``per_source``: the most results. ``collection``: only its pools.
    """

    preset: str | None = None
    threshold: float | None = None
    relative: float | None = None
    certainty: float | None = None
    linkage: str | None = None
    representative: str | None = None
    short: str | None = None
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
        cuts = [name for name in CUTS if name in given]
        if len(cuts) > 1:
            raise ChangeError(f"{' and '.join(cuts)}: wanted one of them")
        for name, choices in CHOICES.items():
            if name in given and given[name] not in choices:
                raise ChangeError(f"{name}: wanted one of {', '.join(choices)}")
        return cls(
            preset=given.get("preset"),
            linkage=given.get("linkage"),
            representative=given.get("representative"),
            short=given.get("short"),
            collection=given.get("collection"),
            threshold=_number("threshold", given, CUTS["threshold"]),
            relative=_number("relative", given, CUTS["relative"]),
            certainty=_number("certainty", given, CUTS["certainty"]),
            mmr_lambda=_number("mmr_lambda", given, 1.0),
            per_document=_count("per_document", given),
            per_source=_count("per_source", given),
        )

    def as_yaml(self) -> str:
        """A rule that has the same effect, for a settings file."""
        members: dict[str, Any] = {
            **self._cut_in_settings(),
            # As in `_cut`.
            "linkage": self.linkage if self.certainty is None else str(Linkage.LEADER),
            "representative": self.representative,
            "short": self.short,
            "mmr": None if self.mmr_lambda is None else {"lambda": self.mmr_lambda},
        }
        caps = {"per_document": self.per_document, "per_source": self.per_source}
        members["caps"] = {name: most for name, most in caps.items() if most is not None} or None
        policy = {name: each for name, each in members.items() if each is not None}
        parts = {"collection": self.collection or "*", "preset": self.preset, "policy": policy or None}
        lines = [f"{name}: {json.dumps(each)}" for name, each in parts.items() if each is not None]  # JSON is YAML
        return "rules:\n  - " + "\n    ".join(lines) + "\n"

    def _cut_in_settings(self) -> dict[str, object]:
        """One kind of cut, without the one of the preset or the default."""
        if self.certainty is not None:
            return {"certainty": self.certainty, "threshold": "none"}
        if self.threshold is not None:
            return {"threshold": {"fixed": self.threshold}, "certainty": "none"}
        return {} if self.relative is None else {"threshold": {"relative": self.relative}, "certainty": "none"}

    def applied(self) -> Callable[[Policy], Policy]:
        """A function from the policy that selected to the changed one."""
        whole = None
        if self.preset is not None:
            rule = RuleSettings.model_validate({"preset": self.preset})
            whole = resolved(policy_of(PolicySettings(), rule), mode=None).selection

        def changed(policy: Policy) -> Policy:
            result = self._cut(policy if whole is None else whole)
            result = replace(result, **self._replaced())
            caps = {name: most for name in ("per_document", "per_source") if (most := getattr(self, name)) is not None}
            return replace(result, caps=replace(result.caps, **caps)) if caps else result

        return changed

    def _cut(self, policy: Policy) -> Policy:
        """The policy with the cut of vectors and the linkage that it allows."""
        linkage = policy.linkage if self.linkage is None else Linkage(self.linkage)
        threshold = policy.threshold
        if self.threshold is not None:
            threshold = Fixed(value=self.threshold)
        elif self.relative is not None:
            threshold = threshold_of(RelativeThreshold.model_validate({"relative": self.relative}))
        elif self.certainty is not None:
            threshold, linkage = Certain(first=self.certainty, last=self.certainty), Linkage.LEADER
        return replace(policy, threshold=suited(threshold, linkage), linkage=linkage)

    def _replaced(self) -> dict[str, Any]:
        """The other members of a policy that change."""
        replaced: dict[str, Any] = {}
        if self.representative is not None:
            replaced["representative"] = Strategy(self.representative)
        if self.short is not None:
            replaced["short"] = Short(self.short)
        if self.mmr_lambda is not None:
            replaced["diversifier"] = mmr_of(MmrSettings.model_validate({"lambda": self.mmr_lambda}))
        return replaced


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
    "reworded_then",
    "with_texts",
    "with_vectors",
    "with_documents",
    "with_sources",
)


def judged(pools: Iterable[Sampled], change: Change) -> dict[str, Any]:
    """JSON-ready: by collection the counts of COUNTED, and the searches that would differ most. Runs in a thread of its own."""
    apply, counts, examples = change.applied(), dict[str, list[int]](), list[dict[str, Any]]()
    for sampled in pools:
        if change.collection is not None and sampled.collection != change.collection:
            continue
        time.sleep(0)  # other threads may run
        pool = sampled.pool
        selection = _selected(pool, apply(pool.policy))
        then = page_of(selection, pool.top_k, pool.offset)
        row = counts.setdefault(sampled.collection, [0] * len(COUNTED))
        counts[sampled.collection] = [sum(pair) for pair in zip(row, _counted(pool, then), strict=True)]
        leaving, back = _only(pool.now, then), _only(then, pool.now)
        if leaving or back:
            example = {"number": sampled.number, "collection": sampled.collection, "gone": leaving, "back": back}
            examples.append({**example, "why": [_why(selection, rank) for rank in leaving]})
    rows = [{"collection": name, **dict(zip(COUNTED, row, strict=True))} for name, row in counts.items()]
    return {"rows": rows, "examples": most_different(examples)}


def _selected(pool: KeptPool, policy: Policy) -> Selection:
    return finished(choosing(pool.candidates(), top_k=pool.top_k, policy=policy, offset=pool.offset))


def _why(selection: Selection, rank: int) -> str:
    """Why the changed policy leaves a result out, "" if none stands for it."""
    head, also = int(selection.representative[rank]), int(selection.also[rank])
    if head == rank:
        return ""
    numbers = [head + 1, *([also + 1] if also >= 0 else [])]
    return why_left(
        Link(int(selection.links[rank])), numbers, float(selection.similarities[rank]), float(selection.cuts[rank])
    )


def most_different(examples: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(examples, key=lambda row: (-len(row["gone"]) - len(row["back"]), -row["number"]))[:MOST_EXAMPLES]


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


def _counted(pool: KeptPool, then: Page) -> tuple[int, ...]:
    start, pages = pool.offset or 0, (pool.now, then)
    unchanged = set(range(start, start + pool.results))
    kept = [set(page.keep.tolist()) for page in pages]
    return (
        1,
        not np.array_equal(pool.now.keep, then.keep),
        *(page.keep.tolist() != sorted(unchanged) for page in pages),
        *(len(unchanged - each) for each in kept),
        *(page.filled for page in pages),
        then.reworded,
        pool.texts is not None,
        pool.has_vectors,
        pool.bare.metadata.documents is not None,
        pool.bare.metadata.sources is not None,
    )


def _only(one: Page, other: Page) -> list[int]:
    """Ranks that are results of the first page only."""
    return sorted(set(one.keep.tolist()) - set(other.keep.tolist()))
