"""``vecsieve evaluate --fit``: fits the calibrated rule to labelled sets and judges it on what the fit did not see.

Pairs are each candidate with its two nearest better-ranked ones. All sets have the same weight, whatever their size and in every embedding.
The model is logistic with a ridge; a coefficient with an implausible sign is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from textwrap import wrap

import numpy as np
import numpy.typing as npt
from rich import box
from rich.table import Table

from ...search.candidates import string
from ...search.policy import ResolvedPolicy
from ...selection.certainty import (
    FEATURES,
    MEANINGS,
    SIGNS,
    VECTOR_FEATURES,
    pair_features,
    vector_features,
)
from ...selection.distances import relative_distances
from ...selection.policy import Model
from ...selection.text.features import Text, text_of
from ...selection.text.reading import read
from ...selection.values import Metadata, Metric
from ..calibrate.labels import newton
from .judging import NEW_SHARE
from .reading import LabelledSet
from .searching import neighbours

POOL = 50  # candidates per query: as many as the scale of distances is computed from
NEAREST = 2  # pairs per candidate

RIDGE = 1e-4  # on standardised features
# A wrong drop among short texts costs more than a copy that stays, because opinions that differ in a nuance are labelled as different. This
# factor lowers the log-odds of short pairs by two fifths. On sets left out of the fit a quarter removes .01 more, with up to .006 more
# wrong drops on average, and opinions have .28 of more than a hundred.
SHORT_CAUTION = float(np.exp(0.4))

# Bins of probabilities in the table of reliability.
BINS = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0])

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """The pairs of one set in one embedding. ``features``: (p, f). ``bare``: (p, 3), without texts. ``copies``: (p,) bool."""

    name: str
    geometry: str
    features: Matrix
    bare: Matrix
    copies: npt.NDArray[np.bool_]


def examples(labelled: LabelledSet, geometry: str, policy: ResolvedPolicy, *, every: int) -> Examples:
    """The pairs of every ``every``-th query. ``policy``: defines the text fields, and how many words make a short text."""
    rules = policy.selection.text
    assert rules is not None  # noqa: S101 - the default policy reads texts
    features, bare, copies = (
        [np.empty((0, len(FEATURES)))],
        [np.empty((0, len(VECTOR_FEATURES)))],
        [np.empty(0, np.bool_)],
    )
    for _, ranking in neighbours(labelled, every=every):
        rows = ranking.first(POOL)
        distance = relative_distances(labelled.vectors[rows], Metric.COSINE, chance=policy.selection.chance)
        apart = distance.inside(0, len(rows)).distance
        texts = read(Metadata(texts=tuple(_text(labelled, row, policy.text_paths) for row in rows.tolist())), rules)
        second, first = _nearest(apart, texts.word_counts > 0)
        if not len(first):
            continue
        far = apart[second, first].astype(np.float64)
        features.append(pair_features(texts, first, second, far))
        bare.append(vector_features(far))
        pairs = zip(rows[second].tolist(), rows[first].tolist(), strict=True)
        copies.append(np.array([_repeats(labelled, later, earlier) for later, earlier in pairs], np.bool_))
    return Examples(
        name=labelled.name,
        geometry=geometry,
        features=np.concatenate(features),
        bare=np.concatenate(bare),
        copies=np.concatenate(copies),
    )


def fitted(known: Sequence[Examples]) -> Model:
    return Model(
        texts=_fit(FEATURES, [(each.features, each.copies) for each in known], caution=SHORT_CAUTION),
        vectors=_fit(VECTOR_FEATURES, [(each.bare, each.copies) for each in known], caution=1.0),
    )


def left_out(known: Sequence[Examples], of: Callable[[Examples], str]) -> Mapping[str, Model]:
    """By name (of a set, or of an embedding) the model that was fitted without it."""
    names = sorted({of(each) for each in known})
    return {name: fitted([each for each in known if of(each) != name]) for name in names if len(names) > 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """How often pairs of a predicted probability in [low, high) are copies; ``copies``: NaN without pairs."""

    low: float
    high: float
    pairs: int
    copies: float


def reliability(known: Sequence[Examples], model_of: Callable[[Examples], Model]) -> Iterator[Bin]:
    """Over all examples, each judged by its own model."""
    told = np.concatenate([predicted(each.features, model_of(each).texts) for each in known])
    true = np.concatenate([each.copies for each in known])
    place = np.clip(np.digitize(told, BINS) - 1, 0, len(BINS) - 2)
    for number, (low, high) in enumerate(zip(BINS.tolist()[:-1], BINS.tolist()[1:], strict=True)):
        inside = place == number
        share = float(true[inside].mean()) if inside.any() else float("nan")
        yield Bin(low=low, high=high, pairs=int(inside.sum()), copies=share)


def fit_report(model: Model, known: Sequence[Examples], by_set: Mapping[str, Model]) -> Table:
    """The coefficients, and how often a probability is right on sets that were left out of the fit."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, title="Coefficients and reliability", title_justify="left")
    for heading in ("feature", "with texts", "by vectors", "probability", "pairs of sets left out", "copies"):
        table.add_column(heading, justify="left" if heading == "feature" else "right")
    by_vectors = dict(zip(VECTOR_FEATURES, model.vectors, strict=True))
    by_text = dict(zip(FEATURES, model.texts, strict=True))
    names = [*FEATURES, *(name for name in VECTOR_FEATURES if name not in FEATURES)]
    bins = list(reliability(known, lambda each: by_set.get(each.name, model)))
    for name, each in zip_longest(names, bins):
        coefficients = [f"{each[name]:+.3f}" if name in each else "" for each in (by_text, by_vectors)]
        right = (
            ("", "", "")
            if each is None
            else (f"{each.low:.2f} to {each.high:.2f}", str(each.pairs), f"{each.copies:.3f}")
        )
        table.add_row(MEANINGS.get(name or "", name or ""), *coefficients, *right)
    return table


def predicted(features: Matrix, coefficients: Sequence[float]) -> Matrix:
    found: Matrix = 1.0 / (1.0 + np.exp(-(features @ np.asarray(coefficients))))
    return found


def as_module(model: Model, known: Sequence[Examples]) -> str:
    """The text of calibrated.py."""
    sets, geometries = sorted({each.name for each in known}), sorted({each.geometry for each in known})
    pairs = sum(len(each.copies) for each in known)
    return "\n".join(
        (
            '"""The constants of the calibrated rule. Written by ``vecsieve evaluate --fit``: do not edit.',
            "",
            "What each feature says stands in certainty.py.",
            "",
            *wrap(
                f"Fitted to {pairs:,} pairs of {len(sets)} labelled sets ({', '.join(sets)}) in {len(geometries)} embeddings "
                f"({', '.join(geometries)}), each set with the same weight.",
                width=110,
            ),
            '"""',
            "",
            "from __future__ import annotations",
            "",
            "from collections.abc import Mapping",
            "from types import MappingProxyType",
            "",
            *_table("TEXTS", FEATURES, model.texts),
            "",
            *_table("VECTORS", VECTOR_FEATURES, model.vectors),
            "",
        )
    )


def _table(name: str, features: Sequence[str], values: Sequence[float]) -> list[str]:
    rows = [f'        "{feature}": {value:.3f},' for feature, value in zip(features, values, strict=True)]
    return [f"{name}: Mapping[str, float] = MappingProxyType(", "    {", *rows, "    }", ")"]


def _text(labelled: LabelledSet, row: int, fields: Sequence[str]) -> Text | None:
    payload = labelled.items[row].payload
    found = next((payload[field] for field in fields if field in payload), None)
    text = None if found is None else string(found, most_bytes=len(found))
    return None if text is None else text_of(text)


def _nearest(apart: npt.NDArray[np.float32], usable: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.intp], ...]:
    """Each candidate with a text and its NEAREST better-ranked ones: (later, earlier)."""
    open_pairs = np.tri(len(apart), k=-1, dtype=np.bool_) & usable[:, None] & usable[None, :] & np.isfinite(apart)
    masked = np.where(open_pairs, apart, np.inf)
    earlier = np.argsort(masked, axis=1, kind="stable")[:, :NEAREST]
    later = np.repeat(np.arange(len(apart)), earlier.shape[1])
    flat = earlier.ravel()
    kept = np.isfinite(masked[later, flat])
    return later[kept], flat[kept]


def _repeats(labelled: LabelledSet, later: int, earlier: int) -> bool:
    """Whether fewer than half of the later item's labels are new beside the earlier one."""
    atoms, known = labelled.items[later].atoms, labelled.items[earlier].atoms
    return bool(atoms) and sum(atom not in known for atom in atoms) < NEW_SHARE * len(atoms)


def _fit(
    names: Sequence[str], known: Sequence[tuple[Matrix, npt.NDArray[np.bool_]]], *, caution: float
) -> tuple[float, ...]:
    """Coefficients with plausible signs: the worst of the others is left out, and the rest is fitted again."""
    features = np.concatenate([rows for rows, _ in known])
    copies = np.concatenate([labels for _, labels in known]).astype(np.float64)
    weights = np.concatenate([np.full(len(labels), 1.0 / max(1, len(labels))) for _, labels in known])
    if "short" in names:
        is_short = features[:, names.index("short")] > 0.0
        weights = np.where(is_short & (copies == 0.0), caution * weights, weights)
    spread = features.std(axis=0)
    used = [place for place, name in enumerate(names) if spread[place] > 0.0 or name == "one"]
    while True:
        found = np.zeros(len(names))
        found[used] = _logistic(features[:, used], copies, weights / weights.sum())
        wrong = [place for place in used if found[place] * SIGNS.get(names[place], 0) < 0.0]
        if not wrong:
            return tuple(found.tolist())
        used.remove(max(wrong, key=lambda place: abs(found[place]) * float(spread[place])))


def _logistic(features: Matrix, copies: Matrix, weights: Matrix) -> Matrix:
    """The constant, in the first column, has no ridge."""
    spread = features.std(axis=0)
    spread[spread == 0.0] = 1.0
    ridge = np.full(features.shape[1], RIDGE)
    ridge[0] = 0.0
    nothing = np.zeros(len(copies))
    found, _ = newton(features / spread, copies, weights, ridge + 1e-12, offset=nothing, start=np.zeros(len(ridge)))
    result: Matrix = found / spread
    return result
