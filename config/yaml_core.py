"""YAML 1.2's core schema: `on` and `off` are words, booleans are only true and false.

PyYAML's own loaders read YAML 1.1, where `mode: off` is a boolean, `22:22` a number and `1:30` ninety. This module builds
dicts, tuples and scalars of the core schema. It bounds depth and size (aliases may multiply), reports every duplicate key
and refuses other tags.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.resolver import Resolver

from .problems import Finding, Path, excerpt, masked, one_line
from .schema import Settings

DEEPEST = 32  # levels; the settings need six
MOST_NODES = 100_000  # after aliases are followed: some 10,000 rules
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
    """``line``, ``column``: from 1; 0 if unknown. ``place``: both in words."""

    def __init__(self, seen: str, *, line: int = 0, column: int = 0) -> None:
        self.place = f"line {line}" if line else ""
        self.place += f", column {column}" if column else ""
        super().__init__(f"{self.place}: {seen}")
        self.line, self.column = line, column
        self.seen = seen


_WIDE_BREAK = re.compile("[\x85\u2028\u2029]")


class CoreDumper(yaml.SafeDumper):
    """Writes YAML that ``read`` reads back unchanged: quotes follow the core schema, without aliases."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own shape

    def ignore_aliases(self, data: object) -> bool:
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Escape line breaks beyond ASCII: PyYAML 6.0.3 writes them bare and reads them back as blanks."""
        style = '"' if _WIDE_BREAK.search(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


CoreDumper.add_representer(str, CoreDumper.represent_str)


class _Bounded(Composer):
    """Composes nodes up to a depth and a number of nodes."""

    _depth = 0
    _nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """With limits: the library recurses without a bound, and takes 15 s for a megabyte of ones."""
        self._depth += 1
        self._nodes += 1
        for count, most, what in ((self._depth, DEEPEST, "levels"), (self._nodes, MOST_NODES, "values")):
            if count > most:
                line = self.peek_event().start_mark.line + 1  # type: ignore[attr-defined]  # - of the parser beside it
                raise NotYamlError(f"more than {most} {what}", line=line)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


Implicit = dict[str, list[tuple[str, re.Pattern[str]]]]


class _CoreLoader(_Bounded, yaml.SafeLoader):
    """With core scalars."""

    yaml_implicit_resolvers: Implicit = {}  # noqa: RUF012 - PyYAML's own shape

    def __init__(self, text: str) -> None:
        yaml.SafeLoader.__init__(self, text)


# libyaml's parser takes a fifth of the time; PyYAML may be built without it. Its messages are others, so what it refuses is read again.
_Parser: Any = yaml.CLoader.__mro__[1] if yaml.__with_libyaml__ else None


class _FastLoader(_Bounded, Resolver, _Parser or object):  # type: ignore[misc]  # - chosen above
    """The same by libyaml."""

    yaml_implicit_resolvers: Implicit = {}  # noqa: RUF012 - PyYAML's own shape

    def __init__(self, text: str) -> None:
        _Parser.__init__(self, text)
        Composer.__init__(self)
        Resolver.__init__(self)


for _tag, _pattern, _first in _CORE:
    for _class in (_CoreLoader, _FastLoader, CoreDumper):
        _class.add_implicit_resolver(_tag, _pattern, _first)


@dataclass(frozen=True, slots=True)
class Document:
    """``value``: dicts, tuples and scalars; None for an invalid value, which has a finding.

    ``lines``: the line of each key and each list item.
    """

    value: object
    findings: tuple[Finding, ...]
    lines: Mapping[Path, int]


def read(text: str) -> Document:
    """The one document in the text, None for an empty text. Raises NotYamlError for a text that is no YAML."""
    node = _composed(text)
    if node is None:
        return Document(None, (), {})
    _measure(node, {}, set())
    builder = _Builder()
    value = builder.value(node, ())
    return Document(value, tuple(builder.findings), builder.lines)


def _composed(text: str) -> yaml.Node | None:
    if _Parser is not None:
        try:
            return _FastLoader(text).get_single_node()
        except NotYamlError:
            raise  # its bounds; reading again would take longest where they are exceeded
        except (yaml.YAMLError, ValueError, OverflowError):
            pass
    try:
        return _CoreLoader(text).get_single_node()
    except yaml.reader.ReaderError as error:
        raise NotYamlError("a control character", line=text.count(chr(10), 0, error.position) + 1) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (0, 0) if mark is None else (mark.line + 1, mark.column + 1)
        fault = _fault(error.problem or error.context or "no YAML")
        raise NotYamlError(fault, line=line, column=column) from error
    except NotYamlError:
        raise
    except (ValueError, OverflowError) as error:
        # PyYAML 6.0.3: chr() and int() fail on escapes such as "\\U00110000" and on %YAML versions.
        raise NotYamlError("an escape or a directive out of range") from error


def _fault(problem: str) -> str:
    """PyYAML's wording, after *saw*."""
    fault = problem.removeprefix("but ").removeprefix("found ")
    return one_line(fault if fault != problem else f"this: {problem}")


def _measure(node: yaml.Node, known: dict[int, tuple[int, int]], above: set[int]) -> tuple[int, int]:
    """Values and levels with every alias followed. Raises NotYamlError if there are too many, or a cycle."""
    key = id(node)
    if key in known:
        return known[key]
    line = node.start_mark.line + 1
    if key in above:
        raise NotYamlError("an alias inside its own anchor", line=line)
    above.add(key)
    below = [_measure(child, known, above) for child in _children(node)]
    above.discard(key)
    nodes = 1 + sum(count for count, _ in below)
    levels = 1 + max((depth for _, depth in below), default=0)
    if nodes > MOST_NODES:
        raise NotYamlError(f"more than {MOST_NODES} values once aliases are followed", line=line)
    if levels > DEEPEST:
        raise NotYamlError(f"more than {DEEPEST} levels once aliases are followed", line=line)
    known[key] = (nodes, levels)
    return known[key]


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


class _Builder:
    """Turns nodes into values and collects findings."""

    __slots__ = ("findings", "lines")

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.lines: dict[Path, int] = {}

    def value(self, node: yaml.Node, path: Path) -> object:
        """The node's value; None if it is invalid."""
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return tuple(self._item(child, (*path, index)) for index, child in enumerate(node.value))
        if isinstance(node, yaml.ScalarNode) and (node.tag == _TEXT or _is_core(node)):
            return self._scalar(node, path)
        self._refuse(node, path, seen=f"the tag {node.tag}", expected="a plain mapping, list or value")
        return None

    def _item(self, node: yaml.Node, path: Path) -> object:
        self.lines[path] = node.start_mark.line + 1
        return self.value(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        built: dict[str, object] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or not _is_key(key_node):
                self._refuse(key_node, path, seen="another key", expected="keys that are plain words")
                continue
            key = key_node.value
            if key in built:
                self._refuse(key_node, (*path, key), seen="it again", expected="the key once", stands=True)
                continue
            self.lines[*path, key] = key_node.start_mark.line + 1
            built[key] = self.value(value_node, (*path, key))
        return built

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> object:
        text: str = node.value
        if node.tag == _TEXT:
            if not any("\ud800" <= character <= "\udfff" for character in text):
                return text
            self._refuse(node, path, seen="half of a surrogate pair", expected="text")
        elif node.tag == _BOOL:
            return text.lower() == "true"
        elif node.tag in {_INT, _FLOAT}:
            if len(text) <= LONGEST_NUMBER:
                return _integer(text) if node.tag == _INT else _floating(text)
            self._refuse(node, path, seen=excerpt(text), expected=f"a number of at most {LONGEST_NUMBER} characters")
        return None

    def _refuse(self, node: yaml.Node, path: Path, *, seen: str, expected: str, stands: bool = False) -> None:
        self.findings.append(Finding(path, seen, expected, stands, line=node.start_mark.line + 1))


def _is_key(node: yaml.ScalarNode) -> bool:
    """Whether a node may be a key: a plain word, or a whole number such as a port, which is read as text."""
    if node.tag == _INT:
        return _DIGITS.fullmatch(node.value) is not None
    return node.tag == _TEXT and node.value.isprintable()


def _is_core(node: yaml.ScalarNode) -> bool:
    """Whether the text matches its tag: an explicit tag such as !!int may precede any text."""
    pattern = _PATTERNS.get(node.tag)
    return pattern is not None and pattern.match(node.value) is not None


def _integer(text: str) -> int:
    return int(text, 0) if text[:2] in {"0o", "0x"} else int(text)


def _floating(text: str) -> float:
    is_word = not any(character.isdigit() for character in text)  # .inf and .nan, which Python writes without the point
    return float(text.replace(".", "") if is_word else text)


def effective(settings: Settings) -> str:
    """Every setting with its value as YAML, secrets masked. Loads back to the same settings."""
    tree = masked(settings.model_dump(by_alias=True))
    text: str = yaml.dump(tree, Dumper=CoreDumper, sort_keys=False, allow_unicode=True, width=120)
    return text
