# make claims   verify every claim:  make claims DEVICE=cuda ARGS='-m "not training"'
# make test     the suite's own tests
# make lint     lint, format and types
# make test-adapters   the adapters for other frameworks, which it installs first, and the quick gate for each
# make conventions     measure the conventions of those frameworks' layers, and print them beside what is documented

PYTHON ?= python3
DEVICE ?= cpu
ARGS ?=
BIN := .venv/bin

.PHONY: claims test lint test-adapters conventions clean

claims: .venv/installed
	$(BIN)/pytest -n auto --device $(DEVICE) $(ARGS)

test: .venv/installed
	$(BIN)/pytest tests -n auto --ignore-glob='tests/test_adapter*' $(ARGS)

test-adapters: .venv/adapters-installed
	$(BIN)/pytest tests/test_adapter_gates.py tests/test_adapters.py -n auto --maxschedchunk=1 $(ARGS)

conventions: .venv/adapters-installed
	$(BIN)/python -m adapters.conventions $(ARGS)

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

.venv/adapters-installed: .venv/installed requirements-adapters.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--requirement requirements.txt --requirement requirements-adapters.txt
	touch $@

clean:
	rm -rf .venv reports
