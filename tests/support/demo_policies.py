"""Policies as the demo's proxy resolves them, with one part changed."""

from __future__ import annotations

import dataclasses

from vecsieve.config.policy import PolicySettings, TextSettings
from vecsieve.proxy.search.policy import ResolvedPolicy, resolved
from vecsieve.proxy.selection.policy import Fixed, Policy, Threshold

SHIPPED = resolved(PolicySettings(), mode=None)
ANY_CHANCE = resolved(
    PolicySettings(chance=None), mode=None
)  # for pools of a few dimensions, where little is no chance


def choosing(selection: Policy) -> ResolvedPolicy:
    """The shipped policy, choosing otherwise."""
    return dataclasses.replace(SHIPPED, selection=selection)


def cutting(threshold: Threshold) -> ResolvedPolicy:
    """The shipped policy under another threshold, for pools of a few dimensions, whose texts may be made from one template."""
    policy = ANY_CHANCE.selection
    guards = dataclasses.replace(policy.guards, templates=False)
    return choosing(dataclasses.replace(policy, threshold=threshold, guards=guards))


FIXED = cutting(Fixed(value=0.1))
# The same, with texts compared by containment, which the calibrated rule weighs by itself.
CONTAINING = choosing(
    dataclasses.replace(
        resolved(PolicySettings(text=TextSettings(containment=0.8)), mode=None).selection, threshold=Fixed(value=0.1)
    )
)
