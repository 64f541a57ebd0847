from __future__ import annotations

import json

import pytest

from vecsieve.adapters.chroma.request import ChromaNames
from vecsieve.adapters.contract import Operation, RequestHead
from vecsieve.proxy.search.collections.learned import Names
from vecsieve.proxy.telemetry.labels import Named

DATABASE = "/api/v2/tenants/t/databases/d"
LIST = RequestHead(method="GET", path=f"{DATABASE}/collections")


def identifier(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def searched(number: int) -> Operation:
    return Operation(backend="chroma", name="query", collection=f"t/d/{identifier(number)}", id=identifier(number))


def documents(*named: tuple[int, str]) -> bytes:
    return json.dumps(
        [{"id": identifier(number), "name": name, "tenant": "t", "database": "d"} for number, name in named]
    ).encode()


class Counted:
    def __init__(self, entries: int = 10) -> None:
        self.heard: list[Named] = []
        self.names = Names(ChromaNames(), self.heard.append, entries=entries)

    def hear(self, body: bytes, head: RequestHead = LIST) -> None:
        with self.names.passing(head) as learn:
            assert learn is not None
            learn(body)

    def pass_by(self, method: str, path: str) -> None:
        with self.names.passing(RequestHead(method=method, path=path)) as learn:
            assert learn is None

    def ruled_by(self, number: int) -> str:
        return self.names.known(searched(number))[1]


def test_until_a_name_is_known_what_stands_before_it_rules_and_that_is_counted() -> None:
    counted = Counted()
    assert counted.names.known(searched(1)) == (searched(1), "t/d/")
    assert counted.heard == [Named.UNKNOWN]
    counted.hear(documents((1, "docs")))
    operation, ruled_by = counted.names.known(searched(1))
    assert (operation.collection, operation.id, ruled_by) == ("t/d/docs", identifier(1), "t/d/docs")
    assert counted.heard == [Named.UNKNOWN, Named.KNOWN]


def test_a_backend_whose_paths_say_names_has_nothing_to_learn() -> None:
    heard: list[Named] = []
    names = Names(None, heard.append)
    operation = Operation(backend="qdrant", name="query", collection="docs")
    assert names.known(operation) == (operation, "docs")
    with names.passing(LIST) as learn:
        assert learn is None
    assert not heard


def test_only_answers_that_describe_collections_are_heard() -> None:
    counted = Counted()
    counted.pass_by("POST", f"{DATABASE}/collections/{identifier(1)}/add")
    counted.pass_by("GET", "/api/v2/heartbeat")
    assert counted.heard == []


@pytest.mark.parametrize(
    ("method", "path", "left"),
    [
        ("DELETE", f"{DATABASE}/collections/docs", ["t/d/", "t/d/other"]),
        ("PUT", f"{DATABASE}/collections/{identifier(2)}", ["t/d/docs", "t/d/"]),
        ("DELETE", DATABASE, ["t/d/", "t/d/"]),
        ("DELETE", "/api/v2/tenants/t/databases/elsewhere", ["t/d/docs", "t/d/other"]),
        ("POST", "/api/v2/reset", ["t/d/", "t/d/"]),
        ("POST", f"{DATABASE}/collections/{identifier(1)}/delete", ["t/d/docs", "t/d/other"]),
    ],
)
def test_what_is_renamed_or_removed_is_forgotten_and_nothing_else(method: str, path: str, left: list[str]) -> None:
    counted = Counted()
    counted.hear(documents((1, "docs"), (2, "other")))
    counted.pass_by(method, path)
    assert [counted.ruled_by(number) for number in (1, 2)] == left


def test_a_description_that_overtook_a_renaming_is_forgotten_with_it() -> None:
    counted = Counted()
    with counted.names.passing(RequestHead(method="PUT", path=f"{DATABASE}/collections/{identifier(1)}")):
        counted.hear(documents((1, "old")))
    assert counted.ruled_by(1) == "t/d/"


def test_a_renaming_that_fails_on_the_way_is_forgotten_all_the_same() -> None:
    counted = Counted()
    counted.hear(documents((1, "docs")))
    with (
        pytest.raises(ConnectionError),
        counted.names.passing(RequestHead(method="PUT", path=f"{DATABASE}/collections/{identifier(1)}")),
    ):
        raise ConnectionError
    assert counted.ruled_by(1) == "t/d/"


def test_names_are_bounded_and_the_one_used_longest_ago_leaves() -> None:
    counted = Counted(entries=2)
    counted.hear(documents((1, "a"), (2, "b")))
    assert counted.ruled_by(1) == "t/d/a"
    counted.hear(documents((3, "c")))
    assert [counted.ruled_by(number) for number in (1, 2, 3)] == ["t/d/a", "t/d/", "t/d/c"]


def test_a_new_name_replaces_the_old_one() -> None:
    counted = Counted()
    counted.hear(documents((1, "a")))
    counted.hear(documents((1, "b")))
    assert counted.ruled_by(1) == "t/d/b"
