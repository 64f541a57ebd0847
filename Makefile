# One command per chore. `make demo` and `make test` set up what they need in .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check bench format clean

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

demo: .venv/.installed
	$(BIN)/vecsieve demo

test: .venv/.installed
	$(BIN)/python -m pytest

check: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_house.py

bench: .venv/.installed
	$(BIN)/python -m tests.bench

format: .venv/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .bench
