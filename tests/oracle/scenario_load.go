//go:build !kubernetes_1_34 && !kubernetes_1_35

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	kjson "sigs.k8s.io/json"
)

// scenario is a cluster, what arrives in it, and when to stop looking.
type scenario struct {
	ID              string                          `json:"id"`
	Category        string                          `json:"category"`
	Nodes           []*v1.Node                      `json:"nodes"`
	Pods            []*v1.Pod                       `json:"pods"`
	Namespaces      []*v1.Namespace                 `json:"namespaces"`
	PriorityClasses []*schedulingv1.PriorityClass   `json:"priorityClasses"`
	PDBs            []*policyv1.PodDisruptionBudget `json:"pdbs"`
	PVCs            []*v1.PersistentVolumeClaim     `json:"pvcs"`
	PVs             []*v1.PersistentVolume          `json:"pvs"`
	StorageClasses  []*storagev1.StorageClass       `json:"storageClasses"`
	CSINodes        []*storagev1.CSINode            `json:"csiNodes"`
	PodGroups       []json.RawMessage               `json:"podGroups"`
	Workloads       []json.RawMessage               `json:"workloads"`
	Arrivals        []arrival                       `json:"arrivals"`
	HorizonSeconds  float64                         `json:"horizonSeconds"`
	QuietSeconds    float64                         `json:"quietSeconds"`
	ScalingDown     bool                            `json:"scalingDown"` // for forewarn; here controllers always delete, too

	groups    []apiObject
	workloads []apiObject
}

// arrival is somebody's change; `op`: create, update, delete, or of a node drain.
type arrival struct {
	At     float64         `json:"at"`
	Op     string          `json:"op"`
	Object json.RawMessage `json:"object"`

	object apiObject
}

var strictDecoder = serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// parseScenario reads a scenario and refuses fields that the API does not have.
func parseScenario(line []byte) (*scenario, error) {
	s := &scenario{HorizonSeconds: 3600, QuietSeconds: 400}
	var named struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(line, &named) // a best effort, to name the scenario in the error
	s.ID = named.ID
	strict, err := kjson.UnmarshalStrict(line, s)
	if err = errors.Join(append(strict, err)...); err != nil {
		return s, fmt.Errorf("not a scenario: %w", err)
	}
	if err := s.checkStorage(); err != nil {
		return s, err
	}
	if s.groups, err = decodeAll(s.PodGroups); err != nil {
		return s, err
	}
	if s.workloads, err = decodeAll(s.Workloads); err != nil {
		return s, err
	}
	for i := range s.Arrivals {
		if s.Arrivals[i].object, err = decode(s.Arrivals[i].Object); err != nil {
			return s, err
		}
		switch s.Arrivals[i].Op {
		case "create", "update", "delete":
		case "drain":
			if _, ok := s.Arrivals[i].object.(*v1.Node); !ok {
				return s, fmt.Errorf("not a scenario: only nodes are drained")
			}
		default:
			return s, fmt.Errorf("not a scenario: op %q of an arrival", s.Arrivals[i].Op)
		}
	}
	return s, nil
}

func decodeAll(given []json.RawMessage) (objects []apiObject, err error) {
	for _, raw := range given {
		object, err := decode(raw)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

func decode(raw json.RawMessage) (apiObject, error) {
	object, _, err := strictDecoder.Decode(raw, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("not a scenario: %w", err)
	}
	found, ok := object.(apiObject)
	if _, known := gvrOf(found); !ok || !known {
		return nil, fmt.Errorf("not a scenario: a %T is not simulated", object)
	}
	if _, cluster := clusterWide[fmt.Sprintf("%T", object)]; !cluster && found.GetNamespace() == "" {
		found.SetNamespace(metav1.NamespaceDefault)
	}
	return found, nil
}

var clusterWide = map[string]bool{"*v1.Node": true, "*v1.Namespace": true}

func gvrOf(object apiObject) (schema.GroupVersionResource, bool) {
	switch object.(type) {
	case *v1.Pod:
		return podsGVR, true
	case *v1.Node:
		return nodesGVR, true
	case *v1.Namespace:
		return v1.SchemeGroupVersion.WithResource("namespaces"), true
	case *v1.PersistentVolumeClaim:
		return claimsGVR, true
	case *v1.PersistentVolume:
		return volumesGVR, true
	case *storagev1.StorageClass:
		return storagev1.SchemeGroupVersion.WithResource("storageclasses"), true
	case *storagev1.CSINode:
		return storagev1.SchemeGroupVersion.WithResource("csinodes"), true
	case *policyv1.PodDisruptionBudget:
		return policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"), true
	case *appsv1.ReplicaSet:
		return appsv1.SchemeGroupVersion.WithResource("replicasets"), true
	case *appsv1.Deployment:
		return appsv1.SchemeGroupVersion.WithResource("deployments"), true
	case *appsv1.StatefulSet:
		return appsv1.SchemeGroupVersion.WithResource("statefulsets"), true
	case *appsv1.DaemonSet:
		return appsv1.SchemeGroupVersion.WithResource("daemonsets"), true
	case *batchv1.Job:
		return jobsGVR, true
	case *batchv1.CronJob:
		return batchv1.SchemeGroupVersion.WithResource("cronjobs"), true
	}
	return gvrOfGroup(object)
}

func withDefaults[T apiObject](object T) T {
	made := object.DeepCopyObject().(T)
	legacyscheme.Scheme.Default(made)
	return made
}

// load stores an object as the API server would have, before anybody watches.
func (s *store) load(given apiObject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored(given)
}

// stored puts a new object, completed as the API server completes it; the caller holds the lock.
func (s *store) stored(given apiObject) apiObject {
	object := withDefaults(given)
	gvr, _ := gvrOf(object)
	s.uids++
	object.SetUID(types.UID(fmt.Sprintf("%08d", s.uids)))
	object.SetGeneration(1)
	if created := object.GetCreationTimestamp(); created.IsZero() {
		object.SetCreationTimestamp(metav1.Time{Time: time.Now().Truncate(time.Second)})
	}
	switch object := object.(type) {
	case *v1.Node:
		named(object)
	case *batchv1.Job:
		selects(object)
	}
	protectGroup(object)
	s.put(gvr, object)
	return object
}

func named(node *v1.Node) {
	if node.Labels[v1.LabelHostname] == "" {
		metav1.SetMetaDataLabel(&node.ObjectMeta, v1.LabelHostname, node.Name)
	}
}

// selects does what the API server does with a new Job: it selects pods by its UID.
func selects(job *batchv1.Job) {
	of := map[string]string{batchv1.ControllerUidLabel: string(job.UID), batchv1.JobNameLabel: job.Name}
	if job.Spec.Selector == nil {
		job.Spec.Selector = metav1.SetAsLabelSelector(map[string]string{batchv1.ControllerUidLabel: string(job.UID)})
	}
	if job.Spec.Template.Labels == nil {
		job.Spec.Template.Labels = map[string]string{}
	}
	for key, value := range of {
		job.Spec.Template.Labels[key] = value
	}
}

// resize gives a set that was loaded without pods the size that it has.
func (s *store) resize(set *appsv1.StatefulSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gvr, _ := gvrOf(set)
	old, err := s.get(gvr, set.Namespace, set.Name)
	if err != nil {
		return
	}
	sized := old.(*appsv1.StatefulSet).DeepCopy()
	sized.Spec.Replicas = withDefaults(set).Spec.Replicas
	s.put(gvr, sized)
}

// own tells ReplicaSets the UIDs of their Deployments.
func (s *store) own(workloads []apiObject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, object := range workloads {
		set, ok := object.(*appsv1.ReplicaSet)
		if !ok || len(set.OwnerReferences) == 0 {
			continue
		}
		owner, err := s.get(appsv1.SchemeGroupVersion.WithResource("deployments"), set.Namespace, set.OwnerReferences[0].Name)
		gvr, _ := gvrOf(set)
		stored, err2 := s.get(gvr, set.Namespace, set.Name)
		if err == nil && err2 == nil {
			owned := stored.(*appsv1.ReplicaSet).DeepCopy()
			owned.OwnerReferences[0].UID = owner.GetUID()
			s.put(gvr, owned)
		}
	}
}

// loadPods stores the pods that run at time 0, as their controllers would have made them.
func (s *store) loadPods(pods []*v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, given := range pods {
		pod := withDefaults(given)
		s.uids++
		pod.UID = types.UID(fmt.Sprintf("%08d", s.uids))
		if pod.Namespace == "" {
			pod.Namespace = metav1.NamespaceDefault
		}
		since := time.Now()
		if pod.Status.StartTime != nil {
			since = pod.Status.StartTime.Time
		}
		pod.CreationTimestamp = metav1.Time{Time: since}
		if pod.Spec.NodeName != "" {
			runs(pod, since)
		}
		s.adopt(pod)
		s.put(podsGVR, pod)
		s.countName(pod)
	}
}

// adopt gives a pod what its controller would have given it.
func (s *store) adopt(pod *v1.Pod) {
	for i := range pod.OwnerReferences {
		ref := &pod.OwnerReferences[i]
		for gvr, objects := range s.objects {
			owner, found := objects[types.NamespacedName{Namespace: pod.Namespace, Name: ref.Name}]
			if !found || kindOf[gvr.Resource] != ref.Kind {
				continue
			}
			ref.UID = owner.GetUID()
			blocks := true
			ref.BlockOwnerDeletion = &blocks
			s.mark(pod, owner)
		}
	}
}

var kindOf = map[string]string{
	"replicasets": "ReplicaSet", "statefulsets": "StatefulSet", "daemonsets": "DaemonSet", "jobs": "Job",
}

// mark sets the labels and finalizers by which a controller knows its pods.
func (s *store) mark(pod *v1.Pod, owner apiObject) {
	switch owner := owner.(type) {
	case *batchv1.Job:
		for key, value := range owner.Spec.Template.Labels {
			metav1.SetMetaDataLabel(&pod.ObjectMeta, key, value)
		}
		pod.Finalizers = append(pod.Finalizers, batchv1.JobTrackingFinalizer)
	case *appsv1.StatefulSet:
		metav1.SetMetaDataLabel(&pod.ObjectMeta, appsv1.StatefulSetPodNameLabel, pod.Name)
		metav1.SetMetaDataLabel(&pod.ObjectMeta, appsv1.StatefulSetRevisionLabel, owner.Status.UpdateRevision)
	case *appsv1.DaemonSet:
		if revision := s.revisionOf(owner); revision != "" {
			metav1.SetMetaDataLabel(&pod.ObjectMeta, appsv1.DefaultDaemonSetUniqueLabelKey, revision)
		}
	}
}

// revisionOf is the hash of a DaemonSet's only revision.
func (s *store) revisionOf(owner apiObject) string {
	for _, object := range s.objects[appsv1.SchemeGroupVersion.WithResource("controllerrevisions")] {
		if controller := metav1.GetControllerOf(object); controller != nil && controller.UID == owner.GetUID() {
			return object.GetLabels()[appsv1.DefaultDaemonSetUniqueLabelKey]
		}
	}
	return ""
}

// arrive stores somebody's change; what is left to the garbage collector is returned.
func (s *store) arrive(a arrival) (removed apiObject) {
	gvr, _ := gvrOf(a.object)
	namespace, name := a.object.GetNamespace(), a.object.GetName()
	if pod, ok := a.object.(*v1.Pod); ok {
		s.arrivePod(a.Op, pod)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.get(gvr, namespace, name)
	if err != nil {
		if a.Op == "create" {
			s.stored(a.object)
			s.noteNode("nodeAdded", gvr, name)
			s.noteGroup("groupCreated", a.object)
		}
		return nil
	}
	if a.Op == "delete" && len(old.GetFinalizers()) > 0 && isGroup(old) {
		s.deleteGroup(gvr, old)
		return nil
	}
	if a.Op == "delete" {
		s.noteNode("nodeRemoved", gvr, name)
		s.remove(gvr, old)
		return old
	}
	s.noteNode("nodeUpdated", gvr, name)
	s.noteGroup("groupUpdated", a.object)
	s.put(gvr, updated(old, withDefaults(a.object)))
	return nil
}

func (s *store) noteNode(event string, gvr schema.GroupVersionResource, name string) {
	if gvr == nodesGVR {
		s.timeline.add(happening{Event: event, Node: name})
	}
}

// updated is an object as somebody has changed it: identity and status stay, of a node the latter changes too.
func updated(old, object apiObject) apiObject {
	object.SetUID(old.GetUID())
	object.SetCreationTimestamp(old.GetCreationTimestamp())
	object.SetGeneration(old.GetGeneration() + 1)
	object.SetOwnerReferences(old.GetOwnerReferences())
	annotations := object.GetAnnotations()
	for key, value := range old.GetAnnotations() {
		if _, given := annotations[key]; !given {
			metav1.SetMetaDataAnnotation(metaOf(object), key, value)
		}
	}
	switch object := object.(type) {
	case *v1.Node:
		named(object)
	case *appsv1.ReplicaSet:
		object.Status = old.(*appsv1.ReplicaSet).Status
	case *appsv1.Deployment:
		object.Status = old.(*appsv1.Deployment).Status
	case *appsv1.StatefulSet:
		object.Status = old.(*appsv1.StatefulSet).Status
	case *appsv1.DaemonSet:
		object.Status = old.(*appsv1.DaemonSet).Status
	case *batchv1.CronJob:
		object.Status = old.(*batchv1.CronJob).Status
	case *batchv1.Job:
		before := old.(*batchv1.Job)
		object.Status, object.Spec.Selector = before.Status, before.Spec.Selector
		object.Spec.Template = before.Spec.Template // which is immutable
	case *policyv1.PodDisruptionBudget:
		object.Status = old.(*policyv1.PodDisruptionBudget).Status
	}
	updatedGroup(old, object)
	return object
}

func metaOf(object apiObject) *metav1.ObjectMeta {
	return object.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
}

func (s *store) arrivePod(op string, pod *v1.Pod) {
	if op == "delete" {
		_ = s.deletePod(pod.Namespace, pod.Name, metav1.DeleteOptions{}, "deleted", "user") // it may be gone
		return
	}
	s.mu.Lock()
	old, err := s.pod(pod.Namespace, pod.Name)
	if err == nil {
		changed := old.DeepCopy()
		changed.Labels, changed.Annotations = pod.Labels, pod.Annotations
		given := withDefaults(pod)
		changed.Spec.Tolerations, changed.Spec.SchedulingGates = given.Spec.Tolerations, given.Spec.SchedulingGates
		s.put(podsGVR, changed)
	}
	s.mu.Unlock()
	if err != nil && op == "create" {
		_ = s.Create(podsGVR, withDefaults(pod), pod.Namespace)
	}
}
