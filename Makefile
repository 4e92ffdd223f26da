# All commands for developers. Needs Debian 12 or newer, root, Rust (rustup) and, for the lab, Go.

N ?= 3
SEEDS ?= 20000
START ?=
RUNS ?= 1000000
TARGET = $(or $(CARGO_TARGET_DIR),target)
LAB = cargo run --quiet --locked --package etcd-agent-lab --bin lab --

.PHONY: machine go promtool monitoring management-tools management package-tools packages lint check test test-matrix \
  genesis sim fuzz robust demo deb rpm arm64 reproducible deny licenses lab lab-down bench

machine: ## the packages that a build needs; `lab prepare` installs the rest
	@command -v cargo >/dev/null || { echo "cargo is missing. Run: curl --proto '=https' --tlsv1.2 -sSf \
	  https://sh.rustup.rs | sh -s -- -y && . ~/.cargo/env" >&2; exit 1; }
	@test -x /usr/bin/protoc -a -e /usr/include/google/protobuf/any.proto -a -x /usr/bin/dh \
	  -a -e /usr/share/build-essential/list || { apt-get update -q && apt-get install -y -q --no-install-recommends \
	  build-essential debhelper libprotobuf-dev protobuf-compiler; }

# Told before minutes of building, not after.
go:
	@command -v go >/dev/null || { echo "go is missing. Run: curl -fsSL \
	  https://go.dev/dl/go1.26.0.linux-$$(dpkg --print-architecture).tar.gz | tar -C /usr/local -xz && \
	  export PATH=\$$PATH:/usr/local/go/bin" >&2; exit 1; }

promtool: ## promtool, in target/tools/ if this machine has none
	@packaging/prometheus/promtool.sh

monitoring: promtool ## check the alert rules, their tests and the dashboard: seconds, and nothing is compiled
	@packaging/prometheus/check.sh

management-tools: ## Ansible, Puppet and their linters, if this machine has none
	@packaging/configuration-management/tools.sh

management: management-tools ## check the Ansible collection and the Puppet module: half a minute, nothing is compiled
	@packaging/configuration-management/check.sh

package-tools: ## lintian, rpmlint and the like, if this machine has none
	@packaging/tools.sh

packages: package-tools ## check what packages are made of: half a minute, nothing is compiled
	@packaging/check.sh

lint: monitoring management packages ## what is checked without compiling

check: machine ## format, clippy and the agent's own tests: what to run before each commit
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --workspace --locked --lib --test layering

test: machine go ## all tests, including those on real systemd hosts; the last line is the sum
	@tests/run.sh

test-matrix: machine go ## each etcd with each S3 server and each damage, where `make test` has a table of pairs
	@$(LAB) prepare
	@test -n "$(ETCD_AGENT_DEB)" || packaging/deb.sh
	@ETCD_AGENT_DEB=$${ETCD_AGENT_DEB:-$$(ls -t $(TARGET)/deb/etcd-agent_*.deb | head -1)} ETCD_AGENT_MATRIX=1 \
	  cargo test --locked --package etcd-agent-lab --test hosts -- auth:: damage:: --test-threads=3

genesis: machine ## check the genesis protocol exhaustively within larger bounds: takes hours and up to 16 GB
	GENESIS_LARGER=1 cargo test --quiet --locked --profile sim --package etcd-agent-genesis-check -- --nocapture --test-threads=2

sim: machine ## SEEDS=1000000 schedules on all cores, from START=seed or a seed derived from the sources; REPLAY=seed prints the history of one
	@cargo run --quiet --locked --profile sim --package etcd-agent-sim --bin sim -- \
	  $(if $(REPLAY),replay $(REPLAY),$(SEEDS) $(START))

fuzz: machine ## RUNS=1000000 inputs to each parser of data from a store (FUZZ="manifest names" for some parsers)
	@tests/fuzz/run.sh $(RUNS) $(FUZZ)

robust: machine go ## etcd's own robustness traffic and validators while the agents work: DURATION=60 SEED=1 OPS=12 HOSTS=5 ETCD=… TRAFFIC=…
	@test -n "$(ETCD_AGENT_DEB)" || packaging/deb.sh
	@ETCD_AGENT_DEB=$${ETCD_AGENT_DEB:-$$(ls -t $(TARGET)/deb/etcd-agent_*.deb | head -1)} $(LAB) robust \
	  $(if $(DURATION),--duration $(DURATION)) $(if $(SEED),--seed $(SEED)) $(if $(OPS),--ops $(OPS)) \
	  $(if $(HOSTS),--hosts $(HOSTS)) $(if $(ETCD),--etcd $(ETCD)) $(if $(TRAFFIC),--traffic $(TRAFFIC))

# Nothing is optimised, and one set of features for the lab and the agent builds their dependencies once. Go and the
# Debian tree are made while the agent compiles.
DEMO = cargo build --locked --profile demo --package etcd-agent-lab --package etcd-agent
demo: machine go ## three hosts: a cluster with mutual TLS, a backup in S3, a lost member healed
	@$(DEMO) --bin lab
	@$(TARGET)/demo/lab prepare demo & lab=$$!; built=0; test -n "$(ETCD_AGENT_DEB)" || { $(DEMO) --bin etcd-agent && \
	  BINARY=$(TARGET)/demo/etcd-agent packaging/deb.sh; } || built=$$?; wait $$lab && exit $$built
	@ETCD_AGENT_DEB=$${ETCD_AGENT_DEB:-$$(ls -t $(TARGET)/deb/etcd-agent_*.deb | head -1)} $(TARGET)/demo/lab demo

deb: machine ## the Debian package, in target/deb/
	@packaging/deb.sh

rpm: machine package-tools ## the RPM, in target/rpm/
	@packaging/rpm.sh

arm64: machine ## the Debian package for arm64, cross-compiled and started under qemu
	@packaging/debian/arm64.sh

reproducible: machine ## build the Debian package twice, in two directories, and compare (PROFILE=demo is quicker)
	@packaging/debian/reproducible.sh

deny: ## licenses, sources, bans and known vulnerabilities of all crates (CHECKS="licenses bans sources" without a network)
	@packaging/licenses/deny.sh $(CHECKS)

licenses: ## packaging/licenses/THIRD-PARTY.txt, with cargo-about: some minutes
	@packaging/licenses/generate.sh

lab: machine go ## boot N hosts that keep running, with the package installed and a cluster formed (N=3)
	@$(LAB) prepare
	@packaging/deb.sh
	$(LAB) up -n $(N) --deb $$(ls -t $(TARGET)/deb/etcd-agent_*.deb | head -1)

lab-down: machine ## end the lab
	$(LAB) down --all

bench: machine go ## compare the agent with the same work by hand; results also in target/bench.json (BENCH="form idle" for some)
	@$(LAB) prepare
	@test -n "$(ETCD_AGENT_DEB)" || packaging/deb.sh
	@ETCD_AGENT_DEB=$${ETCD_AGENT_DEB:-$$(ls -t $(TARGET)/deb/etcd-agent_*.deb | head -1)} \
	  cargo run --quiet --locked --package etcd-agent-lab --bin bench -- $(BENCH)
	@cargo run --quiet --locked --profile sim --package etcd-agent-sim --bin sim -- bench
