// Karpenter with its kwok provider, as kwok/main.go of upstream starts it, but instance types are read again when their file changes, so that
// offerings may go while it runs. The argument `crds` prints the CustomResourceDefinitions instead.
package main

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kwokapis "sigs.k8s.io/karpenter/kwok/apis"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	"sigs.k8s.io/karpenter/kwok/options"
	"sigs.k8s.io/karpenter/pkg/apis"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"
)

// provider is upstream's, made anew when the file of instance types has changed: making them writes to a map that other controllers read.
type provider struct {
	cloudprovider.CloudProvider
	client  client.Client
	mutex   sync.Mutex
	made    time.Time
	current cloudprovider.CloudProvider
}

func (p *provider) now(ctx context.Context) (cloudprovider.CloudProvider, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	file, err := os.Stat(options.FromContext(ctx).InstanceTypesFilePath)
	if err != nil || file.ModTime().Equal(p.made) {
		return p.current, err
	}
	types, err := kwok.ConstructInstanceTypes(ctx)
	p.made, p.current = file.ModTime(), kwok.NewCloudProvider(ctx, p.client, types)
	return p.current, err
}

func (p *provider) Create(ctx context.Context, claim *v1.NodeClaim) (*v1.NodeClaim, error) {
	now, err := p.now(ctx)
	if err != nil {
		return nil, err
	}
	made, err := now.Create(ctx, claim)
	if err != nil {
		return nil, err
	}
	types, err := now.GetInstanceTypes(ctx, nil)
	for _, each := range types {
		if each.Name == made.Labels[corev1.LabelInstanceTypeStable] {
			made.Status.Capacity = each.Capacity // upstream's: what its Pods request, which NodePools' limits do not count
		}
	}
	return made, err
}

func (p *provider) GetInstanceTypes(ctx context.Context, pool *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	now, err := p.now(ctx)
	if err != nil {
		return nil, err
	}
	return now.GetInstanceTypes(ctx, pool)
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "crds" {
		lo.Must0(json.NewEncoder(os.Stdout).Encode(append(apis.CRDs, kwokapis.CRDs...)))
		return
	}
	ctx, op := operator.NewOperator()
	client := op.GetClient()
	raw := &provider{CloudProvider: kwok.NewCloudProvider(ctx, client, nil), client: client}
	decorated := overlay.Decorate(raw, client, op.InstanceTypeStore)
	cluster := state.NewCluster(op.Clock, client, decorated)
	op.WithControllers(ctx, controllers.NewControllers(
		ctx, op.Manager, op.Clock, client, op.EventRecorder, decorated, raw, cluster, op.InstanceTypeStore,
	)...).Start(ctx)
}
