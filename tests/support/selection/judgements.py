"""Texts as the judge reads them, and its verdict on one text by others."""

from __future__ import annotations

from vecsieve.proxy.selection.judging.judge import Judge, Verdict
from vecsieve.proxy.selection.policy import Tier
from vecsieve.proxy.selection.reading.text import Passage, text_of


def plain(raw: str, *, exact: bool = False) -> Passage:
    """What a text says beside its layout."""
    return text_of(raw).passages(exact=exact)[0]


def laid(raw: str) -> Passage:
    """What a text says with its layout; it must have one."""
    passage = text_of(raw).passages()[1]
    assert passage is not None, raw
    return passage


def tokens(raw: str, *, exact: bool = False) -> tuple[str, ...]:
    """The tokens of a text, layout included if it has one."""
    one, other = text_of(raw).passages(exact=exact)
    return (one if other is None else other).tokens


def verdict(*texts: str, tier: Tier = Tier.EDITED, explain: bool = False) -> Verdict:
    """On the last text, by the others, all of them kept."""
    known = [text_of(raw) for raw in texts]
    judge = Judge(tier)
    for number, text in enumerate(known[:-1]):
        judge.keep(number, text)
    return judge.verdict(known[-1], explain=explain)


def leaves(*texts: str, tier: Tier = Tier.EDITED) -> bool:
    """Whether the last text leaves because the others say all of it."""
    return bool(verdict(*texts, tier=tier).holders)
