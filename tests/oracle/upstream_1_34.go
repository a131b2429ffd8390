//go:build kubernetes_1_34

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/apis/apps"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/storage"
	storagevalidation "k8s.io/kubernetes/pkg/apis/storage/validation"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// What Kubernetes 1.34 names or calls otherwise than other releases do.

type nodePluginScores = framework.NodePluginScores

func newInformerFactory(client kubernetes.Interface) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(client, 0)
}

func enqueue(ctx context.Context, sched *scheduler.Scheduler, pod *v1.Pod) {
	sched.SchedulingQueue.Add(klog.FromContext(ctx), pod)
}

func silentRecorder(string) events.EventRecorder {
	return &events.FakeRecorder{}
}

func validateCSINode(node *storage.CSINode) field.ErrorList {
	return storagevalidation.ValidateCSINode(node, storagevalidation.CSINodeValidationOptions{})
}

func validateStatefulSet(set *apps.StatefulSet, template corevalidation.PodValidationOptions) field.ErrorList {
	return appsvalidation.ValidateStatefulSet(set, template)
}

// classesKnown: classes are looked up in the informer's store, which is filled.
func classesKnown(framework.Framework, []*resourcev1.DeviceClass) bool {
	return true
}
