""""""

from __future__ import annotations

import pytest
from servers.pinecone.control import from_spec
from servers.pinecone.errors import RefusalError
from servers.pinecone.store import Description, Place, Project, label_of

from support.emulated import SERVERLESS


def described(name: str, protection: str = "disabled") -> Description:
    return from_spec({"name": name, "dimension": 2, "spec": SERVERLESS, "deletion_protection": protection})


def project() -> Project:
    return Project(lambda label: Place(f"{label}.public", f"{label}.private"))


def test_an_index_is_placed_by_its_label() -> None:
    found = project()
    made = found.add(described("movies"))
    assert label_of("movies") == "movies-bef03cb"
    assert (made.host, made.private_host) == ("movies-bef03cb.public", "movies-bef03cb.private")
    assert found.labelled("movies-bef03cb") is made is found.index("movies")
    assert found.labelled("movies") is None


def test_a_name_is_taken_once_until_it_is_free_again() -> None:
    found = project()
    found.add(described("a"))
    with pytest.raises(RefusalError) as caught:
        found.add(described("a"))
    assert caught.value.code.status == 409
    found.remove("a")
    assert found.add(described("a")).namespaces == {}


def test_a_protected_index_stays() -> None:
    found = project()
    found.add(described("a", "enabled"))
    with pytest.raises(RefusalError, match="Deletion protection") as caught:
        found.remove("a")
    assert caught.value.code.status == 403
    assert "a" in found.indexes


def test_an_unknown_index_is_not_found() -> None:
    for act in (project().index, project().remove):
        with pytest.raises(RefusalError) as caught:
            act("none")
        assert caught.value.code.status == 404


def test_made_up_names_avoid_those_in_use() -> None:
    found = project()
    found.add(described("index-1"))
    assert [found.unused_name(), found.unused_name()] == ["index-2", "index-3"]
