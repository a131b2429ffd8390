//go:build !kubernetes_1_34 && !kubernetes_1_35

package main

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

var (
	podsGVR  = v1.SchemeGroupVersion.WithResource("pods")
	nodesGVR = v1.SchemeGroupVersion.WithResource("nodes")
	jobsGVR  = batchv1.SchemeGroupVersion.WithResource("jobs")
)

// terminationSeconds is the annotation that says how long a pod takes to end where that is less than its grace.
const terminationSeconds = "terminationSeconds"

// watchBuffer is how many events wait for an informer: many more than are stored before it looks.
const watchBuffer = 2000

// store is the API server as far as scenarios go: what is kept, what DELETE and binding mean, and the kubelets, which have a
// pod run in the moment in which it is bound and end after its grace. Nothing in it takes time.
//
// It is the ObjectTracker of client-go's fake clientset, whose own one knows no resource versions, graces or finalizers.
type store struct {
	mu       sync.Mutex
	version  int64
	uids     int
	objects  map[schema.GroupVersionResource]map[types.NamespacedName]apiObject
	watchers map[schema.GroupVersionResource][]watcher
	timeline *timeline
	takes    *latencies
	ended    map[types.UID]bool
	ending   int
	names    map[string]int
	classes  map[string]*schedulingv1.PriorityClass // the default one is that of pods without a name, too
	podGone  func(pod *v1.Pod)                      // called with the lock held
}

// watcher is who watches; `unfinished`: pods that have ended are none to it.
type watcher struct {
	namespace  string
	unfinished bool
	to         *watch.FakeWatcher
}

func newStore(told *timeline, takes *latencies) *store {
	return &store{
		takes:    takes,
		objects:  map[schema.GroupVersionResource]map[types.NamespacedName]apiObject{},
		watchers: map[schema.GroupVersionResource][]watcher{},
		timeline: told,
		ended:    map[types.UID]bool{},
		names:    map[string]int{},
	}
}

func keyOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// put stores an object and tells who watches; the caller holds the lock and gives the object away.
func (s *store) put(gvr schema.GroupVersionResource, object apiObject) {
	s.version++
	object.SetResourceVersion(strconv.FormatInt(s.version, 10))
	if s.objects[gvr] == nil {
		s.objects[gvr] = map[types.NamespacedName]apiObject{}
	}
	old, known := s.objects[gvr][keyOf(object)]
	s.objects[gvr][keyOf(object)] = object
	kind := watch.Added
	if known {
		kind = watch.Modified
	}
	s.tell(gvr, kind, old, object)
}

func (s *store) remove(gvr schema.GroupVersionResource, object apiObject) {
	old := s.objects[gvr][keyOf(object)]
	delete(s.objects[gvr], keyOf(object))
	s.version++
	gone := object.DeepCopyObject().(apiObject)
	gone.SetResourceVersion(strconv.FormatInt(s.version, 10))
	s.tell(gvr, watch.Deleted, old, gone)
	if pod, ok := gone.(*v1.Pod); ok && s.podGone != nil {
		s.podGone(pod)
	}
}

// tell has who watches hear of a change. Who asked for unfinished pods hears that a pod is gone when it has finished, and no
// more of it: of an object that was and is not what was asked for, the API server sends nothing.
func (s *store) tell(gvr schema.GroupVersionResource, kind watch.EventType, old, object apiObject) {
	for _, w := range s.watchers[gvr] {
		if (w.namespace == "" || w.namespace == object.GetNamespace()) && !w.to.IsStopped() {
			told := kind
			if pod, ok := object.(*v1.Pod); ok && w.unfinished && finished(pod) {
				if before, ok := old.(*v1.Pod); !ok || finished(before) {
					continue
				}
				told = watch.Deleted
			}
			w.to.Action(told, object.DeepCopyObject())
		}
	}
}

func (s *store) get(gvr schema.GroupVersionResource, namespace, name string) (apiObject, error) {
	found, ok := s.objects[gvr][types.NamespacedName{Namespace: namespace, Name: name}]
	if !ok {
		return nil, apierrors.NewNotFound(gvr.GroupResource(), name)
	}
	return found, nil
}

func (s *store) pod(namespace, name string) (*v1.Pod, error) {
	found, err := s.get(podsGVR, namespace, name)
	if err != nil {
		return nil, err
	}
	return found.(*v1.Pod), nil
}

func (s *store) sorted(gvr schema.GroupVersionResource, namespace string) []apiObject {
	var found []apiObject
	for key, object := range s.objects[gvr] {
		if namespace == "" || key.Namespace == namespace {
			found = append(found, object)
		}
	}
	slices.SortFunc(found, func(a, b apiObject) int {
		return strings.Compare(keyOf(a).String(), keyOf(b).String())
	})
	return found
}

// The ObjectTracker of a fake clientset

func (s *store) Add(object runtime.Object) error {
	return fmt.Errorf("nothing adds a %T", object)
}

func (s *store) Get(gvr schema.GroupVersionResource, ns, name string, _ ...metav1.GetOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.get(gvr, ns, name)
	if err != nil {
		return nil, err
	}
	return found.DeepCopyObject(), nil
}

func (s *store) Create(gvr schema.GroupVersionResource, given runtime.Object, ns string, _ ...metav1.CreateOptions) error {
	object, ok := given.DeepCopyObject().(apiObject)
	if !ok {
		return fmt.Errorf("not an object: %T", given)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	object.SetNamespace(ns)
	if _, err := s.get(gvr, ns, object.GetName()); err == nil {
		return apierrors.NewAlreadyExists(gvr.GroupResource(), object.GetName())
	}
	s.uids++
	object.SetUID(types.UID(fmt.Sprintf("%08d", s.uids)))
	object.SetCreationTimestamp(metav1.Time{Time: time.Now().Truncate(time.Second)})
	object.SetGeneration(1)
	switch created := object.(type) {
	case *v1.Pod:
		if err := s.admit(created); err != nil {
			return err
		}
		created.Status = v1.PodStatus{Phase: v1.PodPending}
		s.timeline.add(happening{Event: "created", Pod: keyOf(created).String()})
	case *v1.PersistentVolumeClaim:
		created.Finalizers = append(created.Finalizers, protection)
		created.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending}
	case *v1.PersistentVolume:
		created.Status = v1.PersistentVolumeStatus{Phase: v1.VolumePending}
	case *batchv1.Job: // of a CronJob
		legacyscheme.Scheme.Default(created)
		selects(created)
	}
	s.put(gvr, object)
	return nil
}

func (s *store) Update(gvr schema.GroupVersionResource, given runtime.Object, ns string, _ ...metav1.UpdateOptions) error {
	return s.update(gvr, given, ns, "")
}

// update changes all but the status, or only that.
func (s *store) update(gvr schema.GroupVersionResource, given runtime.Object, ns, subresource string) error {
	object, ok := given.DeepCopyObject().(apiObject)
	if !ok {
		return fmt.Errorf("not an object: %T", given)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.get(gvr, ns, object.GetName())
	if err != nil {
		return err
	}
	if version := object.GetResourceVersion(); version != "" && version != old.GetResourceVersion() {
		return apierrors.NewConflict(gvr.GroupResource(), object.GetName(), fmt.Errorf("it has changed"))
	}
	from, to := old, object
	if subresource == "status" {
		from, to = object, old.DeepCopyObject().(apiObject)
		to.SetAnnotations(object.GetAnnotations()) // by which the controller of Deployments numbers its revisions
	}
	if status := reflect.ValueOf(to).Elem().FieldByName("Status"); status.IsValid() {
		status.Set(reflect.ValueOf(from.DeepCopyObject()).Elem().FieldByName("Status"))
	}
	if subresource == "" {
		to.SetUID(old.GetUID())
		to.SetCreationTimestamp(old.GetCreationTimestamp())
		if spec := reflect.ValueOf(to).Elem().FieldByName("Spec"); spec.IsValid() &&
			!reflect.DeepEqual(spec.Interface(), reflect.ValueOf(old).Elem().FieldByName("Spec").Interface()) {
			to.SetGeneration(old.GetGeneration() + 1)
		}
	}
	s.changed(gvr, old, to)
	return nil
}

// Patch stores an object that the fake clientset has patched.
func (s *store) Patch(gvr schema.GroupVersionResource, given runtime.Object, ns string, _ ...metav1.PatchOptions) error {
	object, ok := given.DeepCopyObject().(apiObject)
	if !ok {
		return fmt.Errorf("not an object: %T", given)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.get(gvr, ns, object.GetName())
	if err != nil {
		return err
	}
	if object.GetUID() != old.GetUID() {
		return apierrors.NewConflict(gvr.GroupResource(), object.GetName(), fmt.Errorf("its UID is another"))
	}
	s.changed(gvr, old, object)
	return nil
}

// changed stores what has become of an object, and says so. What changes nothing is no event.
func (s *store) changed(gvr schema.GroupVersionResource, old, object apiObject) {
	if object.SetResourceVersion(old.GetResourceVersion()); equality.Semantic.DeepEqual(old, object) {
		return
	}
	switch to := object.(type) {
	case *v1.Pod:
		before, after := old.(*v1.Pod).Status.NominatedNodeName, to.Status.NominatedNodeName
		if after != "" && after != before {
			s.timeline.add(happening{Event: "nominated", Pod: keyOf(to).String(), Node: after})
		} else if after == "" && before != "" && to.Spec.NodeName == "" {
			s.timeline.add(happening{Event: "nominationCleared", Pod: keyOf(to).String(), Node: before})
		}
		s.put(gvr, to)
		if s.ended[to.UID] && len(to.Finalizers) == 0 {
			s.remove(gvr, to)
		}
		return
	case *v1.PersistentVolumeClaim:
		s.put(gvr, to)
		if to.DeletionTimestamp != nil && len(to.Finalizers) == 0 {
			s.remove(gvr, to)
		}
		return
	case *batchv1.Job:
		if !jobFailed(old.(*batchv1.Job)) && jobFailed(to) {
			s.timeline.add(happening{Event: "jobFailed", Message: keyOf(to).String()})
		}
	}
	if s.changedGroup(gvr, old, object) {
		return
	}
	s.put(gvr, object)
}

func jobFailed(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobFailed && c.Status == v1.ConditionTrue
	})
}

func (s *store) Apply(schema.GroupVersionResource, runtime.Object, string, ...metav1.PatchOptions) error {
	return fmt.Errorf("nothing applies")
}

func (s *store) List(
	gvr schema.GroupVersionResource, gvk schema.GroupVersionKind, ns string, _ ...metav1.ListOptions,
) (runtime.Object, error) {
	gvk.Kind += "List"
	list, err := clientgoscheme.Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var items []runtime.Object
	for _, object := range s.sorted(gvr, ns) {
		items = append(items, object.DeepCopyObject())
	}
	if err := meta.SetList(list, items); err != nil {
		return nil, err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	accessor.SetResourceVersion(strconv.FormatInt(s.version, 10))
	return list, nil
}

func (s *store) Delete(gvr schema.GroupVersionResource, ns, name string, _ ...metav1.DeleteOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.get(gvr, ns, name)
	if err != nil {
		return err
	}
	s.remove(gvr, found)
	return nil
}

// Watch has a field selector mean one thing: that finished pods are left out, which is what the scheduler asks for.
func (s *store) Watch(gvr schema.GroupVersionResource, ns string, opts ...metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := watch.NewFakeWithChanSize(watchBuffer, false)
	s.watchers[gvr] = append(s.watchers[gvr], watcher{ns, len(opts) > 0 && opts[0].FieldSelector != "", to})
	if len(opts) > 0 && opts[0].ResourceVersion != "" {
		since, err := strconv.ParseInt(opts[0].ResourceVersion, 10, 64)
		if err != nil {
			return nil, err
		}
		for _, object := range s.sorted(gvr, ns) {
			if version, _ := strconv.ParseInt(object.GetResourceVersion(), 10, 64); version > since {
				to.Add(object.DeepCopyObject())
			}
		}
	}
	return to, nil
}

// Pods

// nameFor is the name of a controller's new pod: numbered, where the API server would have drawn it. That of a
// DaemonSet is its node's, and a number where the old pod is still there.
func (s *store) nameFor(pod *v1.Pod) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return pod.GenerateName
	}
	if owner.Kind == "DaemonSet" {
		return s.freeName(pod.Namespace, owner.Name+"-"+nodeOfDaemon(pod))
	}
	group := pod.Namespace + "/" + owner.Kind + "/" + owner.Name
	s.names[group]++
	return fmt.Sprintf("%s-%d", strings.TrimSuffix(pod.GenerateName, "-"), s.names[group])
}

func (s *store) freeName(ns, name string) string {
	free := name
	for number := 2; ; number++ {
		if _, err := s.get(podsGVR, ns, free); err != nil {
			return free
		}
		free = fmt.Sprintf("%s-%d", name, number)
	}
}

func nodeOfDaemon(pod *v1.Pod) string {
	for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// countName takes note of a pod that was there before.
func (s *store) countName(pod *v1.Pod) {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		s.names[pod.Namespace+"/"+owner.Kind+"/"+owner.Name]++
	}
}

// bind is what pkg/registry/core/pod/storage does, and the kubelet of the node at once.
func (s *store) bind(namespace string, binding *v1.Binding) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.pod(namespace, binding.Name)
	if err != nil {
		return err
	}
	if old.DeletionTimestamp != nil || old.Spec.NodeName != "" || binding.UID != "" && binding.UID != old.UID {
		return apierrors.NewConflict(podsGVR.GroupResource(), binding.Name, fmt.Errorf("it ends, is bound, or is another"))
	}
	pod := old.DeepCopy()
	pod.Spec.NodeName = binding.Target.Name
	pod.Status.NominatedNodeName = ""
	runs(pod, time.Now())
	s.timeline.add(happening{Event: "scheduled", Pod: keyOf(pod).String(), Node: pod.Spec.NodeName})
	s.put(podsGVR, pod)
	return nil
}

// runs is the status of a pod whose containers have started.
func runs(pod *v1.Pod, since time.Time) {
	start := metav1.Time{Time: since.Truncate(time.Second)}
	pod.Status.Phase, pod.Status.StartTime = v1.PodRunning, &start
	pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled || c.Type == v1.PodReady
	})
	for _, kind := range []v1.PodConditionType{v1.PodScheduled, v1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions,
			v1.PodCondition{Type: kind, Status: v1.ConditionTrue, LastTransitionTime: start})
	}
}

// deletePod is DELETE; `event` is what it is called in the timeline.
func (s *store) deletePod(namespace, name string, o metav1.DeleteOptions, event, who string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.pod(namespace, name)
	if err != nil {
		return err
	}
	if o.Preconditions != nil && o.Preconditions.UID != nil && *o.Preconditions.UID != old.UID {
		return apierrors.NewConflict(podsGVR.GroupResource(), name, fmt.Errorf("its UID is another"))
	}
	first := old.DeletionTimestamp == nil
	if first || event == "preempted" && !s.ended[old.UID] {
		s.timeline.add(happening{Event: event, Pod: keyOf(old).String(), Node: old.Spec.NodeName, Message: who})
	}
	grace := int64(30)
	if old.Spec.TerminationGracePeriodSeconds != nil {
		grace = *old.Spec.TerminationGracePeriodSeconds
	}
	if o.GracePeriodSeconds != nil {
		grace = *o.GracePeriodSeconds
	}
	if old.Spec.NodeName == "" {
		grace = 0
	}
	pod := old
	if first {
		pod = old.DeepCopy()
		until := metav1.Time{Time: time.Now().Truncate(time.Second).Add(time.Duration(grace) * time.Second)}
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &until, &grace
	}
	if grace == 0 {
		s.end(pod)
		return nil
	}
	if first {
		s.put(podsGVR, pod)
		s.ending++
		ends := endsAfter(pod, grace) + s.takes.of(writeTakes, "kubelet", namespace+"/"+name)
		time.AfterFunc(ends, func() { s.endLater(namespace, name, pod.UID) })
	}
	return nil
}

func endsAfter(pod *v1.Pod, grace int64) time.Duration {
	if told, err := strconv.ParseInt(pod.Annotations[terminationSeconds], 10, 64); err == nil && told >= 0 {
		grace = min(grace, told)
	}
	return time.Duration(grace) * time.Second
}

func (s *store) endLater(namespace, name string, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending--
	if pod, err := s.pod(namespace, name); err == nil && pod.UID == uid && !s.ended[uid] {
		s.end(pod)
	}
}

// end has a pod's containers stopped. It is gone then, though a Job's finalizer may keep the object until it was counted:
// for the scheduler a failed pod is as good as none.
func (s *store) end(old *v1.Pod) {
	if !s.ended[old.UID] {
		s.timeline.add(happening{Event: "gone", Pod: keyOf(old).String(), Node: old.Spec.NodeName})
	}
	s.ended[old.UID] = true
	if len(old.Finalizers) == 0 {
		s.remove(podsGVR, old)
		return
	}
	pod := old.DeepCopy()
	pod.Status.Phase = v1.PodFailed
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodReady { // when it ended, for its Job
			c.Status, c.LastTransitionTime = v1.ConditionFalse, metav1.Time{Time: time.Now().Truncate(time.Second)}
		}
	}
	s.put(podsGVR, pod)
}

// ownedBy lists the objects that a controller owns, in the order in which they were stored first.
func (s *store) ownedBy(gvr schema.GroupVersionResource, owner types.UID) []apiObject {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := slices.DeleteFunc(s.sorted(gvr, ""), func(object apiObject) bool {
		controller := metav1.GetControllerOf(object)
		return controller == nil || controller.UID != owner
	})
	slices.SortFunc(found, func(a, b apiObject) int { return strings.Compare(string(a.GetUID()), string(b.GetUID())) })
	return found
}

// isEnding tells whether some pod is told to end and has not.
func (s *store) isEnding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending > 0
}

var _ clienttesting.ObjectTracker = &store{}
