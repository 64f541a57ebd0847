"""Two settings that are each right and together wrong: what is said of them, and what proves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vecsieve.config.problems import Finding, Path


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A finding, and all the places it depends on: when one of those is wrong itself, the finding proves nothing."""

    finding: Finding
    places: tuple[Path, ...]

    def within(self, at: Path, *, own: Mapping[str, object] | None = None) -> Contradiction:
        """The same for a policy that stands at ``at``.

        ``own``: the members a rule decides itself. The others come from the settings' policy and depend on it too.
        """
        finding = Finding((*at, *self.finding.path), self.finding.seen, self.finding.wanted)
        inherited = [place for place in self.places if own is not None and not _is_given(own, place)]
        here = [(*at, *place) for place in self.places]
        return Contradiction(finding, (*here, *(("policy", *place) for place in inherited)))


def _is_given(tree: Mapping[str, object], place: Path) -> bool:
    """Whether the tree decides what stands at ``place``: by a value there, or by something else above it."""
    below: object = tree
    for part in place:
        if not isinstance(below, Mapping):
            return True
        if part not in below:
            return False
        below = below[str(part)]
    return True


def contradiction(path: Path, seen: str, wanted: str, *others: Path) -> Contradiction:
    """What stands at ``path`` and does not go with the ``others``."""
    return Contradiction(Finding(path, seen, wanted), (path, *others))
