#!/bin/sh
# Move the oracle to another Kubernetes release: upgrade.sh 1.36.3 [MODFILE [DIRECTORY [TOOL...]]]
# Writes go.mod (or MODFILE) anew from the release's own one, whose staging modules are published under v0.* versions,
# and go.sum beside it. DIRECTORY: of another module than the oracle's, whose programs are TOOLs (packages).
set -eu
version=${1:?usage: upgrade.sh VERSION [MODFILE [DIRECTORY [TOOL...]]], VERSION such as 1.36.3}
modfile=${2:-go.mod}
directory=${3:-$(dirname "$0")}
shift $(($# < 3 ? $# : 3))
cd "$directory"
staging=v0.${version#1.}

upstream=$(cd / && go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
test -n "$upstream" || { echo "upgrade.sh: there is no Kubernetes $version" >&2; exit 1; }
{
    echo "module example.com/forewarn/$(basename "$PWD")"
    echo
    grep -E '^(go|godebug) ' "$upstream"
    if [ $# -gt 0 ]; then
        echo
        echo 'tool ('
        printf '\t%s\n' "$@"
        echo ')'
    fi
    echo
    echo "require k8s.io/kubernetes v$version"
    echo
    echo 'replace ('
    sed -n "s,^	\(k8s.io/[^ ]*\) => \./staging.*,	\1 => \1 $staging,p" "$upstream"
    echo ')'
} >"$modfile.new"
mv "$modfile.new" "$modfile"
rm -f "${modfile%.mod}.sum"
go mod tidy -modfile "$modfile"
