# The single entry for everything. Logic is in Python and in .ci; this file only names it.

PYTHON ?= python3
BIN := .venv/bin
FUZZ_SECONDS ?= 600
CYCLES ?= 1000
# One test at once more than there are processors, because many wait for processes; one after the other with WORKERS=0.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
HYPOTHESIS_SEED ?= $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
FUZZERS := fuzz-decoder fuzz-connection fuzz-decoder091 fuzz-connection091
# Not in `make test`: what comes from other package registries than that of Python.
OTHER_LANGUAGES := tests/console/accessibility.py tests/interop/other_languages.py tests/interop/over_tls.py tests/interop/other_nodes.py tests/interop/amqp091/other_languages.py tests/bench/other_languages.py

.PHONY: run setup wheels sbom deb formula test test-ci test-all check lint types fuzz $(FUZZERS) crash faults soak interop bench bench-two-senders bench-one-sender-one-receiver bench-calls bench-growth pipeline-demo pipeline-bench docs site

run: ## make the environment and start the broker on 127.0.0.1:5672
	@$(PYTHON) .ci/environment.py serve $(if $(filter file,$(origin PYTHON)),fastest)
	@exec $(BIN)/headgate serve --data .headgate

setup: ## make the environment for tests and checks
	@$(PYTHON) .ci/environment.py test

wheels: setup ## the three distributions as wheels and as source, in dist: amqp10, headgate and pyspark-amqp10
	@$(BIN)/python distributions/build.py dist

sbom: setup ## the list of everything that a broker consists of, in CycloneDX's JSON: dist/headgate.cdx.json
	@$(BIN)/python distributions/sbom.py dist/headgate.cdx.json

deb: setup ## a package for Debian and its relatives, for the Python of this environment, in dist
	@$(BIN)/python distributions/debian.py dist

formula: wheels ## a formula for Homebrew, for source distributions below URL, in dist
	@$(BIN)/python distributions/homebrew.py dist $(or $(URL),$(error give URL=https://...)) dist/headgate.rb

test: setup ## the whole test suite
	@$(PYTEST)

test-ci: SEED := $(HYPOTHESIS_SEED)
test-ci: setup ## the same, with clients in Go, JavaScript and C, and with new examples for the property tests
	@echo "property tests search new examples; the same ones again: HYPOTHESIS_SEED=$(SEED) make test-ci"
	@$(PYTEST) --hypothesis-profile=ci --hypothesis-seed=$(SEED) -o "python_files=test_*.py $(OTHER_LANGUAGES)" tests

test-all: setup ## the whole test suite, with many more examples for the property tests
	@$(PYTEST) --hypothesis-profile=long

check: lint types test ## everything that a change must pass

lint: setup ## formatting, rules, import contracts
	@$(BIN)/ruff format --check . && $(BIN)/ruff check .
	@$(BIN)/lint-imports

types: setup
	@$(BIN)/mypy

fuzz: $(FUZZERS) ## feed the decoders, then whole connections, of both protocols with what a coverage-guided fuzzer invents
$(FUZZERS): fuzz-%: setup
	@$(BIN)/python -m tests.fuzz.$* -max_total_time=$(FUZZ_SECONDS)

crash: setup ## kill a broker under load CYCLES times, and right after answers, and see that it kept what it promised
	@$(BIN)/python -m tests.crash.run --cycles $(CYCLES)
	@$(BIN)/python -m tests.crash.answered

faults: setup ## power cuts, failing syncs, a full disk, flipped bits, damaged files and no descriptors left, many thousand times
	@$(BIN)/python -m tests.faults.run
	@$(BIN)/python -m tests.faults.files
	@$(BIN)/python -m tests.hostile.descriptor_limits --runs 20

soak: setup ## an hour of mixed load: nothing lost, and memory, descriptors, threads and files stay flat
	@$(BIN)/python -m tests.soak

interop: setup ## other projects' clients against the broker
	@$(BIN)/python -m pytest -m interop tests $(OTHER_LANGUAGES)

bench: setup ## throughput and latency, beside RabbitMQ where it can be installed
	@$(BIN)/python -m bench.run

bench-two-senders bench-one-sender-one-receiver bench-calls: setup ## one connection beside a slow target: what becomes of it
	@$(BIN)/python -m bench.$(subst -,_,$(@:bench-%=%))
	@$(if $(filter bench-calls,$@),$(BIN)/python -m bench.calls --slow-target)

bench-growth: setup ## whether an operation costs more the more queues, bindings, links or connections there are
	@$(BIN)/python -m bench.growth

pipeline-demo: setup ## a load with a known bottleneck, through flow events and Spark to a report that names it
pipeline-bench: setup ## how fast the pipeline's tables are, beside DuckDB where it is installed, and whether they are right
pipeline-demo pipeline-bench:
	@$(BIN)/python -m pipeline.$(if $(filter %-demo,$@),demo,measure --duckdb --check 1000000)

docs: setup ## the generated pages
	@$(BIN)/python -m core.config config/broker.toml
	@set -e; for one in docs.generate tests.conformance.table tests.conformance.rows tests.conformance.fields; do $(BIN)/python -m $$one; done

site: setup ## the documentation as a site, in build/site, and at http://127.0.0.1:8000 until Ctrl-C
	@$(BIN)/python -m docs.site --serve
