//go:build !kubernetes_1_34 && !kubernetes_1_35

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	scalefake "k8s.io/client-go/scale/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/podgc"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/kubernetes/pkg/controller/tainteviction"
	"k8s.io/kubernetes/pkg/scheduler"
)

// When what starts, in seconds from time 0.
const (
	revisionsMade    = -60 * time.Second
	schedulerStarts  = -10 * time.Second
	queueStarts      = -500 * time.Millisecond
	collectorStarts  = 5700 * time.Millisecond
	arrivalsApart    = time.Millisecond
	recorderLingers  = 5 * time.Second
	endLooksEvery    = time.Second
	burstOfReplicas  = 500
	collectorPeriod  = 20 * time.Second
	quarantine       = 40*time.Second + time.Millisecond // in the bubble a round takes no time: what is due with it is for the next
	daemonBackoff    = time.Second
	daemonBackoffMax = 15 * time.Minute
)

// world is a cluster in a bubble of virtual time: the scheduler, kube-controller-manager's controllers, and the store.
type world struct {
	scenario *scenario
	store    *store
	set      *fake.Clientset
	takes    *latencies
	running  sync.WaitGroup
}

// outcome is what one run has come to.
type outcome struct {
	Count    int                 `json:"count"`
	Timeline []happening         `json:"timeline"`
	Final    map[string]podAtEnd `json:"final"`
	Pending  []string            `json:"pending"`
	EndedAt  float64             `json:"endedAt"`
}

type podAtEnd struct {
	Node        string `json:"node"`
	Nominated   string `json:"nominated,omitempty"`
	Terminating bool   `json:"terminating,omitempty"`
}

// play runs a scenario once, in a bubble of its own. dice: for jitter; nil: fixed latencies.
func play(t *testing.T, s *scenario, dice *rand.Rand) (came *outcome, err error) {
	synctest.Test(t, func(*testing.T) {
		defer func() {
			if crash := recover(); crash != nil {
				err = fmt.Errorf("crashed: %v", crash)
			}
		}()
		told := &timeline{muted: true, events: []happening{}}
		takes := &latencies{dice: dice}
		stored := newStore(told, takes)
		w := &world{scenario: s, store: stored, set: newClientset(stored), takes: takes}
		stored.podGone = func(pod *v1.Pod) { w.goes(func() { w.collectClaims(pod.UID) }) }
		came, err = w.run()
	})
	return came, err
}

func sleepUntil(when time.Duration) { time.Sleep(time.Until(epoch.Add(when))) }

func (w *world) client(who string) *client {
	event := "deleted"
	if who == "scheduler" {
		event = "preempted"
	}
	collect := func(removed apiObject) { w.goes(func() { w.collect(removed) }) }
	return &client{Clientset: w.set, store: w.store, takes: w.takes, who: who, event: event, collect: collect}
}

func (w *world) run() (*outcome, error) {
	sleepUntil(revisionsMade)
	if err := w.makeRevisions(); err != nil {
		return nil, err
	}
	w.load()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	defer func() {
		cancel()
		time.Sleep(recorderLingers)
		w.running.Wait()
	}()
	sleepUntil(schedulerStarts)
	sched, err := w.newScheduler(ctx)
	if err != nil {
		return nil, err
	}
	start, err := w.newControllers(ctx)
	if err != nil {
		return nil, err
	}
	sleepUntil(queueStarts)
	w.store.timeline.muted = false
	w.goes(func() { sched.Run(ctx) })
	sleepUntil(0)
	w.store.timeline.last = time.Now()
	start()
	w.waitForTheEnd()
	return w.outcome(), nil
}

func (w *world) goes(run func()) {
	w.running.Add(1)
	go func() {
		defer w.running.Done()
		run()
	}()
}

// makeRevisions has the controllers of StatefulSets and DaemonSets make the revisions by which they know their pods. They
// see sets without pods and a cluster without nodes, so that they make nothing else.
func (w *world) makeRevisions() error {
	w.takes.none = true
	defer func() { w.takes.none = false }()
	for _, object := range w.scenario.workloads {
		switch object := object.(type) {
		case *appsv1.StatefulSet:
			empty := object.DeepCopy()
			empty.Spec.Replicas = new(int32)
			w.store.load(empty)
		case *appsv1.DaemonSet:
			w.store.load(object)
		}
	}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	c := w.client("before")
	factory := informers.NewSharedInformerFactory(c, 0)
	sets := newStatefulSets(ctx, factory, c)
	daemons, err := newDaemonSets(ctx, factory, c)
	if err != nil {
		cancel()
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	var running sync.WaitGroup
	for _, run := range []func(){func() { sets.Run(ctx, 1) }, func() { daemons.Run(ctx, 1) }} {
		running.Add(1)
		go func() { defer running.Done(); run() }()
	}
	time.Sleep(3 * time.Second)
	cancel()
	running.Wait()
	factory.Shutdown()
	return nil
}

// load stores what is there at time 0.
func (w *world) load() {
	w.store.classes = map[string]*schedulingv1.PriorityClass{}
	for _, class := range w.scenario.PriorityClasses {
		w.store.classes[class.Name] = class
		if class.GlobalDefault {
			w.store.classes[""] = class
		}
	}
	w.store.load(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}})
	for _, namespace := range w.scenario.Namespaces {
		if namespace.Name != metav1.NamespaceDefault {
			w.store.load(namespace)
		}
	}
	for _, node := range w.scenario.Nodes {
		w.store.load(node)
	}
	for _, object := range w.scenario.workloads {
		switch object := object.(type) {
		case *appsv1.StatefulSet:
			w.store.resize(object)
		case *appsv1.DaemonSet:
		default:
			w.store.load(object)
		}
	}
	w.store.own(w.scenario.workloads)
	for _, group := range w.scenario.groups {
		w.store.load(group)
	}
	w.store.loadStorage(w.scenario)
	w.store.loadPods(w.scenario.Pods)
	for _, budget := range w.scenario.PDBs {
		if budget.Namespace == "" {
			budget.Namespace = metav1.NamespaceDefault
		}
		w.store.load(budget)
	}
}

func (w *world) newScheduler(ctx context.Context) (*scheduler.Scheduler, error) {
	c := w.client("scheduler")
	factory := newInformerFactory(c)
	told := func(string) events.EventRecorderLogger { return recorder{w.store.timeline} }
	sched, err := scheduler.New(ctx, c, factory, nil, told)
	if err != nil {
		return nil, err
	}
	w.slowCycles(sched)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return sched, sched.WaitForHandlersSync(ctx)
}

func newStatefulSets(ctx context.Context, f informers.SharedInformerFactory, c *client) *statefulset.StatefulSetController {
	return statefulset.NewStatefulSetController(ctx, f.Core().V1().Pods(), f.Apps().V1().StatefulSets(),
		f.Core().V1().PersistentVolumeClaims(), f.Apps().V1().ControllerRevisions(), c)
}

func newDaemonSets(ctx context.Context, f informers.SharedInformerFactory, c *client) (*daemon.DaemonSetsController, error) {
	return daemon.NewDaemonSetsController(ctx, f.Apps().V1().DaemonSets(), f.Apps().V1().ControllerRevisions(),
		f.Core().V1().Pods(), f.Core().V1().Nodes(), c, flowcontrol.NewBackOff(daemonBackoff, daemonBackoffMax))
}

// newControllers wires kube-controller-manager's controllers, with as many workers as it gives them. The one of disruption
// budgets runs at once, the others when `start` is called.
func (w *world) newControllers(ctx context.Context) (start func(), err error) {
	factory := informers.NewSharedInformerFactory(w.client("informers"), 0)
	core, apps := factory.Core().V1(), factory.Apps().V1()
	replicaSets := replicaset.NewReplicaSetController(ctx, apps.ReplicaSets(), core.Pods(), w.client("ReplicaSet"), burstOfReplicas)
	deployments, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), core.Pods(), w.client("Deployment"))
	sets := newStatefulSets(ctx, factory, w.client("StatefulSet"))
	daemons, err2 := newDaemonSets(ctx, factory, w.client("DaemonSet"))
	jobs, err3 := job.NewController(ctx, w.client("Job"), core.Pods(), factory.Batch().V1().Jobs(), nil, nil)
	cronJobs, err4 := cronjob.NewControllerV2(ctx, factory.Batch().V1().Jobs(), factory.Batch().V1().CronJobs(), w.client("CronJob"))
	taints, err5 := tainteviction.New(ctx, w.client("taint"), core.Pods(), core.Nodes(), "taint-eviction-controller")
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	budgets := disruption.NewDisruptionController(ctx, core.Pods(), factory.Policy().V1().PodDisruptionBudgets(),
		core.ReplicationControllers(), apps.ReplicaSets(), apps.Deployments(), apps.StatefulSets(), w.client("disruption"),
		mapper(), noScales(), w.discovery())
	startVolumes, err := w.newVolumeControllers(ctx, factory)
	startGroups, err2 := w.newGroupControllers(ctx, factory)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	collector := podgc.NewPodGCInternal(ctx, w.client("pod garbage collector"), core.Pods(), core.Nodes(), 0, collectorPeriod, quarantine)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	w.goes(func() { runDisruption(ctx, budgets) })
	return func() {
		w.goes(func() { deployments.Run(ctx, 5) })
		w.goes(func() { replicaSets.Run(ctx, 5) })
		w.goes(func() { sets.Run(ctx, 5) })
		w.goes(func() { daemons.Run(ctx, 2) })
		w.goes(func() { jobs.Run(ctx, 5) })
		w.goes(func() { cronJobs.Run(ctx, 5) })
		w.goes(func() { taints.Run(ctx) })
		startVolumes()
		startGroups()
		w.goes(func() {
			sleepUntil(collectorStarts)
			collector.Run(ctx)
		})
	}, nil
}

// What the controller of disruption budgets asks about kinds that it does not know: Jobs and DaemonSets have no scale.

func mapper() meta.RESTMapper {
	made := meta.NewDefaultRESTMapper(nil)
	made.Add(batchv1.SchemeGroupVersion.WithKind("Job"), meta.RESTScopeNamespace)
	made.Add(appsv1.SchemeGroupVersion.WithKind("DaemonSet"), meta.RESTScopeNamespace)
	return made
}

func noScales() *scalefake.FakeScaleClient {
	scales := &scalefake.FakeScaleClient{}
	scales.AddReactor("get", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(action.GetResource().GroupResource(), "scale")
	})
	return scales
}

func (w *world) discovery() discovery.DiscoveryInterface {
	asked := &clienttesting.Fake{Resources: []*metav1.APIResourceList{
		{GroupVersion: appsv1.SchemeGroupVersion.String()}, {GroupVersion: batchv1.SchemeGroupVersion.String()},
	}}
	return &fakediscovery.FakeDiscovery{Fake: asked}
}

// waitForTheEnd has the arrivals come, and returns when nothing more will happen, or at the horizon.
func (w *world) waitForTheEnd() {
	arrivals := slices.Clone(w.scenario.Arrivals)
	slices.SortStableFunc(arrivals, func(a, b arrival) int { return int(1e6 * (a.At - b.At)) })
	horizon := seconds(w.scenario.HorizonSeconds)
	last := -time.Second
	for _, a := range arrivals {
		last = max(seconds(a.At), last+arrivalsApart)
		if last > horizon {
			break
		}
		sleepUntil(last)
		if a.Op == "drain" {
			w.drain(a.object.GetName())
			continue
		}
		if removed := w.store.arrive(a); removed != nil {
			w.goes(func() { w.collect(removed) })
		}
	}
	for time.Now().Before(epoch.Add(horizon)) {
		quiet := w.store.timeline.lastChange().Add(seconds(w.scenario.QuietSeconds))
		if !w.store.isEnding() && !time.Now().Before(quiet) {
			return
		}
		time.Sleep(min(endLooksEvery, time.Until(epoch.Add(horizon))))
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// collect is the garbage collector: who has lost the owner is deleted.
func (w *world) collect(owner apiObject) {
	c := w.client("garbage collector")
	for _, gvr := range []schema.GroupVersionResource{appsv1.SchemeGroupVersion.WithResource("replicasets"), jobsGVR} {
		for _, owned := range w.store.ownedBy(gvr, owner.GetUID()) {
			_ = w.store.Delete(gvr, owned.GetNamespace(), owned.GetName())
			w.collect(owned)
		}
	}
	w.collectClaims(owner.GetUID())
	for _, pod := range w.store.ownedBy(podsGVR, owner.GetUID()) {
		_ = c.CoreV1().Pods(pod.GetNamespace()).Delete(context.Background(), pod.GetName(), metav1.DeleteOptions{})
	}
}

func (w *world) outcome() *outcome {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.store.timeline.mu.Lock()
	defer w.store.timeline.mu.Unlock()
	came := &outcome{Count: 1, Timeline: w.store.timeline.events, Final: map[string]podAtEnd{}, Pending: []string{}, EndedAt: sinceStart()}
	for _, object := range w.store.sorted(podsGVR, "") {
		pod := object.(*v1.Pod)
		if w.store.ended[pod.UID] {
			continue
		}
		name := keyOf(pod).String()
		came.Final[name] = podAtEnd{pod.Spec.NodeName, pod.Status.NominatedNodeName, pod.DeletionTimestamp != nil}
		if pod.Spec.NodeName == "" {
			came.Pending = append(came.Pending, name)
		}
	}
	return came
}
