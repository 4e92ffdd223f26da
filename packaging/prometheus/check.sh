#!/bin/bash
# Checks the metrics, the alert rules, their tests, the example of a scrape and the dashboard. `make test` runs it. The
# last line is that of a test program, so that tests/run.sh can add it up: it counts the tests of promtool and the
# checks.
set -euo pipefail

cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
promtool=$(command -v promtool || echo "$target/tools/promtool")
[ -x "$promtool" ] || {
    echo "promtool is missing. Run: make promtool" >&2
    exit 1
}
rules=packaging/prometheus/etcd-agent.rules.yml
tests=packaging/prometheus/etcd-agent.rules.test.yml
scrape=packaging/prometheus/scrape.example.yml
dashboard=packaging/grafana/etcd-agent.json
# What an agent exposes that knows everything, and one that has just started, as the unit tests keep it.
snapshots=src/telemetry/metrics/snapshots/etcd_agent__telemetry__metrics__tests
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# check COUNT WHAT COMMAND...: the command passes COUNT tests, or it fails and its output is shown.
check() {
    local count=$1 what=$2
    shift 2
    if "$@" >"$work/out" 2>&1; then
        echo "test $what ... ok"
        passed=$((passed + count))
    else
        echo "test $what ... FAILED"
        cat "$work/out"
        failed=$((failed + 1))
    fi
}

# The exposition in a snapshot, without the header that insta writes.
exposition() { sed '1,/^---$/d' "${snapshots}__$1.snap"; }

# The names of the metrics in it.
exposed() { exposition "$1" | sed -n 's/^# TYPE \([^ ]*\) .*/\1/p' | sort; }

# promtool has no complaint about the metrics.
linted() {
    exposition "$1" >"$work/$1.prom"
    grep -q '^etcd_agent_up{' "$work/$1.prom" || {
        echo "${snapshots}__$1.snap has no metrics: is this script outdated?"
        return 1
    }
    local complaints
    complaints=$("$promtool" check metrics <"$work/$1.prom" 2>&1) && [ -z "$complaints" ] || {
        echo "promtool refuses the metrics: $complaints"
        return 1
    }
}

# An agent that knows everything exposes what one exposes that has just started.
complete() {
    local missing
    missing=$(comm -13 <(exposed full) <(exposed just_started))
    [ -z "$missing" ] || {
        echo "the snapshot of an agent that knows everything lacks $missing"
        return 1
    }
}

# Prints each name that no agent exposes, with its file and line.
names() {
    exposed full >"$work/exposed"
    [ "$(wc -l <"$work/exposed")" -gt 50 ] || {
        echo "${snapshots}__full.snap has too few metrics: is this script outdated?"
        return 1
    }
    grep -HnoE '\b(etcd_agent|process)_[a-z_]+' "$@" | awk -F: -v exposed="$work/exposed" '
        BEGIN { while ((getline name <exposed) > 0) known[name] = 1 }
        { used++ }
        !($3 in known) { print $1 ":" $2 ": " $3 " is not exposed"; unknown = 1 }
        END { if (!used) print "no name was found"; exit unknown || !used }'
}

# Each alert fires in a test and is quiet in another one.
tested() {
    awk '
        FNR == NR { if ($2 == "alert:") alerts[$3] = 1; next }
        $2 == "alertname:" { alert = $3 }
        $2 == "alertname:" && !(alert in alerts) { print "a test of " alert ", which is no alert"; bad = 1 }
        $1 == "exp_alerts:" { if ($2 == "[]") quiet[alert] = 1; else fires[alert] = 1 }
        END {
            for (alert in alerts) {
                if (!(alert in fires)) { print "no test in which " alert " fires"; bad = 1 }
                if (!(alert in quiet)) { print "no test in which " alert " is quiet"; bad = 1 }
            }
            exit bad
        }' "$rules" "$tests"
}

# The alerts of the rules and those of the table in docs/operations.md are the same.
documented() {
    diff <(sed -n 's/^ *- alert: //p' "$rules" | sort) \
        <(sed -n 's/^| `\(EtcdAgent[A-Za-z]*\)` |.*/\1/p' docs/operations.md | sort)
}

# Each panel has a title, a description and a unit. Its queries are written as recording rules, which promtool parses.
panels() {
    perl -MJSON::PP -e '
        local $/;
        my $dashboard = decode_json(<STDIN>);
        my ($bad, %ids, @rules) = (0);
        for my $panel (@{$dashboard->{panels}}) {
            my $title = $panel->{title} // "";
            my @lacks = grep { !length($panel->{$_} // "") } $panel->{type} eq "row" ? "title" : qw(title description);
            push @lacks, "an id of its own" if $ids{$panel->{id}}++;
            if ($panel->{type} ne "row") {
                push @lacks, "unit" if !length($panel->{fieldConfig}{defaults}{unit} // "");
                push @lacks, "queries" if !@{$panel->{targets} // []};
            }
            $bad = 1, print STDERR "panel $panel->{id} \"$title\" lacks @lacks\n" if @lacks;
            for my $target (@{$panel->{targets} // []}) {
                my $expr = $target->{expr};
                $expr =~ s/\$__rate_interval/5m/g;
                $expr =~ s/\$cluster/prod/g;
                $bad = 1, print STDERR "panel \"$title\" has a variable that is not defined: $expr\n" if $expr =~ /\$/;
                push @rules, {record => "panel:query", expr => $expr, labels => {query => "$title " . scalar @rules}};
            }
        }
        print encode_json({groups => [{name => "dashboard", rules => \@rules}]});
        exit $bad;' <"$dashboard" >"$work/queries.yml"
    "$promtool" check rules "$work/queries.yml"
}

check 1 "promtool accepts the metrics of an agent that knows everything" linted full
check 1 "promtool accepts the metrics of an agent that has just started" linted just_started
check 1 "an agent that knows everything has all metrics" complete
check 1 "the rules are valid" "$promtool" check rules "$rules"
check "$(grep -c ' alertname: ' "$tests")" "the rules fire and are quiet as expected" "$promtool" test rules "$tests"
check 1 "each alert fires in a test and is quiet in another" tested
check 1 "the table in docs/operations.md has each alert" documented
check 1 "the example of a scrape is valid" "$promtool" check config "$scrape"
check 1 "the dashboard is complete and its queries are valid" panels
for file in "$rules" "$tests" "$dashboard"; do
    check 1 "$file names exposed metrics only" names "$file"
done
check 1 "docs name exposed metrics only" names docs/*.md

result=ok
[ "$failed" = 0 ] || result=FAILED
echo
echo "test result: $result. $passed passed; $failed failed; 0 ignored; 0 measured; 0 filtered out"
[ "$failed" = 0 ]
