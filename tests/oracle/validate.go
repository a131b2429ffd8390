package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"
	"k8s.io/kubernetes/pkg/apis/storage"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	storagevalidation "k8s.io/kubernetes/pkg/apis/storage/validation"
)

// validationAnswer says what kube-apiserver would not have stored as it is.
type validationAnswer struct {
	ID     string   `json:"id"`
	Valid  bool     `json:"valid"`
	Faults []string `json:"faults"`
}

func answerValidation(line []byte, _ options) response {
	c, err := parseCase(line)
	if err != nil {
		return response{id: c.ID, err: err}
	}
	answer := &validationAnswer{ID: c.ID, Faults: []string{}}
	for _, object := range c.objects() {
		answer.Faults = append(answer.Faults, faults(object)...)
	}
	answer.Valid = len(answer.Faults) == 0
	return response{id: c.ID, answer: answer}
}

// apiObject is what every object of a case is.
type apiObject interface {
	metav1.Object
	runtime.Object
}

func (c *preemptionCase) objects() []apiObject {
	all := []apiObject{c.Pod}
	all = appendAll(all, c.Pods)
	all = appendAll(all, c.Nodes)
	all = appendAll(all, c.PDBs)
	all = appendAll(all, c.Namespaces)
	all = appendAll(all, c.PVCs)
	all = appendAll(all, c.PVs)
	all = appendAll(all, c.StorageClasses)
	all = appendAll(all, c.CSINodes)
	all = appendAll(all, c.CSIDrivers)
	all = appendAll(all, c.CSIStorageCapacities)
	all = appendAll(all, c.VolumeAttachments)
	all = appendAll(all, c.Services)
	all = appendAll(all, c.ReplicationControllers)
	all = appendAll(all, c.ReplicaSets)
	return appendAll(all, c.StatefulSets)
}

func appendAll[T apiObject](all []apiObject, more []T) []apiObject {
	for _, object := range more {
		all = append(all, object)
	}
	return all
}

func faults(object apiObject) []string {
	name := fmt.Sprintf("%s %s/%s", object.GetObjectKind().GroupVersionKind().Kind, object.GetNamespace(), object.GetName())
	var found []string
	defaulted := object.DeepCopyObject()
	legacyscheme.Scheme.Default(defaulted)
	if pod, ok := object.(*v1.Pod); ok {
		for _, where := range missingDefaults(pod, defaulted.(*v1.Pod)) {
			found = append(found, name+": the API server would have filled in "+where)
		}
	}
	internal, err := legacyscheme.Scheme.ConvertToVersion(defaulted, runtime.InternalGroupVersioner)
	if err != nil {
		return append(found, name+": "+err.Error())
	}
	for _, fault := range validateInternal(internal) {
		found = append(found, name+": "+fault.Error())
	}
	return found
}

func validateInternal(object runtime.Object) field.ErrorList {
	var template corevalidation.PodValidationOptions
	switch o := object.(type) {
	case *core.Pod:
		options := podutil.GetValidationOptionsFromPodSpecAndMeta(&o.Spec, nil, &o.ObjectMeta, nil)
		return corevalidation.ValidatePodCreate(o, options)
	case *core.Node:
		return corevalidation.ValidateNode(o)
	case *core.Namespace:
		return corevalidation.ValidateNamespace(o)
	case *core.PersistentVolume:
		return corevalidation.ValidatePersistentVolume(o, corevalidation.ValidationOptionsForPersistentVolume(o, nil))
	case *core.PersistentVolumeClaim:
		return corevalidation.ValidatePersistentVolumeClaim(o, corevalidation.ValidationOptionsForPersistentVolumeClaim(o, nil))
	case *core.Service:
		return corevalidation.ValidateServiceCreate(o)
	case *core.ReplicationController:
		return corevalidation.ValidateReplicationController(o, template)
	case *apps.ReplicaSet:
		return appsvalidation.ValidateReplicaSet(o, template)
	case *apps.StatefulSet:
		return validateStatefulSet(o, template)
	case *policy.PodDisruptionBudget:
		return policyvalidation.ValidatePodDisruptionBudget(o, policyvalidation.PodDisruptionBudgetValidationOptions{})
	case *storage.StorageClass:
		return storagevalidation.ValidateStorageClass(o)
	case *storage.CSINode:
		return validateCSINode(o)
	case *storage.CSIDriver:
		return storagevalidation.ValidateCSIDriver(o)
	case *storage.CSIStorageCapacity:
		return storagevalidation.ValidateCSIStorageCapacity(o, storagevalidation.CSIStorageCapacityValidateOptions{})
	case *storage.VolumeAttachment:
		return storagevalidation.ValidateVolumeAttachment(o)
	}
	return field.ErrorList{field.InternalError(nil, fmt.Errorf("no validation for %T", object))}
}

// missingDefaults names the fields that scheduling reads and that defaulting has changed.
func missingDefaults(before, after *v1.Pod) []string {
	var missing []string
	differs := func(where string, a, b any) {
		if !equality.Semantic.DeepEqual(a, b) {
			missing = append(missing, where)
		}
	}
	differs("spec.resources", before.Spec.Resources, after.Spec.Resources)
	differs("spec.affinity", before.Spec.Affinity, after.Spec.Affinity)
	differs("spec.topologySpreadConstraints", before.Spec.TopologySpreadConstraints, after.Spec.TopologySpreadConstraints)
	differs("spec.tolerations", before.Spec.Tolerations, after.Spec.Tolerations)
	differs("spec.volumes", before.Spec.Volumes, after.Spec.Volumes)
	containers := func(where string, a, b []v1.Container) {
		for i := range a {
			differs(fmt.Sprintf("%s[%d].resources", where, i), a[i].Resources, b[i].Resources)
			differs(fmt.Sprintf("%s[%d].ports", where, i), a[i].Ports, b[i].Ports)
		}
	}
	containers("spec.containers", before.Spec.Containers, after.Spec.Containers)
	containers("spec.initContainers", before.Spec.InitContainers, after.Spec.InitContainers)
	return missing
}
