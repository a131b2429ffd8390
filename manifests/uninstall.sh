#!/bin/sh
# Takes forewarn off a cluster: `manifests/uninstall.sh [kubectl flags…]`, for example --context staging.
#
# The order matters. First nobody runs who would write into the webhook configurations again; then these, so that no
# API server waits for a webhook that is away; then the rest. In between, some seconds, pods are admitted unchecked and
# PriorityClasses can be neither created nor changed.
set -eu
cd "$(dirname "$0")"
kubectl=${KUBECTL:-kubectl}

for name in forewarn-ca-injector forewarn; do
  if "$kubectl" "$@" --namespace forewarn get deployment "$name" >/dev/null 2>&1; then
    "$kubectl" "$@" --namespace forewarn scale deployment "$name" --replicas=0
    "$kubectl" "$@" --namespace forewarn wait --for=delete pod --selector "app.kubernetes.io/name=$name" --timeout=90s
  fi
done
for kind in validating mutating; do
  "$kubectl" "$@" delete --ignore-not-found "${kind}webhookconfiguration" forewarn
done
"$kubectl" "$@" delete --ignore-not-found clusterrolebinding,clusterrole forewarn-cluster-audit
"$kubectl" "$@" delete --ignore-not-found -k base
