"""Rules about ResourceQuotas, and about Pods that ResourceQuotas limit."""
