"""How many tokens a text has: by a tokenizer of tiktoken's that the settings name, else by an estimate.

The estimate is a fourth of the bytes in UTF-8, rounded up. Tokenizers of language models take 4 to 5 bytes of English for a token, and 1.5
to 4 of other scripts, so that the estimate is rarely too low by more than a fifth for Latin scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from vecsieve.config.problems import Problem, SettingsError, shown

BYTES_A_TOKEN = 4
SETTING = "api.tokenizer"
# Characters that are tokenized at once: a million blanks in a row end tiktoken 0.14 with a panic, a million letters take 3 s. A token that
# a border divides counts as two.
PIECE = 50_000


def estimated(text: str) -> int:
    """A fourth of the text's bytes, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_A_TOKEN)


def tokenizer(name: str | None) -> Callable[[str], int]:
    """The function that counts. Raises SettingsError for a name that tiktoken does not know, or whose vocabulary it cannot load."""
    if name is None:
        return estimated
    import tiktoken  # an extra; the settings check that it is there

    try:
        encoding = tiktoken.get_encoding(name)
    except ValueError:
        known = ", ".join(tiktoken.list_encoding_names())
        raise SettingsError([Problem(SETTING, shown(name), f"one of {known}")]) from None
    except OSError:
        wanted = "a vocabulary that can be loaded: tiktoken reads it from TIKTOKEN_CACHE_DIR or downloads it"
        raise SettingsError([Problem(SETTING, shown(name), wanted)]) from None
    return lambda text: sum(len(encoding.encode_ordinary(piece)) for piece in pieces(text))


def pieces(text: str) -> Iterator[str]:
    """The text in pieces that a tokenizer can take."""
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))
