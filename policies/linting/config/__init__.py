"""The configuration: severities and actions of rules, their options, and exemptions."""
