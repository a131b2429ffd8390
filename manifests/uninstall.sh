#!/bin/sh
# Uninstalls forewarn: `manifests/uninstall.sh [--annotations] [kubectl flags…]`, for example --context staging.
#
# --annotations also removes the annotation forewarn.dev/preemption-impact from Pods and workloads. No Pod restarts.
#
# The order matters: first the Deployments, so that nothing writes to the webhook configurations; then the webhook
# configurations, so that no API server waits for a missing webhook; then the rest. In between, for some seconds, Pods are
# admitted unchecked and PriorityClasses cannot be created or changed.
set -eu
cd "$(dirname "$0")"
kubectl=${KUBECTL:-kubectl}
annotation=forewarn.dev/preemption-impact
kinds=
if [ "${1:-}" = --annotations ]; then
  shift
  kinds="pods deployments.apps replicasets.apps statefulsets.apps daemonsets.apps replicationcontrollers jobs.batch cronjobs.batch"
fi

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
"$kubectl" "$@" delete --ignore-not-found clusterrolebinding,clusterrole,priorityclass forewarn-audit-cron-job
"$kubectl" "$@" delete --ignore-not-found -k base

annotated="{{range .items}}{{\$of := .metadata}}{{with \$of.annotations}}{{if index . \"$annotation\"}}{{\$of.namespace}} {{\$of.name}}{{\"\\n\"}}{{end}}{{end}}{{end}}"
for kind in $kinds; do
  "$kubectl" "$@" get "$kind" --all-namespaces --output "go-template=$annotated" | while read -r namespace name; do
    "$kubectl" "$@" --namespace "$namespace" annotate "$kind" "$name" "$annotation-" </dev/null
  done
done
