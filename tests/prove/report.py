"""The report: every figure beside its criterion, a table for each section, what is unmet first."""

from __future__ import annotations

from collections.abc import Sequence

from prove.finding import Finding, Section

VERDICT = {True: "yes", False: "**no**", None: "–"}


def report(
    sections: Sequence[Section], *, command: str, commit: str, machine: dict[str, object], seconds: float
) -> str:
    """The whole page in Markdown. ``command``: what repeats the run."""
    findings = [finding for section in sections for finding in section.findings]
    unmet = [finding for finding in findings if finding.met is False]
    unknown = sum(finding.met is None for finding in findings)
    shape = (
        f"{machine['cores']} cores ({machine['processor']}), {machine['system']}, Python {machine['python']}. With a load "
        "average above 1.5 at a section's start its figures of time say more about the neighbours than about the proxy."
    )
    head = [
        "# Proof under load, faults and restarts",
        "",
        f"`{command}`, {seconds:.0f} s on {machine['date']}, commit {commit}.",
        shape,
        "",
        f"{len(unmet)} of {len(findings) - unknown} criteria unmet; {unknown} figures without one, or not run.",
    ]
    tables = [line for section in sections for line in ("", *_section(section))]
    return "\n".join([*head, *(["", "## Unmet", "", *_table(unmet)] if unmet else []), *tables]) + "\n"


def _section(section: Section) -> list[str]:
    summary = f"{section.seconds:.0f} s, load average {section.load_average:.2f} at its start."
    first = sorted(section.findings, key=lambda finding: finding.met is not False)
    return [f"## {section.title}", "", summary, "", *_table(first)]


def _table(findings: Sequence[Finding]) -> list[str]:
    rows = [
        "| " + " | ".join(map(_cell, (f.name, f.what, f.criterion, f.measured))) + f" | {VERDICT[f.met]} |"
        for f in findings
    ]
    return ["| id | what | criterion | measured | met |", "|---|---|---|---|---|", *rows]


def _cell(text: str) -> str:
    """A bar or a line's end within a cell would break the table."""
    return " ".join(text.replace("|", "\\|").split())
