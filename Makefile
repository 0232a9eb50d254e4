# make demo and make test do all the set-up themselves, and are quick the second time.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CC ?= cc
CSRC := $(wildcard csrc/*.c)
HEADERS := $(wildcard csrc/*.h csrc/tests/*.h)
CTESTS := $(wildcard csrc/tests/*.c)
CFLAGS ?= -O2 -g
WARNINGS := -std=c11 -Wall -Wextra -Werror -Wpedantic
NATIVE := $(CSRC) $(wildcard csrc/*.h) csrc/native.map dvcrypto/_build_native.py dvcrypto/_native_python.h
PACKAGING := pyproject.toml setup.py MANIFEST.in
WHEEL_PYTHONS ?= $(PYTHON)

ifdef DVCRYPTO_STATIC_PREFIX
LIB_CFLAGS = -I$(DVCRYPTO_STATIC_PREFIX)/include
LIB_LDLIBS = $(DVCRYPTO_STATIC_PREFIX)/lib/libsodium.a $(DVCRYPTO_STATIC_PREFIX)/lib/libcrypto.a -ldl
else
LIB_CFLAGS = $(shell pkg-config --cflags libsodium libcrypto)
LIB_LDLIBS = $(shell pkg-config --libs libsodium libcrypto)
endif

.PHONY: help demo test test-c dropin bench bench-engines wheel wheel-x86_64 wheel-aarch64 sdist lint format clean
.DEFAULT_GOAL := help

help: ## Say what can be made
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

demo: $(VENV)/.ready ## Seal real RTP, send it over loopback, open and check it
	@$(BIN)/dvcrypto demo

test: test-c $(VENV)/.ready ## Run all tests
	@$(BIN)/python -m pytest -n auto --dist worksteal $(PYTEST_ARGS)

test-c: build/test_csrc ## Run the C layer's own tests, without Python
	@build/test_csrc

dropin: $(VENV)/.nox ## Run each library that dvcrypto drops in, end to end; DROPIN_ARGS="-s dropin-disnake" for one
	@$(BIN)/nox $(DROPIN_ARGS)

bench: $(VENV)/.bench ## Benchmarks beside the limit and beside other libraries; BENCH_ARGS=--full, --json, SECTION
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

bench-engines: build/bench_engines ## Measure where the engines of a mode cross
	@build/bench_engines

wheel: $(VENV)/.wheel ## Build the wheel, check it, test it installed; WHEEL_PYTHONS="python3.11 python3.14"
	@PATH="$(CURDIR)/$(BIN):$$PATH" scripts/make_wheel.sh
	@for python in $(WHEEL_PYTHONS); do \
		scripts/test_installed.sh $$python dist/*_$$(uname -m).whl -q -n auto $(PYTEST_ARGS) || exit 1; done

wheel-x86_64 wheel-aarch64: wheel-%: $(VENV)/.cross ## Build, by zig, the wheel of a machine for older Linuxes
	@PATH="$(CURDIR)/$(BIN):$$PATH" scripts/make_wheel.sh $*

sdist: $(VENV)/.wheel ## Build the sdist, and test it built and installed in a clean folder
	@PATH="$(CURDIR)/$(BIN):$$PATH" PYTHON=$(PYTHON) scripts/make_sdist.sh -q -n auto $(PYTEST_ARGS)

lint: $(VENV)/.lint ## Check style, types, workflows, and that the sdist is complete
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/clang-format --dry-run --Werror $(CSRC) $(HEADERS) $(CTESTS) $(wildcard benchmarks/*.c) dvcrypto/_native_python.h
	@$(BIN)/check-sdist --no-isolation
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@$(BIN)/zizmor --offline --quiet .github

format: $(VENV)/.lint ## Format the code
	@$(BIN)/ruff format .
	@$(BIN)/clang-format -i $(CSRC) $(HEADERS) $(CTESTS) $(wildcard benchmarks/*.c) dvcrypto/_native_python.h

clean: ## Remove all that was made
	rm -rf $(VENV) .nox build dist *.egg-info dvcrypto/_native.*so dvcrypto/_native.c
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

# What is linked is part of what was made: another prefix makes it anew.
build/.prefix: always
	@mkdir -p build
	@echo '$(DVCRYPTO_STATIC_PREFIX)' | cmp -s - $@ || echo '$(DVCRYPTO_STATIC_PREFIX)' >$@

.PHONY: always
always:

build/.system: scripts/install_system_packages.sh
	@PYTHON=$(PYTHON) scripts/install_system_packages.sh
	@mkdir -p build && touch $@

build/test_csrc: $(CSRC) $(CTESTS) $(HEADERS) Makefile build/.system build/.prefix
	@$(CC) $(WARNINGS) $(CFLAGS) -Icsrc $(LIB_CFLAGS) $(CSRC) $(CTESTS) $(LIB_LDLIBS) -pthread -o $@

build/bench_engines: $(CSRC) $(HEADERS) benchmarks/engines.c build/.system build/.prefix
	@$(CC) $(WARNINGS) -O2 -Icsrc $(LIB_CFLAGS) $(CSRC) benchmarks/engines.c $(LIB_LDLIBS) -pthread -o $@

$(VENV)/.ready: $(NATIVE) $(PACKAGING) build/.system build/.prefix
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@rm -rf build/temp.* build/lib.* dvcrypto/_native.*so
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install -qq --editable '.[cli]' --group test
	@touch $@

$(VENV)/.bench: $(VENV)/.ready
	@$(BIN)/python -m pip install --quiet --group bench
	@-$(BIN)/python -m pip install --quiet --no-deps discord-native-voice
	@touch $@

$(VENV)/.nox: $(VENV)/.ready
	@$(BIN)/python -m pip install --quiet --group dropin
	@touch $@

$(VENV)/.wheel: $(VENV)/.ready
	@PYTHON=$(PYTHON) scripts/install_system_packages.sh wheel
	@$(BIN)/python -m pip install --quiet --group wheel
	@touch $@

$(VENV)/.cross: $(VENV)/.wheel
	@$(BIN)/python -m pip install --quiet --group cross
	@touch $@

$(VENV)/.lint: $(VENV)/.ready
	@$(BIN)/python -m pip install --quiet --group lint
	@touch $@
