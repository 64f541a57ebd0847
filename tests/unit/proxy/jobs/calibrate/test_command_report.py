"""The report: everything a person needs to decide, and nothing a payload could do to a terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from support.jobs.calibrations import calibration
from vecsieve.config.schema import Settings
from vecsieve.proxy.jobs.calibrate.command import printable, report
from vecsieve.proxy.jobs.calibrate.survey import Findings

NEAR_CUT = 0.062  # noise that spreads a family's members around the cut


def printed(findings: Findings, written: Path | None = None, width: int = 120) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(report(findings, written=written))
    return out.getvalue()


def test_the_report_names_collection_sample_cut_and_density() -> None:
    output = printed(calibration(copies=3))
    assert "docs" in output
    assert "unnamed, 48 dimensions, Cosine" in output
    assert "120 of 120 points, all of them" in output
    assert "Proposed cut 0.1" in output
    assert "the proposed cut" in output
    assert "same vector" in output


def test_pairs_on_both_sides_of_the_cut_are_shown_with_their_texts() -> None:
    found = calibration(copies=6, noise=NEAR_CUT)
    output = printed(found)
    assert len(found.pairs) == 10
    assert output.count("merged") == 5
    assert output.count("kept apart") == 5
    for pair in found.pairs:
        assert f"{pair.distance:.4f}" in output
        assert all(text is not None and text in output for text in pair.texts)


def test_where_no_pair_is_near_the_cut_that_is_said() -> None:
    assert "No two points of any pool are near the cut" in printed(calibration(copies=1))


def test_what_becomes_of_a_page_is_told_for_each_choice() -> None:
    output = printed(calibration(copies=3))
    assert "preset vectors, by each pool's own distances" in output
    assert "preset vectors, at the typical distance" in output
    assert "the cut fixed at 0.1" in output


def test_a_missing_text_is_told_with_the_option_that_helps() -> None:
    found = calibration(copies=6, noise=NEAR_CUT, payloads=[{}] * 240)
    assert "--text-field" in printed(found, width=200)


@pytest.mark.parametrize("collection", ["docs", "it's", "a: b", "#1", "x" * 60])
def test_the_settings_to_paste_are_valid_and_fix_the_cut(collection: str) -> None:
    output = printed(calibration(copies=3, collection=collection))
    block = output[output.index("rules:") :]
    settings = Settings.model_validate(yaml.safe_load(block) | {"rules": tuple(yaml.safe_load(block)["rules"])})
    assert settings.rules[0].collection == collection
    assert "fixed" in str(settings.rules[0].policy)


def test_a_written_profile_is_told_with_the_settings_that_load_it(tmp_path: Path) -> None:
    output = printed(calibration(copies=3), tmp_path / "docs.json", width=300)
    assert f"directory: {tmp_path}" in output
    assert "No profile was written" not in output


@given(st.text(max_size=200))
def test_whatever_a_payload_holds_no_control_character_is_printed(text: str) -> None:
    """Texts keep their length and lose what a terminal would obey."""
    shown = printable(text)
    assert len(shown) == len(text)
    assert shown.isprintable()


def test_markup_in_texts_and_names_is_shown_as_it_is() -> None:
    payloads = [{"text": f"[red]text[/red] {row} \x1b[31m"} for row in range(240)]
    output = printed(calibration(copies=6, noise=NEAR_CUT, payloads=payloads, collection="[bold]x"))
    assert "[red]text[/red]" in output
    assert "[bold]x" in output
    assert "\x1b" not in output


def test_the_report_fits_its_width() -> None:
    assert max(len(line) for line in printed(calibration(copies=6, noise=NEAR_CUT), width=100).splitlines()) <= 100
