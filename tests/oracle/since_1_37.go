//go:build kubernetes_1_37

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

// What Kubernetes names or calls otherwise since 1.37.

func newInformerFactory(client kubernetes.Interface) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(client, 0, nil)
}

func runDisruption(ctx context.Context, controller *disruption.DisruptionController) {
	controller.Run(ctx, 1)
}

func validateStatefulSet(set *apps.StatefulSet, template corevalidation.PodValidationOptions) field.ErrorList {
	return appsvalidation.ValidateStatefulSet(set, appsvalidation.StatefulSetValidationOptions{}, template)
}

// deviceTaintRules are the rules of a case: the API has them, and the scheduler follows them, since 1.37.
type deviceTaintRules struct {
	DeviceTaintRules []*resourcev1.DeviceTaintRule `json:"deviceTaintRules"`
}

func (r deviceTaintRules) objects() []runtime.Object {
	var objects []runtime.Object
	for _, rule := range r.DeviceTaintRules {
		objects = append(objects, rule)
	}
	return objects
}

func (r deviceTaintRules) informers(factory informers.SharedInformerFactory) []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{factory.Resource().V1().DeviceTaintRules().Informer()}
}

// taints counts the taints that devices have by themselves and by rules.
func (r deviceTaintRules) taints(slices []*resourcev1.ResourceSlice) int {
	count := taintsOf(slices)
	for _, slice := range slices {
		for _, device := range slice.Spec.Devices {
			for _, rule := range r.DeviceTaintRules {
				selector := rule.Spec.DeviceSelector
				if selector != nil && wants(selector.Driver, slice.Spec.Driver) && wants(selector.Pool, slice.Spec.Pool.Name) &&
					wants(selector.Device, device.Name) {
					count++
				}
			}
		}
	}
	return count
}

func wants(selected *string, name string) bool {
	return selected == nil || *selected == name
}
