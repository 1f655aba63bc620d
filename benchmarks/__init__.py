"""Speed and memory beside other libraries, as ratios measured in one run. Start with `python -m benchmarks --quick`."""
