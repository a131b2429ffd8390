"""From an AdmissionReview to the response: the endpoint, the decision, and the parts of a response."""
