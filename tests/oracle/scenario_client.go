//go:build !kubernetes_1_34 && !kubernetes_1_35

package main

import (
	"context"
	"hash/crc32"
	"math/rand"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	batchclient "k8s.io/client-go/kubernetes/typed/batch/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	policyclient "k8s.io/client-go/kubernetes/typed/policy/v1"
	clienttesting "k8s.io/client-go/testing"
)

const (
	writeTakes = time.Millisecond
	cycleTakes = 100 * time.Microsecond
	mostJitter = 12.0
)

// latencies says how long things take: a write or a cycle, up to a tenth more by what is done, and in runs with
// dice up to twelve times more; nothing takes any time where there are `none`.
type latencies struct {
	mu   sync.Mutex
	dice *rand.Rand
	none bool

	unnamed int
}

func (l *latencies) of(takes time.Duration, verb, name string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.none {
		return 0
	}
	share := float64(crc32.ChecksumIEEE([]byte(verb+" "+name))%997) / 9970
	if l.dice != nil {
		share += l.dice.Float64() * mostJitter
	}
	return time.Duration(float64(takes) * (1 + share))
}

func (l *latencies) write(verb, namespace, name string) {
	if name == "" {
		name = l.drawn()
	}
	time.Sleep(l.of(writeTakes, verb, namespace+"/"+name))
}

// drawn stands for a name that is not known yet: no two writes take the same time.
func (l *latencies) drawn() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unnamed++
	return strconv.Itoa(l.unnamed)
}

// client is a clientset whose writes take time. They sleep here and not in the reactors of the fake one, which hold a lock:
// who waits for a lock keeps the time of a bubble from going on.
type client struct {
	*fake.Clientset
	store *store
	takes *latencies
	who   string
	event string

	collect func(removed apiObject) // the garbage collector
}

// newClientset makes the fake clientset of a store, for the clients of all components.
func newClientset(s *store) *fake.Clientset {
	set := &fake.Clientset{}
	set.AddReactor("update", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		update, ok := action.(clienttesting.UpdateActionImpl)
		if !ok || update.GetSubresource() == "" {
			return false, nil, nil
		}
		object := update.GetObject().(apiObject)
		if err := s.update(update.GetResource(), object, update.GetNamespace(), update.GetSubresource()); err != nil {
			return true, nil, err
		}
		stored, err := s.Get(update.GetResource(), update.GetNamespace(), object.GetName())
		return true, stored, err
	})
	set.AddReactor("*", "*", clienttesting.ObjectReaction(s))
	set.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		var options metav1.ListOptions
		if given, ok := action.(clienttesting.WatchActionImpl); ok {
			options = given.ListOptions
		}
		watching, err := s.Watch(action.GetResource(), action.GetNamespace(), options)
		return true, watching, err
	})
	return set
}

func (c *client) CoreV1() coreclient.CoreV1Interface { return slowCore{c.Clientset.CoreV1(), c} }

func (c *client) AppsV1() appsclient.AppsV1Interface { return slowApps{c.Clientset.AppsV1(), c} }

func (c *client) BatchV1() batchclient.BatchV1Interface { return slowBatch{c.Clientset.BatchV1(), c} }

func (c *client) PolicyV1() policyclient.PolicyV1Interface {
	return slowPolicy{c.Clientset.PolicyV1(), c}
}

type slowCore struct {
	coreclient.CoreV1Interface
	client *client
}

func (c slowCore) Pods(namespace string) coreclient.PodInterface {
	return slowPods{c.CoreV1Interface.Pods(namespace), namespace, c.client}
}

type slowPods struct {
	coreclient.PodInterface
	namespace string
	client    *client
}

func (p slowPods) Create(ctx context.Context, pod *v1.Pod, o metav1.CreateOptions) (*v1.Pod, error) {
	p.client.takes.write("create", p.namespace, pod.Name)
	if pod.Name == "" { // numbered in the order in which they are stored: controllers make several at once
		pod = pod.DeepCopy()
		pod.Namespace = p.namespace
		pod.Name = p.client.store.nameFor(pod)
	}
	return p.PodInterface.Create(ctx, withDefaults(pod), o)
}

func (p slowPods) Update(ctx context.Context, pod *v1.Pod, o metav1.UpdateOptions) (*v1.Pod, error) {
	p.client.takes.write("update", p.namespace, pod.Name)
	return p.PodInterface.Update(ctx, pod, o)
}

func (p slowPods) UpdateStatus(ctx context.Context, pod *v1.Pod, o metav1.UpdateOptions) (*v1.Pod, error) {
	p.client.takes.write("patch", p.namespace, pod.Name)
	return p.PodInterface.UpdateStatus(ctx, pod, o)
}

func (p slowPods) Patch(
	ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string,
) (*v1.Pod, error) {
	p.client.takes.write("patch", p.namespace, name)
	return p.PodInterface.Patch(ctx, name, kind, data, o, subresources...)
}

func (p slowPods) Delete(_ context.Context, name string, o metav1.DeleteOptions) error {
	p.client.takes.write("delete", p.namespace, name)
	return p.client.store.deletePod(p.namespace, name, o, p.client.event, p.client.who)
}

func (p slowPods) Bind(_ context.Context, binding *v1.Binding, _ metav1.CreateOptions) error {
	p.client.takes.write("bind", p.namespace, binding.Name)
	return p.client.store.bind(p.namespace, binding)
}

// List leaves out finished pods for the scheduler: its informer asks for that by a field selector, which a fake
// clientset does not know.
func (p slowPods) List(ctx context.Context, o metav1.ListOptions) (*v1.PodList, error) {
	list, err := p.PodInterface.List(ctx, o)
	if err != nil || o.FieldSelector == "" {
		return list, err
	}
	kept := list.Items[:0]
	for i := range list.Items {
		if !finished(&list.Items[i]) {
			kept = append(kept, list.Items[i])
		}
	}
	list.Items = kept
	return list, nil
}

type slowApps struct {
	appsclient.AppsV1Interface
	client *client
}

func (a slowApps) ReplicaSets(namespace string) appsclient.ReplicaSetInterface {
	return slowReplicaSets{a.AppsV1Interface.ReplicaSets(namespace), namespace, a.client}
}

func (a slowApps) Deployments(namespace string) appsclient.DeploymentInterface {
	return slowDeployments{a.AppsV1Interface.Deployments(namespace), namespace, a.client}
}

func (a slowApps) StatefulSets(namespace string) appsclient.StatefulSetInterface {
	return slowStatefulSets{a.AppsV1Interface.StatefulSets(namespace), namespace, a.client}
}

func (a slowApps) DaemonSets(namespace string) appsclient.DaemonSetInterface {
	return slowDaemonSets{a.AppsV1Interface.DaemonSets(namespace), namespace, a.client}
}

func (a slowApps) ControllerRevisions(namespace string) appsclient.ControllerRevisionInterface {
	return slowRevisions{a.AppsV1Interface.ControllerRevisions(namespace), namespace, a.client}
}

// slowRevisions are written in a time that goes by the set whose they are: their own names end in a hash.
type slowRevisions struct {
	appsclient.ControllerRevisionInterface
	namespace string
	client    *client
}

func (r slowRevisions) Create(
	ctx context.Context, revision *appsv1.ControllerRevision, o metav1.CreateOptions,
) (*appsv1.ControllerRevision, error) {
	r.client.takes.write("create", r.namespace, setOf(revision))
	return r.ControllerRevisionInterface.Create(ctx, revision, o)
}

func (r slowRevisions) Update(
	ctx context.Context, revision *appsv1.ControllerRevision, o metav1.UpdateOptions,
) (*appsv1.ControllerRevision, error) {
	r.client.takes.write("create", r.namespace, setOf(revision))
	return r.ControllerRevisionInterface.Update(ctx, revision, o)
}

func setOf(revision *appsv1.ControllerRevision) string {
	if set := metav1.GetControllerOf(revision); set != nil {
		return set.Name
	}
	return revision.Name
}

type slowReplicaSets struct {
	appsclient.ReplicaSetInterface
	namespace string
	client    *client
}

func (r slowReplicaSets) Create(ctx context.Context, set *appsv1.ReplicaSet, o metav1.CreateOptions) (*appsv1.ReplicaSet, error) {
	r.client.takes.write("create", r.namespace, set.Name)
	return r.ReplicaSetInterface.Create(ctx, set, o)
}

func (r slowReplicaSets) Update(ctx context.Context, set *appsv1.ReplicaSet, o metav1.UpdateOptions) (*appsv1.ReplicaSet, error) {
	r.client.takes.write("update", r.namespace, set.Name)
	return r.ReplicaSetInterface.Update(ctx, set, o)
}

func (r slowReplicaSets) UpdateStatus(ctx context.Context, set *appsv1.ReplicaSet, o metav1.UpdateOptions) (*appsv1.ReplicaSet, error) {
	r.client.takes.write("status", r.namespace, set.Name)
	return r.ReplicaSetInterface.UpdateStatus(ctx, set, o)
}

type slowDeployments struct {
	appsclient.DeploymentInterface
	namespace string
	client    *client
}

func (d slowDeployments) Update(ctx context.Context, set *appsv1.Deployment, o metav1.UpdateOptions) (*appsv1.Deployment, error) {
	d.client.takes.write("update", d.namespace, set.Name)
	return d.DeploymentInterface.Update(ctx, set, o)
}

func (d slowDeployments) UpdateStatus(ctx context.Context, set *appsv1.Deployment, o metav1.UpdateOptions) (*appsv1.Deployment, error) {
	d.client.takes.write("status", d.namespace, set.Name)
	return d.DeploymentInterface.UpdateStatus(ctx, set, o)
}

type slowStatefulSets struct {
	appsclient.StatefulSetInterface
	namespace string
	client    *client
}

func (s slowStatefulSets) UpdateStatus(ctx context.Context, set *appsv1.StatefulSet, o metav1.UpdateOptions) (*appsv1.StatefulSet, error) {
	s.client.takes.write("status", s.namespace, set.Name)
	return s.StatefulSetInterface.UpdateStatus(ctx, set, o)
}

type slowDaemonSets struct {
	appsclient.DaemonSetInterface
	namespace string
	client    *client
}

func (s slowDaemonSets) UpdateStatus(ctx context.Context, set *appsv1.DaemonSet, o metav1.UpdateOptions) (*appsv1.DaemonSet, error) {
	s.client.takes.write("status", s.namespace, set.Name)
	return s.DaemonSetInterface.UpdateStatus(ctx, set, o)
}

type slowBatch struct {
	batchclient.BatchV1Interface
	client *client
}

func (b slowBatch) Jobs(namespace string) batchclient.JobInterface {
	return slowJobs{b.BatchV1Interface.Jobs(namespace), namespace, b.client}
}

func (b slowBatch) CronJobs(namespace string) batchclient.CronJobInterface {
	return slowCronJobs{b.BatchV1Interface.CronJobs(namespace), namespace, b.client}
}

type slowCronJobs struct {
	batchclient.CronJobInterface
	namespace string
	client    *client
}

func (c slowCronJobs) UpdateStatus(ctx context.Context, job *batchv1.CronJob, o metav1.UpdateOptions) (*batchv1.CronJob, error) {
	c.client.takes.write("status", c.namespace, job.Name)
	return c.CronJobInterface.UpdateStatus(ctx, job, o)
}

type slowJobs struct {
	batchclient.JobInterface
	namespace string
	client    *client
}

func (j slowJobs) UpdateStatus(ctx context.Context, job *batchv1.Job, o metav1.UpdateOptions) (*batchv1.Job, error) {
	j.client.takes.write("status", j.namespace, job.Name)
	return j.JobInterface.UpdateStatus(ctx, job, o)
}

type slowPolicy struct {
	policyclient.PolicyV1Interface
	client *client
}

func (p slowPolicy) PodDisruptionBudgets(namespace string) policyclient.PodDisruptionBudgetInterface {
	return slowBudgets{p.PolicyV1Interface.PodDisruptionBudgets(namespace), namespace, p.client}
}

type slowBudgets struct {
	policyclient.PodDisruptionBudgetInterface
	namespace string
	client    *client
}

func (b slowBudgets) UpdateStatus(
	ctx context.Context, budget *policyv1.PodDisruptionBudget, o metav1.UpdateOptions,
) (*policyv1.PodDisruptionBudget, error) {
	b.client.takes.write("status", b.namespace, budget.Name)
	return b.PodDisruptionBudgetInterface.UpdateStatus(ctx, budget, o)
}

func (j slowJobs) Create(ctx context.Context, job *batchv1.Job, o metav1.CreateOptions) (*batchv1.Job, error) {
	j.client.takes.write("create", j.namespace, job.Name)
	return j.JobInterface.Create(ctx, job, o)
}

// Delete of a Job is a CronJob's that replaces it; the garbage collector takes its pods.
func (j slowJobs) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	j.client.takes.write("delete", j.namespace, name)
	job, err := j.client.store.Get(jobsGVR, j.namespace, name)
	if err != nil {
		return err
	}
	if err := j.JobInterface.Delete(ctx, name, o); err != nil {
		return err
	}
	j.client.collect(job.(apiObject))
	return nil
}
