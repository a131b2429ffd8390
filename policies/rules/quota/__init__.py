"""Rules about quotas: ResourceQuotas, and pods that quotas limit."""
