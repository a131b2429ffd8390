//go:build kubernetes_1_37

package main

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/apis/apps"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/scheduler"
)

// What Kubernetes names or calls otherwise since 1.37.

func newInformerFactory(client kubernetes.Interface) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(client, 0, nil)
}

func validateStatefulSet(set *apps.StatefulSet, template corevalidation.PodValidationOptions) field.ErrorList {
	return appsvalidation.ValidateStatefulSet(set, appsvalidation.StatefulSetValidationOptions{}, template)
}
