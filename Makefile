# Everything from an empty clone: `make demo` and `make test` set up what they need first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet

.PHONY: help demo test again fast check format bench soak reproduce clean

help:
	@echo "make demo       a building on fire, live: a plain broker and Firelane side by side"
	@echo "make test       all tests (what CI runs); make fast: those under a few seconds each"
	@echo "make check      lint, types, layers;  make format: format the code"
	@echo "make bench      side-by-side benchmarks"
	@echo "make soak       the long checks: kills, floods, fuzzing, the full matrix of prediction against simulation"
	@echo "make reproduce  the papers' figures, full length"

# The package alone, for users; the tools for its developers on top.
$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Firelane needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --constraint constraints.txt --editable .
	@touch $@

$(VENV)/developed: $(VENV)/installed
	$(PIP) install --constraint constraints.txt --editable '.[bench,dev]'
	@touch $@

demo: $(VENV)/installed
	$(BIN)/firelane demo

test: $(VENV)/developed
	tools/system-packages
	$(BIN)/pytest -n 4 --dist loadgroup -m 'not soak' --durations 20 || $(MAKE) again

# Many tests keep to real time, and a machine may be busy with others: what failed must pass alone.
again:
	@echo 'Once more, alone: a test that passes only now is one to look at.'
	$(BIN)/pytest -m 'not soak' --last-failed --last-failed-no-failures none -v

fast: $(VENV)/developed
	$(BIN)/pytest -n 2 --dist loadgroup -m 'not slow and not soak'

check: $(VENV)/developed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/developed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/developed
	tools/system-packages
	$(BIN)/firelane bench

soak: $(VENV)/developed
	tools/system-packages
	$(BIN)/pytest -m soak

reproduce: $(VENV)/developed
	$(BIN)/firelane reproduce firedex
	$(BIN)/firelane reproduce brokers
	$(BIN)/firelane reproduce planemqx
	$(BIN)/firelane reproduce pubsubcoord
	$(BIN)/firelane reproduce rdds

clean:
	rm -rf $(VENV) out firelane-demo.png .pytest_cache .mypy_cache .ruff_cache .hypothesis
