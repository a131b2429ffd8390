#!/bin/sh
# Build .cache/oracle-cluster-autoscaler: build.sh CHECKOUT, of kubernetes/autoscaler, tag cluster-autoscaler-1.36.1.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=$(cd "$here/../../.." && pwd)/.cache
mkdir -p "$cache" "$1/cluster-autoscaler/oracle"
cp "$here"/*.go "$1/cluster-autoscaler/oracle/"
cd "$1/cluster-autoscaler"
CGO_ENABLED=0 go build -ldflags="-s -w" -o "$cache/oracle-cluster-autoscaler" ./oracle
