"""Profile files: what is written can be read, what is wrong is named, what was good stays in force."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.jobs.profiles import MEMBERS, profile
from vecsieve.config.problems import SettingsError
from vecsieve.proxy.search.collections.profiles import LARGEST_FILE_BYTES, Profile, Profiles, decoded, encoded


def refusal(tree: object) -> str:
    with pytest.raises(SettingsError) as caught:
        decoded(json.dumps(tree).encode(), name="docs.json")
    return str(caught.value)


def similarity(profiles: Profiles, collection: str, vector_name: str) -> float | None:
    found = profiles.profile(collection, vector_name)
    return None if found is None else found.mean_unrelated_similarity


def put(directory: Path, name: str, made: Profile) -> None:
    """As `vecsieve calibrate` does: a new file renamed into place."""
    fresh = directory / f"{name}.fresh"
    fresh.write_bytes(encoded(made))
    fresh.replace(directory / name)


@given(
    st.text(min_size=1).filter(lambda text: text.isprintable()),
    st.integers(1, 65_536),
    st.floats(-1.0, 1.0),
)
def test_what_is_written_is_read_back(collection: str, dimension: int, similarity: float) -> None:
    """Decoding an encoded profile gives the same profile."""
    made = profile(collection=collection, dimension=dimension, mean_unrelated_similarity=similarity)
    assert decoded(encoded(made), name="x.json") == made


@given(st.binary(max_size=300))
def test_any_bytes_are_a_profile_or_a_clear_refusal(content: bytes) -> None:
    """Reading arbitrary bytes raises SettingsError, nothing else."""
    with pytest.raises(SettingsError, match=r"x\.json"):
        decoded(content, name="x.json")


def test_every_wrong_field_is_told_by_name() -> None:
    said = refusal(
        {
            **MEMBERS,
            "version": 1,
            "pools": "many",
            "dimension": 0,
            "pool_median": {"percentile_1": 0.1, "percentile_50": -1, "percentile_9": 0.3},
            "vector": "",
        }
    )
    assert len(said.splitlines()) == 7
    for place in ("version", "pools", "dimension", "vector", "pool_median.percentile_50"):
        assert f"docs.json: {place}: wanted " in said
    assert "pool_median.percentile_9: wanted a known key (did you mean percentile_99?)" in said


@pytest.mark.parametrize("tree", [[], "text", 3, None])
def test_json_that_is_no_object_is_refused(tree: object) -> None:
    assert "docs.json: wanted a profile" in refusal(tree)


def test_a_directory_is_loaded_and_asked_by_collection_and_vector(tmp_path: Path) -> None:
    put(tmp_path, "a.json", profile(mean_unrelated_similarity=0.1))
    put(tmp_path, "b.json", profile(vector_name="title", mean_unrelated_similarity=0.0))
    (tmp_path / "notes.txt").write_text("no profile")
    profiles = Profiles(tmp_path)
    assert similarity(profiles, "docs", "") is None
    reload = profiles.reload_if_changed()
    assert reload is not None
    assert (reload.profiles, reload.problems) == (2, ())
    assert similarity(profiles, "docs", "") == 0.1
    assert similarity(profiles, "docs", "title") == 0.0
    assert similarity(profiles, "other", "") is None
    assert profiles.profile("docs", "title") == profile(vector_name="title", mean_unrelated_similarity=0.0)


def test_nothing_is_read_again_while_nothing_changed(tmp_path: Path) -> None:
    put(tmp_path, "a.json", profile())
    profiles = Profiles(tmp_path)
    profiles.reload_if_changed()
    assert profiles.reload_if_changed() is None


def test_a_changed_a_new_and_a_removed_file_are_noticed(tmp_path: Path) -> None:
    put(tmp_path, "a.json", profile())
    profiles = Profiles(tmp_path)
    profiles.reload_if_changed()
    put(tmp_path, "a.json", profile(mean_unrelated_similarity=0.2))
    put(tmp_path, "b.json", profile(collection="other"))
    assert profiles.reload_if_changed() is not None
    assert (similarity(profiles, "docs", ""), similarity(profiles, "other", "")) == (0.2, 0.05)
    (tmp_path / "a.json").unlink()
    reload = profiles.reload_if_changed()
    assert reload is not None
    assert reload.profiles == 1
    assert similarity(profiles, "docs", "") is None


def test_a_broken_file_is_reported_and_what_it_said_before_stays(tmp_path: Path) -> None:
    put(tmp_path, "a.json", profile(mean_unrelated_similarity=0.2))
    profiles = Profiles(tmp_path)
    profiles.reload_if_changed()
    (tmp_path / "a.json").write_text('{"cut": ')
    reload = profiles.reload_if_changed()
    assert reload is not None
    assert "a.json" in str(reload.problems[0])
    assert similarity(profiles, "docs", "") == 0.2
    assert profiles.reload_if_changed() is None
    put(tmp_path, "a.json", profile(mean_unrelated_similarity=0.3))
    reload = profiles.reload_if_changed()
    assert reload is not None
    assert reload.problems == ()
    assert similarity(profiles, "docs", "") == 0.3


def test_a_file_broken_from_the_start_leaves_the_others_alone(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xff\xfe")
    (tmp_path / "b.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "c.json").write_bytes(b" " * (LARGEST_FILE_BYTES + 1))
    put(tmp_path, "d.json", profile())
    profiles = Profiles(tmp_path)
    reload = profiles.reload_if_changed()
    assert reload is not None
    assert reload.profiles == 1
    assert [str(problem).split(":")[0].split(",")[0] for problem in reload.problems] == ["a.json", "b.json", "c.json"]


def test_of_two_files_for_one_vector_the_first_by_name_counts(tmp_path: Path) -> None:
    put(tmp_path, "b.json", profile(mean_unrelated_similarity=0.2))
    put(tmp_path, "a.json", profile(mean_unrelated_similarity=0.1))
    profiles = Profiles(tmp_path)
    reload = profiles.reload_if_changed()
    assert reload is not None
    assert "b.json" in str(reload.problems[0])
    assert "a.json" in str(reload.problems[0])
    assert similarity(profiles, "docs", "") == 0.1


def test_a_directory_that_goes_away_changes_no_cut_and_is_reported_once(tmp_path: Path) -> None:
    directory = tmp_path / "profiles"
    profiles = Profiles(directory)
    reload = profiles.reload_if_changed()
    assert reload is not None
    assert "wanted a directory of profiles" in str(reload.problems[0])
    directory.mkdir()
    put(directory, "a.json", profile())
    profiles.reload_if_changed()
    directory.rename(tmp_path / "elsewhere")
    reload = profiles.reload_if_changed()
    assert reload is not None
    assert reload.profiles == 1
    assert similarity(profiles, "docs", "") == 0.05
    assert profiles.reload_if_changed() is None
    (tmp_path / "elsewhere").rename(directory)
    reload = profiles.reload_if_changed()
    assert reload is not None
    assert reload.problems == ()


def test_an_edit_of_the_same_length_within_the_same_second_is_noticed(tmp_path: Path) -> None:
    put(tmp_path, "a.json", profile(mean_unrelated_similarity=0.1))
    profiles = Profiles(tmp_path)
    profiles.reload_if_changed()
    before = (tmp_path / "a.json").stat()
    put(tmp_path, "a.json", profile(mean_unrelated_similarity=0.2))
    os.utime(tmp_path / "a.json", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert profiles.reload_if_changed() is not None
    assert similarity(profiles, "docs", "") == 0.2
