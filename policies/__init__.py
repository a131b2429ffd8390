"""What is true about pod priority: rules and the scheduling core. No network, no threads, no clock."""
