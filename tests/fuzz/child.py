"""One target under libFuzzer, in a process of its own: `python -m fuzz.child TARGET FOLDER [libFuzzer's options]`.

Our modules are instrumented as they are imported, so nothing of ours may be imported above.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import atheris


def main() -> None:
    """Write the seeds and the words where libFuzzer looks for them, then fuzz until its time is up."""
    name, folder, *options = sys.argv[1:]
    with atheris.instrument_imports(include=["vecsieve"]):
        made = import_module("fuzz.target").target(name)
    bounded = import_module("fuzz.target").bounded
    corpus = Path(folder) / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, seed in enumerate(made.seeds):
        (corpus / f"seed-{number:04d}").write_bytes(seed)
    words = Path(folder) / "words"
    words.write_text("".join('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in made.words))
    atheris.Setup(
        [sys.argv[0], str(corpus), f"-dict={words}", *options],
        lambda data: bounded(made.check, data),
        internal_libfuzzer=True,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
