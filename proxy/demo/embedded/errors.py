"""Qdrant's refusals: the status, the text and the prefix its REST interface gives each kind of mistake."""

from __future__ import annotations


class RefusalError(Exception):
    """An answer that is not a result. `is_timed` is False for what Qdrant refuses before it starts its clock."""

    def __init__(self, status: int, message: str, *, is_timed: bool = True) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.is_timed = is_timed


def bad_input(text: str) -> RefusalError:
    """400, the request is well formed and wrong."""
    return RefusalError(400, f"Wrong input: {text}")


def bad_request(text: str) -> RefusalError:
    """400, the request asks for what cannot be asked; strict mode speaks with this prefix too."""
    return RefusalError(400, f"Bad request: {text}")


def not_found(text: str) -> RefusalError:
    """404; `text` is the whole sentence after the prefix."""
    return RefusalError(404, f"Not found: {text}")


def no_collection(name: str) -> RefusalError:
    """404, the sentence clients look for."""
    return not_found(f"Collection `{name}` doesn't exist!")


def conflict(text: str) -> RefusalError:
    """409, the name is taken."""
    return RefusalError(409, f"Wrong input: {text}")


def service_error(text: str) -> RefusalError:
    """500, the engine failed."""
    return RefusalError(500, f"Service internal error: {text}")


def not_served(text: str) -> RefusalError:
    """501 in Qdrant's shape: the real server has this, the embedded one does not."""
    return RefusalError(501, f"Not implemented by the embedded server: {text}")


def bad_format(text: str) -> RefusalError:
    """400 of the JSON parser, before the clock starts."""
    return RefusalError(400, f"Format error in JSON body: {text}", is_timed=False)


def bad_value(field: str, text: str, *, where: str = "JSON body") -> RefusalError:
    """422 of the validator, before the clock starts."""
    return RefusalError(422, f"Validation error in {where}: [{field}: {text}]", is_timed=False)


# Texts of the engine that the server words otherwise.
_REWORDED = {
    "Wrong usage of sparse vectors": "Conversion between sparse and regular vectors failed",
    "Wrong usage of multi vectors": "Conversion between multi and regular vectors failed",
    # Nothing is ever cancelled here: so qdrant-edge-py 0.9.0 shows any error met while computing a formula. The server
    # tells a non-finite number from a variable it cannot use; which of them it was is lost.
    "Operation cancelled: process cancelled by service": (
        "The formula produced a non-finite number, or has a variable that is missing or of another type"
    ),
}
_FAILURES = ("Inconsistent storage", "Storage file not found", "Out of memory", "Operation cancelled")


def from_engine(text: str) -> RefusalError:
    """What Qdrant 1.19 answers for an engine error of this text (`From<OperationError> for CollectionError`)."""
    if text.startswith("No point with id"):
        return not_found(f"{text} found")
    if text.startswith("Service runtime error: "):
        return service_error(text.removeprefix("Service runtime error: "))
    if text in _REWORDED:
        return bad_input(_REWORDED[text])
    return service_error(text) if text.startswith(_FAILURES) else bad_input(text)
