# make demo   the whole thing, end to end, on a database of its own
# make test   everything that CI checks
# make build  bin/millrace

SHELL := /bin/bash
.DEFAULT_GOAL := build

# Packages with a target of their own, which unit and race leave out.
APART := millrace/test/sim|millrace/test/plant|millrace/test/e2e|millrace/test/console|millrace/test/otp
UNIT   = $$(go list ./... | grep -vE '^($(APART))(/|$$)')
# Where the race detector has something to find: all that starts goroutines.
RACE   = $$(go list ./actors/... ./supervision/... ./registry/... ./hooks/... ./cmd/... ./test/fake/...)
GOTEST = go test $(JSON) -count=1
STEPS := bin/steps.json
STEP   = bin/tally -log $(STEPS)
QUIET  = $(MAKE) --no-print-directory JSON=-json

.PHONY: build demo test lint unit race sim otp e2e console bench soak steps

build:
	go build -o bin/millrace ./cmd/millrace

# STORE is where the demo's objects go: directory, or s3 for a real S3 server on a bad network.
STORE ?= directory
demo: build
	@scripts/need-postgres
	@[ "$(STORE)" != s3 ] || scripts/need-versitygw
	@go build -o bin/demo ./test/demo
	@bin/demo -millrace bin/millrace -store $(STORE)

lint:
	@"$$(scripts/need-golangci-lint)" run ./...

unit:
	@scripts/need-postgres
	@scripts/need-versitygw >/dev/null
	@$(GOTEST) $(UNIT)

race:
	@scripts/need-postgres
	@scripts/need-versitygw >/dev/null
	@$(GOTEST) -race $(RACE)

sim:
	@$(GOTEST) ./test/sim/... ./test/plant/...

# FOR is how long random programs are compared with Erlang's supervisor, and SEED the
# first of them (0: a random one).
FOR ?= 60s
SEED ?= 0
otp:
	@scripts/need-erlang
	@$(GOTEST) -run Oracle ./supervision
	@$(GOTEST) -timeout 0 ./test/otp -for $(FOR) -seed $(SEED)

e2e: build
	@scripts/need-postgres
	@scripts/need-versitygw >/dev/null
	@$(GOTEST) ./test/e2e/...

# The console in a real browser; its pictures are in bin/console.
console:
	@scripts/need-postgres
	@$(GOTEST) ./test/console/...

# The figures of supervision are medians of so many rounds, with suture and Erlang in each;
# those of uploading of UPLOADS rounds, with a loop of the SDK's PUTs in each. OUTAGE is how
# long the store is down while 1,000 streams wait for it. See docs/benchmarks.md.
ROUNDS ?= 7
UPLOADS ?= 3
OUTAGE ?= 5m
bench:
	@scripts/need-erlang
	@scripts/need-versitygw >/dev/null
	go test -run '^$$' -bench . -benchmem ./core/... ./actors/...
	go test -run '^$$' -bench . -benchtime $(ROUNDS)x ./supervision
	nice go test -run '^$$' -bench Upload -benchtime $(UPLOADS)x -timeout 30m -v ./cmd/millrace
	nice go test -run '^$$' -bench Streams -benchtime 1x -timeout 60m -v ./cmd/millrace -outage $(OUTAGE)

# Whether memory and handles stay flat while 1,000 streams are uploaded, for so long.
soak: FOR = 30m
soak:
	@scripts/need-versitygw >/dev/null
	nice go test -run '^$$' -bench Soak -benchtime 1x -timeout 0 -v ./cmd/millrace -soak $(FOR)

# Every step runs, also after one that failed; the last line says what became of all.
test:
	@mkdir -p bin && rm -f $(STEPS) && go build -o bin/tally ./test/tally
	@-$(STEP) -step 'lint' -budget 3m $(QUIET) lint
	@-$(STEP) -step 'unit and race' -budget 6m $(QUIET) -k unit race
	@-$(STEP) -step 'otp' -budget 2m $(QUIET) otp FOR=20s SEED=1
	@-$(STEP) -step 'simulation' -budget 2m $(QUIET) sim
	@-$(STEP) -step 'end to end' -budget 4m $(QUIET) e2e
	@-$(STEP) -step 'console' -budget 3m $(QUIET) console
	@-$(STEP) -step 'demo' -budget 2m env DEMO_EXIT=1 $(QUIET) demo
	@-$(STEP) -step 'demo on S3' -budget 7m env DEMO_EXIT=1 $(QUIET) demo STORE=s3
	@$(STEP)
