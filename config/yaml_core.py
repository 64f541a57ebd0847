"""YAML as its version 1.2 core schema reads it: `on` and `off` are words, booleans are only true and false.

PyYAML's own loaders read YAML 1.1, where `mode: off` is a boolean, `22:22` a number and `1:30` ninety. Here text becomes
a graph of nodes with the core schema's scalars, and the graph becomes dicts, tuples and scalars, with bounds on depth
and size (aliases may multiply), every duplicate key reported, and no tag that could build anything else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import yaml

from vecsieve.config.problems import Finding, Path, masked, one_line, shown
from vecsieve.config.schema import Settings

DEEPEST = 32  # levels; the settings need six
MOST_NODES = 20_000  # after aliases are followed: some 2,000 rules
LONGEST_NUMBER = 40  # characters: Python refuses to print integers of 4,300 digits

_NULL, _BOOL, _INT, _FLOAT, _TEXT = (f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float", "str"))
_CORE = (
    (_NULL, re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""]),
    (_BOOL, re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF")),
    (_INT, re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z"), list("-+0123456789")),
    (
        _FLOAT,
        re.compile(r"(?:[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z"),
        list("-+0123456789."),
    ),
)
_PATTERNS = {tag: pattern for tag, pattern, _ in _CORE}
_DIGITS = re.compile(r"[0-9]{1,18}")


class NotYamlError(ValueError):
    """Text that is not one YAML document. ``place``: line and column where known."""

    def __init__(self, place: str, seen: str) -> None:
        super().__init__(f"{place}: {seen}")
        self.place = place
        self.seen = seen


_WIDE_BREAK = re.compile("[\x85\u2028\u2029]")


class CoreDumper(yaml.SafeDumper):
    """Writes what this file's reader reads back the same: quotes follow the core schema, nothing is aliased."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own shape

    def ignore_aliases(self, data: object) -> bool:
        """Never alias: the output is for people."""
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Quote and escape line breaks beyond ASCII: PyYAML 6.0.3 writes them bare, and reads them back as blanks."""
        style = '"' if _WIDE_BREAK.search(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


CoreDumper.add_representer(str, CoreDumper.represent_str)


class _CoreLoader(yaml.SafeLoader):
    """Composes nodes with core scalars, and stops at a depth the settings never need."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own shape

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose one node, counting: the library recurses until the stack ends, and takes 15 s for a megabyte of ones."""
        self._depth += 1
        self._nodes += 1
        if self._depth > DEEPEST:
            raise NotYamlError(f"line {self.line + 1}", f"more than {DEEPEST} levels")
        if self._nodes > MOST_NODES:
            raise NotYamlError(f"line {self.line + 1}", f"more than {MOST_NODES} values")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


for _tag, _pattern, _first in _CORE:
    for _class in (_CoreLoader, CoreDumper):
        _class.add_implicit_resolver(_tag, _pattern, _first)


@dataclass(frozen=True, slots=True)
class Document:
    """What a text holds, as dicts, tuples and scalars. Where a value cannot be used stands None, and a finding says why."""

    value: object
    findings: tuple[Finding, ...]


def read(text: str) -> Document:
    """The one document in the text; an empty text holds None. Raises NotYamlError when the text cannot be read at all."""
    node = _composed(text)
    if node is None:
        return Document(None, ())
    _measure(node, {}, set())
    builder = _Builder()
    value = builder.value(node, ())
    return Document(value, tuple(builder.findings))


def _composed(text: str) -> yaml.Node | None:
    try:
        return _CoreLoader(text).get_single_node()
    except yaml.reader.ReaderError as error:
        raise NotYamlError(f"line {text.count(chr(10), 0, error.position) + 1}", "a control character") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"
        raise NotYamlError(place, _fault(error.problem or error.context or "no YAML")) from error
    except NotYamlError:
        raise
    except (ValueError, OverflowError) as error:
        # PyYAML 6.0.3 lets chr() and int() fail on escapes such as "\\U00110000" and on %YAML versions.
        raise NotYamlError("", "an escape or a directive out of range") from error


def _fault(problem: str) -> str:
    """PyYAML's wording, made to follow *saw*."""
    found = problem.removeprefix("but ").removeprefix("found ")
    return one_line(found if found != problem else f"this: {problem}")


def _measure(node: yaml.Node, known: dict[int, tuple[int, int]], above: set[int]) -> tuple[int, int]:
    """Values and levels once every alias is followed. Raises NotYamlError when they are too large or endless."""
    key = id(node)
    if key in known:
        return known[key]
    line = f"line {node.start_mark.line + 1}"
    if key in above:
        raise NotYamlError(line, "an alias inside what it stands for")
    above.add(key)
    below = [_measure(child, known, above) for child in _children(node)]
    above.discard(key)
    nodes = 1 + sum(each for each, _ in below)
    levels = 1 + max((each for _, each in below), default=0)
    if nodes > MOST_NODES:
        raise NotYamlError(line, f"more than {MOST_NODES} values once aliases are followed")
    if levels > DEEPEST:
        raise NotYamlError(line, f"more than {DEEPEST} levels once aliases are followed")
    known[key] = (nodes, levels)
    return known[key]


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


class _Builder:
    """Turns nodes into values and collects what it must leave out."""

    __slots__ = ("findings",)

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def value(self, node: yaml.Node, path: Path) -> object:
        """The node's value; None in place of one that cannot be used."""
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return tuple(self.value(child, (*path, index)) for index, child in enumerate(node.value))
        if isinstance(node, yaml.ScalarNode) and (node.tag == _TEXT or _is_core(node)):
            return self._scalar(node, path)
        self._refuse(node, path, seen=f"the tag {node.tag}", wanted="a plain mapping, list or value")
        return None

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        built: dict[str, object] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or not _is_key(key_node):
                self._refuse(key_node, path, seen="another key", wanted="keys that are plain words")
                continue
            key = key_node.value
            if key in built:
                self._refuse(key_node, (*path, key), seen="it again", wanted="the key once", stands=True)
                continue
            built[key] = self.value(value_node, (*path, key))
        return built

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> object:
        text: str = node.value
        if node.tag == _TEXT:
            if not any("\ud800" <= character <= "\udfff" for character in text):
                return text
            self._refuse(node, path, seen="half of a surrogate pair", wanted="text")
        elif node.tag == _BOOL:
            return text.lower() == "true"
        elif node.tag in {_INT, _FLOAT}:
            if len(text) <= LONGEST_NUMBER:
                return _integer(text) if node.tag == _INT else _floating(text)
            self._refuse(node, path, seen=shown(text), wanted=f"a number of at most {LONGEST_NUMBER} characters")
        return None

    def _refuse(self, node: yaml.Node, path: Path, *, seen: str, wanted: str, stands: bool = False) -> None:
        self.findings.append(Finding(path, f"{seen} on line {node.start_mark.line + 1}", wanted, stands))


def _is_key(node: yaml.ScalarNode) -> bool:
    """Whether a node may be a key: a plain word, or a whole number such as a port, which is read as its text."""
    if node.tag == _INT:
        return _DIGITS.fullmatch(node.value) is not None
    return node.tag == _TEXT and node.value.isprintable()


def _is_core(node: yaml.ScalarNode) -> bool:
    """Whether the text is what its tag says: an explicit tag such as !!int may stand before anything."""
    pattern = _PATTERNS.get(node.tag)
    return pattern is not None and pattern.match(node.value) is not None


def _integer(text: str) -> int:
    return int(text, 0) if text[:2] in {"0o", "0x"} else int(text)


def _floating(text: str) -> float:
    is_word = not any(character.isdigit() for character in text)  # .inf and .nan, which Python writes without the point
    return float(text.replace(".", "") if is_word else text)


# The effective settings as YAML, secrets masked: what `check` prints, and what can be loaded again.


def effective(settings: Settings) -> str:
    """Every setting with the value it has, in the order of the models. Loads back to the same settings."""
    tree = masked(settings.model_dump(by_alias=True))
    text: str = yaml.dump(tree, Dumper=CoreDumper, sort_keys=False, allow_unicode=True, width=120)
    return text
