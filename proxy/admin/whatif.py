"""The effect of another policy on recent pools: the change in question, and its outcome in numbers.

The pools are those of pools.py. From each the changed policy selects a page, which is compared with the page of the policy in force.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson

from vecsieve.config.load import judged as settings_of
from vecsieve.config.policy import PolicySettings
from vecsieve.config.presets import PRESETS, policy_of
from vecsieve.config.schema import RuleSettings

from ..search.policy import resolved, suited
from ..selection.policy import Linkage, Policy, Short, Strategy
from ..selection.values import Link, Selection, finished
from .pools import KeptPool, Page, Sampled, choosing, page_of
from .reasons import why_left

MOST_EXAMPLES = 20
PRESET_NAMES = tuple(PRESETS)


class ChangeError(ValueError):
    """An invalid change. The message shows at most the name of a member."""


# What a change may choose by name. Strategies that read metadata which the policy in force does not fetch would choose blindly.
CHOICES: Mapping[str, tuple[str, ...]] = {
    "preset": PRESET_NAMES,
    "linkage": tuple(Linkage),
    "representative": tuple(strategy for strategy in Strategy if strategy is not Strategy.CHAIN),
    "short": tuple(Short),
}
# The path in a policy of what a change may name.
MEMBERS: Mapping[str, tuple[str, ...]] = {
    "threshold": ("threshold", "fixed"),
    "relative": ("threshold", "relative"),
    "certainty": ("certainty",),
    "linkage": ("linkage",),
    "representative": ("representative",),
    "short": ("short",),
    "mmr_lambda": ("mmr", "lambda"),
    "per_document": ("caps", "per_document"),
    "per_source": ("caps", "per_source"),
}
CUTS = ("threshold", "relative", "certainty")
# The members of a selection's policy that these settings decide.
_DECIDED = {
    "threshold": "threshold",
    "certainty": "threshold",
    "linkage": "linkage",
    "representative": "representative",
    "short": "short",
    "mmr": "diversifier",
}


@dataclass(frozen=True, slots=True)
class Change:
    """``given``: values as text, by the names of MEMBERS, of which at most one is a cut of vectors; "preset", which comes first; and "collection": only its
    pools.
    """

    given: Mapping[str, str]

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Change:
        """Raises ChangeError unless the values are those of a policy."""
        names = ("preset", *MEMBERS, "collection")
        if unknown := sorted(given.keys() - set(names)):
            raise ChangeError(f"{unknown[0][:40]}: wanted one of {', '.join(names)}")
        cuts = [name for name in CUTS if name in given]
        if len(cuts) > 1:
            raise ChangeError(f"{' and '.join(cuts)}: wanted one of them")
        for name, choices in CHOICES.items():
            if name in given and given[name] not in choices:
                raise ChangeError(f"{name}: wanted one of {', '.join(choices)}")
        change = cls(given)
        _, findings = settings_of({"rules": (change.rule,)}, ())
        for finding in findings:
            wrong = next((name for name, path in MEMBERS.items() if path == finding.path[3:]), "collection")
            raise ChangeError(f"{wrong}: wanted {finding.expected}")
        return change

    @property
    def rule(self) -> dict[str, Any]:
        """A rule of the settings that has the same effect."""
        policy: dict[str, Any] = {}
        for name, (member, *below) in MEMBERS.items():
            if name in self.given:
                value = _value(self.given[name])
                policy[member] = {**policy.get(member, {}), below[0]: value} if below else value
        if "certainty" in policy:
            policy |= {"threshold": None, "linkage": "leader"}  # the calibrated rule has no other
        elif "threshold" in policy:
            policy["certainty"] = None
        parts = {
            "collection": self.given.get("collection") or "*",
            "preset": self.given.get("preset"),
            "policy": policy,
        }
        return {name: part for name, part in parts.items() if part}

    def as_yaml(self) -> str:
        """The rule, for a settings file."""
        lines = [f"{name}: {json.dumps(value)}" for name, value in self.rule.items()]  # JSON is YAML
        return "rules:\n  - " + "\n    ".join(lines) + "\n"

    def applied(self) -> Callable[[Policy], Policy]:
        """A function from the policy that selected to the changed one."""
        rule = RuleSettings.model_validate(self.rule)
        whole = resolved(policy_of(PolicySettings(), rule), mode=None).selection
        decided = {_DECIDED[name] for name in rule.policy if name in _DECIDED}
        caps = {name: getattr(whole.caps, name) for name in ("per_document", "per_source") if name in self.given}

        def changed(policy: Policy) -> Policy:
            result = replace(policy, **{name: getattr(whole, name) for name in decided})
            threshold = suited(result.threshold, result.linkage)
            return replace(result, threshold=threshold, caps=replace(result.caps, **caps))

        return changed if rule.preset is None else lambda _: whole


def _value(text: str) -> object:
    """A number, else the text."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


UNCHANGED = Change({})


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
        if change.given.get("collection", sampled.collection) != sampled.collection:
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
        "examples": most_different(example for answer in answers for example in answer["examples"]),
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
        *(len(unchanged - rows) for rows in kept),
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
