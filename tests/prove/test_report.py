"""The report tells what is unmet first, section by section, and a broken section is unmet."""

from __future__ import annotations

from prove.finding import QUICK, WHOLE, Finding, Scale, Section
from prove.report import report
from prove.run import proved

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


async def fine(_: Scale) -> list[Finding]:
    return [Finding("A", "a", "a", "a", met=True)]


async def breaks(_: Scale) -> list[Finding]:
    raise OSError("no room")


async def test_a_section_that_breaks_is_unmet_and_the_others_go_on() -> None:
    first, second = await proved(QUICK, {"broken": breaks, "fine": fine})
    assert [(one.met, one.measured) for one in first.findings] == [(False, "OSError('no room')")]
    assert [one.met for one in second.findings] == [True]
    assert second.title == (__doc__ or "").splitlines()[0]


def test_the_whole_run_does_at_least_what_the_quick_one_does() -> None:
    for name in Scale.__slots__:
        assert getattr(QUICK, name) <= getattr(WHOLE, name)
