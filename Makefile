# make demo and make test do all the set-up themselves, and are quick the second time.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CC ?= cc
CSRC := $(wildcard csrc/*.c)
HEADERS := $(wildcard csrc/*.h csrc/tests/*.h)
CTESTS := $(wildcard csrc/tests/*.c)
CTESTS_APART := $(wildcard csrc/tests/*/*.[ch])
CFLAGS ?= -O2 -g
MINUTES ?= 10
CTESTS_IN_FRONT := -include csrc/tests/faulty.h
WARNINGS := -std=c11 -Wall -Wextra -Werror -Wpedantic
FUZZ_HEADERS := $(wildcard tests/fuzz/*.h)
FUZZ_TARGETS := $(patsubst tests/fuzz/targets/%.c,%,$(wildcard tests/fuzz/targets/*.c))
FUZZ_CC ?= clang
FUZZ_CFLAGS := -O1 -g -DFUZZ_ASAN -fsanitize=address,undefined -fno-sanitize-recover=all
SECONDS ?= 60
FORMATTED = $(CSRC) $(HEADERS) $(CTESTS) $(CTESTS_APART) $(wildcard benchmarks/*.c tests/fuzz/*.[ch] tests/fuzz/targets/*.c) dvcrypto/_native_python.h
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

.PHONY: help demo test test-c guard constant-time asan tsan valgrind soak dropin coverage mutation fuzz bench bench-engines docs
.PHONY: wheel wheel-x86_64 wheel-aarch64 sdist lint format clean
.DEFAULT_GOAL := help

help: ## Say what can be made
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

demo: $(VENV)/.ready ## Seal real RTP, send it over loopback, open and check it
	@$(BIN)/dvcrypto demo

test: test-c $(VENV)/.ready ## Run all tests
	@$(BIN)/python -m pytest -n auto --dist worksteal $(PYTEST_ARGS)

test-c: build/test_csrc $(FUZZ_TARGETS:%=build/replay/%) ## Run the C layer's own tests, without Python
	@build/test_csrc
	@$(foreach target,$(FUZZ_TARGETS),build/replay/$(target) tests/fuzz/corpus/$(target)/* &&) true

soak: $(VENV)/.ready ## 1,000 sealers and openers at work in threads for MINUTES=10; SOAK_ARGS=--json
	@$(BIN)/python tests/soak.py --minutes $(MINUTES) $(SOAK_ARGS)

guard: build/test_csrc ## Of the C tests, those with every input and output between pages that may not be touched
	@build/test_csrc 1 guard

constant-time: build/constant_time ## No branch and no address in the C layer depends on a key or a payload
	@valgrind --quiet --error-exitcode=9 --suppressions=csrc/tests/constant_time/library.supp $<

asan: $(VENV)/.ready ## All tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@scripts/sanitize.sh asan

tsan: $(VENV)/.ready ## The C tests, and Python's tests of threads, under ThreadSanitizer
	@scripts/sanitize.sh tsan

valgrind: build/test_csrc build/.valgrind $(VENV)/.ready ## The C tests, and some of Python's, under valgrind
	@scripts/valgrind.sh

dropin: $(VENV)/.nox ## Run each library that dvcrypto drops in, end to end; DROPIN_ARGS="-s dropin-disnake" for one
	@$(BIN)/nox $(DROPIN_ARGS)

coverage: $(VENV)/.coverage ## Lines that the tests run, in C and Python; COVERAGE_ARGS=dropin with the libraries dropped in
	@scripts/coverage.sh $(COVERAGE_ARGS)

mutation: $(VENV)/.ready ## Plant each known fault and see a test catch it; docs/mutation.md anew
	@$(BIN)/python tests/mutation/plant.py --table docs/mutation.md $(MUTATION_ARGS)

fuzz: $(VENV)/.fuzz $(FUZZ_TARGETS:%=build/fuzz/%) ## Give each fuzz target inputs for SECONDS=60; TARGET=name for one
	@$(BIN)/python tests/fuzz/run.py $(SECONDS) $(TARGET)

bench: $(VENV)/.bench ## Benchmarks beside the limit and beside other libraries; BENCH_ARGS=--full, --json, SECTION
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

bench-engines: build/bench_engines ## Measure where the engines of a mode cross
	@build/bench_engines

docs: $(VENV)/.docs ## Build the documentation in build/docs
	@$(BIN)/sphinx-build -E -a -W -n --keep-going -q docs build/docs

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
	@$(BIN)/clang-format --dry-run --Werror $(FORMATTED)
	@$(BIN)/check-sdist --no-isolation
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@$(BIN)/zizmor --offline --quiet .github

format: $(VENV)/.lint ## Format the code
	@$(BIN)/ruff format .
	@$(BIN)/clang-format -i $(FORMATTED)

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

build/.valgrind: build/.system
	@PYTHON=$(PYTHON) scripts/install_system_packages.sh valgrind
	@touch $@

build/test_csrc: $(CSRC) $(CTESTS) $(HEADERS) Makefile build/.system build/.prefix
	@$(CC) $(WARNINGS) $(CFLAGS) $(CTESTS_IN_FRONT) -Icsrc $(LIB_CFLAGS) $(CSRC) $(CTESTS) $(LIB_LDLIBS) -pthread -o $@

build/.system-fuzz: build/.system
	@PYTHON=$(PYTHON) FUZZ_CC=$(FUZZ_CC) scripts/install_system_packages.sh fuzz
	@touch $@

# The fuzz targets, for a fuzzer, and for whatever compiler there is to replay their corpora.
build/fuzz/%: COMPILE = $(FUZZ_CC) $(WARNINGS) $(FUZZ_CFLAGS) -Icsrc -Itests/fuzz $(LIB_CFLAGS)
build/replay/%: COMPILE = $(CC) $(WARNINGS) $(CFLAGS) -Icsrc -Itests/fuzz $(LIB_CFLAGS)

$(CSRC:csrc/%.c=build/fuzz/%.o): build/fuzz/%.o: csrc/%.c $(HEADERS) Makefile build/.system-fuzz build/.prefix
	@mkdir -p $(@D)
	@$(COMPILE) -fsanitize=fuzzer-no-link -c $< -o $@

$(CSRC:csrc/%.c=build/replay/%.o): build/replay/%.o: csrc/%.c $(HEADERS) Makefile build/.system build/.prefix
	@mkdir -p $(@D)
	@$(COMPILE) -c $< -o $@

build/fuzz/%: tests/fuzz/targets/%.c $(FUZZ_HEADERS) $(CSRC:csrc/%.c=build/fuzz/%.o)
	@$(COMPILE) -fsanitize=fuzzer $(filter %.c %.o,$^) $(LIB_LDLIBS) -pthread -o $@

build/replay/%: tests/fuzz/targets/%.c tests/fuzz/replay.c $(FUZZ_HEADERS) $(CSRC:csrc/%.c=build/replay/%.o)
	@$(COMPILE) $(filter %.c %.o,$^) $(LIB_LDLIBS) -pthread -o $@

build/constant_time: $(CSRC) $(HEADERS) $(wildcard csrc/tests/constant_time/*) Makefile build/.valgrind build/.prefix
	@$(CC) $(WARNINGS) -O2 -g -flto -include csrc/tests/constant_time/verdict.h -Icsrc $(LIB_CFLAGS) $(CSRC) \
		csrc/tests/constant_time/constant_time.c $(LIB_LDLIBS) -pthread -o $@

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

$(VENV)/.fuzz: $(VENV)/.ready
	@$(BIN)/python -m pip install --quiet --group fuzz
	@touch $@

$(VENV)/.nox: $(VENV)/.ready
	@PYTHON=$(PYTHON) scripts/install_system_packages.sh dropin
	@$(BIN)/python -m pip install --quiet --group dropin
	@touch $@

$(VENV)/.docs: $(VENV)/.ready
	@$(BIN)/python -m pip install --quiet --group docs
	@touch $@

$(VENV)/.coverage: $(VENV)/.ready
	@$(BIN)/python -m pip install --quiet --group coverage
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
