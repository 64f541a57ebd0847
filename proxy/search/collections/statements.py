"""What a payload says besides the text by which a result is judged. Pure and deterministic.

A page shows whole payloads. A text that another result says is no reason to remove a result whose payload says something more: the question of an
answer, a status, a price, the sentences around a chunk. What loaders and splitters write beside a text tells which copy a payload is, not what it
says: identifiers, its dates, files, links, releases, places in a document. Any other value counts.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.contract import Payloads
from vecsieve.config.backends import DOCUMENT_TEXT, KNOWN_TEXTS

from ...selection.reading.memo import Memo
from ...selection.reading.words import word_set
from ...selection.values import Indices

ALL = "*"  # as a name that is ignored: copies may differ in every field

# Parsing takes 2 to 4 ns per byte.
ROW_BYTES = 1 << 18
# What is read of one pool: bytes, and values of any kind. Together some 30 ms.
POOL_BYTES, POOL_VALUES = 1 << 22, 1 << 14
MOST_DEPTH = 6
LONGEST_PATH = 200

_PROSE_LENGTH, _PROSE_WORDS = 16, 3
_LOOKED_AT = 2000  # characters of a value
_LONGEST_DATE = 50
_FIRST_DATE, _LAST_DATE = 1e9, 2.5e9  # 2001 and 2049, in seconds since 1970
_UNSPACED_LETTERS = 8
_LEAST_JOINED = 4  # letters of a word, of which more with id at their end may be an identifier: docid, not void
_LEAST_BEGIN, _LEAST_CUT = 3, 8  # characters with which a text begins by no chance: as words, cut within one
# Of a list of numbers that is read: a place on Earth, sizes; of numbers that nobody computed, the weeks of a year. The shortest embeddings have 64.
_LONGEST_NUMBERS, _LONGEST_WRITTEN = 8, 60

# 20240503, D:20240503101500 and 2024-05-03T10:15:00Z; 09.01.2024; May 3, 2024; Fri, 03 May 2024 07:00:00 GMT. No article number, as ART-1002345.
_YEAR = r"(?:19|20)\d\d"
_WRITTEN_DATE = re.compile(
    rf"(?:D:)?{_YEAR}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[T ]?\d\d.*)?|{_YEAR}[-/.年](?:\d\d|\d{{1,2}}[-/.月]\d?.*)"
    rf"|\d{{1,2}}([./-])\d{{1,2}}\1(?:{_YEAR}|\d\d)(?:\D.*)?|(?:[^\W\d]+[.,]* +){{1,2}}\d{{1,2}}\D.*\b{_YEAR}\b.*"
    rf"|(?:[^\W\d]+[.,]* +)?\d{{1,2}}\D{{1,20}}\b{_YEAR}\b.*"
)
_SECONDS = re.compile(r"\d{9,}(?:\.\d+)?")
# A number in a string: 12.99, $12.99, 09.01.2024. § is a word.
_NUMBER = re.compile(r"[^\w§]*+\d[\d\W_]*")
# File names, paths, links, media types, numbers, identifiers, digests and encoded bytes. Not marks alone: 🟢.
_NAME = re.compile(
    r"(?i)[^\n]{0,250}\.(?!\d+\Z)[a-z][a-z0-9]{0,4}|[a-z][a-z0-9+.-]*://\S*|[^\s/\\<]*[/\\][^\s<]*|[0-9a-f-]{16,}|\S{64,}"
    rf"|{_NUMBER.pattern}|[^\W\d]\w*+(?:\.[^\W\d]\w*+)+"
)
# Of these the forms that only files, links, paths, digests and encoded bytes have; not tar.header, Booking.com, an IBAN, km/h, µg/m3.
_EXTENSIONS = "adoc csv docx? eml epub html? ipynb jpe?g jsonl? md mp[34] msg od[pst] parquet pdf png pptx? rst rtf sql svg tex tiff? tsv txt xlsx? xml ya?ml zip"
_MEDIA = r"(?:application|audio|font|image|message|model|multipart|text|video)/[\w.+-]+(?:;.*)?"
_OF_FILES = re.compile(
    rf"(?i:[^\n]{{0,250}}\.(?:{_EXTENSIONS.replace(' ', '|')})|[a-z][a-z0-9+.-]*://\S*|[^\s/\\<]*[/\\][^\s<]*|\S{{64,}}|{_MEDIA}"
    r"|(?:file-)?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})|(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{16,}|(?:[0-9A-F]{8}){4,}"
)
# What looks like one, but may be a statement: Never run guide.pdf, and/or, km/h, C25/30, Patient/88213, 1/day. Not long: encoded
# bytes have slashes, and dots would be tried one by one.
_STATEMENT = re.compile(
    rf"(?!{_MEDIA}\Z)(?:\S+\s.*|(?=.{{3,63}}\Z)(?!.*\.(?i:{_EXTENSIONS.replace(' ', '|')})\Z)[^\s/\\]+/[^\s/\\]+)",
    re.DOTALL,
)
# Thai, Lao, Khmer, kana, Han: scripts without blanks between words.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]")
# What loaders, splitters and stores write of a copy, by the words of its key: of these at least one, and no word that is in no table. So version,
# doc_version, source.name and metadata.lastModifiedDate tell which copy it is, and tag, as of a release; affects_version, light_source and tags are facts.
_OF_COPIES = word_set(
    "file filename filepath filesize filetype filedate source producer publisher keywords tag mime mimetype "
    "charset encoding acl permissions page chunk shard embedding vector version revision rev commit ocr warc crawl "
    # RAGFlow, Firecrawl, HTTP, Microsoft Graph, Azure AI Search, Google Drive, Gmail, sitemaps.
    "tks ltks topint cachestate proxyused contentlength ctag metadatastoragesize quotabytesused sizeestimate changefreq"
)
_NEUTRAL = word_set(
    "a airbyte all amz api app at base batch bedrock branch by char chars client config content count data dim dimension dimensions dims dlt document "
    "documents doc docs engine estimate external fivetran first flt format generator git header ind index info int kafka kb key label last library link "
    "main media meta metadata model ms name next node num number object of on original overlap package parent parser path pdf pipeline prev previous "
    "product prompt provider raw record ref root row schema score sdc sdk section segment server site size sm software split splitter sys system "
    "text thread title to token tokens total type web word words x"
)
# Of numbers: where a text stands, how long it is, or how well it was found. The first ones are facts alone: the row of a seat, the depth of a shelf, the
# distance of a run.
_FACTS_ALONE = word_set(
    "no num number start end position pos order line lines row rows col column columns section paragraph block layout part parts depth distance "
    "probability prob confidence conf hits hit views pages words bytes characters fetch"
)
_OF_PLACES = _FACTS_ALONE | word_set(
    "n i copy index idx offset seq sequence ordinal partition chunks loc bbox box bounding prov span charspan release len word token tokens char chars similarity "
    "relevance rerank reranker bm25 cosine pca umap tsne"
)
# A time whose key has only such words, too: when a copy, a file or a record was made, found or changed.
_OF_TIMES = word_set(
    "at on date dates time times timestamp timestamps tstamp datetime day when ts dt utc gmt unix epoch iso ms seconds created creation create "
    "creationdate moddate mod modified modification modify modstamp lastmod updated update edit edited change changed revised reviewed checked released "
    "published publication publish pub posted post crawled scrape scraped fetch fetched retrieved retrieval download downloaded cached indexed "
    "indexing emitted batched ingest ingested ingestion insert inserted import imported load loaded upload uploaded add added saved stored sync synced "
    "seen access accessed visited processed parsed extracted embedded written archived snapshot build built article item entry blob og dc dcterms"
)
# Last words of what identifies content, whatever is before them; and of identifiers, which are a copy's alone and beside words of documents, stores and
# runs: user_id and sensor_id are facts.
_OF_CONTENT = word_set("hash digest checksum crc32c etag url uri")
_IDENTIFIERS = word_set("id ids uid uuid guid pk slug")
_IDENTIFIED = word_set(
    "archive article asset blob collection connector crm dataset drive entry execution faq group head history host image img import ingest item job "
    "knowledge kb message msg note object osm partition point post request run scrape session space spark sync task trace upload vector worker workflow"
)
# Objects of places in a document; those of Haystack and Unstructured have lists. Lines of an invoice have prices.
_PLACES = re.compile(
    r"(?:^|\.)(?:(?:loc|lines|bbox|prov|span|charspan)(?![^.])|_split_overlap\[|coordinates\.points\[)"
)
_WORD = re.compile("[A-Z]+(?![a-z])|[A-Z]?[^\\W\\d_A-Z]+|\\d+")
_PLACE_IN_LIST = re.compile(r"\[\d*\]")
# What tells releases and places of one text apart in a title: 2.1, v3, Release 7, 4. Lists, page 2. Not iPhone 15, Room 12, M6.
_TITLE_WORD, _PARTS = re.compile(r"\w+"), re.compile(r"\s[-–—|·•:»›>/]+\s")
_RELEASE = re.compile(
    r"^\s*\d+[.):]?\s|\bv?\d+(?:\.\d+)+\w*"
    r"|\b(?:version|release|rev(?:ision)?|build|draft|v|section|part|chunk|page|slide)[ .:#-]*\d+(?:\.\d+)*\w*"
)
_QUESTION_MARKS = ("?", "？", "؟")
_SENTENCE_ENDS = (*_QUESTION_MARKS, ".", "!", "。", "！")
# Keys of titles. Copies have the titles of their pages: of releases, or one with the name of a site.
_TITLES = frozenset({"title", "name", "heading"})
_LAST_NAMES = frozenset((DOCUMENT_TEXT, *(path.rpartition(".")[2] for path in KNOWN_TEXTS)))


Value = str | bool | int | float


class Leaf(NamedTuple):
    """A string, boolean or number of a payload."""

    path: str  # of keys, with dots between them
    value: Value
    spells: bool  # whether it is an object or a list in JSON
    is_inside: bool  # whether it is in one that is a whole document


def leaves(payload: Mapping[str, object], most: int, *, named_only: bool = False) -> tuple[list[Leaf], int]:
    """The strings, booleans and numbers at any depth, and those of objects that are spelled as strings: first those that a path leads to, outer ones
    first; a path leads neither into a list nor through a key with a dot. The length of a list is a value, too. A number in a long list, such as
    a vector, is not read. And how many values were read: of more than ``most`` it is one more.
    """
    collected: list[Leaf] = []
    lengths: list[Leaf] = []
    count = 0
    named, others = deque([("", payload, True, False)]), deque[tuple[str, object, bool, bool]]()
    while named or (others and not named_only):
        path, value, is_named, is_inside = named.popleft() if named else others.popleft()
        count += 1
        if count > most:
            break
        spelled = _spelled(value)
        if isinstance(value, int | float) or (isinstance(value, str) and value.strip()):
            collected.append(Leaf(path, value, spelled is not None, is_inside))
        inside = value
        if spelled is not None:
            inside, is_inside = spelled, is_inside or _has_text(spelled)
        if isinstance(inside, list):
            is_read = len(inside) <= _LONGEST_NUMBERS or (len(inside) <= _LONGEST_WRITTEN and not _is_computed(inside))
            for place, member in enumerate(inside):
                if is_read or type(member) not in (int, float):
                    others.append((f"{path}[{place}]", member, False, is_inside))
            lengths.append(Leaf(f"{path}[]", len(inside), False, is_inside))
        elif isinstance(inside, dict):
            is_shallow = is_named and path.count(".") < MOST_DEPTH - 1
            for key, member in inside.items():
                below = f"{path}.{key}" if path else key
                has_path = is_shallow and bool(key) and "." not in key and len(below) <= LONGEST_PATH
                (named if has_path else others).append((below[-LONGEST_PATH:], member, has_path, is_inside))
    return collected if named_only else collected + lengths, count


def _is_computed(numbers: list[object]) -> bool:
    """Whether most numbers of a list have more than two decimals, as those of a vector have."""
    return 2 * sum([isinstance(number, float) and number != round(number, 2) for number in numbers]) > len(numbers)


def _has_text(spelled: object) -> bool:
    """Whether an object is a document as a framework stores it, with its text or a place for it, and not the metadata of one."""
    return isinstance(spelled, dict) and not _LAST_NAMES.isdisjoint(spelled)


def _spelled(value: object) -> object:
    """The object or list that a string spells; None if it spells none."""
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return None
    read = read_json(value)
    return read if isinstance(read, dict | list) else None


def read_json(raw: bytes | str) -> object:
    """None for what is too large or no JSON."""
    try:
        return None if len(raw) > ROW_BYTES else orjson.loads(raw)
    except (orjson.JSONDecodeError, RecursionError):
        return None  # a lone surrogate, say


class _Reading:
    """What a payload says. ``count``: values read; ``pairs``: paths with values; ``flags``: what is true; ``size_bytes``: approximate memory use."""

    __slots__ = ("count", "flags", "leaves", "pairs", "size_bytes")

    def __init__(self, values: list[Leaf], count: int, payload_bytes: int) -> None:
        self.leaves, self.count, self.size_bytes = values, count, 2 * payload_bytes + 400 * len(values)
        self.pairs = frozenset([leaf[:2] for leaf in values])
        self.flags = [leaf for leaf in values if leaf.value is True]


_EMPTY = _Reading([], 0, 0)
# The same payloads come in many searches, and reading one takes a microsecond a value. 4 MB hold the payloads of some three thousand points.
PAYLOADS: Memo[bytes, _Reading] = Memo(4 << 20, lambda _, reading: reading.size_bytes)


class PoolStatements:
    """The statements of a pool, as far as the reply has its payloads. A payload is read when it is needed; one that cannot be read says what no other one
    says.
    """

    __slots__ = ("_bytes", "_digests", "_ignored", "_payloads", "_readings", "_size", "_values")

    def __init__(self, payloads: Payloads, size: int, ignored: Sequence[str] = ()) -> None:
        """``payloads``: as in Pool, of ``size`` candidates. ``ignored``: the fields in which copies may differ."""
        self._payloads: Payloads | None = payloads
        self._size, self._ignored = size, frozenset(ignored)
        self._readings: dict[int, _Reading | None] = {}  # None: it cannot be read
        self._digests: dict[int, int] = {}
        self._bytes, self._values = POOL_BYTES, POOL_VALUES

    def differ(self, rows: Indices, others: Indices) -> npt.NDArray[np.bool_]:
        """As in ``selection.values.Statements``."""
        pairs = list(zip(rows.tolist(), others.tolist(), strict=True))
        self._read(sorted({row for pair in pairs for row in pair}))  # at once: over gRPC each call parses the reply
        return np.array([row != other and self.unsaid(row, (other,), "") is not None for row, other in pairs], np.bool_)

    def unsaid(self, row: int, others: Sequence[int], text: str) -> tuple[str, int] | None:
        """As in ``selection.values.Statements``."""
        self._read([row, *others])
        reading = self._readings[row]
        if reading is None:
            return next((("its payload", other) for other in others if other != row), None)
        known = [(other, self._readings[other] or _EMPTY) for other in others]
        for leaf in reading.leaves:
            lacking = [pair for pair in known if leaf[:2] not in pair[1].pairs]
            if lacking and self._counts(leaf, text):  # most values are equal in copies, and need no judgement
                for other, payload in lacking:
                    if not _repeats_title(leaf, payload):
                        return _words(leaf), other
        for other, payload in known:
            for leaf in payload.flags:  # a writer may leave out what is false
                if leaf[:2] not in reading.pairs and self._counts(leaf, text):
                    return f"not {last_name(leaf.path)}", other
        return None

    def _counts(self, leaf: Leaf, text: str) -> bool:
        """Whether copies may not differ in this value."""
        return _is_statement(leaf, text) and not is_ignored(leaf.path, self._ignored)

    @property
    def evidence(self) -> tuple[tuple[int, int], ...]:
        """The payloads on which the answers depended, as (row, digest)."""
        return tuple(self._digests.items())

    def confirms(self, evidence: Sequence[tuple[int, int]]) -> bool:
        """Whether this pool has the same payloads."""
        rows, digests = zip(*evidence, strict=True)
        if self._payloads is None or max(rows) >= self._size:
            return False
        return tuple(map(hash, self._payloads(rows))) == digests

    def detach(self) -> int:
        """Read all payloads and let go of the reply. The bytes that are kept."""
        self._read(range(self._size))
        self._payloads = None
        return sum([reading.size_bytes for reading in self._readings.values() if reading is not None])

    def _read(self, rows: Sequence[int]) -> None:
        """Read the payloads of these candidates that were not read before."""
        unread = [row for row in rows if row not in self._readings]
        if not unread:
            return
        raws = [None] * len(unread) if self._payloads is None else self._payloads(unread)
        for row, raw, reading in zip(unread, raws, PAYLOADS.several(raws), strict=True):
            self._digests[row] = hash(raw)
            self._readings[row] = _EMPTY if raw is None else self._reading(raw, reading)

    def _reading(self, raw: bytes, reading: _Reading | None) -> _Reading | None:
        """None for a payload that cannot be read, or not within the pool's bounds. ``reading``: of an earlier pool."""
        self._bytes -= len(raw)
        if self._bytes < 0:
            return None
        if reading is None:
            payload = read_json(raw)
            if not isinstance(payload, dict):
                return None
            reading = _Reading(*leaves(payload, self._values), len(raw))
            if reading.count <= self._values:
                PAYLOADS.keep(raw, reading)
        self._values -= reading.count
        return reading if self._values >= 0 else None


def _repeats_title(leaf: Leaf, other: _Reading) -> bool:
    """Whether a title is another payload's, or a part of it, as before the name of a site. A sentence is no title."""
    if not is_title(leaf.path) or not isinstance(leaf.value, str) or leaf.value.rstrip().endswith(_SENTENCE_ENDS):
        return False
    titles = [title.value for title in other.leaves if title.path == leaf.path]
    return bool(titles) and all(
        isinstance(title, str) and _title_words(leaf.value) in map(_title_words, (title, *_PARTS.split(title)))
        for title in titles
    )


def is_ignored(path: str, ignored: Collection[str]) -> bool:
    """``ignored``: names of fields; they include all paths below them."""
    if ALL in ignored:
        return True
    while path and path not in ignored:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return bool(path)


def _is_statement(leaf: Leaf, text: str) -> bool:
    """Whether a value says something besides the text; "" for none."""
    value = leaf.value
    if not isinstance(value, str):
        return not leaf.is_inside and not _names_a_copy(leaf)
    begin = value.rstrip(" .…")
    least = _LEAST_CUT if text[len(begin) : len(begin) + 1].isalnum() else _LEAST_BEGIN
    if text and (leaf.spells or (len(begin) >= least and text.startswith(begin))):
        return False  # what is inside counts; the text, or a preview of it
    ended = value.rstrip()
    if is_title(leaf.path):
        is_file = is_name(value) and _NUMBER.fullmatch(ended) is None  # the name of a bus may be 42
        return not (leaf.is_inside or is_file or _is_of_copies(leaf.path))
    if text and (_is_of_copies(leaf.path) or _is_time_of_copies(leaf)) and not ended.endswith(_SENTENCE_ENDS):
        return False
    if is_prose(value) or ended.endswith(_QUESTION_MARKS):
        return text != "" or not _names_a_copy(leaf)
    return not leaf.is_inside and not _names_a_copy(leaf)


def _names_a_copy(leaf: Leaf) -> bool:
    """Whether a value tells which copy its payload is."""
    value = leaf.value
    if _is_of_copies(leaf.path) and not (isinstance(value, str) and is_known_name(leaf.path)):
        return True
    if isinstance(value, bool):
        return False
    is_reserved = isinstance(value, str) and value.startswith("__")  # a tag of Kernel Memory's own
    if is_reserved or _is_time_of_copies(leaf):
        return True
    if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
        if is_known_name(leaf.path):
            return is_name(value)  # of a document, under the usual name of a text
        form = value.strip() if len(value) <= _LOOKED_AT else ""
        return _OF_FILES.fullmatch(form) is not None and _STATEMENT.fullmatch(form) is None
    return _is_of_copies(leaf.path, _OF_PLACES) or _PLACES.search(leaf.path) is not None


def _is_time_of_copies(leaf: Leaf) -> bool:
    return _is_date(leaf.value) and _is_of_copies(leaf.path, _OF_TIMES)


def _is_date(value: str | float) -> bool:
    """In words, in figures, or as seconds, milliseconds or microseconds since 1970. A year alone is none."""
    if isinstance(value, str):
        written = value.strip() if len(value) <= _LONGEST_DATE else ""
        is_written = _WRITTEN_DATE.fullmatch(written) is not None
        if is_written or _SECONDS.fullmatch(written) is None:
            return is_written
        value = float(written)
    return any(_FIRST_DATE <= value / unit < _LAST_DATE for unit in (1, 10**3, 10**6))


@lru_cache(4096)
def _words_of(keys: str) -> tuple[str, ...]:
    """The words of keys, in small letters: of createdAt and created_at created and at. The name of a source is a source."""
    words = tuple(word.lower() for word in _WORD.findall(_PLACE_IN_LIST.sub("", keys))) or ("",)
    return words[:-1] if len(words) > 1 and words[-1] == "name" else words


@lru_cache(4096)
def _is_of_copies(path: str, more: frozenset[str] = frozenset()) -> bool:
    """By the words of the last key, or of the last two. ``more``: words of the last key that are as those of ``_OF_COPIES`` for this value.

    A key that begins with _ is the store's or the loader's, but for places on Earth (MongoDB, Elasticsearch, Solr, Weaviate, Airbyte).
    """
    keys = path.rsplit(".", 2)
    if keys[-1].startswith("_") and not keys[-1].startswith("_geo"):
        return True
    return _are_of_copies(_words_of(keys[-1]), more) or _are_of_copies(_words_of(".".join(keys[-2:])), frozenset())


def _are_of_copies(words: tuple[str, ...], more: frozenset[str]) -> bool:
    last, joined = words[-1], "".join(words)
    if last in _OF_CONTENT or joined in _OF_CONTENT | _OF_COPIES:  # mimeType
        return True
    if last not in _IDENTIFIERS and last.endswith("id") and len(last) > _LEAST_JOINED:
        words = (*words[:-1], last[:-2], "id")  # documentid
    if words[-1] in _IDENTIFIERS:
        return all(word in _OF_COPIES or word in _NEUTRAL or word in _IDENTIFIED for word in words[:-1])
    is_alone = len(words) == 1
    are_listed = [word in _OF_COPIES or (word in more and not (is_alone and word in _FACTS_ALONE)) for word in words]
    return any(are_listed) and all(
        is_listed or word in _NEUTRAL for is_listed, word in zip(are_listed, words, strict=True)
    )


def _words(leaf: Leaf) -> str:
    """A statement in words."""
    value = leaf.value
    if isinstance(value, str) and (is_prose(value) or len(value.split(None, 1)) > 1):
        return value
    return f"{last_name(leaf.path)}: {value if isinstance(value, str) else str(value).lower()}"


def last_name(path: str) -> str:
    """The last key of a path, without a place in a list."""
    return path.rpartition(".")[2].partition("[")[0]


def is_known_name(path: str) -> bool:
    """Whether the last key of a path is a usual name of texts."""
    return last_name(path) in _LAST_NAMES


def is_title(path: str) -> bool:
    return last_name(path).lower() in _TITLES


@lru_cache(4096)
def _title_words(title: str) -> frozenset[str]:
    """The words of a title in small letters, without numbers of releases and places: Release 2.1 and Release 2.2 are two releases of one page."""
    return frozenset(_TITLE_WORD.findall(_RELEASE.sub(" ", title.casefold())))


def is_place_name(path: str) -> bool:
    """Whether the last key of a path is a usual name of titles, files, authors and identifiers."""
    return is_title(path) or _is_of_copies(path)


def is_prose(value: str) -> bool:
    """Several words, or a sentence in a script without blanks."""
    begin = value[:_LOOKED_AT]
    if len(_UNSPACED.findall(begin)) >= _UNSPACED_LETTERS:
        return True
    return len(value) >= _PROSE_LENGTH and len(begin.split(None, _PROSE_WORDS)) >= _PROSE_WORDS and not is_name(value)


def is_name(value: str) -> bool:
    """Whether a value looks like a file name, a link, a media type, a number or an identifier."""
    return len(value) <= _LOOKED_AT and _UNSPACED.search(value) is None and _NAME.fullmatch(value.strip()) is not None
