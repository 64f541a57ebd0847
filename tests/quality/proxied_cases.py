"""`python -m quality.proxied_cases FILE [--layout NAME …] [--config FILE] [--most-lost N] [--show]`: a file of cases through the running proxy.

FILE is that of `vecsieve evaluate --cases`, or its folder. One proxy stands before one embedded Qdrant engine, with one collection for each
layout of payloads (LAYOUTS). Each case is searched alone and before its fillers, its texts ranked in their order and in the reverse one.
Exit code 1 if more than N results that must stay are lost, over all layouts.

A point's vector is that of its text with one number more, its score: so the ranking is the one that is wanted, and distances are what they
were but for a hundredth.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from rich.console import Console
from rich.table import Table

from support.process.stack import exchange, serve
from support.qdrant.embedded import start_embedded_process
from vecsieve.proxy.jobs.evaluate.cases import Case, CaseFile, read_cases
from vecsieve.proxy.jobs.evaluate.reading import Vectors

Payload = dict[str, Any]


def llama_index(text: str, number: int) -> Payload:
    """LlamaIndex keeps the whole node as a string of JSON."""
    node: Payload = {
        "id_": f"node-{number}",
        "embedding": None,
        "metadata": {"file_name": "manual.pdf", "page_label": str(number)},
        "excluded_embed_metadata_keys": [],
        "relationships": {},
        "text": text,
        "mimetype": "text/plain",
        "class_name": "TextNode",
    }
    return {"_node_content": json.dumps(node), "_node_type": "TextNode", "doc_id": "manual", "file_name": "manual.pdf"}


LAYOUTS: Mapping[str, Callable[[str, int], Payload]] = {
    "text": lambda text, _: {"text": text},
    "page_content": lambda text, number: {
        "page_content": text,
        "metadata": {"source": "manual.pdf", "title": "Manual", "page": number},
    },
    "_node_content": llama_index,
    "data": lambda text, number: {"data": text, "hash": f"{number:032x}", "user_id": "alice"},
    "doc_content": lambda text, _: {"doc_content": text, "source": "manual"},
    "text_segment": lambda text, number: {"text_segment": text, "file_name": "manual.txt", "index": str(number)},
    "passage": lambda text, _: {"document": "pump.pdf", "passage": text},
}

# A batch of searches is as many reads: a slow one is answered plainly if the budget has no room to send it again.
PATIENT = {"VECSIEVE_LIMITS_OWN_READS_SHARE": "1.0"}
WAYS = tuple(product((False, True), (False, True)))  # is_beside, is_reversed
FILLER = -1  # the number of a case that fillers have
MOST_TEXTS = 1000  # of one case: an id is the case's place and the text's number
FIRST, STEP = 0.1, 0.0005  # the best score, and what each rank has less
POINTS, SEARCHES = 256, 32  # in one request


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The page of one case in one layout, searched in one way. ``lost``, ``stayed``: numbers of its texts; one that a result of the page has as
    whole sentences is not lost. ``lacking``: results fewer than
    asked for, of a page that could be full of different ones.
    """

    layout: str
    case: Case
    is_neighbour: bool
    is_reversed: bool
    lost: tuple[int, ...]
    stayed: tuple[int, ...]
    lacking: int


def judged(file: CaseFile, layouts: Sequence[str], *, config: Path | None = None) -> list[Seen]:
    """Every case through the proxy, in every way and layout."""
    settings = () if config is None else ("--config", str(config))
    with start_embedded_process() as engine, serve(engine, *settings, environment=PATIENT) as (proxy, admin):
        for layout in layouts:
            _load(engine, layout, file)
        seen = [one for layout in layouts for one in _searched(proxy, layout, file)]
        plain = re.findall(
            rb"^vecsieve_fail_open_total{.*[1-9].*$", exchange(admin, "GET", "/metrics").body, re.MULTILINE
        )
        assert not plain, f"answered plainly, which loses nothing and proves nothing: {plain}"
        return seen


def _load(engine: str, layout: str, file: CaseFile) -> None:
    size = file.cases[0].vectors.shape[1] + 1
    _put(engine, f"/collections/{layout}", {"vectors": {"size": size, "distance": "Cosine"}})
    _put(engine, f"/collections/{layout}/index?wait=true", {"field_name": "case", "field_schema": "integer"})
    points = list(_points(layout, file))
    for start in range(0, len(points), POINTS):
        _put(engine, f"/collections/{layout}/points?wait=true", {"points": points[start : start + POINTS]})


def _points(layout: str, file: CaseFile) -> Iterator[Payload]:
    """Each text of each case twice, for the two orders; each filler once."""
    made = LAYOUTS[layout]
    deepest = max(len(case.texts) for case in file.cases)
    for number, case in enumerate(file.cases):
        for is_reversed in (False, True):
            place = _place(number, is_reversed=is_reversed)
            ranks = range(len(case.texts))[::-1] if is_reversed else range(len(case.texts))
            for text, rank in enumerate(ranks):
                vector, payload = scored(case.vectors[text], rank), {**made(case.texts[text], text), "case": place}
                yield {"id": place * MOST_TEXTS + text, "vector": vector, "payload": payload}
    first = _place(len(file.cases), is_reversed=False) * MOST_TEXTS
    for number, filler in enumerate(file.fillers):
        vector, payload = (
            scored(file.filler_vectors[number], deepest + number),
            {**made(filler, number), "case": FILLER},
        )
        yield {"id": first + number, "vector": vector, "payload": payload}


def _place(number: int, *, is_reversed: bool) -> int:
    return 2 * number + is_reversed


def scored(vector: Vectors, rank: int) -> Vectors:
    """The vector with the score of this rank as one number more, of length one."""
    score = FIRST - STEP * rank
    return np.append(vector * np.sqrt(1.0 - score * score), score).astype(np.float32)


def _searched(proxy: str, layout: str, file: CaseFile) -> Iterator[Seen]:
    ways = [(number, *way) for way in WAYS for number in range(len(file.cases)) if file.fillers or not way[0]]
    query = [0.0] * file.cases[0].vectors.shape[1] + [1.0]
    for start in range(0, len(ways), SEARCHES):
        some = ways[start : start + SEARCHES]
        searches = [
            {
                "query": query,
                "limit": _limit(file.cases[number]),
                "with_payload": True,
                "filter": {"must": [_belongs(_place(number, is_reversed=is_reversed), is_filled=is_filled)]},
            }
            for number, is_filled, is_reversed in some
        ]
        body = json.dumps({"searches": searches}).encode()
        answer = exchange(proxy, "POST", f"/collections/{layout}/points/query/batch", body)
        assert answer.status == 200, answer.body[:500]
        pages = [[point["id"] for point in result["points"]] for result in json.loads(answer.body)["result"]]
        for (number, is_filled, is_reversed), page in zip(some, pages, strict=True):
            first = _place(number, is_reversed=is_reversed) * MOST_TEXTS
            yield _seen(layout, file.cases[number], [point - first for point in page], is_filled, is_reversed)


def _limit(case: Case) -> int:
    """Room for all of its texts; a search for one result is not ours."""
    return max(2, len(case.texts))


def _belongs(place: int, *, is_filled: bool) -> Payload:
    return {"key": "case", "match": {"any": [place, FILLER] if is_filled else [place]}}


def _seen(layout: str, case: Case, page: Sequence[int], is_filled: bool, is_reversed: bool) -> Seen:
    texts = [number for number in page if 0 <= number < len(case.texts)]
    return Seen(
        layout=layout,
        case=case,
        is_neighbour=is_filled,
        is_reversed=is_reversed,
        lost=tuple(number for number in case.lost(texts) if not _stands(case.texts[number], case, texts)),
        stayed=case.staying(texts),
        lacking=_limit(case) - len(page) if is_filled else 0,
    )


def _stands(text: str, case: Case, page: Sequence[int]) -> bool:
    """Whether a result of the page has the text as it is, as whole sentences."""
    sentences = re.compile(rf"(?:\A|[.!?]\s+|\n){re.escape(text.strip())}(?:(?<=[.!?])\s|\n|\Z)")
    return any(sentences.search(case.texts[number]) is not None for number in page)


def _put(engine: str, path: str, body: Payload) -> None:
    answer = exchange(engine, "PUT", path, orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY))
    assert answer.status == 200, answer.body[:500]


# The report.


def losses(seen: Sequence[Seen]) -> list[Seen]:
    """The pages that lack a result that must stay."""
    return [outcome for outcome in seen if outcome.lost and not outcome.case.either]


def table(seen: Sequence[Seen]) -> Table:
    """A row a layout: cases that lose a result, results lost in each way, copies that stay beside fillers, short pages."""
    grid = Table(title=f"{len({id(outcome.case) for outcome in seen})} cases through the proxy", title_justify="left")
    grid.add_column("layout")
    for heading in (
        "cases that\nlose", "results\nlost", "alone", "alone,\nreversed", "beside\nfillers", "beside,\nreversed",
        "copies\nthat stay", "short\npages", "kinds",
    ):  # fmt: skip
        grid.add_column(heading, justify="right")
    for layout in dict.fromkeys(outcome.layout for outcome in seen):
        strict = [outcome for outcome in seen if outcome.layout == layout and not outcome.case.either]
        lost = losses(strict)
        kinds = Counter(kind for kind, _ in {(outcome.case.kind, id(outcome.case)) for outcome in lost})
        filled = [outcome for outcome in strict if outcome.is_neighbour]
        copies = sum(outcome.case.copies for outcome in filled)
        by_way = {
            way: sum(len(outcome.lost) for outcome in lost if (outcome.is_neighbour, outcome.is_reversed) == way)
            for way in WAYS
        }
        grid.add_row(
            layout,
            str(len({id(outcome.case) for outcome in lost})),
            str(sum(by_way.values())),
            *map(str, by_way.values()),
            f"{sum(len(outcome.stayed) for outcome in filled)} of {copies}",
            f"{sum(outcome.lacking > 0 for outcome in filled)} of {len(filled)}",
            ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())),
        )
    return grid


def main() -> int:
    """Print the table, and on demand each result that was lost."""
    reader = argparse.ArgumentParser(prog="quality.proxied_cases")
    reader.add_argument("file", type=Path)
    reader.add_argument("--layout", action="append", choices=list(LAYOUTS))
    reader.add_argument("--config", type=Path, help="settings of the proxy")
    reader.add_argument("--most-lost", type=int, default=0)
    reader.add_argument("--show", action="store_true")
    given = reader.parse_args()
    began = time.perf_counter()
    file = read_cases(given.file / "cases.jsonl" if given.file.is_dir() else given.file)
    seen = judged(file, given.layout or list(LAYOUTS), config=given.config)
    console = Console(width=180)
    console.print(table(seen))
    lost = losses(seen)
    for outcome in lost if given.show else ():
        way = f"{'beside fillers' if outcome.is_neighbour else 'alone'}{', reversed' if outcome.is_reversed else ''}"
        texts = " | ".join(outcome.case.texts[number][:200] for number in outcome.lost)
        console.print(f"{outcome.layout}, {outcome.case.kind}, {outcome.case.name} ({way}): {texts!r}", markup=False)
    count = sum(len(outcome.lost) for outcome in lost)
    console.print(
        f"{count} results lost that must stay, {given.most_lost} allowed; {time.perf_counter() - began:.0f} s"
    )
    return 1 if count > given.most_lost else 0


if __name__ == "__main__":
    sys.exit(main())
