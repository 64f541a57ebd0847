"""What the older client sees: run by its own interpreter as ``scenario.py PORT PLAN``; prints one JSON object.

It knows nothing of the project. The plan has collections that are there already, and queries by name.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def plain(result: dict[str, Any]) -> dict[str, Any]:
    """As JSON: arrays as lists, what was included in one order; the server writes it in any."""
    columns = {name: value for name, value in result.items() if name != "data"}
    if columns.get("embeddings") is not None:
        columns["embeddings"] = [[[float(number) for number in row] for row in rows] for rows in columns["embeddings"]]
    return {**columns, "included": sorted(str(getattr(name, "value", name)) for name in columns["included"])}


def main(port: str, plan: dict[str, Any]) -> dict[str, Any]:
    chromadb = import_module("chromadb")
    client = chromadb.HttpClient(
        host="127.0.0.1", port=int(port), settings=chromadb.Settings(anonymized_telemetry=False)
    )
    seen: dict[str, Any] = {}
    for name, query in plan["queries"].items():
        collection = client.get_collection(query["collection"])
        seen[name] = plain(collection.query(**query["query"]))
    return seen


if __name__ == "__main__":
    answers = main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))
    sys.stdout.write(json.dumps(answers))
