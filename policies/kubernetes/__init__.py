"""What Kubernetes does: scheduler, controllers, kubelet, kube-apiserver, objects."""
