#!/bin/sh
# Build .cache/oracle; build.sh 1.35.8: .cache/oracle-1.35.8, of another Kubernetes release (needs the module proxy).
set -eu
export CGO_ENABLED=0  # as the control plane of the end-to-end tests is built, so that both compile upstream once
here=$(cd "$(dirname "$0")" && pwd)
cache=$(cd "$here/../.." && pwd)/.cache
mkdir -p "$cache"
cd "$here"
if [ $# -eq 0 ]; then
    go vet . && go test . && go build -o "$cache/oracle" .
    exit
fi
version=$1
modfile=$cache/oracle-$version.mod
tag=kubernetes_$(echo "$version" | cut -d. -f1,2 | tr . _)
./upgrade.sh "$version" "$modfile"
go vet -modfile "$modfile" -tags "$tag" . && go build -modfile "$modfile" -tags "$tag" -o "$cache/oracle-$version" .
