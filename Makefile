# forewarn: `make help` lists what there is. Needs python3 >= 3.11 with venv, and make.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  make %-12s %s\n", $$1, $$2}'

.venv/run: setup.cfg constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) install -c constraints.txt -e '.[webhook,live]'
	touch $@

.venv/dev: .venv/run
	$(PIP) install -c constraints.txt -e '.[webhook,live,dev]'
	touch $@

install: .venv/run ## .venv with the command .venv/bin/forewarn

run: .venv/run ## the webhook and the linter at work on a small sample cluster
	@$(BIN)/forewarn demo

serve: .venv/run ## keep the webhook running on the sample cluster
	$(BIN)/forewarn serve --cluster webhook/sample/cluster.yaml

test: .venv/dev ## every test but the slow and the end-to-end ones
	$(BIN)/python -m pytest -q -n auto -m 'not slow and not e2e'

test-slow: .venv/dev ## minutes of random clusters and objects
	$(BIN)/python -m pytest -q -n auto -m slow

e2e: .venv/dev ## the real control plane, built once (Go from the machine or a wheel); TRUTH=300 for more clusters
	$(BIN)/python tests/e2e/build.py
	$(BIN)/python -m pytest -v -s -m e2e tests/e2e

hostile: .venv/dev ## search for objects that cost too much to judge; MINUTES=60 for longer
	$(BIN)/python tests/hostile/search.py --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(if $(OVER),--over $(OVER))

soak: .venv/dev ## the webhook under load on the real control plane; MINUTES=60 for longer
	$(BIN)/python -m pytest -q -s -m e2e tests/e2e/soak.py

e2e-scale: .venv/dev ## a cluster of 150,000 pods (some 5 minutes, 8 GB); PODS=15000 for fewer
	$(BIN)/python -m pytest -q -s -m e2e tests/e2e/scale.py

bench: .venv/dev ## predictions on large clusters, linting and start-up: minutes; .cache/bench.json
	mkdir -p .cache
	$(BIN)/python tests/benchmarks/bench_preemption.py --json .cache/bench.json
	$(BIN)/python tests/benchmarks/bench_lint.py
	$(BIN)/python tests/benchmarks/bench_startup.py

oracle: ## .cache/oracle, kube-scheduler's own code to compare with (needs Go; see tests/oracle/README.md)
	mkdir -p .cache
	cd tests/oracle && go vet . && go test . && go build -o ../../.cache/oracle .

format: .venv/dev ## rewrite the sources in the one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: .venv/dev ## rewrite what is made from the code: docs/rules.md, the schema, the audit-only manifest
	$(BIN)/python docs/generate.py

check: .venv/dev ## format, lint, types, import contracts, docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check

.PHONY: help install run serve test test-slow e2e hostile soak e2e-scale bench oracle format docs check
