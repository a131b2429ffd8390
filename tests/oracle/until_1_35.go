//go:build kubernetes_1_34 || kubernetes_1_35

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/apis/storage"
	storagevalidation "k8s.io/kubernetes/pkg/apis/storage/validation"
	"k8s.io/kubernetes/pkg/scheduler"
)

// What Kubernetes up to 1.35 names or calls otherwise than later releases.

func enqueue(ctx context.Context, sched *scheduler.Scheduler, pod *v1.Pod) {
	sched.SchedulingQueue.Add(klog.FromContext(ctx), pod)
}

func silentRecorder(string) events.EventRecorder {
	return &events.FakeRecorder{}
}

func validateCSINode(node *storage.CSINode) field.ErrorList {
	return storagevalidation.ValidateCSINode(node, storagevalidation.CSINodeValidationOptions{})
}

// sharesKnown: devices are not shared by default.
func sharesKnown(any, int) (bool, error) {
	return true, nil
}
