#!/bin/sh
# Pin the control plane of a Kubernetes release: upgrade.sh 1.37.1 writes controlplane/1.37.mod and 1.37.sum; the default
# release's are go.mod and go.sum (upgrade.sh 1.36.4 go.mod).
set -eu
version=${1:?usage: upgrade.sh VERSION [go.mod], VERSION such as 1.37.1}
cd "$(dirname "$0")"
../oracle/upgrade.sh "$version" "${2:-${version%.*}.mod}" controlplane go.etcd.io/etcd/server/v3 \
    k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager \
    k8s.io/kubernetes/cmd/kube-scheduler k8s.io/kubernetes/cmd/kubectl
