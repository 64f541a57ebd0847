"""How many tokens a text has, by a tiktoken tokenizer or by an estimate, and how many texts fit into a token budget.

The estimate is a quarter of the UTF-8 bytes, rounded up. Tokenizers of language models take 4 to 5 bytes per token in English and 1.5 to 4
in other scripts, so the estimate is rarely too low by more than a fifth for Latin scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from vecsieve.config.problems import Problem, SettingsError, excerpt

BYTES_A_TOKEN = 4
# Characters that are tokenized at once: a million blanks in a row crash tiktoken 0.14 with a panic, and a million letters take 3 s. A token
# across a border counts as two.
PIECE = 50_000

Count = Callable[[str], int]
"""The number of tokens of a text."""


def of_bytes(size: int) -> int:
    """The estimate for a text of this many bytes."""
    return -(-size // BYTES_A_TOKEN)


def estimated(text: str) -> int:
    """A quarter of the text's bytes, rounded up."""
    return of_bytes(len(text.encode("utf-8", "surrogatepass")))


@lru_cache(maxsize=16)
def tokenizer(name: str | None, *, setting: str) -> Count:
    """The counting function; None for the estimate. ``setting``: the name of the setting, for errors.

    Created when settings are loaded, never for a request, because tiktoken may download the vocabulary. Raises SettingsError for a name
    that tiktoken does not know, or a vocabulary that it cannot load.
    """
    if name is None:
        return estimated
    import tiktoken  # an extra; the settings check that it is there

    try:
        encoding = tiktoken.get_encoding(name)
    except ValueError:
        known = ", ".join(tiktoken.list_encoding_names())
        raise SettingsError([Problem(setting, excerpt(name), f"one of {known}")]) from None
    except OSError:
        expected = "a vocabulary that can be loaded: tiktoken reads it from TIKTOKEN_CACHE_DIR or downloads it"
        raise SettingsError([Problem(setting, excerpt(name), expected)]) from None
    return lambda text: sum(len(encoding.encode_ordinary(piece)) for piece in _pieces(text))


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces that a tokenizer can handle."""
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


@dataclass(frozen=True, slots=True)
class TextBudget:
    """``tokens``: bound for the results' texts together; None: no bound. ``paths``: payload keys or dotted paths of the text; the first one
    present is used.
    """

    tokens: int | None = None
    paths: tuple[str, ...] = ()
    count: Count = estimated

    @property
    def is_quick(self) -> bool:
        """Whether counting takes about as long as reading the text."""
        return self.count is estimated


UNLIMITED = TextBudget()


def affordable(costs: Iterable[int], tokens: int) -> int:
    """How many of the first texts fit into ``tokens``, at least one. Costs after that are not computed."""
    spent = taken = 0
    for cost in costs:
        spent += cost
        if taken and spent > tokens:
            break
        taken += 1
    return taken
