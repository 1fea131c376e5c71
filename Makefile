# make demo · make test · make bench: all from a clean clone, with nothing but Python >= 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
SOURCES := $(shell find shapecheck codemods compile_backend -name '*.py' -o -name '*.toml') pyproject.toml

.PHONY: demo test lint types unit bench format clean

demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py

test: lint types unit

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/shapecheck lint .

# The installed package, from a folder where the sources do not shadow it.
types: $(VENV)/.installed
	cd $(VENV) && $(BIN)/mypy --strict --config-file= --cache-dir=$(CURDIR)/.mypy_cache -p shapecheck

unit: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --dist worksteal $(PYTEST_ARGS)

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks.start_up
	$(BIN)/python -m benchmarks.contracts
	$(BIN)/python -m benchmarks.lint
	$(BIN)/python -m benchmarks.attention

format: $(VENV)/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The wheel as users get it, not an editable install, so that packaging mistakes fail here.
$(VENV)/.installed: constraints.txt $(SOURCES)
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("shapecheck needs Python >= 3.11: make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	rm -rf build
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(PIP) wheel --no-deps --wheel-dir build/wheel .
	$(PIP) install --constraint constraints.txt "$$(echo build/wheel/*.whl)[torch,dev,real]"
	$(PIP) install --no-deps --force-reinstall build/wheel/*.whl
	touch $@

clean:
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache
