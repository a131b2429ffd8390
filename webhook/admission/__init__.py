"""From an AdmissionReview to the response: the endpoint, the decision, and what answers are made of."""
