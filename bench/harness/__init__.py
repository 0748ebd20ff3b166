"""What bench/run is made of: engines that are measured, the machine, the check of results, the report."""
