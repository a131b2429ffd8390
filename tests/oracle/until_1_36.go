//go:build !kubernetes_1_37

package main

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/apps"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/kubernetes/pkg/scheduler"
)

// What Kubernetes up to 1.36 names or calls otherwise than later releases.

func newInformerFactory(client kubernetes.Interface) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(client, 0)
}

func runDisruption(ctx context.Context, controller *disruption.DisruptionController) {
	controller.Run(ctx)
}

func validateStatefulSet(set *apps.StatefulSet, template corevalidation.PodValidationOptions) field.ErrorList {
	return appsvalidation.ValidateStatefulSet(set, template)
}

// deviceTaintRules are none: the scheduler follows them by default since 1.37.
type deviceTaintRules struct{}

func (deviceTaintRules) objects() []runtime.Object { return nil }

func (deviceTaintRules) informers(informers.SharedInformerFactory) []cache.SharedIndexInformer {
	return nil
}

func (deviceTaintRules) taints(slices []*resourcev1.ResourceSlice) int { return taintsOf(slices) }
