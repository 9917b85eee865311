# Sallyport. `make` lists what there is.
SHELL := /bin/bash
.DEFAULT_GOAL := help

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
STATIC   := -tags netgo,osusergo -ldflags '-s -w -X main.version=$(VERSION) -linkmode external -extldflags "-static"'
APT      := libseccomp-dev pkg-config gcc git
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

.PHONY: deps
deps: ## install what the build needs and the machine lacks (Debian, Ubuntu)
	@if pkg-config --exists libseccomp 2>/dev/null && command -v gcc >/dev/null && command -v git >/dev/null; then exit 0; fi; \
	echo "installing $(APT): libseccomp compiles the sandbox's system-call filter, gcc links it, git is driven by the tools"; \
	sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	$$sudo apt-get update -qq && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(APT) >/dev/null

.PHONY: build
build: deps ## build both programs, static, into bin/
	@mkdir -p bin
	@CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/sallyport-cell ./cmd/sallyport-cell
	@CGO_ENABLED=1 go build -trimpath $(STATIC) -o bin/sallyport ./cmd/sallyport

IMAGE ?= build/sallyport.oci.tar

.PHONY: image
image: build ## the container image, from scratch, into build/sallyport.oci.tar (buildah; no registry)
	@docs/image/build.sh $(IMAGE) $(VERSION)

.PHONY: run
run: build ## install what is missing, build and serve
	@bin/sallyport serve

.PHONY: demo
demo: build ## a scripted agent works in a real repository through the gate
	@go run ./cmd/sallyport-demo

.PHONY: test
test: deps ## every test that fits in ten minutes
	@go test -timeout 20m ./...

.PHONY: test-race
test-race: deps ## the same with the race detector
	@go test -race -timeout 40m ./...

.PHONY: test-long
test-long: deps ## the tests that take longer (kill -9 by the hundred, power loss, fuzzing)
	@SALLYPORT_TEST_LONG=1 go test -timeout 60m ./...

.PHONY: e2e
e2e: deps ## real MCP clients from npm (Claude Code, Inspector, TypeScript SDK), offline, against the real programs
	@SALLYPORT_E2E=1 go test -count=1 -timeout 30m -run '^TestHosts' -v ./cmd/sallyport

.PHONY: test-vm
test-vm: deps ## the cell's tests on Debian's kernel in QEMU: cgroup v2, an old Landlock, root and not
	@sandbox/vmtest_run.sh

.PHONY: containment
containment: deps ## hostile commands for real, in cells in QEMU; CORPORA=dir of dangerous-*.jsonl, N=40 a sample
	@N=$(N) sandbox/containment_run.sh $(CORPORA)

.PHONY: lint
lint: deps ## formatting, go vet, staticcheck
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not gofmt-clean:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	@go vet ./...
	@go run $(STATICCHECK) ./...

.PHONY: cover
cover: deps ## coverage of every package, in build/cover.html
	@mkdir -p build
	@go test -timeout 30m -coverpkg=./... -coverprofile=build/cover.out ./... >/dev/null
	@go tool cover -html=build/cover.out -o build/cover.html
	@go tool cover -func=build/cover.out | tail -1

.PHONY: bench
bench: build ## measure side by side with peers; a table, and build/bench.json
	@mkdir -p build && rm -f build/bench.ndjson
	@BENCH_JSON=$(CURDIR)/build/bench.ndjson go test -p 1 -run '^$$' -bench . -benchtime 1x -timeout 30m ./... >build/bench.log 2>&1 || { tail -30 build/bench.log; exit 1; }
	@{ echo '['; sed '$$!s/$$/,/' build/bench.ndjson; echo ']'; } >build/bench.json
	@awk 'function get(k,  s) { if (!match($$0, "\"" k "\":(\"[^\"]*\"|[-+.0-9eE]+)")) return "";\
	    s = substr($$0, RSTART + length(k) + 3, RLENGTH - length(k) - 3); gsub("\"", "", s); return s }\
	  BEGIN { printf "%-50s %10s %10s %-8s %7s  %s\n", "what", "ours", "peer", "unit", "ratio", "peer is" }\
	  { printf "%-50.50s %10.4g %10s %-8s %7s  %s\n", get("name"), get("ours"), get("peer") == "" ? "" : sprintf("%.4g", get("peer")), get("unit"),\
	    get("ratio") == "" ? "" : sprintf("%.2fx", get("ratio")), get("peer_name") }' build/bench.ndjson

.PHONY: conformance
conformance: build ## the MCP conformance suite (npm) against the real transports
	@.ci/conformance

.PHONY: score
score: build ## detection per class of evasion; with CORPORA=dir also tiers and verdicts of its *.jsonl
	@go test ./policy/inspect -count=1 -run 'TestEvasions$$|TestFourPatterns' -v | grep -E 'cases:|^ok|^FAIL'
	@for f in $(CORPORA:%=%/*.jsonl); do echo "$$f"; bin/sallyport policy score $$f | sed -n '1,8p'; done

.PHONY: soak
soak: deps ## 30,000 open sessions and 64 busy agents, on loopback, with figures
	@SALLYPORT_TEST_LONG=1 go test ./mcpserver -v -run 'HalfOpen|MemoryReturns' -bench 'SessionMemory|BusyAgents' -benchtime 1x -timeout 20m

.PHONY: clean
clean: ## remove what was built
	@rm -rf bin build
