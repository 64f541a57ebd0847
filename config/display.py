"""The effective settings as YAML, secrets masked: what `check` prints, and what can be loaded again."""

from __future__ import annotations

import yaml

from vecsieve.config.problems import masked
from vecsieve.config.schema import Settings
from vecsieve.config.yaml_core import CoreDumper


def effective(settings: Settings) -> str:
    """Every setting with the value it has, in the order of the models. Loads back to the same settings."""
    tree = masked(settings.model_dump(by_alias=True))
    text: str = yaml.dump(tree, Dumper=CoreDumper, sort_keys=False, allow_unicode=True, width=120)
    return text
