"""The searches of a file, one JSON object a line: ``{"path": "/collections/docs/points/query", "body": {…}}``, as a client sends them.

With --path a line is the body alone. Only ranked searches are taken: any other request might change the database, and is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from vecsieve.adapters.backends import BACKENDS
from vecsieve.adapters.contract import Adapter, RequestHead
from vecsieve.config.problems import Problem, SettingsError, one_line

from ...runtime.files import read_input

JSON = "application/json"
EXPECTED = '{"path": "/…", "body": {…}}'
MOST_PROBLEMS = 20  # a file of another format is wrong in every line


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    body: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Query:
    """``line``: its number in the file, from 1. ``target``: path, perhaps with a query string."""

    line: int
    target: str
    body: bytes


def read_queries(file: Path, backend: str, *, target: str | None) -> tuple[Query, ...]:
    """``target``: of every line; None: each line has its own. Raises SettingsError that names each wrong line, up to twenty."""
    content = read_input(file, expected="a readable file of searches")
    adapter = BACKENDS[backend].rest.adapter()
    queries: list[Query] = []
    problems: list[Problem] = []
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            queries.append(_query(number, line, target, adapter))
        except ValueError as error:
            expected = EXPECTED if target is None else "the body of a search, a JSON object"
            problems.append(
                Problem(f"{file}, line {number}", one_line(str(error)), f"{expected}, a search of {backend}")
            )
    if problems:
        raise SettingsError(problems[:MOST_PROBLEMS])
    if not queries:
        raise SettingsError([Problem(str(file), "no line", "a search a line")])
    return tuple(queries)


def _query(number: int, line: bytes, target: str | None, adapter: Adapter) -> Query:
    """Raises ValueError with the value seen."""
    if target is None:
        read = msgspec.json.decode(line, type=_Line)
        target, body = read.path, bytes(read.body)
    else:
        body = line.strip()
    msgspec.json.decode(body, type=dict[str, msgspec.Raw])  # anything but an object
    path = target.partition("?")[0]
    if not path.startswith("/") or adapter.classify(RequestHead(method="POST", path=path, content_type=JSON)) is None:
        raise ValueError(f"POST {target}, which is no ranked search")
    return Query(number, target, body)
