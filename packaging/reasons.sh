#!/bin/sh
# Generates the manual page etcd-agent-reasons(7) from the table of reasons in docs/reasons.md.
set -eu

awk '
function text(s) {
    gsub(/^ +| +$/, "", s)
    gsub(/\\/, "\\e", s)
    # Replace each link by its text.
    while (match(s, /\[[^]]*\]\([^)]*\)/)) {
        link = substr(s, RSTART, RLENGTH)
        words = link
        sub(/^\[/, "", words)
        sub(/\]\(.*$/, "", words)
        s = substr(s, 1, RSTART - 1) words substr(s, RSTART + RLENGTH)
    }
    gsub(/\*\*/, "", s)
    gsub(/-/, "\\-", s)
    while (sub(/`/, "\\fB", s) && sub(/`/, "\\fP", s)) {}
    gsub(/…/, "...", s)
    gsub(/"/, "\\(dq", s)
    return s
}
BEGIN {
    FS = " *\\| *"
    print ".\\\" Made from docs/reasons.md by packaging/reasons.sh"
    print ".TH ETCD\\-AGENT\\-REASONS 7 \"\" \"etcd\\-agent\" \"Miscellaneous\""
    print ".SH NAME"
    print "etcd\\-agent\\-reasons \\- the reasons that etcd\\-agent reports, and what to do"
    print ".SH DESCRIPTION"
    print "Each decision of"
    print ".BR etcd\\-agent (8)"
    print "carries reasons: a stable code for programs (also ETCD_AGENT_REASON in the journal) and a line for people."
    print ".B halt"
    print "means: the agent takes no further step until a person acts, and leaves etcd itself as it is."
    print ".SH REASONS"
}
/^\| `[^`]+` \|/ {
    code = $2
    gsub(/`/, "", code)
    gsub(/-/, "\\-", code)
    print ".TP"
    print ".BR " code " \" (" text($3) ")\""
    print "What it means: " text($4) "."
    print ".br"
    print "What to do: " text($5) "."
}
END {
    print ".SH SEE ALSO"
    print ".BR etcd\\-agent (8),"
    print ".BR etcd\\-agent.toml (5)"
}
' "$1"
