//go:build !kubernetes_1_34 && !kubernetes_1_35 && !kubernetes_1_37

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/apps"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/storage"
	storagevalidation "k8s.io/kubernetes/pkg/apis/storage/validation"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// What Kubernetes 1.36 names or calls otherwise than other releases do.

type nodePluginScores = fwk.NodePluginScores

func newInformerFactory(client kubernetes.Interface) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(client, 0)
}

func enqueue(ctx context.Context, sched *scheduler.Scheduler, pod *v1.Pod) {
	sched.SchedulingQueue.Add(ctx, pod)
}

func silentRecorder(string) events.EventRecorderLogger {
	return &events.FakeRecorder{}
}

func validateCSINode(node *storage.CSINode) field.ErrorList {
	return storagevalidation.ValidateCSINode(node)
}

func validateStatefulSet(set *apps.StatefulSet, template corevalidation.PodValidationOptions) field.ErrorList {
	return appsvalidation.ValidateStatefulSet(set, template)
}

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
