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
tag=kubernetes_$(echo "$version" | cut -d. -f1,2 | tr . _)
sources=$cache/oracle-$version.src
rm -rf "$sources"
mkdir "$sources"
cp ./*.go "$sources"
# `go mod tidy` reads the files of all build tags, and 1.34 and 1.35 have no package podgroupprotection.
case $tag in kubernetes_1_34 | kubernetes_1_35) rm "$sources/scenario_groups.go" ;; esac
./upgrade.sh "$version" go.mod "$sources"
cd "$sources"
go vet -tags "$tag" . && go build -tags "$tag" -o "$cache/oracle-$version" .
