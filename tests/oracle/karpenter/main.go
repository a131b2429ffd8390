// Command oracle answers cases of `forewarn autoscale --autoscaler karpenter` with Karpenter's own Provisioner, over a
// fake client and clock. It reads JSON lines from standard input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/samber/lo"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	clock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	fakeprovider "sigs.k8s.io/karpenter/pkg/cloudprovider/fake"
	"sigs.k8s.io/karpenter/pkg/controllers/dynamicresources/deviceallocation"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	scheduler "sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/test"
	"sigs.k8s.io/karpenter/pkg/test/v1alpha1"
)

type offering struct {
	Zone, CapacityType  string
	Price               float64
	Available           bool
	ReservationID       string `json:"reservationId"`
	ReservationCapacity int
}

type instanceType struct {
	Name               string
	Capacity, Overhead corev1.ResourceList
	Requirements       map[string]any
	Offerings          []offering
	NodePools          []string `json:"nodepools"`
}

type testCase struct {
	ID            string `json:"id"`
	Nodes         []corev1.Node
	NodeClaims    []v1.NodeClaim
	Pods, Pending []corev1.Pod
	DaemonSets    []appsv1.DaemonSet
	NodePools     []v1.NodePool
	Namespaces    []corev1.Namespace
	InstanceTypes []instanceType
	Objects       []json.RawMessage
	Options       struct {
		PreferencePolicy, MinValuesPolicy string
	}
}

type claim struct {
	NodePool          string   `json:"nodepool"`
	Pods              []string `json:"pods"`
	InstanceTypes     []string `json:"instanceTypes"`
	InstanceTypeCount int      `json:"instanceTypeCount"`
	Zones             []string `json:"zones"`
	CapacityTypes     []string `json:"capacityTypes"`
	Requests          any      `json:"requests"`
	CreateError       string   `json:"createError,omitempty"`
}

type onNode struct {
	Node string   `json:"node"`
	Pods []string `json:"pods"`
}

type answer struct {
	ID            string            `json:"id,omitempty"`
	NewNodeClaims []claim           `json:"newNodeClaims"`
	Existing      []onNode          `json:"existing"`
	PodErrors     map[string]string `json:"podErrors"`
	Ignored       []string          `json:"ignored"`
	Error         string            `json:"error,omitempty"`
	Runs          int               `json:"runs,omitempty"`
	Distinct      int               `json:"distinct,omitempty"`
	Outcomes      []answer          `json:"outcomes,omitempty"`
}

// A real client ignores the namespace of cluster-scoped objects; upstream relies on it for PersistentVolumes.
type realClient struct{ client.Client }

func (c realClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, ok := obj.(*corev1.PersistentVolume); ok && *realVolumes {
		key.Namespace = ""
	}
	return c.Client.Get(ctx, key, obj, opts...)
}

type provider struct {
	*fakeprovider.CloudProvider
	types []instanceType
}

func (p provider) GetInstanceTypes(_ context.Context, np *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	var its []*cloudprovider.InstanceType
	for _, t := range p.types {
		if t.NodePools == nil || slices.Contains(t.NodePools, np.Name) {
			its = append(its, build(t))
		}
	}
	return its, nil
}

func build(t instanceType) *cloudprovider.InstanceType {
	in := func(key string, values ...string) *scheduling.Requirement {
		return scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, values...)
	}
	var offerings cloudprovider.Offerings
	values := map[string][]string{corev1.LabelTopologyZone: {}, v1.CapacityTypeLabelKey: {}}
	for _, o := range t.Offerings {
		reqs := scheduling.NewRequirements(in(corev1.LabelTopologyZone, o.Zone), in(v1.CapacityTypeLabelKey, o.CapacityType))
		if o.CapacityType == v1.CapacityTypeReserved {
			reqs.Add(in(cloudprovider.ReservationIDLabel, o.ReservationID))
		}
		if o.Available {
			values[corev1.LabelTopologyZone] = append(values[corev1.LabelTopologyZone], o.Zone)
			values[v1.CapacityTypeLabelKey] = append(values[v1.CapacityTypeLabelKey], o.CapacityType)
			if o.CapacityType == v1.CapacityTypeReserved {
				values[cloudprovider.ReservationIDLabel] = append(values[cloudprovider.ReservationIDLabel], o.ReservationID)
			}
		}
		offerings = append(offerings, &cloudprovider.Offering{Requirements: reqs, Price: o.Price, Available: o.Available, ReservationCapacity: o.ReservationCapacity})
	}
	values[corev1.LabelInstanceTypeStable] = []string{t.Name}
	for key, value := range map[string]any{corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux"} {
		if _, ok := t.Requirements[key]; !ok {
			values[key] = []string{value.(string)}
		}
	}
	for key, value := range t.Requirements {
		if list, ok := value.([]any); ok {
			values[key] = lo.Map(list, func(v any, _ int) string { return v.(string) })
		} else {
			values[key] = []string{value.(string)}
		}
	}
	reqs := scheduling.NewRequirements()
	for key, list := range values {
		reqs.Add(in(key, list...))
	}
	return &cloudprovider.InstanceType{Name: t.Name, Requirements: reqs, Offerings: offerings, Capacity: t.Capacity, Overhead: &cloudprovider.InstanceTypeOverhead{KubeReserved: t.Overhead}}
}

var (
	repeat      = flag.Int("repeat", 12, "runs of each case")
	realVolumes = flag.Bool("real-volumes", true, "find PersistentVolumes as a real client does")
	placeholder = regexp.MustCompile(`hostname-placeholder-[0-9]+`)
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// world is the cluster of a case as Karpenter sees it.
type world struct {
	c       testCase
	ctx     context.Context
	client  client.Client
	cluster *state.Cluster
	prov    *provisioning.Provisioner
}

func load(line []byte) world {
	var c testCase
	must(json.Unmarshal(line, &c))
	ctx := options.ToContext(context.Background(), test.Options(test.OptionsFields{
		CPURequests:      lo.ToPtr(int64(1000)),
		PreferencePolicy: lo.ToPtr(lo.Ternary(c.Options.PreferencePolicy == "Ignore", options.PreferencePolicyIgnore, options.PreferencePolicyRespect)),
		MinValuesPolicy:  lo.ToPtr(lo.Ternary(c.Options.MinValuesPolicy == "BestEffort", options.MinValuesPolicyBestEffort, options.MinValuesPolicyStrict)),
	}))
	var objects []client.Object
	add := func(o client.Object) { objects = append(objects, o) }
	for i := range c.Nodes {
		add(&c.Nodes[i])
	}
	for i := range c.NodeClaims {
		add(&c.NodeClaims[i])
	}
	for i := range c.Pods {
		add(&c.Pods[i])
	}
	for i := range c.Pending {
		add(&c.Pending[i])
	}
	for i := range c.DaemonSets {
		add(&c.DaemonSets[i])
	}
	for i := range c.NodePools {
		if len(c.NodePools[i].Status.Conditions) == 0 {
			c.NodePools[i].StatusConditions().SetTrue(status.ConditionReady)
			c.NodePools[i].StatusConditions().SetTrue(v1.ConditionTypeValidationSucceeded)
			c.NodePools[i].StatusConditions().SetTrue(v1.ConditionTypeNodeClassReady)
		}
		add(&c.NodePools[i])
	}
	if !lo.ContainsBy(c.Namespaces, func(n corev1.Namespace) bool { return n.Name == "default" }) {
		c.Namespaces = append(c.Namespaces, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	}
	for i := range c.Namespaces {
		add(&c.Namespaces[i])
	}
	for _, raw := range c.Objects {
		var meta metav1.TypeMeta
		must(json.Unmarshal(raw, &meta))
		o := map[string]client.Object{
			"PersistentVolumeClaim": &corev1.PersistentVolumeClaim{}, "PersistentVolume": &corev1.PersistentVolume{},
			"StorageClass": &storagev1.StorageClass{}, "CSINode": &storagev1.CSINode{}, "PodDisruptionBudget": &policyv1.PodDisruptionBudget{},
		}[meta.Kind]
		must(json.Unmarshal(raw, o))
		add(o)
	}
	for _, o := range objects {
		if !o.GetDeletionTimestamp().IsZero() && len(o.GetFinalizers()) == 0 {
			o.SetFinalizers([]string{"example.com/keep"})
		}
	}
	fakeClient := realClient{fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).
		WithStatusSubresource(&v1.NodePool{}, &v1.NodeClaim{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithIndex(&corev1.Node{}, "spec.providerID", func(o client.Object) []string { return []string{o.(*corev1.Node).Spec.ProviderID} }).
		Build()}
	clk := clock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	cp := provider{fakeprovider.NewCloudProvider(), c.InstanceTypes}
	cluster := state.NewCluster(clk, fakeClient, cp)
	for i := range c.NodeClaims {
		if ref := c.NodeClaims[i].Spec.NodeClassRef; ref.Kind == "TestNodeClass" {
			cluster.UpdateNodeClaim(c.NodeClaims[i].DeepCopy())
		}
	}
	for i := range c.Nodes {
		_ = cluster.UpdateNode(ctx, c.Nodes[i].DeepCopy()) // fails without the volume of a Pod; the state is not synced then
	}
	for i := range c.Pods {
		_ = cluster.UpdatePod(ctx, c.Pods[i].DeepCopy())
	}
	for i := range c.DaemonSets {
		must(cluster.UpdateDaemonSet(ctx, &c.DaemonSets[i]))
	}
	prov := provisioning.NewProvisioner(fakeClient, events.NewRecorder(&record.FakeRecorder{}), cp, cluster, clk, deviceallocation.NewController(fakeClient))
	return world{c, ctx, fakeClient, cluster, prov}
}

func run(line []byte) (a answer) {
	w := load(line)
	c, ctx, fakeClient, cluster, prov := w.c, w.ctx, w.client, w.cluster, w.prov
	pending := lo.Must(prov.GetPendingPods(ctx))
	taken := map[types.UID]bool{}
	for _, p := range pending {
		taken[p.UID] = true
	}
	a = answer{ID: c.ID, NewNodeClaims: []claim{}, Existing: []onNode{}, PodErrors: map[string]string{}, Ignored: []string{}}
	for _, p := range c.Pending {
		if !taken[p.UID] {
			a.Ignored = append(a.Ignored, p.Name)
		}
	}
	sort.Strings(a.Ignored)
	if !cluster.Synced(ctx) {
		a.Error = "cluster state not synced: the provisioner waits"
		return a
	}
	results, err := prov.Schedule(ctx)
	if err != nil {
		a.Error = err.Error()
		return a
	}
	names := func(pods []*corev1.Pod) []string {
		list := lo.Map(pods, func(p *corev1.Pod, _ int) string { return p.Name })
		sort.Strings(list)
		return list
	}
	for p, err := range results.PodErrors {
		a.PodErrors[p.Name] = placeholder.ReplaceAllString(err.Error(), "hostname-placeholder")
	}
	for _, n := range results.ExistingNodes {
		if len(n.Pods) > 0 {
			a.Existing = append(a.Existing, onNode{n.Name(), names(n.Pods)})
		}
	}
	sort.Slice(a.Existing, func(i, j int) bool { return a.Existing[i].Node < a.Existing[j].Node })
	for _, n := range results.NewNodeClaims {
		a.NewNodeClaims = append(a.NewNodeClaims, show(ctx, n, fakeClient, cluster, names(n.Pods)))
	}
	sort.Slice(a.NewNodeClaims, func(i, j int) bool { return fmt.Sprint(a.NewNodeClaims[i].Pods) < fmt.Sprint(a.NewNodeClaims[j].Pods) })
	return a
}

func show(ctx context.Context, n *scheduler.NodeClaim, c client.Client, cluster *state.Cluster, pods []string) claim {
	price := func(it *cloudprovider.InstanceType) float64 {
		lowest := 1e9
		for _, o := range it.Offerings.Available().Compatible(n.Requirements) {
			lowest = min(lowest, o.Price)
		}
		return lowest
	}
	its := slices.Clone(n.InstanceTypeOptions)
	sort.Slice(its, func(i, j int) bool {
		if a, b := price(its[i]), price(its[j]); a != b {
			return a < b
		}
		return its[i].Name < its[j].Name
	})
	var zones, capacityTypes []string
	for _, it := range its {
		for _, o := range it.Offerings.Available().Compatible(n.Requirements) {
			zones, capacityTypes = append(zones, o.Zone()), append(capacityTypes, o.CapacityType())
		}
	}
	sort.Strings(zones)
	sort.Strings(capacityTypes)
	shown := claim{
		NodePool: n.NodePoolName, Pods: pods, InstanceTypeCount: len(its), Requests: n.Spec.Resources.Requests,
		InstanceTypes: lo.Map(its[:min(len(its), 10)], func(it *cloudprovider.InstanceType, _ int) string { return it.Name }),
		Zones:         slices.Compact(zones), CapacityTypes: slices.Compact(capacityTypes),
	}
	var np v1.NodePool
	must(c.Get(ctx, types.NamespacedName{Name: n.NodePoolName}, &np))
	if err := np.Spec.Limits.ExceededBy(cluster.NodePoolResourcesFor(n.NodePoolName)); err != nil {
		shown.CreateError = err.Error()
	}
	return shown
}

func main() {
	flag.Parse()
	reservation := "karpenter.k8s.aws/capacity-reservation-id"
	cloudprovider.ReservationIDLabel = reservation
	v1.WellKnownLabels.Insert(reservation)
	for _, what := range []string{"category", "family", "generation", "size", "cpu", "memory"} {
		v1.WellKnownLabels.Insert("karpenter.k8s.aws/instance-" + what)
	}
	_ = v1alpha1.TestNodeClass{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<28)
	for lines.Scan() {
		text := strings.ReplaceAll(lines.Text(), "EC2NodeClass", "TestNodeClass")
		text = regexp.MustCompile(`"group": ?"karpenter.k8s.aws"`).ReplaceAllString(text, `"group":"karpenter.test.sh"`)
		counts, outcomes := map[string]int{}, map[string]answer{}
		for range *repeat {
			a := run([]byte(text))
			b := a
			b.PodErrors = lo.MapValues(a.PodErrors, func(string, string) string { return "" })
			key := string(lo.Must(json.Marshal(b)))
			counts[key]++
			outcomes[key] = a
		}
		keys := lo.Keys(counts)
		sort.Slice(keys, func(i, j int) bool { return counts[keys[i]] > counts[keys[j]] })
		first := outcomes[keys[0]]
		first.Runs, first.Distinct = *repeat, len(keys)
		if len(keys) > 1 {
			first.Outcomes = lo.Map(keys, func(k string, _ int) answer { return outcomes[k] })
		}
		fmt.Println(string(lo.Must(json.Marshal(first))))
	}
	must(lines.Err())
}
