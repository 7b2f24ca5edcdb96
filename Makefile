# make claims   verify every claim:  make claims DEVICE=cuda ARGS='-m "not training"'
# make test     the suite's own tests
# make lint     lint, format and types

PYTHON ?= python3
DEVICE ?= cpu
ARGS ?=
BIN := .venv/bin

.PHONY: claims test lint clean

claims: .venv/installed
	$(BIN)/pytest -n auto --device $(DEVICE) $(ARGS)

test: .venv/installed
	$(BIN)/pytest tests -n auto $(ARGS)

lint: .venv/lint-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.venv/installed: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Carousel needs Python 3.11 or newer; name one: make PYTHON=python3.12 …" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.txt
	touch $@

.venv/lint-installed: .venv/installed requirements-lint.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-lint.txt
	touch $@

clean:
	rm -rf .venv reports
