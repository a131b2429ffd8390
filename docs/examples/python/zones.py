"""Which Pods a Deployment preempts, and what each zone costs."""

import forewarn

cluster = forewarn.load("docs/examples/whatif/cluster.yaml")
print(cluster)

result = forewarn.predict(cluster, "docs/examples/test/till.yaml")
for prediction in result.predictions:
    print(prediction.pod.key, prediction.outcome, [victim.key for victim in prediction.victims])

for zone in cluster.zones:
    answer = forewarn.whatif(cluster, forewarn.LoseZone(zone))
    print(zone, answer.counters.lost, answer.counters.pending, [preemption.victim for preemption in answer.preemptions])
