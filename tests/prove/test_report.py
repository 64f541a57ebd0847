"""The report tells what is unmet first, section by section; a run takes the sections it is asked for, and a broken one is unmet."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from prove import run
from prove.finding import QUICK, WHOLE, Finding, Scale, Section
from prove.report import report
from prove.run import BESIDE, REPORT, ROOT, SECTIONS, UNTIMED, chosen, commit, proved

MACHINE: dict[str, object] = dict.fromkeys(("date", "cores", "processor", "system", "python"), "x")


def page(*findings: Finding) -> str:
    sections = [Section("L: load", findings, 3.0, 0.5), Section("W: writes", [], 4.0, 2.5)]
    return report(sections, command="python -m tests.prove L", commit="abc", machine=MACHINE, seconds=7.0)


def test_what_is_unmet_comes_before_everything_else_and_first_in_its_own_table() -> None:
    met = Finding("L1", "x", "≤ 1", "0", met=True)
    unmet = Finding("L2", "z", "0", "3", met=False)
    lines = page(met, Finding("L3", "y", "–", "5", met=None), unmet).splitlines()
    assert "1 of 2 criteria unmet; 1 figures without one, or not run." in lines
    rows = [number for number, line in enumerate(lines) if line == "| L2 | z | 0 | 3 | **no** |"]
    assert rows[0] < lines.index("## L: load") < rows[1] < lines.index("| L1 | x | ≤ 1 | 0 | yes |")


def test_the_head_tells_how_long_on_which_commit_and_what_repeats_it() -> None:
    told = page()
    assert "`python -m tests.prove L`, 7 s on x, commit abc." in told
    assert "## W: writes\n\n4 s, load average 2.50 at its start." in told
    assert "## Unmet" not in told


def test_the_report_of_all_sections_is_an_artefact_that_git_ignores() -> None:
    folder = REPORT.relative_to(ROOT).parts[0]
    assert f"/{folder}/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(("arguments", "is_written"), [([], True), (["L"], False)])
def test_a_run_of_all_sections_writes_the_report(
    arguments: list[str], is_written: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def nothing(*_: object) -> list[Section]:
        return []

    monkeypatch.setattr(run, "proved", nothing)
    monkeypatch.setattr(run, "REPORT", tmp_path / "absent" / "proof.md")
    monkeypatch.setattr(sys, "argv", ["prove", *arguments])
    assert run.main() == 0
    assert (tmp_path / "absent" / "proof.md").exists() == is_written


def test_a_cell_cannot_break_its_table() -> None:
    assert "| L1 | a \\| b | c | d e | yes |" in page(Finding("L1", "a | b", "c", "d\ne ", met=True))


@pytest.mark.parametrize(
    ("asked", "expected"), [((), ["F", "F-x", "W"]), (("f",), ["F", "F-x"]), (("F-X", "w"), ["F-x", "W"])]
)
def test_sections_are_chosen_by_the_beginnings_of_their_names(asked: Sequence[str], expected: list[str]) -> None:
    assert list(chosen(asked, {"F": fine, "F-x": fine, "W": fine})) == expected


def test_a_name_of_no_section_is_an_error_that_tells_the_names() -> None:
    with pytest.raises(ValueError, match=f"no section 'x'; there are {', '.join(SECTIONS)}"):
        chosen(["x"])


async def fine(_: Scale) -> list[Finding]:
    return [Finding("A", "a", "a", "a", met=True)]


async def breaks(_: Scale) -> list[Finding]:
    raise OSError("no room")


async def is_cancelled(_: Scale) -> list[Finding]:
    raise asyncio.CancelledError


async def test_a_section_that_breaks_is_unmet_and_the_others_go_on() -> None:
    first, second = await proved(QUICK, {"broken": breaks, "fine": fine})
    assert [(one.met, one.measured) for one in first.findings] == [(False, "OSError('no room')")]
    assert [one.met for one in second.findings] == [True]
    assert second.title == (__doc__ or "").splitlines()[0]


async def test_what_runs_beside_others_has_ended_before_a_section_that_takes_times() -> None:
    story: list[str] = []

    async def soak(_: Scale) -> list[Finding]:
        story.append("soak")
        await asyncio.sleep(0.1)
        story.append("soaked")
        return []

    async def faults(_: Scale) -> list[Finding]:
        await asyncio.sleep(0.02)
        story.append("faults")
        return []

    async def load(_: Scale) -> list[Finding]:
        story.append("load")
        return []

    await proved(QUICK, {"L": load, "soak": soak, "F": faults})
    assert story == ["soak", "faults", "soaked", "load"]
    assert set(SECTIONS) >= BESIDE | UNTIMED


async def test_a_cancelled_run_ends() -> None:
    with pytest.raises(asyncio.CancelledError):
        await proved(QUICK, {"cancelled": is_cancelled, "fine": fine})


def test_the_whole_run_does_at_least_what_the_quick_one_does() -> None:
    for name in Scale.__slots__:
        assert getattr(QUICK, name) <= getattr(WHOLE, name)


def test_the_commit_is_named() -> None:
    assert len(commit().split(" ")[0].rsplit("-g", 1)[-1]) >= 7
