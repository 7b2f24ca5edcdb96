# make claims   verify every claim:  make claims DEVICE=cuda ARGS='-m "not training"'
# make test     the suite's own tests
# make lint     lint, format and types
# make test-adapters   the adapters for other frameworks, which it installs first, and the quick gate for each
# make conventions     measure the conventions of those frameworks' layers, and print them beside what is documented
# make versions        run the gate on several versions of torch, each in an environment of its own, and compare them

PYTHON ?= python3
DEVICE ?= cpu
ARGS ?=
TORCHS ?= 2.8.0 2.13.0 2.15.0
BIN := .venv/bin

.PHONY: claims test lint test-adapters conventions versions clean

claims: .venv/installed
	$(BIN)/pytest -n auto --device $(DEVICE) $(ARGS)

test: .venv/test-installed
	$(BIN)/pytest tests -n auto --ignore-glob='tests/test_adapter*' $(ARGS)

test-adapters: .venv/adapters-installed
	$(BIN)/pytest tests/test_adapter_gates.py tests/test_adapters.py -n auto --maxschedchunk=1 $(ARGS)

conventions: .venv/adapters-installed
	$(BIN)/python -m adapters.conventions $(ARGS)

# A gate that is red does not end it: the comparisons, each version with the next, say what changed.
versions: .venv/installed $(TORCHS:%=.venv/torch-%/installed)
	for torch in $(TORCHS); do \
		.venv/torch-$$torch/bin/pytest -n auto --device $(DEVICE) --report-dir=reports/torch-$$torch $(ARGS); \
	done; \
	base= worse=; \
	for torch in $(TORCHS); do \
		new=reports/torch-$$torch/claims-$(subst :,-,$(DEVICE)).json; \
		if [ "$$base" ]; then echo; $(BIN)/python -m report compare $$base $$new || worse=1; fi; \
		base=$$new; \
	done; \
	[ -z "$$worse" ]

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

.venv/torch-%/installed: requirements.txt
	$(PYTHON) -m venv .venv/torch-$*
	grep --invert-match '^torch==' requirements.txt > .venv/torch-$*/requirements.txt
	.venv/torch-$*/bin/python -m pip install --quiet --disable-pip-version-check \
		--requirement .venv/torch-$*/requirements.txt torch==$*
	touch $@

.venv/lint-installed: .venv/installed requirements-lint.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-lint.txt
	touch $@

.venv/test-installed: .venv/installed requirements-test.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-test.txt
	touch $@

.venv/adapters-installed: .venv/installed requirements-adapters.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--requirement requirements.txt --requirement requirements-adapters.txt
	touch $@

clean:
	rm -rf .venv reports
