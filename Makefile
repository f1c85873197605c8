# Every target does its own set-up: a fresh machine needs only Python 3.11 with pip, for the hotplug suite
# apt, and for the cluster suite apt and go. What is slow to make is kept outside the clone, in RAILSIDE_CACHE.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3.11
UV_VERSION := 0.13.9
export RAILSIDE_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/railside
UV := $(RAILSIDE_CACHE)/uv-$(UV_VERSION)/bin/uv
BIN := .venv/bin
MACHINE ?= tests/machines/ecs.hpcpni3.45xlarge.machine

.PHONY: help
help: ## say what there is
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(UV):
	$(PYTHON) -m pip install --quiet --root-user-action=ignore --target $(RAILSIDE_CACHE)/uv-$(UV_VERSION) uv==$(UV_VERSION)

.venv/.synced: uv.lock pyproject.toml $(UV)
	$(UV) sync --quiet --locked --all-groups --all-extras --python $(PYTHON)
	touch $@

.PHONY: setup
setup: .venv/.synced ## make the virtual environment in .venv

.PHONY: demo
demo: setup ## play a node without cluster, hardware or root
	$(BIN)/railside demo $(MACHINE)

.PHONY: test
test: lint test-fast test-conformance test-faults test-hotplug test-cluster ## everything that must pass before a change lands

.PHONY: test-fast
test-fast: setup ## what needs neither root nor services, in about 2 minutes on two idle cores
	$(BIN)/python -m pytest tests/unit

.PHONY: test-conformance
test-conformance: setup ## the laws of the kubelet's list, kept by the agent and broken by a naive plugin
	$(BIN)/python -m pytest tests/conformance

.PHONY: test-faults
test-faults: setup ## break the agent line by line: the tests named for each line must turn red
	$(BIN)/python -m tests.faults

.PHONY: test-hotplug
test-hotplug: setup ## HCAs that come and go, played by umockdev (needs root once, to install it)
	tests/hotplug/run

# What differs between releases, and what must not.
ON_NEWER := document life_cycle registrations

.PHONY: test-cluster
test-cluster: setup ## the real Kubernetes programs, in namespaces of their own
	tests/cluster/run
	tests/cluster/run --kubernetes 1.37 $(ON_NEWER:%=tests/cluster/test_%.py)

# Each is one run on a real cluster; what comes by chance, or a hundred times, has its place here.
PROOFS := restarts nearest random_pods harms

.PHONY: proof
proof: $(PROOFS:%=proof-%) proof-bursts ## all that make test runs a share of: proof-restarts, -nearest, -random_pods, -harms, -bursts

.PHONY: $(PROOFS:%=proof-%)
$(PROOFS:%=proof-%): proof-%: setup
	tests/cluster/run tests/cluster/proof_$*.py

.PHONY: proof-bursts
proof-bursts: setup ## bursts of pods that the extender let through, against the embedded kubelet
	$(BIN)/python -m pytest -s tests/unit/extender/proof_bursts.py

.PHONY: cluster
cluster: setup ## the same real cluster for a person, with kubectl ready
	tests/cluster/run --shell

.PHONY: bench
bench: setup ## what is measured, each with its floor, in under 5 minutes
	$(BIN)/python -m benchmarks --profile short

.PHONY: bench-full
bench-full: setup ## the same with more samples and longer rests
	$(BIN)/python -m benchmarks --profile full

.PHONY: bench-doc
bench-doc: setup ## docs/performance.md from the last run
	$(BIN)/python -m benchmarks --document

.PHONY: image
image: setup ## the image, as an OCI layout in build/image (needs root once, and mmdebstrap)
	$(BIN)/python deploy/image/build.py

.PHONY: lint
lint: setup ## format, rules, types, import layers, generated code
	$(BIN)/ruff format --check --quiet
	$(BIN)/ruff check --quiet
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/protos.py --check
	$(UV) lock --check --quiet

.PHONY: format
format: setup ## mend what can be mended by itself
	$(BIN)/ruff format --quiet
	$(BIN)/ruff check --quiet --fix

.PHONY: proto
proto: setup ## generate the kubelet's stubs anew
	$(BIN)/python scripts/protos.py
