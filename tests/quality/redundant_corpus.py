"""`python -m quality.redundant_corpus SET FOLDER --embed MODULE:FUNCTION`: a redundant corpus in the manner of RARE (arXiv 2604.19047), from a labelled set.

RARE takes questions that need several facts, and corpora in which documents state the same facts and resemble each other: reports, laws, patents.
Each passage that a question of SET needs gets four others that state it, and two that resemble it and do not:

- as a filing: the same text between a header and a footer
- as an extract: the same text with other line breaks
- in a report: before another needed passage, and behind one
- a part: its first sentences, without the last
- a sibling: the same text with other numbers; none if it has none

A question's group for a fact has all passages that state it. RARE groups by a language model what is told in other words; here nothing is reworded. The
other passages of SET stay as they are. MODULE:FUNCTION gets a list of n texts and returns their embeddings (n, d).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from quality.public_benchmark.__main__ import embedder
from quality.public_benchmark.corpora import Embed, Matrix

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_NUMBER = re.compile(r"\d+")
_LINE = 11  # words


class _Row(msgspec.Struct):
    id: str
    text: str


class _Question(msgspec.Struct):
    text: str
    subtopics: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Passage:
    """``facts``: ids of the passages of SET that it states."""

    id: str
    text: str
    facts: tuple[str, ...]


def passages(rows: Sequence[_Row], needed: Sequence[str]) -> Iterator[Passage]:
    """The corpus: each row, and behind a needed one what states it or resembles it. ``needed``: their ids, in order."""
    texts = {row.id: row.text for row in rows}
    following = dict(zip(needed, (*needed[1:], *needed[:1]), strict=True))
    for row in rows:
        yield Passage(row.id, row.text, (row.id,))
        if row.id not in following:
            continue
        yield Passage(f"{row.id}.filing", f"FORM 10-K\n{row.text}\nPage {len(row.id)} of 90", (row.id,))
        yield Passage(f"{row.id}.extract", _broken(row.text), (row.id,))
        other = following[row.id]
        if other != row.id:
            yield Passage(f"{row.id}.report", f"{row.text}\n\n{texts[other]}", (row.id, other))
        sentences = _SENTENCE.split(row.text)
        if len(sentences) > 1:
            yield Passage(f"{row.id}.part", " ".join(sentences[:-1]), ())
        sibling = _NUMBER.sub(lambda match: str(int(match[0]) + 1), row.text)
        if sibling != row.text:
            yield Passage(f"{row.id}.sibling", sibling, ())


def _broken(text: str) -> str:
    words = text.split()
    return "\n".join(" ".join(words[at : at + _LINE]) for at in range(0, len(words), _LINE))


def build(source: Path, folder: Path, embed: Embed) -> tuple[int, int]:
    """Write the set; the numbers of its passages and of those that state a needed fact. Raises OSError, msgspec.DecodeError."""
    rows = [msgspec.json.decode(line, type=_Row) for line in (source / "corpus.jsonl").read_bytes().splitlines()]
    questions = [
        msgspec.json.decode(line, type=_Question) for line in (source / "queries.jsonl").read_bytes().splitlines()
    ]
    needed = tuple(dict.fromkeys(row for question in questions for ids in question.subtopics.values() for row in ids))
    corpus = list(passages(rows, needed))
    stating: dict[str, list[str]] = {}
    for chunk in corpus:
        for fact in chunk.facts:
            stating.setdefault(fact, []).append(chunk.id)
    folder.mkdir(parents=True, exist_ok=True)
    lines = [{"id": chunk.id, "text": chunk.text, "doc": chunk.id, "atoms": chunk.facts} for chunk in corpus]
    queries = [
        {
            "text": question.text,
            "subtopics": {
                name: [one for row in ids for one in stating[row]] for name, ids in question.subtopics.items()
            },
        }
        for question in questions
    ]
    for name, objects in (("corpus", lines), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in objects), encoding="utf-8")
        np.save(folder / f"{name}.npy", _rows([str(one["text"]) for one in objects], embed))
    (folder / "meta.json").write_text(json.dumps({"repeats": "copies"}), encoding="utf-8")
    return len(corpus), sum(bool(set(chunk.facts).intersection(needed)) for chunk in corpus)


def _rows(texts: Sequence[str], embed: Embed) -> Matrix:
    return np.concatenate([np.asarray(embed(texts[at : at + 256]), np.float32) for at in range(0, len(texts), 256)])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m quality.redundant_corpus", description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--embed", default="wordllama")
    options = parser.parse_args()
    passages_, stating = build(options.source, options.folder, embedder(options.embed))
    sys.stdout.write(f"{passages_} passages, {stating} of them state a needed fact: {options.folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
