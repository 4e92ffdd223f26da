# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_etcd_agent_global_optspecs
    string join \n host= color= h/help V/version
end

function __fish_etcd_agent_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_etcd_agent_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_etcd_agent_using_subcommand
    set -l cmd (__fish_etcd_agent_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -s V -l version -d 'Print version'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "run" -d 'Run the daemon (etcd-agent.service does)'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "reload" -d 'Make the agent reread its configuration'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "init" -d 'Make this host a single-node cluster with local backups'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "discard-empty" -d 'Stop the empty etcd that a package started'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "archive" -d 'List or remove data directories that were replaced here'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "status" -d 'Show the cluster\'s health, its nodes, and what it waits for'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "plan" -d 'Show the next action, and why'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "ok-to-stop" -d 'Say whether a node may be stopped now (exit code 0 yes, 4 no)'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "events" -d 'Show what this node\'s agent decided, when and why'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "pause" -d 'Suspend automatic actions on all nodes until `resume`'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "resume" -d 'Resume automatic actions'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "move-leader" -d 'Let another member lead, and wait until it does'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "restart" -d 'Restart etcd on a node, or on all one after the other'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "defrag" -d 'Defragment etcd on a node, or on all one after the other'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "upgrade" -d 'Upgrade etcd on all nodes, one after the other'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "downgrade" -d 'Downgrade etcd on all nodes, one after the other'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "move" -d 'Move the cluster to any other version of etcd'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "reboot-lock" -d 'Take or release the lock that lets hosts reboot one at a time'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "log-level" -d 'Show or set the log level of the running agent'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "alarm" -d 'List or disarm etcd\'s alarms'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "member" -d 'List members, remove one, or allow one again'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "backup" -d 'Take, list, verify and prune backups'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "etcd-manager" -d 'Show or delete what etcd-manager left in the store'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "restore" -d 'Restore a backup as a new epoch on all nodes'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "bootstrap" -d 'Form the first cluster without nodes that do not answer'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "epoch" -d 'Confirm a newer epoch that too few electors are left to confirm'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "spec" -d 'Show or change how many voters are wanted'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "store" -d 'Test what the agent may do in the store'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "render" -d 'Print the settings that etcd is started with on this node'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "config" -d 'Check the configuration, or show the values in force'
complete -c etcd-agent -n "__fish_etcd_agent_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand run" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand run" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reload" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reload" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reload" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reload" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reload" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand init" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand init" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand init" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand init" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand init" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand discard-empty" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand discard-empty" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand discard-empty" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand discard-empty" -l yes -d 'Do not ask for confirmation'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand discard-empty" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and not __fish_seen_subcommand_from list prune help" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and not __fish_seen_subcommand_from list prune help" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and not __fish_seen_subcommand_from list prune help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and not __fish_seen_subcommand_from list prune help" -f -a "list" -d 'List the archived data directories, newest first'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and not __fish_seen_subcommand_from list prune help" -f -a "prune" -d 'Remove archived directories that retention no longer keeps, or named ones'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and not __fish_seen_subcommand_from list prune help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and __fish_seen_subcommand_from list" -l data-dir -d 'The archive next to this former `etcd.data_dir` or `etcd.wal_dir`' -r -F
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and __fish_seen_subcommand_from list" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and __fish_seen_subcommand_from list" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and __fish_seen_subcommand_from list" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and __fish_seen_subcommand_from prune" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and __fish_seen_subcommand_from prune" -l data-dir -d 'The archive next to this former `etcd.data_dir` or `etcd.wal_dir`' -r -F
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and __fish_seen_subcommand_from prune" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and __fish_seen_subcommand_from prune" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and __fish_seen_subcommand_from prune" -l force -d 'Also the newest one, or the newest of its cluster ID'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and __fish_seen_subcommand_from prune" -l yes -d 'Do not ask for confirmation'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and __fish_seen_subcommand_from prune" -l dry-run -d 'Change nothing; show what would happen'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and __fish_seen_subcommand_from prune" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the archived data directories, newest first'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and __fish_seen_subcommand_from help" -f -a "prune" -d 'Remove archived directories that retention no longer keeps, or named ones'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand archive; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand status" -l watch -d 'Look again every SECONDS, until interrupted' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand status" -l clusters -d 'With --all: another file [default: ~/.config/etcd-agent/clusters.toml, /etc/etcd-agent/clusters.toml]' -r -F
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand status" -s o -l output -d 'Output format; wide: with more columns' -r -f -a "table\t'For people'
wide\t'With more columns'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand status" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand status" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand status" -l all -d 'All clusters of clusters.toml, one line each, over ssh'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand plan" -l observation -d 'Plan on a saved observation (or the JSON output of this command) instead of asking the agent; `-` reads standard input' -r -F
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand plan" -l after -d 'Show what would follow from a fault, and which further fault would cost quorum: \'reboot NODE\', \'stop NODE\' or \'lose NODE\'' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand plan" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand plan" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand plan" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand ok-to-stop" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand ok-to-stop" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand ok-to-stop" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand ok-to-stop" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand events" -s n -l lines -d 'The last N [default: 20; with --since: all]' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand events" -l since -d 'Only what was decided since then: "2026-11-27 10:00", 10:00, yesterday, -1h, "1h ago", or RFC 3339' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand events" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand events" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand events" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand events" -l follow -d 'Print new events until interrupted'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand events" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand pause" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand pause" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand pause" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand pause" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand pause" -l wait -d 'Wait until every reachable agent has adopted it, and name the silent ones'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand pause" -l dry-run -d 'Change nothing; show what would happen'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand pause" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand resume" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand resume" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand resume" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand resume" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand resume" -l wait -d 'Wait until every reachable agent has adopted it, and name the silent ones'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand resume" -l dry-run -d 'Change nothing; show what would happen'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand resume" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand move-leader" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand move-leader" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand move-leader" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand move-leader" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand move-leader" -l dry-run -d 'Change nothing; show what would happen'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand move-leader" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restart" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restart" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restart" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restart" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restart" -l rolling -d 'On every node that has a member, one after the other'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restart" -l cancel -d 'Cancel the remaining part of an earlier order'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restart" -l yes -d 'Do not ask for confirmation'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restart" -l dry-run -d 'Change nothing; show what would happen'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restart" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand defrag" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand defrag" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand defrag" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand defrag" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand defrag" -l rolling -d 'On every node that has a member, one after the other'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand defrag" -l cancel -d 'Cancel the remaining part of an earlier order'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand defrag" -l yes -d 'Do not ask for confirmation'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand defrag" -l dry-run -d 'Change nothing; show what would happen'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand defrag" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand upgrade" -l to -d 'The version, e.g. 3.6.16, on each node\'s disk as /opt/etcd-v3.6.16/etcd; or `package`' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand upgrade" -l pause-after -d 'Upgrade this node and no other until the upgrade is ordered again' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand upgrade" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand upgrade" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand upgrade" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand upgrade" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand upgrade" -l no-backup -d 'Take no backup first'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand upgrade" -l cancel -d 'Go back to the etcd of before, while a member still runs it'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand upgrade" -l yes -d 'Do not ask for confirmation'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand upgrade" -l dry-run -d 'Change nothing; show what would happen'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand upgrade" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand downgrade" -l to -d 'The version, e.g. 3.5.35; every node has it on disk, as /opt/etcd-v3.5.35/etcd' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand downgrade" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand downgrade" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand downgrade" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand downgrade" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand downgrade" -l no-backup -d 'Take no backup first'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand downgrade" -l cancel -d 'Go back to the etcd of before, while a member still runs it'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand downgrade" -l yes -d 'Do not ask for confirmation'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand downgrade" -l dry-run -d 'Change nothing; show what would happen'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand downgrade" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand move" -l to -d 'The version, e.g. 3.4.37; every node has the whole release on disk, as /opt/etcd-v3.4.37/' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand move" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand move" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand move" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand move" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand move" -l include-v2 -d 'Carry the keys of etcd\'s v2 API (3.4, 3.5) into v3 first; stop its clients before'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand move" -l cancel -d 'End the quarantine of a move that has not opened its epoch'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand move" -l force -d 'With --cancel: also if a node does not answer. In a moved epoch: also if the data could not be compared'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand move" -l yes -d 'Do not ask for confirmation'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand move" -l dry-run -d 'Change nothing; show what would happen'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand move" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and not __fish_seen_subcommand_from acquire release help" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and not __fish_seen_subcommand_from acquire release help" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and not __fish_seen_subcommand_from acquire release help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and not __fish_seen_subcommand_from acquire release help" -f -a "acquire" -d 'Take the lock for this host, once the cluster is whole and no other host holds it'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and not __fish_seen_subcommand_from acquire release help" -f -a "release" -d 'Release the lock of this host, or of a host that does not come back'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and not __fish_seen_subcommand_from acquire release help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and __fish_seen_subcommand_from acquire" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and __fish_seen_subcommand_from acquire" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; nothing is held then' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and __fish_seen_subcommand_from acquire" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and __fish_seen_subcommand_from acquire" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and __fish_seen_subcommand_from acquire" -l dry-run -d 'Change nothing; show what would happen'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and __fish_seen_subcommand_from acquire" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and __fish_seen_subcommand_from release" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and __fish_seen_subcommand_from release" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and __fish_seen_subcommand_from release" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and __fish_seen_subcommand_from release" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and __fish_seen_subcommand_from release" -l yes -d 'Do not ask for confirmation'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and __fish_seen_subcommand_from release" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and __fish_seen_subcommand_from help" -f -a "acquire" -d 'Take the lock for this host, once the cluster is whole and no other host holds it'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and __fish_seen_subcommand_from help" -f -a "release" -d 'Release the lock of this host, or of a host that does not come back'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand reboot-lock; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand log-level" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand log-level" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand log-level" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand log-level" -l reset -d 'Go back to the level with which the agent started'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand log-level" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand alarm; and not __fish_seen_subcommand_from list disarm help" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand alarm; and not __fish_seen_subcommand_from list disarm help" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand alarm; and not __fish_seen_subcommand_from list disarm help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand alarm; and not __fish_seen_subcommand_from list disarm help" -f -a "list" -d 'List the alarms that members have raised'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand alarm; and not __fish_seen_subcommand_from list disarm help" -f -a "disarm" -d 'Disarm alarms whose cause is gone'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand alarm; and not __fish_seen_subcommand_from list disarm help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand alarm; and __fish_seen_subcommand_from list" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand alarm; and __fish_seen_subcommand_from list" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand alarm; and __fish_seen_subcommand_from list" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand alarm; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand alarm; and __fish_seen_subcommand_from disarm" -l node -d 'Only the alarms of this node\'s member' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand alarm; and __fish_seen_subcommand_from disarm" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand alarm; and __fish_seen_subcommand_from disarm" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand alarm; and __fish_seen_subcommand_from disarm" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand alarm; and __fish_seen_subcommand_from disarm" -l force -d 'Also if the cause does not seem to be gone'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand alarm; and __fish_seen_subcommand_from disarm" -l yes -d 'Do not ask for confirmation'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand alarm; and __fish_seen_subcommand_from disarm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand alarm; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the alarms that members have raised'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand alarm; and __fish_seen_subcommand_from help" -f -a "disarm" -d 'Disarm alarms whose cause is gone'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand alarm; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and not __fish_seen_subcommand_from list remove add help" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and not __fish_seen_subcommand_from list remove add help" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and not __fish_seen_subcommand_from list remove add help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and not __fish_seen_subcommand_from list remove add help" -f -a "list" -d 'List etcd\'s members'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and not __fish_seen_subcommand_from list remove add help" -f -a "remove" -d 'Remove the member of a node, which stays out until `member add`'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and not __fish_seen_subcommand_from list remove add help" -f -a "add" -d 'Allow a node to become a member again, when one is missing'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and not __fish_seen_subcommand_from list remove add help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from list" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from list" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from list" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from remove" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from remove" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from remove" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from remove" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from remove" -l force -d 'Also when the cluster then stays below its size'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from remove" -l yes -d 'Do not ask for confirmation'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from remove" -l dry-run -d 'Change nothing; show what would happen'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from add" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from add" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from add" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from add" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from add" -l dry-run -d 'Change nothing; show what would happen'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from help" -f -a "list" -d 'List etcd\'s members'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove the member of a node, which stays out until `member add`'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from help" -f -a "add" -d 'Allow a node to become a member again, when one is missing'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand member; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and not __fish_seen_subcommand_from now list show run verify delete keep annotate prune help" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and not __fish_seen_subcommand_from now list show run verify delete keep annotate prune help" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and not __fish_seen_subcommand_from now list show run verify delete keep annotate prune help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and not __fish_seen_subcommand_from now list show run verify delete keep annotate prune help" -f -a "now" -d 'Take a full backup, or an increment, now and wait for it'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and not __fish_seen_subcommand_from now list show run verify delete keep annotate prune help" -f -a "list" -d 'List the backups in the store, oldest first'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and not __fish_seen_subcommand_from now list show run verify delete keep annotate prune help" -f -a "show" -d 'Show everything that is known of one backup'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and not __fish_seen_subcommand_from now list show run verify delete keep annotate prune help" -f -a "run" -d 'Take backups on schedule of an etcd that is not managed by an agent'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and not __fish_seen_subcommand_from now list show run verify delete keep annotate prune help" -f -a "verify" -d 'Restore backups into a throw-away etcd and compare them with what was recorded when they were taken'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and not __fish_seen_subcommand_from now list show run verify delete keep annotate prune help" -f -a "delete" -d 'Delete backups, unless they cannot be replaced by others'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and not __fish_seen_subcommand_from now list show run verify delete keep annotate prune help" -f -a "keep" -d 'Keep one backup, whatever [backup.retention] says'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and not __fish_seen_subcommand_from now list show run verify delete keep annotate prune help" -f -a "annotate" -d 'Write a note on one backup, for `backup list -o wide`'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and not __fish_seen_subcommand_from now list show run verify delete keep annotate prune help" -f -a "prune" -d 'Remove the backups that [backup.retention] no longer keeps'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and not __fish_seen_subcommand_from now list show run verify delete keep annotate prune help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from now" -l format -d 'Format of the backup; default: backup.format' -r -f -a "native\t'zstd'
etcd-manager\t'gzip, and what etcd-manager reads'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from now" -l note -d 'A note on the backup, one line of at most 500 characters, for `backup list -o wide`' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from now" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from now" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from now" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from now" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from now" -l increment -d 'Store an increment with all changes until now, without waiting for the interval; no full backup'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from now" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from list" -l timeout -d 'Give up waiting for the store after this long, e.g. 90s or 10m' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from list" -s o -l output -d 'Output format; wide: also why each is kept, and notes' -r -f -a "table\t'For people'
wide\t'With more columns'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from list" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from list" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from show" -l timeout -d 'Give up waiting for the store after this long, e.g. 90s or 10m' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from show" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from show" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from show" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from run" -l config -d '`[store]`, `[backup]` and `cluster.name`; no agent on this host reads this file' -r -F
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from run" -l endpoints -d 'Client URLs of the members, e.g. <https://10.0.0.1:2379>; a caught-up follower among them is backed up' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from run" -l cacert -d 'The authorities that etcd\'s certificates are checked against' -r -F
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from run" -l cert -d 'The client certificate' -r -F
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from run" -l key -d 'Its private key' -r -F
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from run" -l cluster-id -d 'The cluster\'s new ID after a restore by hand; otherwise a cluster with another ID than the newest backup is refused' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from run" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from run" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from run" -l once -d 'Take one backup and exit: for a timer'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from verify" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from verify" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from verify" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from verify" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from verify" -l all -d 'Every backup in the store, one after the other'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from delete" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from delete" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from delete" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from delete" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from delete" -l yes -d 'Do not ask for confirmation'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from delete" -l dry-run -d 'Change nothing; show what would happen'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from delete" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from keep" -l reason -d 'Why it is kept, for `backup list -o wide`' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from keep" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from keep" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from keep" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from keep" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from keep" -l undo -d 'Leave it to retention again'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from keep" -l dry-run -d 'Change nothing; show what would happen'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from keep" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from annotate" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from annotate" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from annotate" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from annotate" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from annotate" -l remove -d 'Remove the note'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from annotate" -l dry-run -d 'Change nothing; show what would happen'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from annotate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from prune" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from prune" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from prune" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from prune" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from prune" -l dry-run -d 'Remove nothing; show for each backup whether it would be removed, and why it is kept'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from prune" -l yes -d 'Do not ask for confirmation'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from prune" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from help" -f -a "now" -d 'Take a full backup, or an increment, now and wait for it'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the backups in the store, oldest first'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show everything that is known of one backup'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from help" -f -a "run" -d 'Take backups on schedule of an etcd that is not managed by an agent'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from help" -f -a "verify" -d 'Restore backups into a throw-away etcd and compare them with what was recorded when they were taken'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from help" -f -a "delete" -d 'Delete backups, unless they cannot be replaced by others'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from help" -f -a "keep" -d 'Keep one backup, whatever [backup.retention] says'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from help" -f -a "annotate" -d 'Write a note on one backup, for `backup list -o wide`'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from help" -f -a "prune" -d 'Remove the backups that [backup.retention] no longer keeps'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand backup; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand etcd-manager; and not __fish_seen_subcommand_from commands help" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand etcd-manager; and not __fish_seen_subcommand_from commands help" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand etcd-manager; and not __fish_seen_subcommand_from commands help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand etcd-manager; and not __fish_seen_subcommand_from commands help" -f -a "commands" -d 'Commands that etcd-manager\'s tools left in the store; they are shown and never carried out'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand etcd-manager; and not __fish_seen_subcommand_from commands help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand etcd-manager; and __fish_seen_subcommand_from commands" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand etcd-manager; and __fish_seen_subcommand_from commands" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand etcd-manager; and __fish_seen_subcommand_from commands" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand etcd-manager; and __fish_seen_subcommand_from commands" -f -a "list" -d 'List the commands in the store, oldest first'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand etcd-manager; and __fish_seen_subcommand_from commands" -f -a "delete" -d 'Delete a command from the store'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand etcd-manager; and __fish_seen_subcommand_from commands" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand etcd-manager; and __fish_seen_subcommand_from help" -f -a "commands" -d 'Commands that etcd-manager\'s tools left in the store; they are shown and never carried out'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand etcd-manager; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restore" -l revision -d 'The state at this revision, from the full backup before it and its increments' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restore" -l time -d 'The state at this time: 2026-03-01T12:00:00Z, "2026-03-01 12:00", 10:00, yesterday, -1h or "1h ago"' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restore" -l to -d 'Only build a data directory at this path, which must not exist yet; needs no agent and changes no cluster' -r -F
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restore" -l without -d 'I vouch that this node is permanently lost and will not come back with its old memory; may be given again' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restore" -l replace-electorate -d 'I vouch that all who opened the newest epoch and are not in cluster.nodes here are permanently lost: the cluster\'s name' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restore" -l etcd-version -d 'Open the epoch with this version of etcd, below `etcd.versions_dir` on every node; the data of a newer one is made to fit' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restore" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restore" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restore" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restore" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restore" -l yes -d 'Do not ask for confirmation'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restore" -l dry-run -d 'Change nothing; show what would happen'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand restore" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand bootstrap" -l without -d 'I vouch that this node is permanently lost and will not come back with its old memory; may be given again' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand bootstrap" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand bootstrap" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand bootstrap" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand bootstrap" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand bootstrap" -l empty -d 'Form an empty cluster even if the store has backups'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand bootstrap" -l yes -d 'Do not ask for confirmation'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand bootstrap" -l dry-run -d 'Change nothing; show what would happen'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand bootstrap" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand epoch; and not __fish_seen_subcommand_from confirm help" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand epoch; and not __fish_seen_subcommand_from confirm help" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand epoch; and not __fish_seen_subcommand_from confirm help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand epoch; and not __fish_seen_subcommand_from confirm help" -f -a "confirm" -d 'Follow a newer epoch that other nodes report, when too few electors are left to confirm it'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand epoch; and not __fish_seen_subcommand_from confirm help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand epoch; and __fish_seen_subcommand_from confirm" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand epoch; and __fish_seen_subcommand_from confirm" -l timeout -d 'Give up waiting after this long, e.g. 90s or 10m; the work continues' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand epoch; and __fish_seen_subcommand_from confirm" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand epoch; and __fish_seen_subcommand_from confirm" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand epoch; and __fish_seen_subcommand_from confirm" -l yes -d 'Do not ask for confirmation'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand epoch; and __fish_seen_subcommand_from confirm" -l dry-run -d 'Change nothing; show what would happen'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand epoch; and __fish_seen_subcommand_from confirm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand epoch; and __fish_seen_subcommand_from help" -f -a "confirm" -d 'Follow a newer epoch that other nodes report, when too few electors are left to confirm it'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand epoch; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand spec; and not __fish_seen_subcommand_from get set help" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand spec; and not __fish_seen_subcommand_from get set help" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand spec; and not __fish_seen_subcommand_from get set help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand spec; and not __fish_seen_subcommand_from get set help" -f -a "get" -d 'Show the wanted number of voters, the nodes and the settings of this node'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand spec; and not __fish_seen_subcommand_from get set help" -f -a "set" -d 'Change the wanted number of voters'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand spec; and not __fish_seen_subcommand_from get set help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand spec; and __fish_seen_subcommand_from get" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand spec; and __fish_seen_subcommand_from get" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand spec; and __fish_seen_subcommand_from get" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand spec; and __fish_seen_subcommand_from get" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand spec; and __fish_seen_subcommand_from set" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand spec; and __fish_seen_subcommand_from set" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand spec; and __fish_seen_subcommand_from set" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand spec; and __fish_seen_subcommand_from set" -l force -d 'Allow an even number, or nine'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand spec; and __fish_seen_subcommand_from set" -l dry-run -d 'Change nothing; show what would follow'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand spec; and __fish_seen_subcommand_from set" -l yes -d 'Do not ask for confirmation'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand spec; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand spec; and __fish_seen_subcommand_from help" -f -a "get" -d 'Show the wanted number of voters, the nodes and the settings of this node'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand spec; and __fish_seen_subcommand_from help" -f -a "set" -d 'Change the wanted number of voters'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand spec; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand store; and not __fish_seen_subcommand_from check help" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand store; and not __fish_seen_subcommand_from check help" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand store; and not __fish_seen_subcommand_from check help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand store; and not __fish_seen_subcommand_from check help" -f -a "check" -d 'Test every permission that the agent needs in the configured store, and name the missing ones'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand store; and not __fish_seen_subcommand_from check help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand store; and __fish_seen_subcommand_from check" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand store; and __fish_seen_subcommand_from check" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand store; and __fish_seen_subcommand_from check" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand store; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand store; and __fish_seen_subcommand_from help" -f -a "check" -d 'Test every permission that the agent needs in the configured store, and name the missing ones'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand store; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand render" -s o -l output -d 'Output format' -r -f -a "env\t'The environment file'
dropin\t'The drop-in of etcd.service'
flags\t'Flags on one line'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand render" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand render" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand render" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and not __fish_seen_subcommand_from check show is-loaded help" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and not __fish_seen_subcommand_from check show is-loaded help" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and not __fish_seen_subcommand_from check show is-loaded help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and not __fish_seen_subcommand_from check show is-loaded help" -f -a "check" -d 'Check the configuration, or FILE as if it were already in place'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and not __fish_seen_subcommand_from check show is-loaded help" -f -a "show" -d 'Show every value in force and where it came from'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and not __fish_seen_subcommand_from check show is-loaded help" -f -a "is-loaded" -d 'Say whether the agent works with the files on disk (exit code 0 yes, 1 no)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and not __fish_seen_subcommand_from check show is-loaded help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and __fish_seen_subcommand_from check" -l as -d 'Where FILE will be installed [default: /etc/etcd-agent/config.toml]' -r -F
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and __fish_seen_subcommand_from check" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and __fish_seen_subcommand_from check" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and __fish_seen_subcommand_from check" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and __fish_seen_subcommand_from check" -l accept-losses -d 'Accept, as root, that this configuration drops the cluster name, peers or TLS of this node, or moves its data or log'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and __fish_seen_subcommand_from check" -l yes -d 'Do not ask for confirmation'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and __fish_seen_subcommand_from show" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and __fish_seen_subcommand_from show" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and __fish_seen_subcommand_from show" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and __fish_seen_subcommand_from is-loaded" -s o -l output -d 'Output format' -r -f -a "table\t'For people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and __fish_seen_subcommand_from is-loaded" -l host -d 'Run the command on this node of the cluster instead, over ssh' -r
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and __fish_seen_subcommand_from is-loaded" -l color -d 'Colour the output: by default on a terminal, unless `NO_COLOR` is set' -r -f -a "auto\t'On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`'
always\t'Always'
never\t'Never'"
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and __fish_seen_subcommand_from is-loaded" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "check" -d 'Check the configuration, or FILE as if it were already in place'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show every value in force and where it came from'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "is-loaded" -d 'Say whether the agent works with the files on disk (exit code 0 yes, 1 no)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "run" -d 'Run the daemon (etcd-agent.service does)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "reload" -d 'Make the agent reread its configuration'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "init" -d 'Make this host a single-node cluster with local backups'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "discard-empty" -d 'Stop the empty etcd that a package started'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "archive" -d 'List or remove data directories that were replaced here'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "status" -d 'Show the cluster\'s health, its nodes, and what it waits for'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "plan" -d 'Show the next action, and why'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "ok-to-stop" -d 'Say whether a node may be stopped now (exit code 0 yes, 4 no)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "events" -d 'Show what this node\'s agent decided, when and why'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "pause" -d 'Suspend automatic actions on all nodes until `resume`'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "resume" -d 'Resume automatic actions'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "move-leader" -d 'Let another member lead, and wait until it does'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "restart" -d 'Restart etcd on a node, or on all one after the other'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "defrag" -d 'Defragment etcd on a node, or on all one after the other'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "upgrade" -d 'Upgrade etcd on all nodes, one after the other'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "downgrade" -d 'Downgrade etcd on all nodes, one after the other'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "move" -d 'Move the cluster to any other version of etcd'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "reboot-lock" -d 'Take or release the lock that lets hosts reboot one at a time'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "log-level" -d 'Show or set the log level of the running agent'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "alarm" -d 'List or disarm etcd\'s alarms'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "member" -d 'List members, remove one, or allow one again'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "backup" -d 'Take, list, verify and prune backups'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "etcd-manager" -d 'Show or delete what etcd-manager left in the store'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "restore" -d 'Restore a backup as a new epoch on all nodes'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "bootstrap" -d 'Form the first cluster without nodes that do not answer'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "epoch" -d 'Confirm a newer epoch that too few electors are left to confirm'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "spec" -d 'Show or change how many voters are wanted'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "store" -d 'Test what the agent may do in the store'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "render" -d 'Print the settings that etcd is started with on this node'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "config" -d 'Check the configuration, or show the values in force'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and not __fish_seen_subcommand_from run reload init discard-empty archive status plan ok-to-stop events pause resume move-leader restart defrag upgrade downgrade move reboot-lock log-level alarm member backup etcd-manager restore bootstrap epoch spec store render config help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from archive" -f -a "list" -d 'List the archived data directories, newest first'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from archive" -f -a "prune" -d 'Remove archived directories that retention no longer keeps, or named ones'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from reboot-lock" -f -a "acquire" -d 'Take the lock for this host, once the cluster is whole and no other host holds it'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from reboot-lock" -f -a "release" -d 'Release the lock of this host, or of a host that does not come back'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from alarm" -f -a "list" -d 'List the alarms that members have raised'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from alarm" -f -a "disarm" -d 'Disarm alarms whose cause is gone'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from member" -f -a "list" -d 'List etcd\'s members'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from member" -f -a "remove" -d 'Remove the member of a node, which stays out until `member add`'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from member" -f -a "add" -d 'Allow a node to become a member again, when one is missing'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from backup" -f -a "now" -d 'Take a full backup, or an increment, now and wait for it'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from backup" -f -a "list" -d 'List the backups in the store, oldest first'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from backup" -f -a "show" -d 'Show everything that is known of one backup'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from backup" -f -a "run" -d 'Take backups on schedule of an etcd that is not managed by an agent'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from backup" -f -a "verify" -d 'Restore backups into a throw-away etcd and compare them with what was recorded when they were taken'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from backup" -f -a "delete" -d 'Delete backups, unless they cannot be replaced by others'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from backup" -f -a "keep" -d 'Keep one backup, whatever [backup.retention] says'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from backup" -f -a "annotate" -d 'Write a note on one backup, for `backup list -o wide`'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from backup" -f -a "prune" -d 'Remove the backups that [backup.retention] no longer keeps'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from etcd-manager" -f -a "commands" -d 'Commands that etcd-manager\'s tools left in the store; they are shown and never carried out'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from epoch" -f -a "confirm" -d 'Follow a newer epoch that other nodes report, when too few electors are left to confirm it'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from spec" -f -a "get" -d 'Show the wanted number of voters, the nodes and the settings of this node'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from spec" -f -a "set" -d 'Change the wanted number of voters'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from store" -f -a "check" -d 'Test every permission that the agent needs in the configured store, and name the missing ones'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "check" -d 'Check the configuration, or FILE as if it were already in place'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "show" -d 'Show every value in force and where it came from'
complete -c etcd-agent -n "__fish_etcd_agent_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "is-loaded" -d 'Say whether the agent works with the files on disk (exit code 0 yes, 1 no)'
