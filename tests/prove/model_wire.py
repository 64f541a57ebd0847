"""What databases of the write gate's model have in common: points, requests, and the changes of an answer.

A point is its id, a text, a number that is no part of the text, and the axis of its vector: so much every database can say in its own words.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

SIZE = 4
TEXTS = [f"{word} is the text of this point" for word in ("alpha", "bravo", "delta")]
COLLECTION = "00000000-0000-0000-0000-00000000000c"


@dataclass(frozen=True, slots=True)
class Point:
    id: int
    text: str
    number: int
    axis: int

    @property
    def vector(self) -> list[float]:
        return spread(self.axis)


class Request(NamedTuple):
    """``is_waited``: False where the database answers before it has done it."""

    method: str
    target: str
    body: bytes
    is_waited: bool = True

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


Points = dict[int, Point]
Apply = Callable[[Points], None]
Answer = bytes | tuple[bytes, Apply]
"""What a read answers; of a write also what it does."""


class Wire(ABC):
    """One database over REST. ``lags``: whether reads show a write a second later, ``searches_lag``: whether searches do. ``waits``: whether clients may
    go on before a write is done. ``failing``: the ids that the next write fails to store, where a success can say so; of a database that says it of the whole write, any.
    """

    name = ""
    lags = False
    searches_lag = False
    waits = False
    is_partial = True
    is_comparing = False
    host = ""
    failing: Collection[int] = ()

    @abstractmethod
    def upsert(self, points: Sequence[Point], *, waits: bool) -> Request: ...

    @abstractmethod
    def delete(self, ids: Sequence[int]) -> Request: ...

    @abstractmethod
    def delete_where(self, number: int) -> Request: ...

    def unwaited(self, request: Request) -> Request:
        """The same without waiting, where the database knows that."""
        return request

    @abstractmethod
    def recreate(self) -> Request:
        """Deletes all. It is made anew beside the gate, which such a request does not concern."""

    def change(self, id_: int, member: str, value: Any) -> Request:
        """A partial update of one member of a point, where ``is_partial``."""
        raise AssertionError(f"{self.name} has no partial updates")

    @abstractmethod
    def answer(self, request: Request, points: Points) -> Answer: ...

    @abstractmethod
    def single(self, point: Point) -> bytes:
        """As the journal has it of the database."""

    @abstractmethod
    def read(self, single: Any) -> Point:
        """Of such a point."""

    def is_refusal(self, body: bytes) -> bool:
        """Whether a success refuses the whole write."""
        return False

    def acknowledged(self, points: Mapping[int, Point], body: bytes) -> Mapping[int, Point]:
        """What a client takes for stored, by its answer."""
        return {} if self.is_refusal(body) else points

    def is_deletion(self, request: Request) -> bool:
        return request.method == "DELETE" or request.path.endswith("/delete")

    def is_search(self, request: Request) -> bool:
        return request.path.endswith("/_msearch")

    def compares(self, seen: Points, now: Points) -> bool:
        """Whether a removal of points that were seen so takes no change with it. One by ids alone takes any, one that compares payloads those of vectors."""
        if self.is_comparing:
            return all(now.get(identifier, point).axis == point.axis for identifier, point in seen.items())
        return all(now.get(identifier, point) == point for identifier, point in seen.items())

    def id_of(self, identifier: bytes) -> int:
        """Of an id in the journal."""
        return int(identifier.strip(b'"').lstrip(b"v"))


def near(points: Points, vector: Sequence[float], limit: int) -> list[Point]:
    return [point for point in points.values() if vector[point.axis] >= 0.75][:limit]


def storing(batch: Sequence[Point]) -> Apply:
    return lambda points: points.update({one.id: one for one in batch})


def dropping(is_gone: Callable[[Point], bool]) -> Apply:
    def apply(points: Points) -> None:
        for point in [one for one in points.values() if is_gone(one)]:
            del points[point.id]

    return apply


def changing(id_: int, **members: Any) -> Apply:
    def apply(points: Points) -> None:
        if id_ in points:
            points[id_] = replace(points[id_], **members)

    return apply


def spread(axis: int) -> list[float]:
    return [float(place == axis) for place in range(SIZE)]


def fields_of(member: str, value: Any) -> dict[str, Any]:
    """A member of the payload."""
    return {{"number": "n"}.get(member, member): value}


def changed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a point, from those of a payload."""
    return {{"n": "number"}.get(name, name): value for name, value in fields.items()}


def plain(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def axis_of(vector: Sequence[float]) -> int:
    return max(range(SIZE), key=lambda axis: vector[axis])
