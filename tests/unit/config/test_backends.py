"""A backend's own defaults lie beneath what the user gives, however it is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from vecsieve.config.backends import DEFAULT_BACKEND, INDEXES, TRAITS, with_defaults
from vecsieve.config.load import load
from vecsieve.config.problems import SettingsError
from vecsieve.config.schema import LimitSettings, Settings, UpstreamSettings
from vecsieve.proxy.cli import app

QDRANT, PINECONE, CHROMA = "http://127.0.0.1:6333", "https://api.pinecone.io", "http://127.0.0.1:8000"
WEAVIATE = "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    ("backend", "url"), [("qdrant", QDRANT), ("pinecone", PINECONE), ("chroma", CHROMA), ("weaviate", WEAVIATE)]
)
def test_check_prints_the_url_that_the_backend_really_gets(
    backend: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VECSIEVE_CONFIG", raising=False)
    file = tmp_path / "settings.yaml"
    file.write_text(f"backend: {backend}\n", encoding="utf-8")
    printed = CliRunner().invoke(app(["check"]), ["check", "--show", "--config", str(file)]).output
    assert f"  url: {url}\n" in printed
    again = tmp_path / "again.yaml"
    again.write_text(printed, encoding="utf-8")
    assert load(file=again, environment={}, flags={}) == load(file=file, environment={}, flags={})


def test_settings_that_name_no_backend_are_qdrants() -> None:
    assert Settings().upstream.url == QDRANT
    assert Settings() == Settings(backend="qdrant")


@pytest.mark.parametrize(
    ("environment", "flags"),
    [({"VECSIEVE_BACKEND": "pinecone"}, {}), ({}, {"backend": "pinecone"})],
)
def test_a_backend_from_the_environment_or_a_flag_brings_its_defaults(
    environment: dict[str, str], flags: dict[str, object]
) -> None:
    settings = load(file=None, environment=environment, flags=flags)
    assert settings.upstream.url == PINECONE
    assert settings.upstream.pool_idle_seconds == 50.0
    assert settings.limits.head_line_bytes == 65_536
    assert settings.limits.keep_alive_seconds > 3600  # longer than the service keeps one


def test_what_is_given_beats_them_member_by_member() -> None:
    flags = {"backend": "pinecone", "upstream.url": "http://127.0.0.1:5080", "limits.in_flight": 7}
    settings = load(file=None, environment={}, flags=flags)
    assert settings.upstream.url == "http://127.0.0.1:5080"
    assert settings.upstream.pool_idle_seconds == 50.0
    assert (settings.limits.in_flight, settings.limits.head_line_bytes) == (7, 65_536)


def test_a_section_that_was_built_stays_as_it_was_built() -> None:
    settings = Settings(backend="pinecone", upstream=UpstreamSettings(), limits=LimitSettings())
    assert settings.upstream == UpstreamSettings()
    assert settings.limits == LimitSettings()


@pytest.mark.parametrize(
    "tree", [None, 3, {}, {"backend": 3}, {"backend": "other"}, {"backend": "qdrant", "upstream": 4}]
)
def test_everything_else_is_left_as_it_is(tree: object) -> None:
    assert with_defaults(tree) is tree


def test_a_wrong_section_is_still_found_wrong() -> None:
    tree = with_defaults({"backend": "pinecone", "limits": 4})
    assert isinstance(tree, dict)
    assert tree["limits"] == 4
    assert tree["upstream"] == {"url": PINECONE, "pool_idle_seconds": 50.0}


def test_the_public_control_plane_may_have_many_workers_and_a_plain_one_with_a_fixed_index_too() -> None:
    plain = {"upstream.url": "http://127.0.0.1:5080", "pinecone.index_host": "http://127.0.0.1:5081"}
    port_settings = {"upstream.url": "http://127.0.0.1:5080", "pinecone.index_ports": {"8101": "http://127.0.0.1:5081"}}
    for changes in ({}, plain, port_settings):
        settings = load(file=None, environment={}, flags={"backend": "pinecone", "workers": 4, **changes})
        assert settings.workers == 4


def test_chromas_own_defaults_hold_and_give_way_like_any() -> None:
    settings = Settings(backend="chroma")
    assert settings.policy.fetch.cap == 100
    assert settings.policy.text_fields[0] == "#document"
    given = {"upstream": {"pool_idle_seconds": 60.0}, "policy": {"fetch": {"cap": 300}, "text_fields": ["body"]}}
    file_like = load(
        file=None,
        environment={},
        flags={"backend": "chroma", "upstream.pool_idle_seconds": 60.0, "policy.fetch.cap": 300},
    )
    assert (file_like.policy.fetch.cap, file_like.policy.fetch.floor) == (300, 24)
    assert file_like.upstream.pool_idle_seconds == 60.0, "only Qdrant closes idle connections that soon"
    tree = with_defaults({"backend": "chroma", **given})
    assert isinstance(tree, dict)
    assert tree["policy"] == given["policy"]


def test_weaviate_has_a_port_of_its_own_for_grpc_because_its_clients_refuse_one_port_for_both() -> None:
    settings = Settings(backend="weaviate")
    assert settings.grpc.upstream == "http://127.0.0.1:50051"
    assert settings.grpc.listen is not None
    assert settings.grpc.listen != settings.listen
    moved = load(file=None, environment={}, flags={"backend": "weaviate", "grpc.upstream": "10.0.0.7:50051"})
    assert (moved.grpc.listen, moved.grpc.upstream) == (settings.grpc.listen, "http://10.0.0.7:50051")


def test_a_row_stands_under_its_own_name_and_the_default_has_one() -> None:
    assert {name: row.name for name, row in TRAITS.items()} == {name: name for name in TRAITS}
    assert DEFAULT_BACKEND in TRAITS
    assert INDEXES in Settings.model_fields


@pytest.mark.parametrize("backend", TRAITS)
def test_the_page_of_a_backend_is_there(backend: str) -> None:
    page = TRAITS[backend].page
    assert page is None or (Path(__file__).parents[3] / "docs" / page).is_file()


@pytest.mark.parametrize("backend", TRAITS)
def test_the_section_of_indexes_holds_for_backends_that_have_them(backend: str) -> None:
    settings = Settings.model_validate({"backend": backend})
    assert settings.indexes is (settings.pinecone if backend == "pinecone" else None)


def test_an_unknown_backend_is_told_those_there_are() -> None:
    with pytest.raises(
        SettingsError,
        match=r"backend.*: wanted qdrant, pinecone, chroma, milvus, weaviate, opensearch or elasticsearch; saw",
    ):
        load(file=None, environment={}, flags={"backend": "qdran"})
