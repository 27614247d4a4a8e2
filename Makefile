# Two commands do all the set-up: `make demo` runs the main job, `make test` passes the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# On Linux the public index alone gives torch with CUDA, which is gigabytes. With the address of
# PyTorch's CPU wheels pip takes the small build of the same version: make demo TORCH_INDEX=ADDRESS
TORCH_INDEX ?=
TORCH_FROM := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

.PHONY: demo test test-slow lint format docs docs-tables wheel-check bench bench-peers clean
.PHONY: reliability reliability-long fuzz licences audit

# Reinstalls only when the dependency lists change; the package itself is an editable install.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(TORCH_FROM) --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

demo: $(READY)
	$(BIN)/graphham demo

# What CI runs: the quick checks first, then the tests, then what a user installs and reads.
test: lint
	$(BIN)/python -m pytest -n 2
	$(MAKE) wheel-check docs

test-slow: $(READY)
	$(BIN)/python -m pytest -n 2 -m slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Sphinx is wanted by those who build the pages only, so it has a stamp of its own.
$(VENV)/.docs-ready: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

docs: $(VENV)/.docs-ready
	$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build/html
	@echo "open docs/_build/html/index.html"

# The wheel without extras in an environment of its own, which is kept in .venv-wheel.
wheel-check: $(READY)
	TORCH_INDEX='$(TORCH_INDEX)' $(BIN)/python scripts/wheel_check.py

# Every table in README.md and docs/ that comes from stored results or from the settings.
docs-tables: $(READY)
	$(BIN)/python scripts/docs_generate.py

# Speed and memory beside the peers, which get environments of their own below .bench-venv; takes
# about an hour, and needs 8 GB in the cache folder (GRAPHHAM_BENCH_CACHE).
bench: $(READY)
	$(BIN)/python -m benchmarks run all
	$(BIN)/python -m benchmarks page

bench-peers: $(READY)
	$(BIN)/python -m benchmarks peers --again

# Faults, flips, kills, fuzzed files and hostile requests: minutes, or with -long hours. Both go on
# where they were stopped and print one table, kept in scripts/reliability.json.
reliability: $(READY)
	$(BIN)/python scripts/reliability.py --mode short

reliability-long: $(READY)
	$(BIN)/python scripts/reliability.py --mode long

# Every reader against mutants that coverage chooses, driven by libFuzzer; goes on for an hour or so
# and takes its place in the table of reliability-long. Linux on x86 has wheels of atheris.
fuzz: $(READY)
	$(BIN)/python -m pip install --quiet atheris
	$(BIN)/python scripts/reliability.py --mode long --suite fuzz

# What we depend on: its licences, and whether weaknesses of it are known.
licences: $(READY)
	$(BIN)/python scripts/licences.py

audit: $(READY)
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/python -m pip_audit --skip-editable

clean:
	rm -rf $(VENV) .venv-wheel docs/_build .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
