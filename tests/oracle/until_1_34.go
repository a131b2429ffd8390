//go:build kubernetes_1_34

package main

import (
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// What Kubernetes up to 1.34 names or calls otherwise than later releases.

type nodePluginScores = framework.NodePluginScores

// classesKnown: classes are looked up in the informer's store, which is filled.
func classesKnown(framework.Framework, []*resourcev1.DeviceClass) bool {
	return true
}

// tellOfVolumes gives the factory informers of volumes and claims that tell their handlers when they are filled:
// VolumeBinding keeps what it has been told of in a cache of its own.
func tellOfVolumes(factory informers.SharedInformerFactory) {
	index := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	factory.InformerFor(&v1.PersistentVolume{}, func(client kubernetes.Interface, _ time.Duration) cache.SharedIndexInformer {
		return &telling{SharedIndexInformer: coreinformers.NewPersistentVolumeInformer(client, 0, index)}
	})
	factory.InformerFor(&v1.PersistentVolumeClaim{}, func(client kubernetes.Interface, _ time.Duration) cache.SharedIndexInformer {
		return &telling{SharedIndexInformer: coreinformers.NewPersistentVolumeClaimInformer(client, "", 0, index)}
	})
}

// telling is an informer that does not run, and tells its handlers of an object at once.
type telling struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

func (t *telling) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	t.handlers = append(t.handlers, handler)
	return t.SharedIndexInformer.AddEventHandler(handler)
}

func (t *telling) tell(object any) {
	for _, handler := range t.handlers {
		handler.OnAdd(object, false)
	}
}
