//go:build !kubernetes_1_34

package main

import (
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// What Kubernetes names or calls otherwise since 1.35.

type nodePluginScores = fwk.NodePluginScores

// tellOfVolumes has nothing to do: volumes and claims are looked up in the informers' stores.
func tellOfVolumes(informers.SharedInformerFactory) {}

// classesKnown says whether the table of extended resources has learnt of all classes.
func classesKnown(profile framework.Framework, classes []*resourcev1.DeviceClass) bool {
	if !utilfeature.DefaultFeatureGate.Enabled(features.DRAExtendedResource) {
		return true // nobody fills it
	}
	resolver := profile.SharedDRAManager().DeviceClassResolver()
	for _, class := range classes {
		if resolver.GetDeviceClass(v1.ResourceName(resourcev1.ResourceDeviceClassPrefix+class.Name)) == nil {
			return false
		}
	}
	return true
}
