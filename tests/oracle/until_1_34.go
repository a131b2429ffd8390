//go:build kubernetes_1_34

package main

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// What Kubernetes up to 1.34 names or calls otherwise than later releases.

type nodePluginScores = framework.NodePluginScores

// classesKnown: classes are looked up in the informer's store, which is filled.
func classesKnown(framework.Framework, []*resourcev1.DeviceClass) bool {
	return true
}
