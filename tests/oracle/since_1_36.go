//go:build !kubernetes_1_34 && !kubernetes_1_35

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/storage"
	storagevalidation "k8s.io/kubernetes/pkg/apis/storage/validation"
	"k8s.io/kubernetes/pkg/scheduler"
)

// What Kubernetes names or calls otherwise since 1.36.

func enqueue(ctx context.Context, sched *scheduler.Scheduler, pod *v1.Pod) {
	sched.SchedulingQueue.Add(ctx, pod)
}

func silentRecorder(string) events.EventRecorderLogger {
	return &events.FakeRecorder{}
}

func validateCSINode(node *storage.CSINode) field.ErrorList {
	return storagevalidation.ValidateCSINode(node)
}

// sharesKnown says whether the scheduler knows so many shares of devices.
func sharesKnown(manager fwk.SharedDRAManager, count int) (bool, error) {
	if count == 0 {
		return true, nil
	}
	state, err := manager.ResourceClaims().GatherAllocatedState()
	return err == nil && state.AllocatedSharedDeviceIDs.Len() >= count, err
}
