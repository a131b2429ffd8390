//go:build !kubernetes_1_34 && !kubernetes_1_35

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/volume/ephemeral"
	"k8s.io/kubernetes/pkg/controller/volume/persistentvolume"
	"k8s.io/kubernetes/pkg/controller/volume/pvcprotection"
)

var (
	claimsGVR  = v1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	volumesGVR = v1.SchemeGroupVersion.WithResource("persistentvolumes")
)

const (
	protection       = "kubernetes.io/pvc-protection"
	claimsSyncPeriod = 15 * time.Second
	usualWorkers     = 5
)

// loadStorage stores the claims and volumes of time 0 as their controllers would have left them.
func (s *store) loadStorage(from *scenario) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, class := range from.StorageClasses {
		s.stored(class)
	}
	for _, node := range from.CSINodes {
		s.stored(node)
	}
	claims := map[types.NamespacedName]types.UID{}
	for _, given := range from.PVCs {
		claim := given.DeepCopy()
		if claim.Namespace == "" {
			claim.Namespace = metav1.NamespaceDefault
		}
		claim.Finalizers = []string{protection}
		for i := range claim.OwnerReferences {
			ref := &claim.OwnerReferences[i]
			gvr := appsv1.SchemeGroupVersion.WithResource("statefulsets")
			if owner, err := s.get(gvr, claim.Namespace, ref.Name); err == nil && ref.Kind == "StatefulSet" {
				ref.UID = owner.GetUID()
			}
		}
		claims[keyOf(claim)] = s.stored(claim).GetUID()
	}
	for _, given := range from.PVs {
		volume := given.DeepCopy()
		if ref := volume.Spec.ClaimRef; ref != nil {
			ref.UID = claims[types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}]
		}
		s.stored(volume)
	}
}

// deleteClaim is DELETE: what is protected stays until its finalizer is gone.
func (s *store) deleteClaim(namespace, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.get(claimsGVR, namespace, name)
	if err != nil {
		return err
	}
	if len(old.GetFinalizers()) == 0 {
		s.remove(claimsGVR, old)
		return nil
	}
	if old.GetDeletionTimestamp() == nil {
		claim := old.DeepCopyObject().(apiObject)
		now := metav1.Time{Time: time.Now().Truncate(time.Second)}
		claim.SetDeletionTimestamp(&now)
		s.put(claimsGVR, claim)
	}
	return nil
}

func (c slowCore) PersistentVolumeClaims(namespace string) coreclient.PersistentVolumeClaimInterface {
	return slowClaims{c.CoreV1Interface.PersistentVolumeClaims(namespace), namespace, c.client}
}

func (c slowCore) PersistentVolumes() coreclient.PersistentVolumeInterface {
	return slowVolumes{c.CoreV1Interface.PersistentVolumes(), c.client}
}

type slowClaims struct {
	coreclient.PersistentVolumeClaimInterface
	namespace string
	client    *client
}

func (p slowClaims) Create(
	ctx context.Context, claim *v1.PersistentVolumeClaim, o metav1.CreateOptions,
) (*v1.PersistentVolumeClaim, error) {
	p.client.takes.write("create", p.namespace, claim.Name)
	return p.PersistentVolumeClaimInterface.Create(ctx, withDefaults(claim), o)
}

func (p slowClaims) Update(
	ctx context.Context, claim *v1.PersistentVolumeClaim, o metav1.UpdateOptions,
) (*v1.PersistentVolumeClaim, error) {
	p.client.takes.write("update", p.namespace, claim.Name)
	return p.PersistentVolumeClaimInterface.Update(ctx, claim, o)
}

func (p slowClaims) UpdateStatus(
	ctx context.Context, claim *v1.PersistentVolumeClaim, o metav1.UpdateOptions,
) (*v1.PersistentVolumeClaim, error) {
	p.client.takes.write("status", p.namespace, claim.Name)
	return p.PersistentVolumeClaimInterface.UpdateStatus(ctx, claim, o)
}

func (p slowClaims) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	p.client.takes.write("delete", p.namespace, name)
	return p.client.store.deleteClaim(p.namespace, name)
}

type slowVolumes struct {
	coreclient.PersistentVolumeInterface
	client *client
}

func (p slowVolumes) Create(ctx context.Context, volume *v1.PersistentVolume, o metav1.CreateOptions) (*v1.PersistentVolume, error) {
	p.client.takes.write("create", "", volume.Name)
	return p.PersistentVolumeInterface.Create(ctx, withDefaults(volume), o)
}

func (p slowVolumes) Update(ctx context.Context, volume *v1.PersistentVolume, o metav1.UpdateOptions) (*v1.PersistentVolume, error) {
	p.client.takes.write("update", "", volume.Name)
	return p.PersistentVolumeInterface.Update(ctx, volume, o)
}

func (p slowVolumes) UpdateStatus(ctx context.Context, volume *v1.PersistentVolume, o metav1.UpdateOptions) (*v1.PersistentVolume, error) {
	p.client.takes.write("status", "", volume.Name)
	return p.PersistentVolumeInterface.UpdateStatus(ctx, volume, o)
}

// newVolumeControllers wires the controllers of claims and volumes, and the provisioner of all classes.
func (w *world) newVolumeControllers(ctx context.Context, factory informers.SharedInformerFactory) (start func(), err error) {
	core, storage := factory.Core().V1(), factory.Storage().V1()
	volumes, err := persistentvolume.NewController(ctx, persistentvolume.ControllerParameters{
		KubeClient:                w.client("persistent volumes"),
		SyncPeriod:                claimsSyncPeriod,
		VolumeInformer:            core.PersistentVolumes(),
		ClaimInformer:             core.PersistentVolumeClaims(),
		ClassInformer:             storage.StorageClasses(),
		PodInformer:               core.Pods(),
		NodeInformer:              core.Nodes(),
		EnableDynamicProvisioning: true,
	})
	if err != nil {
		return nil, err
	}
	made, err := ephemeral.NewController(ctx, w.client("ephemeral volumes"), core.Pods(), core.PersistentVolumeClaims())
	if err != nil {
		return nil, err
	}
	protects, err := pvcprotection.NewPVCProtectionController(
		klog.FromContext(ctx), core.PersistentVolumeClaims(), core.Pods(), w.client("claim protection"))
	if err != nil {
		return nil, err
	}
	p := &provisioner{world: w, begun: map[types.UID]bool{}}
	look := func(object any) {
		if claim, ok := object.(*v1.PersistentVolumeClaim); ok {
			p.look(claim)
		}
	}
	_, err = core.PersistentVolumeClaims().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    look,
		UpdateFunc: func(_, object any) { look(object) },
	})
	return func() {
		w.goes(func() { volumes.Run(ctx) })
		w.goes(func() { made.Run(ctx, usualWorkers) })
		w.goes(func() { protects.Run(ctx, usualWorkers) })
	}, err
}

// provisioner makes a volume for each claim that the controller of volumes hands over to it. One whose driver says that its
// volumes depend on labels ties them to those of the node that the scheduler has chosen.
type provisioner struct {
	world *world
	mu    sync.Mutex
	begun map[types.UID]bool
}

func (p *provisioner) look(claim *v1.PersistentVolumeClaim) {
	if claim.Annotations[storagehelpers.AnnStorageProvisioner] == "" || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun[claim.UID] {
		p.begun[claim.UID] = true
		p.world.goes(func() { p.provision(claim.DeepCopy()) })
	}
}

func (p *provisioner) provision(claim *v1.PersistentVolumeClaim) {
	ctx, c := context.Background(), p.world.client("provisioner").CoreV1()
	name, _ := claim.Annotations[storagehelpers.AnnSelectedNode]
	node, err := p.world.store.Get(nodesGVR, "", name)
	if name != "" && err != nil {
		delete(claim.Annotations, storagehelpers.AnnSelectedNode)
		_, _ = c.PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.begun, claim.UID)
		return
	}
	volume := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-" + string(claim.UID),
			Annotations: map[string]string{
				storagehelpers.AnnDynamicallyProvisioned: claim.Annotations[storagehelpers.AnnStorageProvisioner],
			},
		},
		Spec: v1.PersistentVolumeSpec{
			Capacity:                      v1.ResourceList{v1.ResourceStorage: claim.Spec.Resources.Requests[v1.ResourceStorage]},
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			StorageClassName:              storagehelpers.GetPersistentVolumeClaimClass(claim),
			VolumeMode:                    claim.Spec.VolumeMode,
			ClaimRef: &v1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
				Driver: claim.Annotations[storagehelpers.AnnStorageProvisioner], VolumeHandle: string(claim.UID),
			}},
		},
	}
	if name != "" {
		volume.Spec.NodeAffinity = p.affinity(volume.Spec.CSI.Driver, node.(*v1.Node))
	}
	_, _ = c.PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
}

func (p *provisioner) affinity(driver string, node *v1.Node) *v1.VolumeNodeAffinity {
	found, err := p.world.store.Get(storagev1.SchemeGroupVersion.WithResource("csinodes"), "", node.Name)
	if err != nil {
		return nil
	}
	var terms []v1.NodeSelectorRequirement
	for _, installed := range found.(*storagev1.CSINode).Spec.Drivers {
		for _, key := range installed.TopologyKeys {
			if installed.Name == driver {
				terms = append(terms, v1.NodeSelectorRequirement{
					Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{node.Labels[key]},
				})
			}
		}
	}
	if terms == nil {
		return nil
	}
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: terms}}}}
}

// collectClaims deletes the claims of an owner that is gone, as the garbage collector does.
func (w *world) collectClaims(owner types.UID) {
	claims := w.client("garbage collector").CoreV1()
	for _, claim := range w.store.ownedBy(claimsGVR, owner) {
		_ = claims.PersistentVolumeClaims(claim.GetNamespace()).Delete(context.Background(), claim.GetName(), metav1.DeleteOptions{})
	}
}

// checkStorage refuses what the provisioner could not know.
func (s *scenario) checkStorage() error {
	for _, claim := range s.PVCs {
		if claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil {
			return fmt.Errorf("not a scenario: claim %s has a data source", claim.Name)
		}
	}
	return nil
}
