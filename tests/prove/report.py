"""The report: every figure beside its criterion, met or not, with the date, the commit and the machine's shape."""

from __future__ import annotations

from collections.abc import Sequence

from prove.finding import Finding

VERDICT = {True: "yes", False: "**no**", None: "–"}
NOT_PROVED = (
    "Not in this report: the same over gRPC (its faults are in `tests/faults/test_grpc_*.py`), L2 (the benchmark measures it), the "
    "upstream's rate of reconnects (G4), a full pipe, disk or table of descriptors (G5), tasks and tracemalloc in the soak (L6)."
)


def report(findings: Sequence[Finding], *, kind: str, commit: str, machine: dict[str, object], seconds: float) -> str:
    """The whole page in Markdown."""
    shape = (
        f"{machine['cores']} cores ({machine['processor']}), {machine['system']}, Python {machine['python']}, load average "
        f"{machine['load_average']} at the start: above 1.5 the figures of time say more about the neighbours than about the proxy."
    )
    unmet = [finding for finding in findings if finding.met is False]
    head = [
        "# Proof under load, faults and restarts",
        "",
        f"`make prove`, {kind} run of {seconds:.0f} s, on {machine['date']}, commit {commit}.",
        shape,
        "",
        NOT_PROVED,
        "",
        f"{len(unmet)} of {sum(finding.met is not None for finding in findings)} criteria unmet.",
    ]
    return "\n".join([*head, "", *table(unmet), *(["", "## All", ""] if unmet else []), *table(findings)]) + "\n"


def table(findings: Sequence[Finding]) -> list[str]:
    """Rows, or nothing where there is nothing to show."""
    if not findings:
        return []
    rows = [f"| {f.name} | {f.what} | {f.criterion} | {f.measured.strip()} | {VERDICT[f.met]} |" for f in findings]
    return ["| id | what | criterion | measured | met |", "|---|---|---|---|---|", *rows]
