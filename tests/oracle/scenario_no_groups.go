//go:build !kubernetes_1_34 && !kubernetes_1_35 && !kubernetes_1_37

package main

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// PodGroups are of 1.37: see scenario_groups.go.

// slowCycles has each scheduling cycle take its time.
func (w *world) slowCycles(sched *scheduler.Scheduler) {
	next := sched.NextPod
	sched.NextPod = func(logger klog.Logger) (*framework.QueuedPodInfo, error) {
		pod, err := next(logger)
		if err == nil && pod != nil {
			time.Sleep(w.takes.of(cycleTakes, "cycle", keyOf(pod.Pod).String()))
		}
		return pod, err
	}
}

func (w *world) newGroupControllers(context.Context, informers.SharedInformerFactory) (start func(), err error) {
	return func() {}, nil
}

func gvrOfGroup(apiObject) (schema.GroupVersionResource, bool) {
	return schema.GroupVersionResource{}, false
}

func isGroup(any) bool { return false }

func (s *store) noteGroup(string, apiObject) {}

func protectGroup(apiObject) {}

func (s *store) deleteGroup(schema.GroupVersionResource, apiObject) {}

func updatedGroup(_, _ apiObject) {}

func (s *store) changedGroup(schema.GroupVersionResource, apiObject, apiObject) bool { return false }
